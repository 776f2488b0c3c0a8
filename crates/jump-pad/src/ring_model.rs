//! The rings, with every order of events that two writers and a reader can come into.
//!
//! The reader is the real one. The writers do what the generated code does, access by access.

use std::collections::BTreeMap;
use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{SharedLayout, SharedSizes, WhenFull, behind, record, ring};
use crate::ring::{EARLY, RingMemory, RingReader, Writers};

/// Ring bytes and the size of a record: four fill the ring.
const RING: u64 = 4096;
const RECORD: u64 = 1024;
const FRAME: u64 = 16;
const NEVER: u64 = u64::MAX;

/// Those words of the shared memory that are used.
struct Words(BTreeMap<u64, AtomicU64>);

impl Words {
    fn new(layout: &SharedLayout) -> Self {
        let start = layout.ring(0);
        let fields = [ring::HEAD, ring::LOST, ring::TAIL, ring::KEPT];
        let dropped = layout.dropped(0);
        let mut words: Vec<_> = fields
            .into_iter()
            .chain(dropped)
            .map(|field| start + field)
            .collect();
        for place in (0..RING).step_by(RECORD as usize / 2) {
            let at = start + ring::DATA + place;
            words.extend((0..record::FRAME + FRAME).step_by(8).map(|word| at + word));
        }
        Self(
            words
                .into_iter()
                .map(|at| (at, AtomicU64::new(0)))
                .collect(),
        )
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.0.get(&at).expect("a word that nobody should touch")
    }
}

impl RingMemory for Words {
    fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
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
            into.extend(self.word(word).load(Ordering::Acquire).to_le_bytes());
        }
    }
    // Nobody here looks at these.
    fn note(&self, _: u64, _: u64) {}
    fn put(&self, _: u64, _: &[u8]) {}
}

struct World {
    layout: SharedLayout,
    words: Words,
    clock: AtomicU64,
}

impl World {
    fn new(when_full: WhenFull) -> Arc<Self> {
        let sizes = SharedSizes {
            cpus: 1,
            ring_bytes: RING,
            frame_limit: (RECORD - record::FRAME) as u32,
            tracepoints: 1,
            variables: 0,
            hold_bytes: 0,
            when_full,
        };
        let layout = SharedLayout::new(sizes, 0x5a17_0000_0000_0000).unwrap();
        Arc::new(Self {
            words: Words::new(&layout),
            layout,
            clock: AtomicU64::new(1),
        })
    }

    /// As the code of `Code::reserve` to `Code::commit`, without any patience. Whether there was room.
    fn write(&self, name: u64, shrinks: bool) -> bool {
        let words = &self.words;
        let start = self.layout.ring(0);
        let position = loop {
            let head = words.word(start + ring::HEAD).load(Ordering::Acquire);
            let behind = behind(RING, head, RECORD);
            let tail = words.word(start + ring::TAIL).load(Ordering::Acquire);
            if behind.wrapping_sub(tail) > RING {
                if self.layout.sizes.when_full == WhenFull::Overwrite {
                    match self.drop_oldest() {
                        Some(()) => continue,
                        None => return self.lose(),
                    }
                }
                return self.lose();
            }
            if words.exchange(start + ring::HEAD, head, behind) {
                break head;
            }
        };
        let at = start + ring::DATA + (position & self.layout.ring_mask());
        let reserved = RECORD | u64::from(shrinks);
        words
            .word(at + record::RESERVED)
            .store(reserved, Ordering::Relaxed);
        let whole = position ^ self.layout.salt;
        words.store(at + record::STATE, !whole);
        let time = self.clock.fetch_add(1, Ordering::AcqRel);
        words.word(at + record::TIME).store(time, Ordering::Relaxed);
        words
            .word(at + record::TRACEPOINT)
            .store(0, Ordering::Relaxed);
        // Tracepoint 1, ten bytes, which are the name cut short and the name.
        for (word, value) in [(0, 1 | 10 << 16 | name << 48), (8, name)] {
            words
                .word(at + record::FRAME + word)
                .store(value, Ordering::Relaxed);
        }
        let mut kept = RECORD;
        if shrinks {
            let reserved = behind(RING, position, RECORD);
            let less = behind(RING, position, RECORD / 2);
            if words.exchange(start + ring::HEAD, reserved, less) {
                kept = RECORD / 2;
            }
        }
        words
            .word(at + record::RESERVED)
            .store(kept | FRAME << 32, Ordering::Relaxed);
        words.store(at + record::STATE, whole);
        true
    }

    fn lose(&self) -> bool {
        let at = self.layout.ring(0) + ring::LOST;
        self.words.word(at).fetch_add(1, Ordering::AcqRel);
        false
    }

    /// As `Code::drop_oldest`; none if the oldest record is not whole.
    fn drop_oldest(&self) -> Option<()> {
        let start = self.layout.ring(0);
        let tail = self.words.load(start + ring::TAIL);
        let at = start + ring::DATA + (tail & self.layout.ring_mask());
        if self.words.load(at + record::STATE) != tail ^ self.layout.salt {
            return None;
        }
        let reserved = self.words.load(at + record::RESERVED) & u64::from(u32::MAX);
        if !(record::FRAME..=RECORD).contains(&reserved) {
            return None;
        }
        let behind = behind(RING, tail, reserved);
        if self.words.exchange(start + ring::TAIL, tail, behind) {
            let dropped = self.layout.dropped(0)?;
            let dropped = self.words.word(start + dropped);
            dropped.fetch_add(1, Ordering::AcqRel);
        }
        Some(())
    }

    fn count(&self, field: u64) -> u64 {
        self.words.load(self.layout.ring(0) + field)
    }
}

/// Runs writers of so many frames, and a reader if it `reads` meanwhile, in all orders. `before` so many frames are in the ring already.
fn model(when_full: WhenFull, before: u64, shrinks: bool, frames: [u64; 2], reads: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    let runs = StdArc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let world = World::new(when_full);
        for name in 0..before {
            assert!(world.write(name, false));
        }
        let mut reader = RingReader::with_patience(&world.words, &world.layout, NEVER, NEVER);
        let writers: Vec<_> = [100, 200]
            .into_iter()
            .zip(frames)
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| {
                let world = world.clone();
                loom::thread::spawn(move || {
                    (name..name + count)
                        .map(|name| u64::from(world.write(name, shrinks)))
                        .sum::<u64>()
                })
            })
            .collect();
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

        assert_eq!(torn, 0);
        assert_eq!(written + world.count(ring::LOST), frames[0] + frames[1]);
        assert_eq!(
            seen.len() as u64
                + world
                    .layout
                    .dropped(0)
                    .map_or(0, |field| world.count(field)),
            before + written,
            "{seen:?}"
        );
        assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
        // Frames of one thread come in their order.
        for names in [0..before, 100..102] {
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
    model(WhenFull::Overwrite, 4, false, [2, 1], false);
}
