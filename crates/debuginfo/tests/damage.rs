//! Damaged files are harmless: with any wrong bytes, every query returns, and soon.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use object::{Object as _, ObjectSection as _};
use support::Build;
use tracewire_debuginfo::{Symbols, Type, TypeId, VariableLocation};
use tracewire_model::Address;

/// Follows a type down.
fn walk(symbols: &Symbols, type_id: TypeId, depth: usize) {
    let _ = symbols.size_of(type_id);
    if depth == 0 {
        return;
    }
    let follow = |type_id| walk(symbols, type_id, depth - 1);
    match &*symbols.type_of(type_id) {
        Type::Pointer { target, .. }
        | Type::Reference { target, .. }
        | Type::Typedef { target, .. }
        | Type::Qualified { target, .. } => follow(*target),
        Type::Array { element, .. } => follow(*element),
        Type::Structure { members, .. } => {
            for member in members.iter().take(8) {
                follow(member.type_id);
            }
        }
        Type::Function { returns, .. } => follow(*returns),
        Type::MemberPointer { class, target, .. } => {
            follow(*class);
            follow(*target);
        }
        _ => {}
    }
}

fn look(symbols: &Symbols, pc: Address) {
    let _ = symbols.place(pc);
    let _ = symbols.function_at(pc);
    let _ = symbols.symbol_at(pc);
    let _ = symbols.language_at(Some(pc));
    if let Some(row) = symbols.unwind(pc) {
        for (_, rule) in row.registers {
            let _ = format!("{rule:?}");
        }
    }
    if let Some(base) = symbols.frame_base(pc) {
        let _ = base.operations();
    }
    let scope = symbols.variables_at(pc);
    for variable in scope.arguments.iter().chain(&scope.locals) {
        walk(symbols, variable.type_id, 4);
        let _ = symbols.array_bound(variable.type_id, pc);
        if let VariableLocation::Expression(expression) = &variable.location {
            let _ = expression.operations();
        }
    }
    for name in [
        "total",
        "box",
        "outer::Derived::made",
        "work::calls",
        "mine",
        "values",
        "square",
    ] {
        let _ = symbols.lookup_variable(Some(pc.into()), name);
    }
    for name in [
        "int",
        "outer::Box<long>",
        "Box",
        "struct Derived",
        "handler",
        "outer::Mode",
    ] {
        if let Some(type_id) = symbols.lookup_type(Some(pc.into()), name) {
            walk(symbols, type_id, 4);
        }
    }
    let _ = symbols.lookup_function(Some(pc.into()), "twice");
}

fn ask_everything(bytes: Vec<u8>) {
    let mut symbols = Symbols::new();
    if symbols
        .add_module_bytes(Path::new("damaged"), bytes, 0x1000)
        .is_err()
    {
        return;
    }
    let mut places = Vec::new();
    for location in [
        "main",
        "work",
        "twice",
        "outer::Base::run",
        "small.cpp:20",
        "small.cpp:13",
        "15",
        "*entry+4",
        "small.cpp:entry",
        "nonsense",
    ] {
        if let Ok(found) = symbols.resolve(location, None) {
            places.extend(found.iter().take(2).map(|place| place.address));
        }
    }
    places.truncate(4);
    for place in places {
        look(&symbols, place);
        look(&symbols, place.offset(7));
    }
    let functions = symbols.functions();
    for function in functions.iter().take(2) {
        look(&symbols, function.entry);
    }
    let _ = symbols.files();
    let _ = symbols.markers();
    let mut buffer = [0; 16];
    let _ = symbols.read_only_memory(Address(0x2000), &mut buffer);
}

/// Where the bytes are that are looked at: headers, and all sections with debug information or symbols.
fn interesting(bytes: &[u8]) -> Vec<(usize, usize)> {
    let file = object::File::parse(bytes).expect("the undamaged program is an ELF file");
    let mut ranges = vec![(0, 64 + 13 * 56)];
    for section in file.sections() {
        let name = section.name().unwrap_or("");
        let looked_at =
            name.starts_with(".debug") || name.contains("sym") || name.contains("eh_frame");
        if let (true, Some((start, length))) = (looked_at, section.file_range()) {
            ranges.push((
                usize::try_from(start).expect("small"),
                usize::try_from(length).expect("small"),
            ));
        }
    }
    ranges
}

fn damage(build: Build, cases: usize, seed: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build.run(directory.path());
    let bytes = std::fs::read(&program).expect("the program is there");
    let ranges = interesting(&bytes);
    let mut random = Rng::with_seed(seed);
    // The questions are good ones.
    let mut whole = Symbols::new();
    whole
        .add_module_bytes(Path::new("whole"), bytes.clone(), 0)
        .expect("the undamaged program is read");
    assert!(
        whole
            .resolve("work", None)
            .is_ok_and(|places| !places.is_empty())
    );
    ask_everything(bytes.clone());
    for case in 0..cases {
        let mut damaged = bytes.clone();
        for _ in 0..=random.usize(..4) {
            let (start, length) = ranges[random.usize(..ranges.len())];
            let at = start + random.usize(..length.max(1));
            if let Some(byte) = damaged.get_mut(at) {
                *byte = match random.usize(..4) {
                    0 => 0,
                    1 => 0xff,
                    2 => *byte ^ (1 << random.usize(..8)),
                    _ => random.u8(..),
                };
            }
        }
        if random.usize(..16) == 0 {
            damaged.truncate(random.usize(..bytes.len()));
        }
        let start = Instant::now();
        ask_everything(damaged);
        let took = start.elapsed();
        assert!(
            took < Duration::from_secs(10),
            "case {case} of seed {seed} took {took:?}"
        );
    }
}

#[test]
fn damaged_dwarf_5_does_no_harm() {
    let build = Build {
        compiler: "g++",
        source: "small.cpp",
        options: &["-g", "-O0"],
    };
    damage(build, 1200, 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn damaged_dwarf_4_of_optimized_code_does_no_harm() {
    let build = Build {
        compiler: "g++",
        source: "small.cpp",
        options: &["-g", "-O2", "-gdwarf-4", "-fdebug-types-section"],
    };
    damage(build, 1200, 0xd1b5_4a32_d192_ed03);
}

#[test]
fn damaged_32_bit_program_does_no_harm() {
    let build = Build {
        // Without a library of C++'s, which is not there in 32 bits.
        compiler: "gcc",
        source: "small.cpp",
        options: &["-g", "-O1", "-m32"],
    };
    damage(build, 800, 0x2545_f491_4f6c_dd1d);
}

/// Code whose end, as a length from its start, is no address.
#[test]
fn code_that_reaches_beyond_the_last_address_is_no_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    let source = directory.path().join("program.s");
    // A compilation unit and a function `distant` in it, each with DW_AT_low_pc and DW_AT_high_pc of 8 bytes.
    let text = r#"
        .globl far
far:    .fill 16, 1, 0x90
        .section .debug_abbrev
        .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0
        .byte 2, 0x2e, 0, 3, 8, 0x11, 1, 0x12, 7, 0, 0, 0
        .section .debug_info
        .long end - begin
begin:  .value 4
        .long 0
        .byte 8
        .byte 1
        .quad far, LENGTH
        .byte 2
        .asciz "distant"
        .quad far, LENGTH
        .byte 0
end:
"#;
    for (length, is_code) in [("0x10", true), ("-0x1000", false), ("-1", false)] {
        std::fs::write(&source, text.replace("LENGTH", length)).expect("written");
        let status = std::process::Command::new("gcc")
            .args(["-static", "-nostdlib", "-no-pie", "-Wl,-e,far", "-o"])
            .args([&program, &source])
            .status();
        assert!(status.expect("gcc runs").success());
        let bytes = std::fs::read(&program).expect("the program is there");
        let mut symbols = Symbols::new();
        symbols
            .add_module_bytes(Path::new("program"), bytes.clone(), 0)
            .expect("it is an ELF file");
        assert_eq!(
            symbols.resolve("distant", None).is_ok(),
            is_code,
            "{length}"
        );
        ask_everything(bytes);
    }
}
