//! Properties of expressions: the bytecode computes the same as the evaluation of a saved state, enough is collected, and no text
//! makes either panic.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use proptest::prelude::*;
use tempfile::TempDir;
use tracewire_agent_expr::{Context, Evaluation};
use tracewire_debuginfo::Symbols;
use tracewire_expr::{
    CollectOptions, ExpressionErrorKind, NamedValue, PreparedItem, PrintOptions, State,
    compile_collect, compile_condition, evaluate, expand, split_items,
};
use tracewire_model::{Action, Address, RegisterNumber, VariableNumber};

const PROGRAM: &str = r#"
struct pair { int first; unsigned char second; struct pair *next; unsigned bits : 5; int low : 7; };
enum color { RED, GREEN };
char gc; unsigned long gul; struct pair gp; int ga[8];
int look (char c, signed char sc, unsigned char uc, short s, unsigned short us, int i, unsigned u)
{
  long l = i; unsigned long ul = u; long long ll = s; _Bool b = c; float f = i; double d = u;
  struct pair p = gp; struct pair *q = &gp; int a[4] = {1}; char *t = &gc;
  return l + ul + ll + b + f + d + p.first + q->first + a[0] + *t + sc + uc + us; /* here */
}
int main (void) { enum color color = RED; return color + look (1, 2, 3, 4, 5, 6, 7); }
"#;

struct Program {
    _folder: TempDir,
    path: std::path::PathBuf,
    pc: Address,
}

/// Built once. `Symbols` serve one thread, so each test reads them again.
fn program() -> &'static Program {
    static PROGRAM_FILE: OnceLock<Program> = OnceLock::new();
    PROGRAM_FILE.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("numbers");
        let mut compiler = Command::new("cc")
            .args(["-g", "-O0", "-fno-omit-frame-pointer", "-x", "c", "-", "-o"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        compiler
            .stdin
            .take()
            .unwrap()
            .write_all(PROGRAM.as_bytes())
            .unwrap();
        assert!(compiler.wait().unwrap().success());
        let mut symbols = Symbols::new();
        symbols.add_module(&path, 0).unwrap();
        let pc = symbols.resolve("look", None).unwrap()[0].address;
        Program {
            _folder: folder,
            path,
            pc,
        }
    })
}

thread_local! {
    static SYMBOLS: Symbols = {
        let mut symbols = Symbols::new();
        symbols.add_module(&program().path, 0).unwrap();
        symbols
    };
}

/// Registers and memory made from a seed: every byte exists, and all differ.
struct Noise {
    seed: u64,
    /// The parts that were read, if that is recorded; else everything may be read.
    only: Option<(BTreeSet<u64>, BTreeSet<u16>)>,
    collected: RefCell<BTreeSet<u64>>,
}

impl Noise {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            only: None,
            collected: RefCell::default(),
        }
    }

    fn mix(&self, number: u64) -> u64 {
        let mixed = (number ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
    }

    /// Small numbers, zeros and ones are as likely as others.
    fn byte(&self, address: u64) -> u8 {
        let mixed = self.mix(address);
        let word = self.mix(address & !7) % 4;
        match (word, address & 7) {
            (0, 1..) => 0,
            (1, _) => 0xff,
            _ => (mixed >> 17) as u8,
        }
    }
}

impl State for Noise {
    fn pc(&self) -> Address {
        program().pc
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        let known = self
            .only
            .as_ref()
            .is_none_or(|(_, registers)| registers.contains(&register.0));
        known.then(|| self.mix(u64::from(register.0) << 40).to_le_bytes().to_vec())
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        for (offset, (byte, known)) in bytes.iter_mut().zip(known).enumerate() {
            let at = address.0.wrapping_add(offset as u64);
            *known = self
                .only
                .as_ref()
                .is_none_or(|(bytes, _)| bytes.contains(&at));
            *byte = if *known { self.byte(at) } else { 0 };
        }
    }

    fn variable(&self, name: &str) -> Option<i64> {
        (name == "count").then_some(self.seed as i64)
    }
}

impl Context for Noise {
    fn register(&mut self, register: u16) -> Option<u64> {
        Some(self.mix(u64::from(register) << 40))
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        let bytes = (0..u64::from(size))
            .rev()
            .map(|offset| self.byte(address.wrapping_add(offset)));
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(byte)))
    }

    fn variable(&mut self, number: u16) -> i64 {
        if number == 1 { self.seed as i64 } else { 0 }
    }

    fn set_variable(&mut self, _: u16, _: i64) {}

    fn collect_memory(&mut self, address: u64, length: u64) {
        self.collected
            .borrow_mut()
            .extend((0..length).map(|offset| address.wrapping_add(offset)));
    }
}

fn variables(name: &str) -> Option<VariableNumber> {
    (name == "count").then_some(VariableNumber(1))
}

/// Expressions of integers and pointers, in C.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(&[
            "c", "sc", "uc", "s", "us", "i", "u", "l", "ul", "ll", "b", "gc", "gul", "p.first", "p.second", "p.bits",
            "p.low", "q->first", "q->second", "q->low", "gp.bits", "a[1]", "ga[3]", "*t", "t[1]", "q->next->first",
            "$count", "(long) q", "((long) &p - (long) q)", "$rax", "$eax", "sizeof p", "(&ga[2] - ga)", "*(a + 2)",
        ][..]).prop_map(str::to_owned),
        1 => any::<i32>().prop_map(|number| format!("({number})")),
        1 => (0_u32..80).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| format!("{number:#x}")),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let binary = prop::sample::select(
            &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||"][..],
        );
        let cast = prop::sample::select(
            &["char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "_Bool"][..],
        );
        prop_oneof![
            6 => (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => inner.clone().prop_map(|a| format!("(- {a})")),
            1 => inner.clone().prop_map(|a| format!("(~ {a})")),
            1 => inner.clone().prop_map(|a| format!("! {a}")),
            2 => (cast, inner.clone()).prop_map(|(to, a)| format!("(({to}) {a})")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("(0 + ({a} ? {b} : {c}))")),
            1 => inner.clone().prop_map(|a| format!("ga[{a} & 7]")),
            1 => inner.prop_map(|a| format!("q[{a} % 3].first")),
        ]
    })
}

fn check(text: &str, seed: u64) -> Result<(), TestCaseError> {
    SYMBOLS.with(|symbols| {
        let noise = Noise::new(seed);
        let value = evaluate(symbols, &noise, text);
        let program = match compile_condition(symbols, noise.pc(), text, &variables) {
            Ok(program) => program,
            Err(error) => {
                prop_assert!(
                    matches!(error.kind(), ExpressionErrorKind::TooLarge(_)),
                    "{text}: {error}\n{}",
                    error.underlined()
                );
                return Ok(());
            }
        };
        let result = Evaluation::new().evaluate(&program, &mut Noise::new(seed));
        match &value {
            Ok(value) => {
                let number = value.as_integer(symbols).unwrap() as i64;
                prop_assert_eq!(result, Ok(Some(number as u64)), "{}", text);
            }
            Err(error) => {
                prop_assert_eq!(
                    error.kind(),
                    &ExpressionErrorKind::DivisionByZero,
                    "{}",
                    text
                );
                prop_assert!(result.is_err(), "{}: {:?}", text, result);
                return Ok(());
            }
        }
        // The collected data is enough to evaluate it.
        let Ok((actions, _)) = compile_collect(
            symbols,
            noise.pc(),
            text,
            CollectOptions::default(),
            &variables,
        ) else {
            return Ok(());
        };
        let mut collector = Noise::new(seed);
        let mut registers = BTreeSet::new();
        for action in &actions {
            match action {
                Action::Registers(mask) => registers.extend(mask.iter().map(|register| register.0)),
                Action::Memory { offset, length, .. } => collector.collect_memory(*offset, *length),
                Action::Expression(program) => {
                    let result = Evaluation::new().evaluate(program, &mut collector);
                    prop_assert!(result.is_ok(), "{}: {:?}", text, result);
                }
                Action::StaticData => {}
            }
        }
        let frame = Noise {
            only: Some((collector.collected.take(), registers)),
            ..Noise::new(seed)
        };
        let again = evaluate(symbols, &frame, text);
        let number = |value: &tracewire_expr::Value| value.as_integer(symbols);
        prop_assert_eq!(
            again.as_ref().ok().map(number),
            value.as_ref().ok().map(number),
            "{}",
            text
        );
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytecode_and_evaluation_agree(text in expression(), seed in any::<u64>()) {
        check(&text, seed)?;
    }

    /// A prepared expression is valid for every state: nothing of the previous one remains in it.
    #[test]
    fn a_prepared_expression_evaluates_as_a_new_one(
        text in prop_oneof![expression(), Just("$args".to_owned()), Just("$locals".to_owned()), Just("$_ret".to_owned())],
        seeds in any::<[u64; 3]>(),
    ) {
        SYMBOLS.with(|symbols| {
            let prepared = PreparedItem::new(symbols, program().pc, &text);
            for seed in seeds {
                let noise = Noise::new(seed);
                let shown = |values: Vec<NamedValue>| -> Vec<String> {
                    let show = |named: NamedValue| match named.value {
                        Ok(value) => value.print(symbols, &noise, &PrintOptions::default()),
                        Err(error) => error.to_string(),
                    };
                    values.into_iter().map(show).collect()
                };
                assert_eq!(shown(prepared.expand(&noise)), shown(expand(symbols, &noise, &text)), "{text}");
            }
        });
    }

    #[test]
    fn floats_order_as_they_should(
        seed in any::<u64>(),
        name in prop::sample::select(&["f", "d"][..]),
        operator in prop::sample::select(&["<", "<=", ">", ">=", "==", "!="][..]),
        constant in prop_oneof![any::<f64>(), any::<f32>().prop_map(f64::from), (-3_i32..3).prop_map(f64::from)],
    ) {
        prop_assume!(constant.is_finite());
        for text in [
            format!("{name} {operator} {constant:e}"),
            format!("{constant:e} {operator} {name}"),
            format!("{name} {operator} {name}"),
            format!("l {operator} {:e}", constant.clamp(-1e15, 1e15)),
        ] {
            SYMBOLS.with(|symbols| {
                let noise = Noise::new(seed);
                let program = compile_condition(symbols, noise.pc(), &text, &variables).unwrap();
                let ours = Evaluation::new().evaluate(&program, &mut Noise::new(seed));
                let wanted = evaluate(symbols, &noise, &text).unwrap().as_integer(symbols).unwrap();
                assert_eq!(ours, Ok(Some(wanted as u64)), "{text}");
            });
        }
    }

    #[test]
    fn no_text_panics(text in prop_oneof![
        ".{0,60}",
        "[ -~]{0,80}",
        "[-+*/%&|^!~<>=?:,.()\\[\\]{}@'\"$a-z0-9 ]{0,60}",
        expression().prop_flat_map(|text| (Just(text), any::<prop::sample::Index>(), "[ -~]")).prop_map(|(text, at, c)| {
            let mut text = text;
            let at = at.index(text.len());
            text.replace_range(at..=at, &c);
            text
        }),
    ], seed in any::<u64>()) {
        SYMBOLS.with(|symbols| {
            let noise = Noise::new(seed);
            _ = split_items(&text);
            _ = compile_condition(symbols, noise.pc(), &text, &variables).map_err(|error| error.underlined());
            let options = CollectOptions {
                string: Some(None),
                ..CollectOptions::default()
            };
            _ = compile_collect(symbols, noise.pc(), &text, options, &variables);
            for named in expand(symbols, &noise, &text) {
                if let Ok(value) = named.value {
                    _ = value.print(symbols, &noise, &PrintOptions::default());
                    _ = value.type_name(symbols);
                }
            }
        });
    }
}

/// Numbers, pointers and enumerators are true or not; what has parts is neither.
#[test]
fn what_is_true() {
    SYMBOLS.with(|symbols| {
        for (text, expected) in [
            ("0", Some(false)),
            ("-3", Some(true)),
            ("'a'", Some(true)),
            ("(char) 0", Some(false)),
            ("1 == 1", Some(true)),
            ("0.5", Some(true)),
            ("0.0", Some(false)),
            ("(struct pair *) 0", Some(false)),
            ("&gp", Some(true)),
            ("(enum color) 1", Some(true)),
            ("RED", Some(false)),
            ("p", None),
            ("a", None),
            ("$never_collected", None),
        ] {
            let value = evaluate(symbols, &NothingElse, text).unwrap();
            assert_eq!(value.is_true(symbols), expected, "{text}");
        }
    });
}

/// A state that has only the thread's address, and its frame's.
struct NothingElse;

impl State for NothingElse {
    fn pc(&self) -> Address {
        program().pc
    }

    fn register(&self, _: RegisterNumber) -> Option<Vec<u8>> {
        Some(vec![0; 8])
    }

    fn memory(&self, _: Address, _: &mut [u8], _: &mut [bool]) {}

    fn variable(&self, _: &str) -> Option<i64> {
        None
    }
}

#[test]
fn deep_and_long_texts_are_refused() {
    SYMBOLS.with(|symbols| {
        for text in [
            "(".repeat(100_000),
            "-".repeat(50_000) + "1",
            "1+".repeat(40_000) + "1",
            "1 ? 2 : ".repeat(3000) + "3",
            "*".repeat(3000) + "q",
            "q->next".to_owned() + &"->next".repeat(1500),
            format!("{}i", "(char)".repeat(1500)),
            format!("sizeof (int {})", "*".repeat(3000)),
            format!("a{}", "[0]".repeat(1500)),
        ] {
            let error = compile_condition(symbols, program().pc, &text, &variables).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    });
}
