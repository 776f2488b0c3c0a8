//! Files that GDB refuses: they are reported, and no repaired file is one.

use std::path::{Path, PathBuf};

use tracewire_diagnose::repair::repair;
use tracewire_diagnose::{Fault, Place, Severity, check_structure};
use tracewire_test_support::Gdb;
use tracewire_tracefile::TraceFile;

const NAMES: [&str; 16] = [
    "tfull",
    "tnotrun",
    "tpasscount",
    "tstop",
    "terror",
    "tframes",
    "tcreated",
    "tfree",
    "disconn",
    "circular",
    "starttime",
    "notes",
    "username",
    "tdisconnected",
    "tunknown",
    "foo",
];

const VALUES: [&str; 13] = [
    "", "0", "z", "zz", "zzz", "6", "616", ":0", "61:0", "zz:0", "6:0", "61:zz", "61:",
];

fn file(status: &str) -> Vec<u8> {
    let lines = format!("\x7fTRACE0\nR 8\nstatus {status}\ntp T1:401000:E:0:0\n\n");
    [lines.as_bytes(), b"\x01\0\0\0\0\0\0\0\0\0"].concat()
}

/// Whether a finding reports that GDB refuses the file.
fn is_found(path: &Path) -> bool {
    let mut found = false;
    check_structure(&TraceFile::open(path).unwrap(), &mut |finding| {
        if matches!(
            finding.fault,
            Fault::StatusRefused(_) | Fault::StatusField(_)
        ) {
            assert_eq!(finding.fault.severity(), Severity::Error);
            assert_eq!(finding.place, Place::Line(3));
            found = true;
        }
    });
    found
}

/// Which of the files GDB opens.
fn opened(paths: &[PathBuf]) -> Vec<bool> {
    let mut commands = vec![
        // The effect of a missing text.
        "maint set internal-error quit no".to_owned(),
        "maint set internal-error corefile no".to_owned(),
    ];
    for path in paths {
        commands.push(format!("target tfile {}", path.display()));
        commands.push("delete".to_owned());
        commands.push("echo next\\n".to_owned());
    }
    let said = Gdb::new().commands(&commands).run().all();
    let mut parts = said.split("next\n");
    paths
        .iter()
        .map(|_| parts.next().unwrap().contains("target's tracepoint 1"))
        .collect()
}

/// Every field with every value, as the last one and before another: GDB's own answer, and that it opens what was repaired.
#[test]
fn what_gdb_refuses_is_reported_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = vec![
        "0".to_owned(),
        "0;".to_owned(),
        "0;foo".to_owned(),
        "0;;tframes:1".to_owned(),
    ];
    for name in NAMES {
        for value in VALUES {
            for rest in ["", ";tframes:1", ";username:zz", ";foo"] {
                // GDB reads beyond the end of the line there.
                if (name, value, rest) != ("tstop", "", "") {
                    cases.push(format!("0;{name}:{value}{rest}"));
                }
            }
        }
    }
    // A whole qTStatus reply, in which GDB skips the first field.
    let replies = cases.iter().filter(|case| !case.ends_with(['z', 'o']));
    let replies: Vec<String> = replies.map(|case| format!("T{case}")).collect();
    cases.extend(replies);
    let path = |kind: &str, number: usize| folder.path().join(format!("{kind}{number}.tf"));
    let (mut damaged, mut whole) = (Vec::new(), Vec::new());
    for (number, case) in cases.iter().enumerate() {
        std::fs::write(path("damaged", number), file(case)).unwrap();
        repair(&file(case), path("whole", number)).unwrap();
        damaged.push(path("damaged", number));
        whole.push(path("whole", number));
    }
    let opened_damaged = opened(&damaged);
    let mut refused = 0;
    for ((case, path), opened) in cases.iter().zip(&damaged).zip(opened_damaged) {
        assert_eq!(is_found(path), !opened, "{case}");
        refused += usize::from(!opened);
    }
    assert!(refused.min(cases.len() - refused) > 100, "{refused}");
    for ((case, path), opened) in cases.iter().zip(&whole).zip(opened(&whole)) {
        assert!(opened && !is_found(path), "{case}");
    }
}

/// The line as GDB writes it, as its documentation has it, and as gdbserver replies.
#[test]
fn both_forms_of_the_status_line_say_the_same() {
    const REST: &str = "tstop:676f6e65:0;tframes:1;tcreated:5;tsize:500;circular:0;starttime:3e8";
    let folder = tempfile::tempdir().unwrap();
    let read = |status: &str| {
        let file = TraceFile::from_bytes(file(status)).unwrap();
        let mut found = Vec::new();
        check_structure(&file, &mut |finding| found.push(finding.fault));
        (file.description().status().unwrap().clone(), found)
    };
    let written = format!("0;{REST};username:6d65;notes:6869");
    let (status, found) = read(&written);
    assert_eq!(found, []);
    assert_eq!(status.fields.stop_text.as_deref(), Some("gone"));
    assert_eq!(status.fields.notes.as_deref(), Some("hi"));
    let reply = format!("T0;{REST};username:6d65:;notes:6869:");
    let (of_reply, found) = read(&reply);
    assert_eq!(of_reply, status);
    assert_eq!(found, [Fault::StatusReply("tstop:676f6e65:0".to_owned())]);
    assert_eq!(found[0].severity(), Severity::Warning);
    // A sent reply has its own T.
    assert!(of_reply.to_string().starts_with("0;tstop:"), "{of_reply}");
    assert!(read("T1;tframes:1").0.fields.running);

    // GDB opens it, and ignores the fields that the check reports.
    let path = folder.path().join("reply.tf");
    std::fs::write(&path, file(&reply)).unwrap();
    let commands = [
        format!("target tfile {}", path.display()),
        "tstatus".to_owned(),
    ];
    let said = Gdb::new().commands(&commands).run().all();
    assert!(said.contains("Buffer contains 1 trace frames"), "{said}");
    assert!(said.contains("hi"), "{said}");
    assert!(!said.contains("gone"), "{said}");
}

/// GDB refuses a file without an `R` line, or with size 0 in it; one with long lines too.
#[test]
fn what_gdb_refuses_is_found() {
    let found = |lines: &str| {
        let text = format!("\x7fTRACE0\n{lines}\n\0\0\0\0");
        let file = TraceFile::from_bytes(text.into_bytes()).unwrap();
        let mut found = Vec::new();
        check_structure(&file, &mut |finding| found.push(finding.fault));
        found
    };
    assert_eq!(found(""), [Fault::NoRegisterBlockSize, Fault::NoStatus]);
    assert_eq!(found("R 0\nstatus 0\n"), [Fault::NoRegisterBlockSize]);
    let long = format!("R 8\nstatus 0\n{}\n", "x".repeat(1000));
    assert!(found(&long).contains(&Fault::LongLine(1000)));
}
