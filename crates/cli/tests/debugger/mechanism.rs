//! The server's reports about fast tracepoints, and whether they are true.

use super::support::Program;

/// Tries a fast tracepoint at an instruction of one byte, and runs with one at a longer one. Returns the error stream.
fn trace(options: &str) -> String {
    let program = Program::build("relocated.c", &[]);
    let said = program.debug_with(
        options,
        &[
            "break main",
            "continue",
            // `push %rbp`.
            "ftrace *main",
            "ftrace *&here",
            "break done",
            "tstart",
            "continue",
            "tstatus",
        ],
    );
    said.assert_in_order(&["Collected 20 trace frames"]);
    said.errors
}

#[test]
fn a_fast_tracepoint_is_accepted_where_it_can_be_served() {
    let said = trace("");
    assert!(!said.contains("May not"), "{said}");
    let said = trace("--mechanism jump");
    assert!(said.contains("May not have a fast tracepoint at"), "{said}");
}
