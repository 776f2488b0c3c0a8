//! Conditions and commands of breakpoints, evaluated by the server.

use super::support::Program;

/// Without libraries there are no stops when they are loaded.
const ALONE: &[&str] = &["-static-pie"];

/// How often the program has stopped, by the log of the session.
fn stops(log: &str) -> usize {
    log.lines()
        .filter(|line| line.contains("-> T05swbreak:") || line.contains("-> T05hwbreak:"))
        .count()
}

#[test]
fn a_false_condition_stops_nothing() {
    let program = Program::build("conditions.c", ALONE);
    let said = program.debug_with(
        "--debug-log log",
        &[
            "break look if item->price == 5 && round == 30",
            "continue",
            "print visits",
            "info breakpoints",
            "condition 1 item->price == 9 && round > 47",
            "continue",
            "print round",
            "continue",
            "print round",
            "hbreak main if 1 == 0",
            "break conditions.c:9 if *(int *) 8 == 1",
            "continue",
        ],
    );
    said.assert_in_order(&[
        "Breakpoint 1, look (item=",
        "$1 = 121",
        "stop only if item->price == 5 && round == 30 (target evals)",
        "$2 = 48",
        "$3 = 49",
        // GDB evaluates what the server cannot.
        "Breakpoint 3, look (item=",
    ]);
    assert!(
        said.errors.contains(
            "Error in testing breakpoint condition:\nCannot access memory at address 0x8"
        ),
        "{}",
        said.errors
    );
    let log = std::fs::read_to_string(program.folder.path().join("log")).unwrap();
    assert_eq!(stops(&log), 4);
}

#[test]
fn words_are_printed_by_the_server() {
    let program = Program::build("conditions.c", ALONE);
    let said = program.debug_with(
        "--debug-log log",
        &[
            "set dprintf-style agent",
            r#"dprintf look,"%s costs %3d in %#x\n", item->name, item->price, round"#,
            "condition 1 round == 49",
            "tvariable $seen = 7",
            r#"dprintf conditions.c:9,"seen %d \"%c\"\n", visits, 65"#,
            "condition 2 visits == 3",
            "continue",
        ],
    );
    said.assert_in_order(&["exited normally"]);
    assert!(
        said.errors.contains(
            "seen 3 \"A\"\n\
             apple costs   3 in 0x31\n\
             pear costs   5 in 0x31\n\
             (null) costs   9 in 0x31\n\
             plum costs  -2 in 0x31\n"
        ),
        "{}",
        said.errors
    );
    let log = std::fs::read_to_string(program.folder.path().join("log")).unwrap();
    assert_eq!(stops(&log), 0);
}

/// GDB accepts a variable with any name; the server's user gets a warning that one has no meaning here.
#[test]
fn a_variable_with_a_meaning_elsewhere_is_warned_of() {
    let program = Program::build("conditions.c", ALONE);
    let said = program.debug(&[
        "tvariable $kret",
        "tvariable $seen",
        "trace look",
        "tstart",
        "tstop",
    ]);
    let warnings = said.errors.matches("is a plain variable here").count();
    assert_eq!(warnings, 1, "{}", said.errors);
    assert!(
        said.errors.contains(
            "warning: $kret is a plain variable here, with no effect; to KGTP it puts the tracepoint at the function's return"
        ),
        "{}",
        said.errors
    );
}
