//! The layout of the memory that a program's pads and its tracer share.

use std::ops::Range;

/// The first word of the shared memory.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TWPADS\x06\0");

/// The words of the first page. Pads only read the control line and the clock, so these stay in every cpu's cache.
pub(crate) mod header {
    pub(crate) const MAGIC: u64 = 0;
    pub(crate) const RINGS: u64 = 8;
    pub(crate) const WHEN_FULL: u64 = 12;
    pub(crate) const RING_BYTES: u64 = 16;
    pub(crate) const FRAME_LIMIT: u64 = 24;
    pub(crate) const TRACEPOINTS: u64 = 28;
    pub(crate) const VARIABLES: u64 = 32;
    pub(crate) const SALT: u64 = 40;
    pub(crate) const OWNER: u64 = 64;
    pub(crate) const STOP: u64 = 68;
    pub(crate) const ORPHAN: u64 = 72;
    pub(crate) const CLOCK_BASE: u64 = 80;
    // The 16 bytes from 88 on link the owner's futex into its list (see `SharedLayout::owner`).
    pub(crate) const CLOCK_RATE: u64 = 104;
    pub(crate) const CLOCK_START: u64 = 112;
    /// The counter at the tracer's last reading. It is for threads that may not read the counter, and says whether a pad's reading
    /// is older.
    pub(crate) const CLOCK_SEEN: u64 = 120;
    pub(crate) const ERROR: u64 = 128;
    pub(crate) const ERROR_SITE: u64 = 136;
    pub(crate) const ERROR_DETAIL: u64 = 144;
    pub(crate) const ERROR_TIME: u64 = 152;
    /// How many ticks a pad waits for space in a ring.
    pub(crate) const PATIENCE: u64 = 160;
    /// The program's only thread, or 0.
    pub(crate) const SOLE_THREAD: u64 = 168;
    pub(crate) const HOLD_BYTES: u64 = 176;
    pub(crate) const COUNT_BYTES: u64 = 184;
    // From here on only tracers access it: the running one, and the next after it was killed.
    /// The number of the frame that is being moved out of this memory, counted from 1; 0 between two.
    pub(crate) const MOVING: u64 = 192;
    pub(crate) const MOVE_RING: u64 = 200;
    pub(crate) const MOVE_POSITION: u64 = 208;
    /// The frame's offset in the trace file; [`NOWHERE`](super::NOWHERE) if it goes to no file.
    pub(crate) const MOVE_OFFSET: u64 = 216;
    /// How many frames have been moved; only up to date while none is being moved.
    pub(crate) const MOVED: u64 = 224;
    /// Frames begun and never finished, as far as the reader has given them up.
    pub(crate) const TORN: u64 = 232;
    /// Hits without a frame, because the thread had no stack left.
    pub(crate) const WITHOUT_STACK: u64 = 240;
    // From here on pads access it again, if the run has a budget.
    /// How many ticks pay for one tick of cost, times 2 to the power of the bits below; 0 without a budget.
    pub(crate) const BUDGET_FACTOR: u64 = 256;
    pub(crate) const BUDGET_FACTOR_BITS: u32 = 8;
    /// How many ticks of pay a cpu may be behind before its hits are skipped.
    pub(crate) const BUDGET_SLACK: u64 = 264;
    /// Not 0 once a thread is known whose `fs` base does not point to a word with its own address.
    pub(crate) const FOREIGN_BASES: u64 = 272;
}

/// Not a place in a file.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// The table from `fs` base to thread.
pub(crate) mod threads {
    pub(crate) const START: u64 = 4096;
    /// The table has 2 to the power of this many slots.
    pub(crate) const BITS: u32 = 12;
    /// How many slots are searched, from the one that the hash gives; as many are after the last.
    pub(crate) const PROBES: u64 = 8;
    pub(crate) const SLOTS: u64 = (1 << BITS) + PROBES;
    /// The `fs` base, then the thread.
    pub(crate) const SLOT: u64 = 16;
    /// The golden ratio, to spread addresses that differ in few bits.
    pub(crate) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
}

/// A tracepoint's block, a cache line.
pub(crate) mod tracepoint {
    pub(crate) const SIZE: u64 = 64;
    /// Zero while it is disabled.
    pub(crate) const ENABLED: u64 = 0;
    /// Hits with a true condition; only counted where there is a pass count.
    pub(crate) const PASSES: u64 = 8;
    pub(crate) const MISSING: u64 = 16;
    /// Not zero once the address beside it counts.
    pub(crate) const MISSING_KNOWN: u64 = 24;
    pub(crate) const MISSING_FIRST: u64 = 32;
    /// Hits whose frames were lost, because a ring had no space in time or because they were too long.
    pub(crate) const LOST: u64 = 40;
    /// Calls that are not measured, because there was no slot for them.
    pub(crate) const CALLS_LOST: u64 = 48;
    /// The counter when the next frame is due, if the tracepoint has a rate. The tracepoint's other locations use this one too.
    pub(crate) const DUE: u64 = 56;
}

/// The slots of measured calls, if there are any. `count_table.rs` describes them.
pub(crate) mod calls {
    /// The table has 2 to the power of this many slots, and those that are probed after the last.
    pub(crate) const BITS: u32 = 12;
    pub(crate) const PROBES: u64 = 16;
    /// A slot's size as a power of two.
    pub(crate) const SLOT_BITS: u32 = 8;
    pub(crate) const SLOT: u64 = 1 << SLOT_BITS;
    pub(crate) const BYTES: u64 = ((1 << BITS) + PROBES) * SLOT;
    /// 0 while it is free.
    pub(crate) const KEY: u64 = 0;
    /// The counter at the beginning.
    pub(crate) const BEGUN: u64 = 8;
    /// The values that the entry keeps for the end.
    pub(crate) const KEPT: u64 = 16;
    pub(crate) const KEPT_WORDS: u64 = (SLOT - KEPT) / 8;
    const _: () = assert!(KEPT_WORDS as usize == tracewire_model::CAPTURED_WORDS);
}

/// The start of an aggregate's table.
pub(crate) mod counts {
    /// Hits whose keys found no space.
    pub(crate) const WITHOUT_ROOM: u64 = 0;
    /// Hits whose keys or value could not be read.
    pub(crate) const UNREADABLE: u64 = 8;
    pub(crate) const HEADER: u64 = 64;
}

/// The start of a ring. The head's line belongs to the ring's cpu, the tail's to the reader, and pads use no other ring's. In an
/// overwriting ring, the records are followed by the number of given-up frames for each tracepoint, and by the table of
/// unfinished records. Then come the number of skipped hits for each tracepoint, and the cost of its hits.
pub(crate) mod ring {
    /// Where the next record will start, counted in bytes from the beginning of the run.
    pub(crate) const HEAD: u64 = 0;
    /// Where frames are overwritten, changed together with the head: the claim of the record that ends there (see
    /// [`unfinished`](super::unfinished)); 0 if there is none, or it has begun.
    pub(crate) const NEWEST: u64 = 8;
    /// The number of frames that found no space.
    pub(crate) const LOST: u64 = 16;
    /// Frames longer than the limit.
    pub(crate) const TOO_LONG: u64 = 24;
    /// The counter when all work on the cpu is paid for, if the run has a budget.
    pub(crate) const PAID: u64 = 32;
    /// The start of the oldest record. In an overwriting ring: of the oldest that is neither read nor given up.
    pub(crate) const TAIL: u64 = 64;
    /// The tail for which a pad has waited in vain: while it is unchanged, no other pad waits.
    pub(crate) const GIVEN_UP: u64 = 72;
    /// In an overwriting ring, changed together with the tail: how many frames were given up for newer ones.
    pub(crate) const DROPPED: u64 = GIVEN_UP;
    /// In an overwriting ring: all space before it is free. Not beyond the tail.
    pub(crate) const FREE: u64 = 80;
    /// The tail for which a pad has begun to wait, plus one, and the time when it began. All pads that wait for the same tail
    /// stop waiting at the same time, also one that signals interrupt again and again.
    pub(crate) const WAITED: u64 = 88;
    pub(crate) const SINCE: u64 = 96;
    /// In an overwriting ring: the counter that the reader had read last when a pad waited in vain. Until that changes, no pad
    /// waits.
    pub(crate) const IN_VAIN: u64 = 104;
    /// All records before this position are kept elsewhere. The tail follows it.
    pub(crate) const KEPT: u64 = 128;
    pub(crate) const DATA: u64 = 192;
}

/// The table of records that were passed before they were finished, or before they had begun. An entry is the position where the
/// record ends, and its claim: the place of its owner's token, shifted by 16 bits, and its length in units of 8 bytes. An entry
/// is replaced once its owner's token is gone; those after the first empty one are empty.
pub(crate) mod unfinished {
    pub(crate) const ENTRY: u64 = 16;
    /// How many records of one ring may be unfinished at a time, while its head goes around.
    pub(crate) const ENTRIES: u64 = 256;
    pub(crate) const CLAIM: u64 = 8;
    /// The bits of a claim for the length of the record.
    pub(crate) const SPAN_BITS: u32 = 16;
}

/// The start of a record; the frame is after it.
pub(crate) mod record {
    /// The record's position mixed with the salt once it is finished, and that number inverted before.
    pub(crate) const STATE: u64 = 0;
    /// The number of bytes that it uses in the ring, with this header.
    pub(crate) const RESERVED: u64 = 8;
    /// The length of the frame.
    pub(crate) const LENGTH: u64 = 12;
    pub(crate) const TIME: u64 = 16;
    pub(crate) const TRACEPOINT: u64 = 24;
    /// Where the last value of `$trace_timestamp` is in the frame; 0 if there is none.
    pub(crate) const STAMP: u64 = 28;
    pub(crate) const FRAME: u64 = 32;

    /// The state of a record that is copied elsewhere while an earlier one in its ring is not.
    pub(crate) const fn kept(whole: u64) -> u64 {
        whole ^ 0x4b45_5054_4b45_5054
    }

    /// In an overwriting ring, the word before the frame of a record: its claim.
    pub(crate) const OWNER: u64 = FRAME;
    pub(crate) const OWNER_BYTES: u64 = 8;

    /// The two words before the frame of a record in the hold. The first is the ring that it came from, counted from 1, or 0, and
    /// [`STEP`]; the second is its position there.
    pub(crate) const ORIGIN: u64 = 16;
    pub(crate) const STEP: u64 = 1 << 32;
}

/// The treatment of a frame for which its ring has no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WhenFull {
    /// It is lost and counted, and the run ends.
    Stop = 0,
    /// The pad waits until the reader has freed space. If the reader does not come within two seconds, frames are lost and
    /// counted until it does.
    Wait = 1,
    /// The oldest frames are overwritten, and counted; an unfinished one is stepped over.
    Overwrite = 2,
    /// As `Overwrite`, but while the oldest frame is finished the pad waits for the reader first, for two seconds at most.
    WaitThenOverwrite = 3,
}

impl WhenFull {
    /// Whether the oldest frames are overwritten in the end.
    #[must_use]
    pub const fn overwrites(self) -> bool {
        matches!(self, Self::Overwrite | Self::WaitThenOverwrite)
    }
}

/// How large the shared memory's parts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedSizes {
    /// The number of possible cpus, including those that are offline; one ring each.
    pub cpus: u32,
    /// How many bytes of records a ring holds. Rounded up to a power of two, at most 1 GiB.
    pub ring_bytes: u64,
    /// The longest frame that a pad makes, in bytes: at most a quarter of a ring, and 65535.
    pub frame_limit: u32,
    /// How many tracepoint locations there may be.
    pub tracepoints: u32,
    /// How many trace state variables that are no builtin ones.
    pub variables: u32,
    /// The size of the hold in bytes, where the tracer puts frames that must wait for others: 0, or 4096 at least. Rounded up to
    /// a power of two, at most 1 GiB.
    pub hold_bytes: u64,
    /// The bytes for the tables of aggregates: 0 where nothing is counted. The slots of measured calls come in addition.
    pub count_bytes: u64,
    /// The treatment of a full ring.
    pub when_full: WhenFull,
}

/// Sizes that no layout can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No ring, or more than any machine has cpus.
    #[error("{0} cpus: 1 to 8192 can have rings")]
    Cpus(u32),
    /// A ring too small or too large.
    #[error("rings of {0} bytes: 4096 to 1073741824 are possible")]
    Ring(u64),
    /// A hold too small or too large.
    #[error("a hold of {0} bytes: none, or 4096 to 1073741824 are possible")]
    Hold(u64),
    /// A frame that does not fit a ring four times.
    #[error("frames of up to {frame} bytes in rings of {ring}: a quarter is possible, and 65535")]
    Frame {
        /// The frame's size, in bytes.
        frame: u32,
        /// The ring's size, in bytes.
        ring: u64,
    },
    /// Pads reach 2 GiB from the start of the shared memory, with what is counted. Rings alone may have 4 GiB.
    #[error("the shared memory would have {size} bytes: {most} are possible")]
    Total {
        /// The size, in bytes.
        size: u64,
        /// The largest possible one, in bytes.
        most: u64,
    },
    /// The memory was not set up by this version of Tracewire.
    #[error("no shared memory of tracepoints of this version")]
    Foreign,
}

/// The most bytes of the shared memory. The journal follows it, and 4 GiB is the most that `rescue` reads.
const MOST: u64 = (1 << 32) - (1 << 20);

/// Rings that overwrite have no pages behind so many bytes until hits use them, or behind their part of so many bytes together.
const LARGEST_BUSY_RING: u64 = 32 << 20;
const ALL_BUSY_RINGS: u64 = 256 << 20;
/// A smaller part of a ring is not worth a system call.
const SMALLEST_BUSY: u64 = 4 << 20;

/// The layout of the shared memory, as offsets from its start in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedLayout {
    pub(crate) sizes: SharedSizes,
    /// A number of the run, so that old content of a ring is not taken for a record.
    pub(crate) salt: u64,
    pub(crate) tracepoints: u64,
    pub(crate) variables: u64,
    pub(crate) rings: u64,
    pub(crate) ring_stride: u64,
    /// Where a ring's counts of frames given up begin, from its start.
    dropped: u64,
    /// Where a ring's table of unfinished records begins, from its start.
    unfinished: u64,
    /// The offset in a ring of the counts of skipped hits for each tracepoint, each followed by the ticks that its hits have
    /// cost.
    skipped: u64,
    hold: u64,
    /// Where the slots of calls begin, and the tables of aggregates after them.
    calls: u64,
    total: u64,
}

impl SharedLayout {
    /// A layout of these sizes. `salt` is a number that no other run has.
    ///
    /// # Errors
    /// When they cannot be; see [`LayoutError`].
    pub fn new(mut sizes: SharedSizes, salt: u64) -> Result<Self, LayoutError> {
        if !(1..=8192).contains(&sizes.cpus) {
            return Err(LayoutError::Cpus(sizes.cpus));
        }
        if !(4096..=1 << 30).contains(&sizes.ring_bytes) {
            return Err(LayoutError::Ring(sizes.ring_bytes));
        }
        if sizes.hold_bytes != 0 && !(4096..=1 << 30).contains(&sizes.hold_bytes) {
            return Err(LayoutError::Hold(sizes.hold_bytes));
        }
        // Powers of two: a mask then gives the ring of a cpu, and the place of a position.
        sizes.hold_bytes = match sizes.hold_bytes {
            0 => 0,
            bytes => bytes.next_power_of_two(),
        };
        sizes.cpus = sizes.cpus.next_power_of_two();
        sizes.ring_bytes = sizes.ring_bytes.next_power_of_two();
        let longest = u64::from(sizes.frame_limit) + header_bytes(sizes.when_full);
        if longest > sizes.ring_bytes / 4 || sizes.frame_limit > u32::from(u16::MAX) {
            return Err(LayoutError::Frame {
                frame: sizes.frame_limit,
                ring: sizes.ring_bytes,
            });
        }
        let tracepoints = threads::START + threads::SLOTS * threads::SLOT;
        let variables = tracepoints + u64::from(sizes.tracepoints) * tracepoint::SIZE;
        let rings = (variables + u64::from(sizes.variables) * 8).next_multiple_of(4096);
        // A record that begins before the end of a ring may end after it.
        let slack = longest.next_multiple_of(8);
        let dropped = (ring::DATA + sizes.ring_bytes + slack).next_multiple_of(64);
        let (counts, entries) = if sizes.when_full.overwrites() {
            (u64::from(sizes.tracepoints) * 8, unfinished::ENTRIES)
        } else {
            (0, 0)
        };
        let unfinished = (dropped + counts).next_multiple_of(64);
        let skipped = unfinished + entries * unfinished::ENTRY;
        let ring_stride = (skipped + u64::from(sizes.tracepoints) * 16).next_multiple_of(4096);
        let hold = rings + u64::from(sizes.cpus) * ring_stride;
        let held = match sizes.hold_bytes {
            0 => 0,
            bytes => (ring::DATA + bytes + longest_held(bytes)).next_multiple_of(4096),
        };
        let calls = hold + held;
        let counted = match sizes.count_bytes {
            0 => 0,
            bytes => (calls::BYTES + bytes.min(1 << 32)).next_multiple_of(4096),
        };
        let total = calls + counted;
        // The start of a ring is computed. What is after the rings is named by its distance from the start.
        let most = if counted > 0 { i32::MAX as u64 } else { MOST };
        if total > most {
            return Err(LayoutError::Total { size: total, most });
        }
        Ok(Self {
            sizes,
            salt,
            tracepoints,
            variables,
            rings,
            ring_stride,
            dropped,
            unfinished,
            skipped,
            hold,
            calls,
            total,
        })
    }

    /// How large the shared memory must be, in bytes; a multiple of 4096.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.total
    }

    /// The parts that every run uses, in rising order. The rest is used when frames have to wait; and, if the rings are
    /// [large](Self::has_large_rings), as hits come.
    #[must_use]
    pub fn busy(&self) -> Vec<Range<u64>> {
        if !self.has_large_rings() {
            return std::iter::once(0..self.hold).collect();
        }
        let of_each = (ALL_BUSY_RINGS / u64::from(self.sizes.cpus)).min(LARGEST_BUSY_RING);
        let rings = (0..self.sizes.cpus).map(|index| self.ring(index));
        let rings = rings.map(|start| start..start + of_each);
        let before = 0..self.rings;
        // Each part is a system call of the program.
        let most = if of_each < SMALLEST_BUSY {
            0
        } else {
            usize::MAX
        };
        std::iter::once(before).chain(rings.take(most)).collect()
    }

    /// Whether the rings are larger than all programs can be expected to have memory for.
    #[must_use]
    pub const fn has_large_rings(&self) -> bool {
        let SharedSizes {
            cpus, ring_bytes, ..
        } = self.sizes;
        matches!(self.sizes.when_full, WhenFull::Overwrite)
            && (ring_bytes > LARGEST_BUSY_RING || ring_bytes * cpus as u64 > ALL_BUSY_RINGS)
    }

    /// Where the rings of the cpus begin and end.
    #[must_use]
    pub const fn rings(&self) -> (u64, u64) {
        (self.rings, self.hold)
    }

    /// Where the positions of each ring are.
    #[must_use]
    pub fn ring_heads(&self) -> Vec<Range<u64>> {
        let starts = (0..self.sizes.cpus).map(|index| self.ring(index));
        starts.map(|start| start..start + ring::DATA).collect()
    }

    /// Where the hold begins, if there is one.
    pub(crate) fn hold(&self) -> Option<u64> {
        (self.sizes.hold_bytes > 0).then_some(self.hold)
    }

    /// Where the slots of calls that are measured begin, if there are any.
    pub(crate) fn calls(&self) -> Option<u64> {
        (self.sizes.count_bytes > 0).then_some(self.calls)
    }

    /// Where the tables of aggregates begin and end, if there are any.
    #[must_use]
    pub fn counts(&self) -> Option<(u64, u64)> {
        Some((self.calls()? + calls::BYTES, self.total))
    }

    /// The sizes, as they were rounded.
    #[must_use]
    pub const fn sizes(&self) -> SharedSizes {
        self.sizes
    }

    /// The offset of the tracer's 32-bit robust futex. For pads the tracer is dead while it is 0 or has `FUTEX_OWNER_DIED` set:
    /// then they touch no memory of the program that could be unreadable. The kernel's list of robust futexes uses the word 32
    /// bytes after it, and the C library writes 24 bytes after it.
    #[must_use]
    pub const fn owner(&self) -> u64 {
        header::OWNER
    }

    pub(crate) const fn ring_mask(&self) -> u64 {
        self.sizes.ring_bytes - 1
    }

    pub(crate) fn tracepoint(&self, index: u32) -> Option<u64> {
        (index < self.sizes.tracepoints)
            .then(|| self.tracepoints + u64::from(index) * tracepoint::SIZE)
    }

    pub(crate) fn variable(&self, slot: u32) -> Option<u64> {
        (slot < self.sizes.variables).then(|| self.variables + u64::from(slot) * 8)
    }

    /// Where a ring counts the frames of a tracepoint that were given up for newer ones, from the ring's start; `None` where
    /// frames are not overwritten.
    pub(crate) fn dropped(&self, index: u32) -> Option<u64> {
        (self.sizes.when_full.overwrites() && index < self.sizes.tracepoints)
            .then(|| self.dropped + u64::from(index) * 8)
    }

    /// Where a ring counts the hits of a tracepoint that were skipped, from the ring's start.
    pub(crate) fn skipped(&self, index: u32) -> Option<u64> {
        (index < self.sizes.tracepoints).then(|| self.skipped + u64::from(index) * 16)
    }

    /// Where a ring counts the ticks that hits of a tracepoint have cost, from the ring's start.
    pub(crate) fn spent(&self, index: u32) -> Option<u64> {
        self.skipped(index).map(|skipped| skipped + 8)
    }

    /// Where the table of a ring's unfinished records begins and ends, from the ring's start; only for rings that overwrite.
    pub(crate) const fn unfinished(&self) -> (u64, u64) {
        let length = unfinished::ENTRIES * unfinished::ENTRY;
        (self.unfinished, self.unfinished + length)
    }

    /// How many bytes of a record are before its frame, in the rings of the cpus.
    pub(crate) const fn header_bytes(&self) -> u64 {
        header_bytes(self.sizes.when_full)
    }

    /// The longest record in the rings of the cpus, in bytes.
    pub(crate) fn longest(&self) -> u64 {
        (u64::from(self.sizes.frame_limit) + self.header_bytes()).next_multiple_of(8)
    }

    /// Where the counts and tables of a ring begin, from its start.
    pub(crate) const fn behind_records(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn ring(&self, index: u32) -> u64 {
        self.rings + u64::from(index) * self.ring_stride
    }
}

const fn header_bytes(when_full: WhenFull) -> u64 {
    if when_full.overwrites() {
        record::FRAME + record::OWNER_BYTES
    } else {
        record::FRAME
    }
}

/// The position after a record of `length` bytes at `position`, in a ring of this many bytes. A record that reaches the end of
/// the ring ends there in terms of positions: the next one starts at the ring's start.
pub(crate) const fn behind(bytes: u64, position: u64, length: u64) -> u64 {
    let mask = bytes - 1;
    if (position & mask) + length >= bytes {
        (position | mask).wrapping_add(1)
    } else {
        position.wrapping_add(length)
    }
}

/// The longest record in a hold of this many bytes.
pub(crate) const fn longest_held(bytes: u64) -> u64 {
    bytes / 4
}
