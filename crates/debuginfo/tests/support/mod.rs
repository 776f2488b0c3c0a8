//! Programs built for a test, and GDB's answers about them.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tracewire_test_support::tool;

/// A compiler, its options, and the program it makes.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    pub compiler: &'static str,
    pub source: &'static str,
    pub options: &'static [&'static str],
}

impl Build {
    /// Builds the program into a directory.
    pub fn run(&self, directory: &Path) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(self.source);
        let name: String = std::iter::once(self.compiler)
            .chain(std::iter::once(self.source))
            .chain(self.options.iter().copied())
            .collect::<Vec<_>>()
            .join("_")
            .replace(['/', '=', '.', ','], "-");
        let program = directory.join(name);
        let status = tool(self.compiler)
            .args(self.options)
            .arg("-o")
            .args([&program, &source])
            .status()
            .expect("the compiler runs");
        assert!(status.success(), "{self:?} does not build");
        program
    }
}

/// Runs GDB's Python on a program that is not started; the output.
pub fn gdb(program: &Path, directory: &Path, python: &str) -> String {
    let script = directory.join("script.py");
    std::fs::write(&script, python).expect("the script is written");
    let output = tool("gdb")
        .args([
            "-batch",
            "-nx",
            "-ex",
            "set debuginfod enabled off",
            "-ex",
            "set breakpoint pending off",
        ])
        .arg("-x")
        .arg(&script)
        .arg(program)
        .stderr(Stdio::null())
        .output()
        .expect("gdb runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The addresses where GDB puts a breakpoint on each location, with the line of each; none for what it cannot resolve.
pub fn gdb_locations(
    program: &Path,
    directory: &Path,
    locations: &[String],
) -> BTreeMap<String, Vec<(u64, u64)>> {
    let list = directory.join("locations.txt");
    std::fs::write(&list, locations.join("\n")).expect("the list is written");
    let python = format!(
        r#"
import gdb
for location in open({list:?}).read().split("\n"):
    try:
        point = gdb.Breakpoint(location)
        places = sorted({{(place.address, place.source[1] if place.source else 0) for place in point.locations}})
        point.delete()
    except Exception as error:
        places = []
    print("@@", location, "@@", " ".join("%d:%d" % place for place in places))
"#
    );
    let output = gdb(program, directory, &python);
    let mut found = BTreeMap::new();
    for line in output.lines() {
        let Some((location, places)) = line
            .strip_prefix("@@ ")
            .and_then(|line| line.split_once(" @@ "))
            .or_else(|| Some((line.strip_prefix("@@ ")?.strip_suffix(" @@")?, "")))
        else {
            continue;
        };
        let places = places
            .split_whitespace()
            .map(|place| {
                let (address, line) = place.split_once(':').expect("an address and a line");
                (
                    address.parse().expect("a number"),
                    line.parse().expect("a number"),
                )
            })
            .collect();
        found.insert(location.to_owned(), places);
    }
    found
}
