//! `dataset` and `query`, which another program does.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tracewire_test_support::{copy_program, write_program};

/// Runs `tracewire` from a separate directory. Returns the exit status and the output.
fn run(directory: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let program = directory.path().join("tracewire");
    if !program.exists() {
        // A link would lead to the build directory, which may contain the other program.
        copy_program(Path::new(env!("CARGO_BIN_EXE_tracewire")), &program);
    }
    let output = Command::new(&program)
        .args(arguments)
        .env("PATH", "/nowhere")
        .output()
        .expect("tracewire runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

#[test]
fn the_program_that_does_it_is_found_or_named() {
    let directory = TempDir::new().expect("a directory");
    let dataset = ["dataset", "add", "--host", "x y"];
    let (status, said) = run(&directory, &dataset);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("the program tracewire-query is neither beside tracewire nor in PATH"),
        "{said}"
    );
    assert!(
        said.contains("cargo build --release --manifest-path query/Cargo.toml"),
        "{said}"
    );

    let other = directory.path().join("tracewire-query");
    write_program(&other, b"#!/bin/sh\necho \"$0: $1, $2, $3, $4\"; exit 7\n");
    let (status, said) = run(&directory, &["query", "--named", "slowest", "--format=csv"]);
    assert_eq!(status, Some(7), "{said}");
    assert_eq!(
        said,
        format!(
            "{}: query, --named, slowest, --format=csv\n",
            other.display()
        )
    );
    let (status, said) = run(&directory, &dataset);
    assert_eq!(status, Some(7), "{said}");
    assert_eq!(
        said,
        format!("{}: dataset, add, --host, x y\n", other.display())
    );
}
