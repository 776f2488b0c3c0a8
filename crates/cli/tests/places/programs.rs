//! Programs that are built from a source text or file, in any language, and that print their own counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{Ran, ran, tracewire};
use tracewire_test_support::{Cc, assert_clean};

/// A program of `crates/debuginfo/tests/programs`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../debuginfo/tests/programs")
        .join(name)
}

/// Compiles sources into a program in a directory. The tests need all these compilers: one that is missing fails them.
#[track_caller]
pub fn build(directory: &Path, compiler: &str, options: &[&str], sources: &[&Path]) -> PathBuf {
    let cc = Cc::of(compiler).options(options);
    let cc = sources.iter().fold(cc, |cc, source| cc.source(source));
    cc.build(directory, "program")
}

/// The lines `NAME COUNT` of a program's output.
pub fn counts(output: &str) -> BTreeMap<String, u64> {
    output
        .lines()
        .filter_map(|line| {
            let (name, count) = line.rsplit_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        })
        .collect()
}

/// Records a program into `out.tf`, with one `-t` for each of the specifications.
pub fn record(program: &Path, specifications: &[&str], arguments: &[&str]) -> Ran {
    let directory = program.parent().expect("a directory");
    let mut command = tracewire();
    command
        .current_dir(directory)
        .args(["record", "-o", "out.tf"]);
    for specification in specifications {
        command.args(["-t", specification]);
    }
    command.arg("--").arg(program).args(arguments);
    let ran = ran(command
        .stderr(Stdio::piped())
        .output()
        .expect("tracewire runs"));
    if ran.code == Some(0) {
        assert_clean(&directory.join("out.tf"));
    }
    ran
}

/// The hits that `out.tf` has of each tracepoint, in the order of the tracepoints.
pub fn hits(directory: &Path) -> Vec<u64> {
    let info = ran(tracewire()
        .current_dir(directory)
        .args(["info", "--json", "out.tf"])
        .output()
        .expect("tracewire runs"))
    .code(0);
    let mut hits = BTreeMap::new();
    for tracepoint in info.json()[0]["tracepoints"]
        .as_array()
        .expect("tracepoints")
    {
        let number = tracepoint["number"].as_u64().expect("a number");
        *hits.entry(number).or_insert(0) += tracepoint["hits"].as_u64().unwrap_or(0);
    }
    hits.into_values().collect()
}
