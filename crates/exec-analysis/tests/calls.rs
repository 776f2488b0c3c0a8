//! The tree of calls, compared with a count from the machine's own stack.

use std::collections::HashMap;
use std::path::PathBuf;

use tracewire_arch::{Architecture, Machine};
use tracewire_debuginfo::Symbols;
use tracewire_exec_analysis::calls::CallTree;
use tracewire_exec_analysis::coverage::Coverage;
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_sample_machine::{Machine as Sample, Options, Program, Trace};

struct Files {
    _folder: tempfile::TempDir,
    trace: PathBuf,
    elf: PathBuf,
    instructions: u64,
    options: Options,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        footprint: 1 << 16,
        ..Options::default()
    };
    let (trace, elf) = (folder.path().join("s.trace"), folder.path().join("s.elf"));
    let mut text = Vec::new();
    let mut made = Trace::new(&options);
    made.write(&mut text, 2_500_000).unwrap();
    std::fs::write(&trace, text).unwrap();
    std::fs::write(&elf, Program::of(&options).elf(&options)).unwrap();
    Files {
        _folder: folder,
        trace,
        elf,
        instructions: made.instructions(),
        options,
    }
}

/// For each function: calls, own instructions, instructions while it is on the stack.
type Counts = HashMap<String, (u64, u64, u64)>;

/// The machine's own state: at a function's first instruction its stack pointer identifies the frame. The frame ends when the
/// program counter reaches the return address with that stack pointer.
fn independent(files: &Files) -> (Counts, HashMap<String, u64>) {
    let mut machine = Sample::new(&files.options);
    let mut counts = Counts::new();
    let mut folded: HashMap<String, u64> = HashMap::new();
    let functions = machine.program().functions().to_vec();
    let name_at = |address: u32| {
        functions
            .iter()
            .find(|one| (one.start..one.end).contains(&address))
            .map(|one| one.name)
            .unwrap()
    };
    // Name, stack pointer, return address.
    let mut stack: Vec<(&str, u32, u32)> = vec![("_start", 0, 0)];
    counts.entry("_start".into()).or_default().0 += 1;
    for _ in 0..files.instructions {
        let pc = machine.program_counter();
        let (sp, ra) = (machine.register(29), machine.register(31));
        while stack.len() > 1 && stack.last().is_some_and(|top| top.2 == pc && top.1 == sp) {
            stack.pop();
        }
        if name_at(pc) != "_start" && functions.iter().any(|one| one.start == pc)
            // A loop may come to the first instruction, too.
            && stack.last().is_none_or(|top| (top.1, top.2) != (sp, ra))
        {
            stack.push((name_at(pc), sp, ra));
            counts.entry(name_at(pc).into()).or_default().0 += 1;
        }
        let mut seen: Vec<&str> = stack.iter().map(|frame| frame.0).collect();
        *folded.entry(seen.join(";")).or_default() += 1;
        counts.entry((*seen.last().unwrap()).into()).or_default().1 += 1;
        seen.sort_unstable();
        seen.dedup();
        for name in seen {
            counts.entry(name.into()).or_default().2 += 1;
        }
        machine.step();
    }
    (counts, folded)
}

#[test]
fn calls_profile_and_stacks_are_those_of_the_machine() {
    let files = files();
    let recording = Recording::open(&files.trace, &OpenOptions::default()).unwrap();
    let mut symbols = Symbols::new();
    symbols.add_module(&files.elf, 0).unwrap();
    let machine = Machine::of(Architecture::Mips);
    let tree = CallTree::of(&recording, machine, Some(&symbols), 0..u64::MAX).unwrap();
    assert_eq!(tree.instructions(), files.instructions);
    let (counts, folded) = independent(&files);
    let found: Counts = tree
        .profile()
        .into_iter()
        .map(|one| (one.function, (one.calls, one.own, one.total)))
        .collect();
    assert_eq!(found, counts);
    assert!(counts["fib"].0 > 60 && counts["fib"].2 == counts["fib"].1);

    let mut out = Vec::new();
    tree.write_folded(&mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let found: HashMap<String, u64> = out
        .lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            (stack.to_owned(), count.parse().unwrap())
        })
        .collect();
    assert_eq!(found, folded);
    assert!(found.keys().any(|stack| stack.contains("fib;fib;fib;fib")));

    let mut text = Vec::new();
    tree.write_text(&mut text, 3, 0).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().nth(1).unwrap().ends_with("  _start"), "{text}");
    assert!(text.contains("    scatter\n"), "{text}");
    let total: u64 = tree.json().map(|one| one["own"].as_u64().unwrap()).sum();
    assert_eq!(total, files.instructions);
}

#[test]
fn without_symbols_functions_have_addresses() {
    let files = files();
    let recording = Recording::open(&files.trace, &OpenOptions::default()).unwrap();
    let machine = Machine::of(Architecture::Mips);
    let tree = CallTree::of(&recording, machine, None, 0..u64::MAX).unwrap();
    let fib = Program::of(&files.options).function("fib").unwrap();
    let profile = tree.profile();
    let found = profile
        .iter()
        .find(|one| one.address.0 == u64::from(fib.start))
        .unwrap();
    assert_eq!(found.function, format!("{:#x}", fib.start));
    let (counts, _) = independent(&files);
    assert_eq!((found.calls, found.own, found.total), counts["fib"]);
}

#[test]
fn coverage_counts_every_address() {
    let files = files();
    let recording = Recording::open(&files.trace, &OpenOptions::default()).unwrap();
    let coverage = Coverage::of(&recording, 0..u64::MAX).unwrap();
    let mut machine = Sample::new(&files.options);
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for _ in 0..files.instructions {
        *counts.entry(u64::from(machine.step().address)).or_default() += 1;
    }
    let found: HashMap<u64, u64> = coverage
        .instructions
        .iter()
        .map(|(address, one)| (*address, one.count))
        .collect();
    assert_eq!(found, counts);
    let mut symbols = Symbols::new();
    symbols.add_module(&files.elf, 0).unwrap();
    let mut text = Vec::new();
    coverage.write_annotated(Some(&symbols), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("mix: 16 of 16 bytes executed (100 %)"),
        "{text}"
    );
    // The endless loop after the call of `main` is never reached.
    assert!(text.contains("  … 8 bytes"), "{text}");
}

/// A label is no function, but where it is called; a function needs no size.
#[test]
fn labels_are_no_functions() {
    let source = "\
        .text\n\
        .globl _start\n.type _start, %function\n\
        _start: nop\n\
        loopstart: nop\n\
        nop\n\
        b.ne loopstart\n\
        loopend: bl called\n\
        bl sizeless\n\
        0: b 0b\n\
        .size _start, . - _start\n\
        called: nop\n\
        again: nop\n\
        cbnz x0, again\n\
        ret\n\
        .globl sizeless\n.type sizeless, %function\n\
        sizeless: nop\n\
        ret\n";
    let folder = tempfile::tempdir().unwrap();
    let (assembler, elf) = (folder.path().join("x.s"), folder.path().join("x"));
    std::fs::write(&assembler, source).unwrap();
    let built = std::process::Command::new("clang")
        .args(["--target=aarch64-none-elf", "-nostdlib", "-static"])
        .args(["-fuse-ld=lld", "-Wl,--image-base=0x10000"])
        .arg("-o")
        .args([&elf, &assembler])
        .status();
    assert!(built.expect("clang is installed").success());
    let mut symbols = Symbols::new();
    symbols.add_module(&elf, 0).unwrap();
    let start = symbols.resolve("_start", None).unwrap()[0].address.0;

    // Instructions by their offsets, with their codes.
    let codes = [
        "d503201f", "d503201f", "d503201f", "54ffffc1", "94000003", "94000006", "14000000",
        "d503201f", "d503201f", "b5ffffe0", "d65f03c0", "d503201f", "d65f03c0",
    ];
    let row = [
        0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 7, 8, 9, 8, 9, 10, 5, 11, 12, 6,
    ];
    let mut text = String::new();
    for (time, at) in (1..).zip(row) {
        let (address, code) = (start + at * 4, codes[at as usize]);
        text += &format!("{time} clk 0 IT ({time}) {address:016x} {code} O EL1h_n : x\n");
    }
    let trace = folder.path().join("x.trace");
    std::fs::write(&trace, text).unwrap();
    let recording = Recording::open(&trace, &OpenOptions::default()).unwrap();
    assert_eq!(recording.len(), row.len() as u64);
    let machine = Machine::of(Architecture::Aarch64);
    let tree = CallTree::of(&recording, machine, Some(&symbols), 0..u64::MAX).unwrap();
    let mut folded = Vec::new();
    tree.write_folded(&mut folded).unwrap();
    let mut folded: Vec<&str> = std::str::from_utf8(&folded).unwrap().lines().collect();
    folded.sort_unstable();
    assert_eq!(
        folded,
        ["_start 13", "_start;called 6", "_start;sizeless 2"]
    );
}

/// `mov lr, pc` and a jump are a call, with registers in the trace or without; a jump by a link register that was
/// computed is none that returns.
#[test]
fn calls_and_jumps_by_the_link_register() {
    let text = "\
        1 clk IT (1) 00008000 e1a0e00f A svc_s : MOV lr,pc\n\
        1 clk R r14_svc 00008008\n\
        2 clk IT (2) 00008004 e12fff13 A svc_s : BX r3\n\
        3 clk IT (3) 00009000 e3a00001 A svc_s : MOV r0,#1\n\
        4 clk IT (4) 00009004 e12fff1e A svc_s : BX lr\n\
        5 clk IT (5) 00008008 e1a00000 A svc_s : NOP\n\
        6 clk IT (6) 0000800c e1a0e00f A svc_s : MOV lr,pc\n\
        6 clk R r14_svc 00008014\n\
        7 clk IT (7) 00008010 e59ff000 A svc_s : LDR pc,[pc,#0]\n\
        7 clk MR4 00008018 00009000\n\
        8 clk IT (8) 00009000 e3a00001 A svc_s : MOV r0,#1\n\
        9 clk IT (9) 00009004 e12fff1e A svc_s : BX lr\n\
        10 clk IT (10) 00008014 e28fe010 A svc_s : ADD lr,pc,#16\n\
        10 clk R r14_svc 0000802c\n\
        11 clk IT (11) 00008018 e12fff1e A svc_s : BX lr\n\
        12 clk IT (12) 0000802c e1a00000 A svc_s : NOP\n";
    let without: String = (text.lines())
        .filter(|line| line.contains(" IT "))
        .map(|line| format!("{line}\n"))
        .collect();
    for text in [text, &without] {
        let options = OpenOptions {
            architecture: Some(Architecture::Arm),
            ..OpenOptions::default()
        };
        let recording = Recording::of_text(text.as_bytes(), &options).unwrap();
        let machine = Machine::of(Architecture::Arm);
        let tree = CallTree::of(&recording, machine, None, 0..u64::MAX).unwrap();
        let mut folded = Vec::new();
        tree.write_folded(&mut folded).unwrap();
        let folded = String::from_utf8(folded).unwrap();
        assert_eq!(folded, "0x8000 8\n0x8000;0x9000 4\n", "{text}");
        assert_eq!(tree.nodes()[1].calls, 2);
    }
}

/// A program that is restarted, without a note in the trace, is another root, and the rows of calls do not grow.
#[test]
fn a_restarted_program_nests_no_deeper() {
    // _start calls main, which calls exit, which asks the host to end, from where the program begins again.
    let round = [
        (0x8000u64, "94000010"),
        (0x8040, "94000010"),
        (0x8080, "d45e0000"),
    ];
    let mut text = String::new();
    for at in 0..3000u64 {
        let (address, code) = round[(at % 3) as usize];
        text += &format!("{at} clk 0 IT ({at}) {address:016x} {code} O EL1h_n : x\n");
    }
    let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default()).unwrap();
    let machine = Machine::of(Architecture::Aarch64);
    let tree = CallTree::of(&recording, machine, None, 0..u64::MAX).unwrap();
    let mut folded = Vec::new();
    tree.write_folded(&mut folded).unwrap();
    assert_eq!(
        String::from_utf8(folded).unwrap(),
        "0x8000 1000\n0x8000;0x8040 1000\n0x8000;0x8040;0x8080 1000\n"
    );
    assert_eq!(tree.nodes()[0].calls, 1000);
}
