//! Any bytes as an agent expression: listed, verified, evaluated. A program that verifies fails by what it meets alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_agent_expr::{
    Context, Evaluation, EvaluationErrorKind, assemble, disassemble, instructions, verify,
};

/// A world that follows from the first byte of the input.
struct World {
    seed: u64,
    collected: u64,
}

impl World {
    fn mix(&self, number: u64) -> u64 {
        (number ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Context for World {
    fn register(&mut self, register: u16) -> Option<u64> {
        (register < 32).then(|| self.mix(u64::from(register)) >> (register % 64))
    }
    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        assert!(matches!(size, 1 | 2 | 4 | 8));
        (address % 7 != 0).then(|| self.mix(address) >> (64 - 8 * u32::from(size)))
    }
    fn variable(&mut self, number: u16) -> i64 {
        self.mix(u64::from(number)) as i64 >> 50
    }
    fn set_variable(&mut self, _: u16, _: i64) {}
    fn collect_memory(&mut self, _: u64, _: u64) {
        self.collected += 1;
    }
    fn print(&mut self, format: &[u8], _: u64, _: u64, arguments: &[u64]) {
        assert!(arguments.len() <= 98);
        self.collected += format.len() as u64;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, program)) = data.split_first() else {
        return;
    };
    let listing = disassemble(program);
    let mut end = 0;
    let mut whole = true;
    for instruction in instructions(program) {
        let Ok(instruction) = instruction else {
            whole = false;
            break;
        };
        assert_eq!(instruction.offset, end);
        end += instruction.length();
    }
    if whole {
        assert_eq!(end, program.len());
        assert_eq!(assemble(&listing).as_deref(), Ok(program));
    }
    _ = assemble(&String::from_utf8_lossy(program));

    let verified = verify(program);
    let mut world = World {
        seed: u64::from(seed),
        collected: 0,
    };
    let result = Evaluation::new().evaluate(program, &mut world);
    if let Err(error) = &result {
        let outside = error.kind == EvaluationErrorKind::OutOfProgram;
        assert_eq!(error.offset >= program.len(), outside || program.is_empty());
    }
    let Ok(verified) = verified else {
        return;
    };
    match result {
        Ok(result) => assert!(result.is_some() || !verified.has_result()),
        Err(error) => match error.kind {
            EvaluationErrorKind::DivisionByZero | EvaluationErrorKind::BadMemory { .. } => {}
            EvaluationErrorKind::BadRegister(register) => {
                assert!(verified.registers().contains(&register));
            }
            EvaluationErrorKind::TooManySteps => assert!(verified.has_loops()),
            kind => panic!("verified, but {kind}\n{listing}"),
        },
    }
    assert!(world.collected == 0 || verified.collects_memory() || verified.prints());
});
