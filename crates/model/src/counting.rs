//! What a location of a tracepoint computes for aggregates: the programs of keys and values.

use crate::aggregate::{Aggregate, KEY_TEXT};
use crate::number::VariableNumber;

/// The variable that programs read `$duration` from, in nanoseconds. No experiment has it.
pub const DURATION_VARIABLE: VariableNumber = VariableNumber(0xfffe);

/// How many words of 64 bits a span can keep from its entry for its end.
pub const CAPTURED_WORDS: usize = 30;

/// What a location counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counting {
    /// What the location is to calls that are measured.
    pub call: CallPart,
    /// A condition besides that of the tracepoint. At the entry of a call that is measured, the call is not if it is false.
    pub condition: Option<Vec<u8>>,
    /// What the entry keeps for the end of the call.
    pub captures: Vec<Operand>,
    /// What is counted here.
    pub aggregates: Vec<Counted>,
}

/// What a location is to calls that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallPart {
    /// Nothing.
    #[default]
    None,
    /// Their beginning.
    Begin {
        /// Whether a jump of the function itself leads there too.
        is_loop: bool,
    },
    /// Their end.
    End,
    /// Both: the function has one instruction.
    Whole,
}

/// An aggregate and what it is computed from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Which.
    pub aggregate: Aggregate,
    /// Its keys, as many as the aggregate has.
    pub keys: Vec<Operand>,
    /// Its value, where it has one.
    pub value: Option<Operand>,
}

/// Where a key or a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// An agent expression, which leaves a number.
    Number(Vec<u8>),
    /// A text.
    Text {
        /// An agent expression, which leaves the address.
        address: Vec<u8>,
        /// One that leaves the length; none where a NUL ends the text.
        length: Option<Vec<u8>>,
    },
    /// What the entry has kept: the words from this one on.
    Captured {
        /// The first word.
        at: u16,
        /// Whether it is a text.
        is_text: bool,
    },
}

impl Operand {
    /// How many words of 64 bits it takes.
    #[must_use]
    pub const fn words(&self) -> usize {
        match self {
            Self::Number(_) | Self::Captured { is_text: false, .. } => 1,
            Self::Text { .. } | Self::Captured { is_text: true, .. } => KEY_TEXT / 8,
        }
    }

    /// Whether it is a text.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text { .. } | Self::Captured { is_text: true, .. }
        )
    }

    /// The agent expressions.
    pub fn programs(&self) -> impl Iterator<Item = &Vec<u8>> {
        let (first, second) = match self {
            Self::Number(program) => (Some(program), None),
            Self::Text { address, length } => (Some(address), length.as_ref()),
            Self::Captured { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl Counting {
    /// Whether nothing is counted, kept or looked for here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.aggregates.is_empty() && self.call == CallPart::None
    }

    /// The keys and values of all aggregates, and what is kept.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        let counted = self.aggregates.iter();
        let counted = counted.flat_map(|counted| counted.keys.iter().chain(&counted.value));
        self.captures.iter().chain(counted)
    }

    /// All agent expressions.
    pub fn programs(&self) -> impl Iterator<Item = &Vec<u8>> {
        let operands = self.operands().flat_map(Operand::programs);
        self.condition.iter().chain(operands)
    }
}
