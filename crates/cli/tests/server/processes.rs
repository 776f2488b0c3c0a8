//! Children, which GDB follows or detaches from, as configured.

use crate::{TRACEWIRE, build, gdb};
use tracewire_test_support::assert_in_order;

#[test]
fn children_are_followed_kept_or_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "family.c");
    let program = program.to_str().unwrap();
    let session = |commands: &[&str]| {
        let connect = format!("target extended-remote | {TRACEWIRE} gdbserver --once - {program}");
        let file = format!("file {program}");
        let mut all = vec![
            file.as_str(),
            &connect,
            "break child_work",
            "break parent_work",
        ];
        all.extend(commands);
        gdb(&all)
    };

    // The parent is followed, and the detached child hits no breakpoint.
    let said = session(&[
        "continue",
        "print number",
        "continue",
        "print number",
        "continue",
    ]);
    assert_in_order(
        &said,
        &[
            "parent_work (number=7)",
            "$1 = 7",
            "parent_work (number=0)",
            "exited normally",
        ],
    );
    assert!(!said.contains("child_work (number"), "{said}");

    // The child is followed, and the parent is detached.
    let said = session(&["set follow-fork-mode child", "continue", "continue"]);
    assert_in_order(
        &said,
        &[
            "Attaching after",
            "child_work (number=7)",
            "exited with code 07",
        ],
    );

    // Both are kept; each has separate memory.
    let said = session(&[
        "set detach-on-fork off",
        "set schedule-multiple on",
        "continue",
        "print places",
        "info inferiors",
        "continue",
        "inferior 1",
        "continue",
        "print places",
    ]);
    assert_in_order(
        &said,
        &[
            "child_work (number=7)",
            "$1 = 0",
            "process",
            "process",
            "parent_work (number=7)",
            "$2 = 0",
        ],
    );

    // A child by vfork is followed through its exec.
    let said = session(&[
        "delete",
        "catch vfork",
        "continue",
        "set follow-fork-mode child",
        "catch exec",
        "continue",
        "continue",
    ]);
    assert_in_order(&said, &["(vforked process", "(exec'd /", "exited normally"]);
}
