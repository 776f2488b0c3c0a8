//! Differences planted in a trace are found where they are; traces that differ in order only have none.

use std::path::Path;

use tracewire_exec_analysis::diff::{Difference, Location, Options, Outcome, diff};
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_sample_machine::{Options as Sample, Trace};

fn lines() -> Vec<String> {
    let mut text = Vec::new();
    let options = Sample {
        footprint: 1 << 16,
        ..Sample::default()
    };
    Trace::new(&options).write(&mut text, 300_000).unwrap();
    String::from_utf8(text)
        .unwrap()
        .lines()
        .map(|line| format!("{line}\n"))
        .collect()
}

fn compare(left: &str, right: &str, options: &Options) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let path = Path::new(folder.path()).join(name);
        std::fs::write(&path, text).unwrap();
        Recording::open(&path, &OpenOptions::default()).unwrap()
    };
    diff(&open("left", left), &open("right", right), options).unwrap()
}

fn place(lines: &[String], what: &str) -> usize {
    let middle = lines.len() / 2;
    middle
        + lines[middle..]
            .iter()
            .position(|line| line.contains(what))
            .unwrap()
}

/// The number of the instruction that the line at an index belongs to.
fn instruction(lines: &[String], at: usize) -> u64 {
    lines[..=at]
        .iter()
        .filter(|line| line.contains(" IT "))
        .count() as u64
        - 1
}

#[test]
fn the_same_has_no_difference() {
    let text = lines().concat();
    let outcome = compare(&text, &text, &Options::default());
    assert_eq!(outcome.differences, []);
    assert!(outcome.compared > 1000);
}

/// Producers differ in what they call a branch that is not taken; a skipped instruction that should write does not.
#[test]
fn skipped_and_not_taken() {
    let text = |branch: &str, add: &str| {
        let mut text = String::new();
        for (time, (how, address, code, what)) in [
            ("IT", 0x21074c, "54000041", ""),
            (branch, 0x210750, "54ffffc1", ""),
            ("IT", 0x210754, "d503201f", ""),
            (add, 0x210758, "e2800001", "R x1 0000000000000001"),
            ("IT", 0x21075c, "d503201f", ""),
        ]
        .into_iter()
        .enumerate()
        {
            text += &format!("{time} clk cpu0 {how} ({time}) {address:016x} {code} O EL1h_n : x\n");
            if how == "IT" && !what.is_empty() {
                text += &format!("{time} clk cpu0 {what}\n");
            }
        }
        text
    };
    let outcome = compare(&text("IT", "IT"), &text("IS", "IT"), &Options::default());
    assert_eq!(outcome.differences, []);
    let outcome = compare(&text("IT", "IT"), &text("IT", "IS"), &Options::default());
    let [(_, Difference::Value { location, .. })] = &outcome.differences[..] else {
        panic!("{outcome:?}");
    };
    assert_eq!(*location, Location::Register("x1".into()));
}

#[test]
fn a_value_that_differs() {
    for (what, is_memory) in [(" : addu t1,", false), (" : sw t1,", true)] {
        let left = lines();
        let mut right = left.clone();
        let at = place(&left, what) + 1;
        let changed = right[at].trim_end().to_owned();
        let (rest, digit) = changed.split_at(changed.len() - 1);
        right[at] = format!("{rest}{}\n", if digit == "0" { "1" } else { "0" });
        let outcome = compare(&left.concat(), &right.concat(), &Options::default());
        let (place, difference) = &outcome.differences[0];
        assert_eq!(place.left.unwrap().0, instruction(&left, at));
        assert_eq!(place.left, place.right);
        let Difference::Value {
            location,
            left: Some(_),
            right: Some(_),
        } = difference
        else {
            panic!("{difference:?}");
        };
        assert_eq!(matches!(location, Location::Memory(_)), is_memory);
        if !is_memory {
            assert_eq!(location.to_string(), "r9");
        }
        assert_eq!(outcome.differences.len(), 1, "{:#?}", outcome.differences);
    }
}

#[test]
fn another_way_and_together_again() {
    let left = lines();
    let mut right = left.clone();
    // Three instructions more in the second trace.
    let at = place(&left, " : mult ");
    let time = left[at].split(' ').next().unwrap();
    for more in [0x9000u32, 0x9004, 0x9008] {
        right.insert(
            at,
            format!("{time} clk 0 IT ({time}) {more:08x} 00000000 A svc : nop\n"),
        );
    }
    let outcome = compare(&left.concat(), &right.concat(), &Options::default());
    let (place, difference) = &outcome.differences[0];
    assert_eq!(place.left.unwrap().0, instruction(&left, at));
    assert!(
        matches!(difference, Difference::Way { right, apart: Some((0, 3)) } if right.0 == 0x9008),
        "{difference:?}"
    );
    assert_eq!(outcome.differences.len(), 1, "{:#?}", outcome.differences);

    // One that never comes together.
    let narrow = Options {
        window: 2,
        ..Options::default()
    };
    let outcome = compare(&left.concat(), &right.concat(), &narrow);
    assert!(matches!(
        outcome.differences[..],
        [(_, Difference::Way { apart: None, .. })]
    ));
}

#[test]
fn a_write_that_only_one_has() {
    let left = lines();
    let mut right = left.clone();
    let at = place(&left, " : addu t1,") + 1;
    right.remove(at);
    let outcome = compare(&left.concat(), &right.concat(), &Options::default());
    let (place, difference) = &outcome.differences[0];
    assert!(
        matches!(difference, Difference::Value { location: Location::Register(name), .. } if name == "r9"),
        "{difference:?}"
    );
    assert_eq!(place.left.unwrap().0, instruction(&left, at));
    assert_eq!(outcome.differences.len(), 1, "{:#?}", outcome.differences);
}

#[test]
fn order_within_the_window_is_no_difference() {
    let left = lines();
    // Whole instructions with their lines, and single lines, in another order: `multu` and the move after it are separate from the
    // previous ones.
    let mut right = left.clone();
    let mut at = 0;
    let mut swapped = 0;
    while at + 8 < right.len() {
        // A register's line is one instruction later, with that one's time.
        let is_plain = right[at].contains(" : srl t0,") && right[at + 1].contains(" R r8 ");
        if is_plain && right[at + 2].contains(" : and t0,") {
            // The write of `srl` is reported after the next instruction's line, before that one's own.
            let time = right[at + 2].split(' ').next().unwrap().to_owned();
            let (_, rest) = right[at + 1].split_once(' ').unwrap();
            let late = format!("{time} {rest}");
            right[at + 1] = right[at + 2].clone();
            right[at + 2] = late;
            swapped += 1;
        }
        at += 1;
    }
    assert!(swapped > 20);
    let outcome = compare(&left.concat(), &right.concat(), &Options::default());
    assert_eq!(outcome.differences, []);

    // Two instructions that have nothing to do with each other.
    let mut right = left.clone();
    let first = place(&left, " : addiu s6,");
    assert!(left[first + 2].contains(" : addu t1,"));
    right.swap(first, first + 2);
    right.swap(first + 1, first + 3);
    let outcome = compare(&left.concat(), &right.concat(), &Options::default());
    assert_eq!(outcome.differences, []);
}

#[test]
fn from_an_address_and_without_a_register() {
    let left = lines();
    let mut right = left.clone();
    // The second trace begins later, and never has one register.
    let start = right
        .iter()
        .position(|line| line.contains(" : mult "))
        .unwrap();
    let address = right[start].split(' ').nth(5).unwrap().to_owned();
    right.drain(..start);
    for line in &mut right {
        if line.contains(" R hi ") {
            let (time, _) = line.split_once(' ').unwrap();
            *line = format!("{time} clk R hi 12345678\n");
        }
    }
    let options = Options {
        from: Some(tracewire_exec_trace::record::Address(
            u64::from_str_radix(&address, 16).unwrap(),
        )),
        ignored: vec!["hi".to_owned()],
        ..Options::default()
    };
    let outcome = compare(&left.concat(), &right.concat(), &options);
    assert_eq!(outcome.differences, []);
    let options = Options {
        ignored: Vec::new(),
        ..options
    };
    assert!(
        !compare(&left.concat(), &right.concat(), &options)
            .differences
            .is_empty()
    );
}

#[test]
fn names_and_widths_may_differ() {
    let left = "1 clk 0 IT (1) 00000004 24080001 A svc : li t0,1\n1 clk R r8 00000001\n2 clk 0 IT (2) 00000008 00000000 A svc : nop\n";
    let right = "7 ns 0 IT (0) 0000000000000004 24080001 A svc : li t0,1\n7 ns R t0 1\n";
    let outcome = compare(left, right, &Options::default());
    let [(place, Difference::End { is_left: false })] = &outcome.differences[..] else {
        panic!("{:#?}", outcome.differences);
    };
    assert_eq!((place.left.unwrap().0, place.right), (1, None));
}
