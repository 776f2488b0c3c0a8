//! Pads of tracepoints with rates: kept and skipped hits are all that there were, and no more are kept than allowed.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/tracepoints.rs"]
mod tracepoints;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use machine::{Code, Machine, Memory, Setting, WHEN_FULL, callable, hit_a_hundred_times, small};
use tracepoints::{code, expression, pointed_to, tracepoint};
use tracewire_experiment::{FrameRate, Pace};
use tracewire_jump_pad::{PadRate, PadStop, WhenFull, counter};

/// Five frames; the next one is due long after this test.
const FIVE: Pace = Pace {
    interval: 1 << 60,
    slack: 4 << 60,
};

fn setting(when_full: WhenFull, pace: Pace) -> Setting {
    let mut setting = Setting::new(small(4, when_full));
    setting.stamp = true;
    setting.rate = Some(PadRate { pace, block: 1 });
    setting
}

#[test]
fn a_pad_keeps_what_it_may_and_leaves_the_program_as_it_was() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    for when_full in WHEN_FULL {
        let setting = setting(when_full, FIVE);
        let pad = setting
            .compile(&[tracepoint(1, vec![pointed_to(3, 16)])])
            .unwrap();
        machine.load(pad);
        hit_a_hundred_times(&mut machine, &data);
        assert_eq!((setting.frames(), setting.shared.skipped(0)), (5, 95));
        assert_eq!(setting.shared.skipped(1), 0);
        assert_eq!(setting.shared.losses(), Default::default());
    }
}

/// A skipped hit counts for the pass count, and ends the run if it is the last.
#[test]
fn skipped_hits_count_for_the_pass_count() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    let setting = setting(WhenFull::Wait, FIVE);
    let mut definition = tracepoint(1, vec![pointed_to(3, 16)]);
    definition.pass_count = 30;
    definition.condition = Some(code("reg 2\nend"));
    machine.load(setting.compile(&[definition]).unwrap());
    for hit in 0..100 {
        machine.state().general[2] = hit % 2;
        machine.state().general[3] = data.start;
        machine.state().general[7] = machine.stack.end() - 1024;
        machine.run();
    }
    assert_eq!(setting.shared.stopped(), Some(PadStop::PassCount(0)));
    assert_eq!((setting.frames(), setting.shared.skipped(0)), (5, 25));
}

/// The tracepoints at an address are skipped each for itself, and one without a rate is not.
#[test]
fn tracepoints_at_one_address_share_what_they_are_told_to_share() {
    let mut machine = Machine::new();
    let setting = setting(WhenFull::Wait, FIVE);
    let counts = |number| {
        let action = expression("getv 4\nconst8 1\nadd\nsetv 4\nend");
        tracepoint(number, vec![action])
    };
    machine.load(setting.compile(&[counts(1), counts(2)]).unwrap());
    for _ in 0..10 {
        machine.state().general[7] = machine.stack.end() - 1024;
        machine.run();
    }
    let skipped = [0, 1].map(|block| setting.shared.skipped(block));
    assert_eq!((setting.frames(), skipped), (5, [7, 8]));
    // Without a frame, the actions are not executed either.
    assert_eq!(setting.shared.variable(0), Some(5));
    // A thread that the tracer has stopped there gets the same answer.
    assert_eq!(setting.shared.admit(1, FIVE, counter()), Some(false));
    assert_eq!(setting.shared.admit(0, FIVE, counter()), Some(true));
    assert_eq!(setting.shared.admit(99, FIVE, counter()), None);
}

/// Threads on all cpus, with a rate that skips most hits: no hit is lost, and there are no more frames than allowed.
#[test]
fn all_hits_of_all_threads_are_kept_or_skipped() {
    const THREADS: u64 = 8;
    const HITS: u64 = 50_000;
    let rate = FrameRate::new(NonZeroU64::new(10_000).unwrap(), Duration::from_secs(1)).unwrap();
    for (when_full, ticks) in [
        (WhenFull::Wait, 3_000_000_000),
        (WhenFull::Overwrite, 3_000_000_000),
        // Nearly all hits are kept.
        (WhenFull::Overwrite, 1),
    ] {
        let pace = rate.pace(ticks);
        let setting = setting(when_full, pace);
        let code = Code::new(1 << 16);
        let pad = setting.compile(&[tracepoint(1, vec![])]).unwrap();
        let hit = callable(&code, 0, &pad);
        let made = AtomicU64::new(0);
        let begun = counter();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    machine::handle_faults();
                    for _ in 0..HITS {
                        hit();
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let lasted = counter() - begun;
        let made = made.into_inner();
        let losses = setting.shared.losses();
        let kept = setting.frames() + losses.lost + losses.dropped;
        assert_eq!(
            (kept + setting.shared.skipped(0), made),
            (made, THREADS * HITS)
        );
        let most = (lasted + pace.slack) / pace.interval + 1;
        assert!(kept <= most, "{kept} of at most {most}");
        if ticks == 1 {
            assert!(kept > made / 2, "{kept}");
        } else {
            assert!(kept >= rate.burst(), "{kept}");
        }
    }
}
