//! Breakpoints and watchpoints by the debug registers.

use super::support::Program;

#[test]
fn a_write_stops_whichever_thread_makes_it() {
    let program = Program::build("watched.c", &[]);
    let said = program.debug_to_the_end(&[
        "break ready",
        "continue",
        "watch number",
        "continue",
        "continue",
        "continue",
        "continue",
        "info watchpoints",
        "detach",
    ]);
    said.assert_in_order(&[
        "Breakpoint 1, ready",
        "Hardware watchpoint 2: number",
        "Old value = 0\nNew value = 1\n",
        "store (value=1)",
        "Old value = 1\nNew value = 2\n",
        "store (value=2)",
        "Old value = 2\nNew value = 3\n",
        "Old value = 3\nNew value = 4\n",
        "already hit 4 times",
        "detached",
    ]);
    // The child does not trigger it, nor does the program after the detach.
    assert!(said.errors.contains("number 9"), "{}", said.errors);
}

#[test]
fn reads_are_seen_by_access_watchpoints() {
    let program = Program::build("watched.c", &[]);
    let said = program.debug(&[
        "break ready",
        "continue",
        "awatch number",
        "continue",
        "continue",
        "delete",
        "rwatch number",
        "continue",
        "continue",
    ]);
    said.assert_in_order(&[
        "Hardware access (read/write) watchpoint 2: number",
        "Old value = 0\nNew value = 1\n",
        "Value = 1\n",
        "load ()",
        "Hardware read watchpoint 3: number",
        // The writes in between do not count.
        "Value = 9\n",
        "exited normally",
    ]);
    assert!(said.errors.contains("number 9"), "{}", said.errors);
}

#[test]
fn odd_and_long_memory_takes_several_registers() {
    let program = Program::build("watched.c", &[]);
    let said = program.debug(&[
        "break ready",
        "continue",
        "watch data.odd",
        "continue",
        "delete 2",
        "watch data.words",
        "continue",
        "watch data",
        "continue",
        "watch number",
        "watch other",
        "continue",
    ]);
    said.assert_in_order(&[
        "Hardware watchpoint 2: data.odd",
        "Old value = \"\\000\\000",
        "Hardware watchpoint 3: data.words",
        "Old value = {0, 0}",
        "New value = {0, 7}",
        "Breakpoint 1, ready",
    ]);
    assert!(
        said.errors
            .contains("You may have requested too many hardware breakpoints/watchpoints"),
        "{}",
        said.errors
    );
}

#[test]
fn a_hardware_breakpoint_writes_nothing_and_stops_every_time() {
    let program = Program::build("watched.c", &[]);
    let said = program.debug(&[
        "hbreak store",
        "continue",
        "backtrace 1",
        "continue",
        "info threads",
        "stepi",
        "next",
        "tbreak load",
        "continue",
        "delete",
        "continue",
    ]);
    said.assert_in_order(&[
        "Hardware assisted breakpoint 1",
        "Breakpoint 1, store (value=1)",
        "Breakpoint 1, store (value=2)",
        "watched\"",
        "worker (argument",
        "Breakpoint 1, store (value=3)",
        "exited normally",
    ]);
}
