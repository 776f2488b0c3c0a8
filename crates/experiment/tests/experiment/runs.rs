//! Starting, stopping, stepping, and changes during a run.

use std::num::NonZeroU64;
use std::time::Duration;

use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_experiment::{
    CircularStore, Experiment, FrameRate, FrameRates, Hit, HitHandler, LinearStore, Outcome,
    StartError, StoppedThread, Target, Tracepoint, UnknownTracepoint,
};
use tracewire_model::{Address, ByteOrder, StopReason, ThreadId, TracepointNumber};

use crate::support::{
    Block, CODE, Frame, experiment, memory, moment, options, parse, program, target, tracepoint,
};

fn at(offset: u64) -> Address {
    Address(CODE.0 + offset)
}

pub fn by_thread(thread: u32, pc: Address) -> Moment {
    Moment {
        thread: ThreadId(thread),
        time: 1000 + u64::from(thread),
        ..moment(pc, &[u64::from(thread)])
    }
}

pub fn frames(experiment: &mut Experiment<LinearStore>) -> Vec<Frame> {
    parse(experiment.store().bytes())
}

fn numbers(experiment: &mut Experiment<LinearStore>) -> Vec<i16> {
    frames(experiment)
        .into_iter()
        .map(|(number, _)| number)
        .collect()
}

pub fn mapped() -> FakeTarget {
    let mut target = target();
    target.map(Address(0x1000), &[1; 64]);
    target
}

#[test]
fn a_run_goes_from_not_run_to_running_to_stopped() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    assert!(matches!(
        experiment.start(&mut target, 1),
        Err(StartError::NoTracepoints)
    ));
    assert_eq!(experiment.status().stop_reason, Some(StopReason::NotRun));
    experiment.define(tracepoint(1, CODE, vec![])).unwrap();
    experiment
        .define(tracepoint(2, CODE, vec![memory(0x1000, 4)]))
        .unwrap();
    experiment.describe(|status| status.notes = Some("first run".to_owned()));

    experiment.start(&mut target, 100).unwrap();
    assert!(matches!(
        experiment.start(&mut target, 1),
        Err(StartError::Running)
    ));
    assert_eq!(target.inserted().iter().collect::<Vec<_>>(), [&CODE]);
    target.run(&moment(CODE, &[]), &mut experiment);
    target.run(&moment(at(4), &[]), &mut experiment);
    assert_eq!(
        experiment.status().to_string(),
        "1;tframes:2;tcreated:2;tfree:fffe5;tsize:100000;circular:0;starttime:64;stoptime:0;\
         notes:66697273742072756e"
    );

    let text = Some("enough".to_owned());
    experiment
        .stop(&mut target, StopReason::Command, text, 200)
        .unwrap();
    assert!(target.inserted().is_empty());
    assert_eq!(
        experiment.status().to_string(),
        "0;tstop:656e6f756768:0;tframes:2;tcreated:2;tfree:fffe5;tsize:100000;circular:0;\
         starttime:64;stoptime:c8;notes:66697273742072756e"
    );
    assert_eq!(numbers(&mut experiment), [1, 2]);
    let usages: Vec<_> = experiment
        .tracepoints()
        .map(|tracepoint| (tracepoint.usage().hits, tracepoint.usage().bytes))
        .collect();
    assert_eq!(usages, [(1, 6), (1, 6 + 15)]);

    // A second run begins from nothing.
    experiment.start(&mut target, 300).unwrap();
    assert_eq!(experiment.status().frames, Some(0));
    assert_eq!(experiment.tracepoints().next().unwrap().usage().hits, 0);
}

#[test]
fn a_rate_has_hits_skipped_in_each_run() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    let mut stepping = tracepoint(1, CODE, vec![]);
    stepping.step_count = 1;
    stepping.condition = Some(program("reg 0\nend"));
    experiment.define(stepping).unwrap();
    experiment.define(tracepoint(1, at(4), vec![])).unwrap();
    experiment.define(tracepoint(2, at(8), vec![])).unwrap();
    let mut rates = FrameRates::default();
    let three = FrameRate::new(NonZeroU64::new(3).unwrap(), Duration::from_secs(3600)).unwrap();
    rates.limit(TracepointNumber(1), three);
    experiment.limit_rates(rates);
    for run in 0..2 {
        experiment.start(&mut target, run).unwrap();
        for value in [0, 1, 1] {
            let outcome = target.run(&moment(CODE, &[value]), &mut experiment);
            if outcome.unwrap().step {
                target.run(&moment(at(0x40), &[]), &mut experiment);
            }
        }
        for _ in 0..4 {
            let outcome = target.run(&moment(at(4), &[]), &mut experiment);
            assert!(!outcome.unwrap().step);
            target.run(&moment(at(8), &[]), &mut experiment);
        }
        // The places of a tracepoint share its rate, and a step is no hit.
        let hits = |one: &Tracepoint| (one.usage().hits, one.skipped());
        let counted: Vec<_> = experiment.tracepoints().map(hits).collect();
        assert_eq!(counted, [(2, 0), (4, 3), (4, 0)]);
        assert_eq!(experiment.status().frames, Some(2 + 2 + 1 + 4));
        let now = run + 1;
        experiment
            .stop(&mut target, StopReason::Command, None, now)
            .unwrap();
    }
}

#[test]
fn the_pass_count_ends_the_run_with_its_hit() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    let mut definition = tracepoint(5, CODE, vec![]);
    definition.pass_count = 3;
    definition.condition = Some(program("reg 0\nend"));
    experiment.define(definition).unwrap();
    experiment.define(tracepoint(6, at(8), vec![])).unwrap();
    experiment.start(&mut target, 0).unwrap();
    let mut ended = vec![];
    // A false condition is no hit; another tracepoint's hit counts for that one.
    for value in [1, 0, 1, 0, 1, 1] {
        target.run(&moment(at(8), &[]), &mut experiment);
        let outcome = target.run(&moment(CODE, &[value]), &mut experiment);
        ended.push(outcome.unwrap().run_ended);
    }
    assert_eq!(ended, [false, false, false, false, true, true]);
    let status = experiment.status();
    assert_eq!(status.stop_reason, Some(StopReason::PassCount));
    assert_eq!(status.stopping_tracepoint, Some(TracepointNumber(5)));
    assert_eq!(numbers(&mut experiment), [6, 5, 6, 6, 5, 6, 6, 5]);
    assert_eq!(target.inserted().len(), 2, "taken out when it is time");
    experiment.install(&mut target).unwrap();
    assert!(target.inserted().is_empty());
}

#[test]
fn each_step_is_a_frame_and_several_tracepoints_step_in_one_thread() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    let mut one = tracepoint(1, CODE, vec![]);
    one.step_count = 3;
    one.step_actions = vec![memory(0x1000, 1)];
    let mut two = tracepoint(2, at(4), vec![]);
    two.step_count = 1;
    two.pass_count = 2;
    experiment.define(one).unwrap();
    experiment.define(two).unwrap();
    experiment.start(&mut target, 0).unwrap();
    let mut steps = vec![];
    for (thread, pc) in [
        (1, CODE),
        (2, at(0x40)),
        (1, at(4)),
        (2, CODE),
        (1, at(8)),
        (2, at(0x44)),
        (1, at(12)),
        (1, at(16)),
        (2, at(4)),
    ] {
        let outcome = target.run(&by_thread(thread, pc), &mut experiment);
        steps.push(outcome.map(|outcome| (outcome.step, outcome.run_ended)));
    }
    let on = |step| Some((step, false));
    assert_eq!(
        steps,
        [
            on(true),
            None,
            on(true),
            on(true),
            on(true),
            on(true),
            on(false),
            None,
            on(true),
        ]
    );
    // Thread 1: hit of 1, its first step, the hit of 2 on the way, and so on.
    assert_eq!(numbers(&mut experiment), [1, 1, 2, 1, 1, 2, 1, 1, 1, 2]);
    let steps = frames(&mut experiment)
        .iter()
        .filter(|(number, blocks)| *number == 1 && *blocks == [Block::M(0x1000, vec![1])])
        .count();
    assert_eq!(steps, 5);
    // The pass count is checked when the steps of its hit are done.
    let outcome = target.run(&by_thread(2, at(0x48)), &mut experiment);
    assert!(outcome.unwrap().run_ended);
    assert_eq!(
        experiment.status().stopping_tracepoint,
        Some(TracepointNumber(2))
    );
}

/// Hits of other threads while the last ones are stepped are too many, and all of these make all their steps.
#[test]
fn the_pass_count_is_exact_with_steps_in_several_threads() {
    for killed in [false, true] {
        let mut target = mapped();
        let mut experiment = experiment(options());
        let mut definition = tracepoint(1, CODE, vec![]);
        definition.step_count = 2;
        definition.step_actions = vec![memory(0x1000, 1)];
        definition.pass_count = 2;
        experiment.define(definition).unwrap();
        experiment.start(&mut target, 0).unwrap();
        // Thread 1 makes its last step before thread 2 does; thread 3 comes too late.
        for (thread, pc) in [
            (1, CODE),
            (2, CODE),
            (3, CODE),
            (1, at(4)),
            (1, at(8)),
            (3, CODE),
            (2, at(4)),
        ] {
            let outcome = target.run(&by_thread(thread, pc), &mut experiment).unwrap();
            assert!(!outcome.run_ended);
        }
        let last = Moment {
            killed,
            ..by_thread(2, at(8))
        };
        target.run(&last, &mut experiment);
        assert!(!experiment.is_running());
        let status = experiment.status();
        assert_eq!(status.stop_reason, Some(StopReason::PassCount));
        assert_eq!(status.stopping_tracepoint, Some(TracepointNumber(1)));
        let frames = if killed { 5 } else { 6 };
        assert_eq!(status.frames, Some(frames));
        assert_eq!(experiment.tracepoints().next().unwrap().usage().hits, 2);
    }
}

#[test]
fn a_thread_that_ends_and_a_tracepoint_that_is_deleted_step_no_more() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    let mut definition = tracepoint(1, CODE, vec![]);
    definition.step_count = 9;
    experiment.define(definition).unwrap();
    experiment.start(&mut target, 0).unwrap();
    target.run(&by_thread(1, CODE), &mut experiment);
    let killed = Moment {
        killed: true,
        ..by_thread(1, at(4))
    };
    target.run(&killed, &mut experiment);
    assert_eq!(target.run(&by_thread(1, at(8)), &mut experiment), None);

    assert!(
        target
            .run(&by_thread(2, CODE), &mut experiment)
            .unwrap()
            .step
    );
    experiment.delete(TracepointNumber(1), None).unwrap();
    let outcome = target.run(&by_thread(2, at(4)), &mut experiment).unwrap();
    assert!(!outcome.step);
    experiment.install(&mut target).unwrap();
    assert!(target.inserted().is_empty());
}

#[test]
fn an_error_in_a_condition_ends_the_run_with_its_words() {
    for (condition, text) in [
        (
            "const8 1\nconst8 0\ndiv_unsigned\nend",
            "condition: divide by zero at offset 4",
        ),
        (
            "const8 0\nref32\nend",
            "condition: cannot access 4 bytes of memory at 0x0 at offset 2",
        ),
    ] {
        let mut target = mapped();
        let mut experiment = experiment(options());
        let mut definition = tracepoint(4, CODE, vec![]);
        definition.condition = Some(program(condition));
        experiment.define(definition).unwrap();
        experiment.start(&mut target, 0).unwrap();
        let outcome = target.run(&by_thread(7, CODE), &mut experiment).unwrap();
        assert!(outcome.run_ended);
        let status = experiment.status();
        assert_eq!(status.stop_reason, Some(StopReason::Error));
        assert_eq!(status.stop_text.as_deref(), Some(text));
        assert_eq!(status.stopping_tracepoint, Some(TracepointNumber(4)));
        assert_eq!(status.stop_time, Some(1007));
        assert_eq!(status.frames, Some(0));
    }
}

#[test]
fn a_full_linear_buffer_ends_the_run_without_half_a_frame() {
    let mut target = mapped();
    let room = 6 + 15;
    let mut experiment = Experiment::new(options(), LinearStore::new(2 * room + 20).unwrap());
    experiment
        .define(tracepoint(1, CODE, vec![memory(0x1000, 4)]))
        .unwrap();
    experiment.start(&mut target, 0).unwrap();
    let ended: Vec<_> = (0..4)
        .map(|_| {
            let outcome = target.run(&moment(CODE, &[]), &mut experiment);
            outcome.unwrap().run_ended
        })
        .collect();
    assert_eq!(ended, [false, false, true, true]);
    let status = experiment.status();
    assert_eq!(status.stop_reason, Some(StopReason::Full));
    assert_eq!(
        (
            status.frames,
            status.frames_created,
            status.buffer_free,
            status.buffer_size
        ),
        (Some(2), Some(2), Some(20), Some(62))
    );
    assert_eq!(numbers(&mut experiment), [1, 1]);
}

#[test]
fn a_circular_buffer_tells_how_many_were_made() {
    let mut target = mapped();
    let store = CircularStore::new(50, ByteOrder::Little).unwrap();
    let mut experiment = Experiment::new(options(), store);
    experiment
        .define(tracepoint(1, CODE, vec![memory(0x1000, 4)]))
        .unwrap();
    experiment.start(&mut target, 0).unwrap();
    for _ in 0..100 {
        target.run(&moment(CODE, &[]), &mut experiment);
    }
    let status = experiment.status();
    assert!(status.running);
    assert_eq!(
        (status.frames, status.frames_created, status.circular),
        (Some(2), Some(100), Some(true))
    );
    assert_eq!(status.buffer_free, Some(50 - 42));
}

#[test]
fn definitions_and_switches_take_effect_during_a_run() {
    let mut target = mapped();
    let mut experiment = experiment(options());
    experiment.define(tracepoint(1, CODE, vec![])).unwrap();
    experiment.define(tracepoint(1, at(4), vec![])).unwrap();
    experiment.start(&mut target, 0).unwrap();
    let all = |target: &mut FakeTarget, experiment: &mut Experiment<LinearStore>| {
        let before = numbers(experiment).len();
        for offset in [0, 4, 8] {
            target.run(&moment(at(offset), &[]), experiment);
        }
        numbers(experiment).split_off(before)
    };
    assert_eq!(all(&mut target, &mut experiment), [1, 1]);

    experiment.define(tracepoint(2, at(8), vec![])).unwrap();
    experiment.define(tracepoint(3, CODE, vec![])).unwrap();
    experiment.install(&mut target).unwrap();
    assert_eq!(all(&mut target, &mut experiment), [1, 3, 1, 2]);

    let one = TracepointNumber(1);
    experiment.set_enabled(one, Some(at(4)), false).unwrap();
    assert_eq!(all(&mut target, &mut experiment), [1, 3, 2]);
    experiment.install(&mut target).unwrap();
    assert!(!target.inserted().contains(&at(4)), "it costs nothing now");
    experiment.set_enabled(one, None, true).unwrap();
    experiment.install(&mut target).unwrap();
    assert_eq!(all(&mut target, &mut experiment), [1, 3, 1, 2]);

    // A library is unloaded: only its location is deleted.
    experiment.delete(one, Some(CODE)).unwrap();
    experiment.install(&mut target).unwrap();
    assert_eq!(all(&mut target, &mut experiment), [3, 1, 2]);

    // The same number and address again replaces it.
    let definition = tracepoint(2, at(8), vec![memory(0x1000, 1)]);
    experiment.define(definition).unwrap();
    experiment.install(&mut target).unwrap();
    assert_eq!(all(&mut target, &mut experiment), [3, 1, 2]);
    assert_eq!(frames(&mut experiment).last().unwrap().1.len(), 1);
    assert_eq!(experiment.tracepoints().count(), 3);

    assert_eq!(
        experiment.delete(TracepointNumber(9), None),
        Err(UnknownTracepoint::Number(TracepointNumber(9)))
    );
    assert_eq!(
        experiment.set_enabled(one, Some(at(8)), true),
        Err(UnknownTracepoint::Location(one, at(8)))
    );
    experiment.clear(Some(&mut target), 5).unwrap();
    assert!(target.inserted().is_empty() && !experiment.is_running());
}

#[test]
fn a_place_that_cannot_be_served_is_told_with_its_tracepoints() {
    let mut target = mapped();
    target.refuse(at(4));
    let mut experiment = experiment(options());
    for (number, address) in [(1, CODE), (2, at(4)), (3, at(4))] {
        experiment
            .define(tracepoint(number, address, vec![]))
            .unwrap();
    }
    let error = experiment.start(&mut target, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tracepoint 2, 3: no tracepoint can be put at 0x400004: the test refuses it"
    );
    assert!(target.inserted().is_empty() && !experiment.is_running());

    // During a run the others go on.
    experiment.delete(TracepointNumber(2), None).unwrap();
    experiment.delete(TracepointNumber(3), None).unwrap();
    experiment.start(&mut target, 0).unwrap();
    experiment.define(tracepoint(2, at(4), vec![])).unwrap();
    experiment.define(tracepoint(3, at(8), vec![])).unwrap();
    let errors = experiment.install(&mut target).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].address, at(4));
    assert_eq!(target.inserted().len(), 2);
    assert!(experiment.is_running());

    // The program is replaced by exec: nothing is in the new one.
    let mut fresh = mapped();
    experiment.forget_installed(|_| true);
    experiment.delete(TracepointNumber(2), None).unwrap();
    experiment.install(&mut fresh).unwrap();
    assert_eq!(fresh.inserted().len(), 2);
}

#[test]
fn hits_after_the_end_are_nothing() {
    struct Ask(Option<Outcome>);
    impl HitHandler for Ask {
        fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
            let mut experiment = experiment(options());
            experiment.define(tracepoint(1, CODE, vec![])).unwrap();
            let outcome = experiment.hit(hit, thread);
            self.0 = Some(outcome);
            outcome
        }
    }
    let mut target = mapped();
    target.insert(CODE).unwrap();
    let mut ask = Ask(None);
    target.run(&moment(CODE, &[]), &mut ask);
    let expected = Outcome {
        step: false,
        run_ended: true,
    };
    assert_eq!(ask.0, Some(expected));
}
