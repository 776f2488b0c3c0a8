//! GDB's registers, put together from the names of a trace.

use std::path::Path;

use tracewire_arch::{Architecture, Machine};
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording};

fn open(folder: &Path, text: &str) -> Recording {
    let path = folder.join("x.trace");
    std::fs::write(&path, text).unwrap();
    Recording::open(&path, &OpenOptions::default()).unwrap()
}

fn shown(bytes: &[Option<u8>]) -> String {
    bytes
        .iter()
        .map(|byte| byte.map_or("??".to_owned(), |byte| format!("{byte:02x}")))
        .collect()
}

fn register(recording: &Recording, machine: Architecture, name: &str, before: u64) -> String {
    let machine = Machine::of(machine);
    let registers = DebuggerRegisters::new(recording, machine);
    let place = machine.layout().by_name(name).unwrap();
    let before = InstructionNumber(before);
    let one = registers
        .register(recording, CpuNumber(0), place.number, before)
        .unwrap();
    let block = registers.block(recording, CpuNumber(0), before).unwrap();
    let start = place.offset as usize;
    assert_eq!(block[start..start + place.size() as usize], one);
    shown(&one)
}

#[test]
fn what_was_written_last_counts() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = [
        "R X8 1122334455667788",
        "R W8 aabbccdd",
        "R X8 0000000000000001",
        "R Q1 000102030405060708090a0b0c0d0e0f",
        "R D1 ffffffffffffffff",
        "R X9 --------00000002",
    ]
    .iter()
    .enumerate()
    .map(|(n, line)| {
        format!("{n} clk IT ({n}) 00001000 d503201f O EL1h_ns : NOP\n{n} clk {line}\n")
    })
    .collect();
    let recording = open(folder.path(), &text);
    let at = |name: &str, before| register(&recording, Architecture::Aarch64, name, before);
    assert_eq!(at("x8", 0), "????????????????");
    assert_eq!(at("x8", 1), "8877665544332211");
    assert_eq!(at("x8", 2), "ddccbbaa00000000");
    assert_eq!(at("x8", 3), "0100000000000000");
    assert_eq!(at("v1", 4), "0f0e0d0c0b0a09080706050403020100");
    assert_eq!(at("v1", 5), "ffffffffffffffff0000000000000000");
    assert_eq!(at("x9", 6), "02000000????????");
    assert_eq!(at("x0", 6), "????????????????");
}

#[test]
fn names_of_the_convention_and_byte_order() {
    let folder = tempfile::tempdir().unwrap();
    let recording = open(
        folder.path(),
        "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n1 clk R t0 00010000\n\
         2 clk 0 IT (2) 00000008 00000000 A svc : nop\n2 clk R cr2 5\n2 clk R cr 11111111\n\
         3 clk 0 IT (3) 0000000c 00000000 A svc : nop\n3 clk R cr2 5\n\
         4 clk 0 IT (4) 00000010 00000000 A svc : nop\n",
    );
    assert_eq!(
        register(&recording, Architecture::Mips, "r8", 1),
        "00010000"
    );
    assert_eq!(
        register(&recording, Architecture::MipsLittle, "r8", 1),
        "00000100"
    );
    assert_eq!(
        register(&recording, Architecture::PowerPc, "cr", 3),
        "11511111"
    );
}
