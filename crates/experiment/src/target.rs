//! The interface between a target and an experiment.

use std::time::{SystemTime, UNIX_EPOCH};

use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::error::TargetError;
use crate::pads::PadTarget;

/// One piece of memory to be read; many are read in one call.
#[derive(Debug)]
pub struct MemoryRead {
    /// Where the piece starts.
    pub address: Address,
    /// As long as the piece; filled by the target.
    pub bytes: Vec<u8>,
    /// The number of valid bytes from the start; set by the target. Less than the length where memory ends.
    pub filled: usize,
}

/// A thread of the traced program that is stopped at a tracepoint. Everything is read lazily: a condition on one register costs
/// one register read.
pub trait StoppedThread {
    /// Which thread it is.
    fn id(&self) -> ThreadId;

    /// Whether no other thread of the program runs that could be inside a pad: then all frames that pads have begun before this
    /// stop are finished, or were abandoned by this thread itself.
    fn is_alone(&self) -> bool {
        false
    }

    /// The cpu it ran on when it stopped.
    fn cpu(&mut self) -> u32;

    /// When it stopped, in microseconds since 1970-01-01 00:00 UTC; never smaller than an earlier stop's.
    fn timestamp(&self) -> u64;

    /// The same in nanoseconds, if the target supports it.
    fn timestamp_ns(&self) -> Option<u64> {
        None
    }

    /// A register by its number in the target description, zero-extended; the lowest 64 bits of a 128-bit vector register
    /// ([`tracewire_arch::Register::number`]). `None` for others wider than 64 bits, one that the machine does not have, or one
    /// that cannot be read. The program counter is that of the tracepoint, even if the mechanism has changed it.
    fn register(&mut self, register: RegisterNumber) -> Option<u64>;

    /// The whole register block, in the order and sizes of the target description (a `g` packet's bytes),
    /// target byte order.
    ///
    /// # Errors
    /// When the thread has ended, or the kernel refuses.
    fn register_block(&mut self) -> Result<&[u8], TargetError>;

    /// The known bytes of the register block; `None` if all are known. The others are 0 in the block.
    fn known_registers(&mut self) -> Option<&[bool]> {
        None
    }

    /// The registers of the block that are wholly or partly unknown, which the frame marks
    /// ([`tracewire_tracefile::FrameEncoder::unknown_registers`]).
    fn unknown_registers(&mut self) -> &[u64] {
        &[]
    }

    /// Reads all the pieces in as few calls as possible, and sets `filled` of each. The result is what GDB would see, without the
    /// tracer's traps and jumps.
    ///
    /// Bytes after the first unreadable one of a piece are not read: the next piece may be readable.
    fn read_memory(&mut self, pieces: &mut [MemoryRead]);

    /// Where memory is readable again after an unreadable address, below `end`; `None` if nowhere. In a live program whole pages
    /// are unreadable, and nothing is looked for after them; in a recording every other byte may be known.
    fn readable_from(&mut self, address: Address, end: Address) -> Option<Address> {
        _ = (address, end);
        None
    }

    /// Whether a register without a value exists on the machine and its value is only unavailable now. Data that needs it is then
    /// missing, as with unreadable memory, and the run goes on.
    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        _ = register;
        false
    }

    /// The data of the static tracepoint's USDT probe at which the thread is (`$_sdata`); `None` if there is no probe.
    fn static_data(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// An event of a thread that the target reports to the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// A tracepoint's own address.
    Tracepoint(Address),
    /// One more instruction executed by a thread that is stepping for a `while-stepping`, with the thread's address now. If that
    /// is the address of a tracepoint, the step is reported first and the tracepoint then, in a second call.
    Step(Address),
    /// Watched memory was written, by the instruction before the thread's current one.
    Write {
        /// Where the memory is.
        address: Address,
        /// The number of watched bytes, as given to [`Target::insert_watchpoint`].
        length: u64,
    },
}

/// The action of the target for the thread after a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The thread must be stepped one instruction and reported again as [`Hit::Step`]. The last outcome for a thread counts.
    pub step: bool,
    /// The run has ended (pass count, full buffer, error, or before): no more hits are needed.
    pub run_ended: bool,
}

/// A handler of hits: the experiment, or a test.
pub trait HitHandler {
    /// Called for every such event, while the thread is stopped.
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome;

    /// Called when a thread has reached a debugger's breakpoint, in memory or in hardware. Returns whether it is reported to the
    /// debugger. The thread is stopped, and its program counter is this address.
    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        _ = (address, thread);
        true
    }

    /// Whether [`Self::look_around`] is called even if no pad runs.
    fn looks_around(&self) -> bool {
        false
    }

    /// Whether [`Self::look_around`] is called now, after a hit, and not only when it is due.
    fn looks_now(&self) -> bool {
        false
    }

    /// Called now and then while the program runs and has pads.
    fn look_around(&mut self) -> LookAround {
        LookAround::GoesOn { filled: 0.0 }
    }

    /// Called when a thread has ended, so that its state is dropped.
    fn thread_ended(&mut self, thread: ThreadId) {
        _ = thread;
    }
}

/// The result of a look at the pads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LookAround {
    /// The run has ended.
    Ended,
    /// The tracepoints have to be changed, while the program is stopped.
    Change,
    /// The run goes on.
    GoesOn {
        /// The used part of a cpu's space for frames since the last look; 1 is all of it.
        filled: f64,
    },
}

/// A program in which tracepoints can be inserted.
pub trait Target {
    /// Inserts a tracepoint. Called once for an address, however many tracepoints are there.
    ///
    /// # Errors
    /// When no mechanism can serve the address; the text says why and goes to the user.
    fn insert(&mut self, address: Address) -> Result<(), TargetError>;

    /// Removes the tracepoint and restores the original bytes.
    ///
    /// # Errors
    /// When the program cannot be written to. A program that has ended, or a library that is unmapped, is no error.
    fn remove(&mut self, address: Address) -> Result<(), TargetError>;

    /// Makes every thread that writes to this memory report it ([`Hit::Write`]), also threads that are created later. Returns its
    /// current content. Called once for an address and a length.
    ///
    /// # Errors
    /// When the target cannot watch memory, or not this much; the text says why and goes to the user.
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

    /// The target as one that supports pads; `None` for a target that does not.
    fn pads(&mut self) -> Option<&mut dyn PadTarget> {
        None
    }
}
