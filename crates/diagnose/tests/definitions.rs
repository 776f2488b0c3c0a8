//! The findings about lines that contradict one another.

use tracewire_diagnose::{Severity, check};
use tracewire_tracefile::TraceFile;

/// Two variables, two locations of tracepoint 1 with a pass count at one of them, and tracepoint 2: from line 2 on.
const LINES: [&str; 8] = [
    "R 8",
    "status 0;tpasscount:1;tframes:0;tcreated:0",
    "tsv 1:5:0:6f6e65",
    "tp T1:1000:E:0:9",
    "tp T1:2000:E:0:0",
    "tp Z1:1000:at:0:4:6d61696e",
    "tp V1:1000:0:0",
    "tp T2:1000:E:0:0",
];

/// The warnings about these lines, each one with its line.
fn warnings(lines: &[&str]) -> Vec<String> {
    let text = format!("\x7fTRACE0\n{}\n\n\0\0\0\0", lines.join("\n"));
    let file = TraceFile::from_bytes(text.into_bytes()).expect("a trace file");
    let found = check(&file).findings.into_iter();
    found
        .map(|finding| {
            assert_eq!(finding.severity(), Severity::Warning, "{finding}");
            finding.to_string()
        })
        .collect()
}

#[test]
fn what_is_defined_again_is_reported_with_both_lines() {
    assert_eq!(warnings(&LINES), [""; 0]);
    for (again, reported) in [
        (
            "R 8",
            "the size of a register block is defined again, after line 2",
        ),
        (
            LINES[1],
            "the status of the run is defined again, after line 3",
        ),
        (
            "tsv 1:6:0:6f6e65",
            "variable 1 is defined again, after line 4",
        ),
        (
            "tsv 1:5:0:74776f",
            "variable 1 is defined again, after line 4",
        ),
        (
            "tp T1:1000:D:0:9",
            "tracepoint 1 at 0x1000 is defined again, after line 5",
        ),
        (
            "tp V1:1000:1:1",
            "the usage of tracepoint 1 at 0x1000 is defined again, after line 8",
        ),
    ] {
        let expected = format!("line 10: {reported}: the last line counts");
        assert_eq!(warnings(&[&LINES[..], &[again]].concat()), [expected]);
    }
    // These have no other findings.
    for harmless in [
        LINES[2],
        "tsv 2:5:0:74776f",
        "tp V1:2000:0:0",
        "tp V2:1000:0:0",
        "tp A1:1000:R1",
    ] {
        assert_eq!(
            warnings(&[&LINES[..], &[harmless]].concat()),
            [""; 0],
            "{harmless}"
        );
    }
}

#[test]
fn what_names_something_that_is_not_there_is_reported() {
    let with = |line: usize, new| {
        let mut lines = LINES;
        lines[line - 2] = new;
        warnings(&lines)
    };
    for (line, new, reported) in [
        (
            3,
            "status 0;tpasscount:7",
            "line 3: the status line says that tracepoint 7 ended the run, which is not defined",
        ),
        (
            3,
            "status 0;terror:6f:7",
            "line 3: the status line says that tracepoint 7 ended the run, which is not defined",
        ),
        (
            3,
            "status 0;tpasscount:2",
            "line 3: the status line says that tracepoint 2 reached its pass count, and it has none",
        ),
        (
            7,
            "tp Z1:1000:at:0:5:6d61696e",
            "line 7: the location of tracepoint 1 has 4 bytes; its line says 5",
        ),
        (
            7,
            "tp Z1:1000:at:0:6:6d61\ntp Z1:1000:at:2:6:696e",
            "line 7: the location of tracepoint 1 has 4 bytes; its line says 6",
        ),
        (
            8,
            "served 6a756d70::1:1000,3:1000",
            "line 8: says what served tracepoint 3 at 0x1000, which is not defined",
        ),
        (
            8,
            "skipped 1:1000:5,3:1000:6",
            "line 8: says how many hits of tracepoint 3 at 0x1000 were skipped, which is not defined",
        ),
        (
            8,
            "paused 1:1000:5:6.c:1,3:1000:7:8",
            "line 8: says when tracepoint 3 at 0x1000 was out of the program, which is not defined",
        ),
        (
            8,
            "module 0:2000:1000:0:0::2f62",
            "line 8: the module starts at 0x2000 and ends at 0x1000, before that",
        ),
    ] {
        assert!(
            with(line, new).contains(&reported.to_owned()),
            "{new}: {:#?}",
            with(line, new)
        );
    }
    for (line, new) in [
        (3, "status 0;terror:6f:2"),
        (3, "status 0;tpasscount:0"),
        (7, "tp Z1:1000:at:0:4:6d61\ntp Z1:1000:at:2:4:696e"),
        (7, "tp Z1:1000:cond:0:0:"),
    ] {
        assert_eq!(with(line, new), [""; 0], "{new}");
    }
}
