//! Registers and memory at random instants are those of the independent log.

mod support;

use std::collections::HashMap;

use fastrand::Rng;
use support::fixture::{Log, MACHINES, files, unpacked};
use support::naive::Naive;
use tracewire_arch::Architecture;
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_model::Address;
use tracewire_target_replay::{Direction, Executed, Execution, Recorded, Replay, Watch, thread_of};

const INSTANTS: usize = 1000;
/// So many bytes are looked at in each, from a random one on.
const WINDOW: usize = 64;

fn agree(machine: &str, execution: &impl Execution) {
    let log = Log::of(machine);
    assert_eq!(
        log.0.len() as u64,
        execution.instructions() + 1,
        "{machine}"
    );
    let first = &log.0[0];
    let mut random = Rng::with_seed(0x1234_5678_9abc_def1);
    let (mut registers, mut bytes) = (0, 0);
    let mut addresses: Vec<u64> = first.memory.keys().copied().collect();
    addresses.sort_unstable();
    for _ in 0..INSTANTS {
        let instant = random.u64(..log.0.len() as u64);
        let logged = &log.0[instant as usize];
        let replay = Replay::at(execution, instant);
        let block = replay.registers(thread_of(0));
        let layout = execution.machine().layout();
        for register in layout.registers() {
            let Some(value) = logged.registers.get(&register.name) else {
                continue;
            };
            let place = (register.offset as usize, register.size() as usize);
            match block.get(place.0, place.1) {
                Some(known) => {
                    let order = execution.machine().byte_order();
                    let known = order.unsigned(known).unwrap();
                    // At the end it is unknown where the program continues.
                    if register.name != "pc" || instant < execution.instructions() {
                        assert_eq!(known, *value, "{machine} {instant} {}", register.name);
                    }
                    registers += 1;
                }
                // Nothing was written to it.
                None => assert_eq!(
                    first.registers[&register.name], *value,
                    "{machine} {instant} {}",
                    register.name
                ),
            }
        }
        let start = addresses[random.usize(..addresses.len())];
        let mut window = vec![None; WINDOW];
        replay.memory(thread_of(0), Address(start), &mut window);
        for (address, byte) in (start..).zip(window) {
            let Some(value) = logged.memory.get(&address) else {
                continue;
            };
            match byte {
                Some(byte) => {
                    assert_eq!(byte, *value, "{machine} {instant} {address:#x}");
                    bytes += 1;
                }
                None => {
                    assert_eq!(
                        first.memory[&address], *value,
                        "{machine} {instant} {address:#x}"
                    );
                }
            }
        }
    }
    assert!(
        registers > 10 * INSTANTS && bytes > INSTANTS,
        "{machine} {registers} {bytes}"
    );
}

#[test]
fn plain_lists_and_the_log_agree() {
    for machine in MACHINES {
        let architecture: Architecture = machine.parse().unwrap();
        let text = unpacked(machine, "trace");
        agree(machine, &Naive::new(architecture, &text, HashMap::new()));
    }
}

#[test]
fn the_index_and_the_log_agree() {
    let folder = tempfile::tempdir().unwrap();
    for machine in MACHINES {
        let (_, trace) = files(machine, folder.path());
        let options = OpenOptions {
            architecture: Some(machine.parse().unwrap()),
            ..OpenOptions::default()
        };
        let recording = Recording::open(&trace, &options).unwrap();
        let recorded = Recorded::new(recording).unwrap();
        agree(machine, &recorded);
        assert!(recorded.problem().is_none());
    }
}

/// For any query, the index answers as the plain lists do.
#[test]
fn the_index_and_plain_lists_agree() {
    let folder = tempfile::tempdir().unwrap();
    for machine in MACHINES {
        let (_, trace) = files(machine, folder.path());
        let architecture: Architecture = machine.parse().unwrap();
        let options = OpenOptions {
            architecture: Some(architecture),
            ..OpenOptions::default()
        };
        let recorded = Recorded::new(Recording::open(&trace, &options).unwrap()).unwrap();
        let naive = Naive::new(architecture, &unpacked(machine, "trace"), HashMap::new());
        let end = naive.instructions();
        assert_eq!(recorded.instructions(), end);
        let mut random = Rng::with_seed(0x0bad_cafe_0bad_cafe);
        for _ in 0..50 {
            let (at, other) = (random.u64(..end + 1), random.u64(..end));
            let place = |executed: Executed| (executed.address, executed.cpu);
            let (ours, theirs) = (recorded.instruction(at), naive.instruction(at));
            assert_eq!(ours.map(place), theirs.map(place), "{machine} {at}");
            let place = naive.instruction(other).unwrap().address;
            assert_eq!(recorded.next_visit(place, at), naive.next_visit(place, at));
            assert_eq!(recorded.last_visit(place, at), naive.last_visit(place, at));
            let log_place = naive.touched(random.u64(..1 << 20));
            let (address, length) = (Address(log_place.0 - random.u64(..4)), 1 + random.u64(..8));
            for watch in [Watch::Read, Watch::Write, Watch::Access] {
                let range = at..at + random.u64(..end + 1 - at);
                let range = || range.clone();
                for direction in [Direction::Forward, Direction::Backward] {
                    assert_eq!(
                        recorded.access(direction, watch, address, length, range()),
                        naive.access(direction, watch, address, length, range()),
                        "{machine} {direction:?} {watch:?} {address} {length} {:?}",
                        range()
                    );
                }
            }
        }
    }
}
