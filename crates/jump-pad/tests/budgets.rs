//! Pads of a run with a budget: kept and skipped hits are all that there were, and their cost is charged.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/tracepoints.rs"]
mod tracepoints;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use machine::{Code, Machine, Memory, Setting, WHEN_FULL, callable, hit_a_hundred_times, small};
use tracepoints::{code, pointed_to, tracepoint};
use tracewire_experiment::{HitCost, Pace};
use tracewire_jump_pad::{PadRate, PadStop, WhenFull, counter};

/// Costs are paid for at once.
const RICH: u64 = 0;
/// The cost of one frame is paid for in hours.
const POOR: u64 = 1 << 50;

fn setting(when_full: WhenFull, cpus: u32, factor: u64) -> Setting {
    let mut setting = Setting::new(small(cpus, when_full));
    setting.stamp = true;
    setting.has_budget = true;
    setting.shared.set_budget(factor, Duration::from_millis(50));
    setting
}

#[test]
fn a_pad_keeps_what_it_may_and_leaves_the_program_as_it_was() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    for when_full in WHEN_FULL {
        // All cpus share a ring, so that the test's cpu does not matter.
        for (factor, kept) in [(RICH, 100), (POOR, 1)] {
            let setting = setting(when_full, 1, factor);
            let pad = setting
                .compile(&[tracepoint(1, vec![pointed_to(3, 16)])])
                .unwrap();
            machine.load(pad);
            hit_a_hundred_times(&mut machine, &data);
            let skipped = setting.shared.skipped(0);
            assert_eq!((setting.frames(), skipped), (kept, 100 - kept));
            assert_eq!(setting.shared.skipped(1), 0);
            assert_eq!(setting.shared.spent(1), Duration::ZERO);
            assert_eq!(setting.shared.losses(), Default::default());
        }
    }
}

/// The cost of hits is recorded for each tracepoint, also with a false condition, and delays the next frames.
#[test]
fn all_hits_are_charged() {
    let mut machine = Machine::new();
    for (condition, factor) in [
        (Some("const8 0\nend"), POOR),
        (Some("const8 1\nend"), POOR),
        (None, POOR),
        (None, RICH),
    ] {
        let setting = setting(WhenFull::Wait, 1, factor);
        let mut definition = tracepoint(1, vec![]);
        definition.condition = condition.map(code);
        let pad = setting.compile(&[definition]).unwrap();
        let most = pad.costs[0];
        machine.load(pad);
        for _ in 0..10 {
            machine.state().general[7] = machine.stack.end() - 1024;
            machine.run();
        }
        let spent = setting.shared.spent(0);
        let behind = setting.shared.behind(counter());
        assert!(!spent.is_zero(), "{condition:?}");
        let HitCost {
            hit,
            skipped,
            unmet,
        } = most;
        let skipped = skipped.expect("with a budget, hits may be skipped");
        assert!(hit > skipped && !skipped.is_zero());
        assert_eq!(unmet.is_some(), condition.is_some());
        let unmet = unmet.unwrap_or_default();
        assert!(skipped > unmet);
        // A tick more or less is the counter's.
        let most = 10 * hit.max(skipped).max(unmet) + Duration::from_micros(1);
        assert!(spent <= most, "{spent:?}, {most:?}");
        assert_eq!(behind.is_zero(), factor == RICH);
    }
}

/// The tracer's work is charged to all cpus, and delays frames.
#[test]
fn the_cost_of_stops_is_charged_too() {
    let mut machine = Machine::new();
    let setting = setting(WhenFull::Wait, 4, POOR);
    machine.load(setting.compile(&[tracepoint(1, vec![])]).unwrap());
    setting.shared.charge(Duration::from_micros(100));
    for _ in 0..10 {
        machine.state().general[7] = machine.stack.end() - 1024;
        machine.run();
    }
    assert_eq!((setting.frames(), setting.shared.skipped(0)), (0, 10));
}

/// A hit that the budget skips does not count for a rate. It counts for the pass count.
#[test]
fn a_budget_comes_before_a_rate() {
    let mut machine = Machine::new();
    let mut setting = setting(WhenFull::Wait, 1, POOR);
    let pace = Pace {
        interval: 1 << 60,
        slack: 4 << 60,
    };
    setting.rate = Some(PadRate { pace, block: 1 });
    let mut definition = tracepoint(1, vec![]);
    definition.pass_count = 30;
    machine.load(setting.compile(&[definition]).unwrap());
    for _ in 0..50 {
        machine.state().general[7] = machine.stack.end() - 1024;
        machine.run();
    }
    assert_eq!(setting.shared.stopped(), Some(PadStop::PassCount(0)));
    assert_eq!((setting.frames(), setting.shared.skipped(0)), (1, 29));
    for _ in 0..4 {
        assert_eq!(setting.shared.admit(1, pace, counter()), Some(true));
    }
    assert_eq!(setting.shared.admit(1, pace, counter()), Some(false));
}

/// Threads on all cpus: every hit is kept or counted as skipped, however small the budget is.
#[test]
fn all_hits_of_all_threads_are_kept_or_skipped() {
    const THREADS: u64 = 8;
    const HITS: u64 = 50_000;
    for (when_full, factor) in [
        (WhenFull::Wait, 100 << 8),
        (WhenFull::Overwrite, 100 << 8),
        (WhenFull::Overwrite, RICH),
        (WhenFull::Overwrite, POOR),
    ] {
        let setting = setting(when_full, 4, factor);
        let code = Code::new(1 << 16);
        let pad = setting.compile(&[tracepoint(1, vec![])]).unwrap();
        let hit = callable(&code, 0, &pad);
        let made = AtomicU64::new(0);
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
        let made = made.into_inner();
        let losses = setting.shared.losses();
        let kept = setting.frames() + losses.lost + losses.dropped;
        let skipped = setting.shared.skipped(0);
        assert_eq!((kept + skipped, made), (made, THREADS * HITS));
        match factor {
            RICH => assert_eq!(skipped, 0),
            POOR => assert!(kept <= 64, "{kept}"),
            _ => {}
        }
    }
}
