//! The mechanisms that serve tracepoints.

/// The permitted mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mechanism {
    /// Jumps wherever possible, and traps elsewhere. A tracepoint that was defined as a fast one is a jump or is refused.
    #[default]
    Best,
    /// Jumps; a tracepoint that cannot have one is refused.
    Jump,
    /// Traps, for fast tracepoints too.
    Trap,
}

/// How an address is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// A jump to a pad; the form of the jump.
    Jump(&'static str),
    /// A trap. The reason why it is no jump, unless traps were requested.
    Trap(Option<String>),
    /// A debug register, for memory that is watched.
    Watchpoint,
}

impl Served {
    /// The form in a trace file.
    #[must_use]
    pub fn in_file(&self) -> tracewire_model::Served {
        let (mechanism, reason) = match self {
            Self::Jump(way) => (*way, None),
            Self::Trap(reason) => ("trap", reason.clone()),
            Self::Watchpoint => ("watchpoint", None),
        };
        tracewire_model::Served {
            mechanism: mechanism.to_owned(),
            reason,
        }
    }
}
