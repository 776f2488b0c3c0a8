//! Values that optimised code computes with floating-point numbers from the remaining data.

use crate::collected::enough;
use crate::compare::Stopped;

const LOCALS: &[&str] = &[
    "sum",
    "difference",
    "ratio",
    "minus",
    "narrow",
    "both",
    "whole",
    "big",
    "rounded",
    "product",
    "quotient",
    "mixed",
    "size",
    "back",
    "from_wide",
    "less",
    "more",
    "same",
];

fn at(mark: &str, hit: u32) -> Stopped {
    let options = ["cc", "-g", "-O2", "-no-pie"];
    Stopped::at("floating.c", &options, mark, hit)
}

#[test]
fn computed_numbers_are_those_of_gdb() {
    for hit in 1..=6 {
        let stopped = at("/* computed */", hit);
        let lost = |name: &&&str| stopped.print(name) == "<optimized out>";
        assert_eq!(LOCALS.iter().filter(lost).count(), 0);
        stopped.same(LOCALS);
        enough(&stopped, LOCALS);
    }
}

#[test]
fn computed_numbers_of_lost_arguments_are_those_of_gdb() {
    let stopped = at("/* called */", 2);
    stopped.same(LOCALS);
    stopped.same_list("$args", "info args");
    for hit in [1, 2] {
        at("/* passed */", hit).same(&["count", "weight", "mark"]);
    }
}

#[test]
fn what_is_computed_so_cannot_be_asked_for_in_a_condition() {
    let stopped = at("/* computed */", 2);
    let compile = |text: &str| {
        tracewire_expr::compile_condition(&stopped.symbols, stopped.pc(), text, &|_: &str| None)
    };
    for text in [
        "sum > 3",
        "whole == 3",
        "less",
        "product < 2",
        "big ? d : 1",
    ] {
        let error = compile(text).unwrap_err().to_string();
        assert!(error.contains("floating-point"), "{text}: {error}");
    }
    compile("d > 3").unwrap();
}
