//! A program that does everything at once, with fast tracepoints that are enabled and disabled while it runs: fifty
//! threads, signals, a library that is loaded and unloaded, children. It computes right to the end, and every frame is
//! whole.
//!
//! `TRACEWIRE_STORM_SECONDS` says how long (`cargo xtask torture storm`).

use std::path::Path;
use std::process::{Command, Stdio};

use tracewire_tracefile::check::Severity;
use tracewire_tracefile::{TraceFile, TracepointNumber};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn compile(folder: &Path, source: &str, output: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/storm")
        .join(source);
    let status = Command::new("cc")
        .args(["-g", "-O2", "-pthread"])
        .args(options)
        .arg("-o")
        .args([&folder.join(output), &source])
        .status()
        .expect("cc is installed");
    assert!(status.success());
}

/// Lets it rage, and gives what GDB said.
fn storm(kind: &str) {
    let setting = |name: &str, default: &str| {
        std::env::var(format!("TRACEWIRE_STORM_{name}")).unwrap_or_else(|_| default.to_owned())
    };
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "storm.c", "storm", &["-fPIE", "-pie"]);
    compile(
        folder.path(),
        "plugin.c",
        "libplugin.so",
        &["-fPIC", "-shared"],
    );
    let server = format!(
        "| {TRACEWIRE} gdbserver --once --files {} - ./storm enough ./libplugin.so",
        folder.path().display()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storm/storm.py");
    let seconds = setting("SECONDS", "4");
    // Whatever goes wrong, the test ends: without GDB its server ends the program.
    let limit = 120 + seconds.parse::<u64>().expect("a number of seconds");
    let mut gdb = Command::new("timeout")
        .args([&limit.to_string(), "gdb"])
        .args(["-nx", "-q", "-x"])
        .arg(script)
        .arg("./storm")
        .current_dir(folder.path())
        .env("DEBUGINFOD_URLS", "")
        .env("STORM_KIND", kind)
        .env("STORM_SERVER", server)
        .env("STORM_SECONDS", seconds)
        .env("STORM_SEED", setting("SEED", "1"))
        // GDB ends when its input does; its input ends when this test does.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gdb is installed");
    let input = gdb.stdin.take();
    let output = gdb.wait_with_output().expect("gdb ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("exit: 0"), "{all}");
    assert!(all.contains(" wrong 0"), "{all}");

    let file = TraceFile::open(folder.path().join("storm.tf")).expect(&all);
    let mut errors = Vec::new();
    tracewire_tracefile::check::check(&file, &|_| Ok(()), &mut |finding| {
        if finding.fault.severity() == Severity::Error {
            errors.push(finding);
        }
    });
    assert_eq!(errors, []);
    let frames_of = |number| {
        let of = |frame: &tracewire_tracefile::Frame<'_>| frame.tracepoint() == number;
        file.frames().filter(of).count()
    };
    let counts: Vec<_> = (2..7)
        .map(|number| frames_of(TracepointNumber(number)))
        .collect();
    assert!(counts.iter().sum::<usize>() > 100, "{counts:?}: {all}");
    let line = |start: &str| {
        all.lines()
            .find(|line| line.starts_with(start))
            .unwrap_or("")
    };
    eprintln!(
        "{kind}: {}; {}; frames in the buffer by tracepoint {counts:?}; {}",
        line("rounds"),
        line("changes"),
        line("Collected"),
    );
}

#[test]
fn jumps_in_a_storm() {
    storm("ftrace");
}

#[test]
fn traps_in_a_storm() {
    storm("trace");
}
