//! The data that an expression requested when it ran, found by running it again on the frame.

use std::collections::HashMap;

use tracewire_agent_expr::{
    Evaluation, Opcode, Request, STEP_LIMIT, Verified, instructions, verify,
};
use tracewire_model::{Address, RegisterNumber, VariableNumber};
use tracewire_tracefile::{CollectedMemory, Frame};

use crate::finding::Wanted;

/// An expression that can be run.
pub(crate) struct Program {
    verified: Verified,
    /// No jump in it.
    straight: bool,
    /// How many steps it takes at most.
    steps: u64,
}

impl Program {
    /// None where no target can run it.
    pub(crate) fn new(code: &[u8]) -> Option<Self> {
        let jumps = |opcode| matches!(opcode, Opcode::Goto | Opcode::IfGoto);
        let verified = verify(code).ok()?;
        Some(Self {
            straight: !instructions(verified.code())
                .flatten()
                .any(|instruction| jumps(instruction.opcode)),
            steps: match verified.has_loops() {
                true => u64::from(STEP_LIMIT),
                false => code.len() as u64,
            },
            verified,
        })
    }
}

/// The limit of steps for running the expressions of a file. A file must not cost hours, for any size and content.
pub(crate) struct Budget(u64);

impl Budget {
    /// The limit for a file with few frames, and any expressions.
    const STEPS: u64 = 1 << 26;

    /// How much more for each of its bytes; a frame of a hundred bytes is seldom of an expression of ten steps.
    const STEPS_PER_BYTE: u64 = 8;

    /// Of a file of so many bytes.
    pub(crate) const fn new(size: u64) -> Self {
        Self(Self::STEPS.saturating_add(size.saturating_mul(Self::STEPS_PER_BYTE)))
    }

    /// Takes this much of it; `None` when less is left.
    fn take(&mut self, cost: u64) -> Option<()> {
        self.0 = self.0.checked_sub(cost)?;
        Some(())
    }
}

/// One frame on which the expressions of a tracepoint are run, one after the other.
pub(crate) struct Rerun<'r, 'f> {
    frame: &'r Frame<'f>,
    memory: CollectedMemory<'f>,
    /// Whether an expression of the file sets the variable; its value then changes during the hit.
    is_set: &'r dyn Fn(u16) -> bool,
    budget: &'r mut Budget,
    /// The values that the expressions have set so far; `None` where a value is unknown.
    set: HashMap<u16, Option<u64>>,
    /// The frame's values of requested registers and variables.
    registers: HashMap<u16, Option<u64>>,
    variables: HashMap<u16, Option<u64>>,
}

/// The end of an expression on a frame.
#[derive(PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With this on its stack.
    Done(Option<u64>),
    /// It depends on a value that the frame does not have.
    Unknown,
    /// The target cannot have come to its end.
    Failed,
    /// It is not run, or not to its end, because of the limit of steps.
    TooLong,
}

/// How long a string is followed, in bytes.
const MAX_STRING: u64 = 1 << 12;

impl<'r, 'f> Rerun<'r, 'f> {
    pub(crate) fn new(
        frame: &'r Frame<'f>,
        is_set: &'r dyn Fn(u16) -> bool,
        budget: &'r mut Budget,
    ) -> Self {
        Self {
            frame,
            memory: frame.collected_memory(),
            is_set,
            budget,
            set: HashMap::new(),
            registers: HashMap::new(),
            variables: HashMap::new(),
        }
    }

    /// Runs an expression and reports missing data that it collects. After the first value that the frame does not have, memory is
    /// not reported any more, since its address may depend on that value. A variable is still reported, as long as no jump may have
    /// skipped it.
    pub(crate) fn run(
        &mut self,
        evaluation: &mut Evaluation,
        program: &Program,
        report: &mut dyn FnMut(Wanted),
    ) -> Outcome {
        let outcome = self.run_within_budget(evaluation, program, report);
        let steps = match outcome {
            Some(Outcome::Done(_)) => u64::from(evaluation.steps()),
            _ => program.steps,
        };
        let paid = self.budget.take(steps);
        outcome
            .filter(|_| paid.is_some())
            .unwrap_or(Outcome::TooLong)
    }

    /// None when the budget does not suffice.
    fn run_within_budget(
        &mut self,
        evaluation: &mut Evaluation,
        program: &Program,
        report: &mut dyn FnMut(Wanted),
    ) -> Option<Outcome> {
        let Program {
            verified, straight, ..
        } = program;
        let code = verified.code();
        let mut guessed = false;
        let Ok(mut request) = evaluation.start(code) else {
            return Some(Outcome::Failed);
        };
        loop {
            let value = match request {
                Request::Done(_) if guessed => return Some(Outcome::Unknown),
                Request::Done(value) => return Some(Outcome::Done(value)),
                Request::Register(number) => self.register(number)?,
                Request::Memory { address, size } if !guessed => self.number(address, size),
                Request::Variable(number) => self.variable(number)?,
                Request::CollectMemory { address, length } => {
                    let address = Address(address);
                    if !guessed && let Some(missing) = self.memory.missing(address, length) {
                        report(Wanted::Memory {
                            address,
                            length,
                            missing,
                        });
                    }
                    Some(0)
                }
                Request::CollectString { address, limit } => {
                    let address = Address(address);
                    if !guessed && let Some(missing) = self.missing_of_string(address, limit)? {
                        report(Wanted::String { address, missing });
                    }
                    Some(0)
                }
                Request::CollectVariable(number) => {
                    let variable = VariableNumber(i32::from(number));
                    let there = self.collected_variable(number)?.is_some();
                    if (!guessed || *straight) && !there {
                        report(Wanted::Variable(variable));
                    }
                    Some(0)
                }
                Request::SetVariable { number, value } => {
                    let value = (!guessed).then_some(value.cast_unsigned());
                    self.set.insert(number, value);
                    Some(0)
                }
                Request::Memory { .. } => None,
                Request::Print { .. } => Some(0),
            };
            guessed |= value.is_none();
            request = match evaluation.resume(code, Some(value.unwrap_or(0))) {
                Ok(request) => request,
                Err(_) if guessed => return Some(Outcome::Unknown),
                Err(_) => return Some(Outcome::Failed),
            };
        }
    }

    /// Takes the cost of a search among the frame's blocks.
    fn take_search(&mut self) -> Option<()> {
        self.budget.take(self.frame.data().len() as u64 / 16)
    }

    fn register(&mut self, number: u16) -> Option<Option<u64>> {
        if let Some(found) = self.registers.get(&number) {
            return Some(*found);
        }
        self.take_search()?;
        let found = self.frame.register_number(RegisterNumber(number));
        self.registers.insert(number, found);
        Some(found)
    }

    fn variable(&mut self, number: u16) -> Option<Option<u64>> {
        match self.set.get(&number) {
            Some(value) => Some(*value),
            None if (self.is_set)(number) => Some(None),
            None => self.collected_variable(number),
        }
    }

    fn collected_variable(&mut self, number: u16) -> Option<Option<u64>> {
        if let Some(found) = self.variables.get(&number) {
            return Some(*found);
        }
        self.take_search()?;
        let value = self.frame.variable(VariableNumber(i32::from(number)));
        let found = value.map(i64::cast_unsigned);
        self.variables.insert(number, found);
        Some(found)
    }

    /// A number from the frame's memory.
    fn number(&self, address: u64, size: u8) -> Option<u64> {
        let mut found = [None; 8];
        let found = found.get_mut(..usize::from(size))?;
        self.memory.read(Address(address), found);
        let mut bytes = [0; 8];
        for (byte, found) in bytes.iter_mut().zip(found.iter()) {
            *byte = (*found)?;
        }
        self.frame
            .byte_order()
            .unsigned(bytes.get(..usize::from(size))?)
    }

    /// The first address before the string's NUL, or within the limit, that the frame does not hold.
    fn missing_of_string(&mut self, address: Address, limit: u64) -> Option<Option<Address>> {
        let mut at = address;
        let mut left = limit.min(MAX_STRING);
        while left > 0 {
            let mut piece = [None; 32];
            let count = usize::try_from(left).map_or(32, |left| left.min(32));
            let piece = piece.get_mut(..count)?;
            self.budget.take(count as u64)?;
            self.memory.read(at, piece);
            match piece.iter().position(|byte| matches!(byte, None | Some(0))) {
                Some(end) if piece.get(end) == Some(&Some(0)) => return Some(None),
                Some(end) => return Some(self.memory.missing(at, end as u64 + 1)),
                None => at = at.offset(count as i64),
            }
            left -= count as u64;
        }
        Some(None)
    }
}
