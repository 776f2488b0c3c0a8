//! The layout of the memory for call events. `docs/formats/shared-memory.md` describes it.

/// How many bits of an event's second word are the site. The rest is the stack pointer without its lowest three bits.
pub(super) const SITE_BITS: u32 = 20;
/// The low bits of a stack pointer that are left out: it is a multiple of 8.
pub(super) const STACK_BITS: u32 = 3;
/// The size of an event: the counter, then the stack pointer and the site.
pub(super) const EVENT: u64 = 16;

/// The words of the first page.
pub(super) mod header {
    /// Events of threads that have no ring.
    pub(in super::super) const STRANGERS: u64 = 0;
    /// The program's address of the ring of its only thread; 0 if it has several.
    pub(in super::super) const SOLE: u64 = 8;
    /// Not 0 once a thread is known whose `fs` base does not point to a word with its own address.
    pub(in super::super) const FOREIGN_BASES: u64 = 16;
}

/// The table from `fs` base to ring.
pub(super) mod threads {
    pub(in super::super) const START: u64 = 4096;
    /// The table has 2 to the power of this many slots.
    pub(in super::super) const BITS: u32 = 12;
    /// How many slots are searched, from the one that the hash gives; as many are after the last.
    pub(in super::super) const PROBES: u64 = 16;
    pub(in super::super) const SLOTS: u64 = (1 << BITS) + PROBES;
    /// The `fs` base, then the program's address of the ring.
    pub(in super::super) const SLOT: u64 = 16;
    /// The golden ratio, to spread addresses that differ in few bits.
    pub(in super::super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
}

/// A ring. Positions count bytes from the beginning of the run and only grow.
pub(super) mod ring {
    /// Where the next event goes.
    pub(in super::super) const HEAD: u64 = 0;
    /// The number of events that found no space.
    pub(in super::super) const LOST: u64 = 8;
    /// Where the space ends, set by the reader: on a cache line that the thread only reads.
    pub(in super::super) const LIMIT: u64 = 64;
    /// The events. One that has been read is zeroed, so that it is not read again.
    pub(in super::super) const DATA: u64 = 4096;
    /// The space for events, in bytes: a power of two.
    pub(in super::super) const BYTES: u64 = 2 << 20;
    pub(in super::super) const SIZE: u64 = DATA + BYTES;
}

/// How many threads have rings at once.
pub(super) const RINGS: u64 = 512;
/// Where the rings begin.
pub(super) const RINGS_START: u64 =
    (threads::START + threads::SLOTS * threads::SLOT).next_multiple_of(4096);
/// The size of the memory, in bytes. A ring takes none before its thread makes events.
pub(super) const SIZE: u64 = RINGS_START + RINGS * ring::SIZE;

const _: () = assert!(ring::BYTES.is_power_of_two() && ring::BYTES.is_multiple_of(EVENT));
