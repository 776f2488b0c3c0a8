//! Compact forms with anything changed in them, checksums not looked at: answers or errors, and nothing else.
#![no_main]

use std::ops::ControlFlow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording, RegisterId, Search, What};
use tracewire_model::Address;

/// How much of an input is taken: what is found in long ones is found in short ones, sooner.
const MOST: usize = 2048;

/// Small compact forms of different shapes.
static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut plain = String::from("garbage\n1 clk R r2 00000001\n");
    let mut wild = String::from("1 clk cpu0 IT (1) 00008000 e1a00000 A svc_ns : NOP\n");
    for at in 1..17u32 {
        let pc = 0x1000 + at % 7 * 4;
        let (data, address) = (at.wrapping_mul(0x9e37_79b9), 0x2000 + at * 37 % 100);
        plain += &format!("{at} clk 0 IT ({at}) {pc:08x} 3c080001 A svc : op{pc}\n");
        plain += &format!("{at} clk M{}4 {address:08x} {data:08x}\n", ["R", "W"][at as usize % 2]);
        plain += &format!("{at} clk R r{} {data:08x}\n", at % 5);
        let cpu = at % 2;
        wild += &format!("{}.5 ns cpu{cpu} IT ({at:x}) {pc:08x} bf00 T16 usr_s : NOP\n", at / 2);
        wild += &format!("{}.5 ns cpu{} R V1 {data:08x}_{data:08x}_--------_{at:08x}\n", at / 2, 1 - cpu);
        wild += &format!("cpu{cpu} MW16 {address:08x} {data:08x}{at:08x}00000000{data:08X}\nE {data:x}\n");
        wild += &format!("R r1<15:8> {:02x}\n", at as u8);
    }
    [plain, wild]
        .map(|text| {
            let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default());
            recording.expect("a trace").compact()
        })
        .into()
});

fuzz_target!(|input: (u8, u8, u8, Vec<(u16, u8)>, &[u8])| {
    let (which, asked, before, changes, tail) = input;
    if tail.len() > MOST || changes.len() > MOST / 3 {
        return;
    }
    let mut bytes = if which == 255 {
        tail.to_vec()
    } else {
        GOOD[usize::from(which) % GOOD.len()].clone()
    };
    for (at, value) in changes {
        let length = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(usize::from(at) % length) {
            *byte = value;
        }
    }
    let Ok(recording) = Recording::of_compact(bytes, &OpenOptions::default()) else {
        return;
    };
    let before = InstructionNumber(match before {
        255 => u64::MAX,
        before => before.into(),
    });
    // Whatever the answers are.
    match asked % 10 {
        0 => {
            let _ = recording.write_text(&mut Vec::new());
            let _ = recording.unparsed_lines(&mut |_, _| ControlFlow::Continue(()));
        }
        1 => {
            let mut left = 200;
            let _ = recording.instructions(0..u64::MAX, &mut |_| {
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
        2 => {
            let _ = recording.registers_at(CpuNumber(0), before);
            let _ = recording.register_at(CpuNumber(1), RegisterId(1), before);
        }
        3 => {
            let _ = recording.memory_at(before, Address(0x1ff9), &mut [None; 24]);
        }
        4 => find(&recording, What::Visit, 0x1000, before),
        5 => find(&recording, What::Read, 0x2000, before),
        6 => {
            find(&recording, What::Write, 0x2000, before);
            find(&recording, What::Register(RegisterId(0)), 0, before);
        }
        7 => {
            let Ok(mut replay) = recording.replay(before) else { return };
            for _ in 0..30 {
                let _ = replay.advance();
            }
            let _ = replay.memory(Address(0x2000), &mut [None; 9]);
        }
        8 => {
            let some = (0x1000..0x1020).step_by(8).map(Address).collect();
            let Ok(code) = recording.locate(some) else { return };
            let mut visits = recording.visits(before, code);
            for _ in 0..30 {
                let _ = visits.advance(InstructionNumber(u64::MAX));
                let _ = visits.memory(Address(0x2000), &mut [None; 9]);
            }
        }
        _ => {
            let all = Search::new(What::Access, 0..=u64::MAX);
            let _ = recording.find_all(&all, 0..u64::MAX, &mut |_| ControlFlow::Break(()));
            let _ = recording.at_time(before.0, None);
            let _ = recording.contradictions();
        }
    }
});

/// Looks forward and backward.
fn find(recording: &Recording, what: What, address: u64, before: InstructionNumber) {
    let search = Search::new(what, address..=address + 0x18).on_cpu(CpuNumber(0));
    let _ = recording.find_first(&search, before);
    let _ = recording.find_last(&search, before);
}
