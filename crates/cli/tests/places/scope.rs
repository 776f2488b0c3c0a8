//! A tracepoint on a function sees that function's arguments at any address: compared with GDB, which stops there in the function's
//! frame.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::programs::{build, record, source};
use crate::support::{ran, tracewire};
use tracewire_test_support::Gdb;

/// GDB's arguments at the first stop at a function: its name, then names and values.
const ARGUMENTS: &str = r#"
import gdb, json
gdb.execute("set print frame-arguments none")
gdb.execute("set print entry-values no")
for function in open("functions").read().split("\n"):
    point = gdb.Breakpoint(function)
    gdb.execute("run", to_string=True)
    if not gdb.selected_inferior().pid:
        # It has no breakpoint where the function is entered.
        point.delete()
        continue
    frame = gdb.selected_frame()
    plain = lambda name: name.split("(")[0].split("<")[0].split("::")[-1]
    while plain(frame.name()) != plain(function) and frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    block = frame.block()
    while block.function is None:
        block = block.superblock
    arguments = []
    for symbol in block:
        if symbol.is_argument:
            value = frame.read_var(symbol)
            known = not value.is_optimized_out
            plain = value.type.strip_typedefs().code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_CHAR)
            try:
                text = value.format_string() if known and plain else None
            except gdb.error:
                text = None
            arguments.append([symbol.print_name, text])
    print("@@" + json.dumps([function, frame.name(), arguments]))
    point.delete()
    gdb.execute("kill", to_string=True)
"#;

/// How many functions of a program that prints its calls are tested, unless `TRACEWIRE_EVERY_FUNCTION` is set.
const MOST: usize = 6;

type Arguments = Vec<(String, Option<String>)>;

fn gdb_arguments(program: &Path, functions: &[&str]) -> BTreeMap<String, (String, Arguments)> {
    let directory = program.parent().unwrap();
    std::fs::write(directory.join("functions"), functions.join("\n")).unwrap();
    std::fs::write(directory.join("arguments.py"), ARGUMENTS).unwrap();
    let gdb = Gdb::new().directory(directory).program(program);
    let said = gdb.script(Path::new("arguments.py")).run();
    let found: BTreeMap<_, _> = said
        .output
        .lines()
        .filter_map(|line| {
            let (function, name, arguments): (String, String, Arguments) =
                serde_json::from_str(line.strip_prefix("@@")?).unwrap();
            Some((function, (name, arguments)))
        })
        .collect();
    assert!(found.len() * 10 >= functions.len() * 9, "{said:?}");
    found
}

fn shown(directory: &Path) -> Vec<Value> {
    let show = tracewire()
        .current_dir(directory)
        .args(["show", "--json", "out.tf"])
        .output();
    ran(show.expect("tracewire runs")).code(0).json()
}

/// GDB opens the file, and has all of its tracepoints.
fn gdb_opens(directory: &Path, tracepoints: usize) {
    let script = tracewire()
        .current_dir(directory)
        .args(["show", "--gdb", "out.tf"])
        .output()
        .unwrap();
    std::fs::write(directory.join("open.gdb"), script.stdout).unwrap();
    let gdb = Gdb::new().directory(directory);
    let said = gdb.script(Path::new("open.gdb")).run();
    for number in 1..=tracepoints {
        let known = format!("target's tracepoint {number} at");
        assert!(said.output.contains(&known), "{known}: {said:?}");
    }
}

/// The arguments of each function, by `$args` and by their names, next to GDB's.
#[track_caller]
fn arguments_are_the_functions(compiler: &str, options: &[&str], name: &str, functions: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = build(directory.path(), compiler, options, &[&source(name)]);
    let what = format!("{compiler} {options:?}");
    let compared = arguments_are_gdbs(&program, &what, functions);
    assert!(
        compared >= 2 * functions.len(),
        "{compared} values compared"
    );
}

/// The functions of a program, which it prints before it calls them.
#[track_caller]
fn arguments_of_called_functions(compiler: &str, options: &[&str], name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name);
    let program = build(directory.path(), compiler, options, &[&source]);
    let plain = Command::new(&program).output().expect("the program runs");
    let printed = String::from_utf8_lossy(&plain.stdout).into_owned();
    let called: BTreeSet<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split(' ').next())
        .collect();
    let asked = std::env::var("TRACEWIRE_EVERY_FUNCTION").ok();
    let most = asked.map_or(MOST, |most| most.parse().expect("a number"));
    let step = called.len().div_ceil(most);
    let functions: Vec<&str> = called.iter().copied().step_by(step).collect();
    let what = format!("{compiler} {name} {options:?}");
    let compared = arguments_are_gdbs(&program, &what, &functions);
    println!(
        "{what}: {} of {} functions, {compared} values compared",
        functions.len(),
        called.len()
    );
    assert!(compared >= functions.len(), "{compared} values compared");
}

/// Compares the arguments of each function with GDB's; how many values were compared.
#[track_caller]
fn arguments_are_gdbs(program: &Path, what: &str, functions: &[&str]) -> usize {
    let directory = program.parent().expect("a directory");
    let expected = gdb_arguments(program, functions);
    let functions: Vec<&str> = (functions.iter().copied())
        .filter(|function| expected.contains_key(*function))
        .collect();
    let mut specifications: Vec<String> = Vec::new();
    for function in &functions {
        specifications.push(format!("{function} : $args"));
        let (_, arguments) = &expected[*function];
        let known = arguments.iter().filter(|(_, value)| value.is_some());
        let names: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        // By name, and in a condition that is always true.
        let condition = arguments.iter().find(|(_, value)| {
            let is_whole = |value: &String| !value.contains('.');
            value.as_ref().is_some_and(is_whole)
        });
        let condition =
            condition.map_or(String::new(), |(name, _)| format!(" if {name} == {name}"));
        let list = match names.as_slice() {
            [] => "$args".to_owned(),
            names => names.join(", "),
        };
        specifications.push(format!("{function}{condition} : {list}"));
    }
    let specifications: Vec<&str> = specifications.iter().map(String::as_str).collect();
    let said = record(program, &specifications, &[]).code(0).stderr;
    let frames = shown(directory);
    let mut compared = 0;
    for (index, function) in functions.iter().enumerate() {
        let (name, arguments) = &expected[*function];
        let first = |tracepoint: usize| {
            let of = |frame: &&Value| frame["tracepoint"] == tracepoint as u64;
            let found = frames.iter().find(of);
            found.unwrap_or_else(|| panic!("{function} was not hit: {said}"))
        };
        let all = first(2 * index + 1);
        let plain = |name: &str| name.split(['<', '(']).next().unwrap().to_owned();
        assert_eq!(
            plain(all["function"].as_str().unwrap()),
            plain(name),
            "{function}"
        );
        let values = |frame: &Value| -> Vec<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let values = frame["values"].as_array().expect("values");
            values
                .iter()
                .map(|value| (text(&value["expression"]), text(&value["value"])))
                .collect()
        };
        let names = |values: &[(String, String)]| -> Vec<String> {
            values.iter().map(|(name, _)| name.clone()).collect()
        };
        let ours = values(all);
        let theirs: Vec<String> = arguments.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names(&ours), theirs, "{what} {function}: {said}");
        for values in [ours, values(first(2 * index + 2))] {
            for (name, value) in values {
                let theirs = arguments.iter().find(|(other, _)| *other == name);
                // GDB has a value that the caller's debug information describes; ours then reports that it is not known.
                if value == "<optimized out>" && said.contains(&format!("{name}: optimized out")) {
                    continue;
                }
                if let Some((_, Some(theirs))) = theirs {
                    // Rust writes 0 as a floating-point number otherwise.
                    let is_same = match (value.parse::<f64>(), theirs.parse::<f64>()) {
                        (Ok(value), Ok(theirs)) => value == theirs,
                        _ => value == *theirs,
                    };
                    assert!(
                        is_same,
                        "{what} {function}: {name} is {value}, GDB {theirs}: {said}"
                    );
                    compared += 1;
                }
            }
        }
    }
    gdb_opens(directory, specifications.len());
    compared
}

const C: [&str; 9] = [
    "first_noted",
    "first_scaled",
    "nested_copies",
    "unused_arguments",
    "on_the_stack",
    "floating",
    "copied",
    "caller_of_copy",
    "other_caller",
];
const CPP: [&str; 8] = [
    "shop::Cart::first",
    "shop::Cart::kept",
    "shop::largest<int>",
    "shop::largest<double>",
    "shop::counted",
    "shop::owned",
    "local_function",
    "shop::keep",
];
const RUST: [&str; 4] = [
    "inlined::run",
    "inlined::look",
    "inlined::pushed<u32>",
    "inlined::Job::total",
];

macro_rules! builds {
    ($($name:ident: $compiler:literal $source:literal $functions:ident $options:expr;)*) => {$(
        #[test]
        fn $name() {
            arguments_are_the_functions($compiler, $options, $source, &$functions);
        }
    )*};
}

builds! {
    c_gcc: "gcc" "inlined.c" C &["-g", "-O2"];
    c_gcc_unoptimized: "gcc" "inlined.c" C &["-g", "-O0"];
    c_gcc_dwarf_4: "gcc" "inlined.c" C &["-gdwarf-4", "-O3"];
    c_clang: "clang" "inlined.c" C &["-g", "-O2"];
    cpp_gcc: "g++" "inlined.cpp" CPP &["-g", "-O2"];
    cpp_clang: "clang++" "inlined.cpp" CPP &["-g", "-O2"];
    rust_release: "rustc" "inlined.rs" RUST &["-g", "-O", "--edition=2021", "--crate-name=inlined"];
}

macro_rules! called {
    ($($name:ident: $compiler:literal $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            arguments_of_called_functions($compiler, $options, $source);
        }
    )*};
}

called! {
    called_c_gcc: "gcc" "entries.c" &["-g", "-O2"];
    called_c_gcc_o3: "gcc" "entries.c" &["-g", "-O3", "-gdwarf-4"];
    called_c_clang: "clang" "entries.c" &["-g", "-O2"];
    called_cpp_gcc: "g++" "entries.cpp" &["-g", "-O2"];
    called_cpp_clang: "clang++" "entries.cpp" &["-g", "-O2"];
    called_rust_release: "rustc" "entries.rs" &["-g", "-O", "--edition=2021", "--crate-name=entries"];
}
