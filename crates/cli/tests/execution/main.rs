//! Execution traces, as a user looks at them.

#[path = "../commands/support.rs"]
#[allow(dead_code)]
mod support;

mod analyses;
mod control_flow;
mod conversions;
mod data_order;
mod fields;
mod refusals;
mod searches;
mod state;
mod times;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{Ran, ran, tracewire};
use tempfile::TempDir;
use tracewire_sample_machine::{Options, Program, Trace};

/// Runs a command with these words; `@` stands for the trace.
fn run(trace: &Path, words: &str) -> Ran {
    let trace = trace.to_str().unwrap();
    let words = words.split_whitespace().map(|word| match word {
        "@" => trace.to_owned(),
        word => word.to_owned(),
    });
    ran(tracewire().args(words).output().unwrap())
}

/// A trace of these lines.
fn trace(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("x.trace");
    std::fs::write(&path, text).unwrap();
    path
}

/// The objects that `show --json` gives for a text.
fn shown(text: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    run(&trace(&folder, text), "show --json @").code(0).json()
}

/// What the sample machine does in so many bytes: the trace, its program, and how many instructions.
fn sample(folder: &TempDir, cpus: u32, bytes: u64) -> (PathBuf, PathBuf, u64, Options) {
    let options = Options {
        footprint: 1 << 16,
        cpus,
        ..Options::default()
    };
    let mut text = Vec::new();
    let mut made = Trace::new(&options);
    made.write(&mut text, bytes).unwrap();
    let (trace, elf) = (folder.path().join("s.trace"), folder.path().join("s.elf"));
    std::fs::write(&trace, text).unwrap();
    std::fs::write(&elf, Program::of(&options).elf(&options)).unwrap();
    (trace, elf, made.instructions(), options)
}
