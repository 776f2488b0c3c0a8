//! Many hits: memory use stays constant.

#[path = "../experiment/support.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

use tracewire_experiment::fake::Moment;
use tracewire_experiment::{CircularStore, Experiment, FrameStore, Options, Registers};
use tracewire_model::{Address, ByteOrder, ThreadId};

use support::{CODE, expression, memory, moment, options, program, registers, target, tracepoint};

/// Memory that this process occupies, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Everything that a hit can do: a condition, registers, stamps, memory, pointers, a string, variables, steps.
fn busy() -> (
    Experiment<CircularStore>,
    tracewire_experiment::fake::FakeTarget,
) {
    let mut target = target();
    let mut data = vec![b'a'; 4096];
    data[..8].copy_from_slice(&0x2100_u64.to_le_bytes());
    data[0x120] = 0;
    target.map(Address(0x2000), &data);
    let options = Options {
        stamp: true,
        registers: Registers::Always,
        ..options()
    };
    let store = CircularStore::new(1 << 20, ByteOrder::Little).unwrap();
    let mut experiment = Experiment::new(options, store);
    let mut definition = tracepoint(
        1,
        CODE,
        vec![
            registers(),
            memory(0x2800, 16),
            expression("reg 0\nref64\nconst8 200\ntracenz\nend"),
            expression("reg 0\ntrace_quick 8\nref64\ntrace_quick 4\nref32\nend"),
            expression("getv 7\nconst8 1\nadd\nsetv 7\nend"),
            expression("tracev 7\nend"),
            memory(0x9000, 8),
        ],
    );
    definition.condition = Some(program("reg 0\nref32\nconst8 0\nequal\nlog_not\nend"));
    definition.step_count = 1;
    definition.step_actions = vec![memory(0x2800, 4)];
    experiment.define(definition).unwrap();
    experiment.start(&mut target, 0).unwrap();
    (experiment, target)
}

fn places() -> [Moment; 2] {
    [CODE, Address(CODE.0 + 4)].map(|pc| Moment {
        thread: ThreadId(1),
        ..moment(pc, &[0x2000])
    })
}

#[test]
fn a_million_hits_into_a_circular_mebibyte_stay_small() {
    let (mut experiment, mut target) = busy();
    let places = places();
    let before = resident();
    for _ in 0..500_000 {
        for place in &places {
            target.run(place, &mut experiment);
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more");
    let status = experiment.status();
    assert_eq!(status.frames_created, Some(1_000_000));
    assert!(status.buffer_free.unwrap() < 1000);
    assert_eq!(experiment.store().frames(), status.frames.unwrap());
}

#[test]
fn a_hit_allocates_nothing_once_it_has_been_done_before() {
    let (mut experiment, mut target) = busy();
    let places = places();
    let mut run = |count| {
        for _ in 0..count {
            for place in &places {
                target.run(place, &mut experiment);
            }
        }
    };
    run(10);
    let info = allocation_counter::measure(|| run(1000));
    assert_eq!(info.count_total, 0);
}
