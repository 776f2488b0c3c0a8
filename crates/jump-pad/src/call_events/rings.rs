//! The tracer's access to the rings of call events.

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_model::{Address, ThreadId};

use super::layout::{
    EVENT, RINGS, RINGS_START, SITE_BITS, SIZE, STACK_BITS, header, ring, threads,
};
use super::{CallEvent, SiteNumber};

/// How often a full ring is found with an unfinished event before that event is given up.
const PATIENCE: u32 = 8;

/// The memory of call events, mapped in the tracer, and which thread has which ring.
#[derive(Debug)]
pub struct CallRings {
    base: NonNull<u8>,
    /// Its address in the program.
    address: Address,
    rings: Vec<Ring>,
    by_thread: HashMap<ThreadId, ThreadRing>,
    /// Rings that no thread has.
    free: Vec<usize>,
    /// Threads that came when all rings were in use.
    without_ring: u64,
    /// Events that were begun and given up.
    torn: u64,
    events: Vec<CallEvent>,
    /// Keeps the mapping.
    _keeper: Box<dyn fmt::Debug>,
}

/// The ring of a thread.
#[derive(Clone, Copy, Debug)]
struct ThreadRing {
    ring: usize,
    /// Its slot in the table; `None` while it has no `fs` base.
    slot: Option<u64>,
}

/// The reader's state of a ring.
#[derive(Debug, Default)]
struct Ring {
    /// The thread that writes to it; none for one that is free.
    thread: Option<ThreadId>,
    /// The thread has ended.
    has_ended: bool,
    /// All events before it have been read.
    tail: u64,
    /// The limit as it was last written to the ring.
    limit: u64,
    /// The number of lost events at the last reading.
    lost: u64,
    /// Positions at which events may be missing, rising.
    gaps: Vec<u64>,
    /// How often it was full with an unfinished event at its tail.
    stuck: u32,
}

/// Events of one thread, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadEvents<'e> {
    /// The thread.
    pub thread: ThreadId,
    /// The events.
    pub events: &'e [CallEvent],
    /// Before the first of them, some may have been lost.
    pub follows_gap: bool,
    /// The thread has ended, and these are its last ones.
    pub has_ended: bool,
}

/// The result of one reading of the rings.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Drained {
    /// How many events there were.
    pub events: u64,
    /// The used part of the fullest ring; 1 is all of it.
    pub filled: f64,
}

impl CallRings {
    /// The size of the memory, in bytes. Most of it is never touched.
    pub const SIZE: u64 = SIZE;
    /// The part from the start that is mapped at once: the data that pads touch at each event, and the first ring.
    pub const BUSY: u64 = RINGS_START + ring::SIZE;

    /// Sets up zeroed memory, which the program has at `address`.
    ///
    /// # Safety
    /// `base` is the start of a page of a mapping of [`SIZE`](Self::SIZE) bytes that lasts as long as `keeper`.
    #[must_use]
    pub unsafe fn create(base: NonNull<u8>, address: Address, keeper: Box<dyn fmt::Debug>) -> Self {
        Self {
            base,
            address,
            rings: Vec::new(),
            by_thread: HashMap::new(),
            free: Vec::new(),
            without_ring: 0,
            torn: 0,
            events: Vec::new(),
            _keeper: keeper,
        }
    }

    /// Gives a thread a ring, by its `fs` base, which is 0 while it has none.
    pub fn begin_thread(&mut self, thread: ThreadId, fs_base: u64) {
        let known = self.by_thread.get(&thread).copied();
        let ring = match known {
            Some(known) if known.slot.is_some() => return,
            Some(known) => known.ring,
            None => match self.free_ring() {
                Some(ring) => ring,
                None => {
                    self.without_ring += 1;
                    return;
                }
            },
        };
        if let Some(ring) = self.rings.get_mut(ring) {
            ring.thread = Some(thread);
        }
        let slot = (fs_base != 0).then(|| self.enter(fs_base, ring)).flatten();
        self.by_thread.insert(thread, ThreadRing { ring, slot });
    }

    /// A free ring; `None` if all are in use.
    fn free_ring(&mut self) -> Option<usize> {
        if let Some(ring) = self.free.pop() {
            return Some(ring);
        }
        let ring = self.rings.len();
        if ring as u64 >= RINGS {
            return None;
        }
        self.rings.push(Ring {
            limit: ring::BYTES,
            ..Ring::default()
        });
        let start = ring_start(ring);
        self.word(start + ring::LIMIT)
            .store(ring::BYTES, Ordering::Release);
        Some(ring)
    }

    /// Enters a base in the table. Returns the slot; `None` if there is no free one nearby.
    fn enter(&self, fs_base: u64, ring: usize) -> Option<u64> {
        let first = fs_base.wrapping_mul(threads::FACTOR) >> (64 - threads::BITS);
        let slots =
            (first..first + threads::PROBES).map(|slot| threads::START + slot * threads::SLOT);
        let slot = slots
            .into_iter()
            .find(|slot| self.word(*slot).load(Ordering::Acquire) == 0)?;
        let address = self.address.0 + ring_start(ring);
        self.word(slot + 8).store(address, Ordering::Release);
        self.word(slot).store(fs_base, Ordering::Release);
        Some(slot)
    }

    /// A thread has ended. Its ring is read once more.
    pub fn end_thread(&mut self, thread: ThreadId) {
        let Some(known) = self.by_thread.remove(&thread) else {
            return;
        };
        if let Some(slot) = known.slot {
            self.word(slot).store(0, Ordering::Release);
        }
        if let Some(ring) = self.rings.get_mut(known.ring) {
            ring.has_ended = true;
        }
    }

    /// Has pads read `fs` bases by the instruction for it ([`Shared::note_foreign_base`](crate::Shared::note_foreign_base)).
    pub fn note_foreign_base(&self) {
        self.word(header::FOREIGN_BASES).store(1, Ordering::Release);
    }

    /// Sets the program's only thread, if it has no others: a hit without an `fs` base is by that thread.
    pub fn set_sole(&mut self, thread: Option<ThreadId>) {
        if let Some(thread) = thread {
            self.begin_thread(thread, 0);
        }
        let ring = thread.and_then(|thread| self.by_thread.get(&thread));
        let address = ring.map_or(0, |known| self.address.0 + ring_start(known.ring));
        self.word(header::SOLE).store(address, Ordering::Release);
    }

    /// Reads the finished events while the program runs, and frees their space.
    pub fn drain(&mut self, take: &mut dyn FnMut(ThreadEvents<'_>)) -> Drained {
        self.read_all(false, take)
    }

    /// Reads all events, including those after an unfinished one. No thread is in a pad any more.
    pub fn finish(&mut self, take: &mut dyn FnMut(ThreadEvents<'_>)) -> Drained {
        self.read_all(true, take)
    }

    fn read_all(&mut self, is_last: bool, take: &mut dyn FnMut(ThreadEvents<'_>)) -> Drained {
        let mut drained = Drained::default();
        for index in 0..self.rings.len() {
            let Some(ring) = self.rings.get_mut(index) else {
                continue;
            };
            let Some(thread) = ring.thread else {
                continue;
            };
            let mut ring = std::mem::take(ring);
            let has_ended = ring.has_ended;
            let used = self.read(
                index,
                &mut ring,
                is_last || has_ended,
                &mut drained,
                &mut |events, follows_gap| {
                    take(ThreadEvents {
                        thread,
                        events,
                        follows_gap,
                        has_ended: false,
                    });
                },
            );
            drained.filled = drained.filled.max(used as f64 / ring::BYTES as f64);
            if has_ended {
                take(ThreadEvents {
                    thread,
                    events: &[],
                    follows_gap: false,
                    has_ended: true,
                });
                (ring.thread, ring.has_ended) = (None, false);
                self.free.push(index);
            }
            if let Some(place) = self.rings.get_mut(index) {
                *place = ring;
            }
        }
        drained
    }

    /// Reads a ring. Returns how many bytes of it were used.
    fn read(
        &mut self,
        index: usize,
        ring: &mut Ring,
        is_last: bool,
        drained: &mut Drained,
        take: &mut dyn FnMut(&[CallEvent], bool),
    ) -> u64 {
        let start = ring_start(index);
        let lost = self.word(start + ring::LOST).load(Ordering::Acquire);
        let head = self.word(start + ring::HEAD).load(Ordering::Acquire);
        if lost != ring.lost {
            ring.lost = lost;
            // Events are lost at a limit: at this one, or at the one before it if that was when it was raised.
            if ring.gaps.last() != Some(&ring.tail) {
                ring.gaps.push(ring.tail);
            }
            if ring.limit != ring.tail {
                ring.gaps.push(ring.limit);
            }
        }
        let used = head.saturating_sub(ring.tail);
        let mut events = std::mem::take(&mut self.events);
        let mut follows_gap = false;
        while ring.tail < head {
            if ring.gaps.first() == Some(&ring.tail) {
                ring.gaps.remove(0);
                if !events.is_empty() {
                    take(&events, follows_gap);
                    drained.events += events.len() as u64;
                    events.clear();
                }
                follows_gap = true;
            }
            let at = start + ring::DATA + ring.tail % ring::BYTES;
            let second = self.word(at + 8).load(Ordering::Acquire);
            if second == 0 {
                let is_full = head == ring.limit;
                ring.stuck += u32::from(is_full);
                if !is_last && ring.stuck < PATIENCE {
                    break;
                }
                // A signal handler has left the pad by a jump. If the thread returns to the pad after all, the next event in this
                // place overwrites what it writes.
                self.torn += 1;
                ring.tail += EVENT;
                continue;
            }
            ring.stuck = 0;
            let time = self.word(at).load(Ordering::Relaxed);
            self.word(at + 8).store(0, Ordering::Relaxed);
            let site = second & ((1 << SITE_BITS) - 1);
            if let Some(site) = SiteNumber::new(site as usize) {
                events.push(CallEvent {
                    time,
                    stack: second >> SITE_BITS << STACK_BITS,
                    site,
                });
            }
            ring.tail += EVENT;
        }
        if !events.is_empty() {
            take(&events, follows_gap);
            drained.events += events.len() as u64;
            events.clear();
        }
        self.events = events;
        ring.limit = ring.tail + ring::BYTES;
        self.word(start + ring::LIMIT)
            .store(ring.limit, Ordering::Release);
        used
    }

    /// The number of lost events: without space, begun and abandoned, or of threads without a ring.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let full: u64 = (0..self.rings.len())
            .map(|index| {
                self.word(ring_start(index) + ring::LOST)
                    .load(Ordering::Acquire)
            })
            .sum();
        let strangers = self.word(header::STRANGERS).load(Ordering::Acquire);
        full + strangers + self.torn
    }

    /// How many threads got no ring, because there were too many at the same time.
    #[must_use]
    pub const fn threads_without_ring(&self) -> u64 {
        self.without_ring
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= SIZE);
        // SAFETY: within the mapping, as `create` requires, and aligned. The mapping lives as long as `self`, which keeps it. All
        // accesses of the tracer are atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at as usize).cast()) }
    }
}

/// Where a ring begins.
const fn ring_start(index: usize) -> u64 {
    RINGS_START + index as u64 * ring::SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings in memory of this process, which a test writes to as a pad does.
    fn rings() -> CallRings {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIZE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = NonNull::new(base.cast()).expect("an address");
        // SAFETY: it is mapped with this size, and stays as long as the test program.
        unsafe { CallRings::create(base, Address(0x1000_0000), Box::new(())) }
    }

    /// Writes as a pad does. Returns whether there was space.
    fn write(rings: &CallRings, ring: usize, time: u64, is_whole: bool) -> bool {
        let start = ring_start(ring);
        let head = rings.word(start + ring::HEAD).load(Ordering::Relaxed);
        if head >= rings.word(start + ring::LIMIT).load(Ordering::Relaxed) {
            rings
                .word(start + ring::LOST)
                .fetch_add(1, Ordering::Relaxed);
            return false;
        }
        rings
            .word(start + ring::HEAD)
            .store(head + EVENT, Ordering::Relaxed);
        if is_whole {
            let at = start + ring::DATA + head % ring::BYTES;
            rings.word(at).store(time, Ordering::Relaxed);
            let second = (0x7000 >> STACK_BITS) << SITE_BITS | 5;
            rings.word(at + 8).store(second, Ordering::Relaxed);
        }
        true
    }

    fn read(rings: &mut CallRings, is_last: bool) -> Vec<(u32, Vec<u64>, bool, bool)> {
        let mut all = Vec::new();
        let mut take = |events: ThreadEvents<'_>| {
            let times = events.events.iter().map(|event| {
                assert_eq!((event.stack, event.site.index()), (0x7000, 5));
                event.time
            });
            all.push((
                events.thread.0,
                times.collect(),
                events.follows_gap,
                events.has_ended,
            ));
        };
        match is_last {
            true => rings.finish(&mut take),
            false => rings.drain(&mut take),
        };
        all
    }

    #[test]
    fn events_come_once_and_in_order() {
        let mut rings = rings();
        rings.begin_thread(ThreadId(1), 0x7f00_0000_0740);
        rings.begin_thread(ThreadId(2), 0x7f00_0080_1740);
        for time in 1..4 {
            assert!(write(&rings, 0, time, true));
        }
        assert!(write(&rings, 1, 9, true));
        assert_eq!(
            read(&mut rings, false),
            [(1, vec![1, 2, 3], false, false), (2, vec![9], false, false)]
        );
        assert_eq!(read(&mut rings, false), []);
        assert_eq!(rings.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_its_place_is_known() {
        let mut rings = rings();
        rings.begin_thread(ThreadId(1), 0x7f00_0000_0740);
        let room = ring::BYTES / EVENT;
        for time in 1..=room {
            assert!(write(&rings, 0, time, true));
        }
        assert!(!write(&rings, 0, 0, true) && !write(&rings, 0, 0, true));
        let before = read(&mut rings, false);
        assert_eq!(
            before.iter().map(|part| part.1.len() as u64).sum::<u64>(),
            room
        );
        for time in 1..3 {
            assert!(write(&rings, 0, time, true));
        }
        assert_eq!(read(&mut rings, false), [(1, vec![1, 2], true, false)]);
        assert_eq!(rings.lost(), 2);
    }

    #[test]
    fn an_event_that_is_not_whole_is_waited_for_and_given_up_at_the_end() {
        let mut rings = rings();
        rings.begin_thread(ThreadId(1), 0x7f00_0000_0740);
        assert!(
            write(&rings, 0, 1, true) && write(&rings, 0, 2, false) && write(&rings, 0, 3, true)
        );
        assert_eq!(read(&mut rings, false), [(1, vec![1], false, false)]);
        assert_eq!(read(&mut rings, false), []);
        assert_eq!(read(&mut rings, true), [(1, vec![3], false, false)]);
        assert_eq!(rings.lost(), 1);
    }

    #[test]
    fn a_ring_goes_to_another_thread_when_its_own_has_ended() {
        let mut rings = rings();
        rings.begin_thread(ThreadId(1), 0x7f00_0000_0740);
        assert!(write(&rings, 0, 1, true));
        rings.end_thread(ThreadId(1));
        rings.begin_thread(ThreadId(2), 0x7f00_0000_0740);
        assert!(write(&rings, 1, 2, true));
        assert_eq!(
            read(&mut rings, false),
            [
                (1, vec![1], false, false),
                (1, vec![], false, true),
                (2, vec![2], false, false)
            ]
        );
        rings.begin_thread(ThreadId(3), 0x7f00_0080_1740);
        assert!(write(&rings, 0, 3, true));
        assert_eq!(read(&mut rings, false), [(3, vec![3], false, false)]);
    }

    #[test]
    fn threads_without_a_ring_are_counted() {
        let mut rings = rings();
        for thread in 0..RINGS as u32 + 3 {
            rings.begin_thread(
                ThreadId(thread),
                0x7f00_0000_0740 + u64::from(thread) * 0x80_1000,
            );
        }
        assert_eq!(rings.threads_without_ring(), 3);
    }
}
