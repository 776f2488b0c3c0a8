//! The canonical frame address and the saved registers at every instruction of some functions, compared with GDB's
//! `info frame` of the running program.

mod support;

use std::collections::HashMap;

use support::{Build, gdb};
use tracewire_arch::{Architecture, dwarf_register};
use tracewire_debuginfo::{CfaRule, RegisterRule, Symbols};
use tracewire_model::{Address, RegisterNumber};

/// For each instruction: `@@pc|register=value …|frame address|register=where it is saved …`.
const PYTHON: &str = r#"
import gdb, re
gdb.execute("set pagination off")
gdb.execute("set width 0")
for name in FUNCTIONS:
    gdb.execute("break *" + name)
gdb.execute("run > /dev/null")
for name in FUNCTIONS:
    for step in range(60):
        registers = " ".join("%s=%d" % (name, int(gdb.parse_and_eval("(unsigned long)$" + name))) for name in REGISTERS)
        text = gdb.execute("info frame", to_string=True)
        frame = re.search(r"frame at (0x[0-9a-f]+)", text)
        saved = re.search(r"Saved registers:\s*(.*)", text)
        if frame:
            places = re.findall(r"(\w+) at (0x[0-9a-f]+)", saved.group(1)) if saved else []
            print("@@%d|%s|%s|%s" % (int(gdb.parse_and_eval("(unsigned long)$pc")), registers, frame.group(1), " ".join("%s=%s" % place for place in places)))
        gdb.execute("stepi", to_string=True)
    gdb.execute("continue", to_string=True)
gdb.execute("kill", to_string=True)
"#;

/// GDB's order of the general registers, which is the order of their numbers.
const X86_64: &[&str] = &[
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];
const I386: &[&str] = &[
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip",
];

fn compare(build: Build, architecture: Architecture) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build.run(directory.path());
    let names = if architecture == Architecture::I386 {
        I386
    } else {
        X86_64
    };
    let python = PYTHON
        .replace("REGISTERS", &format!("{names:?}").replace('&', ""))
        .replace("FUNCTIONS", "['helper', 'sum', 'variable_length']");
    let output = gdb(&program, directory.path(), &python);
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    assert_eq!(symbols.architecture(), Some(architecture));
    let dwarf_of = |name: &str| {
        let number = names.iter().position(|other| *other == name)?;
        dwarf_register(architecture, RegisterNumber(u16::try_from(number).ok()?))
    };
    let mut compared = 0;
    for line in output.lines().filter_map(|line| line.strip_prefix("@@")) {
        let parts: Vec<&str> = line.split('|').collect();
        let [pc, registers, frame, saved] = parts[..] else {
            panic!("{line}");
        };
        let pc = Address(pc.parse().expect("a number"));
        // Addresses in libraries have no module here.
        if symbols.module_at(pc).is_none() {
            continue;
        }
        let values: HashMap<u16, u64> = registers
            .split_whitespace()
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                Some((dwarf_of(name)?, value.parse().ok()?))
            })
            .collect();
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hex");
        let Some(row) = symbols.unwind(pc) else {
            panic!("no call frame information at {pc}");
        };
        let CfaRule::RegisterOffset { register, offset } = row.cfa else {
            // The linker's stubs have expressions.
            continue;
        };
        let cfa = values[&register].wrapping_add_signed(offset);
        assert_eq!(cfa, hex(frame), "{build:?} at {pc}: {register}+{offset}");
        for pair in saved.split_whitespace() {
            let (name, place) = pair.split_once('=').expect("a pair");
            let column = if name == "rip" || name == "eip" {
                row.return_address
            } else {
                dwarf_of(name).expect(name)
            };
            let rule = row.registers.iter().find(|(other, _)| *other == column);
            let Some((_, RegisterRule::Offset(offset))) = rule else {
                panic!("{build:?} at {pc}: {name} is {rule:?}, in GDB at {place}");
            };
            assert_eq!(
                cfa.wrapping_add_signed(*offset),
                hex(place),
                "{build:?} at {pc}: {name}"
            );
        }
        compared += 1;
    }
    assert!(compared > 50, "GDB named {compared} places:\n{output}");
}

#[test]
fn frames_of_unoptimized_code() {
    let build = Build {
        compiler: "cc",
        source: "shapes.c",
        options: &["-g", "-O0", "-no-pie"],
    };
    compare(build, Architecture::X86_64);
}

#[test]
fn frames_of_optimized_code() {
    let build = Build {
        compiler: "cc",
        source: "shapes.c",
        options: &["-g", "-O2", "-no-pie"],
    };
    compare(build, Architecture::X86_64);
}

#[test]
fn frames_of_32_bit_code_without_exception_tables() {
    let build = Build {
        compiler: "cc",
        source: "shapes.c",
        options: &[
            "-g",
            "-O2",
            "-no-pie",
            "-m32",
            "-fno-asynchronous-unwind-tables",
        ],
    };
    compare(build, Architecture::I386);
}
