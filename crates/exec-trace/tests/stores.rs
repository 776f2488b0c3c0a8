//! Which instructions write memory, by their codes: against traces of real programs, which tell it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use tracewire_arch::{Machine, Stores};
use tracewire_exec_trace::record::AccessKind;
use tracewire_exec_trace::recording::{OpenOptions, Recording, ReportedWrites};

/// Programs of eight machines: what the table says writes, writes, and what it says does not, does not.
#[test]
fn codes_say_what_traces_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target-replay/tests/data");
    let mut machines = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().ends_with(".trace.zst") {
            continue;
        }
        let text = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
        let recording = Recording::of_text(&text, &OpenOptions::default()).unwrap();
        assert_eq!(recording.reported_writes(), ReportedWrites::All, "{path:?}");
        let machine = Machine::of(recording.architecture().unwrap());
        let digits = machine.pointer_size() * 2;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let each = &mut |executed: tracewire_exec_trace::recording::Executed| {
            let code = &executed.code;
            let (Some(opcode), true) = (code.opcode, executed.taken) else {
                return ControlFlow::Continue(());
            };
            let writes = executed
                .accesses
                .iter()
                .any(|access| access.kind == AccessKind::Write);
            let said = machine.stores(opcode, code.set, digits);
            let text = &code.disassembly;
            match said {
                Stores::No => assert!(!writes, "{path:?}: {opcode} {text}"),
                Stores::Yes => assert!(writes, "{path:?}: {opcode} {text}"),
                Stores::Perhaps => {}
            }
            let name = match said {
                Stores::No => "no",
                Stores::Yes => "yes",
                Stores::Perhaps => "perhaps",
            };
            *counts.entry(name).or_default() += 1;
            ControlFlow::Continue(())
        };
        recording.instructions(0..u64::MAX, each).unwrap();
        eprintln!("{}: {counts:?}", machine.architecture());
        machines += 1;
    }
    assert!(machines >= 8);
}

/// Codes that the programs do not have, by the manuals.
#[test]
fn codes_of_the_manuals() {
    let of = |machine: &str, opcode: &str, set: &str| {
        use tracewire_arch::{InstructionSet, Opcode};
        let opcode = Opcode {
            value: u128::from_str_radix(opcode, 16).unwrap(),
            digits: opcode.len() as u8,
        };
        let set = InstructionSet::of_name(set.as_bytes());
        let machine = Machine::of(machine.parse().unwrap());
        machine.stores(opcode, set, machine.pointer_size() * 2)
    };
    for (machine, opcode, set, expected, text) in [
        ("aarch64", "f9000020", "O", Stores::Yes, "str x0, [x1]"),
        ("aarch64", "f9400020", "O", Stores::No, "ldr x0, [x1]"),
        ("aarch64", "3d800020", "O", Stores::Yes, "str q0, [x1]"),
        ("aarch64", "3dc00020", "O", Stores::No, "ldr q0, [x1]"),
        (
            "aarch64",
            "a9bf7bfd",
            "O",
            Stores::Yes,
            "stp x29, x30, [sp, #-16]!",
        ),
        (
            "aarch64",
            "a8c17bfd",
            "O",
            Stores::No,
            "ldp x29, x30, [sp], #16",
        ),
        ("aarch64", "58000040", "O", Stores::No, "ldr x0, label"),
        ("aarch64", "f8226820", "O", Stores::Yes, "str x0, [x1, x2]"),
        ("aarch64", "b8a16820", "O", Stores::No, "ldrsw x0, [x1, x1]"),
        (
            "aarch64",
            "c8017c20",
            "O",
            Stores::Perhaps,
            "stxr w1, x0, [x1]",
        ),
        ("aarch64", "c85f7c20", "O", Stores::No, "ldxr x0, [x1]"),
        (
            "aarch64",
            "f8200041",
            "O",
            Stores::Perhaps,
            "ldadd x0, x1, [x2]",
        ),
        (
            "aarch64",
            "4c007020",
            "O",
            Stores::Yes,
            "st1 {v0.16b}, [x1]",
        ),
        ("aarch64", "4c407020", "O", Stores::No, "ld1 {v0.16b}, [x1]"),
        ("aarch64", "d50b7420", "O", Stores::Perhaps, "dc zva, x0"),
        ("aarch64", "d4000001", "O", Stores::Perhaps, "svc #0"),
        ("aarch64", "8b020020", "O", Stores::No, "add x0, x1, x2"),
        ("arm", "e5810000", "A", Stores::Yes, "str r0, [r1]"),
        ("arm", "e5910000", "A", Stores::No, "ldr r0, [r1]"),
        ("arm", "e1c100b0", "A", Stores::Yes, "strh r0, [r1]"),
        ("arm", "e1c120f0", "A", Stores::Yes, "strd r2, [r1]"),
        ("arm", "e1c120d0", "A", Stores::No, "ldrd r2, [r1]"),
        ("arm", "e92d4010", "A", Stores::Yes, "push {r4, lr}"),
        ("arm", "e8bd8010", "A", Stores::No, "pop {r4, pc}"),
        (
            "arm",
            "e1810f92",
            "A",
            Stores::Perhaps,
            "strex r0, r2, [r1]",
        ),
        ("arm", "e1910f9f", "A", Stores::No, "ldrex r0, [r1]"),
        ("arm", "e0010392", "A", Stores::No, "mul r1, r2, r3"),
        ("arm", "ed810b00", "A", Stores::Yes, "vstr d0, [r1]"),
        ("arm", "ec410b10", "A", Stores::No, "vmov d0, r0, r1"),
        ("arm", "f401070f", "A", Stores::Yes, "vst1.8 {d0}, [r1]"),
        ("arm", "6001", "T", Stores::Yes, "str r1, [r0]"),
        ("arm", "6802", "T", Stores::No, "ldr r2, [r0]"),
        ("arm", "b510", "T", Stores::Yes, "push {r4, lr}"),
        ("arm", "bd10", "T", Stores::No, "pop {r4, pc}"),
        ("arm", "c006", "T", Stores::Yes, "stmia r0!, {r1, r2}"),
        ("arm", "5662", "T", Stores::No, "ldrsb r2, [r4, r1]"),
        ("arm", "e92d41f0", "T", Stores::Yes, "push.w {r4-r8, lr}"),
        ("arm", "e9c01200", "T", Stores::Yes, "strd r1, r2, [r0]"),
        ("arm", "e8cd3102", "T", Stores::Perhaps, "stlex form"),
        ("arm", "e8dff001", "T", Stores::No, "tbb [pc, r1]"),
        ("arm", "f8c01004", "T", Stores::Yes, "str.w r1, [r0, #4]"),
        ("arm", "f8d01004", "T", Stores::No, "ldr.w r1, [r0, #4]"),
        ("arm", "ed8d0b02", "T", Stores::Yes, "vstr d0, [sp, #8]"),
        ("arm", "f000f800", "T", Stores::No, "bl"),
        ("mips", "afbf0014", "A", Stores::Yes, "sw ra, 20(sp)"),
        ("mips", "8fbf0014", "A", Stores::No, "lw ra, 20(sp)"),
        ("mips", "e0400000", "A", Stores::Perhaps, "sc zero, 0(v0)"),
        ("riscv64", "00113423", "A", Stores::Yes, "sd ra, 8(sp)"),
        ("riscv64", "e406", "T", Stores::Yes, "c.sdsp ra, 8(sp)"),
        ("riscv64", "60a2", "T", Stores::No, "c.ldsp ra, 8(sp)"),
        ("riscv64", "1005252f", "A", Stores::No, "lr.w a0, (a0)"),
        (
            "riscv64",
            "18b5252f",
            "A",
            Stores::Perhaps,
            "sc.w a0, a1, (a0)",
        ),
        ("ppc64", "f821ffc1", "A", Stores::Yes, "stdu r1, -64(r1)"),
        ("ppc64", "e8010010", "A", Stores::No, "ld r0, 16(r1)"),
        (
            "ppc64",
            "7c00292d",
            "A",
            Stores::Perhaps,
            "stwcx. r0, 0, r5",
        ),
        ("ppc64", "7c632214", "A", Stores::No, "add r3, r3, r4"),
        ("nios2", "dfc00015", "A", Stores::Yes, "stw ra, 0(sp)"),
        ("nios2", "dfc00017", "A", Stores::No, "ldw ra, 0(sp)"),
        ("x86_64", "8907", "A", Stores::Perhaps, "mov %eax, (%rdi)"),
    ] {
        assert_eq!(
            of(machine, opcode, set),
            expected,
            "{machine} {opcode}: {text}"
        );
    }
}
