//! The checked aggregates of a location.

use tracewire_agent_expr::{Verified, verify};
use tracewire_model::{Aggregate, CallPart, Counting, Operand, SpanPoint};

use crate::error::{DefineError, Part};

/// The checked aggregates of a location.
#[derive(Debug)]
pub(crate) struct CountingPlan {
    pub(crate) call: CallPart,
    /// How the place of a call on the stack is found.
    pub(crate) point: Option<SpanPoint>,
    pub(crate) condition: Option<Verified>,
    pub(crate) captures: Vec<CheckedOperand>,
    pub(crate) aggregates: Vec<(Aggregate, Vec<CheckedOperand>, Option<CheckedOperand>)>,
    /// Whether only picked hits make frames.
    pub(crate) picks: bool,
}

/// A key, a value, or what is kept from the beginning of a call.
#[derive(Debug)]
pub(crate) enum CheckedOperand {
    Number(Verified),
    Text(Verified, Option<Verified>),
    Captured { at: usize, is_text: bool },
}

impl CountingPlan {
    /// None of a tracepoint that counts nothing.
    pub(crate) fn new(
        counting: &Counting,
        point: Option<SpanPoint>,
    ) -> Result<Option<Self>, DefineError> {
        if counting.is_empty() {
            return Ok(None);
        }
        let check = |code: &Vec<u8>| {
            let part = Part::Aggregate;
            let program = verify(code).map_err(|error| DefineError::Program { part, error })?;
            if program.prints() {
                return Err(DefineError::Prints { part });
            }
            program
                .has_result()
                .then_some(program)
                .ok_or(DefineError::NoResult)
        };
        let operand = |operand: &Operand| {
            Ok(match operand {
                Operand::Number(program) => CheckedOperand::Number(check(program)?),
                Operand::Text { address, length } => {
                    CheckedOperand::Text(check(address)?, length.as_ref().map(check).transpose()?)
                }
                Operand::Captured { at, is_text } => CheckedOperand::Captured {
                    at: usize::from(*at),
                    is_text: *is_text,
                },
            })
        };
        let aggregates = counting.aggregates.iter().map(|counted| {
            let keys: Result<_, DefineError> = counted.keys.iter().map(operand).collect();
            let value = counted.value.as_ref().map(operand).transpose()?;
            Ok((counted.aggregate.clone(), keys?, value))
        });
        Ok(Some(Self {
            call: counting.call,
            point,
            condition: counting.condition.as_ref().map(check).transpose()?,
            captures: counting
                .captures
                .iter()
                .map(operand)
                .collect::<Result<_, DefineError>>()?,
            aggregates: aggregates.collect::<Result<_, DefineError>>()?,
            picks: counting.picks,
        }))
    }

    /// The programs, for the variables that they mention.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Verified> {
        let operands = self.aggregates.iter();
        let operands = operands.flat_map(|(_, keys, value)| keys.iter().chain(value));
        let programs = self.captures.iter().chain(operands).flat_map(|operand| {
            let (first, second) = match operand {
                CheckedOperand::Number(program) => (Some(program), None),
                CheckedOperand::Text(address, length) => (Some(address), length.as_ref()),
                CheckedOperand::Captured { .. } => (None, None),
            };
            first.into_iter().chain(second)
        });
        self.condition.iter().chain(programs)
    }
}
