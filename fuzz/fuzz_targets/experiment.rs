//! Random definitions, hits, switches, starts and stops on the fake target, against the model that the tests of the
//! experiment have. Expressions are any bytes that the experiment accepts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_agent_expr::verify;
use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_experiment::{
    CircularStore, Experiment, FrameStore, LinearStore, Options, Registers, Unreadable,
};
use tracewire_model::{Action, Address, ByteOrder, RegisterNumber, StopReason, ThreadId, TracepointDefinition, TracepointNumber, VariableNumber};

#[path = "../../crates/experiment/tests/experiment/model/naive.rs"]
mod naive;
#[path = "../../crates/experiment/tests/experiment/support.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod support;

use naive::Model;

/// Takes an input apart; at its end everything is 0.
struct Input<'i>(&'i [u8]);

impl<'i> Input<'i> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    fn bytes(&mut self, length: usize) -> &'i [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Mostly one that is mapped.
    fn address(&mut self) -> u64 {
        let place = u64::from(self.byte());
        match place {
            0..0x70 => 0x1000 + place,
            0x70..0xa8 => 0x2000 + place - 0x70,
            0xff => u64::MAX - 3,
            _ => place,
        }
    }

    fn code(&mut self) -> Address {
        Address(support::CODE.0 + u64::from(self.below(5)) * 4)
    }

    fn number(&mut self) -> TracepointNumber {
        TracepointNumber(i32::from(self.below(4)) + 1)
    }

    fn somewhere(&mut self) -> Option<Address> {
        (self.byte() & 1 == 1).then(|| self.code())
    }

    /// Any bytes; loops are left out, for they take long and are tried elsewhere.
    fn program(&mut self) -> Option<Vec<u8>> {
        let length = usize::from(self.below(40));
        let mut code = self.bytes(length).to_vec();
        code.push(0x27);
        verify(&code)
            .is_ok_and(|verified| !verified.has_loops())
            .then_some(code)
    }

    fn action(&mut self) -> Option<Action> {
        Some(match self.below(6) {
            0 => support::registers(),
            1 => support::memory(self.address(), u64::from(self.below(90))),
            2 => Action::Memory {
                base: Some(RegisterNumber(u16::from(self.below(6)))),
                offset: i64::from(self.byte().cast_signed()).cast_unsigned(),
                length: u64::from(self.below(50)),
            },
            3 => {
                // Through pointers, and what they lead to.
                let (register, depth) = (self.below(4), self.below(5));
                let mut code = vec![0x26, 0, register];
                for _ in 0..depth {
                    code.extend([0x22, self.below(5) * 8, 0x02, 0x0d, self.below(20), 0x1a]);
                }
                code.extend([0x22, self.below(40), 0x0c + 0x23 * self.below(2), 0x27]);
                Action::Expression(code)
            }
            _ => Action::Expression(self.program()?),
        })
    }

    fn actions(&mut self, limit: u8) -> Vec<Action> {
        let count = self.below(limit);
        (0..count).filter_map(|_| self.action()).collect()
    }

    fn definition(&mut self) -> TracepointDefinition {
        let flags = self.byte();
        let (number, address) = (self.number(), self.code());
        let actions = self.actions(6);
        TracepointDefinition {
            enabled: flags & 3 != 3,
            step_count: if flags & 4 == 4 {
                u64::from(self.below(4))
            } else {
                0
            },
            pass_count: if flags & 8 == 8 {
                u64::from(self.below(6))
            } else {
                0
            },
            condition: (flags & 16 == 16).then(|| self.program()).flatten(),
            step_actions: if flags & 4 == 4 {
                self.actions(3)
            } else {
                vec![]
            },
            ..support::tracepoint(number.0, address, actions)
        }
    }

    fn moment(&mut self) -> Moment {
        let flags = self.byte();
        let registers = vec![self.address(), self.address() & !7, u64::from(self.byte())];
        let pc = self.code();
        let writes = if flags & 0x70 == 0x70 {
            let address = Address(0x1000 + u64::from(self.below(0x40)));
            vec![(address, self.bytes(3).to_vec())]
        } else {
            vec![]
        };
        Moment {
            thread: ThreadId(u32::from(flags & 3)),
            cpu: u32::from(flags >> 3 & 1),
            time: pc.0,
            pc,
            registers,
            writes,
            killed: flags & 0x8c == 0x8c,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let flags = input.byte();
    let size = u64::from(input.byte()) * 12;
    let options = Options {
        stamp: flags & 1 != 0,
        registers: if flags & 2 != 0 {
            Registers::Always
        } else {
            Registers::Asked
        },
        unreadable: if flags & 4 != 0 {
            Unreadable::Stop
        } else {
            Unreadable::Missing
        },
        ..support::options()
    };
    let model = Model::new(options, size, flags & 8 != 0);
    if flags & 8 != 0 {
        let store = CircularStore::new(size, ByteOrder::Little).expect("a small size");
        let contents = |store: &CircularStore| [store.bytes().0, store.bytes().1].concat();
        run(input, Experiment::new(options, store), model, contents);
    } else {
        let store = LinearStore::new(size).expect("a small size");
        let contents = |store: &LinearStore| store.bytes().to_vec();
        run(input, Experiment::new(options, store), model, contents);
    }
});

fn run<S: FrameStore>(
    mut input: Input<'_>,
    mut experiment: Experiment<S>,
    mut model: Model,
    contents: impl Fn(&S) -> Vec<u8>,
) {
    let mut target: FakeTarget = support::target();
    for (address, bytes) in naive::memory() {
        target.map(Address(address), &bytes);
    }
    while !input.0.is_empty() && !model.excessive {
        match input.below(12) {
            0..3 => {
                let definition = input.definition();
                if experiment.define(definition.clone()).is_ok() {
                    model.define(definition);
                }
            }
            3 => {
                let (number, address) = (input.number(), input.somewhere());
                let done = experiment.delete(number, address).is_ok();
                assert_eq!(done, model.delete(number, address));
            }
            4 => {
                let (number, address) = (input.number(), input.somewhere());
                let on = input.byte() & 1 == 1;
                let done = experiment.set_enabled(number, address, on).is_ok();
                assert_eq!(done, model.set_enabled(number, address, on));
            }
            5 => assert_eq!(experiment.start(&mut target, 1).is_ok(), model.start()),
            6 if input.byte() & 7 == 0 => {
                let stopped = experiment.stop(&mut target, StopReason::Command, None, 2);
                assert_eq!(stopped, Ok(()));
                model.stop(StopReason::Command, None);
            }
            _ => {
                let moment = input.moment();
                let outcome = target.run(&moment, &mut experiment);
                if outcome.is_some_and(|outcome| outcome.run_ended) {
                    assert_eq!(experiment.install(&mut target), Ok(()));
                }
                model.run(&moment);
            }
        }
        assert_eq!(experiment.install(&mut target), Ok(()));
        model.install();
    }
    if !model.excessive {
        compare(&mut experiment, &target, &model, contents);
    }
}

fn compare<S: FrameStore>(
    experiment: &mut Experiment<S>,
    target: &FakeTarget,
    model: &Model,
    contents: impl Fn(&S) -> Vec<u8>,
) {
    let bytes = contents(experiment.store());
    let expected = model.frames.concat();
    if bytes != expected {
        assert_eq!(support::parse(&bytes), support::parse(&expected));
    }
    let status = experiment.status();
    assert_eq!(status.running, model.running);
    assert_eq!(status.frames_created, Some(model.created));
    if !status.running {
        assert_eq!(status.stop_reason, Some(model.reason));
        assert_eq!(status.stopping_tracepoint, model.stopping);
    }
    assert_eq!(experiment.tracepoints().count(), model.tracepoints.len());
    for (actual, expected) in experiment.tracepoints().zip(&model.tracepoints) {
        assert_eq!(actual.usage().hits, expected.hits);
        assert_eq!(actual.usage().bytes, expected.bytes);
        let missing = actual.missing();
        assert_eq!((missing.count, missing.first), expected.missing);
    }
    assert_eq!(target.inserted(), &model.inserted);
    for (number, value) in &model.variables {
        let number = VariableNumber(i32::from(*number));
        let actual = experiment.variable(number);
        let builtin = (1..=3).contains(&number.0);
        assert!(builtin || actual == Some(*value), "{number}: {actual:?}, not {value}");
    }
}
