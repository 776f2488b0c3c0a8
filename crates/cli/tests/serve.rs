//! `tracewire serve` to real GDB over its standard input and output, and `tracewire packets` of what both wrote.

use std::path::{Path, PathBuf};
use std::process::Command;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../server/tests/data")
        .join(name)
}

#[test]
fn gdb_looks_at_a_trace_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let serve = format!(
        "target remote | {TRACEWIRE} serve - {} --elf {} --debug-log {}",
        data("sample.tf").display(),
        data("sample").display(),
        log.display()
    );
    let output = Command::new("gdb")
        .args([
            "-nx",
            "-batch",
            "-ex",
            "set debug remote 1",
            "-ex",
            "set sysroot",
            "-ex",
        ])
        .arg(&serve)
        .args([
            "-ex",
            "tfind pc 0x555555555183",
            "-ex",
            "print j->name",
            "-ex",
            "detach",
        ])
        .output()
        .expect("gdb is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Found trace frame 6"), "{said}");
    assert!(said.contains("\"beta\""), "{said}");

    // Both logs tell the same session.
    let of_gdb = folder.path().join("of-gdb");
    std::fs::write(&of_gdb, &output.stderr).unwrap();
    let meanings = |path: &Path| {
        let output = Command::new(TRACEWIRE)
            .arg("packets")
            .arg(path)
            .arg("--json")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| {
                let object: serde_json::Value = serde_json::from_str(line).unwrap();
                object["meaning"].as_str().unwrap().to_owned()
            })
            .filter(|meaning| !meaning.contains("more than the log has"))
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (meanings(&log), meanings(&of_gdb));
    assert!(
        ours.contains(&"select the next trace frame at 0x555555555183".to_owned()),
        "{ours:?}"
    );
    assert!(
        ours.contains(&"frame 6 is selected, of tracepoint 3".to_owned()),
        "{ours:?}"
    );
    // GDB cuts long packets in its log, which were left out above.
    assert!(theirs.len() > 40, "{theirs:?}");
    let mut rest = ours.iter();
    for meaning in &theirs {
        assert!(
            rest.any(|other| other == meaning),
            "`{meaning}` is not in our log: {ours:?}"
        );
    }
}

#[test]
fn a_log_without_packets_and_a_file_that_is_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, "nothing here\n").unwrap();
    let output = Command::new(TRACEWIRE)
        .arg("packets")
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = Command::new(TRACEWIRE)
        .args(["serve", "-"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used"));
    let output = Command::new(TRACEWIRE)
        .args(["serve", "nowhere"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
