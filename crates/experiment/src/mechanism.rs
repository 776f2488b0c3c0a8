//! What serves tracepoints.

/// What may serve tracepoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mechanism {
    /// Jumps wherever they can be, and traps elsewhere. A tracepoint that was defined as a fast one is a jump or is
    /// refused.
    #[default]
    Best,
    /// Jumps, and where one cannot be the tracepoint is refused.
    Jump,
    /// Traps, for fast tracepoints too.
    Trap,
}

/// What serves an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// A jump into a pad; in which way the jump was put in.
    Jump(&'static str),
    /// A trap. Why it is no jump, unless traps were asked for.
    Trap(Option<String>),
    /// A debug register, for memory that is watched.
    Watchpoint,
}

impl Served {
    /// As it is told in a file.
    #[must_use]
    pub fn told(&self) -> tracewire_model::Served {
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
