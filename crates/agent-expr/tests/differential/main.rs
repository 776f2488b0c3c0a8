//! The evaluator against a second one that is as simple as can be, on random programs.

mod naive;
mod random;

use proptest::prelude::*;
use tracewire_agent_expr::{
    Context, Evaluation, EvaluationErrorKind, Request, STEP_LIMIT, assemble, disassemble,
    instructions, verify,
};

use naive::{Event, Failure, World};
use random::{any_bytes, structured_program};

/// The world of the naive evaluator, asked by the real one.
struct Asked<'w>(&'w mut World);

impl Context for Asked<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.0.register(register)
    }
    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        self.0.memory(address, size)
    }
    fn variable(&mut self, number: u16) -> i64 {
        self.0.variable(number)
    }
    fn set_variable(&mut self, number: u16, value: i64) {
        self.0.set(number, value);
    }
    fn collect_memory(&mut self, address: u64, length: u64) {
        self.0.events.push(Event::Memory(address, length));
    }
    fn collect_string(&mut self, address: u64, limit: u64) {
        self.0.events.push(Event::Text(address, limit));
    }
    fn collect_variable(&mut self, number: u16) {
        let value = self.0.variable(number);
        self.0.events.push(Event::Variable(number, value));
    }
    fn print(&mut self, format: &[u8], function: u64, channel: u64, arguments: &[u64]) {
        self.0.events.push(Event::Print(
            format.to_vec(),
            function,
            channel,
            arguments.to_vec(),
        ));
    }
}

fn failure(kind: EvaluationErrorKind) -> Failure {
    use EvaluationErrorKind as Kind;
    match kind {
        Kind::DivisionByZero => Failure::Division,
        Kind::BadMemory { address, size } => Failure::Memory(address, size),
        Kind::BadRegister(register) => Failure::Register(register),
        Kind::StackUnderflow => Failure::Underflow,
        Kind::StackOverflow => Failure::Overflow,
        Kind::TooManySteps => Failure::Steps,
        Kind::OutOfProgram | Kind::Empty => Failure::Outside,
        _ => Failure::Instruction,
    }
}

/// Both evaluators on one program: same result, same effects in the same order, same error in the same place.
fn compare(program: &[u8], world: &World) -> Result<(), TestCaseError> {
    let mut expected = world.clone();
    let outcome = naive::evaluate(program, &mut expected);
    let mut actual = world.clone();
    let result = Evaluation::new()
        .evaluate(program, &mut Asked(&mut actual))
        .map_err(|error| (error.offset, failure(error.kind)));
    prop_assert_eq!(&result, &outcome, "\n{}", disassemble(program));
    prop_assert_eq!(actual, expected);
    if verify(program).is_ok() {
        prop_assert!(
            !matches!(
                result,
                Err((
                    _,
                    Failure::Underflow
                        | Failure::Overflow
                        | Failure::Outside
                        | Failure::Instruction
                ))
            ),
            "verified, but {:?}",
            result
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn verified_programs_mean_the_same_to_both(program in structured_program(), world in naive::world()) {
        prop_assert!(verify(&program).is_ok(), "{:?}\n{}", verify(&program), disassemble(&program));
        compare(&program, &world)?;
    }

    #[test]
    fn any_bytes_mean_the_same_to_both(program in any_bytes(), world in naive::world()) {
        compare(&program, &world)?;
    }

    #[test]
    fn listings_give_back_the_program(program in structured_program()) {
        prop_assert_eq!(assemble(&disassemble(&program)).unwrap(), program);
    }

    #[test]
    fn any_bytes_can_be_listed(program in any_bytes()) {
        let listing = disassemble(&program);
        if instructions(&program).all(|each| each.is_ok()) {
            prop_assert_eq!(assemble(&listing).unwrap(), program);
        } else {
            prop_assert!(listing.contains('<'));
        }
    }

    #[test]
    fn an_evaluation_keeps_nothing_of_the_last(first in any_bytes(), second in structured_program(), world in naive::world()) {
        let mut used = Evaluation::new();
        let _ = used.evaluate(&first, &mut Asked(&mut world.clone()));
        let mut again = world.clone();
        let mut anew = world.clone();
        let one = used.evaluate(&second, &mut Asked(&mut again));
        let other = Evaluation::new().evaluate(&second, &mut Asked(&mut anew));
        prop_assert_eq!(one, other);
        prop_assert_eq!(again, anew);
    }
}

#[test]
fn a_loop_without_end_is_given_up() {
    let program = assemble("again: const8 1\npop\ngoto again").unwrap();
    assert!(verify(&program).unwrap().has_loops());
    let error = Evaluation::new().start(&program).unwrap_err();
    assert_eq!(error.kind, EvaluationErrorKind::TooManySteps);
    // So is one that stops to ask on the way.
    let program = assemble("again: getv 1\npop\ngoto again").unwrap();
    let mut evaluation = Evaluation::new();
    let mut asked = 0;
    let mut request = evaluation.start(&program);
    while let Ok(Request::Variable(1)) = request {
        asked += 1;
        request = evaluation.resume(&program, Some(asked));
    }
    assert_eq!(request.unwrap_err().kind, EvaluationErrorKind::TooManySteps);
    assert_eq!(asked, u64::from(STEP_LIMIT.div_ceil(3)));
}

#[test]
fn the_arguments_of_printf_come_in_the_order_of_its_format() {
    // As GDB compiles it: the last argument first, then channel and function.
    let text =
        "const8 22\nconst8 11\nconst8 0\nconst8 7\nprintf \"%d #\\\"\\x01 %d\\n\", 2 args\nend";
    let program = assemble(text).unwrap();
    verify(&program).unwrap();
    let mut evaluation = Evaluation::new();
    let request = evaluation.start(&program).unwrap();
    let expected = Request::Print {
        format: b"%d #\"\x01 %d\n",
        function: 7,
        channel: 0,
        arguments: &[11, 22],
    };
    assert_eq!(request, expected);
    assert_eq!(evaluation.resume(&program, None), Ok(Request::Done(None)));
    assert_eq!(assemble(&disassemble(&program)), Ok(program));
}
