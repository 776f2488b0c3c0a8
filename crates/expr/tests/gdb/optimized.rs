//! Code compiled with optimisation: location lists, values in registers and in pieces, inlined frames.

use crate::collected::enough;
use crate::compare::Stopped;

const EXPRESSIONS: &[&str] = &[
    "p",
    "p.first",
    "p.second",
    "s",
    "s.a",
    "s.b",
    "s.c",
    "sum",
    "count",
    "i",
    "i + 1",
    "local",
    "flag",
    "unused",
    "name",
    "*name",
    "weight",
    "&s",
    "p.first + sum",
    "hits",
    "sink",
    "i < count",
    "unused + 1",
    "$rip",
    "(char) i",
    "local.first",
];

const MARKS: &[&str] = &[
    "/* inlined */",
    "/* loop */",
    "/* after */",
    "/* floating */",
    "/* vla */",
];

fn at(mark: &str, hit: u32, options: &[&str]) -> Stopped {
    let mut compiler = vec!["cc", "-g"];
    compiler.extend(options);
    Stopped::at("optimized.c", &compiler, mark, hit)
}

fn check(options: &[&str]) {
    for mark in MARKS {
        let stopped = at(mark, 1, options);
        stopped.same_list("$args", "info args");
        stopped.same_list("$locals", "info locals");
        let scope = stopped.symbols.variables_at(stopped.pc());
        let names: Vec<&str> = scope
            .arguments
            .iter()
            .chain(&scope.locals)
            .map(|variable| variable.name.as_str())
            .collect();
        enough(&stopped, &names);
    }
}

#[test]
fn optimized_variables_are_those_of_gdb() {
    check(&["-O2"]);
}

#[test]
fn variables_of_other_compilations_are_those_of_gdb() {
    check(&["-O1", "-gdwarf-4", "-no-pie"]);
    check(&["-Os", "-fno-omit-frame-pointer", "-static"]);
}

#[test]
fn expressions_over_optimized_variables_are_those_of_gdb() {
    let stopped = at("/* loop */", 2, &["-O2"]);
    stopped.same(EXPRESSIONS);
    enough(&stopped, EXPRESSIONS);
}

/// Arguments, locals, and that they are collected.
fn lists(source: &str, compiler: &[&str], mark: &str, hit: u32) {
    let stopped = Stopped::at(source, compiler, mark, hit);
    stopped.same_list("$args", "info args");
    stopped.same_list("$locals", "info locals");
    let scope = stopped.symbols.variables_at(stopped.pc());
    let names: Vec<&str> = scope
        .arguments
        .iter()
        .chain(&scope.locals)
        .map(|variable| variable.name.as_str())
        .collect();
    enough(&stopped, &names);
}

#[test]
fn optimized_cpp_variables_are_those_of_gdb() {
    for options in [["-O2"], ["-Og"]] {
        let compiler = [&["g++", "-g"], &options[..]].concat();
        lists("optimized.cpp", &compiler, "/* method */", 1);
        lists("optimized.cpp", &compiler, "/* range */", 1);
    }
}

#[test]
fn optimized_rust_variables_are_those_of_gdb() {
    for level in ["opt-level=1", "opt-level=2"] {
        lists(
            "optimized.rs",
            &["rustc", "--edition", "2021", "-g", "-C", level],
            "// here",
            2,
        );
    }
}
