//! Programs that trace others, under `record`.

use crate::support::Built;

const PROGRAM: &str = "int main(void) { return 3; }";

#[test]
fn gdb_runs_a_program_while_it_is_recorded() {
    let built = Built::new(PROGRAM, &["-O0"]);
    let done = built
        .run(&[
            "record",
            "-t",
            "ptrace",
            "-o",
            "out.tf",
            "--",
            "gdb",
            "-batch",
            "-nx",
            "-ex",
            "break main",
            "-ex",
            "run",
            "-ex",
            "continue",
            "./program",
        ])
        .code(0);
    for words in ["Breakpoint 1, main ()", "exited with code 03"] {
        assert!(done.stdout.contains(words), "{words}:\n{}", done.stdout);
    }
    assert!(!built.frames().is_empty());
}
