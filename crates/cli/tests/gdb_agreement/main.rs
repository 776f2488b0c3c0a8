//! Stock GDB opens Tracewire's recordings, and both show the same contents: `tfind`, `tdump`, `tstatus`, `info tracepoints` and
//! `print` of every collected expression in every frame.

mod compare;
mod lean;
mod recorded;

use compare::agree;
use recorded::{Build, Recorded};

#[test]
fn c_position_independent() {
    agree(&Recorded::new(
        Build::cc("inventory.c").arguments(&["-O0", "-pie", "-fPIE"]),
        "inventory.script",
    ));
}

#[test]
fn c_optimised() {
    agree(&Recorded::new(
        Build::cc("inventory.c").arguments(&["-O2", "-pie", "-fPIE"]),
        "optimised.script",
    ));
}

#[test]
fn c_static() {
    agree(&Recorded::new(
        Build::cc("inventory.c").arguments(&["-O0", "-static", "-no-pie"]),
        "inventory.script",
    ));
}

#[test]
fn c_fixed_address() {
    agree(&Recorded::new(
        Build::cc("inventory.c").arguments(&["-O0", "-no-pie", "-fno-pie"]),
        "inventory.script",
    ));
}

#[test]
fn cpp() {
    agree(&Recorded::new(
        Build::cpp("shapes.cpp").arguments(&["-O0"]),
        "shapes.script",
    ));
}

#[test]
fn cpp_optimised() {
    agree(&Recorded::new(
        Build::cpp("shapes.cpp").arguments(&["-O2"]),
        "shapes_optimised.script",
    ));
}

#[test]
fn rust() {
    agree(&Recorded::new(Build::rust("orders.rs"), "orders.script"));
}

#[test]
fn four_threads() {
    agree(&Recorded::new(
        Build::cc("workers.c").arguments(&["-O0", "-pthread"]),
        "workers.script",
    ));
}
