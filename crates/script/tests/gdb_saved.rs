//! Scripts written by GDB's `save tracepoints` are accepted unchanged, and have the definitions that GDB had.

use std::fs;
use std::path::Path;
use std::process::Command;

use tracewire_script::{Script, ScriptActionKind, ScriptTracepointKind};

/// The file that GDB saves after the commands, read as a script.
fn saved(directory: &Path, commands: &str) -> (String, Script) {
    let program = directory.join("sample");
    let built = Command::new("cc")
        .args(["-g", "-O0", "-o"])
        .arg(&program)
        .arg(tracewire_test_support::sample("sample.c"))
        .status()
        .expect("cc runs");
    assert!(built.success());
    let saved = directory.join("saved.gdb");
    let session = directory.join("session.gdb");
    // Without a target that can collect strings, GDB refuses `collect/s`.
    let text = format!(
        "set pagination off\nset confirm off\nset sysroot\ntarget remote | gdbserver --once - {}\n{commands}\n\
         save tracepoints {}\nkill\n",
        program.display(),
        saved.display(),
    );
    fs::write(&session, text).expect("a script can be written");
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(&session)
        .arg(&program)
        .output()
        .expect("gdb runs");
    let text = fs::read_to_string(&saved)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let mut script = Script::new();
    script
        .read_file(&saved)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, script)
}

#[test]
fn everything_that_gdb_saves() {
    let directory = tempfile::tempdir().expect("a directory");
    let (text, script) = saved(
        directory.path(),
        "tvariable $hits = 0\ntvariable $neg = -5\nbreak main\ntrace handle if depth < 3\nactions\n  \
         collect $regs, $args, $locals, total\n  # a comment\n\n  collect *j, j->name\n  \
         teval $hits = $hits + 1\n  collect/s80 j->name\n  ws 2\n    collect $regs, score\n    \
         collect j->name[0]\n  end\nend\npasscount 100\ntrace sample.c:14\nactions\ncollect/s j->name\nstepping 3\n\
         col $locals\nend\nend\ndisable $bpnum\ntrace -function main -line 28 if sum == 2\n\
         tp -source sample.c -line 12\ntrace *handle\ncondition 3 depth == 1\nset default-collect $regs, total",
    );
    let names: Vec<_> = script
        .variables
        .iter()
        .map(|v| (v.name.as_str(), v.initial))
        .collect();
    assert_eq!(names, [("hits", 0), ("neg", -5)], "{text}");
    let locations: Vec<_> = script
        .tracepoints
        .iter()
        .map(|t| t.location.text())
        .collect();
    assert_eq!(
        locations,
        [
            "handle",
            "sample.c:14",
            "-function main -line 28",
            "-source sample.c -line 12",
            "*handle"
        ]
    );
    let numbers: Vec<_> = script.tracepoints.iter().map(|t| t.number.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let [first, second, third, ..] = &script.tracepoints[..] else {
        panic!("{script:?}")
    };
    assert_eq!(first.pass_count, 100);
    assert_eq!(
        first.condition.as_ref().map(|c| c.text()),
        Some("depth < 3")
    );
    assert_eq!(first.step_count(), 2);
    assert_eq!(
        first.command_lines(),
        [
            "collect $regs, $args, $locals, total",
            "collect *j, j->name",
            "teval $hits = $hits + 1",
            "collect/s80 j->name",
            "ws 2",
            "collect $regs, score",
            "collect j->name[0]",
            "end",
        ]
    );
    assert!(first.enabled);
    assert!(!second.enabled);
    assert_eq!(
        second.condition.as_ref().map(|c| c.text()),
        Some("depth == 1")
    );
    assert_eq!(
        second.command_lines(),
        ["collect/s j->name", "stepping 3", "col $locals", "end"]
    );
    assert_eq!(third.condition.as_ref().map(|c| c.text()), Some("sum == 2"));
    let default = script.settings.default_collect.expect("default-collect");
    let ScriptActionKind::Collect { items, .. } = &default.kind else {
        panic!("{default:?}")
    };
    assert_eq!(
        items.iter().map(|item| item.text()).collect::<Vec<_>>(),
        ["$regs", "total"]
    );
}

#[test]
fn fast_static_and_unknown_places() {
    let directory = tempfile::tempdir().expect("a directory");
    let (text, script) = saved(
        directory.path(),
        "set breakpoint pending on\ntrace later_function if 1\nftrace sample.c:12\ntrace handle\n\
         trace main\ndisable 2\nenable 2\npasscount 3 3",
    );
    let kinds: Vec<_> = script.tracepoints.iter().map(|t| t.kind).collect();
    use ScriptTracepointKind::{Fast, Trap};
    // gdbserver supports no fast tracepoint in this program; GDB may refuse to set one at a short instruction.
    assert!(
        kinds.iter().filter(|kind| **kind == Trap).count() >= 3,
        "{text}"
    );
    assert!(
        kinds.iter().all(|kind| matches!(kind, Trap | Fast)),
        "{text}"
    );
    assert_eq!(
        script.tracepoints[0].location.text(),
        "later_function",
        "{text}"
    );
}
