//! The builtin trace state variables.

/// A variable whose value comes from the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Builtin {
    /// When the thread stopped, in microseconds.
    Timestamp,
    /// Which thread.
    Thread,
    /// On which cpu.
    Cpu,
}

impl Builtin {
    pub(crate) const ALL: [Self; 3] = [Self::Timestamp, Self::Thread, Self::Cpu];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "trace_timestamp",
            Self::Thread => "trace_thread",
            Self::Cpu => "trace_cpu",
        }
    }
}
