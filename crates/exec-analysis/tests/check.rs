//! Faults planted in clean traces are found, each at its line; clean traces have none.

use std::path::Path;

use tracewire_arch::Machine;
use tracewire_exec_analysis::check::{Fault, Finding, LineKind, check};
use tracewire_exec_trace::guess;
use tracewire_exec_trace::text::{Format, TraceText};
use tracewire_sample_machine::{Options, Trace};

fn sample(cpus: u32) -> Vec<u8> {
    let mut text = Vec::new();
    let options = Options {
        cpus,
        footprint: 1 << 16,
        ..Options::default()
    };
    Trace::new(&options).write(&mut text, 2_500_000).unwrap();
    text
}

fn findings(text: &[u8]) -> Vec<Finding> {
    let format = Format::detect(text).unwrap();
    let machine = guess(format, text).map(Machine::of);
    assert!(machine.is_some());
    let report = check(format, text, machine, None);
    assert_eq!(report.count, report.findings.len() as u64);
    report.findings
}

#[test]
fn clean_traces_have_no_fault() {
    assert_eq!(findings(&sample(1)), []);
    assert_eq!(findings(&sample(3)), []);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target-replay/tests/data");
    for name in [
        "aarch64", "arm", "mips", "mipsel", "nios2", "ppc", "riscv32", "riscv64",
    ] {
        let text = TraceText::open(&data.join(format!("{name}.trace.zst"))).unwrap();
        assert_eq!(findings(&text), [], "{name}");
    }
}

/// A trace that ends anywhere, as one of a killed simulator, has one fault, and none where the cut is between lines.
#[test]
fn a_cut_trace_has_one_fault() {
    let whole = sample(1);
    let whole = &whole[..60_000];
    for end in (whole.len() - 2_000)..whole.len() {
        let text = &whole[..end];
        let faults: Vec<_> = findings(text)
            .into_iter()
            .map(|found| found.fault)
            .collect();
        let expected: &[Fault] = if text.ends_with(b"\n") {
            &[]
        } else {
            &[Fault::Cut]
        };
        assert_eq!(faults, expected, "at {end}");
    }
}

/// Instructions of x86 begin at any byte.
#[test]
fn a_jump_to_an_odd_address_is_no_fault() {
    let text = b"0 clk R rax 0000000000000001\n\
        1 clk 0 IT (1) 00000000001000f5 e9b3ffffff A svc : jmp 0x1000ad\n\
        2 clk 0 IT (2) 00000000001000ad 4883c001 A svc : addq $1, %rax\n\
        2 clk R rax 0000000000000002\n";
    assert_eq!(findings(text), []);
}

/// The lines of a trace, their ends included.
fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

fn contains(line: &[u8], what: &str) -> bool {
    String::from_utf8_lossy(line).contains(what)
}

/// The first line in the second half that contains this.
fn place(lines: &[Vec<u8>], what: &str) -> usize {
    let middle = lines.len() / 2;
    middle
        + lines[middle..]
            .iter()
            .position(|line| contains(line, what))
            .expect(what)
}

fn only(text: &[u8]) -> Finding {
    let found = findings(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_load_that_contradicts() {
    // Of words that were stored, and of bytes and half-words of them.
    for what in [" : lw ra,", " : lbu ", " : lh "] {
        let mut lines = lines(&sample(1));
        let at = place(&lines, what) + 1;
        assert!(contains(&lines[at], " MR"));
        let end = lines[at].len() - 2;
        lines[at][end] = if lines[at][end] == b'0' { b'1' } else { b'0' };
        let found = findings(&lines.concat());
        assert!(
            !found.is_empty(),
            "{what} at {at}: {}",
            String::from_utf8_lossy(&lines[at])
        );
        // The same byte may be read again: the fault itself is the first.
        assert_eq!(found[0].line, at as u64 + 1, "{found:#?}");
        assert!(
            matches!(found[0].fault, Fault::Contradiction { .. }),
            "{found:#?}"
        );
        assert!(
            found
                .iter()
                .all(|one| matches!(one.fault, Fault::Contradiction { .. }))
        );
    }
}

#[test]
fn a_program_counter_that_jumps_without_a_branch() {
    let mut lines = lines(&sample(1));
    let at = place(&lines, "sll");
    let at = if at > 0 { place(&lines, " : srl ") } else { at };
    let text = String::from_utf8(lines[at].clone()).unwrap();
    lines[at] = text.replace(" 800010", " 800110").into_bytes();
    let found = findings(&lines.concat());
    let jump = &found[0];
    assert_eq!(jump.line, at as u64 + 1);
    assert!(matches!(jump.fault, Fault::Jump { .. }), "{found:#?}");
    assert!(
        found
            .iter()
            .all(|one| matches!(one.fault, Fault::Jump { .. })),
        "{found:#?}"
    );
    assert!(found.len() <= 2, "{found:#?}");
}

#[test]
fn missing_lines() {
    let whole = lines(&sample(1));
    // An instruction, with its lines or without.
    for count in [1, 2] {
        let mut lines = whole.clone();
        let at = place(&lines, " : addu ");
        assert!(contains(&lines[at + 1], " R "));
        lines.drain(at..at + count);
        let found = findings(&lines.concat());
        let numbers = found
            .iter()
            .find(|one| matches!(one.fault, Fault::Number { .. }))
            .unwrap();
        let Fault::Number { before, now } = numbers.fault else {
            unreachable!()
        };
        assert_eq!(now, before + 2);
        assert!(
            found
                .iter()
                .all(|one| one.line.abs_diff(at as u64 + 1) <= 2),
            "{found:#?}"
        );
    }
    // A register's line, and one of memory.
    for (what, of) in [
        (" : addu t1,", LineKind::Register),
        (" : sw t1,", LineKind::Memory),
        (" : lw t1,", LineKind::Memory),
    ] {
        let mut lines = whole.clone();
        let at = place(&lines, what);
        lines.remove(at + 1);
        let found = findings(&lines.concat());
        let missing = found
            .iter()
            .find(|one| matches!(one.fault, Fault::MissingLine { .. }));
        let missing = missing.unwrap_or_else(|| panic!("{what}: {found:#?}"));
        assert_eq!(missing.line, at as u64 + 1, "{found:#?}");
        assert!(
            matches!(&missing.fault, Fault::MissingLine { of: is, .. } if *is == of),
            "{found:#?}"
        );
    }
}

#[test]
fn time_that_goes_backwards() {
    for (what, from) in [(" : addu ", 0), (" : addu ", 1)] {
        let mut lines = lines(&sample(1));
        let at = place(&lines, what) + from;
        let text = String::from_utf8(lines[at].clone()).unwrap();
        let (_, rest) = text.split_once(' ').unwrap();
        lines[at] = format!("17 {rest}").into_bytes();
        let found = findings(&lines.concat());
        let backwards = found
            .iter()
            .find(|one| matches!(one.fault, Fault::TimeBackwards { .. }));
        assert_eq!(
            backwards.map(|one| one.line),
            Some(at as u64 + 1),
            "{found:#?}"
        );
    }
}

#[test]
fn garbage_and_a_cut() {
    let clean = sample(1);
    let mut lines = lines(&clean);
    let at = place(&lines, " : addu ");
    lines.insert(at, b"\x00\xff@@ not a line\n".to_vec());
    let found = only(&lines.concat());
    assert_eq!(found.line, at as u64 + 1);
    assert!(matches!(found.fault, Fault::Unparsed(_)));

    for cut in [10, 25, 30] {
        let mut text = clean.clone();
        text.truncate(clean.len() - cut);
        let found = findings(&text);
        let last = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        assert!(
            found
                .iter()
                .any(|one| one.fault == Fault::Cut && one.line == last),
            "{found:#?}"
        );
    }
}

#[test]
fn interrupts_are_no_jumps() {
    let mut text = String::new();
    let mut time = 0;
    let mut put = |address: u32, code: u32, name: &str| {
        time += 1;
        text += &format!("{time} clk 0 IT ({time}) {address:08x} {code:08x} A svc : {name}\n");
    };
    put(0x1000, 0x2442_0001, "addiu v0,v0,1");
    for _ in 0..3 {
        put(0x1004, 0x2442_0001, "addiu v0,v0,1");
        put(0x8000_0180, 0x0000_0000, "nop");
        put(0x8000_0184, 0x4200_0018, "eret");
        put(0x1008, 0x1000_fffe, "b 0x1004");
        put(0x100c, 0, "nop");
    }
    put(0x1004, 0x2442_0001, "addiu v0,v0,1");
    // The last one has not come back yet.
    put(0x8000_0180, 0x0000_0000, "nop");
    let report = check(
        Format::Qemu4v,
        text.as_bytes(),
        Some(Machine::of(tracewire_arch::Architecture::Mips)),
        None,
    );
    assert_eq!(report.findings, []);
}
