//! Reading the rings while pads write to them.
//!
//! A writer reserves a record by moving its ring's head with one compare-and-exchange, and fills it. Then it sets the
//! record's state word, which depends on the record's position, so that older bytes cannot be taken for it. The reader
//! frees records by moving the tail, which no writer passes. It does so when their frames are in the buffer, and not when it
//! has copied them: until then they outlive a killed tracer in the shared memory. In a ring that overwrites, writers move
//! the tail too. So the reader copies a record into the hold (see below) before it moves the tail, and takes the copy
//! back where a writer was faster. Nothing is written there over an unfinished record that was passed: its space is a *gap*,
//! and the next record is after it (`compile/circular.rs` has the writers' side).
//!
//! What has come from all rings is given out by time, with one rule: a record is held back while one that was made before
//! it may still be on its way. So frames of one thread always come in their order, and so do those of two threads of
//! which one waited for the other.
//!
//! Frames of stopped threads ([`RingReader::insert`]) wait among them. So there is one order for all frames of a run,
//! by one clock, whatever served their tracepoints.
//!
//! Frames of stops, those of rings that overwrite, and those that wait so long that their ring needs the room, lie in the
//! *hold*: one more ring of the shared memory, which the reader alone writes. When it is full, the oldest frames are given out
//! without waiting further, and frames of rings that overwrite wait in the memory of the reader alone.
//!
//! # After a kill
//!
//! Another reader finds in the rings each frame that was not given out, and none that was, whatever the instruction before
//! which the first one was killed: all before a ring's `KEPT` position has been given out, a record after it says so itself,
//! and the one that was on its way is named ([`Shared::moving`]) with the place in the file where it shows whether it arrived.
//! A record in the hold names the record that it was copied from. That one is passed where it is still there.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use crate::clock;
use crate::layout::{
    NOWHERE, SharedLayout, behind, header, longest_held, record, ring, unfinished,
};
use crate::shared::{Origin, Shared};
use tracewire_experiment::Writers;
use tracewire_fail_point::fail_point;

/// How long frames are held back for one that is not whole yet. Longer than a pad waits for room: the pad may be in a
/// signal handler, which has interrupted another one before its frame was whole.
const ORDER_PATIENCE: Duration = Duration::from_secs(3);

/// When a frame that is not whole is given up: a signal handler of the program may have left it by `longjmp`. Only time
/// counts in which other frames come, so that a program which is stopped loses nothing.
const TORN_PATIENCE: Duration = Duration::from_secs(10);

/// How many bytes of a ring are given back at once, while frames are given out: each time costs the next pad a look at
/// the tail.
const GIVEN_BACK_AT_ONCE: u64 = 64 << 10;

/// The hold is used from its start again where it is empty and so many bytes have been used: memory that was never used
/// is none.
const HOLD_REUSED: u64 = 1 << 20;

/// An empty hold gives its memory back where it has more. Less is soon used again, and giving back costs time.
const HOLD_KEPT: u64 = 16 << 20;

/// The memory for frames that waits for the next look has at most so many bytes.
const SPARE_KEPT: usize = 4 << 20;

/// How many ticks the counter may be read ahead of the instructions before it.
pub(crate) const EARLY: u64 = 10_000;

/// The shared memory as rings need it. Offsets are from its start, in bytes.
pub(crate) trait RingMemory {
    /// A word, with all that was written before it.
    fn load(&self, at: u64) -> u64;
    /// Writes a word after all that was read before.
    fn store(&self, at: u64, value: u64);
    /// Writes a word if it is as expected.
    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool;
    /// Appends bytes.
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>);
    /// Writes a word that no writer looks at, only the reader that comes after this one, in the order of calls.
    fn note(&self, at: u64, value: u64);
    /// Writes bytes as `note` does words.
    fn put(&self, at: u64, bytes: &[u8]);
    /// Gives the memory of bytes back to the system. They are zeros then, and nothing reads them before they are written.
    fn release(&self, at: u64, length: u64);
    /// Two words that are exchanged at once.
    fn pair(&self, at: u64) -> (u64, u64) {
        let mut first = self.load(at);
        loop {
            let second = self.load(at + 8);
            let again = self.load(at);
            if again == first {
                return (first, second);
            }
            first = again;
        }
    }
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
    /// The frame as it is in a trace file: tracepoint number, size, blocks.
    pub bytes: &'r [u8],
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
    /// The frames that are held and in no ring that keeps them.
    bytes: Vec<u8>,
    /// Memory that `bytes` takes turns with.
    spare: Vec<u8>,
    /// A frame that is read from its ring when it is given out.
    frame: Vec<u8>,
    last_microseconds: u64,
    /// The fraction of a microsecond in the last frame that was given out.
    last_fraction: u64,
    /// How many ticks the program has been seen to make frames or to lose them, and up to when it was looked at.
    active: u64,
    looked: Option<u64>,
    /// All frames that were made up to here have been given out.
    until: u64,
    order_patience: u64,
    torn_patience: u64,
    /// How many frames have been moved out of the shared memory.
    moved: u64,
    /// A frame that is kept elsewhere though its record does not say so.
    left_out: Option<Origin>,
    /// Records that the hold of another reader has copies of.
    copied: HashSet<Origin>,
}

#[derive(Debug)]
struct Ring {
    index: u32,
    start: u64,
    /// The size of its data.
    bytes: u64,
    /// Writers take the oldest records away.
    overwrites: bool,
    /// What is before each frame, in bytes.
    prefix: u64,
    /// The longest record.
    longest: u64,
    /// Where the next record to look at starts.
    position: u64,
    /// Records before it that were not whole when they were looked at.
    unfinished: VecDeque<Unfinished>,
    /// Records before it that were whole when they were looked at, from the first on that has not been given out.
    passed: VecDeque<Passed>,
    /// The tail, as the reader has set it last.
    tail: u64,
    /// The counter when the ring was last seen without an unfinished record.
    clean: u64,
    /// Since when the record at `position` is there but says nothing of itself.
    silent_since: Option<Since>,
    /// What says whether hits have come: where the head was, and how many were lost.
    hits: u64,
    /// In the hold: how many bytes from its start on have memory.
    used: u64,
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
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It is not whole yet.
    Waiting,
    /// It is whole and has not been given out.
    Held,
    /// It has been given out, or never will be whole.
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Passed {
    position: u64,
    given_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// Where the frame is in the shared memory, if it is there.
    origin: Option<Origin>,
    /// It has left the shared memory already.
    moved: bool,
    time: u64,
    tracepoint: u32,
    step: bool,
    stamp: Option<usize>,
    place: Place,
    length: usize,
}

/// Where the bytes of a held frame are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the ring, at this offset in the shared memory. A ring that does not overwrite keeps them until the frame is given out. They
    /// are copied then, and used while the copy is in the nearest cache.
    Ring(u64),
    /// In the reader's memory, from there on.
    Copied(usize),
}

impl Held {
    /// The frame, in the reader's memory for frames that have left their rings, or in `frame`.
    fn bytes<'r>(
        &self,
        memory: &impl RingMemory,
        copied: &'r mut [u8],
        frame: &'r mut Vec<u8>,
    ) -> Option<&'r mut [u8]> {
        match self.place {
            Place::Copied(start) => copied.get_mut(start..start + self.length),
            Place::Ring(at) => {
                frame.clear();
                memory.copy(at, self.length, frame);
                frame.get_mut(..self.length)
            }
        }
    }
}

/// What is at a position.
enum Found {
    Whole {
        behind: u64,
    },
    /// Kept elsewhere.
    Kept {
        behind: u64,
    },
    Unfinished {
        behind: u64,
    },
    /// Nothing that says to be a record.
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
        let rings = (0..layout.sizes.cpus).map(|index| Ring {
            overwrites: layout.sizes.when_full.overwrites(),
            prefix: layout.header_bytes() - record::FRAME,
            longest: (u64::from(layout.sizes.frame_limit) + layout.header_bytes())
                .next_multiple_of(8),
            ..Ring::at(memory, index, layout.ring(index), layout.sizes.ring_bytes)
        });
        let bytes = layout.sizes.hold_bytes;
        let hold = layout.hold().map(|start| Ring {
            prefix: record::ORIGIN,
            longest: longest_held(bytes),
            ..Ring::at(memory, layout.sizes.cpus, start, bytes)
        });
        let rings = rings.chain(hold).collect();
        Self {
            layout: *layout,
            rings,
            held: Vec::new(),
            bytes: Vec::new(),
            spare: Vec::new(),
            frame: Vec::new(),
            last_microseconds: 0,
            last_fraction: 0,
            active: 0,
            looked: None,
            until: 0,
            order_patience,
            torn_patience,
            moved: 0,
            left_out: None,
            copied: HashSet::new(),
        }
    }

    /// Leaves out a frame that is kept elsewhere, though its record does not say so: see [`Shared::moving`].
    pub const fn leave_out(&mut self, origin: Origin) {
        self.left_out = Some(origin);
    }

    /// Whether the frame there has not been given out as far as its record says.
    #[must_use]
    pub fn is_left(&self, shared: &Shared, origin: Origin) -> bool {
        self.is_left_in(shared, origin)
    }

    /// As [`is_left`](Self::is_left).
    pub(crate) fn is_left_in(&self, memory: &impl RingMemory, origin: Origin) -> bool {
        let ring = usize::try_from(origin.ring).ok();
        let Some(ring) = ring.and_then(|index| self.rings.get(index)) else {
            return false;
        };
        let ahead = origin.position.wrapping_sub(ring.position);
        let whole = origin.position ^ self.layout.salt;
        ahead < ring.bytes && memory.load(ring.place(origin.position) + record::STATE) == whole
    }

    /// Gives out the frames that have come, by time. Follows the time of day, too.
    pub fn drain(
        &mut self,
        shared: &Shared,
        writers: Writers,
        take: &mut dyn FnMut(TimedFrame<'_>),
    ) -> Drained {
        let now = shared.keep_time();
        self.drain_at(shared, now, writers, take)
    }

    /// As [`drain`](Self::drain) for the last time, without following the time of day: the memory may be a copy.
    pub fn finish(&mut self, shared: &Shared, take: &mut dyn FnMut(TimedFrame<'_>)) -> Drained {
        let now = clock::counter();
        self.drain_at(shared, now, Writers::Gone, take)
    }

    /// Adds the frame of a stopped thread. It is given out in its place among those of the pads: at once by
    /// [`release`](Self::release) if nothing can come before it any more, or if there is no room to keep it meanwhile where
    /// it outlives us.
    pub fn insert(&mut self, shared: &Shared, frame: TimedFrame<'_>) {
        self.insert_into(shared, frame);
    }

    /// As [`insert`](Self::insert).
    pub(crate) fn insert_into(&mut self, memory: &impl RingMemory, frame: TimedFrame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame.bytes);
        let mut held = Held {
            origin: None,
            moved: false,
            time: frame.time,
            tracepoint: frame.tracepoint,
            step: frame.step,
            stamp: frame.stamp,
            place: Place::Copied(start),
            length: frame.bytes.len(),
        };
        held.origin = self.put_into_hold(memory, &held);
        if held.origin.is_none() {
            self.until = self.until.max(frame.time);
        }
        self.held.push(held);
    }

    /// Gives out the frames that nothing can come before, without a look at the rings.
    pub fn release(&mut self, shared: &Shared, take: &mut dyn FnMut(TimedFrame<'_>)) -> Drained {
        self.release_from(shared, take)
    }

    /// As [`release`](Self::release).
    pub(crate) fn release_from(
        &mut self,
        memory: &impl RingMemory,
        take: &mut dyn FnMut(TimedFrame<'_>),
    ) -> Drained {
        let mut drained = Drained::default();
        self.give_out(memory, self.until, take, &mut drained);
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
        fail_point!("ring/drain");
        // What a thread that does not run has begun shows in its ring.
        let mut until = match writers {
            Writers::Running => now.saturating_sub(EARLY),
            Writers::Stopped | Writers::Gone => now,
        };
        self.read_hold(memory, now, last, &mut drained);
        // The hold stays: records are put into it meanwhile.
        let hold = self.rings.iter().position(Ring::is_hold);
        let hold = self.rings.split_off(hold.unwrap_or(self.rings.len()));
        let mut rings = std::mem::replace(&mut self.rings, hold);
        self.see_activity(memory, &mut rings, now);
        for ring in &mut rings {
            let limit = self.read_ring(memory, ring, now, last, &mut drained);
            fail_point!("ring/read");
            until = until.min(limit.unwrap_or(until));
        }
        rings.append(&mut self.rings);
        self.rings = rings;
        if last {
            until = u64::MAX;
        }
        self.until = self.until.max(until);
        self.give_out(memory, self.until, take, &mut drained);
        if !self.make_room(memory) {
            self.until = self.held.last().map_or(until, |held| held.time);
            self.give_out(memory, self.until, take, &mut drained);
        }
        drained.waiting |= !self.held.is_empty();
        drained
    }

    /// Reads the hold of another reader, before anything is put into it.
    fn read_hold(&mut self, memory: &impl RingMemory, now: u64, last: bool, drained: &mut Drained) {
        if let Some(mut hold) = self.rings.pop_if(|ring| ring.is_hold()) {
            // Its writer is gone, or is this reader: nothing there may still come.
            self.read_ring(memory, &mut hold, now, last, drained);
            self.rings.push(hold);
        }
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
        let overwrites = ring.overwrites;
        let mut looked_again = None;
        self.look_again(memory, ring, last, drained);
        // Writers may be faster than this reader. What they add from here on is for the next time, so that this ends.
        let end = memory.load(ring.start + ring::HEAD);
        loop {
            if overwrites {
                let tail = memory.load(ring.start + ring::TAIL);
                if tail != ring.position {
                    ring.position = tail;
                    ring.unfinished.clear();
                    ring.silent_since = None;
                }
                if ring.is_blocked() {
                    break;
                }
            }
            if end.wrapping_sub(ring.position).cast_signed() <= 0 {
                break;
            }
            let head = memory.load(ring.start + ring::HEAD);
            // A record may give back what it did not need, so that the head goes back, but never before a whole one.
            let ahead = head.wrapping_sub(ring.position);
            if ahead.cast_signed() <= 0 {
                break;
            }
            if ahead > 2 * ring.bytes {
                // Between the two looks, writers may have gone around the ring and taken the tail along.
                if overwrites && memory.load(ring.start + ring::TAIL) != ring.position {
                    continue;
                }
                // Somebody has written over the ring.
                drained.torn += 1;
                memory.store(ring.start + ring::TAIL, head);
                ring.tail = head;
                ring.position = head;
                ring.unfinished.clear();
                ring.passed.clear();
                break;
            }
            let behind = match self.look(memory, ring, ring.position) {
                Found::Kept { behind } if overwrites => {
                    memory.exchange(ring.start + ring::TAIL, ring.position, behind);
                    continue;
                }
                Found::Whole { behind } | Found::Kept { behind } => behind,
                Found::Gone => continue,
                Found::Unfinished { behind } => {
                    let unfinished = Unfinished {
                        position: ring.position,
                        since: Since {
                            counter: now,
                            active: self.active,
                        },
                        after: ring.clean,
                        stage: if last { Stage::Done } else { Stage::Waiting },
                    };
                    let passed = last && ring.pass(memory, ring.position, behind);
                    drained.torn += u64::from(passed);
                    ring.unfinished.push_back(unfinished);
                    if overwrites {
                        continue;
                    }
                    behind
                }
                Found::Silent => {
                    let claims = if overwrites {
                        self.claims(memory, ring)
                    } else {
                        Vec::new()
                    };
                    let claim = claims.iter().find(|claim| claim.0 == ring.position);
                    if overwrites && claim.is_none() {
                        // It may have begun since. Otherwise nothing comes here.
                        if looked_again.replace(ring.position) != Some(ring.position) {
                            continue;
                        }
                        let found = self.search(memory, ring, head, &claims);
                        memory.exchange(ring.start + ring::TAIL, ring.position, found);
                        continue;
                    }
                    let since = *ring.silent_since.get_or_insert(Since {
                        counter: now,
                        active: self.active,
                    });
                    if !last && !self.is_torn(since) {
                        break;
                    }
                    let behind = match claim {
                        Some(&(_, end)) => end,
                        None => self.search(memory, ring, head, &[]),
                    };
                    let passed = ring.pass(memory, ring.position, behind);
                    drained.torn += u64::from(passed);
                    behind
                }
            };
            ring.silent_since = None;
            ring.position = behind;
        }
        if !overwrites {
            ring.pass_done();
        }
        let waits = ring
            .unfinished
            .iter()
            .any(|one| one.stage == Stage::Waiting);
        drained.waiting |= ring.silent_since.is_some() || waits;
        let mut limit = None;
        let silent = ring.silent_since.map(|since| (since, ring.clean));
        for (since, after) in ring
            .unfinished
            .iter()
            .filter(|one| one.stage == Stage::Waiting)
            .map(|one| (one.since, one.after))
            .chain(silent)
        {
            if now.saturating_sub(since.counter) < self.order_patience {
                limit = Some(limit.unwrap_or(u64::MAX).min(after));
            }
        }
        if !waits && ring.silent_since.is_none() {
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
        let overwrites = ring.overwrites;
        for one in unfinished
            .iter_mut()
            .filter(|one| one.stage == Stage::Waiting)
        {
            let held = self.held.len();
            match self.look(memory, ring, one.position) {
                Found::Whole { behind } => {
                    one.stage = Stage::Done;
                    if overwrites {
                        ring.position = behind;
                    } else if self.held.len() > held {
                        // Not among those that were whole when they were passed.
                        ring.passed.pop_back();
                        one.stage = Stage::Held;
                    }
                }
                Found::Kept { .. } | Found::Gone => one.stage = Stage::Done,
                Found::Unfinished { behind } => {
                    if last || self.is_torn(one.since) {
                        one.stage = Stage::Done;
                        drained.torn += u64::from(ring.pass(memory, one.position, behind));
                    }
                }
                Found::Silent => {}
            }
        }
        if overwrites {
            unfinished.retain(|one| one.stage != Stage::Done);
        }
        ring.unfinished = unfinished;
    }

    /// Looks at a position, and takes what is there if it is whole.
    fn look(&mut self, memory: &impl RingMemory, ring: &mut Ring, position: u64) -> Found {
        let at = ring.place(position);
        let whole = position ^ self.layout.salt;
        let state = memory.load(at + record::STATE);
        let kept = state == record::kept(whole);
        if state != whole && state != !whole && !kept {
            return Found::Silent;
        }
        let lengths = memory.load(at + record::RESERVED);
        let (reserved, length) = (lengths & u64::from(u32::MAX), lengths >> 32);
        let header = record::FRAME + ring.prefix;
        // One that may give room back does not yet say where it ends. And a program may write anywhere, here too.
        if !reserved.is_multiple_of(8) || !(header..=ring.longest).contains(&reserved) {
            return Found::Silent;
        }
        let behind = behind(ring.bytes, position, reserved);
        let origin = Origin {
            ring: ring.index,
            position,
        };
        if kept || self.left_out == Some(origin) || self.copied.contains(&origin) {
            return Found::Kept { behind };
        }
        if state != whole {
            return Found::Unfinished { behind };
        }
        let length = length.min(reserved - header) as usize;
        let place = memory.load(at + record::TRACEPOINT);
        let stamp = (place >> 32) as usize;
        let mut held = Held {
            origin: Some(origin),
            moved: false,
            time: memory.load(at + record::TIME),
            tracepoint: place as u32,
            step: false,
            stamp: (stamp > 0).then_some(stamp),
            place: match ring.overwrites || ring.is_hold() {
                true => Place::Copied(self.bytes.len()),
                false => Place::Ring(at + header),
            },
            length,
        };
        if ring.is_hold() {
            let before = memory.load(at + record::FRAME);
            held.step = before & record::STEP != 0;
            let copied = (before as u32).checked_sub(1).map(|ring| Origin {
                ring,
                position: memory.load(at + record::FRAME + 8),
            });
            self.copied.extend(copied);
        }
        if let Place::Copied(start) = held.place {
            memory.copy(at + header, length, &mut self.bytes);
            fail_point!("ring/record-copied");
            if ring.overwrites && !self.leave_ring(memory, ring, origin, &mut held, behind) {
                self.bytes.truncate(start);
                return Found::Gone;
            }
        }
        // A record of no bytes is one that a pad gave up.
        if length > 0 {
            self.held.push(held);
            if !ring.overwrites {
                ring.passed.push_back(Passed {
                    position,
                    given_out: false,
                });
            }
        }
        Found::Whole { behind }
    }

    /// Lets writers have the room of a whole record of a ring that overwrites. Its frame is in the hold then, or in this reader's
    /// memory alone where there is no room. `false` if a writer has taken the record away, and counted it.
    fn leave_ring(
        &mut self,
        memory: &impl RingMemory,
        ring: &Ring,
        origin: Origin,
        held: &mut Held,
        behind: u64,
    ) -> bool {
        let has_frame = held.length > 0;
        let copy = has_frame.then(|| self.put_into_hold(memory, held));
        held.origin = copy.flatten();
        held.moved = held.origin.is_none();
        if has_frame && held.moved {
            self.begin_move(memory, Some(origin));
        }
        fail_point!("ring/tail");
        let left = memory.exchange(ring.start + ring::TAIL, origin.position, behind);
        fail_point!("ring/tail-moved");
        match (left, held.origin) {
            (true, None) => self.moved += u64::from(has_frame),
            (true, Some(_)) => {}
            (false, None) => memory.note(header::MOVING, 0),
            (false, Some(copy)) => {
                if let Some(hold) = self.rings.last_mut().filter(|ring| ring.is_hold()) {
                    hold.take_back(memory, copy.position);
                }
            }
        }
        left
    }

    /// Says that a frame is about to be moved out of the shared memory.
    fn begin_move(&self, memory: &impl RingMemory, origin: Option<Origin>) {
        let (ring, position) = origin.map_or((u64::MAX, 0), |origin| {
            (origin.ring.into(), origin.position)
        });
        memory.note(header::MOVED, self.moved);
        memory.note(header::MOVING, 0);
        memory.note(header::MOVE_RING, ring);
        memory.note(header::MOVE_POSITION, position);
        memory.note(header::MOVE_OFFSET, NOWHERE);
        memory.note(header::MOVING, self.moved + 1);
    }

    /// Says that a frame is kept elsewhere now.
    fn end_move(rings: &mut [Ring], memory: &impl RingMemory, salt: u64, origin: Origin) {
        let ring = usize::try_from(origin.ring).ok();
        let Some(ring) = ring.and_then(|index| rings.get_mut(index)) else {
            return;
        };
        let Some(front) = ring.give_out(origin.position) else {
            return;
        };
        if front.wrapping_sub(origin.position).cast_signed() > 0 {
            memory.note(ring.start + ring::KEPT, front);
            fail_point!("ring/kept");
        } else {
            let state = record::kept(origin.position ^ salt);
            memory.note(ring.place(origin.position) + record::STATE, state);
            fail_point!("ring/marked");
        }
        if front.wrapping_sub(ring.tail) >= GIVEN_BACK_AT_ONCE {
            ring.give_back(memory);
        }
    }

    /// Puts a frame into the hold. Gives its place there; none where there is no room.
    fn put_into_hold(&mut self, memory: &impl RingMemory, held: &Held) -> Option<Origin> {
        let ring = self.rings.last_mut().filter(|ring| ring.is_hold())?;
        let frame = held.bytes(memory, &mut self.bytes, &mut self.frame)?;
        let header = record::FRAME + ring.prefix;
        let reserved = (header + held.length as u64).next_multiple_of(8);
        if reserved > ring.longest {
            return None;
        }
        if ring.passed.is_empty() && ring.position & (ring.bytes - 1) >= HOLD_REUSED {
            ring.position = behind(ring.bytes, ring.position, ring.bytes);
            memory.note(ring.start + ring::KEPT, ring.position);
            fail_point!("hold/restarted");
            memory.note(ring.start + ring::HEAD, ring.position);
            ring.give_back(memory);
            if ring.used > HOLD_KEPT {
                let released = ring.start + ring::DATA + HOLD_REUSED;
                memory.release(released, ring.used - HOLD_REUSED);
                ring.used = HOLD_REUSED;
            }
        }
        let position = ring.position;
        let end = behind(ring.bytes, position, reserved);
        if end.wrapping_sub(ring.front()) > ring.bytes {
            return None;
        }
        let at = ring.place(position);
        let whole = position ^ self.layout.salt;
        let (origin, place) = held.origin.map_or((0, 0), |origin| {
            (u64::from(origin.ring) + 1, origin.position)
        });
        let step = if held.step { record::STEP } else { 0 };
        let stamp = held.stamp.unwrap_or(0) as u64;
        memory.note(at + record::STATE, !whole);
        fail_point!("hold/begun");
        memory.note(at + record::RESERVED, reserved | (held.length as u64) << 32);
        memory.note(at + record::TIME, held.time);
        memory.note(
            at + record::TRACEPOINT,
            u64::from(held.tracepoint) | stamp << 32,
        );
        memory.note(at + record::FRAME, origin | step);
        memory.note(at + record::FRAME + 8, place);
        memory.put(at + header, frame);
        fail_point!("hold/filled");
        memory.note(at + record::STATE, whole);
        fail_point!("hold/whole");
        memory.note(ring.start + ring::HEAD, end);
        fail_point!("hold/head-moved");
        ring.used = (at + reserved - ring.start - ring::DATA).max(ring.used);
        ring.position = end;
        ring.passed.push_back(Passed {
            position,
            given_out: false,
        });
        Some(Origin {
            ring: ring.index,
            position,
        })
    }

    /// Moves frames that wait for others into the hold, where they take much of their ring. `false` if there is no room.
    fn make_room(&mut self, memory: &impl RingMemory) -> bool {
        for index in 0..self.layout.sizes.cpus {
            let full = usize::try_from(index)
                .ok()
                .and_then(|index| self.rings.get(index))
                .is_some_and(Ring::needs_room);
            if !full {
                continue;
            }
            for place in 0..self.held.len() {
                let Some(held) = self.held.get(place).copied() else {
                    break;
                };
                let Some(origin) = held.origin.filter(|origin| origin.ring == index) else {
                    continue;
                };
                let Some(moved) = self.put_into_hold(memory, &held) else {
                    return false;
                };
                fail_point!("hold/doubled");
                let copied = match held.place {
                    Place::Copied(start) => start,
                    Place::Ring(at) => {
                        let start = self.bytes.len();
                        memory.copy(at, held.length, &mut self.bytes);
                        start
                    }
                };
                if let Some(held) = self.held.get_mut(place) {
                    held.origin = Some(moved);
                    held.place = Place::Copied(copied);
                }
                Self::end_move(&mut self.rings, memory, self.layout.salt, origin);
            }
            self.give_back(memory);
        }
        true
    }

    /// Lets writers have the room of all records that are kept elsewhere.
    fn give_back(&mut self, memory: &impl RingMemory) {
        for ring in &mut self.rings {
            ring.give_back(memory);
        }
    }

    /// The next position at which there is a record, or one of those that were claimed, after one that says nothing of
    /// itself; the head if there is none.
    fn search(
        &self,
        memory: &impl RingMemory,
        ring: &Ring,
        head: u64,
        claims: &[(u64, u64)],
    ) -> u64 {
        let mut position = ring.position.wrapping_add(8);
        while head.wrapping_sub(position).cast_signed() > 0 {
            let state = memory.load(ring.place(position) + record::STATE);
            let whole = position ^ self.layout.salt;
            if state == whole
                || state == !whole
                || state == record::kept(whole)
                || claims.iter().any(|claim| claim.0 == position)
            {
                return position;
            }
            position = position.wrapping_add(8);
        }
        head
    }

    /// Where the records of a ring that overwrites begin and end that say nothing of themselves, others perhaps among them.
    fn claims(&self, memory: &impl RingMemory, ring: &Ring) -> Vec<(u64, u64)> {
        // The newest comes into the table before another takes its place.
        let newest = memory.pair(ring.start + ring::HEAD);
        let (start, end) = self.layout.unfinished();
        let entries = (start..end)
            .step_by(unfinished::ENTRY as usize)
            .map(|entry| memory.pair(ring.start + entry));
        std::iter::once(newest)
            .filter(|newest| newest.1 != 0)
            .chain(entries.take_while(|entry| entry.1 != 0))
            .map(|(end, claim)| {
                let length = (claim & ((1 << unfinished::SPAN_BITS) - 1)) * 8;
                (end.wrapping_sub(length), end)
            })
            .collect()
    }

    /// Gives out one frame.
    fn give(
        &mut self,
        memory: &impl RingMemory,
        held: &Held,
        take: &mut dyn FnMut(TimedFrame<'_>),
        drained: &mut Drained,
    ) {
        let Some(frame) = held.bytes(memory, &mut self.bytes, &mut self.frame) else {
            return;
        };
        let field = held
            .stamp
            .and_then(|stamp| frame.get_mut(stamp..))
            .and_then(<[u8]>::first_chunk_mut::<8>);
        if let Some(field) = field {
            // Two pads may see the clock's start before and after the tracer has raised it.
            let before = self.last_microseconds;
            let time = u64::from_le_bytes(*field).max(before);
            let raised = time.to_le_bytes() != *field;
            self.last_microseconds = time;
            *field = time.to_le_bytes();
            if let Some(field) = fraction_field(frame, held.stamp) {
                let fraction = u64::from_le_bytes(*field);
                let fraction = match (raised, time == before) {
                    (true, _) => self.last_fraction,
                    (false, true) => fraction.max(self.last_fraction),
                    (false, false) => fraction,
                };
                self.last_fraction = fraction;
                *field = fraction.to_le_bytes();
            }
        }
        if !is_frame(frame) {
            drained.torn += 1;
            return;
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

    fn give_out(
        &mut self,
        memory: &impl RingMemory,
        until: u64,
        take: &mut dyn FnMut(TimedFrame<'_>),
        drained: &mut Drained,
    ) {
        // Stable: records of one ring with one time stay in their order.
        self.held.sort_by_key(|held| held.time);
        let count = self.held.partition_point(|held| held.time <= until);
        let mut all = std::mem::take(&mut self.held);
        for held in all.drain(..count) {
            fail_point!("ring/give");
            if !held.moved {
                self.begin_move(memory, held.origin);
            }
            fail_point!("ring/move-begun");
            self.give(memory, &held, take, drained);
            fail_point!("ring/given-out");
            if let Some(origin) = held.origin {
                Self::end_move(&mut self.rings, memory, self.layout.salt, origin);
            }
            self.moved += u64::from(!held.moved);
        }
        self.held = all;
        self.give_back(memory);
        if self.held.is_empty() {
            self.bytes.clear();
        } else if count > 0 {
            // What is held back moves to the front. Both vectors keep their memory: nearly always a few frames are held back.
            let mut kept = std::mem::take(&mut self.spare);
            kept.clear();
            for held in &mut self.held {
                if let Place::Copied(start) = &mut held.place {
                    let from = std::mem::replace(start, kept.len());
                    kept.extend_from_slice(
                        self.bytes.get(from..from + held.length).unwrap_or_default(),
                    );
                }
            }
            self.spare = std::mem::replace(&mut self.bytes, kept);
            if self.spare.capacity() > SPARE_KEPT {
                self.spare = Vec::new();
            }
        }
    }
}

impl Ring {
    /// The ring that starts there, from the first record on that is not kept elsewhere.
    fn at(memory: &impl RingMemory, index: u32, start: u64, bytes: u64) -> Self {
        let tail = memory.load(start + ring::TAIL);
        let kept = memory.load(start + ring::KEPT);
        Self {
            index,
            start,
            bytes,
            overwrites: false,
            prefix: 0,
            longest: 0,
            position: if kept.wrapping_sub(tail).cast_signed() > 0 {
                kept
            } else {
                tail
            },
            unfinished: VecDeque::new(),
            passed: VecDeque::new(),
            tail,
            clean: 0,
            silent_since: None,
            hits: 0,
            used: 0,
        }
    }

    const fn is_hold(&self) -> bool {
        self.prefix == record::ORIGIN
    }

    /// In the hold: the record there, the last one, was put there in vain.
    fn take_back(&mut self, memory: &impl RingMemory, position: u64) {
        debug_assert!(
            self.is_hold()
                && self
                    .passed
                    .back()
                    .is_some_and(|one| one.position == position)
        );
        self.passed.pop_back();
        self.position = position;
        memory.note(self.start + ring::HEAD, position);
        fail_point!("hold/taken-back");
    }

    /// Gives up a record that is not whole: `false` if a writer has done that before, and counted it.
    fn pass(&self, memory: &impl RingMemory, position: u64, behind: u64) -> bool {
        !self.overwrites || memory.exchange(self.start + ring::TAIL, position, behind)
    }

    /// Where the record at a position is in the shared memory.
    const fn place(&self, position: u64) -> u64 {
        self.start + ring::DATA + (position & (self.bytes - 1))
    }

    /// Whether nobody may read on before a record is whole.
    fn is_blocked(&self) -> bool {
        self.unfinished
            .front()
            .is_some_and(|one| one.stage == Stage::Waiting)
    }

    /// The first position that is not kept elsewhere.
    fn front(&self) -> u64 {
        let unfinished = self.unfinished.front().map(|one| one.position);
        let passed = self.passed.front().map(|one| one.position);
        // Positions of one ring are less than its size apart.
        let distance = |position: u64| self.position.wrapping_sub(position);
        let far = [unfinished, passed].into_iter().flatten().map(distance);
        self.position.wrapping_sub(far.max().unwrap_or(0))
    }

    fn pass_done(&mut self) {
        while self
            .unfinished
            .front()
            .is_some_and(|one| one.stage == Stage::Done)
        {
            self.unfinished.pop_front();
        }
    }

    /// The record at this position has been given out. Gives the first position that is not kept elsewhere then; none if there is no such
    /// record.
    fn give_out(&mut self, position: u64) -> Option<u64> {
        // Nearly always it is the first, and all before it are done.
        if self.unfinished.is_empty()
            && (self.passed.front()).is_some_and(|first| first.position == position)
        {
            self.passed.pop_front();
            self.pass_given_out();
            return Some(match self.passed.front() {
                Some(first) => first.position,
                None => self.position,
            });
        }
        let place = match self.passed.front() {
            Some(first) if first.position == position => Ok(0),
            _ => self
                .passed
                .binary_search_by_key(&position, |passed| passed.position),
        };
        if let Some(passed) = place.ok().and_then(|place| self.passed.get_mut(place)) {
            passed.given_out = true;
            self.pass_given_out();
            return Some(self.front());
        }
        let mut unfinished = self.unfinished.iter_mut();
        let one = unfinished.find(|one| one.position == position)?;
        one.stage = Stage::Done;
        self.pass_done();
        Some(self.front())
    }

    fn pass_given_out(&mut self) {
        while self.passed.front().is_some_and(|passed| passed.given_out) {
            self.passed.pop_front();
        }
    }

    /// Whether frames that wait take so much that the program may soon find no room, and could make some.
    fn needs_room(&self) -> bool {
        let front = self.front();
        !self.overwrites
            && self.position.wrapping_sub(front) > self.bytes / 2
            && self.passed.front().is_some_and(|one| one.position == front)
    }

    /// Lets writers have the room of all records that are kept elsewhere.
    fn give_back(&mut self, memory: &impl RingMemory) {
        let front = self.front();
        if !self.overwrites && front != self.tail {
            self.tail = front;
            memory.store(self.start + ring::TAIL, front);
            fail_point!("ring/given-back");
        }
    }
}

/// The fraction of a microsecond in a frame: it follows time, thread and cpu.
fn fraction_field(frame: &mut [u8], stamp: Option<usize>) -> Option<&mut [u8; 8]> {
    /// A variable: its letter, its number, its value.
    const NUMBER: usize = 1;
    const VALUE: usize = 5;
    const VARIABLE: usize = 13;
    let start = stamp?.checked_sub(VALUE)?.checked_add(3 * VARIABLE)?;
    let block = frame.get_mut(start..)?.first_chunk_mut::<VARIABLE>()?;
    let (head, value) = block.split_at_mut(VALUE);
    let number = tracewire_tracefile::FRACTION.0.to_le_bytes();
    let is_fraction = head.first() == Some(&b'V') && head.get(NUMBER..) == Some(&number[..]);
    value.first_chunk_mut().filter(|_| is_fraction)
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
