//! What an expression asked for when it ran, found by running it again on what the frame holds.

use tracewire_agent_expr::{Evaluation, Request, Verified};
use tracewire_tracefile::{Address, Frame, RegisterNumber, VariableNumber};

use crate::fault::Wanted;
use crate::memory::{self, Coverage};

/// One frame on which the expressions of a tracepoint are run, one after the other.
pub(crate) struct Rerun<'r, 'f> {
    pub(crate) frame: &'r Frame<'f>,
    pub(crate) coverage: &'r Coverage,
    /// Which bits of an address count.
    pub(crate) mask: u64,
    /// Whether an expression of the file sets the variable; its value then changes during the hit.
    pub(crate) is_set: &'r dyn Fn(u16) -> bool,
    /// What the expressions have set so far; none where that cannot be told.
    pub(crate) set: Vec<(u16, Option<u64>)>,
}

/// How an expression ends on what a frame holds.
pub(crate) enum Outcome {
    /// With this on its stack.
    Done(Option<u64>),
    /// It depends on a value that the frame does not tell.
    Unknown,
    /// The target cannot have come to its end.
    Failed,
}

/// How long a string is followed, in bytes.
const MAX_STRING: u64 = 1 << 12;

impl Rerun<'_, '_> {
    /// Runs an expression and reports what it collects that is not there. From the first value on that the frame does
    /// not tell nothing more is said of memory, as its address may be made of that value; a variable is still
    /// asked for, as long as no jump may have gone around it.
    pub(crate) fn run(
        &mut self,
        evaluation: &mut Evaluation,
        program: &Verified,
        straight: bool,
        report: &mut dyn FnMut(Wanted),
    ) -> Outcome {
        let code = program.code();
        let mut guessed = false;
        let Ok(mut request) = evaluation.start(code) else {
            return Outcome::Failed;
        };
        loop {
            let value = match request {
                Request::Done(_) if guessed => return Outcome::Unknown,
                Request::Done(value) => return Outcome::Done(value),
                Request::Register(number) => self.register(number),
                Request::Memory { address, size } if !guessed => {
                    memory::read(self.frame, address, size, self.mask)
                }
                Request::Variable(number) => self.variable(number),
                Request::CollectMemory { address, length } => {
                    if !guessed && let Some(missing) = self.coverage.missing(address, length) {
                        let (address, missing) = (Address(address), Address(missing));
                        report(Wanted::Memory {
                            address,
                            length,
                            missing,
                        });
                    }
                    Some(0)
                }
                Request::CollectString { address, limit } => {
                    if !guessed && let Some(missing) = self.missing_of_string(address, limit) {
                        let (address, missing) = (Address(address), Address(missing));
                        report(Wanted::String { address, missing });
                    }
                    Some(0)
                }
                Request::CollectVariable(number) => {
                    let variable = VariableNumber(i32::from(number));
                    if (!guessed || straight) && self.frame.variable(variable).is_none() {
                        report(Wanted::Variable(variable));
                    }
                    Some(0)
                }
                Request::SetVariable { number, value } => {
                    self.set.retain(|(set, _)| *set != number);
                    self.set
                        .push((number, (!guessed).then_some(value.cast_unsigned())));
                    Some(0)
                }
                Request::Memory { .. } => None,
                Request::Print { .. } => Some(0),
            };
            guessed |= value.is_none();
            request = match evaluation.resume(code, Some(value.unwrap_or(0))) {
                Ok(request) => request,
                Err(_) if guessed => return Outcome::Unknown,
                Err(_) => return Outcome::Failed,
            };
        }
    }

    fn register(&self, number: u16) -> Option<u64> {
        self.frame.register_value(RegisterNumber(number))
    }

    fn variable(&self, number: u16) -> Option<u64> {
        match self.set.iter().find(|(set, _)| *set == number) {
            Some((_, value)) => *value,
            None if (self.is_set)(number) => None,
            None => {
                let value = self.frame.variable(VariableNumber(i32::from(number)))?;
                Some(value.cast_unsigned())
            }
        }
    }

    /// The first address before the string's NUL, or within the limit, that the frame does not hold.
    fn missing_of_string(&self, address: u64, limit: u64) -> Option<u64> {
        let mut at = address;
        let mut left = limit.min(MAX_STRING);
        while left > 0 {
            let mut piece = [None; 32];
            let count = usize::try_from(left).map_or(32, |left| left.min(32));
            let piece = piece.get_mut(..count)?;
            memory::read_bytes(self.frame, at, piece, self.mask);
            for byte in piece {
                match *byte {
                    Some(0) => return None,
                    Some(_) => at = at.wrapping_add(1),
                    None => return Some(at & self.mask),
                }
            }
            left -= count as u64;
        }
        None
    }
}
