//! Values at trace frames that hold only some of the memory: GDB reads the same frame from a trace file.

use std::collections::BTreeSet;

use tracewire_expr::{CollectOptions, PrintOptions, State, compile_collect, evaluate};
use tracewire_model::{RegisterMask, RegisterNumber};

use crate::collected::{Frame, no_variables, run};
use crate::compare::Stopped;

/// How many bytes each register of GDB's numbering has on x86-64 Linux.
fn size(number: u16) -> usize {
    match number {
        16.. if number < 24 => [8, 4, 4, 4, 4, 4, 4, 4][usize::from(number) - 16],
        24..=31 => 10,
        32..=39 | 56 => 4,
        40..=55 => 16,
        _ => 8,
    }
}

/// A trace file with one frame.
fn trace_file(frame: &Frame<'_>) -> Vec<u8> {
    let mut registers = Vec::new();
    for number in 0..60 {
        let bytes = frame.register(RegisterNumber(number));
        registers.extend(bytes.unwrap_or_else(|| vec![0; size(number)]));
    }
    let mut blocks = Vec::new();
    if frame.registers != RegisterMask::default() {
        blocks.push(b'R');
        blocks.extend(&registers);
    }
    for address in &frame.bytes {
        let (mut byte, mut known) = ([0], [false]);
        frame.memory(tracewire_model::Address(*address), &mut byte, &mut known);
        blocks.push(b'M');
        blocks.extend(address.to_le_bytes());
        blocks.extend(1_u16.to_le_bytes());
        blocks.extend(byte);
    }
    let header = format!(
        "\x7fTRACE0\nR {:x}\nstatus 0;tstop::0;tframes:1;tcreated:1;tfree:100;tsize:100\ntp T1:{:x}:E:0:0\n\n",
        registers.len(),
        frame.pc().0
    );
    let mut file = header.into_bytes();
    file.extend(1_u16.to_le_bytes());
    file.extend(u32::try_from(blocks.len()).unwrap().to_le_bytes());
    file.extend(blocks);
    file.extend(0_u16.to_le_bytes());
    file
}

/// Requires that both print the same at the frame, and gives what that is.
fn same(stopped: &Stopped, frame: &Frame<'_>, expressions: &[&str]) -> Vec<String> {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, trace_file(frame)).unwrap();
    let open = [
        format!("target tfile {}", path.display()),
        "tfind 0".to_owned(),
    ];
    let commands: Vec<String> = (expressions.iter())
        .map(|expression| format!("output {expression}"))
        .collect();
    let theirs = stopped.gdb_after(&open, &commands);
    let ours: Vec<String> = (expressions.iter())
        .map(
            |expression| match evaluate(&stopped.symbols, frame, expression) {
                Ok(value) => value.print(&stopped.symbols, frame, &PrintOptions::default()),
                Err(error) => error.to_string(),
            },
        )
        .collect();
    assert_eq!(ours, theirs, "{expressions:?}");
    ours
}

fn collected<'a>(stopped: &'a Stopped, items: &[&str]) -> Frame<'a> {
    let mut actions = Vec::new();
    for item in items {
        let options = CollectOptions::default();
        let compiled =
            compile_collect(&stopped.symbols, stopped.pc(), item, options, &no_variables);
        actions.extend(compiled.unwrap().0);
    }
    let mut frame = run(&stopped.core, &actions).unwrap();
    frame.registers = RegisterMask::default();
    (0..60).for_each(|number| frame.registers.insert(RegisterNumber(number)));
    frame
}

fn at(mark: &str, hit: u32) -> Stopped {
    let options = ["cc", "-g", "-O2", "-no-pie"];
    Stopped::at("floating.c", &options, mark, hit)
}

/// The stack, from its top on.
fn stack(stopped: &Stopped) -> BTreeSet<u64> {
    let pointer = stopped.core.register(RegisterNumber(7)).unwrap();
    let top = u64::from_le_bytes(pointer.try_into().unwrap());
    (top..top + 512).collect()
}

#[test]
fn what_only_the_caller_knows_is_unavailable_without_it() {
    for (mark, hit) in [
        ("/* called */", 2),
        ("/* passed */", 1),
        ("/* passed */", 2),
    ] {
        let stopped = at(mark, hit);
        let expressions: &[&str] = if mark == "/* called */" {
            &["a", "b", "d", "e", "sum", "whole", "product", "less"]
        } else {
            &["count", "weight", "mark", "weight * 2"]
        };
        let alone = same(&stopped, &collected(&stopped, &[]), expressions);
        assert!(
            alone.iter().any(|text| text == "<unavailable>"),
            "{alone:?}"
        );
        // The caller is found, but not all of the registers that it saved.
        let mut frame = collected(&stopped, &["$_ret"]);
        same(&stopped, &frame, expressions);
        frame.bytes = stack(&stopped);
        same(&stopped, &frame, expressions);
    }
}

#[test]
fn what_no_caller_tells_is_optimized_out() {
    let stopped = at("/* called */", 2);
    let mut frame = collected(&stopped, &["$_ret"]);
    let texts = same(&stopped, &frame, &["a", "sum"]);
    assert!(
        texts.iter().any(|text| text == "<optimized out>"),
        "{texts:?}"
    );
    // Nor is there a caller of a frame whose address is not known.
    frame.registers = RegisterMask::default();
    same(&stopped, &frame, &["a", "c", "d", "sum", "product"]);
    let stopped = at("/* passed */", 1);
    let mut frame = collected(&stopped, &["$_ret"]);
    let known = same(&stopped, &frame, &["count", "weight", "mark"]);
    assert_eq!(known[1], "2.5");
    frame.registers = RegisterMask::default();
    same(&stopped, &frame, &["count", "weight", "mark"]);
}
