//! `find` and `memory` against a list that is gone through by hand.

use std::path::Path;

use tracewire_sample_machine::{DATA, Machine, Step};

use super::{run, sample};

fn numbers(trace: &Path, words: &str) -> Vec<u64> {
    let ran = run(trace, words);
    assert!(
        ran.code == Some(0) || ran.stdout.is_empty(),
        "{words}: {}",
        ran.stderr
    );
    ran.stdout
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

#[test]
fn everything_that_can_be_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, count, options) = sample(&folder, 1, 1_200_000);
    let mut machine = Machine::new(&options);
    let steps: Vec<Step> = (0..count).map(|_| machine.step()).collect();
    let all = |fits: &dyn Fn(&Step) -> bool| -> Vec<u64> {
        let found = steps.iter().zip(0..).filter(|(step, _)| fits(step));
        found.map(|(_, number)| number).collect()
    };
    let touches = |step: &Step, write: bool, first: u32, last: u32| {
        step.access.is_some_and(|access| {
            access.is_write == write
                && access.address <= last
                && access.address + access.size > first
        })
    };
    let mix = machine.program().function("mix").unwrap();
    let (start, end) = (mix.start, mix.end - 1);

    let visits = all(&|step| step.address == start);
    assert!(visits.len() > 200);
    assert_eq!(numbers(&path, &format!("find @ --pc {start:#x}")), visits);
    let inside = all(&|step| (start..=end).contains(&step.address));
    assert_eq!(
        numbers(&path, &format!("find @ --range {start:#x} {end:#x}")),
        inside
    );
    let outside = all(&|step| !(start..=end).contains(&step.address));
    assert_eq!(
        numbers(&path, &format!("find @ --outside {start:#x} {end:#x}")),
        outside
    );

    let word = DATA + 64;
    let writes = all(&|step| touches(step, true, word, word + 3));
    assert!(!writes.is_empty());
    assert_eq!(
        numbers(&path, &format!("find @ --writes {word:#x},4")),
        writes
    );
    let reads = all(&|step| touches(step, false, DATA, DATA + 15));
    assert_eq!(
        numbers(&path, &format!("find @ --reads {DATA:#x},16")),
        reads
    );
    let of_register = all(&|step| {
        step.writes
            .iter()
            .flatten()
            .any(|(number, _)| *number == 31)
    });
    for name in ["r31", "ra", "R31"] {
        assert_eq!(
            numbers(&path, &format!("find @ --register {name}")),
            of_register
        );
    }

    // Before, after, first, last.
    let middle = visits[visits.len() / 2];
    let before = visits.iter().copied().filter(|number| *number < middle);
    let after = visits.iter().copied().filter(|number| *number > middle);
    let find = |words: &str| numbers(&path, &format!("find @ --pc {start:#x} {words}"));
    assert_eq!(
        find(&format!("--before {middle}")),
        before.clone().collect::<Vec<_>>()
    );
    assert_eq!(
        find(&format!("--before {middle} --last")),
        before.clone().next_back().into_iter().collect::<Vec<_>>()
    );
    assert_eq!(
        find(&format!("--after {middle}")),
        after.clone().collect::<Vec<_>>()
    );
    assert_eq!(
        find(&format!("--after {middle} --first")),
        after.take(1).collect::<Vec<_>>()
    );
    assert_eq!(find("--first"), visits[..1]);
    assert_eq!(find("--last"), visits[visits.len() - 1..]);

    // Two things at once, and a line of no source.
    let both = all(&|step| {
        (start..=end).contains(&step.address)
            && step.writes[0].is_some_and(|(number, _)| number == 2)
    });
    assert_eq!(
        numbers(
            &path,
            &format!("find @ --range {start:#x} {end:#x} --register v0")
        ),
        both
    );
    let by_name = numbers(
        &path,
        &format!("find @ --line *mix --elf {}", elf.display()),
    );
    assert_eq!(by_name, visits);

    run(&path, "find @ --pc 0x12345").code(1);
    let object = run(&path, &format!("find @ --pc {start:#x} --first --json"))
        .code(0)
        .json()
        .remove(0);
    assert_eq!(object["instruction"], visits[0]);

    // The history of a location, and of a register.
    let history = run(&path, &format!("memory @ {word:#x},4 --json"))
        .code(0)
        .json();
    let touched =
        all(&|step| touches(step, true, word, word + 3) || touches(step, false, word, word + 3));
    let found: Vec<u64> = history
        .iter()
        .map(|one| one["instruction"].as_u64().unwrap())
        .collect();
    assert_eq!(found, touched);
    let last = run(
        &path,
        &format!("memory @ {word:#x},4 --writes --last 1 --json"),
    )
    .code(0)
    .json();
    assert_eq!(last[0]["instruction"], *writes.last().unwrap());
    let text = run(&path, "memory @ --register sp --first 2")
        .code(0)
        .stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("lui sp"), "{text}");
    run(&path, "memory @ 0x7fff0000,4").code(1);
}

#[test]
fn places_by_name_and_digits_without_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, _, options) = sample(&folder, 1, 300_000);
    let elf = elf.display();
    let mix = tracewire_sample_machine::Program::of(&options)
        .function("mix")
        .unwrap();
    let visits = numbers(&path, &format!("find @ --pc {:#x}", mix.start));
    assert!(visits.len() > 50);
    for place in [
        "mix".to_owned(),
        format!("*{:#x}", mix.start),
        mix.start.to_string(),
    ] {
        assert_eq!(
            numbers(&path, &format!("find @ --pc {place} --elf {elf}")),
            visits
        );
    }
    run(&path, "find @ --pc mix")
        .code(2)
        .says(&["add --elf PROGRAM"]);
    run(&path, &format!("find @ --pc mux --elf {elf}"))
        .code(2)
        .says(&["--pc mux", "did you mean mix"]);
    // Digits that are a decimal number, and were meant as hexadecimal ones.
    let digits = format!("{:x}", mix.start);
    let expected = format!("did you mean {:#x}?", mix.start);
    let said = run(&path, &format!("find @ --pc {digits}"));
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        said.code(1).says(&[&expected]);
    } else {
        said.code(2).says(&[&format!("0x{digits}")]);
    }
    run(&path, "find @ --pc 80001000")
        .code(1)
        .says(&["did you mean 0x80001000?"]);
    run(&path, "find @ --pc 12345").code(1);
}
