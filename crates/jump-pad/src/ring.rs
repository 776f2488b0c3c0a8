//! Reading the rings while pads write to them.
//!
//! A record is reserved by moving its ring's head with one compare-and-exchange, filled, and told to be whole by
//! its state word, which depends on the record's position: nothing that stood there before can be taken for it. The
//! reader frees what it has copied by moving the tail, which no writer passes. In a ring that overwrites, writers move
//! the tail too, and what the reader was copying at that moment it throws away.
//!
//! What has come from all rings is given out by time, with one rule: a record is held back while one that was made before
//! it may still be on its way. So frames of one thread always come in their order, and so do those of two threads of
//! which one waited for the other.
//!
//! Frames of stopped threads ([`RingReader::insert`]) wait among them. So there is one order for all frames of a run,
//! by one clock, whatever served their tracepoints.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock;
use crate::layout::{SharedLayout, WhenFull, record, ring};
use crate::shared::Shared;

/// How long frames are held back for one that is not whole yet. Longer than a pad waits for room: the pad may be in a
/// signal handler, which has interrupted another one before its frame was whole.
const ORDER_PATIENCE: Duration = Duration::from_secs(3);

/// When a frame that is not whole is given up: a signal handler of the program may have left it by `longjmp`. Only time
/// counts in which other frames come, so that a program which is stopped loses nothing.
const TORN_PATIENCE: Duration = Duration::from_secs(10);

/// How many ticks the counter may be read ahead of the instructions before it.
pub(crate) const EARLY: u64 = 10_000;

/// The shared memory as rings need it. Offsets are from its start, in bytes.
pub(crate) trait RingMemory {
    /// A word, with all that was written before it.
    fn load(&self, at: u64) -> u64;
    /// Writes a word behind all that was read before.
    fn store(&self, at: u64, value: u64);
    /// Writes a word if it is as expected.
    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool;
    /// Appends bytes.
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>);
}

/// A frame of a pad, or of a stopped thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedFrame<'r> {
    /// The block of its tracepoint.
    pub tracepoint: u32,
    /// When it was made, by the counter.
    pub time: u64,
    /// Whether it is of a step of `while-stepping`; pads make none.
    pub step: bool,
    /// Where the value of `$trace_timestamp` is in `bytes`, if it was collected.
    pub stamp: Option<usize>,
    /// The frame as it stands in a trace file: tracepoint number, size, blocks.
    pub bytes: &'r [u8],
}

/// What the threads that make frames may do while the rings are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// They run.
    Running,
    /// None runs. One of them may stand inside a pad and go on later.
    Stopped,
    /// None is inside a pad, and none will be: a frame that is not whole is torn.
    Gone,
}

/// How a reading went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// How many frames were given out.
    pub frames: u64,
    /// How many were begun and never finished, were written over, or could not be found; counted once each.
    pub torn: u64,
    /// Whether there are frames that are held back, or not whole yet.
    pub waiting: bool,
}

/// Reads the rings of a shared memory. There is one reader at a time.
#[derive(Debug)]
pub struct RingReader {
    layout: SharedLayout,
    rings: Vec<Ring>,
    held: Vec<Held>,
    /// The frames that are held.
    bytes: Vec<u8>,
    last_microseconds: u64,
    /// How many ticks the program has been seen to make frames or to lose them, and up to when it was looked at.
    active: u64,
    looked: Option<u64>,
    /// All frames that were made up to here have been given out.
    until: u64,
    order_patience: u64,
    torn_patience: u64,
}

#[derive(Debug)]
struct Ring {
    start: u64,
    /// Where the next record to look at starts.
    position: u64,
    /// Records before it that were not whole when they were looked at.
    unfinished: VecDeque<Unfinished>,
    /// The counter when the ring was last seen without an unfinished record.
    clean: u64,
    /// Since when the record at `position` is there but says nothing of itself.
    silent_since: Option<Since>,
    /// What says whether hits have come: where the head was, and how many were lost.
    hits: u64,
}

/// When something was seen first.
#[derive(Clone, Copy, Debug)]
struct Since {
    counter: u64,
    active: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unfinished {
    position: u64,
    since: Since,
    /// The counter before which it cannot have been made.
    after: u64,
    done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    time: u64,
    tracepoint: u32,
    step: bool,
    stamp: Option<usize>,
    start: usize,
    length: usize,
}

/// What stands at a position.
enum Found {
    Whole {
        behind: u64,
    },
    Unfinished {
        behind: u64,
    },
    Silent,
    /// A writer took it away meanwhile.
    Gone,
}

impl RingReader {
    /// A reader that begins with the oldest record of each ring.
    #[must_use]
    pub fn new(shared: &Shared) -> Self {
        let rate = shared.rate();
        Self::with_patience(
            shared,
            shared.layout(),
            rate.ticks(ORDER_PATIENCE),
            rate.ticks(TORN_PATIENCE),
        )
    }

    /// As `new`, with patience in ticks.
    pub(crate) fn with_patience(
        memory: &impl RingMemory,
        layout: &SharedLayout,
        order_patience: u64,
        torn_patience: u64,
    ) -> Self {
        let rings = (0..layout.sizes.cpus)
            .map(|index| {
                let start = layout.ring(index);
                Ring {
                    start,
                    position: memory.load(start + ring::TAIL),
                    unfinished: VecDeque::new(),
                    clean: 0,
                    silent_since: None,
                    hits: 0,
                }
            })
            .collect();
        Self {
            layout: *layout,
            rings,
            held: Vec::new(),
            bytes: Vec::new(),
            last_microseconds: 0,
            active: 0,
            looked: None,
            until: 0,
            order_patience,
            torn_patience,
        }
    }

    /// Gives out the frames that have come, by time. Follows the time of day, too.
    pub fn drain(
        &mut self,
        shared: &Shared,
        writers: Writers,
        take: &mut dyn FnMut(TimedFrame<'_>),
    ) -> Drained {
        shared.keep_time();
        let now = clock::counter();
        self.drain_at(shared, now, writers, take)
    }

    /// As [`drain`](Self::drain) for the last time, without following the time of day: the memory may be a copy.
    pub fn finish(&mut self, shared: &Shared, take: &mut dyn FnMut(TimedFrame<'_>)) -> Drained {
        let now = clock::counter();
        self.drain_at(shared, now, Writers::Gone, take)
    }

    /// Adds the frame of a stopped thread. It is given out in its place among those of the pads: at once by
    /// [`release`](Self::release) if nothing can come before it any more.
    pub fn insert(&mut self, frame: TimedFrame<'_>) {
        self.held.push(Held {
            time: frame.time,
            tracepoint: frame.tracepoint,
            step: frame.step,
            stamp: frame.stamp,
            start: self.bytes.len(),
            length: frame.bytes.len(),
        });
        self.bytes.extend_from_slice(frame.bytes);
    }

    /// Gives out the frames that nothing can come before, without a look at the rings.
    pub fn release(&mut self, take: &mut dyn FnMut(TimedFrame<'_>)) -> Drained {
        let mut drained = Drained::default();
        self.give_out(self.until, take, &mut drained);
        drained.waiting = !self.held.is_empty();
        drained
    }

    /// The latest `$trace_timestamp` in the frames that were given out, in microseconds.
    #[must_use]
    pub const fn last_microseconds(&self) -> u64 {
        self.last_microseconds
    }

    /// As `drain`, at a time of the caller's.
    pub(crate) fn drain_at(
        &mut self,
        memory: &impl RingMemory,
        now: u64,
        writers: Writers,
        take: &mut dyn FnMut(TimedFrame<'_>),
    ) -> Drained {
        let mut drained = Drained::default();
        let last = writers == Writers::Gone;
        // What a thread that does not run has begun shows in its ring.
        let mut until = match writers {
            Writers::Running => now.saturating_sub(EARLY),
            Writers::Stopped | Writers::Gone => now,
        };
        let mut rings = std::mem::take(&mut self.rings);
        self.see_activity(memory, &mut rings, now);
        for ring in &mut rings {
            let limit = self.read_ring(memory, ring, now, last, &mut drained);
            until = until.min(limit.unwrap_or(until));
        }
        self.rings = rings;
        if last {
            until = u64::MAX;
        }
        self.until = self.until.max(until);
        self.give_out(self.until, take, &mut drained);
        drained.waiting |= !self.held.is_empty();
        drained
    }

    fn see_activity(&mut self, memory: &impl RingMemory, rings: &mut [Ring], now: u64) {
        let mut active = false;
        for ring in rings {
            let head = memory.load(ring.start + ring::HEAD);
            let hits = head.wrapping_add(memory.load(ring.start + ring::LOST));
            active |= hits != ring.hits;
            ring.hits = hits;
        }
        let passed = now.saturating_sub(self.looked.replace(now).unwrap_or(now));
        if active {
            self.active = self.active.saturating_add(passed.min(self.order_patience));
        }
    }

    /// Whether a record that was seen then and is not whole yet will never be.
    const fn is_torn(&self, since: Since) -> bool {
        self.active.saturating_sub(since.active) >= self.torn_patience
    }

    /// Takes what is whole. Gives a time from which on frames must wait, if some must.
    fn read_ring(
        &mut self,
        memory: &impl RingMemory,
        ring: &mut Ring,
        now: u64,
        last: bool,
        drained: &mut Drained,
    ) -> Option<u64> {
        let overwrites = self.layout.sizes.when_full == WhenFull::Overwrite;
        self.look_again(memory, ring, last, drained);
        loop {
            if overwrites {
                let tail = memory.load(ring.start + ring::TAIL);
                if tail != ring.position {
                    ring.position = tail;
                    ring.unfinished.clear();
                    ring.silent_since = None;
                }
                if ring.unfinished.front().is_some_and(|one| !one.done) {
                    break;
                }
            }
            let head = memory.load(ring.start + ring::HEAD);
            // A record may give back what it did not need, so that the head goes back, but never before a whole one.
            let ahead = head.wrapping_sub(ring.position);
            if ahead.cast_signed() <= 0 {
                break;
            }
            if ahead > 2 * self.layout.sizes.ring_bytes {
                // Between the two looks, writers may have gone around the ring and taken the tail along.
                if overwrites && memory.load(ring.start + ring::TAIL) != ring.position {
                    continue;
                }
                // Somebody has written over the ring.
                drained.torn += 1;
                memory.store(ring.start + ring::TAIL, head);
                ring.position = head;
                ring.unfinished.clear();
                break;
            }
            let behind = match self.look(memory, ring, ring.position) {
                Found::Whole { behind } => behind,
                Found::Gone => continue,
                Found::Unfinished { behind } => {
                    let unfinished = Unfinished {
                        position: ring.position,
                        since: Since {
                            counter: now,
                            active: self.active,
                        },
                        after: ring.clean,
                        done: last,
                    };
                    drained.torn += u64::from(last);
                    ring.unfinished.push_back(unfinished);
                    if overwrites {
                        if last {
                            memory.exchange(ring.start + ring::TAIL, ring.position, behind);
                        }
                        continue;
                    }
                    behind
                }
                Found::Silent => {
                    let since = *ring.silent_since.get_or_insert(Since {
                        counter: now,
                        active: self.active,
                    });
                    if !last && !self.is_torn(since) {
                        break;
                    }
                    drained.torn += 1;
                    let found = self.search(memory, ring, head);
                    if overwrites {
                        memory.exchange(ring.start + ring::TAIL, ring.position, found);
                    }
                    found
                }
            };
            ring.silent_since = None;
            ring.position = behind;
        }
        if !overwrites {
            while ring.unfinished.front().is_some_and(|one| one.done) {
                ring.unfinished.pop_front();
            }
            let free = ring
                .unfinished
                .front()
                .map_or(ring.position, |one| one.position);
            memory.store(ring.start + ring::TAIL, free);
        }
        drained.waiting |= ring.silent_since.is_some() || !ring.unfinished.is_empty();
        let mut limit = None;
        let silent = ring.silent_since.map(|since| (since, ring.clean));
        for (since, after) in ring
            .unfinished
            .iter()
            .filter(|one| !one.done)
            .map(|one| (one.since, one.after))
            .chain(silent)
        {
            if now.saturating_sub(since.counter) < self.order_patience {
                limit = Some(limit.unwrap_or(u64::MAX).min(after));
            }
        }
        if ring.unfinished.is_empty() && ring.silent_since.is_none() {
            ring.clean = now.saturating_sub(EARLY);
        }
        limit
    }

    /// Looks whether records have been finished meanwhile.
    fn look_again(
        &mut self,
        memory: &impl RingMemory,
        ring: &mut Ring,
        last: bool,
        drained: &mut Drained,
    ) {
        let mut unfinished = std::mem::take(&mut ring.unfinished);
        let overwrites = self.layout.sizes.when_full == WhenFull::Overwrite;
        for one in unfinished.iter_mut().filter(|one| !one.done) {
            match self.look(memory, ring, one.position) {
                Found::Whole { behind } => {
                    one.done = true;
                    if overwrites {
                        ring.position = behind;
                    }
                }
                Found::Gone => one.done = true,
                Found::Unfinished { behind } => {
                    if last || self.is_torn(one.since) {
                        one.done = true;
                        drained.torn += 1;
                        if overwrites {
                            memory.exchange(ring.start + ring::TAIL, one.position, behind);
                        }
                    }
                }
                Found::Silent => {}
            }
        }
        if overwrites {
            unfinished.retain(|one| !one.done);
        }
        ring.unfinished = unfinished;
    }

    /// Looks at a position, and takes what stands there if it is whole.
    fn look(&mut self, memory: &impl RingMemory, ring: &Ring, position: u64) -> Found {
        let at = ring.start + ring::DATA + (position & self.layout.ring_mask());
        let whole = position ^ self.layout.salt;
        let state = memory.load(at + record::STATE);
        if state != whole && state != !whole {
            return Found::Silent;
        }
        let lengths = memory.load(at + record::RESERVED);
        let (reserved, length) = (lengths & u64::from(u32::MAX), lengths >> 32);
        let most = u64::from(self.layout.sizes.frame_limit) + record::FRAME;
        // One that may give room back does not yet say where it ends. And a program may write anywhere, here too.
        if !reserved.is_multiple_of(8)
            || !(record::FRAME..=most.next_multiple_of(8)).contains(&reserved)
        {
            return Found::Silent;
        }
        let behind = self.layout.behind(position, reserved);
        if state != whole {
            return Found::Unfinished { behind };
        }
        let length = length.min(reserved - record::FRAME) as usize;
        let place = memory.load(at + record::TRACEPOINT);
        let stamp = (place >> 32) as usize;
        let held = Held {
            time: memory.load(at + record::TIME),
            tracepoint: place as u32,
            step: false,
            stamp: (stamp > 0).then_some(stamp),
            start: self.bytes.len(),
            length,
        };
        memory.copy(at + record::FRAME, length, &mut self.bytes);
        if self.layout.sizes.when_full == WhenFull::Overwrite
            && !memory.exchange(ring.start + ring::TAIL, position, behind)
        {
            self.bytes.truncate(held.start);
            return Found::Gone;
        }
        // A record of no bytes is one that a pad gave up.
        if length > 0 {
            self.held.push(held);
        }
        Found::Whole { behind }
    }

    /// The next position at which there is a record, behind one that says nothing of itself; the head if there is none.
    fn search(&self, memory: &impl RingMemory, ring: &Ring, head: u64) -> u64 {
        let mut position = self.layout.behind(ring.position, record::FRAME);
        while head.wrapping_sub(position).cast_signed() > 0 {
            let at = ring.start + ring::DATA + (position & self.layout.ring_mask());
            let state = memory.load(at + record::STATE);
            let whole = position ^ self.layout.salt;
            if state == whole || state == !whole {
                return position;
            }
            position = position.wrapping_add(8);
        }
        head
    }

    fn give_out(
        &mut self,
        until: u64,
        take: &mut dyn FnMut(TimedFrame<'_>),
        drained: &mut Drained,
    ) {
        // Stable: records of one ring with one time stay in their order.
        self.held.sort_by_key(|held| held.time);
        let count = self.held.partition_point(|held| held.time <= until);
        for held in self.held.drain(..count) {
            let Some(frame) = self.bytes.get_mut(held.start..held.start + held.length) else {
                continue;
            };
            let field = held
                .stamp
                .and_then(|stamp| frame.get_mut(stamp..))
                .and_then(<[u8]>::first_chunk_mut::<8>);
            if let Some(field) = field {
                // Two pads may see the clock's start before and after the tracer has raised it.
                let time = u64::from_le_bytes(*field).max(self.last_microseconds);
                self.last_microseconds = time;
                *field = time.to_le_bytes();
            }
            if !is_frame(frame) {
                drained.torn += 1;
                continue;
            }
            drained.frames += 1;
            take(TimedFrame {
                tracepoint: held.tracepoint,
                time: held.time,
                step: held.step,
                stamp: held.stamp,
                bytes: frame,
            });
        }
        if self.held.is_empty() {
            self.bytes.clear();
        } else if count > 0 {
            // What is held back moves to the front.
            let mut kept = Vec::with_capacity(self.held.iter().map(|held| held.length).sum());
            for held in &mut self.held {
                let start = kept.len();
                if let Some(frame) = self.bytes.get(held.start..held.start + held.length) {
                    kept.extend_from_slice(frame);
                }
                held.start = start;
            }
            self.bytes = kept;
        }
    }
}

/// Whether the bytes begin as a frame of just this length. A program may have written over them.
fn is_frame(bytes: &[u8]) -> bool {
    let Some((header, blocks)) = bytes.split_first_chunk::<6>() else {
        return false;
    };
    let [low, high, size @ ..] = *header;
    (1..=i16::MAX).contains(&i16::from_le_bytes([low, high]))
        && usize::try_from(u32::from_le_bytes(size)) == Ok(blocks.len())
}
