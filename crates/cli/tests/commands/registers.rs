//! Registers by their types: the output of `show --json` is GDB's.

use serde_json::Value;

use crate::support::Built;
use tracewire_test_support::{Gdb, sample};

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
    let gdb = Gdb::new().command(format!("target tfile {}", file.display()));
    let gdb = gdb
        .command("tfind 5")
        .commands(values.keys().flat_map(|name| {
            let [name, value] = [format!("echo {name}:"), format!("output ${name}")];
            [name, value, "echo \\n".to_owned()]
        }));
    let said = gdb.run().output;
    for (name, value) in values {
        let line = format!("{name}:{}", value.as_str().expect("a text"));
        assert!(
            said.lines().any(|said| said == line),
            "`{line}` is not in\n{said}"
        );
    }
}
