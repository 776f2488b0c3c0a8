//! What a pad is made from, and what it is.

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
    /// What it does. Whether it is enabled is asked of the shared memory at every hit.
    pub definition: &'t TracepointDefinition,
    /// The tables of its aggregates, in their order.
    pub tables: &'t [CountTable],
    /// The registers that its frames keep, where that is not a whole register block.
    pub kept: Option<KeptSet<'t>>,
    /// How often it may make frames; `None` where there is no limit.
    pub rate: Option<PadRate>,
}

/// How often hits may make frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PadRate {
    /// The rate, by the counter.
    pub pace: Pace,
    /// The block that says when the next frame is due. All locations of a tracepoint have the same one.
    pub block: u32,
}

/// Where a trace state variable is kept.
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
    /// How long the call took that ends, in nanoseconds.
    Duration,
}

/// What the machine can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// `rdpid` is there.
    pub rdpid: bool,
    /// `rdfsbase` is there, and the kernel allows it (bit 1 of `AT_HWCAP2`).
    pub fsgsbase: bool,
    /// `xgetbv` says which state is in use (leaf 0xd of `cpuid`, subleaf 1, bit 2 of `eax`).
    pub xgetbv1: bool,
    /// `cmpxchg16b` is there.
    pub cmpxchg16b: bool,
    /// The upper halves of `ymm` registers are there.
    pub avx: bool,
    /// `zmm`, `xmm16` and on, and mask registers are there (`avx512f`, `avx512vl` and `avx512bw`).
    pub avx512: bool,
}

/// What all pads of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct PadOptions<'o> {
    /// The shared memory.
    pub layout: &'o SharedLayout,
    /// Where the program has it mapped.
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
    /// Whether pads can go on without a tracer, if [`crate::Orphaned::GoOn`] says so at that time. It takes as much code again.
    pub goes_on: bool,
    /// What the machine can do.
    pub features: Features,
    /// Whether hits are charged to the budget of their cpu ([`crate::Shared::set_budget`]), which may have no room for a frame.
    pub has_budget: bool,
}

/// Machine code for one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pad {
    /// The code, to be entered at its first byte with all registers as they are at the tracepoint. After its last
    /// byte all registers, flags and the stack are so again: there the displaced instructions go, and the way back.
    pub code: Vec<u8>,
    /// Where it may fault, by rising offsets.
    pub faults: Vec<Fault>,
    /// How many bytes of the program's stack it uses, the red zone included; where register blocks are collected, 528
    /// more while the program's x87 unit is in use.
    pub stack: u32,
    /// What a hit of each tracepoint costs at most, in their order.
    pub costs: Vec<HitCost>,
    /// What [`crate::PadError::site`] means.
    pub(crate) sites: Vec<ErrorSite>,
}

impl Pad {
    /// Where a thread whose instruction at this offset in the code faulted is to go on.
    #[must_use]
    pub fn resume(&self, at: u32) -> Option<u32> {
        let index = self.faults.binary_search_by_key(&at, |fault| fault.at);
        index
            .ok()
            .and_then(|index| self.faults.get(index))
            .map(|fault| fault.resume)
    }

    /// What happened at an error's place, in the words of the trap mechanism.
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
    /// A register whose value takes the tracer.
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
        /// What it would use.
        needed: u32,
        /// What it may use.
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
    /// A number that no frame can tell.
    #[error("tracepoint number {0} cannot stand in a trace frame")]
    Number(i32),
    /// A processor that cannot exchange 16 bytes at once: none after the first that had 64 bits.
    #[error("in a circular buffer, this processor needs traps: it has no cmpxchg16b")]
    Processor,
    /// The code would be longer than a jump reaches, or an instruction could not be encoded.
    #[error("the code cannot be encoded: {0}")]
    Encoding(String),
}
