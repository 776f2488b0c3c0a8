//! Instructions that GDB copies, for fast tracepoints.

use super::support::Program;

/// Traces an addition by a fast tracepoint; whether GDB was asked to copy it.
fn trace(options: &str) -> bool {
    let program = Program::build("relocated.c", &[]);
    let said = program.debug_with(
        &format!("--debug-log log {options}"),
        &[
            "break main",
            "continue",
            "ftrace *&here",
            "break done",
            "tstart",
            "continue",
            "tstatus",
            "print total",
            "tstop",
            // Again, while the previous copy is not in use.
            "tstart",
            "tstatus",
            "continue",
        ],
    );
    said.assert_in_order(&[
        "Breakpoint 3, done",
        "Collected 20 trace frames",
        "= 190",
        "Collected 0 trace frames",
        "exited normally",
    ]);
    let log = std::fs::read_to_string(program.folder.path().join("log")).unwrap();
    log.contains("qRelocInsn:")
}

#[test]
fn gdb_copies_the_instruction_of_a_fast_tracepoint() {
    assert!(trace(""));
}

#[test]
fn gdb_need_not_be_asked() {
    assert!(!trace("--disable-packet=qRelocInsn"));
}
