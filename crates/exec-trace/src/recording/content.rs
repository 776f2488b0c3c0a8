//! What a recording records: state, or only where the program was.

use std::fmt;

use super::Summary;
use crate::text::Format;

/// What a recording records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Content {
    /// Instructions, with registers or memory accesses.
    State,
    /// Every instruction, and neither registers nor memory: control flow only.
    ControlFlow,
    /// The branches that were taken, and the instructions that they went to.
    Branches,
    /// Some instructions: what lies between two of them is not known.
    Samples,
}

/// What a question needs of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Need {
    /// The values of registers.
    Registers,
    /// Memory accesses.
    Accesses,
    /// The way from instruction to instruction.
    ControlFlow,
    /// All instructions that were executed.
    EveryInstruction,
}

/// Why a recording has no answer to a question, and what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Lacking {
    content: Content,
    need: Need,
    format: Format,
}

impl Content {
    pub(super) const fn of(format: Format, summary: &Summary) -> Self {
        match format {
            Format::PerfInstructions | Format::ControlFlow => Self::ControlFlow,
            Format::PerfBranches => Self::Branches,
            Format::PerfSamples => Self::Samples,
            // These write what instructions did only with an option.
            Format::Spike | Format::QemuLog | Format::Execlog
                if summary.instructions > 0
                    && summary.register_writes == 0
                    && summary.memory_accesses == 0 =>
            {
                Self::ControlFlow
            }
            _ => Self::State,
        }
    }

    /// The name that `info` gives to scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::ControlFlow => "control-flow",
            Self::Branches => "branches",
            Self::Samples => "samples",
        }
    }

    /// What a user is to know of a recording that has not all; none where it may have.
    #[must_use]
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Self::State => None,
            Self::ControlFlow => {
                Some("the trace records control flow only: registers and memory are unavailable")
            }
            Self::Branches => Some(
                "the trace records branches only: registers, memory and what lies between two branches are unavailable",
            ),
            Self::Samples => Some(
                "the trace records samples only: registers, memory and what lies between two samples are unavailable",
            ),
        }
    }

    /// Why it does not have what is needed, if so.
    pub(super) fn lacking(self, need: Need, format: Format, summary: &Summary) -> Option<Lacking> {
        let has = match need {
            Need::Registers => self == Self::State,
            Need::Accesses => self == Self::State || summary.memory_accesses > 0,
            Need::ControlFlow => self != Self::Samples,
            Need::EveryInstruction => matches!(self, Self::State | Self::ControlFlow),
        };
        (!has).then_some(Lacking {
            content: self,
            need,
            format,
        })
    }
}

impl Lacking {
    /// What to run to have it.
    const fn instead(self) -> &'static str {
        match (self.need, self.format) {
            (Need::ControlFlow | Need::EveryInstruction, _) => {
                "have every instruction with: perf record -e intel_pt//u PROGRAM; perf script --insn-trace"
            }
            (_, Format::Spike) => "run Spike with: -l --log-commits",
            (_, Format::QemuLog) => {
                "run QEMU with -d in_asm,exec,cpu,nochain for registers, or with `tracewire qemu` for memory too"
            }
            (_, Format::Execlog) => {
                "run QEMU with execlog's reg=*, or with `tracewire qemu` for memory too"
            }
            _ => "record values with `tracewire record`",
        }
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacks = match (self.need, self.content) {
            (Need::Registers, _) => "it has no registers",
            (Need::Accesses, _) => "it has no memory accesses",
            (_, Content::Branches) => "what was executed between two branches is not in it",
            (..) => "what was executed between two of them is not in it",
        };
        let records = match self.content {
            Content::State => "state",
            Content::ControlFlow => "control flow only",
            Content::Branches => "branches only",
            Content::Samples => "samples only",
        };
        write!(
            f,
            "the trace records {records}: {lacks}; {}",
            self.instead()
        )
    }
}
