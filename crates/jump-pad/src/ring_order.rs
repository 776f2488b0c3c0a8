//! Frames of pads and of stopped threads come out in the order of the clock, at any time of reading. That holds also where a pad
//! has read the clock long before its record is visible: it reads the clock again if the reader has looked at the rings since.

use proptest::prelude::*;

use crate::layout::{WhenFull, record};
use crate::ring::{EARLY, TimedFrame};
use crate::ring_kill::{CPUS, World, frame};
use tracewire_experiment::Writers;

/// Something that happens, in this order.
#[derive(Clone, Debug)]
enum Step {
    /// A pad reserves a record. It has read the clock this many ticks before, and the head of the ring before that.
    Begin { cpu: u32, ahead: u64 },
    /// One of the current pads looks at the reader's clock, and finishes its record.
    Commit(prop::sample::Index),
    /// A thread stops beside others that run, and collects.
    Stop,
    /// The reader reads, beside threads that run or while all are stopped.
    Drain { stopped: bool },
    /// Time passes.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..CPUS, 0..4 * EARLY).prop_map(|(cpu, ahead)| Step::Begin { cpu, ahead }),
        4 => any::<prop::sample::Index>().prop_map(Step::Commit),
        2 => Just(Step::Stop),
        3 => any::<bool>().prop_map(|stopped| Step::Drain { stopped }),
        3 => (0..2 * EARLY).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn frames_come_in_the_order_of_the_clock(steps in prop::collection::vec(step(), 1..60)) {
        let world = World::new(WhenFull::Wait, u64::MAX);
        let mut reader = world.reader();
        let mut clock = 2 * EARLY;
        // When the newest record of each processor was reserved.
        let mut reserved = [0; CPUS as usize];
        // The counter that pads see, from before the last look at the rings.
        let mut seen = 0;
        let mut inside: Vec<(u32, u64, u64)> = Vec::new();
        let (mut made, mut given) = (Vec::new(), Vec::new());
        for step in steps {
            let mut take = |frame: TimedFrame<'_>| given.push(frame.time);
            clock += 1;
            match step {
                Step::Begin { cpu, ahead } => {
                    let bytes = frame(0, 1).len() as u64;
                    let newest = &mut reserved[cpu as usize];
                    if let Some(position) = world.reserve(cpu, record::FRAME + bytes) {
                        inside.push((cpu, position, clock.saturating_sub(ahead).max(*newest)));
                        *newest = clock;
                    }
                }
                Step::Commit(which) if !inside.is_empty() => {
                    let (cpu, position, before) = inside.swap_remove(which.index(inside.len()));
                    let time = if before < seen { clock } else { before };
                    world.commit(cpu, position, time, &frame(0, 1));
                    made.push(time);
                }
                Step::Stop => {
                    seen = clock;
                    reader.drain_at(&world, clock, Writers::Running, &mut take);
                    let stopped = TimedFrame {
                        tracepoint: 0,
                        time: clock,
                        step: false,
                        stamp: None,
                        bytes: &frame(0, 1),
                    };
                    reader.insert_into(&world, stopped);
                    reader.release_from(&world, &mut take);
                    made.push(clock);
                }
                Step::Drain { stopped } => {
                    seen = clock;
                    let writers = if stopped { Writers::Stopped } else { Writers::Running };
                    reader.drain_at(&world, clock, writers, &mut take);
                }
                Step::Pass(ticks) => clock += ticks,
                Step::Commit(_) => {}
            }
        }
        reader.drain_at(&world, clock, Writers::Gone, &mut |frame| given.push(frame.time));
        made.sort_unstable();
        prop_assert_eq!(given, made);
    }
}
