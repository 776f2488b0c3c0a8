//! Rules for types may have any contents, and so may the memory that they are used on: collection is bounded, and printing ends.

use std::cell::Cell;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use tempfile::TempDir;
use tracewire_agent_expr::{Evaluation, EvaluationErrorKind, Request};
use tracewire_debuginfo::{Symbols, TypeRules};
use tracewire_expr::{CollectOptions, PrintOptions, State, TypeWalks, compile_collect, evaluate};
use tracewire_model::{Action, Address, RegisterNumber, VariableNumber};

const PROGRAM: &str = "
struct thing { struct thing *a, *b, *c; char *text; long n; unsigned char flag; struct thing *list[4]; };
struct thing global;
int main (void) { return 0; }
";

struct Program {
    _directory: TempDir,
    path: std::path::PathBuf,
}

fn symbols() -> (Symbols, Address) {
    static BUILT: OnceLock<Program> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("things");
        let mut compiler = Command::new("cc")
            .args(["-g", "-O0", "-no-pie", "-x", "c", "-", "-o"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut source = compiler.stdin.take().unwrap();
        source.write_all(PROGRAM.as_bytes()).unwrap();
        drop(source);
        assert!(compiler.wait().unwrap().success());
        Program {
            _directory: directory,
            path,
        }
    });
    let mut symbols = Symbols::new();
    symbols.add_module(&built.path, 0).unwrap();
    let pc = symbols.resolve("main", None).unwrap()[0].address;
    (symbols, pc)
}

/// Where all good pointers go.
const ARENA: u64 = 0x1000_0000;
const ARENA_BYTES: u64 = 1 << 14;

/// Memory in which everything points to everything, made from a seed.
struct Memory {
    seed: u64,
    pc: Address,
    /// Where the variable is.
    global: u64,
}

impl Memory {
    fn byte(&self, address: u64) -> Option<u8> {
        let in_arena = address.wrapping_sub(ARENA) < ARENA_BYTES;
        if !in_arena && address.wrapping_sub(self.global) >= 4096 {
            return None;
        }
        let word = (address / 8)
            .wrapping_add(self.seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = word ^ word >> 29;
        let value = match word % 16 {
            0 => 0,
            1 | 2 => word >> 32 & 63,
            3 => u64::MAX - (word >> 40),
            4 => word,
            5 => self.global,
            _ => ARENA + (word >> 20) % ARENA_BYTES / 8 * 8,
        };
        value.to_le_bytes().get((address % 8) as usize).copied()
    }

    fn number(&self, address: u64, size: u8) -> Option<u64> {
        let mut number = 0;
        for offset in (0..u64::from(size)).rev() {
            number = number << 8 | u64::from(self.byte(address.wrapping_add(offset))?);
        }
        Some(number)
    }
}

impl State for Memory {
    fn pc(&self) -> Address {
        self.pc
    }

    fn register(&self, _: RegisterNumber) -> Option<Vec<u8>> {
        Some(vec![0; 8])
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        for (offset, (byte, known)) in (0..).zip(bytes.iter_mut().zip(known)) {
            if let Some(found) = self.byte(address.0.wrapping_add(offset)) {
                (*byte, *known) = (found, true);
            }
        }
    }

    fn variable(&self, _: &str) -> Option<i64> {
        None
    }
}

const EXPRESSIONS: &[&str] = &[
    "a",
    "b",
    "c",
    "text",
    "n",
    "flag",
    "list",
    "list[1]",
    "&a",
    "&a + 1",
    "a + n",
    "*a",
    "*$this",
    "$this",
    "$node",
    "*$node",
    "$node->a",
    "$node->b",
    "$node->c",
    "$node->n",
    "&$node->list",
    "$node->list[$index]",
    "$index",
    "0",
    "1",
    "12",
    "n * 2",
    "1000000000000",
    "-1",
    "(long)a",
    "a->b->c",
    "(char*)$node + 8",
    "*(struct thing*)a",
    "n ? a : b",
    "a - b",
    "n / flag",
];

const KINDS: &[(&str, &[&str])] = &[
    ("string", &["data", "length"]),
    ("string", &["data", "end"]),
    ("sequence", &["first", "length"]),
    ("sequence", &["first", "end"]),
    ("ring", &["first", "capacity", "start", "length"]),
    ("blocks", &["blocks", "block_length", "start", "length"]),
    ("list", &["first", "next", "element"]),
    ("list", &["first", "next", "key", "value", "end", "length"]),
    (
        "tree",
        &["root", "left", "right", "parent", "length", "element"],
    ),
    (
        "tree",
        &["root", "left", "right", "parent", "length", "key", "value"],
    ),
    (
        "table",
        &["control", "entries", "mask", "length", "element"],
    ),
    (
        "btree",
        &[
            "root",
            "height",
            "length",
            "size",
            "parent",
            "parent_index",
            "edges",
            "element",
        ],
    ),
    ("optional", &["present", "value"]),
    ("pointer", &["pointer"]),
    ("newtype", &["value"]),
    ("duration", &["seconds", "nanoseconds"]),
    ("structure", &["x", "y"]),
    ("tuple", &["0", "1", "2"]),
];

/// Any rule for `struct thing`.
fn rule() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(KINDS);
    let expressions = prop::collection::vec(prop::sample::select(EXPRESSIONS), 8);
    (kind, expressions).prop_map(|((kind, keys), expressions)| {
        let keys: Vec<String> = (keys.iter().zip(expressions))
            .map(|(key, expression)| format!("{key} = {expression}\n"))
            .collect();
        format!("type thing\n{kind}\n{}", keys.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn any_rule_collects_little_and_shows_something(
        rules in prop::collection::vec(rule(), 1..4), seed in any::<u64>(),
    ) {
        let (mut symbols, pc) = symbols();
        let mut all = TypeRules::none();
        all.add_before(&rules.concat(), "my.types").unwrap();
        symbols.set_type_rules(Arc::new(all));
        let nothing = |_: &str| None::<VariableNumber>;
        let (actions, _) =
            compile_collect(&symbols, pc, "global", CollectOptions::default(), &nothing).unwrap();
        let global = actions.iter().find_map(|action| match action {
            Action::Memory { offset, .. } => Some(*offset),
            _ => None,
        });
        let memory = Memory { seed, pc, global: global.unwrap() };
        let (mut bytes, mut pieces) = (0_u64, 0);
        for action in &actions {
            let Action::Expression(program) = action else { continue };
            let mut evaluation = Evaluation::new();
            let mut request = evaluation.start(program);
            loop {
                let answer = match request {
                    Ok(Request::Done(_)) => break,
                    Ok(Request::Memory { address, size }) => memory.number(address, size),
                    Ok(Request::CollectMemory { length, .. }) => {
                        prop_assert!(length <= 16 << 10, "{length} bytes at once");
                        bytes += length;
                        pieces += u64::from(length > 0);
                        Some(0)
                    }
                    Ok(_) => Some(0),
                    Err(error) => {
                        let memory = matches!(
                            error.kind,
                            EvaluationErrorKind::BadMemory { .. } | EvaluationErrorKind::DivisionByZero
                        );
                        prop_assert!(memory, "{error}");
                        break;
                    }
                };
                request = evaluation.resume(program, answer);
            }
        }
        prop_assert!(bytes <= 64 << 10, "{bytes} bytes");
        prop_assert!(pieces <= 2000, "{pieces} pieces");
        let value = evaluate(&symbols, &memory, "global").unwrap();
        let walks = TypeWalks::new(&symbols);
        let shown = value.display(&walks, &memory, &PrintOptions::default());
        prop_assert!(!shown.is_empty() && shown.len() < 5 << 20);
    }

    #[test]
    fn no_text_makes_the_reader_of_rules_panic(text in "(type [a-z*<>]{0,8}\n|[a-z]{1,9}\n|[a-z_]{1,9} ?= ?\\PC{0,12}\n|\\PC{0,16}\n){0,12}") {
        let _ = TypeRules::none().add_before(&text, "my.types");
    }
}

/// The memory, and how many bytes have been read of it.
struct Counted(Memory, Cell<usize>);

impl State for Counted {
    fn pc(&self) -> Address {
        self.0.pc()
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        self.0.register(register)
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        self.1.set(self.1.get() + bytes.len());
        assert!(self.1.get() < 32 << 20, "too much is read for one value");
        self.0.memory(address, bytes, known);
    }

    fn variable(&self, name: &str) -> Option<i64> {
        self.0.variable(name)
    }
}

/// A rule may define each value as a large array of values with such a rule.
#[test]
fn what_a_value_is_read_from_is_bounded() {
    let (mut symbols, pc) = symbols();
    let mut rules = TypeRules::none();
    let text = format!("type *\nnewtype\nvalue = *(int*){ARENA}@8000\n");
    rules.add_before(&text, "my.types").unwrap();
    symbols.set_type_rules(Arc::new(rules));
    let memory = Memory {
        seed: 1,
        pc,
        global: 0,
    };
    let memory = Counted(memory, Cell::new(0));
    let value = evaluate(&symbols, &memory, "(int)1").unwrap();
    let walks = TypeWalks::new(&symbols);
    let shown = value.display(&walks, &memory, &PrintOptions::default());
    assert!(shown.contains("..."), "{shown}");
}
