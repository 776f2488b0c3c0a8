//! How a format reads one line.

use super::error::LineError;
use crate::record::{AccessKind, Record, Time};

/// What a line's reading needs to know of the lines before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineState {
    /// The time of this line once it is read, or of the line before.
    pub(super) time: Time,
    /// Whether this line has a time of its own.
    pub(super) explicit: bool,
    /// The line before was a Tarmac diagram, whose address started in this column.
    pub(super) diagram: Option<(AccessKind, u32)>,
    /// The control registers that the latest Nios II line has.
    pub(super) control: [Option<u64>; 5],
    /// The cpu, address and code of the instruction that the latest line named, where more lines may say what it did.
    pub(super) listed: Option<(u32, u64, u64)>,
}

impl LineState {
    pub(super) const START: Self = Self {
        time: Time::ZERO,
        explicit: false,
        diagram: None,
        control: [None; 5],
        listed: None,
    };
}

/// A format's way to read one line.
pub(crate) trait Dialect {
    /// Whether instructions have a time. Without one, what belongs to which instruction is known from the order of lines.
    const HAS_TIME: bool = true;

    /// Reads a line, without its end and not blank, and emits its records. Emits nothing when it gives an error;
    /// then the state is as before, apart from what is of one line only.
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError>;
}
