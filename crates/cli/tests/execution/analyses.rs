//! `calls`, `profile`, `coverage`, `diff` and `check` as commands.

use std::path::{Path, PathBuf};

use super::{run, sample, trace};

#[test]
fn functions() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, count, _) = sample(&folder, 1, 1_200_000);
    let elf = elf.display();
    let calls = run(&path, &format!("calls @ --elf {elf}")).code(0).stdout;
    let names: Vec<&str> = calls
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().last().unwrap())
        .collect();
    assert_eq!(&names[..2], ["_start", "main"], "{calls}");
    assert!(
        names.iter().filter(|name| **name == "fib").count() >= 5,
        "{calls}"
    );
    let shallow = run(&path, &format!("calls @ --elf {elf} --depth 1 --json"))
        .code(0)
        .json();
    assert_eq!(shallow.len(), 2);
    assert_eq!(shallow[0]["instructions"], count);
    let folded = run(&path, &format!("calls @ --elf {elf} --folded"))
        .code(0)
        .stdout;
    let total: u64 = folded
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, count);
    assert!(folded.contains("_start;main;scatter;mix "), "{folded}");

    let profile = run(&path, &format!("profile @ --elf {elf} --json"))
        .code(0)
        .json();
    let own: u64 = profile.iter().map(|one| one["own"].as_u64().unwrap()).sum();
    assert_eq!(own, count);
    let text = run(&path, &format!("profile @ --elf {elf}")).code(0).stdout;
    assert!(text.contains("scatter") && text.contains('%'), "{text}");

    let coverage = run(&path, &format!("coverage @ --elf {elf}"))
        .code(0)
        .stdout;
    assert!(
        coverage.contains("mix: 16 of 16 bytes executed (100 %)"),
        "{coverage}"
    );
    run(&path, &format!("coverage @ --elf {elf} --lcov"))
        .code(2)
        .says(&["no line numbers"]);
    run(&path, "coverage @ --lcov").code(2).says(&["--elf"]);
}

/// The program of the recordings, and what it executed on AArch64.
fn real_program(folder: &Path) -> (PathBuf, PathBuf) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target-replay/tests/data");
    let elf = folder.join("p.elf");
    let packed = std::process::Command::new("zstd")
        .args(["-dqf", "-o"])
        .arg(&elf)
        .arg(data.join("aarch64.elf.zst"))
        .status()
        .unwrap();
    assert!(packed.success());
    // No index is written beside the fixtures.
    let path = folder.join("aarch64.trace.zst");
    std::fs::copy(data.join("aarch64.trace.zst"), &path).unwrap();
    (elf, path)
}

/// A single call is at the line that makes it, at the time of the function's first instruction.
#[test]
fn single_calls_have_times_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (elf, path) = real_program(folder.path());
    let source = include_str!("../../../target-replay/tests/programs/program.c");
    let source: Vec<&str> = source.lines().collect();
    let calls = run(
        &path,
        &format!("calls @ --list --json --elf {}", elf.display()),
    );
    let calls = calls.code(0).json();
    let table = run(&path, &format!("calls @ --list --elf {}", elf.display()));
    let table = table.code(0).stdout;
    let instructions = run(&path, "show @ --json").code(0).json();
    let mut lines = 0;
    for (call, row) in calls.iter().zip(table.lines().skip(1)) {
        let executed = &instructions[call["instruction"].as_u64().unwrap() as usize];
        assert_eq!(call["time"], format!("{} clk", executed["time"]), "{call}");
        assert!(row.contains(call["time"].as_str().unwrap()), "{row}");
        // What `_start` calls has no line.
        let Some(line) = call["line"].as_u64() else {
            continue;
        };
        lines += 1;
        let name = call["function"].as_str().unwrap();
        let text = source[line as usize - 1];
        // Or by a pointer.
        let is_here = [name, "chosen"]
            .iter()
            .any(|name| text.contains(&format!("{name}(")));
        assert!(is_here, "{call}: {text}");
        assert!(row.ends_with(&format!(" at program.c:{line}")), "{row}");
    }
    assert!(calls.len() > 200 && lines + 2 == calls.len(), "{lines}");
}

#[test]
fn lines_of_a_real_program() {
    let folder = tempfile::tempdir().unwrap();
    let (elf, path) = real_program(folder.path());
    let lcov = run(&path, &format!("coverage @ --lcov --elf {}", elf.display()))
        .code(0)
        .stdout;
    let calls = run(&path, &format!("calls @ --json --elf {}", elf.display()))
        .code(0)
        .json();
    for name in ["main", "fibonacci", "sort"] {
        let entered: u64 = calls
            .iter()
            .filter(|one| one["function"] == name)
            .map(|one| one["calls"].as_u64().unwrap())
            .sum();
        assert!(
            lcov.contains(&format!("FNDA:{entered},{name}\n")),
            "{name} {entered}\n{lcov:.1000}"
        );
    }
    assert!(lcov.contains("DA:") && lcov.contains("end_of_record"));
}

#[test]
fn faults_and_differences() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, _, _) = sample(&folder, 1, 100_000);
    run(&path, "check @").code(0).says(&["0 faults"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let planted = text.replacen("500 clk R ", "500 clk Q ", 1);
    assert_ne!(planted, text);
    let broken = trace(&folder, &planted);
    let found = run(&broken, "check --json @").code(1).json();
    let line = planted
        .lines()
        .position(|line| line.starts_with("500 clk Q"))
        .unwrap()
        + 1;
    let garbage = found.iter().find(|one| one["line"] == line).unwrap();
    assert_eq!(garbage["severity"], "error");
    let message = garbage["message"].as_str().unwrap();
    assert!(
        message.contains("expected a cpu number, MR, MW or R"),
        "{message}"
    );
    let shown = run(&broken, "check @").code(1).stdout;
    assert!(shown.contains("^ expected"), "{shown}");

    run(&path, &format!("diff @ {}", path.display())).code(0);
    let outcome = run(&path, &format!("diff @ {} --json", broken.display()))
        .code(1)
        .json();
    assert_eq!(outcome[0]["kind"], "value");
    assert!(outcome[0].get("right").is_none());
    run(&path, "diff @ /nonexistent").code(2);
    run(&path, "calls /dev/null")
        .code(2)
        .says(&["it is a device"]);
}

/// Addresses of Thumb code are even, its symbols are not.
#[test]
fn thumb() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thumb.trace.zst");
    std::fs::copy(tracewire_test_support::sample("thumb.trace.zst"), &path).unwrap();
    let elf = tracewire_test_support::sample("thumb.elf");
    let elf = elf.display();

    let shown = run(&path, &format!("show @ --elf {elf} --instruction 0..8"));
    let places: Vec<String> = (shown.code(0).stdout.lines())
        .filter_map(|line| Some(line.split_once('<')?.1.split_once('>')?.0.to_owned()))
        .collect();
    let wanted = [
        "_start+0", "main+0", "main+2", "main+4", "main+6", "main+8", "sort+0", "sort+4",
    ];
    assert_eq!(places, wanted);

    let coverage = run(&path, &format!("coverage @ --elf {elf}")).code(0);
    let executed: Vec<&str> = (coverage.stdout.lines())
        .filter(|line| line.contains("bytes executed"))
        .collect();
    let wanted = [
        "_start: 6 of 8 bytes executed (75 %)",
        "cmp: 8 of 8 bytes executed (100 %)",
        "sort: 158 of 164 bytes executed (96 %)",
        "fact: 24 of 24 bytes executed (100 %)",
        "memcpy: 0 of 22 bytes executed (0 %)",
        "main: 80 of 102 bytes executed (78 %)",
    ];
    assert_eq!(executed, wanted);

    let out = folder.path().join("out.tf");
    let collected = run(
        &path,
        &format!("collect @ -t fact --elf {elf} -o {}", out.display()),
    );
    let said = collected.code(0).stderr;
    assert!(said.contains("tracepoint 1 at 0x100b4 in fact"), "{said}");
    assert!(said.contains("15 hits, 15 frames"), "{said}");
    assert_eq!(said.matches("tracepoint").count(), 1, "{said}");
    tracewire_test_support::assert_clean(&out);

    let profile = run(&path, &format!("profile @ --json --elf {elf}")).code(0);
    let calls: Vec<(String, u64)> = (profile.json().iter())
        .map(|one| {
            let name = one["function"].as_str().unwrap().to_owned();
            (name, one["calls"].as_u64().unwrap())
        })
        .collect();
    let wanted = [
        ("sort", 1),
        ("fact", 15),
        ("main", 1),
        ("cmp", 10),
        ("_start", 1),
    ];
    let wanted = wanted.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(calls, wanted);
}

#[test]
fn single_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elf, count, _) = sample(&folder, 2, 600_000);
    let elf = elf.display();
    let listed = run(&path, &format!("calls @ --elf {elf} --list --json"))
        .code(0)
        .json();
    let profile = run(&path, &format!("profile @ --elf {elf} --json"))
        .code(0)
        .json();
    for one in &profile {
        let of = listed
            .iter()
            .filter(|call| call["function"] == one["function"]);
        assert_eq!(of.count() as u64, one["calls"].as_u64().unwrap(), "{one}");
    }
    // What is listed is what `show` has there.
    for call in listed.iter().step_by(97) {
        let number = &call["instruction"];
        let shown = run(&path, &format!("show @ --json --instruction {number}"));
        let shown = &shown.code(0).json()[0];
        assert_eq!(shown["pc"], call["address"]);
        assert_eq!(shown["cpu"], call["cpu"]);
        assert!(number.as_u64().unwrap() < count);
        assert_eq!(call["depth"] == 0, call.get("caller").is_none(), "{call}");
    }
    let mix = run(&path, &format!("calls @ --elf {elf} --list mix"))
        .code(0)
        .stdout;
    assert!(mix.lines().count() > 60, "{mix}");
    assert!(
        mix.lines().skip(1).all(|line| line.contains("  mix from ")),
        "{mix}"
    );
    run(&path, &format!("calls @ --elf {elf} --list nothing"))
        .code(1)
        .says(&["no call of nothing"]);
}
