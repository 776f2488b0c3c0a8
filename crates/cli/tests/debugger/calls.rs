//! Catchpoints for system calls, and what becomes of signals.

use super::support::Program;

#[test]
fn system_calls_stop_at_entry_and_return() {
    let program = Program::build("calls.c", &[]);
    let said = program.debug(&[
        "handle SIGUSR1 nostop noprint",
        "break main",
        "continue",
        "catch syscall getppid",
        "continue",
        "continue",
        "continue",
        "delete 2",
        "catch syscall 186",
        "continue",
        "continue",
        "delete",
        "catch syscall",
        "continue",
        "delete",
        "continue",
    ]);
    said.assert_in_order(&[
        "Catchpoint 2 (syscall 'getppid' [110])",
        "(call to syscall getppid)",
        "(returned from syscall getppid)",
        "(call to syscall getppid)",
        "(call to syscall gettid)",
        "(returned from syscall gettid)",
        "Catchpoint 4 (",
        "exited normally",
    ]);
}

#[test]
fn a_call_in_another_thread_is_told_once() {
    let program = Program::build("calls.c", &[]);
    let said = program.debug(&[
        "handle SIGUSR1 nostop noprint",
        "break main",
        "continue",
        "catch syscall read",
        "break between",
        "continue",
        "continue",
        "continue",
        "continue",
        "continue",
        "continue",
    ]);
    said.assert_in_order(&["exited normally"]);
    // All threads are stopped at each stop, one of them in the middle of its call.
    let count = |words| said.output.matches(words).count();
    assert_eq!(count("(call to syscall read)"), 1, "{}", said.output);
    assert_eq!(count("(returned from syscall read)"), 1, "{}", said.output);
    assert_eq!(count("Breakpoint 3, between"), 3, "{}", said.output);
}

#[test]
fn a_signal_that_is_not_to_be_passed_is_dropped_at_the_detaching() {
    let program = Program::build("calls.c", &[]);
    let wait = "handle SIGUSR1 stop print";
    for (pass, word) in [("pass", "usr1 1"), ("nopass", "usr1 0")] {
        let said = program.debug_to_the_end(&[
            &format!("{wait} {pass}"),
            "break main",
            "continue",
            "delete",
            "continue",
            "detach",
        ]);
        said.assert_in_order(&["received signal SIGUSR1", "detached"]);
        assert!(said.errors.contains(word), "{}", said.errors);
    }
}
