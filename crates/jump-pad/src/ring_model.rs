//! The rings, with every order of events that two writers, an owner who comes back late, and a reader can come into.
//!
//! The reader is the real one. The writers do what the generated code does, access by access.

use std::collections::BTreeMap;
use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};

use crate::layout::{SharedLayout, SharedSizes, WhenFull, behind, record, ring, unfinished};
use crate::ring::{EARLY, RingMemory, RingReader};
use tracewire_experiment::Writers;

/// Ring bytes and the size of a record: four fill the ring.
const RING: u64 = 4096;
const RECORD: u64 = 1024;
const FRAME: u64 = 16;
const NEVER: u64 = u64::MAX;
/// How many entries of the table are ever used.
const ENTRIES: u64 = 3;
/// The threads that write: the model's own, before the others, and two.
const THREADS: usize = 3;

/// Those words of the shared memory that are used.
struct Words {
    words: BTreeMap<u64, AtomicU64>,
    /// Two words are exchanged at once.
    pairs: Mutex<()>,
}

impl Words {
    fn new(layout: &SharedLayout) -> Self {
        let start = layout.ring(0);
        let fields = [
            ring::HEAD,
            ring::NEWEST,
            ring::LOST,
            ring::TAIL,
            ring::FREE,
            ring::DROPPED,
            ring::KEPT,
        ];
        let (table, _) = layout.unfinished();
        let entries = (0..ENTRIES * 2).map(|word| table + word * 8);
        let dropped = layout.dropped(0);
        let mut words: Vec<_> = fields
            .into_iter()
            .chain(dropped)
            .chain(dropped.iter().flat_map(|_| entries.clone()))
            .map(|field| start + field)
            .collect();
        for place in (0..RING).step_by(RECORD as usize / 2) {
            let at = start + ring::DATA + place;
            let length = layout.header_bytes() + FRAME;
            words.extend((0..length).step_by(8).map(|word| at + word));
        }
        Self {
            words: words
                .into_iter()
                .map(|at| (at, AtomicU64::new(0)))
                .collect(),
            pairs: Mutex::new(()),
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.words
            .get(&at)
            .expect("a word that nobody should touch")
    }

    fn exchange_pair(&self, at: u64, expected: (u64, u64), new: (u64, u64)) -> bool {
        let _held = self.pairs.lock().unwrap();
        // The first one may be exchanged alone.
        let exchanged = self.load(at + 8) == expected.1 && self.exchange(at, expected.0, new.0);
        if exchanged {
            self.store(at + 8, new.1);
        }
        exchanged
    }
}

impl RingMemory for Words {
    fn load(&self, at: u64) -> u64 {
        // What no record or frame is ever written to is looked at too, in search of a record.
        let word = self.words.get(&at);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }
    fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool {
        self.word(at)
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        for word in (at..).step_by(8).take(length / 8) {
            into.extend(self.load(word).to_le_bytes());
        }
    }
    // Nobody here looks at these.
    fn note(&self, _: u64, _: u64) {}
    fn put(&self, _: u64, _: &[u8]) {}
    fn release(&self, _: u64, _: u64) {}
    fn pair(&self, at: u64) -> (u64, u64) {
        let _held = self.pairs.lock().unwrap();
        (self.load(at), self.load(at + 8))
    }
}

struct World {
    layout: SharedLayout,
    words: Words,
    clock: AtomicU64,
    /// The tokens on the stacks of the threads.
    tokens: [AtomicU64; THREADS],
}

/// A record that is not finished.
#[derive(Clone, Copy)]
struct Begun {
    thread: usize,
    position: u64,
    claim: u64,
    name: u64,
}

impl World {
    fn new(when_full: WhenFull) -> Arc<Self> {
        let header = if when_full.overwrites() {
            record::FRAME + record::OWNER_BYTES
        } else {
            record::FRAME
        };
        let sizes = SharedSizes {
            cpus: 1,
            ring_bytes: RING,
            frame_limit: (RECORD - header) as u32,
            tracepoints: 1,
            variables: 0,
            hold_bytes: 0,
            count_bytes: 0,
            when_full,
        };
        let layout = SharedLayout::new(sizes, 0x5a17_0000_0000_0000).unwrap();
        Arc::new(Self {
            words: Words::new(&layout),
            layout,
            clock: AtomicU64::new(1),
            tokens: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    fn overwrites(&self) -> bool {
        self.layout.sizes.when_full == WhenFull::Overwrite
    }

    /// Makes a frame. Whether there was room.
    fn write(&self, thread: usize, name: u64, shrinks: bool) -> bool {
        let Some(begun) = self.reserve(thread, name) else {
            return false;
        };
        self.begin(begun, shrinks);
        self.finish(begun, shrinks);
        true
    }

    fn reserve(&self, thread: usize, name: u64) -> Option<Begun> {
        let (position, claim) = if self.overwrites() {
            self.claim(thread)?
        } else {
            (self.append()?, 0)
        };
        Some(Begun {
            thread,
            position,
            claim,
            name,
        })
    }

    /// As the code of `Code::append`, without any patience.
    fn append(&self) -> Option<u64> {
        let words = &self.words;
        let start = self.layout.ring(0);
        loop {
            let head = words.load(start + ring::HEAD);
            let end = behind(RING, head, RECORD);
            if end.wrapping_sub(words.load(start + ring::TAIL)) > RING {
                return self.lose();
            }
            if words.exchange(start + ring::HEAD, head, end) {
                return Some(head);
            }
        }
    }

    /// As `Code::begin_header`, and the state.
    fn begin(&self, begun: Begun, shrinks: bool) {
        let words = &self.words;
        let at = self.at(begun.position);
        if self.overwrites() {
            words.store(at + record::OWNER, begun.claim);
        }
        let may_shrink = u64::from(shrinks && !self.overwrites());
        words.store(at + record::RESERVED, RECORD | may_shrink);
        words.store(at + record::STATE, !self.whole(begun.position));
    }

    /// As `Code::begin_record` to `Code::commit`.
    fn finish(&self, begun: Begun, shrinks: bool) {
        let words = &self.words;
        let start = self.layout.ring(0);
        let (position, at) = (begun.position, self.at(begun.position));
        let time = self.clock.fetch_add(1, Ordering::AcqRel);
        words.store(at + record::TIME, time);
        words.store(at + record::TRACEPOINT, 0);
        // Tracepoint 1, ten bytes, which are the name cut short and the name.
        for (word, value) in [(0, 1 | 10 << 16 | begun.name << 48), (8, begun.name)] {
            words
                .word(at + self.layout.header_bytes() + word)
                .store(value, Ordering::Relaxed);
        }
        let kept = |length: u64| length | FRAME << 32;
        let reserved = behind(RING, position, RECORD);
        let less = behind(RING, position, RECORD / 2);
        if shrinks && self.overwrites() {
            words.store(at + record::RESERVED, kept(RECORD / 2));
            words.exchange_pair(start + ring::HEAD, (reserved, begun.claim), (less, 0));
        } else if shrinks && words.exchange(start + ring::HEAD, reserved, less) {
            words.store(at + record::RESERVED, kept(RECORD / 2));
        } else {
            words.store(at + record::RESERVED, kept(RECORD));
        }
        words.store(at + record::STATE, self.whole(position));
        self.tokens[begun.thread].store(0, Ordering::Release);
    }

    fn lose<T>(&self) -> Option<T> {
        self.add(ring::LOST);
        None
    }

    fn add(&self, field: u64) {
        let at = self.layout.ring(0) + field;
        self.words.word(at).fetch_add(1, Ordering::AcqRel);
    }

    fn take_back(&self, field: u64) {
        let at = self.layout.ring(0) + field;
        self.words.word(at).fetch_sub(1, Ordering::AcqRel);
    }

    /// Moves a position of the ring; the count has been made before.
    fn advance(&self, field: u64, from: u64, to: u64, counted: Option<u64>) {
        let moved = self.words.exchange(self.layout.ring(0) + field, from, to);
        if let (false, Some(counted)) = (moved, counted) {
            self.take_back(counted);
        }
    }

    fn at(&self, position: u64) -> u64 {
        self.layout.ring(0) + ring::DATA + (position & self.layout.ring_mask())
    }

    fn whole(&self, position: u64) -> u64 {
        position ^ self.layout.salt
    }

    fn state(&self, position: u64) -> u64 {
        self.words.load(self.at(position) + record::STATE)
    }

    fn is_record(&self, position: u64) -> bool {
        let state = self.state(position);
        state == self.whole(position) || state == !self.whole(position)
    }

    fn end_of_record(&self, position: u64) -> u64 {
        let reserved = self.words.load(self.at(position) + record::RESERVED) as u32;
        behind(RING, position, reserved.into())
    }

    fn span(claim: u64) -> u64 {
        (claim & ((1 << unfinished::SPAN_BITS) - 1)) * 8
    }

    fn owner_is_gone(&self, (end, claim): (u64, u64)) -> bool {
        // What is no claim any more may lead anywhere: to a fault, and that is no owner.
        let thread = (claim >> unfinished::SPAN_BITS).wrapping_sub(1) as usize;
        self.tokens.get(thread).is_none_or(|token| {
            token.load(Ordering::Acquire) != self.whole(end.wrapping_sub(Self::span(claim)))
        })
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        let table = self.layout.ring(0) + self.layout.unfinished().0;
        (0..ENTRIES).map(move |entry| table + entry * unfinished::ENTRY)
    }

    fn entry(&self, at: u64) -> (u64, u64) {
        self.words.pair(at)
    }

    /// As `Code::claim`.
    fn claim(&self, thread: usize) -> Option<(u64, u64)> {
        let start = self.layout.ring(0);
        loop {
            let head = self.words.load(start + ring::HEAD);
            let newest = self.words.load(start + ring::NEWEST);
            let began = head.wrapping_sub(Self::span(newest));
            if !self.is_record(began) && newest != 0 {
                // The code looks at the head alone, which is enough where two words are exchanged at once indeed.
                if self.words.pair(start + ring::HEAD) != (head, newest) {
                    continue;
                }
                self.note_unfinished((head, newest));
            }
            let end = behind(RING, head, RECORD);
            if end.wrapping_sub(self.words.load(start + ring::FREE)) > RING {
                self.make_room((head, newest))?;
                continue;
            }
            self.tokens[thread].store(self.whole(head), Ordering::Release);
            let claim = ((thread as u64 + 1) << unfinished::SPAN_BITS) | ((end - head) / 8);
            if self
                .words
                .exchange_pair(start + ring::HEAD, (head, newest), (end, claim))
            {
                return Some((head, claim));
            }
        }
    }

    /// As `Code::make_room`.
    fn make_room(&self, newest: (u64, u64)) -> Option<()> {
        let start = self.layout.ring(0);
        loop {
            let free = self.words.load(start + ring::FREE);
            let tail = self.words.load(start + ring::TAIL);
            let head = self.words.load(start + ring::HEAD);
            if behind(RING, head, RECORD).wrapping_sub(free) <= RING {
                return Some(());
            }
            if free == tail {
                self.drop_oldest(free)?;
            } else if self.free_oldest(free, tail, newest) {
                return Some(());
            }
        }
    }

    /// As `Code::drop_oldest`.
    fn drop_oldest(&self, tail: u64) -> Option<()> {
        let start = self.layout.ring(0);
        let state = self.state(tail);
        if state == self.whole(tail) {
            let end = self.end_of_record(tail);
            let dropped = self.words.load(start + ring::DROPPED);
            let new = (end, dropped + 1);
            if self
                .words
                .exchange_pair(start + ring::TAIL, (tail, dropped), new)
            {
                self.add(self.layout.dropped(0)?);
                self.advance(ring::FREE, tail, end, None);
            }
            return Some(());
        }
        if state == !self.whole(tail) {
            let end = self.end_of_record(tail);
            self.add(ring::LOST);
            self.advance(ring::TAIL, tail, end, Some(ring::LOST));
            return Some(());
        }
        let mut limit = self.words.load(start + ring::HEAD);
        for at in self.entries() {
            let entry = self.entry(at);
            if entry.1 == 0 {
                break;
            }
            let began = entry.0.wrapping_sub(Self::span(entry.1));
            if began == tail {
                self.add(ring::LOST);
                self.advance(ring::TAIL, tail, entry.0, Some(ring::LOST));
                return Some(());
            }
            if began > tail {
                limit = limit.min(began);
            }
        }
        let next = self.next_record(tail, limit);
        if next == tail {
            return self.lose();
        }
        self.advance(ring::TAIL, tail, next, None);
        Some(())
    }

    fn next_record(&self, mut position: u64, limit: u64) -> u64 {
        loop {
            position += RECORD / 2;
            if position >= limit {
                return limit;
            }
            if self.is_record(position) {
                return position;
            }
        }
    }

    /// As `Code::free_oldest`: whether to claim again.
    fn free_oldest(&self, free: u64, tail: u64, newest: (u64, u64)) -> bool {
        let state = self.state(free);
        if state == self.whole(free) {
            self.advance(ring::FREE, free, self.end_of_record(free), None);
            return false;
        }
        if state == !self.whole(free) {
            let end = self.end_of_record(free);
            let owner = self.words.load(self.at(free) + record::OWNER);
            let entry = (end, (owner >> 16 << 16) | ((end - free) / 8));
            if self.owner_is_gone(entry) {
                self.advance(ring::FREE, free, end, None);
                return false;
            }
            self.note_unfinished(entry);
            return self.step_over(free, end, newest);
        }
        let mut next = self.next_record(free, tail);
        let mask = self.layout.ring_mask();
        for at in self.entries() {
            let entry = self.entry(at);
            if entry.1 == 0 {
                break;
            }
            let span = Self::span(entry.1);
            let began = entry.0.wrapping_sub(span);
            let inside = free.wrapping_sub(began) & mask;
            if inside < span {
                let end = (free + span - inside).min(next);
                if !self.owner_is_gone(entry) {
                    return self.step_over(free, end, newest);
                }
                continue;
            }
            let began = free + (began.wrapping_sub(free) & mask);
            if began < next && !self.owner_is_gone(entry) {
                next = began;
            }
        }
        self.advance(ring::FREE, free, next, None);
        false
    }

    fn step_over(&self, free: u64, end: u64, newest: (u64, u64)) -> bool {
        let head = self.layout.ring(0) + ring::HEAD;
        if newest.0 >= end + RING || self.words.exchange_pair(head, newest, (end + RING, 0)) {
            self.advance(ring::FREE, free, end, None);
        }
        true
    }

    /// As `Code::note_unfinished`.
    fn note_unfinished(&self, new: (u64, u64)) {
        for at in self.entries() {
            loop {
                let entry = self.entry(at);
                if entry == new {
                    return;
                }
                if entry.1 != 0 && !self.owner_is_gone(entry) {
                    break;
                }
                if self.words.exchange_pair(at, entry, new) {
                    return;
                }
            }
        }
        panic!("more unfinished records than there are threads");
    }

    fn count(&self, field: u64) -> u64 {
        self.words.load(self.layout.ring(0) + field)
    }
}

/// What has become of the first record before the others begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Whole,
    /// Its thread has lost the cpu: where it had begun, or only claimed it.
    Begun,
    Claimed,
    /// The same, and its thread goes on meanwhile.
    BegunAndGoesOn,
    ClaimedAndGoesOn,
    /// Its thread has left it for the next hit.
    Left,
    LeftBeforeItBegan,
}

/// Runs writers of so many frames, and a reader if it `reads` meanwhile, in all orders. `before` so many frames are in the ring already.
fn model(when_full: WhenFull, before: u64, shrinks: bool, frames: [u64; 2], reads: bool) {
    run(when_full, First::Whole, before, shrinks, frames, reads);
}

fn run(
    when_full: WhenFull,
    first: First,
    before: u64,
    shrinks: bool,
    frames: [u64; 2],
    reads: bool,
) {
    let mut builder = loom::model::Builder::new();
    // Two writers, or a writer and a reader, that make room do many times as much.
    let many = when_full == WhenFull::Overwrite && (reads || frames[1] > 0);
    builder.preemption_bound = Some(if many { 1 } else { 2 });
    builder.max_branches = 20_000;
    let runs = StdArc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let world = World::new(when_full);
        let mut unfinished = None;
        for name in 0..before {
            if name == 0 && first != First::Whole {
                // On the stack of the last thread, which has no frames of its own where it goes on.
                let thread = THREADS - 1;
                let begun = world.reserve(thread, name).unwrap();
                if matches!(first, First::Begun | First::BegunAndGoesOn | First::Left) {
                    world.begin(begun, false);
                }
                if matches!(first, First::Left | First::LeftBeforeItBegan) {
                    world.tokens[thread].store(0, Ordering::Release);
                }
                unfinished = Some(begun);
            } else {
                assert!(world.write(0, name, false));
            }
        }
        let mut reader = RingReader::with_patience(&world.words, &world.layout, NEVER, NEVER);
        let mut writers: Vec<_> = [(0, 100), (1, 200)]
            .into_iter()
            .zip(frames)
            .filter(|(_, count)| *count > 0)
            .map(|((thread, name), count)| {
                let world = world.clone();
                loom::thread::spawn(move || {
                    (name..name + count)
                        .map(|name| u64::from(world.write(thread, name, shrinks)))
                        .sum::<u64>()
                })
            })
            .collect();
        if let (First::BegunAndGoesOn | First::ClaimedAndGoesOn, Some(begun)) = (first, unfinished)
        {
            let world = world.clone();
            writers.push(loom::thread::spawn(move || {
                if first == First::ClaimedAndGoesOn {
                    world.begin(begun, false);
                }
                world.finish(begun, false);
                0
            }));
        }
        let mut seen = vec![];
        let mut torn = 0;
        let mut read = |reader: &mut RingReader, writers: Writers| {
            let now = world.clock.load(Ordering::Acquire) + EARLY;
            let drained = reader.drain_at(&world.words, now, writers, &mut |frame| {
                let (words, _) = frame.bytes.as_chunks::<8>();
                let names: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
                assert_eq!(names.len(), 2);
                assert_eq!(names[0] >> 48, names[1], "a frame of two");
                seen.push((frame.time, names[1]));
            });
            torn += drained.torn;
        };
        if reads {
            read(&mut reader, Writers::Running);
        }
        let written: u64 = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum();
        read(&mut reader, Writers::Gone);

        if first == First::Whole {
            assert_eq!(torn, 0);
        }
        let dropped = world.layout.dropped(0);
        let lost = world.count(ring::LOST);
        if dropped.is_some() {
            // Nobody loses a frame of its own for one that is not finished.
            assert_eq!(written, frames[0] + frames[1]);
            assert!(lost + torn <= 1, "{lost} lost, {torn} torn, {seen:?}");
        } else {
            assert_eq!(written + lost, frames[0] + frames[1]);
        }
        let stepped_over = if dropped.is_some() { lost } else { 0 };
        let dropped = dropped.map_or(0, |field| {
            assert_eq!(world.count(field), world.count(ring::DROPPED));
            world.count(field)
        });
        assert_eq!(
            seen.len() as u64 + dropped + stepped_over + torn,
            before + written,
            "{seen:?}, {dropped} dropped, {lost} lost, {torn} torn"
        );
        // The newest are there.
        if when_full == WhenFull::Overwrite && !reads && first != First::Whole {
            assert!(seen.len() >= 2, "{seen:?}");
        }
        if first == First::Whole {
            assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
        }
        // Frames of one thread come in their order.
        for names in [1..before, 100..102, 200..202] {
            let order: Vec<_> = seen
                .iter()
                .map(|(_, name)| *name)
                .filter(|name| names.contains(name))
                .collect();
            assert!(order.is_sorted_by(|one, next| one < next), "{seen:?}");
        }
    });
    println!("{} orders", runs.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn frames_that_fit_are_all_read() {
    model(WhenFull::Wait, 0, false, [1, 1], true);
}

#[test]
fn frames_that_do_not_fit_are_lost_and_counted() {
    model(WhenFull::Wait, 3, false, [2, 1], true);
}

#[test]
fn what_a_frame_gives_back_is_used_again() {
    model(WhenFull::Wait, 0, true, [1, 1], true);
}

#[test]
fn the_oldest_make_room_and_are_counted() {
    model(WhenFull::Overwrite, 4, false, [1, 0], true);
}

#[test]
fn two_that_need_room_do_not_take_it_twice() {
    model(WhenFull::Overwrite, 4, false, [1, 1], false);
}

/// The writers find the ring full, at the unfinished record, or at the gap where it was once around later.
const FULL: [u64; 2] = [4, 7];

#[test]
fn writers_step_over_what_is_not_finished() {
    for first in [First::Begun, First::Claimed] {
        run(WhenFull::Overwrite, first, 4, false, [12, 0], false);
    }
    run(WhenFull::Overwrite, First::Begun, 4, false, [1, 1], false);
}

#[test]
fn a_reader_and_a_writer_pass_what_is_not_finished() {
    for first in [First::Begun, First::Claimed] {
        run(WhenFull::Overwrite, first, 4, false, [1, 0], true);
    }
}

#[test]
fn an_owner_that_comes_back_late_writes_over_nothing() {
    for first in [First::BegunAndGoesOn, First::ClaimedAndGoesOn] {
        for before in FULL {
            run(WhenFull::Overwrite, first, before, false, [1, 0], false);
        }
    }
}

#[test]
fn room_of_a_record_that_was_left_is_used_again() {
    for first in [First::Left, First::LeftBeforeItBegan] {
        run(WhenFull::Overwrite, first, 4, false, [12, 0], false);
        run(WhenFull::Overwrite, first, 4, false, [1, 1], false);
    }
}

#[test]
fn what_a_frame_gives_back_where_frames_are_overwritten_is_used_again() {
    run(WhenFull::Overwrite, First::Whole, 3, true, [1, 1], false);
    run(WhenFull::Overwrite, First::Begun, 4, true, [2, 0], false);
    run(WhenFull::Overwrite, First::Whole, 2, true, [1, 0], true);
}

/// A memory in which a writer makes a frame whenever the reader takes one.
struct Busy {
    world: Arc<World>,
    taken: std::cell::Cell<u64>,
}

impl RingMemory for Busy {
    fn load(&self, at: u64) -> u64 {
        self.world.words.load(at)
    }
    fn store(&self, at: u64, value: u64) {
        self.world.words.store(at, value);
    }
    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool {
        let exchanged = self.world.words.exchange(at, expected, new);
        if exchanged && at == self.world.layout.ring(0) + ring::TAIL {
            self.taken.set(self.taken.get() + 1);
            assert!(self.taken.get() < 100, "the reader follows the writer");
            assert!(self.world.write(0, 100, false));
        }
        exchanged
    }
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        self.world.words.copy(at, length, into);
    }
    fn note(&self, at: u64, value: u64) {
        self.world.words.note(at, value);
    }
    fn put(&self, at: u64, bytes: &[u8]) {
        self.world.words.put(at, bytes);
    }
    fn release(&self, at: u64, length: u64) {
        self.world.words.release(at, length);
    }
    fn pair(&self, at: u64) -> (u64, u64) {
        self.world.words.pair(at)
    }
}

#[test]
fn a_reader_ends_though_a_writer_is_as_fast() {
    loom::model(|| {
        let world = World::new(WhenFull::Overwrite);
        for name in 0..3 {
            assert!(world.write(0, name, false));
        }
        let busy = Busy {
            world: world.clone(),
            taken: std::cell::Cell::new(0),
        };
        let mut reader = RingReader::with_patience(&busy, &world.layout, NEVER, NEVER);
        let now = world.clock.load(Ordering::Acquire) + EARLY;
        let drained = reader.drain_at(&busy, now, Writers::Running, &mut |_| {});
        assert_eq!(drained.frames, 3);
        assert_eq!(busy.taken.get(), 3);
        // What was made meanwhile comes the next time.
        let now = world.clock.load(Ordering::Acquire) + EARLY;
        let drained = reader.drain_at(&busy, now, Writers::Running, &mut |_| {});
        assert_eq!(drained.frames, 3);
    });
}

/// A pad reads the clock, moves the head, and looks at the counter of the reader; the reader stores that and looks at the head.
/// Where the reader misses the record, so that it gives out all that was made until then, the pad reads the clock again.
#[test]
fn a_record_that_the_reader_misses_has_no_earlier_time() {
    loom::model(|| {
        let clock = Arc::new(AtomicU64::new(1));
        let (head, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let pad = {
            let (clock, head, seen) = (clock.clone(), head.clone(), seen.clone());
            loom::thread::spawn(move || {
                let before = clock.fetch_add(1, Ordering::Relaxed);
                head.fetch_add(1, Ordering::AcqRel);
                // An instruction with a lock is a fence.
                loom::sync::atomic::fence(Ordering::SeqCst);
                if before < seen.load(Ordering::Relaxed) {
                    clock.fetch_add(1, Ordering::Relaxed)
                } else {
                    before
                }
            })
        };
        // As `Shared::keep_time`.
        let now = clock.fetch_add(1, Ordering::Relaxed);
        seen.store(now, Ordering::Release);
        loom::sync::atomic::fence(Ordering::SeqCst);
        let is_missed = head.load(Ordering::Acquire) == 0;
        let time = pad.join().unwrap();
        assert!(!is_missed || time > now, "{time}, looked at {now}");
    });
}
