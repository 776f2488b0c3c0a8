//! Compact forms with anything changed in them, checksums not looked at: answers or errors, and nothing else.
#![no_main]

use std::ops::ControlFlow;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording, RegisterId, Search, What};
use tracewire_tracefile::Address;

/// Small compact forms of different shapes.
static GOOD: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut plain = String::from("garbage\n1 clk R r2 00000001\n");
    let mut wild = String::from("1 clk cpu0 IT (1) 00008000 e1a00000 A svc_ns : NOP\n");
    for at in 1..300u32 {
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

fuzz_target!(|input: (u8, Vec<(u16, u8)>, &[u8])| {
    let (which, changes, tail) = input;
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
    // Whatever the answers are.
    let mut text = Vec::new();
    let _ = recording.write_text(&mut text);
    let mut left = 2000;
    let mut some = || {
        left -= 1;
        if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let _ = recording.instructions(0..u64::MAX, &mut |_| some());
    for before in [0, 1, 150, recording.len(), u64::MAX] {
        let before = InstructionNumber(before);
        let _ = recording.registers_at(CpuNumber(0), before);
        let _ = recording.register_at(CpuNumber(1), RegisterId(1), before);
        let mut bytes = [None; 120];
        let _ = recording.memory_at(before, Address(0x1ff9), &mut bytes);
        for what in [What::Visit, What::Read, What::Write, What::Register(RegisterId(0))] {
            let search = Search::new(what, 0x1000..=0x2030).on_cpu(CpuNumber(0));
            let _ = recording.find_first(&search, before);
            let _ = recording.find_last(&search, before);
        }
        if let Ok(mut replay) = recording.replay(before) {
            for _ in 0..50 {
                let _ = replay.advance();
            }
            let _ = replay.memory(Address(0x2000), &mut bytes);
        }
    }
    let _ = recording.find_all(&Search::new(What::Access, 0..=u64::MAX), 0..u64::MAX, &mut |_| {
        ControlFlow::Break(())
    });
    let _ = recording.at_time(100, None);
    let _ = recording.contradictions();
    let _ = recording.unparsed_lines(&mut |_, _| ControlFlow::Break(()));
});
