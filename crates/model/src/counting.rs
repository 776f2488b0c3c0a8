//! The aggregates of a tracepoint's location: the programs of keys and values.

use crate::aggregate::{Aggregate, KEY_TEXT};
use crate::number::VariableNumber;

/// The variable that programs read `$duration` from, in nanoseconds. No experiment has it.
pub const DURATION_VARIABLE: VariableNumber = VariableNumber(0xfffe);

/// How many words of 64 bits a span can keep from its entry for its end.
pub const CAPTURED_WORDS: usize = 30;

/// The aggregates of a location.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counting {
    /// The location's role in measured calls.
    pub call: CallPart,
    /// A condition in addition to that of the tracepoint. If it is false at the entry, the call is not measured.
    pub condition: Option<Vec<u8>>,
    /// The values that the entry keeps for the end of the call.
    pub captures: Vec<Operand>,
    /// The aggregates that are updated here. The last one may be a pick, which only hits reach that met the condition.
    pub aggregates: Vec<Counted>,
    /// Whether only picked hits make frames here: those that a pick of the aggregates picks, or all of a call whose entry was picked.
    pub picks: bool,
}

/// A location's role in measured calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallPart {
    /// Nothing.
    #[default]
    None,
    /// Their beginning.
    Begin {
        /// Whether a jump within the function also leads there.
        is_loop: bool,
    },
    /// A place within them, where a picked call makes a frame and goes on.
    Within,
    /// Their end.
    End,
    /// Both: the function has one instruction.
    Whole,
}

/// An aggregate and the programs of its keys and value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Which.
    pub aggregate: Aggregate,
    /// Its keys, as many as the aggregate has.
    pub keys: Vec<Operand>,
    /// Its value, where it has one.
    pub value: Option<Operand>,
}

impl Counted {
    /// How many words of 64 bits its keys take.
    #[must_use]
    pub fn key_words(&self) -> u64 {
        self.keys.iter().map(|key| key.words() as u64).sum()
    }
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
    /// The values that the entry has kept: the words from this one on.
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

    /// The keys and values of all aggregates, and the kept values.
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
