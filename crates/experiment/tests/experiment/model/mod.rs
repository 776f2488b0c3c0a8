//! The experiment against a model that does everything in sequence and keeps frames in a list.

mod naive;
mod random;

use proptest::prelude::*;
use tracewire_experiment::fake::FakeTarget;
use tracewire_experiment::{
    CircularStore, Experiment, FrameStore, LinearStore, Options, Registers, StoreError, Unreadable,
};
use tracewire_model::{Address, ByteOrder, StopReason};

use crate::support::{options, parse};
use naive::Model;
use random::{Operation, operations};

/// Either kind of buffer.
#[derive(Debug)]
enum Store {
    Linear(LinearStore),
    Circular(CircularStore),
}

impl Store {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Linear(store) => store.bytes().to_vec(),
            Self::Circular(store) => [store.bytes().0, store.bytes().1].concat(),
        }
    }
}

impl FrameStore for Store {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Linear(store) => store.append(frame),
            Self::Circular(store) => store.append(frame),
        }
    }
    fn clear(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Linear(store) => store.clear(),
            Self::Circular(store) => store.clear(),
        }
    }
    fn frames(&self) -> u64 {
        match self {
            Self::Linear(store) => store.frames(),
            Self::Circular(store) => store.frames(),
        }
    }
    fn size(&self) -> Option<u64> {
        match self {
            Self::Linear(store) => store.size(),
            Self::Circular(store) => store.size(),
        }
    }
    fn used(&self) -> u64 {
        match self {
            Self::Linear(store) => store.used(),
            Self::Circular(store) => store.used(),
        }
    }
    fn is_circular(&self) -> bool {
        matches!(self, Self::Circular(_))
    }
}

/// The program's memory: numbers, pointers among them, and strings.
pub fn mapped() -> FakeTarget {
    let mut target = crate::support::target();
    for (address, bytes) in naive::memory() {
        target.map(Address(address), &bytes);
    }
    target
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_experiment_does_what_the_model_does(
        operations in operations(),
        size in 100..3000_u64,
        circular in any::<bool>(),
        stamp in any::<bool>(),
        always in any::<bool>(),
        stop in proptest::bool::weighted(0.2),
    ) {
        let options = Options {
            stamp,
            registers: if always { Registers::Always } else { Registers::Asked },
            unreadable: if stop { Unreadable::Stop } else { Unreadable::Missing },
            ..options()
        };
        let store = if circular {
            Store::Circular(CircularStore::new(size, ByteOrder::Little).unwrap())
        } else {
            Store::Linear(LinearStore::new(size).unwrap())
        };
        let mut experiment = Experiment::new(options, store);
        let mut target = mapped();
        let mut model = Model::new(options, size, circular);
        for operation in operations {
            apply(&operation, &mut experiment, &mut target, &mut model)?;
            compare(&mut experiment, &target, &model)?;
        }
    }
}

fn apply(
    operation: &Operation,
    experiment: &mut Experiment<Store>,
    target: &mut FakeTarget,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    match operation {
        Operation::Define(definition) => {
            experiment.define((**definition).clone()).unwrap();
            model.define((**definition).clone());
        }
        Operation::Delete(number, address) => {
            let done = experiment.delete(*number, *address).is_ok();
            prop_assert_eq!(done, model.delete(*number, *address));
        }
        Operation::Enable(number, address, enabled) => {
            let done = experiment.set_enabled(*number, *address, *enabled).is_ok();
            prop_assert_eq!(done, model.set_enabled(*number, *address, *enabled));
        }
        Operation::Start => {
            let done = experiment.start(target, 1).is_ok();
            prop_assert_eq!(done, model.start());
        }
        Operation::Stop => {
            experiment
                .stop(target, StopReason::Command, None, 2)
                .unwrap();
            model.stop(StopReason::Command, None);
        }
        Operation::Run(moments) => {
            for moment in moments {
                let outcome = target.run(moment, experiment);
                if outcome.is_some_and(|outcome| outcome.run_ended) {
                    experiment.install(target).unwrap();
                }
                model.run(moment);
            }
        }
    }
    experiment.install(target).unwrap();
    model.install();
    Ok(())
}

fn compare(
    experiment: &mut Experiment<Store>,
    target: &FakeTarget,
    model: &Model,
) -> Result<(), TestCaseError> {
    let bytes = experiment.store().bytes();
    if bytes != model.frames.concat() {
        prop_assert_eq!(parse(&bytes), parse(&model.frames.concat()));
    }
    let status = experiment.status();
    prop_assert_eq!(status.running, model.running);
    prop_assert_eq!(status.frames_created, Some(model.created));
    if !status.running {
        prop_assert_eq!(status.stop_reason, Some(model.reason));
        prop_assert_eq!(status.stopping_tracepoint, model.stopping);
    }
    let expected: Vec<_> = model
        .tracepoints
        .iter()
        .map(|tracepoint| (tracepoint.hits, tracepoint.bytes, tracepoint.missing))
        .collect();
    let actual: Vec<_> = experiment
        .tracepoints()
        .map(|tracepoint| {
            let (usage, missing) = (tracepoint.usage(), tracepoint.missing());
            (usage.hits, usage.bytes, (missing.count, missing.first))
        })
        .collect();
    prop_assert_eq!(actual, expected);
    prop_assert_eq!(target.inserted(), &model.inserted);
    for (number, value) in &model.variables {
        let number = tracewire_model::VariableNumber(i32::from(*number));
        prop_assert_eq!(experiment.variable(number), Some(*value));
    }
    Ok(())
}
