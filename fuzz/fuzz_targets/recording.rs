//! Any text as a recording: it comes back byte for byte, and everything can be asked.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_model::Address;

/// How much of an input is taken: what is found in long ones is found in short ones, sooner.
const MOST: usize = 600;

/// A line of each format, so that any text behind it is a trace.
const FIRST: [&str; 5] = [
    "",
    "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n",
    "1 clk cpu0 IT (3) 002105dc 940000f8 O EL3h_s : BL 0x2109bc\n",
    "version 2\nnumThreads 1\n10 ns: 0,20,0,0,0,800144,1,2,5,0,0,0,0,0,0,0,0,0,0,0\n",
    "1 ns R r1 -------0\n1 ns IT (00000004:1f) 00000004 e1a00000 A svc : NOP\n",
];

fuzz_target!(|input: (u8, &[u8])| {
    let (first, rest) = input;
    if rest.len() > MOST {
        return;
    }
    let mut text = FIRST[usize::from(first) % FIRST.len()].as_bytes().to_vec();
    text.extend_from_slice(rest);
    let Ok(recording) = Recording::of_text(&text, &OpenOptions::default()) else {
        return;
    };
    let mut back = Vec::new();
    recording.write_text(&mut back).expect("it was just made");
    assert_eq!(back, text);
    let count = recording.len();
    let mut seen = 0;
    recording
        .instructions(0..count, &mut |executed| {
            assert_eq!(executed.number.0, seen);
            for access in &executed.accesses {
                let mut bytes = vec![None; access.size as usize];
                let behind = InstructionNumber(count);
                recording
                    .memory_at(behind, access.address, &mut bytes)
                    .expect("it was just made");
            }
            seen += 1;
            ControlFlow::Continue(())
        })
        .expect("it was just made");
    assert_eq!(seen, count);
    for before in [0, count / 2, count] {
        let before = InstructionNumber(before);
        for cpu in &recording.summary().cpus {
            let all = recording.registers_at(*cpu, before).expect("just made");
            for (at, value) in all.iter().enumerate() {
                let register = tracewire_exec_trace::recording::RegisterId(at as u32);
                let one = recording.register_at(*cpu, register, before);
                assert_eq!(one.expect("just made"), *value);
            }
        }
    }
    // Passing from visit to visit gives what executing everything gives.
    let all = recording.addresses().expect("it was just made").into_iter();
    let some = all.filter(|address| address.0 % 8 == 0).collect();
    let code = recording.locate(some).expect("it was just made");
    let mut visits = recording.visits(InstructionNumber(0), code);
    let mut replay = recording.replay(InstructionNumber(0)).expect("it was just made");
    let (mut one, mut other) = ([None; 9], [None; 9]);
    loop {
        let is_meant = replay.step().map(|step| step.address().0 % 8 == 0);
        if is_meant == Some(true) {
            assert!(visits.advance(InstructionNumber(count)).expect("just made"));
            let step = visits.step().expect("it is there");
            assert_eq!(step.number(), replay.number());
            for cpu in &recording.summary().cpus {
                for at in 0..recording.register_names().len() as u32 {
                    let at = tracewire_exec_trace::recording::RegisterId(at);
                    assert_eq!(visits.register(*cpu, at), replay.register(*cpu, at));
                }
            }
            replay.memory(Address(0x10000), &mut one).expect("just made");
            visits.memory(Address(0x10000), &mut other).expect("just made");
            assert_eq!(one, other);
        }
        if is_meant.is_none() || !replay.advance().expect("it was just made") {
            break;
        }
    }
    let mut bytes = [None; 9];
    let replay = recording.replay(InstructionNumber(0));
    let mut replay = replay.expect("it was just made");
    while replay.advance().expect("it was just made") {}
    replay.memory(Address(0), &mut bytes).expect("just made");
    let _ = replay.register(CpuNumber(0), tracewire_exec_trace::recording::RegisterId(0));
});
