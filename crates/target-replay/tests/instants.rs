//! Registers and memory at random instants are those of the independent log.

mod support;

use std::collections::HashMap;

use support::fixture::{Log, MACHINES, Random, unpacked};
use support::naive::Naive;
use tracewire_target_replay::{Execution, Replay, thread_of};
use tracewire_tracefile::{Address, Architecture};

const INSTANTS: usize = 1000;

fn agree(machine: &str, execution: &impl Execution) {
    let log = Log::of(machine);
    assert_eq!(
        log.0.len() as u64,
        execution.instructions() + 1,
        "{machine}"
    );
    let first = &log.0[0];
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut registers, mut bytes) = (0, 0);
    for _ in 0..INSTANTS {
        let instant = random.below(log.0.len() as u64);
        let told = &log.0[instant as usize];
        let replay = Replay::at(execution, instant);
        let block = replay.registers(thread_of(0));
        let layout = execution.machine().layout();
        for register in layout.registers() {
            let Some(value) = told.registers.get(&register.name) else {
                continue;
            };
            let place = (register.offset as usize, register.size() as usize);
            match block.get(place.0, place.1) {
                Some(known) => {
                    let order = execution.machine().byte_order();
                    let known = order.unsigned(known).unwrap();
                    // At the end nobody knows where the program goes on.
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
        for (address, value) in &told.memory {
            let mut byte = [None];
            replay.memory(thread_of(0), Address(*address), &mut byte);
            match byte[0] {
                Some(byte) => {
                    assert_eq!(byte, *value, "{machine} {instant} {address:#x}");
                    bytes += 1;
                }
                None => assert_eq!(
                    first.memory[address], *value,
                    "{machine} {instant} {address:#x}"
                ),
            }
        }
    }
    assert!(
        registers > 10 * INSTANTS && bytes > 100 * INSTANTS,
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
