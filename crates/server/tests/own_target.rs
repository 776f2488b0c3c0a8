//! The example of a custom target, debugged by GDB.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tracewire_test_support::{Gdb, example};

#[test]
fn gdb_debugs_the_example() {
    let mut server = example("tracewire-server", "own_target")
        .arg("127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let address = lines
        .by_ref()
        .map(Result::unwrap)
        .find_map(|line| Some(line.strip_prefix("Listening on ")?.to_owned()))
        .expect("the server listens");
    let said = Gdb::multiarch()
        .command(format!("target remote {address}"))
        .commands(["x/4i $pc", "stepi", "info registers a0"])
        .commands(["break *8", "continue", "continue"])
        .commands(["print $a0", "x/1xb 0x100", "stepi", "print $pc"])
        .commands(["delete", "continue"])
        .run();
    said.assert_in_order(&[
        "add\ta0,a0,3",
        "bne\ta0,a1,0x0",
        "a0             0x3",
        "Breakpoint 1, 0x00000008",
        "$1 = 6",
        "0x100:\t0x06",
        "(void (*)()) 0x0",
        "exited with code 036",
    ]);
    assert!(server.wait().unwrap().success());
}

/// The example is short enough to be read in one go.
#[test]
fn the_example_is_short() {
    let lines = include_str!("../examples/own_target.rs").lines().count();
    assert!(lines <= 80, "{lines}");
}
