//! How an experiment collects.

use tracewire_tracefile::FrameFormat;

/// How an experiment collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The byte order of the target, and the size of its register block.
    pub format: FrameFormat,
    /// Whether every frame has `$trace_timestamp`, `$trace_thread` and `$trace_cpu`, after its registers.
    pub stamp: bool,
    /// When a frame holds the register block.
    pub registers: Registers,
    /// The effect of unreadable memory in an action.
    pub unreadable: Unreadable,
}

impl Options {
    /// The options of a recording: each frame has its stamp, and the registers that an action requests.
    #[must_use]
    pub const fn of_recording(format: FrameFormat) -> Self {
        Self {
            format,
            stamp: true,
            registers: Registers::Asked,
            unreadable: Unreadable::Missing,
        }
    }
}

/// When a frame holds the register block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// When an action collects registers.
    Asked,
    /// Always.
    Always,
}

/// The effect of unreadable memory in an action. In a condition it ends the run in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// The value is missing from the frame from its first unreadable byte on, and counted; the run goes on.
    Missing,
    /// The frame is kept as with `Missing`, and the run ends with `terror`.
    Stop,
}
