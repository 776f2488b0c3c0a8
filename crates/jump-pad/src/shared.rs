//! The tracer's access to the memory that it shares with a program's pads.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::time::Duration;

use tracewire_experiment::Pace;
use tracewire_model::{Address, ThreadId};

use crate::clock::{self, Rate};
use crate::layout::{
    LayoutError, MAGIC, NOWHERE, SharedLayout, SharedSizes, WhenFull, header, ring, threads,
    tracepoint,
};

/// How long a pad waits for space in a ring.
const PATIENCE: Duration = Duration::from_secs(2);

/// The unit in which the kernel takes memory back.
const PAGE: u64 = 4096;

/// The behaviour of pads when the tracer is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Orphaned {
    /// They do nothing.
    Rest = 0,
    /// They go on. They read memory and their thread's number with system calls, so the program must be permitted
    /// `process_vm_readv` and `gettid`.
    GoOn = 1,
}

/// Why pads have stopped collecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PadStop {
    /// The tracer has ended it.
    Requested,
    /// A ring was full.
    Full,
    /// The tracepoint of this block has reached its pass count.
    PassCount(u32),
    /// An expression of the tracepoint of this block failed; see [`Shared::error`].
    Error(u32),
}

pub(crate) mod stop {
    pub(crate) const REQUESTED: u32 = 1;
    pub(crate) const FULL: u32 = 2;
    pub(crate) const PASS_COUNT: u32 = 3;
    pub(crate) const ERROR: u32 = 4;
}

/// The error that ended a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PadError {
    /// The block of the tracepoint.
    pub tracepoint: u32,
    /// The place in its pad; [`crate::Pad::error_text`] explains it.
    pub site: u64,
    /// The detail of the error.
    pub detail: u64,
    /// When it happened, by the counter.
    pub time: u64,
}

/// The counters of a tracepoint's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PadCounts {
    /// Hits with a true condition, if the tracepoint has a pass count; those after it was reached are counted too.
    pub passes: u64,
    /// Hits whose frames were lost, because a ring had no space in time or because they were too long.
    pub lost: u64,
    /// Frames given up for newer ones since the memory was set up.
    pub dropped: u64,
    /// Values that could not be read.
    pub missing: u64,
    /// Calls that are not measured, because there was no slot for them.
    pub calls_lost: u64,
    /// The address that could not be read for the first of them.
    pub first_missing: Option<Address>,
}

/// Frames that are in no ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// There was no space.
    pub lost: u64,
    /// Given up for newer ones.
    pub dropped: u64,
    /// Longer than pads make them.
    pub too_long: u64,
}

/// The position of a frame in the shared memory: the ring, of which the last is the hold, and the position in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    pub(crate) ring: u32,
    pub(crate) position: u64,
}

/// A frame that a tracer was about to move out of the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// Where it is in the memory.
    pub origin: Origin,
    /// Its offset in the trace file; `None` if it goes to none, or if the offset is not known yet.
    pub offset: Option<u64>,
}

/// The shared memory, mapped in the tracer.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    layout: SharedLayout,
}

// SAFETY: all access is through atomics, or of bytes that a commit word guards.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Sets up zeroed memory. The first call takes 10 ms, to measure the clock. The tracer's robust futex belongs at
    /// [`SharedLayout::owner`].
    ///
    /// # Safety
    /// `base` is the start of a page of a mapping of [`SharedLayout::size`] bytes that outlives the value and its
    /// copies.
    #[must_use]
    pub unsafe fn create(base: NonNull<u8>, layout: SharedLayout) -> Self {
        let shared = Self { base, layout };
        let sizes = layout.sizes;
        shared.word32(header::RINGS, sizes.cpus);
        shared.word32(header::WHEN_FULL, sizes.when_full as u32);
        shared.store(header::RING_BYTES, sizes.ring_bytes);
        shared.word32(header::FRAME_LIMIT, sizes.frame_limit);
        shared.word32(header::TRACEPOINTS, sizes.tracepoints);
        shared.word32(header::VARIABLES, sizes.variables);
        shared.store(header::HOLD_BYTES, sizes.hold_bytes);
        shared.store(header::COUNT_BYTES, sizes.count_bytes);
        shared.store(header::SALT, layout.salt);
        let rate = Rate::measured();
        shared.store(header::CLOCK_BASE, rate.base);
        shared.store(header::CLOCK_RATE, rate.rate);
        shared.store(header::PATIENCE, rate.ticks(PATIENCE));
        if !sizes.when_full.overwrites() {
            for index in 0..sizes.cpus {
                // No tail.
                shared.store(layout.ring(index) + ring::GIVEN_UP, u64::MAX);
            }
        }
        shared.keep_time();
        shared.store(header::MAGIC, MAGIC);
        shared
    }

    /// Opens memory that [`create`](Self::create) has set up, perhaps in a tracer that is dead.
    ///
    /// # Errors
    /// When it is not such memory, or shorter than its header says.
    ///
    /// # Safety
    /// `base` is the start of a page of a mapping of `length` bytes that outlives the value and its copies.
    pub unsafe fn open(base: NonNull<u8>, length: u64) -> Result<Self, LayoutError> {
        if length < threads::START {
            return Err(LayoutError::Foreign);
        }
        let sizes = SharedSizes {
            cpus: 1,
            ring_bytes: 4096,
            frame_limit: 0,
            tracepoints: 0,
            variables: 0,
            hold_bytes: 0,
            count_bytes: 0,
            when_full: WhenFull::Wait,
        };
        let smallest = SharedLayout::new(sizes, 0)?;
        let shared = Self {
            base,
            layout: smallest,
        };
        if shared.load(header::MAGIC) != MAGIC {
            return Err(LayoutError::Foreign);
        }
        let sizes = SharedSizes {
            cpus: shared.load32(header::RINGS),
            ring_bytes: shared.load(header::RING_BYTES),
            frame_limit: shared.load32(header::FRAME_LIMIT),
            tracepoints: shared.load32(header::TRACEPOINTS),
            variables: shared.load32(header::VARIABLES),
            hold_bytes: shared.load(header::HOLD_BYTES),
            count_bytes: shared.load(header::COUNT_BYTES),
            when_full: match shared.load32(header::WHEN_FULL) {
                0 => WhenFull::Stop,
                1 => WhenFull::Wait,
                2 => WhenFull::Overwrite,
                3 => WhenFull::WaitThenOverwrite,
                _ => return Err(LayoutError::Foreign),
            },
        };
        let layout = SharedLayout::new(sizes, shared.load(header::SALT))?;
        if layout.size() > length {
            return Err(LayoutError::Foreign);
        }
        Ok(Self { base, layout })
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> &SharedLayout {
        &self.layout
    }

    /// Enables or disables the tracepoint of a block. Hits see it at once.
    pub fn set_enabled(&self, index: u32, enabled: bool) {
        if let Some(block) = self.layout.tracepoint(index) {
            self.word32(block + tracepoint::ENABLED, u32::from(enabled));
        }
    }

    /// Sets what pads do when the tracer is dead.
    pub fn set_orphaned(&self, what: Orphaned) {
        self.word32(header::ORPHAN, what as u32);
    }

    /// Has all pads do nothing from now on.
    pub fn stop(&self) {
        let stop = self.atomic32(header::STOP);
        let _ = stop.compare_exchange(0, stop::REQUESTED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Why pads do nothing; `None` while they collect.
    #[must_use]
    pub fn stopped(&self) -> Option<PadStop> {
        let word = self.load32(header::STOP);
        match word & 0xff {
            0 => None,
            stop::FULL => Some(PadStop::Full),
            stop::PASS_COUNT => Some(PadStop::PassCount(word >> 8)),
            stop::ERROR => Some(PadStop::Error(word >> 8)),
            _ => Some(PadStop::Requested),
        }
    }

    /// The error that ended the run.
    #[must_use]
    pub fn error(&self) -> Option<PadError> {
        // The stop word is written after the error.
        let Some(PadStop::Error(tracepoint)) = self.stopped() else {
            return None;
        };
        Some(PadError {
            tracepoint,
            site: self.load(header::ERROR_SITE),
            detail: self.load(header::ERROR_DETAIL),
            time: self.load(header::ERROR_TIME),
        })
    }

    /// The counters of a tracepoint's block.
    #[must_use]
    pub fn counts(&self, index: u32) -> PadCounts {
        let Some(block) = self.layout.tracepoint(index) else {
            return PadCounts::default();
        };
        PadCounts {
            passes: self.load(block + tracepoint::PASSES),
            lost: self.load(block + tracepoint::LOST),
            dropped: self.dropped(index),
            missing: self.load(block + tracepoint::MISSING),
            calls_lost: self.load(block + tracepoint::CALLS_LOST),
            first_missing: (self.load(block + tracepoint::MISSING_KNOWN) == 2)
                .then(|| Address(self.load(block + tracepoint::MISSING_FIRST))),
        }
    }

    /// Counts a call that is not measured.
    pub(crate) fn lose_call(&self, index: u32) {
        if let Some(block) = self.layout.tracepoint(index) {
            self.atomic(block + tracepoint::CALLS_LOST)
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a hit for a pass count, as the pad of the block does: how many were counted before.
    #[must_use]
    pub fn count_pass(&self, index: u32) -> Option<u64> {
        let block = self.layout.tracepoint(index)?;
        let passes = self.atomic(block + tracepoint::PASSES);
        Some(passes.fetch_add(1, Ordering::AcqRel))
    }

    fn dropped(&self, index: u32) -> u64 {
        let Some(count) = self.layout.dropped(index) else {
            return 0;
        };
        (0..self.layout.sizes.cpus)
            .map(|ring| self.load(self.layout.ring(ring) + count))
            .fold(0, u64::saturating_add)
    }

    /// How many hits of the tracepoint of a block pads have skipped because of its rate, since the memory was set up.
    #[must_use]
    pub fn skipped(&self, index: u32) -> u64 {
        let Some(count) = self.layout.skipped(index) else {
            return 0;
        };
        (0..self.layout.sizes.cpus)
            .map(|ring| self.load(self.layout.ring(ring) + count))
            .fold(0, u64::saturating_add)
    }

    /// How many hits pads have skipped because of the rates of their tracepoints.
    #[must_use]
    pub fn all_skipped(&self) -> u64 {
        (0..self.layout.sizes.tracepoints)
            .map(|index| self.skipped(index))
            .fold(0, u64::saturating_add)
    }

    /// Whether a hit at a counter makes a frame, by the same rule as in pads that have this block for their tracepoint's rate.
    /// `None` if there is no such block.
    #[must_use]
    pub fn admit(&self, index: u32, pace: Pace, counter: u64) -> Option<bool> {
        let block = self.layout.tracepoint(index)?;
        let due = self.atomic(block + tracepoint::DUE);
        let admitted = due.fetch_update(Ordering::AcqRel, Ordering::Acquire, |due| {
            pace.admit(due, counter)
        });
        Some(admitted.is_ok())
    }

    /// Makes pads that support it charge the cost of hits to the budget of their cpu. Paying for a cost takes `factor` times as
    /// long, in units of [`tracewire_experiment::Budget::FACTOR_BITS`]. A cpu that is behind by more than `slack` makes no
    /// frames.
    pub fn set_budget(&self, factor: u64, slack: Duration) {
        self.store(header::BUDGET_SLACK, self.rate().ticks(slack));
        self.store(header::BUDGET_FACTOR, factor);
        // Everything before is paid for.
        self.behind(clock::counter());
    }

    /// Whether hits are charged to a budget.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.load(header::BUDGET_FACTOR) != 0
    }

    /// Charges a cost to all cpus.
    pub fn charge(&self, cost: Duration) {
        let ticks = self.rate().ticks(cost);
        let factor = self.load(header::BUDGET_FACTOR);
        let pay = ticks.saturating_mul(factor) >> header::BUDGET_FACTOR_BITS;
        for ring in 0..self.layout.sizes.cpus {
            let paid = self.atomic(self.layout.ring(ring) + ring::PAID);
            paid.fetch_add(pay, Ordering::Relaxed);
        }
    }

    /// How far the cpu that is behind most is behind at a counter. Unused pay is not kept.
    pub fn behind(&self, counter: u64) -> Duration {
        let behind = (0..self.layout.sizes.cpus).map(|ring| {
            let paid = self.atomic(self.layout.ring(ring) + ring::PAID);
            paid.fetch_max(counter, Ordering::Relaxed)
                .saturating_sub(counter)
        });
        let most = behind.max().unwrap_or(0);
        Duration::from_nanos(self.rate().nanoseconds(most))
    }

    /// The cost of the hits of a block's tracepoint, as far as pads have charged it to a budget.
    #[must_use]
    pub fn spent(&self, index: u32) -> Duration {
        let Some(spent) = self.layout.spent(index) else {
            return Duration::ZERO;
        };
        let ticks = (0..self.layout.sizes.cpus)
            .map(|ring| self.load(self.layout.ring(ring) + spent))
            .fold(0, u64::saturating_add);
        Duration::from_nanos(self.rate().nanoseconds(ticks))
    }

    /// Resets a tracepoint's counts to zero, except for those of frames that were given up or lost.
    pub fn reset_counts(&self, index: u32) {
        if let Some(block) = self.layout.tracepoint(index) {
            for field in [
                tracepoint::PASSES,
                tracepoint::MISSING,
                tracepoint::MISSING_KNOWN,
                tracepoint::MISSING_FIRST,
            ] {
                self.store(block + field, 0);
            }
        }
    }

    /// A trace state variable.
    #[must_use]
    pub fn variable(&self, slot: u32) -> Option<i64> {
        self.layout
            .variable(slot)
            .map(|at| self.load(at).cast_signed())
    }

    /// Sets a trace state variable.
    pub fn set_variable(&self, slot: u32, value: i64) {
        if let Some(at) = self.layout.variable(slot) {
            self.store(at, value.cast_unsigned());
        }
    }

    /// Frames that no reader will see, of all rings.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for index in 0..self.layout.sizes.cpus {
            let at = self.layout.ring(index);
            losses.lost = losses.lost.saturating_add(self.load(at + ring::LOST));
            losses.too_long = losses
                .too_long
                .saturating_add(self.load(at + ring::TOO_LONG));
        }
        if self.layout.sizes.when_full.overwrites() {
            losses.dropped = (0..self.layout.sizes.cpus)
                .map(|index| self.load(self.layout.ring(index) + ring::DROPPED))
                .fold(0, u64::saturating_add);
        }
        losses
    }

    /// Records the place in the trace file of the frame that [`crate::RingReader`] gives out at this moment. Call it before the
    /// frame is written: a rescue after a killed tracer then checks whether it was.
    pub fn goes_to(&self, offset: u64) {
        self.store(header::MOVE_OFFSET, offset);
        compiler_fence(Ordering::SeqCst);
    }

    /// The frame that a killed tracer was about to move out of the memory; it may have been the last one that it moved.
    #[must_use]
    pub fn moving(&self) -> Option<Moving> {
        let number = self.load(header::MOVING);
        let offset = self.load(header::MOVE_OFFSET);
        (number > 0).then(|| Moving {
            origin: Origin {
                ring: u32::try_from(self.load(header::MOVE_RING)).unwrap_or(u32::MAX),
                position: self.load(header::MOVE_POSITION),
            },
            offset: (offset != NOWHERE).then_some(offset),
        })
    }

    /// How many frames a killed tracer has moved out of the memory, into its file or its own memory. `moved` says whether that
    /// includes the frame that [`moving`](Self::moving) returns.
    #[must_use]
    pub fn moved(&self, moved: bool) -> u64 {
        match self.load(header::MOVING) {
            0 => self.load(header::MOVED),
            number => number - u64::from(!moved),
        }
    }

    /// The ranges of this memory, from its start, that rings have used. Others were never written to.
    #[must_use]
    pub fn in_rings(&self) -> Vec<Range<u64>> {
        let SharedSizes {
            cpus, ring_bytes, ..
        } = self.layout.sizes;
        let of_ring = |index| {
            let start = self.layout.ring(index);
            let (data, end) = (start + ring::DATA, start + self.layout.ring_stride);
            let behind = start + self.layout.behind_records();
            match self.load(start + ring::HEAD) {
                head if head < ring_bytes => {
                    let used = data + head + self.layout.longest();
                    [start..used.min(behind), behind..end]
                }
                _ => [start..end, end..end],
            }
        };
        (0..cpus).flat_map(of_ring).collect()
    }

    /// The ranges of this memory, from its start, with frames outside of rings: two parts, of which one may be empty.
    #[must_use]
    pub fn in_hold(&self) -> [Range<u64>; 2] {
        let Some(start) = self.layout.hold() else {
            return [0..0, 0..0];
        };
        let bytes = self.layout.sizes.hold_bytes;
        let data = start + ring::DATA;
        let (head, kept) = (self.load(start + ring::HEAD), self.load(start + ring::KEPT));
        let all = start..self.layout.size();
        let length = head.wrapping_sub(kept);
        let first = data + (kept & (bytes - 1));
        if length > bytes {
            return [all, 0..0];
        }
        if first + length <= all.end && first + length <= data + bytes {
            return [start..data, first..first + length];
        }
        [start..data + (head & (bytes - 1)), first..all.end]
    }

    /// Stores for a later tracer the number of hits without a frame that no ring counts: those begun and never finished, and
    /// those for which a thread had no stack left.
    pub fn tell_losses(&self, torn: u64, without_stack: u64) {
        self.store(header::TORN, torn);
        self.store(header::WITHOUT_STACK, without_stack);
    }

    /// The numbers that [`tell_losses`](Self::tell_losses) has stored.
    #[must_use]
    pub fn recorded_losses(&self) -> (u64, u64) {
        (self.load(header::TORN), self.load(header::WITHOUT_STACK))
    }

    /// Enters the thread of an `fs` base for the pads. Call it for a new thread before it runs, unless its base is that of the
    /// thread that made it. Such a thread still has to get its own base, and until then counts as the other.
    pub fn set_thread(&self, fs_base: u64, thread: ThreadId) {
        if fs_base == 0 {
            // The thread has no base yet.
            return;
        }
        let first = hash(fs_base);
        let slots =
            (0..threads::PROBES).map(|probe| threads::START + (first + probe) * threads::SLOT);
        let slot = slots
            .clone()
            .find(|slot| self.load(*slot) == fs_base)
            .or_else(|| slots.clone().find(|slot| self.load(*slot) == 0));
        // A thread that finds no slot asks the kernel at every hit.
        if let Some(slot) = slot {
            self.store(slot + 8, u64::from(thread.0));
            self.store(slot, fs_base);
        }
    }

    /// Sets the only thread of the program for the pads, or that there are several. It is the thread of every hit with an unknown
    /// `fs` base: a program sets the base of its first thread itself.
    pub fn set_sole_thread(&self, thread: Option<ThreadId>) {
        self.store(
            header::SOLE_THREAD,
            thread.map_or(0, |thread| u64::from(thread.0)),
        );
    }

    /// Has pads read `fs` bases by the instruction for it. From the beginning they take the first word of a thread's memory for its
    /// base: in the System V ABI it is the address of that memory, and reading it takes a fraction of the time.
    pub fn note_foreign_base(&self) {
        self.store(header::FOREIGN_BASES, 1);
    }

    /// Whether pads read `fs` bases by the instruction for it.
    #[must_use]
    pub fn has_foreign_base(&self) -> bool {
        self.load(header::FOREIGN_BASES) != 0
    }

    /// Forgets a thread that has ended, before another one can have its `fs` base.
    pub fn forget_thread(&self, thread: ThreadId) {
        for slot in 0..threads::SLOTS {
            let at = threads::START + slot * threads::SLOT;
            if self.load(at + 8) == u64::from(thread.0) {
                // An empty slot does not end a search, so that other entries are still found.
                self.store(at, 0);
                self.store(at + 8, 0);
            }
        }
    }

    /// Follows the time of day. Call it periodically, for instance at every reading of the rings. Returns the counter that pads
    /// then see: a record that they reserve later, so that the rings do not show it yet, has no earlier time.
    pub fn keep_time(&self) -> u64 {
        let (counter, microseconds) = clock::now();
        self.store(header::CLOCK_SEEN, counter);
        // A pad moves the head of a ring and then looks at this word, and the reader looks at the head after this. So one of them
        // sees what the other has written.
        fence(Ordering::SeqCst);
        let start = microseconds.saturating_sub(self.rate().since_base(counter));
        self.atomic(header::CLOCK_START)
            .fetch_max(start, Ordering::AcqRel);
        counter
    }

    /// The pads' time of a counter, in microseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub fn microseconds(&self, counter: u64) -> u64 {
        let since = self.rate().since_base(counter);
        self.load(header::CLOCK_START).wrapping_add(since)
    }

    /// As [`microseconds`](Self::microseconds), and the remaining fraction of a microsecond.
    #[must_use]
    pub fn exact_time(&self, counter: u64) -> (u64, u64) {
        let (since, fraction) = self.rate().parts_since_base(counter);
        (self.load(header::CLOCK_START).wrapping_add(since), fraction)
    }

    /// A sum and a count that change together. The count only rises: if it is the same before and after, the sum is of the same
    /// moment.
    pub(crate) fn sum_and_count(&self, at: u64) -> (u64, u64) {
        let (sum, count) = (self.atomic(at), self.atomic(at + 8));
        loop {
            let before = count.load(Ordering::Acquire);
            let read = sum.load(Ordering::Acquire);
            if count.load(Ordering::Acquire) == before {
                return (read, before);
            }
        }
    }

    pub(crate) fn rate(&self) -> Rate {
        Rate {
            base: self.load(header::CLOCK_BASE),
            rate: self.load(header::CLOCK_RATE),
        }
    }

    pub(crate) fn atomic(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.layout.size());
        // SAFETY: offsets come from the layout, within the mapping that `create` and `open` were promised; everything
        // that is not bytes of a frame is only used as an atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at as usize).cast()) }
    }

    fn atomic32(&self, at: u64) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= self.layout.size());
        // SAFETY: as in `atomic`.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at as usize).cast()) }
    }

    fn store(&self, at: u64, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }

    fn word32(&self, at: u64, value: u32) {
        self.atomic32(at).store(value, Ordering::Release);
    }

    fn load32(&self, at: u64) -> u32 {
        self.atomic32(at).load(Ordering::Acquire)
    }
}

/// The start of the search for a thread.
pub(crate) const fn hash(fs_base: u64) -> u64 {
    fs_base.wrapping_mul(threads::FACTOR) >> (64 - threads::BITS)
}

impl crate::ring::RingMemory for Shared {
    fn load(&self, at: u64) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    fn store(&self, at: u64, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }

    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool {
        self.atomic(at)
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let end = at.saturating_add(length as u64);
        if end > self.layout.size() {
            return;
        }
        into.reserve(length);
        // SAFETY: the bytes lie in the mapping, and the vector has room for them. The program may write to them at any
        // time; they are only bytes here, and whether they were stable is asked afterwards.
        unsafe {
            let from = self.base.as_ptr().add(at as usize);
            let to = into.as_mut_ptr().add(into.len());
            std::ptr::copy_nonoverlapping(from, to, length);
            into.set_len(into.len() + length);
        }
        fence(Ordering::Acquire);
    }

    fn note(&self, at: u64, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        if at.saturating_add(bytes.len() as u64) > self.layout.size() {
            return;
        }
        // SAFETY: the bytes are in the mapping, in the hold, which pads do not use and no reader in this process reads.
        unsafe {
            let to = self.base.as_ptr().add(at as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        compiler_fence(Ordering::SeqCst);
    }

    fn release(&self, at: u64, length: u64) {
        let start = at.next_multiple_of(PAGE);
        let end = (at + length).min(self.layout.size()) / PAGE * PAGE;
        if start >= end {
            return;
        }
        // SAFETY: the pages are in the mapping, in the hold. Pads do not use it, and no reader in this process has a reference to it.
        // Where the kernel refuses, as for memory that is no file's, the pages stay as they are.
        unsafe {
            let pages = self.base.as_ptr().add(start as usize);
            libc::madvise(pages.cast(), (end - start) as usize, libc::MADV_REMOVE);
        }
    }
}

use crate::ring::RingMemory;
