//! Rules for types, of any text, on the types of a program and on memory in which everything points to everything: what they say is
//! verified, and collected and shown within limits.
#![no_main]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use tracewire_agent_expr::{Evaluation, EvaluationErrorKind, Request};
use tracewire_debuginfo::{Symbols, TypeRules};
use tracewire_expr::{CollectOptions, PrintOptions, State, TypeWalks, compile_collect, evaluate};
use tracewire_model::{Action, Address, RegisterNumber, VariableNumber};

/// A small program with debug information.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/sample");

/// A function of it, and a value there: a structure, and an array of them.
const VALUES: [(&str, &str); 2] = [("handle", "*j"), ("main", "jobs")];

/// Where all good pointers go, and all registers.
const ARENA: u64 = 0x1000_0000;
const ARENA_BYTES: u64 = 1 << 14;

thread_local! {
    static SYMBOLS: RefCell<Symbols> = {
        let mut symbols = Symbols::new();
        symbols
            .add_module_bytes(Path::new("program"), PROGRAM.to_vec(), 0)
            .expect("a good program");
        RefCell::new(symbols)
    };
}

/// Memory made from a number.
struct Memory {
    seed: u64,
    pc: Address,
}

impl Memory {
    fn byte(&self, address: u64) -> Option<u8> {
        if address.wrapping_sub(ARENA) >= ARENA_BYTES {
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

    /// Runs what collects: it ends, and collects little.
    fn run(&self, program: &[u8]) -> (u64, u64) {
        let (mut bytes, mut pieces) = (0, 0);
        let mut evaluation = Evaluation::new();
        let mut request = evaluation.start(program);
        loop {
            let answer = match request {
                Ok(Request::Done(_)) => break,
                Ok(Request::Register(_)) => Some(ARENA + ARENA_BYTES / 2),
                Ok(Request::Memory { address, size }) => self.number(address, size),
                Ok(Request::CollectMemory { length, .. }) => {
                    assert!(length <= 16 << 10, "{length} bytes at once");
                    bytes += length;
                    pieces += u64::from(length > 0);
                    Some(0)
                }
                Ok(_) => Some(0),
                Err(error) => {
                    let is_of_data = matches!(
                        error.kind,
                        EvaluationErrorKind::BadMemory { .. } | EvaluationErrorKind::DivisionByZero
                    );
                    assert!(is_of_data, "{error}");
                    break;
                }
            };
            request = evaluation.resume(program, answer);
        }
        (bytes, pieces)
    }
}

impl State for Memory {
    fn pc(&self) -> Address {
        self.pc
    }

    fn register(&self, _: RegisterNumber) -> Option<Vec<u8>> {
        Some((ARENA + ARENA_BYTES / 2).to_le_bytes().to_vec())
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

fuzz_target!(|data: &[u8]| {
    let Some((seed, data)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut rules = TypeRules::none();
    if rules.add_before(text, "my.types").is_err() {
        return;
    }
    let (function, value) = VALUES[usize::from(*seed) % VALUES.len()];
    SYMBOLS.with_borrow_mut(|symbols| {
        symbols.set_type_rules(Arc::new(rules));
        look(symbols, function, value, u64::from(*seed));
    });
});

fn look(symbols: &Symbols, function: &str, value: &str, seed: u64) {
    let nothing = |_: &str| None::<VariableNumber>;
    let places = symbols
        .resolve(function, None)
        .expect("a function of the program");
    let pc = places[0].address;
    let memory = Memory { seed, pc };
    let options = CollectOptions::default();
    let (mut bytes, mut pieces) = (0, 0);
    if let Ok((actions, _)) = compile_collect(symbols, pc, value, options, &nothing) {
        for action in actions {
            if let Action::Expression(program) = action {
                tracewire_agent_expr::verify(&program).expect("a program that was made is good");
                let collected = memory.run(&program);
                bytes += collected.0;
                pieces += collected.1;
            }
        }
    }
    assert!(bytes <= 64 << 10, "{bytes} bytes");
    assert!(pieces <= 2000, "{pieces} pieces");
    if let Ok(value) = evaluate(symbols, &memory, value) {
        let walks = TypeWalks::new(symbols);
        let shown = value.display(&walks, &memory, &PrintOptions::default());
        assert!(!shown.is_empty() && shown.len() < 5 << 20);
    }
}
