//! What serves tracepoints, and what a target provides for pads.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tracewire_arch::X86Registers;
use tracewire_jump_pad::{CannotCompile, Fault, Features, Shared};
use tracewire_model::Address;

/// Memory that the program and its tracer share, set up for pads.
pub struct PadMemory {
    /// The tracer's view.
    pub shared: Shared,
    /// Where the program has it.
    pub address: Address,
    /// The registers of a register block.
    pub registers: X86Registers,
    /// What the machine can do.
    pub features: Features,
    /// What the target knows of it meanwhile.
    pub news: Arc<PadNews>,
    /// What keeps the memory there; dropped last.
    pub keeper: Box<dyn fmt::Debug>,
}

/// What a target tells of memory for pads.
#[derive(Debug, Default)]
pub struct PadNews {
    /// The program has lost it, by becoming another program, say.
    pub gone: AtomicBool,
    /// Hits without a frame, because the program's stack was at its end.
    pub without_stack: AtomicU64,
}

impl fmt::Debug for PadMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PadMemory")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Makes the machine code of a pad for a place in memory. A target may ask for it more than once, when it moves a pad.
pub type PadMaker = Rc<dyn Fn(u64) -> Result<PadCode, CannotCompile>>;

/// The machine code of a pad.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PadCode {
    /// Entered at its first byte with all registers as they are at the tracepoint, left behind its last with all as it
    /// was.
    pub code: Vec<u8>,
    /// Instructions that may fault, and where to go on then, rising.
    pub faults: Vec<Fault>,
}

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
}

impl Served {
    /// As it is told in a file.
    #[must_use]
    pub fn told(&self) -> tracewire_model::Served {
        let (mechanism, reason) = match self {
            Self::Jump(way) => (*way, None),
            Self::Trap(reason) => ("trap", reason.clone()),
        };
        tracewire_model::Served {
            mechanism: mechanism.to_owned(),
            reason,
        }
    }
}
