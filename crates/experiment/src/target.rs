//! What a target offers an experiment, and what an experiment tells a target.

use std::time::{SystemTime, UNIX_EPOCH};

use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::pads::PadTarget;

/// One piece of memory to be read; many are read in one call.
#[derive(Debug)]
pub struct MemoryRead {
    /// Where the piece starts.
    pub address: Address,
    /// As long as the piece; filled by the target.
    pub bytes: Vec<u8>,
    /// How many bytes from the start are good; set by the target. Less than the length where memory ends.
    pub filled: usize,
}

/// A thread of the traced program that is stopped at a tracepoint. Everything is read lazily: a condition
/// that looks at one register costs one register read.
pub trait StoppedThread {
    /// Which thread it is.
    fn id(&self) -> ThreadId;

    /// Whether no other thread of the program runs that could be inside a pad: then all that pads have begun before this
    /// stop is whole, or was left by this thread itself.
    fn is_alone(&self) -> bool {
        false
    }

    /// The cpu it ran on when it stopped.
    fn cpu(&mut self) -> u32;

    /// When it stopped, in microseconds since 1970-01-01 00:00 UTC; never smaller than an earlier stop's.
    fn timestamp(&self) -> u64;

    /// The same in nanoseconds, where the target knows it.
    fn timestamp_ns(&self) -> Option<u64> {
        None
    }

    /// A register by its number in the target description, zero-extended; the lowest 64 bits of a vector register of 128
    /// ([`tracewire_arch::Register::number`]). `None` for another one wider than 64 bits, one that the machine does
    /// not have, or one that cannot be read. The program counter is that of the
    /// tracepoint, whatever the mechanism did to it.
    fn register(&mut self, register: RegisterNumber) -> Option<u64>;

    /// The whole register block, in the order and sizes of the target description (a `g` packet's bytes),
    /// target byte order.
    ///
    /// # Errors
    /// When the thread is gone, or the kernel refuses.
    fn register_block(&mut self) -> Result<&[u8], TargetError>;

    /// Which bytes of the register block are known; none where all of them are. The others are 0 in the block.
    fn known_registers(&mut self) -> Option<&[bool]> {
        None
    }

    /// Which registers of the block are not known, wholly or in part, for the frame to say so
    /// ([`tracewire_tracefile::FrameEncoder::unknown_registers`]).
    fn unknown_registers(&mut self) -> &[u64] {
        &[]
    }

    /// Reads all the pieces in as few calls as can be, setting `filled` of each. What GDB would see: traps and
    /// jumps of ours never show.
    ///
    /// Bytes behind the first unreadable one of a piece are not looked at: the next piece may well be readable.
    fn read_memory(&mut self, pieces: &mut [MemoryRead]);

    /// Where memory can be read again behind an address that cannot be, at an address below `end`; none where nothing
    /// is. A live program loses whole pages, and nothing is looked for behind them; a recording may know every other
    /// byte.
    fn readable_from(&mut self, address: Address, end: Address) -> Option<Address> {
        _ = (address, end);
        None
    }

    /// Whether a register without a value is one that the machine has, whose value is not known at this moment: what
    /// needs it is missing then, as with unreadable memory, and the run goes on.
    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        _ = register;
        false
    }

    /// What the marker of a static tracepoint that the thread is at has to say (`$_sdata`); `None` where there is
    /// no marker.
    fn static_data(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// A place that a thread reached, as the target tells it to the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// A tracepoint's own address.
    Tracepoint(Address),
    /// One more instruction done by a thread that is stepping for a `while-stepping`. Where that led it to the address
    /// of a tracepoint, the step is told first and the tracepoint then, in a call of its own. Where the thread is now.
    Step(Address),
    /// Memory that is watched has been written to, by the instruction before the one where the thread is now.
    Write {
        /// Where the memory is.
        address: Address,
        /// How many bytes are watched, as [`Target::insert_watchpoint`] was told.
        length: u64,
    },
}

/// What the target does with the thread after a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The thread must be stepped one instruction and reported again as [`Hit::Step`]. The last outcome told for a
    /// thread counts.
    pub step: bool,
    /// The run is over (pass count, full buffer, error, or it was over before): no more hits are wanted.
    pub run_ended: bool,
}

/// A handler of hits: the experiment, or a test.
pub trait HitHandler {
    /// Called for every place that a thread reached, while it stands there.
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome;

    /// Called when a thread has come to a breakpoint of a debugger's, in memory or of the machine's: whether the
    /// debugger is to be told. The thread stands there, and its program counter is this address.
    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        _ = (address, thread);
        true
    }

    /// Whether [`Self::look_around`] is to be called although no pad runs.
    fn looks_around(&self) -> bool {
        false
    }

    /// Whether [`Self::look_around`] is to be called now, after a hit, and not only when its time has come.
    fn looks_now(&self) -> bool {
        false
    }

    /// Called now and then while the program runs and has pads.
    fn look_around(&mut self) -> LookAround {
        LookAround::GoesOn { filled: 0.0 }
    }

    /// Called when a thread is gone, so that nothing is kept for it.
    fn thread_ended(&mut self, thread: ThreadId) {
        _ = thread;
    }
}

/// What a look at the pads has shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LookAround {
    /// The run is over.
    Ended,
    /// What is in the program has to be changed, while it is stopped.
    Change,
    /// It goes on.
    GoesOn {
        /// How much of the room for a cpu's frames has been used since the last look; 1 is all of it.
        filled: f64,
    },
}

/// A program that tracepoints can be put into.
pub trait Target {
    /// Puts a tracepoint in. Called once an address, however many tracepoints stand there.
    ///
    /// # Errors
    /// When no mechanism can serve the address; the text says why and goes to the user.
    fn insert(&mut self, address: Address) -> Result<(), TargetError>;

    /// Takes the tracepoint out and leaves the very bytes that were there.
    ///
    /// # Errors
    /// When the program cannot be written to. A program that is gone, or a library that is no longer mapped, is no
    /// error.
    fn remove(&mut self, address: Address) -> Result<(), TargetError>;

    /// Has every thread that writes to this memory report it ([`Hit::Write`]), those that are yet to be made too. Gives what
    /// is there now. Called once for an address and a length.
    ///
    /// # Errors
    /// When the target cannot watch memory, or not so much; the text says why and goes to the user.
    fn insert_watchpoint(&mut self, address: Address, length: u64) -> Result<Vec<u8>, TargetError> {
        _ = length;
        Err(TargetError::CannotInsert {
            address,
            reason: "this target cannot watch memory".to_owned(),
        })
    }

    /// Watches this memory no longer.
    fn remove_watchpoint(&mut self, address: Address, length: u64) {
        _ = (address, length);
    }

    /// The time, in microseconds, by the clock of the hits' timestamps: since 1970, but for a recorded execution.
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
    }

    /// The target as one whose program can serve tracepoints by itself; `None` for a target that runs no code of ours.
    fn pads(&mut self) -> Option<&mut dyn PadTarget> {
        None
    }
}

/// What went wrong in a target.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The address holds no code that a tracepoint can be put on.
    #[error("no tracepoint can be put at {address}: {reason}")]
    CannotInsert {
        /// Where it was wanted.
        address: Address,
        /// Why not.
        reason: String,
    },
    /// No memory is mapped at the address: a library that was there, say, is gone.
    #[error("no tracepoint can be put at {0}: no memory is mapped there")]
    NotMapped(Address),
    /// The thread or the process is gone.
    #[error("thread {0} is gone")]
    Gone(ThreadId),
    /// The kernel refused.
    #[error("{call} failed for thread {thread}: {reason}")]
    System {
        /// The system call.
        call: &'static str,
        /// For which thread.
        thread: ThreadId,
        /// The kernel's reason.
        reason: String,
    },
}
