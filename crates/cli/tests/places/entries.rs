//! A function is hit as often as it is called, with the arguments of the call: for functions that are inlined, cloned, split or
//! have cold parts, compared with the program's own output before each call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::programs::{build, hits};
use crate::support::{Ran, ran, tracewire};
use tracewire_test_support::{Gdb, assert_clean};

/// The calls of each function, each with the arguments that it prints: the lines `@FUNCTION ARGUMENT=VALUE…`.
fn calls(output: &str) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
    let mut calls = BTreeMap::new();
    for line in output.lines().filter_map(|line| line.strip_prefix('@')) {
        let mut words = line.split(' ');
        let function = words.next().expect("a function").to_owned();
        let arguments = words.filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let of_function: &mut Vec<_> = calls.entry(function).or_default();
        of_function.push(arguments.collect());
    }
    calls
}

/// The same number, or the same address.
fn is_same(shown: &str, printed: &str) -> bool {
    // A character follows its number.
    let shown = shown.split_once(" '").map_or(shown, |(number, _)| number);
    match (shown.parse::<f64>(), printed.parse::<f64>()) {
        (Ok(shown), Ok(printed)) => shown == printed,
        // Where a pointer is shown with its type before it.
        _ if printed.starts_with("0x") => {
            shown.split(' ').any(|word| word == printed) || !shown.contains("0x")
        }
        _ => shown == printed,
    }
}

fn record(program: &Path, options: &[&str], specifications: &[String]) -> Ran {
    let directory = program.parent().expect("a directory");
    let mut command = tracewire();
    command
        .current_dir(directory)
        .args(["record", "--verbose", "-o", "out.tf"])
        .args(options);
    for specification in specifications {
        command.args(["-t", specification]);
    }
    let ran = ran(command
        .arg("--")
        .arg(program)
        .output()
        .expect("tracewire runs"))
    .code(0);
    assert_clean(&directory.join("out.tf"));
    ran
}

/// How many functions and calls there are, how many arguments, and of how many of these the value is known.
struct Compared {
    functions: usize,
    calls: u64,
    arguments: usize,
    known: usize,
}

/// Records every function of the program, and compares counts and values.
#[track_caller]
fn compare(program: &Path, what: &str, options: &[&str]) -> Compared {
    let directory = program.parent().expect("a directory");
    let plain = Command::new(program).output().expect("the program runs");
    let names: Vec<String> = calls(&String::from_utf8_lossy(&plain.stdout))
        .into_keys()
        .collect();
    let specifications: Vec<String> = names.iter().map(|name| format!("{name} : $args")).collect();
    let recorded = record(program, options, &specifications);
    let calls = calls(&recorded.stdout);
    let said = &recorded.stderr;
    let counted: Vec<(&String, u64)> = (names.iter().zip(hits(directory))).collect();
    let called: Vec<(&String, u64)> = names
        .iter()
        .map(|name| (name, calls[name].len() as u64))
        .collect();
    let differ: Vec<_> = (counted.iter().zip(&called))
        .filter(|(hits, calls)| hits != calls)
        .collect();
    assert!(
        differ.is_empty(),
        "{what}: hits and calls: {differ:?}: {said}"
    );
    let show = tracewire()
        .current_dir(directory)
        .args(["show", "--json", "out.tf"])
        .output();
    let mut frames: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for frame in ran(show.expect("tracewire runs")).code(0).json() {
        let number = frame["tracepoint"].as_u64().expect("a number");
        frames.entry(number).or_default().push(frame);
    }
    let mut compared = Compared {
        functions: names.len(),
        calls: called.iter().map(|(_, calls)| calls).sum(),
        arguments: 0,
        known: 0,
    };
    for (number, name) in (1..).zip(&names) {
        for (frame, call) in frames[&number].iter().zip(&calls[name]) {
            let values = frame["values"].as_array().expect("values");
            for (argument, printed) in call {
                compared.arguments += 1;
                let value = values
                    .iter()
                    .find(|value| value["expression"] == argument.as_str());
                let value = value.unwrap_or_else(|| panic!("{what} {name}: no {argument}: {said}"));
                let shown = value["value"].as_str().expect("text");
                if shown == "<optimized out>" {
                    let reason = format!("{argument}: optimized out");
                    assert!(said.contains(&reason), "{what} {name}: no {reason}: {said}");
                    continue;
                }
                compared.known += 1;
                assert!(
                    is_same(shown, printed),
                    "{what} {name}: {argument} is shown as {shown}, and printed as {printed}"
                );
            }
        }
    }
    compared
}

/// How many frames GDB prints: the first ones, of all functions.
const PRINTED: usize = 24;

/// GDB opens the file, and prints what was collected at its frames.
fn gdb_prints(directory: &Path, what: &str) {
    let script = tracewire()
        .current_dir(directory)
        .args(["show", "--gdb", "out.tf"])
        .output()
        .expect("tracewire runs");
    let mut text = String::from_utf8(script.stdout).expect("text");
    for frame in 0..PRINTED {
        text += &format!("tfind {frame}\ntdump\n");
    }
    std::fs::write(directory.join("open.gdb"), text).expect("the script is written");
    let gdb = Gdb::new().directory(directory);
    let said = gdb.script(Path::new("open.gdb")).run();
    for frame in 0..PRINTED {
        let dumped = format!(", trace frame {frame}:");
        assert!(said.output.contains(&dumped), "{what}: {dumped}: {said:?}");
    }
}

fn program(directory: &Path, compiler: &str, name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name);
    build(directory, compiler, options, &[&source])
}

#[track_caller]
fn hits_are_calls(compiler: &str, name: &str, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), compiler, name, options);
    let what = format!("{compiler} {options:?}");
    let compared = compare(&program, &what, &[]);
    let known = format!(
        "{what}: {} functions hit as often as called, {} times; {} of {} arguments known",
        compared.functions, compared.calls, compared.known, compared.arguments
    );
    println!("{known}");
    assert!(compared.known * 10 >= compared.arguments * 9, "{known}");
    gdb_prints(directory.path(), &what);
}

macro_rules! builds {
    ($($name:ident: $compiler:literal $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            hits_are_calls($compiler, $source, $options);
        }
    )*};
}

builds! {
    c_gcc: "gcc" "entries.c" &["-g", "-O2"];
    c_gcc_o3: "gcc" "entries.c" &["-g", "-O3", "-gdwarf-4"];
    c_clang: "clang" "entries.c" &["-g", "-O2"];
    cpp_gcc: "g++" "entries.cpp" &["-g", "-O2"];
    cpp_clang: "clang++" "entries.cpp" &["-g", "-O2"];
    rust_release: "rustc" "entries.rs" &["-g", "-O", "--edition=2021", "--crate-name=entries"];
}
