//! Registers by their types: the output of `show --json` is GDB's.

use std::process::Command;

use serde_json::Value;

use crate::support::Built;
use tracewire_test_support::sample;

#[test]
fn registers_are_printed_as_gdb_prints_them() {
    let file = sample("sample.tf");
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    let shown = folder
        .run(&[
            "show",
            "--json",
            "--frame",
            "5",
            &file.display().to_string(),
        ])
        .code(0)
        .stdout;
    let frame: Value = serde_json::from_str(&shown).expect("JSON");
    let values = frame["register_values"].as_object().expect("an object");
    for expected in ["eflags", "mxcsr", "st0", "xmm1"] {
        assert!(values.contains_key(expected), "{expected} in {values:?}");
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set width 0", "-ex"])
        .arg(format!("target tfile {}", file.display()))
        .args(["-ex", "tfind 5"]);
    for name in values.keys() {
        gdb.args([
            "-ex",
            &format!("echo {name}:"),
            "-ex",
            &format!("output ${name}"),
        ]);
        gdb.args(["-ex", "echo \\n"]);
    }
    let output = gdb.env("DEBUGINFOD_URLS", "").output().expect("gdb runs");
    let said = String::from_utf8_lossy(&output.stdout);
    for (name, value) in values {
        let line = format!("{name}:{}", value.as_str().expect("a text"));
        assert!(
            said.lines().any(|said| said == line),
            "`{line}` is not in\n{said}"
        );
    }
}
