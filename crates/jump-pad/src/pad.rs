//! The input from which a pad is made, and the result.

use std::collections::BTreeMap;

use tracewire_agent_expr::{EvaluationErrorKind, VerifyError};
use tracewire_arch::X86Registers;
use tracewire_experiment::{Fault, HitCost, KeptSet, Pace};
use tracewire_model::{Address, RegisterNumber, TracepointDefinition, VariableNumber};

use crate::count_table::CountTable;
use crate::layout::SharedLayout;

/// A tracepoint that a pad serves.
#[derive(Clone, Copy, Debug)]
pub struct PadTracepoint<'t> {
    /// Its block in the shared memory; each location of a tracepoint has its own.
    pub index: u32,
    /// Its definition. Whether it is enabled is read from the shared memory at every hit.
    pub definition: &'t TracepointDefinition,
    /// The tables of its aggregates, in their order.
    pub tables: &'t [CountTable],
    /// The registers that its frames keep, if that is not a whole register block.
    pub kept: Option<KeptSet<'t>>,
    /// The limit of its frames; `None` without one.
    pub rate: Option<PadRate>,
}

/// How often hits may make frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PadRate {
    /// The rate, by the counter.
    pub pace: Pace,
    /// The block with the time when the next frame is due. All locations of a tracepoint have the same one.
    pub block: u32,
}

/// The place of a trace state variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadVariable {
    /// In this slot of the shared memory.
    Slot(u32),
    /// The time of the hit, in microseconds.
    Timestamp,
    /// The thread that hit.
    Thread,
    /// The cpu that it was on.
    Cpu,
    /// The duration of the ending call, in nanoseconds.
    Duration,
}

/// The features of the machine that pads use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// The machine has `rdpid`.
    pub rdpid: bool,
    /// The machine has `rdfsbase`, and the kernel allows it (bit 1 of `AT_HWCAP2`).
    pub fsgsbase: bool,
    /// `xgetbv` reports which state is in use (leaf 0xd of `cpuid`, subleaf 1, bit 2 of `eax`).
    pub xgetbv1: bool,
    /// The machine has `cmpxchg16b`.
    pub cmpxchg16b: bool,
    /// The machine has the upper halves of `ymm` registers.
    pub avx: bool,
    /// The machine has `zmm`, `xmm16` and on, and mask registers (`avx512f`, `avx512vl` and `avx512bw`).
    pub avx512: bool,
}

/// The common options of a run's pads.
#[derive(Clone, Copy, Debug)]
pub struct PadOptions<'o> {
    /// The shared memory.
    pub layout: &'o SharedLayout,
    /// Its address in the program.
    pub shared: Address,
    /// The registers of a register block.
    pub registers: X86Registers,
    /// Whether every frame has a register block, and not only where an action collects registers.
    pub always_registers: bool,
    /// The numbers of `$trace_timestamp`, `$trace_thread` and `$trace_cpu`, if every frame holds them, and the fraction of a microsecond, after its
    /// registers.
    pub stamp: Option<[VariableNumber; 3]>,
    /// The variables by number. A tracepoint with another variable cannot be compiled.
    pub variables: &'o BTreeMap<VariableNumber, PadVariable>,
    /// How many bytes of the program's stack a hit may use, its red zone included.
    pub stack_limit: u32,
    /// Whether pads can go on without a tracer, if [`crate::Orphaned::GoOn`] is set at that time. It doubles the code.
    pub goes_on: bool,
    /// The features of the machine.
    pub features: Features,
    /// Whether hits are charged to the budget of their cpu ([`crate::Shared::set_budget`]), which may have no room for a frame.
    pub has_budget: bool,
}

/// Machine code for one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pad {
    /// The code, which is entered at its first byte with all registers as at the tracepoint. After its last byte all registers,
    /// flags and the stack are restored: there the displaced instructions and the jump back are placed.
    pub code: Vec<u8>,
    /// The instructions that may fault, by rising offsets.
    pub faults: Vec<Fault>,
    /// How many bytes of the program's stack it uses, the red zone included; where register blocks are collected, 528
    /// more while the program's x87 unit is in use.
    pub stack: u32,
    /// The most that a hit of each tracepoint costs, in their order.
    pub costs: Vec<HitCost>,
    /// The meanings of [`crate::PadError::site`].
    pub(crate) sites: Vec<ErrorSite>,
}

impl Pad {
    /// Where a thread continues whose instruction at this offset in the code faulted.
    #[must_use]
    pub fn resume(&self, at: u32) -> Option<u32> {
        let index = self.faults.binary_search_by_key(&at, |fault| fault.at);
        index
            .ok()
            .and_then(|index| self.faults.get(index))
            .map(|fault| fault.resume)
    }

    /// The text of an error, in the words of the trap mechanism.
    #[must_use]
    pub fn error_text(&self, error: &crate::PadError) -> Option<String> {
        self.sites
            .get(usize::try_from(error.site).ok()?)
            .map(|site| site.text(error.detail))
    }
}

/// A place in a pad from which a run can end with an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ErrorSite {
    pub(crate) condition: bool,
    pub(crate) kind: ErrorKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ErrorKind {
    /// An instruction of an expression. The detail is the address for memory.
    Evaluation {
        offset: usize,
        kind: EvaluationErrorKind,
    },
    /// Too many steps; the detail is how many of them, the last of these instructions being the last one counted.
    Steps {
        offsets: Vec<usize>,
    },
    /// A register of an action.
    Register(RegisterNumber),
    Pieces,
}

impl ErrorSite {
    pub(crate) fn text(&self, detail: u64) -> String {
        let text = match &self.kind {
            ErrorKind::Evaluation { offset, kind } => {
                let kind = match *kind {
                    EvaluationErrorKind::BadMemory { size, .. } => EvaluationErrorKind::BadMemory {
                        address: detail,
                        size,
                    },
                    kind => kind,
                };
                format!("{kind} at offset {offset}")
            }
            ErrorKind::Steps { offsets } => {
                let over = detail.saturating_sub(u64::from(tracewire_agent_expr::STEP_LIMIT));
                let place = (offsets.len() as u64).saturating_sub(over);
                let offset = usize::try_from(place)
                    .ok()
                    .and_then(|place| offsets.get(place))
                    .copied()
                    .unwrap_or(0);
                format!("{} at offset {offset}", EvaluationErrorKind::TooManySteps)
            }
            ErrorKind::Register(register) => format!("register {register} has no value"),
            ErrorKind::Pieces => "a hit collects more than 4096 pieces".to_owned(),
        };
        if self.condition {
            format!("condition: {text}")
        } else {
            text
        }
    }
}

/// Why an address cannot have a pad and its tracepoints run as traps.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotCompile {
    /// `while-stepping` needs the tracer.
    #[error("while-stepping needs a trap")]
    Steps,
    /// `$_sdata` is known to the tracer only.
    #[error("static tracepoint data needs a trap")]
    StaticData,
    /// An expression that is none.
    #[error("the agent expression cannot be evaluated: {0}")]
    Program(#[from] VerifyError),
    /// A condition without a result.
    #[error("the condition leaves no result")]
    NoResult,
    /// An expression that prints.
    #[error("the agent expression prints")]
    Prints,
    /// A register whose value only the tracer can read.
    #[error("the value of register {0} needs a trap")]
    Register(RegisterNumber),
    /// A variable that has no place in the shared memory.
    #[error("trace state variable {0} has no place in the shared memory")]
    Variable(VariableNumber),
    /// A frame longer than pads make.
    #[error("a frame may have {needed} bytes, pads make frames of up to {limit}")]
    Frame {
        /// Its most bytes.
        needed: u64,
        /// The limit.
        limit: u32,
    },
    /// More values than one hit may collect.
    #[error("a hit collects more than 4096 pieces")]
    Pieces,
    /// An expression that would need too much of the program's stack.
    #[error("the pad would use {needed} bytes of the program's stack, {limit} are allowed")]
    Stack {
        /// The bytes that it would use.
        needed: u32,
        /// The bytes that it may use.
        limit: u32,
    },
    /// No table for an aggregate, or no slots for calls.
    #[error("the memory that is shared with the program has no room for what is counted")]
    Counts,
    /// An average on a processor that cannot exchange 16 bytes at once.
    #[error("avg() needs a trap: this processor has no cmpxchg16b")]
    Average,
    /// A tracepoint without a block in the shared memory.
    #[error("tracepoint block {0} is not in the shared memory")]
    Block(u32),
    /// A number that does not fit in a frame.
    #[error("tracepoint number {0} cannot be in a trace frame")]
    Number(i32),
    /// A processor that cannot exchange 16 bytes at once: none after the first that had 64 bits.
    #[error("in a circular buffer, this processor needs traps: it has no cmpxchg16b")]
    Processor,
    /// The code would be longer than a jump reaches, or an instruction could not be encoded.
    #[error("the code cannot be encoded: {0}")]
    Encoding(String),
}
