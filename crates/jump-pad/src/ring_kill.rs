//! A reader that is killed before any of its instructions: the file and the results of another reader have each frame once.
//!
//! The reader is the real one. All its writes go through a memory that takes no more writes after a limit, as if the process had
//! ended there; so does the file.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::layout::{NOWHERE, SharedLayout, SharedSizes, WhenFull, behind, header, record, ring};
use crate::ring::{EARLY, RingMemory, RingReader, TimedFrame};
use crate::shared::Origin;
use tracewire_experiment::Writers;

const RING: u64 = 4096;
const HOLD: u64 = 4096;
pub(crate) const CPUS: u32 = 2;
const SALT: u64 = 0x5a17_0000_0000_0000;
const PATIENCE: u64 = 1_000_000;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A pad reserves a record of a frame of this many words; it reads the clock later or at once.
    Begin { cpu: u32, words: usize },
    /// One of the current pads finishes its record.
    Commit(prop::sample::Index),
    /// One of them is abandoned.
    Leave(prop::sample::Index),
    /// A thread stops and collects.
    Stop { words: usize },
    /// The reader reads, and time has passed: much, or little.
    Drain { later: bool, faster_after: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..CPUS, 1_usize..40).prop_map(|(cpu, words)| Step::Begin { cpu, words }),
        8 => any::<prop::sample::Index>().prop_map(Step::Commit),
        1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        3 => (1_usize..150).prop_map(|words| Step::Stop { words }),
        4 => (any::<bool>(), 0_u64..8)
            .prop_map(|(later, faster_after)| Step::Drain { later, faster_after }),
    ]
}

/// The shared memory and the file.
pub(crate) struct World {
    layout: SharedLayout,
    words: RefCell<BTreeMap<u64, u64>>,
    /// What the reader would have written if it lived: it goes on to the end of its call.
    after_death: RefCell<BTreeMap<u64, u64>>,
    /// Frames by their places.
    file: RefCell<BTreeMap<u64, u64>>,
    end: Cell<u64>,
    /// How many writes of the reader count; and how many there were.
    lives_for: Cell<u64>,
    writes: Cell<u64>,
    /// How many records the reader may still let writers have before one of them is faster.
    faster_after: Cell<u64>,
}

impl World {
    pub(crate) fn new(when_full: WhenFull, lives_for: u64) -> Self {
        let sizes = SharedSizes {
            cpus: CPUS,
            ring_bytes: RING,
            frame_limit: (RING / 4 - record::FRAME - record::OWNER_BYTES) as u32,
            tracepoints: 1,
            variables: 0,
            hold_bytes: HOLD,
            count_bytes: 0,
            when_full,
        };
        Self {
            layout: SharedLayout::new(sizes, SALT).unwrap(),
            words: RefCell::default(),
            after_death: RefCell::default(),
            file: RefCell::default(),
            end: Cell::new(100),
            lives_for: Cell::new(lives_for),
            writes: Cell::new(0),
            faster_after: Cell::new(u64::MAX),
        }
    }

    pub(crate) fn reader(&self) -> RingReader {
        RingReader::with_patience(self, &self.layout, PATIENCE, u64::MAX)
    }

    fn lives(&self) -> bool {
        self.writes.get() < self.lives_for.get()
    }

    /// One instruction of the reader's; `false` if it does not live any more.
    fn acts(&self) -> bool {
        let lives = self.lives();
        self.writes.set(self.writes.get() + u64::from(lives));
        lives
    }

    /// Another reader comes. Gives how many writes this one has made.
    fn succeed(&self) -> u64 {
        self.lives_for.set(u64::MAX);
        self.faster_after.set(u64::MAX);
        self.after_death.borrow_mut().clear();
        self.writes.get()
    }

    fn set(&self, at: u64, value: u64) {
        self.words.borrow_mut().insert(at, value);
    }

    fn append(&self, name: u64) {
        self.note(header::MOVE_OFFSET, self.end.get());
        if self.acts() {
            self.file.borrow_mut().insert(self.end.get(), name);
            self.end.set(self.end.get() + 10);
        }
    }

    /// As a pad reserves a record; none if there is no room. In a ring that overwrites, whole records make room.
    pub(crate) fn reserve(&self, cpu: u32, reserved: u64) -> Option<u64> {
        let start = self.layout.ring(cpu);
        let head = self.load(start + ring::HEAD);
        let end = behind(RING, head, reserved);
        while end - self.load(start + ring::TAIL) > RING {
            if !self.layout.sizes.when_full.overwrites() || !self.drop_oldest(cpu) {
                return None;
            }
        }
        self.set(start + ring::HEAD, end);
        let at = start + ring::DATA + (head & (RING - 1));
        self.set(at + record::RESERVED, reserved);
        self.set(at + record::STATE, !(head ^ SALT));
        Some(head)
    }

    /// As a pad gives up the oldest record; `false` if it is not whole.
    fn drop_oldest(&self, cpu: u32) -> bool {
        let start = self.layout.ring(cpu);
        let tail = self.load(start + ring::TAIL);
        let at = start + ring::DATA + (tail & (RING - 1));
        let whole = self.load(at + record::STATE) == tail ^ SALT;
        if whole {
            let reserved = self.load(at + record::RESERVED) & u64::from(u32::MAX);
            self.set(start + ring::TAIL, behind(RING, tail, reserved));
            self.set(start + ring::DROPPED, self.load(start + ring::DROPPED) + 1);
        }
        whole
    }

    /// How many records pads have given up.
    fn dropped(&self) -> u64 {
        let rings = (0..CPUS).map(|cpu| self.layout.ring(cpu));
        rings.map(|start| self.load(start + ring::DROPPED)).sum()
    }

    /// As a pad makes its record whole.
    pub(crate) fn commit(&self, cpu: u32, position: u64, time: u64, frame: &[u8]) {
        let at = self.layout.ring(cpu) + ring::DATA + (position & (RING - 1));
        let (header, length) = (self.layout.header_bytes(), frame.len() as u64);
        self.set(at + record::TIME, time);
        self.set(at + record::RESERVED, (header + length) | length << 32);
        for (word, chunk) in (0..).step_by(8).zip(frame.as_chunks::<8>().0) {
            self.set(at + header + word, u64::from_le_bytes(*chunk));
        }
        self.set(at + record::STATE, position ^ SALT);
    }
}

impl RingMemory for World {
    fn load(&self, at: u64) -> u64 {
        let after_death = self.after_death.borrow().get(&at).copied();
        let word = after_death.or_else(|| self.words.borrow().get(&at).copied());
        word.unwrap_or(0)
    }
    fn store(&self, at: u64, value: u64) {
        if self.acts() {
            self.set(at, value);
        } else {
            self.after_death.borrow_mut().insert(at, value);
        }
    }
    fn exchange(&self, at: u64, expected: u64, new: u64) -> bool {
        let left = self.faster_after.get();
        self.faster_after.set(left.saturating_sub(1));
        if left == 0 && self.lives() {
            self.faster_after.set(u64::MAX);
            let mut cpus = 0..CPUS;
            let cpu = cpus.find(|cpu| self.layout.ring(*cpu) + ring::TAIL == at);
            if let Some(cpu) = cpu {
                self.drop_oldest(cpu);
            }
        }
        let same = self.load(at) == expected;
        self.store(at, if same { new } else { self.load(at) });
        same
    }
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let words = (at..).step_by(8).take(length.div_ceil(8));
        let bytes = words.flat_map(|word| self.load(word).to_le_bytes());
        into.extend(bytes.take(length));
    }
    fn note(&self, at: u64, value: u64) {
        self.store(at, value);
    }
    fn put(&self, at: u64, bytes: &[u8]) {
        for (word, chunk) in (at..).step_by(8).zip(bytes.chunks(8)) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            self.note(word, u64::from_le_bytes(value));
        }
    }
    fn release(&self, at: u64, length: u64) {
        for word in (at..at + length).step_by(8) {
            self.note(word, 0);
        }
    }
}

/// A frame of this many words with a name.
pub(crate) fn frame(name: u64, words: usize) -> Vec<u8> {
    let mut frame = vec![0; 8 + 8 * words];
    frame[0] = 1;
    frame[2..6].copy_from_slice(&((2 + 8 * words) as u32).to_le_bytes());
    frame[8..16].copy_from_slice(&name.to_le_bytes());
    frame
}

fn name(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[8..16].try_into().unwrap())
}

/// A pad that is inside.
struct Inside {
    cpu: u32,
    position: u64,
    name: u64,
    words: usize,
}

/// Executes the steps until the reader is killed, and lets another one read the rest. Returns how many writes the first one has
/// made.
fn run(steps: &[Step], when_full: WhenFull, lives_for: u64) -> u64 {
    let world = World::new(when_full, lives_for);
    let mut reader = world.reader();
    let mut clock = EARLY;
    let mut inside: Vec<Inside> = Vec::new();
    let (mut next, mut finished) = (0, Vec::new());
    let mut take = |frame: TimedFrame<'_>| world.append(name(frame.bytes));
    for step in steps {
        clock += 10;
        match *step {
            Step::Begin { cpu, words } => {
                let reserved = world.layout.header_bytes() + 8 + 8 * words as u64;
                if let Some(position) = world.reserve(cpu, reserved) {
                    next += 1;
                    inside.push(Inside {
                        cpu,
                        position,
                        name: next,
                        words,
                    });
                }
            }
            Step::Commit(which) if !inside.is_empty() => {
                let pad = inside.swap_remove(which.index(inside.len()));
                let bytes = frame(pad.name, pad.words);
                world.commit(pad.cpu, pad.position, clock, &bytes);
                finished.push(pad.name);
            }
            Step::Leave(which) if !inside.is_empty() => {
                inside.swap_remove(which.index(inside.len()));
            }
            Step::Stop { words } => {
                next += 1;
                let bytes = frame(next, words);
                let stopped = TimedFrame {
                    tracepoint: 0,
                    time: clock,
                    step: false,
                    stamp: None,
                    bytes: &bytes,
                };
                let before = world.lives();
                reader.insert_into(&world, stopped);
                reader.release_from(&world, &mut take);
                // One that was not out of the reader's own memory was not finished.
                if before && world.lives() {
                    finished.push(next);
                }
            }
            Step::Drain {
                later,
                faster_after,
            } => {
                world.faster_after.set(faster_after);
                clock += EARLY + if later { 2 * PATIENCE } else { 0 };
                reader.drain_at(&world, clock, Writers::Running, &mut take);
            }
            Step::Commit(_) | Step::Leave(_) => {}
        }
        if !world.lives() {
            break;
        }
    }
    drop(reader);
    let writes = world.succeed();
    let dropped = world.dropped();

    let mut rest = world.reader();
    let number = world.load(header::MOVING);
    let mut taken = world.load(header::MOVED).max(number);
    if number > 0 {
        let origin = Origin {
            ring: u32::try_from(world.load(header::MOVE_RING)).unwrap_or(u32::MAX),
            position: world.load(header::MOVE_POSITION),
        };
        let offset = world.load(header::MOVE_OFFSET);
        if offset != NOWHERE && world.file.borrow().contains_key(&offset) {
            rest.leave_out(origin);
        } else if rest.is_left_in(&world, origin) {
            taken -= 1;
        }
    }
    // Where the hold was full. What is counted as taken and is in no file is counted as lost.
    let in_memory = taken - world.file.borrow().len() as u64;
    let mut all: Vec<u64> = world.file.borrow().values().copied().collect();
    rest.drain_at(&world, clock, Writers::Gone, &mut |frame| {
        all.push(name(frame.bytes));
    });
    all.sort_unstable();
    let doubles = all.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(doubles, None, "twice, after {lives_for} writes");
    finished.retain(|name| !all.contains(name));
    // A writer may have taken the record of which the reader had just made a copy, and a stop's frame was not finished.
    let counted = dropped + in_memory;
    let lost = finished.len() as u64;
    assert!(
        (lost..=lost + 2).contains(&counted),
        "{when_full:?}: {finished:?} are lost, {dropped} given up and {in_memory} in memory, after {lives_for} writes"
    );
    writes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_reader_that_is_killed_loses_no_frame_and_doubles_none(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        for when_full in [
            WhenFull::Wait,
            WhenFull::Overwrite,
            WhenFull::WaitThenOverwrite,
        ] {
            let writes = run(&steps, when_full, u64::MAX);
            for lives_for in 0..writes {
                run(&steps, when_full, lives_for);
            }
        }
    }
}
