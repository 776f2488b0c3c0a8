//! Code compiled with optimisation: location lists, values in registers and in pieces, inlined frames.

use crate::compare::Stopped;

fn at(mark: &str, hit: u32, options: &[&str]) -> Stopped {
    let mut compiler = vec!["cc", "-g"];
    compiler.extend(options);
    Stopped::at("optimized.c", &compiler, mark, hit)
}

fn check(options: &[&str]) {
    for mark in ["/* inlined */", "/* loop */", "/* after */", "/* floating */", "/* vla */"] {
        let stopped = at(mark, 1, options);
        stopped.same_list("$args", "info args");
        stopped.same_list("$locals", "info locals");
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
    at("/* loop */", 2, &["-O2"]).same(&[
        "p", "p.first", "p.second", "s", "s.a", "s.b", "s.c", "sum", "count", "i", "i + 1", "local", "flag", "unused", "name",
        "*name", "weight", "&s", "p.first + sum", "hits", "sink", "i < count", "unused + 1", "$rip", "(char) i", "local.first",
    ]);
}
