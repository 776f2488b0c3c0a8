//! A run in one experiment, taken over by another one that keeps its frames.

use tracewire_experiment::handover::{AdoptError, Adopted};
use tracewire_experiment::{CircularStore, Experiment, FrameStore, LinearStore};
use tracewire_model::{Address, ByteOrder, StopReason, TracepointDefinition};

use crate::runs::{by_thread, mapped};
use crate::support::{CODE, experiment, memory, options, tracepoint};

fn definition() -> TracepointDefinition {
    TracepointDefinition {
        pass_count: 4,
        ..tracepoint(1, CODE, vec![memory(0x1000, 4)])
    }
}

#[test]
fn what_is_taken_over_is_what_was_made() {
    let (mut target, mut nowhere) = (mapped(), mapped());
    let [mut maker, mut keeper] = [experiment(options()), experiment(options())];
    for one in [&mut maker, &mut keeper] {
        one.define(definition()).unwrap();
        one.define(tracepoint(2, Address(CODE.0 + 8), vec![memory(0x9000, 4)]))
            .unwrap();
    }
    maker.start(&mut target, 1).unwrap();
    keeper.start(&mut nowhere, 1).unwrap();
    let mut known = 0;
    for hits in [1, 0, 2] {
        for thread in 0..hits {
            target.run(&by_thread(thread + 1, CODE), &mut maker);
            target.run(&by_thread(thread + 1, Address(CODE.0 + 8)), &mut maker);
        }
        let bytes = maker.buffer().bytes().get(known..).unwrap();
        let adopted = keeper.adopt(&maker.progress(), bytes);
        assert!(matches!(adopted, Ok(Adopted::Continued)), "{adopted:?}");
        known = maker.buffer().bytes().len();
        assert_eq!(keeper.buffer().bytes(), maker.buffer().bytes());
        assert_eq!(keeper.progress(), maker.progress());
        assert!(keeper.is_running());
    }
    // The last hit of the pass count ends both.
    target.run(&by_thread(1, CODE), &mut maker);
    let bytes = maker.buffer().bytes().get(known..).unwrap();
    keeper.adopt(&maker.progress(), bytes).unwrap();
    assert!(!keeper.is_running());
    assert_eq!(keeper.status(), maker.status());
    assert_eq!(keeper.status().stop_reason, Some(StopReason::PassCount));
    let missing: Vec<_> = keeper.tracepoints().map(|one| one.missing()).collect();
    assert_eq!(missing.last().map(|missing| missing.count), Some(3));
    let again = keeper.adopt(&maker.progress(), &[]);
    assert!(matches!(again, Err(AdoptError::NotRunning)), "{again:?}");
}

#[test]
fn a_gap_in_a_circular_buffer_begins_it_anew() {
    let circular = || {
        let store = CircularStore::new(60, ByteOrder::Little).unwrap();
        let mut experiment = Experiment::new(options(), store);
        experiment
            .define(tracepoint(1, CODE, vec![memory(0x1000, 4)]))
            .unwrap();
        experiment
    };
    let (mut target, mut nowhere) = (mapped(), mapped());
    let [mut maker, mut keeper] = [circular(), circular()];
    maker.start(&mut target, 1).unwrap();
    keeper.start(&mut nowhere, 1).unwrap();
    let mut turn = |hits: u32| {
        for _ in 0..hits {
            target.run(&by_thread(1, CODE), &mut maker);
        }
        let (first, second) = maker.buffer().bytes();
        (maker.progress(), [first, second].concat())
    };
    let (progress, bytes) = turn(1);
    keeper.adopt(&progress, &bytes).unwrap();
    let (progress, bytes) = turn(50);
    let adopted = keeper.adopt(&progress, &bytes).unwrap();
    assert_eq!(adopted, Adopted::Restarted);
    let (first, second) = keeper.buffer().bytes();
    assert_eq!([first, second].concat(), bytes);
    assert_eq!(keeper.status().frames_created, Some(51));
    assert!(keeper.buffer().frames() < 50);
}

#[test]
fn bytes_that_are_not_the_frames_are_refused() {
    let mut target = mapped();
    let mut maker: Experiment<LinearStore> = experiment(options());
    maker.define(definition()).unwrap();
    maker.start(&mut target, 1).unwrap();
    target.run(&by_thread(1, CODE), &mut maker);
    let (progress, bytes) = (maker.progress(), maker.buffer().bytes().to_vec());
    let twice = bytes.repeat(2);
    let (cut, longer) = (&bytes[..bytes.len() - 1], [&bytes[..], &[0]].concat());
    for wrong in [cut, &longer, &twice] {
        let mut keeper = experiment(options());
        keeper.define(definition()).unwrap();
        keeper.start(&mut mapped(), 1).unwrap();
        let refused = keeper.adopt(&progress, wrong);
        assert!(matches!(refused, Err(AdoptError::Frames)), "{refused:?}");
        assert_eq!(keeper.buffer().frames(), 0);
    }
}
