//! Pads: code in the program that serves tracepoints without a stop, if a target supports it.
//!
//! A target that can have pads is a [`PadTarget`]. For each run it sets up [`Pads`]: it compiles tracepoints, keeps the trace
//! state variables that pads share, counts, and returns the frames that pads have made. The experiment depends neither on the
//! machine code nor on the memory that it uses.

mod account;
mod frames;
mod run_pads;
mod serve;
mod stops;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tracewire_model::{
    Address, Aggregate, AggregateTable, Key, RegisterMask, TracepointDefinition, TracepointNumber,
    VariableNumber,
};

use crate::budget::HitCost;
use crate::builtin::Builtin;
use crate::error::TargetError;
use crate::missing::Missing;
use crate::rate::FrameRate;
use crate::run_end::RunEnd;
use crate::stepping::TracepointKey;

pub use account::LocationCost;
pub(crate) use account::{Account, BudgetLook};
pub(crate) use run_pads::RunPads;

/// A target whose program can run pads.
pub trait PadTarget {
    /// Prepares the pads of a run.
    ///
    /// # Errors
    /// Why there can be no pads, as a message for the user.
    fn set_up_pads(&mut self, needs: &PadNeeds) -> Result<Box<dyn Pads>, String>;

    /// Inserts a tracepoint that a pad serves. Returns the kind of jump in words.
    ///
    /// # Errors
    /// When it cannot be, or the program cannot be written to.
    fn insert_pad(&mut self, address: Address, pad: PadCode) -> Result<&'static str, TargetError>;

    /// Moves threads out of pads, now that no tracepoint leads there.
    fn leave_pads(&mut self);

    /// Removes the pads and their memory from the program.
    fn remove_pads(&mut self);

    /// The addresses at which a trap has replaced a pad since the last call, and why.
    fn take_demoted(&mut self) -> Vec<(Address, String)>;

    /// Stores in the program the description of the pads' frames, for a later tracer should this one be killed: the lines of a
    /// trace file's description.
    fn leave_note(&mut self, description: &[u8]);
}

/// The requirements of a run for its pads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PadNeeds {
    /// The trace buffer's capacity for frames in bytes; `None` where the disk is the limit.
    pub buffer: Option<u64>,
    /// Whether its oldest frames are overwritten by new ones.
    pub circular: bool,
    /// Whether each frame is to come soon, and none is to make room before it has come.
    pub watched: bool,
    /// How many tracepoint locations there are.
    pub tracepoints: usize,
    /// Whether some of them count.
    pub counts: bool,
    /// The ratio of the time to pay for a cost to the cost ([`crate::Budget::factor`]); `None` without a budget.
    pub budget: Option<u64>,
}

/// The machine code of a pad, which runs at any place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PadCode {
    /// The code. It is entered at its first byte with all registers as at the tracepoint, and left after its last with all of
    /// them restored.
    pub code: Vec<u8>,
    /// The instructions that may fault, and where to continue then, in rising order.
    pub faults: Vec<Fault>,
}

/// An instruction of a pad that touches memory of the program, or reads the clock. When it faults (SIGSEGV or SIGBUS), the
/// thread is to go on at `resume`, everything else as it is, without the signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The instruction's offset in the code.
    pub at: u32,
    /// The offset in the code at which to continue.
    pub resume: u32,
    /// The kind of access that failed.
    pub kind: FaultKind,
}

/// The kind of access that an instruction of a pad could not make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A needed value, or the clock. The pad knows what to do.
    Memory,
    /// The first word of the thread's memory, at its thread pointer. The pad knows what to do; the tracer is to tell the pads that it
    /// is not the address of that memory.
    ThreadPointer,
    /// The program's stack, which is at its end. The hit makes no frame; the tracer is to count it as lost.
    Stack,
}

/// The registers that frames keep ([`tracewire_tracefile::RegisterSets`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptSet<'t> {
    /// The number of their set.
    pub number: u32,
    /// The registers. Those of the x87 unit are all included, or none ([`tracewire_arch::is_x87`]).
    pub registers: &'t RegisterMask,
}

/// The work of a pad for one location of a tracepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PadTask<'t> {
    /// The definition to serve.
    pub definition: TracepointDefinition,
    /// The registers that its frames keep, if that is not a whole register block.
    pub kept: Option<KeptSet<'t>>,
    /// How many frames all locations of the tracepoint together may make; `None` where there is no limit.
    pub rate: Option<FrameRate>,
}

/// A pad's counts for a location of a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PadUpdate {
    /// Hits since the last update whose frames were lost or given up.
    pub lost: u64,
    /// Hits since the last update that made no frame because of the tracepoint's rate, or of the budget.
    pub skipped: u64,
    /// The values that could not be read, all of them.
    pub missing: Missing,
}

/// The contents of all frames of a run.
#[derive(Clone, Copy, Debug)]
pub struct FrameContents<'o> {
    /// Whether every frame has a register block, and not only where an action collects registers.
    pub always_registers: bool,
    /// The numbers of `$trace_timestamp`, `$trace_thread` and `$trace_cpu`, if every frame holds them after its
    /// registers.
    pub stamp: Option<[VariableNumber; 3]>,
    /// The builtin variables.
    pub builtins: &'o [(VariableNumber, Builtin)],
}

/// The state of the threads that make frames while the frames of pads are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// They run.
    Running,
    /// None runs. One of them may be stopped inside a pad and go on later.
    Stopped,
    /// None is inside a pad, and none will be: an unfinished frame is torn.
    Gone,
}

/// Frames that pads began, or would have made, and that are in no buffer, by the reason of the loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// The program made them faster than they were read, and the ring of its cpu was full.
    pub ring_full: u64,
    /// The ring overwrites its oldest frames, and reached them before their threads had finished them.
    pub ring_held: u64,
    /// They were longer than pads make them.
    pub too_long: u64,
    /// The thread had no stack left for a pad.
    pub without_stack: u64,
    /// They were begun and never finished.
    pub torn: u64,
    /// Calls that a pick has picked, and that have neither of their frames: too many were open.
    pub without_slot: u64,
}

impl Losses {
    /// How many frames that are in all.
    #[must_use]
    pub const fn all(&self) -> u64 {
        // A call has an entry and a return.
        self.ring_full
            + self.ring_held
            + self.too_long
            + self.without_stack
            + self.torn
            + 2 * self.without_slot
    }

    const fn and(self, other: &Self) -> Self {
        Self {
            ring_full: self.ring_full + other.ring_full,
            ring_held: self.ring_held + other.ring_held,
            too_long: self.too_long + other.too_long,
            without_stack: self.without_stack + other.without_stack,
            torn: self.torn + other.torn,
            without_slot: self.without_slot + other.without_slot,
        }
    }
}

/// A trace state variable whose value pads share.
pub trait SharedVariable: fmt::Debug {
    /// Its value.
    fn get(&self) -> i64;
    /// Changes its value.
    fn set(&self, value: i64);
}

/// The destination of frames that are taken from pads.
pub trait FrameSink {
    /// The offset of the next frame in a file that outlives this process; `None` if frames are in memory.
    fn file_end(&self) -> Option<u64>;

    /// Keeps the frame of a hit or of a step of a tracepoint; false if it cannot be kept, nor any after it. `stamp` is where the
    /// time is in it, if it was collected.
    fn keep(
        &mut self,
        tracepoint: Option<TracepointKey>,
        step: bool,
        stamp: Option<usize>,
        frame: &[u8],
    ) -> bool;
}

/// The key of a call that has begun: the tracepoint, and the stack pointer at the function's first instruction. No two threads have
/// the same one.
pub type CallKey = (TracepointNumber, u64);

/// The pads of a run. Times are by the clock of all its frames, in microseconds.
pub trait Pads: fmt::Debug {
    /// Whether the program has lost them: it has called exec, for example.
    fn is_gone(&self) -> bool;

    /// Makes the code for the tracepoints at an address, in their order. Their counts begin at 0.
    ///
    /// # Errors
    /// Why a pad cannot do this, as a message for the user.
    fn compile(
        &mut self,
        address: Address,
        tracepoints: &[PadTask<'_>],
        contents: &FrameContents<'_>,
    ) -> Result<PadCode, String>;

    /// Makes space for the value of a variable; `None` if it exists already, or none is left.
    fn share_variable(&mut self, number: VariableNumber) -> Option<Rc<dyn SharedVariable>>;

    /// Sets the enabled tracepoints for pads. Hits see it at once.
    fn set_enabled(&mut self, is_enabled: &dyn Fn(TracepointKey) -> bool);

    /// How many hits pads have counted for the pass count of a tracepoint.
    fn passes(&self, tracepoint: TracepointKey) -> u64;

    /// Counts a hit for the pass count, as the pad does: how many were counted before. `None` for a tracepoint without a pad.
    fn count_pass(&mut self, tracepoint: TracepointKey) -> Option<u64>;

    /// Takes the counts of pads for a tracepoint: hits for its pass count, and values that could not be read. Counts begin at 0
    /// again.
    fn take_counts(&mut self, tracepoint: TracepointKey) -> Option<(u64, Missing)>;

    /// Reports each tracepoint with hits since the last call that have no frame, or with values that could not be read.
    fn report_counts(&mut self, report: &mut dyn FnMut(TracepointKey, PadUpdate));

    /// Whether a hit of a stopped thread makes a frame, if its tracepoint has a rate: its hits in pads count for that too. `None`
    /// where the pads have no space to track that.
    fn admit(&mut self, tracepoint: TracepointKey, rate: FrameRate) -> Option<bool>;

    /// Changes the time to pay for a cost ([`crate::Budget::factor`]).
    fn set_budget(&mut self, factor: u64);

    /// Charges a cost to all cpus.
    fn charge(&mut self, cost: Duration);

    /// How far the cpu that is behind most is behind. Time that a cpu does not use is not saved for later.
    fn behind(&mut self) -> Duration;

    /// The cost of a tracepoint's hits in its pad so far.
    fn spent(&self, tracepoint: TracepointKey) -> Duration;

    /// The most that hits of the tracepoints at an address cost, in the order of the tracepoints, in the pad that was made last.
    fn costs(&self, address: Address) -> &[HitCost];

    /// The counts of pads for each aggregate so far.
    fn aggregates(&self) -> Vec<(TracepointNumber, Aggregate, AggregateTable)>;

    /// Counts a hit of a stopped thread in the table of a pick, as a pad does, and returns whether it makes a frame. A hit whose keys find
    /// no space makes none. `None` where the pads have no space for the table.
    fn pick(
        &mut self,
        tracepoint: TracepointNumber,
        aggregate: &Aggregate,
        keys: &[Key],
    ) -> Option<bool>;

    /// Whether a measured call has begun and not ended.
    fn has_call(&self, call: CallKey) -> bool;

    /// A measured call begins at the stop that is being handled. These words of it are kept; `None` if the call is not measured.
    /// In a loop, a call that has begun continues. Returns whether the call is measured: too many may be open.
    fn begin_call(&mut self, call: CallKey, is_loop: bool, kept: Option<Vec<u64>>) -> bool;

    /// Ends a measured call at the stop that is being handled. Returns its duration in nanoseconds, and the kept values. `None`
    /// if it has not begun.
    fn end_call(&mut self, call: CallKey) -> Option<(u64, Vec<u64>)>;

    /// Has pads do nothing from now on. Frames made since the stop that is being handled, or else from now on, are none of the
    /// run's.
    fn end(&mut self);

    /// Why pads have ended the run, if they have.
    fn ended(&self) -> Option<RunEnd>;

    /// Accepts that pads have ended the run: frames that are made from now on are none of the run's.
    fn accept_end(&mut self);

    /// The time.
    fn now(&self) -> u64;

    /// A thread has stopped.
    fn begin_stop(&mut self);

    /// The time when the thread that is being handled stopped: microseconds, and the remaining fraction of one.
    fn stop_time(&self) -> Option<(u64, u64)>;

    /// The stopped thread is resumed.
    fn end_stop(&mut self);

    /// Adds the frame of a hit or of a step of a stopped thread to those of the pads, for [`take`](Self::take) to return it
    /// in the order of time. `stamp` is where the time is in it.
    fn insert(&mut self, tracepoint: TracepointKey, step: bool, stamp: Option<usize>, frame: &[u8]);

    /// Moves frames to a sink, in the order of time. Returns the used part of a ring; 1 is all of it.
    fn take(&mut self, writers: Writers, sink: &mut dyn FrameSink) -> f64;

    /// As [`take`](Self::take), only for frames that were seen before and that no earlier one can precede any more.
    fn take_released(&mut self, sink: &mut dyn FrameSink);

    /// Whether the frames may stay where they are for now, because others would soon replace them.
    fn may_wait(&mut self) -> bool;

    /// The latest `$trace_timestamp` of all frames that were taken.
    fn last_time(&self) -> u64;

    /// The frames that pads could not keep.
    fn losses(&self) -> Losses;

    /// How many frames pads gave up for newer ones.
    fn dropped(&self) -> u64;
}
