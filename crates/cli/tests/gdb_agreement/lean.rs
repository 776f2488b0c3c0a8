//! Lean recordings: GDB's view of the trace file that `convert` makes, and the values of a plain trace file.

use serde_json::Value;

use crate::compare::agree;
use crate::recorded::{Build, Recorded};

/// A lean recording and a trace file of the same program, which makes the same hits at the same addresses, have the same values. GDB sees
/// those of the lean one in the file that is made of it.
fn same_values(build: impl Fn() -> Build, script: &str) {
    let [plain, lean] = Recorded::plain_and_lean(&build(), script);
    assert!(!plain.frames.is_empty());
    assert_eq!(plain.frames.len(), lean.frames.len());
    for (plain, lean) in plain.frames.iter().zip(&lean.frames) {
        for field in [
            "tracepoint",
            "pc",
            "function",
            "line",
            "values",
            "stepping",
            "location",
        ] {
            assert_eq!(plain[field], lean[field], "{field} of {plain}");
        }
        for (register, value) in lean["registers"].as_object().expect("registers") {
            // What was not kept is said to be so, and nothing else is changed.
            if value.as_str().is_some_and(|value| value.starts_with("0x")) {
                assert_eq!(
                    *value, plain["registers"][register],
                    "{register} of {plain}"
                );
            }
        }
        let kept = |frame: &Value, name: &str| frame["registers"][name].is_string();
        assert!(kept(lean, "rip") && kept(lean, "rsp"), "{lean}");
    }
    agree(&lean);
}

#[test]
fn c_position_independent() {
    same_values(
        || Build::cc("inventory.c").arguments(&["-O0", "-pie", "-fPIE"]),
        "inventory.script",
    );
}

#[test]
fn c_optimised() {
    same_values(
        || Build::cc("inventory.c").arguments(&["-O2", "-pie", "-fPIE"]),
        "optimised.script",
    );
}

#[test]
fn cpp() {
    same_values(
        || Build::cpp("shapes.cpp").arguments(&["-O0"]),
        "shapes.script",
    );
}

#[test]
fn cpp_optimised() {
    same_values(
        || Build::cpp("shapes.cpp").arguments(&["-O2"]),
        "shapes_optimised.script",
    );
}

#[test]
fn rust() {
    same_values(|| Build::rust("orders.rs"), "orders.script");
}
