//! Recorded executions on the command line: `show`, `collect` and `serve` compared with independent logs of real programs.

#[path = "../../target-replay/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use fastrand::Rng;
use support::fixture::{Log, MACHINES, files, unpacked};
use support::naive::Naive;
use tracewire_arch::{Architecture, Machine};
use tracewire_model::{Address, TracepointNumber};
use tracewire_target_replay::Execution;
use tracewire_test_support::{assert_clean, assert_clean_but, is_unreadable};
use tracewire_tracefile::{Search, TraceFile};

fn tracewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tracewire"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn naive(machine: &str) -> Naive {
    let architecture: Architecture = machine.parse().unwrap();
    Naive::new(architecture, &unpacked(machine, "trace"), HashMap::new())
}

fn symbol(machine: &str, name: &str) -> u64 {
    use object::{Object, ObjectSymbol};
    let elf = unpacked(machine, "elf");
    let file = object::File::parse(elf.as_slice()).unwrap();
    file.symbol_by_name(name).unwrap().address()
}

/// A number of 32 bits in memory at an instant, from the log.
fn number(machine: &Machine, log: &Log, instant: u64, address: u64) -> u64 {
    let memory = &log.0[instant as usize].memory;
    let bytes: Vec<u8> = (address..address + 4).map(|at| memory[&at]).collect();
    machine.byte_order().unsigned(&bytes).unwrap()
}

const RANGES: u64 = 20;
const LENGTH: u64 = 50;

/// 1,000 instants each.
#[test]
fn show_says_what_the_log_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in MACHINES {
        let (elf, trace) = files(name, folder.path());
        let machine = Machine::of(name.parse().unwrap());
        let log = Log::of(name);
        let mut addresses: Vec<u64> = log.0[0].memory.keys().copied().collect();
        addresses.sort_unstable();
        let mut random = Rng::with_seed(0x5eed_5eed_5eed_5eed);
        let (mut registers, mut bytes) = (0, 0);
        for _ in 0..RANGES {
            let start = random.u64(..log.0.len() as u64 - LENGTH);
            let address = addresses[random.usize(..addresses.len() - 64)];
            let shown = output(
                tracewire()
                    .args(["show", "--json", "--architecture", name, "--instruction"])
                    .arg(format!("{start}..{}", start + LENGTH))
                    .args(["--memory", &format!("{address:#x},64")])
                    .arg("--elf")
                    .arg(&elf)
                    .arg(&trace),
            );
            assert_eq!(shown.lines().count() as u64, LENGTH, "{name}");
            for (line, instant) in shown.lines().zip(start..) {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["instruction"], instant, "{name}");
                let reported = &log.0[instant as usize];
                for (register, value) in line["registers"].as_object().unwrap() {
                    let parts = machine.locate(register.as_bytes()).unwrap();
                    let place = machine.layout().by_number(parts[0].register).unwrap();
                    let value = value.as_str().unwrap();
                    if let (Some(reported), false) =
                        (reported.registers.get(&place.name), value.contains('?'))
                    {
                        let value = u64::from_str_radix(&value[2..], 16).unwrap();
                        assert_eq!(value, *reported, "{name} {instant} {register}");
                        registers += 1;
                    }
                }
                let memory = &line["memory"][0];
                assert_eq!(memory["address"], format!("{address:#x}"), "{name}");
                let digits = memory["bytes"].as_str().unwrap();
                for (pair, at) in digits.as_bytes().chunks(2).zip(address..) {
                    if let (Some(reported), false) =
                        (reported.memory.get(&at), pair.contains(&b'?'))
                    {
                        let byte =
                            u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
                        assert_eq!(byte, *reported, "{name} {instant} {at:#x}");
                        bytes += 1;
                    }
                }
            }
        }
        assert!(
            registers > 8000 && bytes > 1000,
            "{name}: {registers} {bytes}"
        );
    }
}

#[test]
fn what_is_collected_is_what_the_log_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in MACHINES {
        let (elf, trace) = files(name, folder.path());
        let (naive, log) = (naive(name), Log::of(name));
        let (total, entry) = (symbol(name, "total"), symbol(name, "add"));
        let file = folder.path().join(format!("{name}.tf"));
        let value = if name == "nios2" {
            "*(int *) 0x2000"
        } else {
            "total"
        };
        output(
            tracewire()
                .args(["collect", "--architecture", name])
                .args(["-t", &format!("*{entry:#x} : {value}")])
                .args(["-t", &format!("*{entry:#x} if {value} < 0 : $pc, {value}")])
                .arg("-o")
                .arg(&file)
                .arg("--elf")
                .arg(&elf)
                .arg(&trace),
        );
        let hits: Vec<u64> = (0..naive.instructions())
            .filter(|at| naive.instruction(*at).unwrap().address == Address(entry))
            .collect();
        let numbers: Vec<u64> = hits
            .iter()
            .map(|hit| number(naive.machine(), &log, *hit, total))
            .collect();
        let negative: Vec<u64> = numbers
            .iter()
            .copied()
            .filter(|number| *number >> 31 == 1)
            .collect();
        assert_clean(&file);
        let opened = TraceFile::open(&file).unwrap();
        for (tracepoint, wanted) in [(1, &numbers), (2, &negative)] {
            let collected: Vec<u64> = opened
                .find_all(Search::Tracepoint(TracepointNumber(tracepoint)), None)
                .map(|frame| {
                    let bytes = frame.memory(Address(total), 4).unwrap();
                    naive.machine().byte_order().unsigned(&bytes).unwrap()
                })
                .collect();
            assert_eq!(&collected, wanted, "{name} {tracepoint}");
        }
        in_gdb(name, &elf, &file, value, &numbers);
    }
}

/// GDB finds the same in the file.
fn in_gdb(name: &str, elf: &Path, file: &Path, value: &str, numbers: &[u64]) {
    let gdb = match name {
        "nios2" => match std::env::var("TRACEWIRE_NIOS2_GDB") {
            Ok(gdb) => gdb,
            Err(_) => return,
        },
        _ => "gdb-multiarch".to_owned(),
    };
    let mut command = Command::new(gdb);
    command.args(["-nx", "-batch", "-ex"]);
    command.arg(format!("target tfile {}", file.display()));
    for (index, _) in numbers.iter().enumerate() {
        let find = if index == 0 {
            "tfind start".to_owned()
        } else {
            "tfind tracepoint 1".to_owned()
        };
        command.args(["-ex", &find, "-ex", &format!("printf \"= %u\\n\", {value}")]);
    }
    let said = output(command.arg(elf));
    let reported: Vec<u64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("= ")?.parse().ok())
        .collect();
    assert_eq!(reported, numbers, "{name}: {said}");
}

#[test]
fn gdb_goes_both_ways_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (elf, trace) = files("mips", folder.path());
    let serve = format!(
        "target remote | {} serve - {} --elf {}",
        env!("CARGO_BIN_EXE_tracewire"),
        trace.display(),
        elf.display()
    );
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch", "-ex", &serve]);
    let total = symbol("mips", "total");
    for command in [
        "break choose",
        "continue",
        "bt",
        "delete",
        "watch total",
        "continue",
        "continue",
        "reverse-continue",
        "printf \"= %u\\n\", total",
        "monitor when",
    ] {
        gdb.args(["-ex", command]);
    }
    let said = output(gdb.arg(&elf));
    assert!(said.contains("choose (kind=kind@entry=0)"), "{said}");
    let naive = naive("mips");
    let log = Log::of("mips");
    let entry = symbol("mips", "choose");
    let start = naive.next_visit(Address(entry), 0).unwrap();
    let at = |instant| number(naive.machine(), &log, instant, total);
    let mut changes =
        (start..naive.instructions()).filter(|instant| at(*instant) != at(instant + 1));
    let second = changes.nth(1).unwrap();
    assert!(said.contains(&format!("= {}\n", at(second))), "{said}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (elf, trace) = files("arm", folder.path());
    let refused = |arguments: &[&str], words: &str| {
        let run = tracewire().args(arguments).arg(&trace).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    };
    let (elf, out) = (elf.to_str().unwrap(), folder.path().join("out.tf"));
    let out = out.to_str().unwrap();
    let collect = ["collect", "--elf", elf, "-o", out, "-t"];
    refused(&[&collect[..], &["nowhere"]].concat(), "nowhere");
    refused(&[&collect[..], &["add : nothing"]].concat(), "nothing");
    assert!(!Path::new(out).exists());
}

/// A variable is named by its name, with the program's file.
#[test]
fn memory_is_named_as_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let name = "mips";
    let (elf, trace) = files(name, folder.path());
    let with = |words: &[&str]| {
        output(
            tracewire()
                .args(words)
                .args(["--architecture", name, "--elf"])
                .arg(&elf)
                .arg(&trace),
        )
    };
    let total = symbol(name, "total");
    let by_name = output(
        tracewire()
            .args(["memory", "--writes", "--elf"])
            .arg(&elf)
            .arg(&trace)
            .arg("total"),
    );
    let by_address = output(
        tracewire()
            .args(["memory", "--writes", "--elf"])
            .arg(&elf)
            .arg(&trace)
            .arg(format!("{total:#x},4")),
    );
    assert!(by_name.lines().count() > 10);
    assert_eq!(by_name, by_address);
    assert_eq!(
        with(&["find", "--reads", "total"]),
        with(&["find", "--reads", &format!("{total:#x},4")])
    );
    let shown = with(&["show", "--json", "--instruction", "9", "--memory", "total"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["memory"][0]["address"], format!("{total:#x}"));
    assert_eq!(shown["memory"][0]["bytes"].as_str().unwrap().len(), 8);
    for wrong in ["nothing", "&total", "total,0"] {
        let ran = tracewire()
            .args(["memory", wrong, "--elf"])
            .arg(&elf)
            .arg(&trace)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(2), "{wrong}");
    }
    let info: serde_json::Value = serde_json::from_str(&with(&["info", "--json"])).unwrap();
    let (all, entered) = (&info["functions"], &info["entered_functions"]);
    assert!(entered.as_u64() > Some(1) && entered.as_u64() <= all.as_u64());
}

/// A register that the trace does not show is unavailable.
#[test]
fn registers_that_are_not_known_are_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let name = "mips";
    let (elf, trace) = files(name, folder.path());
    let log = Log::of(name);
    let naive = naive(name);
    let file = folder.path().join("unknown.tf");
    let entry = symbol(name, "add");
    output(
        tracewire()
            .args(["collect", "--architecture", name])
            .args(["-t", &format!("*{entry:#x} : $regs")])
            .arg("-o")
            .arg(&file)
            .arg("--elf")
            .arg(&elf)
            .arg(&trace),
    );
    let hits: Vec<u64> = (0..naive.instructions())
        .filter(|at| naive.instruction(*at).unwrap().address == Address(entry))
        .collect();
    assert_clean(&file);
    let opened = TraceFile::open(&file).unwrap();
    assert_eq!(opened.frame_count(), hits.len() as u64);
    let layout = opened.layout().unwrap();
    let (mut known, mut unknown) = (0, 0);
    for (frame, hit) in opened.frames().zip(&hits) {
        let reported = naive.registers(0, *hit);
        for register in layout.registers() {
            let place = naive.machine().layout().by_number(register.number).unwrap();
            let value = reported.get(place.offset as usize, place.size() as usize);
            let is_constant = register.name == "pc" || register.name == "r0";
            match frame.register(register.number) {
                Some(bytes) if is_constant => assert_eq!(bytes.len(), 4),
                Some(bytes) => {
                    assert_eq!(Some(bytes), value, "{hit} {}", register.name);
                    if let Some(logged) = log.0[*hit as usize].registers.get(&register.name) {
                        let number = frame.register_value(register.number);
                        assert_eq!(number, Some(*logged), "{hit} {}", register.name);
                    }
                    known += 1;
                }
                None => {
                    assert_eq!(value, None, "{hit} {}", register.name);
                    unknown += 1;
                }
            }
        }
    }
    assert!(known > 0 && unknown > 0, "{known} {unknown}");
    let shown = output(tracewire().args(["show", "--frame", "0"]).arg(&file));
    assert!(shown.contains("<unavailable>"), "{shown}");
    assert!(!shown.contains("-2147483648"), "{shown}");
}

/// The trace of a program without its memory accesses, as an emulator's log of registers gives it.
fn without_memory(name: &str, folder: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (elf, trace) = files(name, folder);
    let text = std::fs::read_to_string(&trace).unwrap();
    let kept = text.split_inclusive('\n').filter(|line| {
        !line
            .split(' ')
            .any(|word| word.starts_with("MR") || word.starts_with("MW"))
    });
    std::fs::write(&trace, kept.collect::<String>()).unwrap();
    (elf, trace)
}

/// If a trace has no accesses, the program's writes are unknown: neither `show` nor `collect` nor a debugger uses the file's
/// initial value. Read-only memory is known.
#[test]
fn without_accesses_writable_memory_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    for name in MACHINES.into_iter().filter(|name| *name != "nios2") {
        let (elf, trace) = without_memory(name, folder.path());
        let with = |words: &[&str]| {
            let mut command = tracewire();
            command.args(words).arg("--elf").arg(&elf);
            command.args(["--architecture", name]).arg(&trace);
            command.output().unwrap()
        };
        let (total, code) = (symbol(name, "total"), symbol(name, "add"));
        let shown = with(&[
            "show",
            "--json",
            "--instruction",
            "0..40",
            "--memory",
            &format!("{total:#x},4"),
            "--memory",
            &format!("{code:#x},4"),
        ]);
        let said = String::from_utf8_lossy(&shown.stderr);
        let note = "the trace reports no memory accesses: writable memory is unavailable";
        assert_eq!(said.matches(note).count(), 1, "{name}: {said}");
        let lines = String::from_utf8(shown.stdout).unwrap();
        let lines: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 40, "{name}");
        let bytes = |at: usize, part: usize| lines[at]["memory"][part]["bytes"].as_str().unwrap();
        for at in 1..40 {
            assert_eq!(bytes(at, 0), "????????", "{name} {at}");
            assert_eq!(bytes(at, 1), bytes(0, 1), "{name} {at}");
            assert!(!bytes(at, 1).contains('?'), "{name} {at}");
        }
        // Nothing was executed yet: the file's value.
        assert!(!bytes(0, 0).contains('?'), "{name}");

        let info = with(&["info", "--json"]).stdout;
        let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
        assert_eq!(info["reported_writes"], "none", "{name}");
        let info = with(&["info"]).stdout;
        assert!(String::from_utf8_lossy(&info).contains(note), "{name}");
        let checked = with(&["check", "--json"]).stdout;
        let checked = String::from_utf8_lossy(&checked).into_owned();
        assert!(
            checked.contains(note) && checked.contains("\"warning\""),
            "{name}: {checked}"
        );

        let file = folder.path().join("without.tf");
        let mut collect = tracewire();
        collect
            .args(["collect", "--architecture", name, "-t"])
            .arg(format!("*{code:#x} : total, *(unsigned *) {code:#x}"))
            .arg("-o")
            .arg(&file)
            .arg("--elf")
            .arg(&elf)
            .arg(&trace);
        let said = String::from_utf8_lossy(&collect.output().unwrap().stderr).into_owned();
        assert!(said.contains("values are not known"), "{name}: {said}");
        // The values that are not known are missing from its frames.
        assert_clean_but(&file, is_unreadable);
        let opened = TraceFile::open(&file).unwrap();
        assert!(opened.frame_count() > 0, "{name}");
        for frame in opened.frames() {
            assert_eq!(frame.memory(Address(total), 4), None, "{name}");
            assert!(frame.memory(Address(code), 4).is_some(), "{name}");
        }

        let mut gdb = Command::new("gdb-multiarch");
        gdb.args(["-nx", "-batch", "-ex"]);
        gdb.arg(format!(
            "target remote | {} serve - {} --architecture {name} --elf {}",
            env!("CARGO_BIN_EXE_tracewire"),
            trace.display(),
            elf.display()
        ));
        for command in [
            "print total",
            &format!("break *{code:#x}"),
            "continue",
            "print total",
            "x/i $pc",
            "delete",
            "continue",
            "print total",
        ] {
            gdb.args(["-ex", command]);
        }
        let ran = gdb.arg(&elf).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout).into_owned()
            + &String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("$1 = "), "{name}: {said}");
        assert!(!said.contains("$2 = "), "{name}: {said}");
        assert_eq!(
            said.matches("Cannot access memory").count(),
            2,
            "{name}: {said}"
        );
    }
}

/// GDB accepts a variable with any name; that one has no meaning here is reported, in a session and by `collect`.
#[test]
fn a_variable_with_a_meaning_elsewhere_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let (elf, trace) = files("mips", folder.path());
    let entry = symbol("mips", "add");
    let script = folder.path().join("script.gdb");
    let words = format!(
        "tvariable $kret\ntvariable $seen\ntrace *{entry:#x}\nactions\nteval $kret = 0\nteval $seen = 1\nend\n"
    );
    std::fs::write(&script, words).unwrap();
    let file = folder.path().join("out.tf");
    let collected = tracewire()
        .args(["collect", "--architecture", "mips", "-x"])
        .args([&script, Path::new("-o"), &file, Path::new("--elf")])
        .args([&elf, &trace])
        .output()
        .unwrap();
    assert_clean(&file);
    let served = Command::new("gdb-multiarch")
        .args(["-nx", "-batch", "-ex"])
        .arg(format!(
            "target remote | {} serve - {} --elf {}",
            env!("CARGO_BIN_EXE_tracewire"),
            trace.display(),
            elf.display()
        ))
        .args(["-x", script.to_str().unwrap()])
        .args(["-ex", "tstart", "-ex", "continue", "-ex", "tstatus"])
        .arg(&elf)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&served.stdout);
    assert!(said.contains("trace frames"), "{said}");
    for output in [collected, served] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let warning = "$kret is a plain variable here, with no effect; to KGTP it puts the tracepoint at the function's return";
        assert!(said.contains(warning), "{said}");
        assert_eq!(said.matches("plain variable").count(), 1, "{said}");
    }
}
