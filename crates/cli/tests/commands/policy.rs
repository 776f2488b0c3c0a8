//! Policies, and the log of recordings.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::{Built, Ran};

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__ ((noinline)) int check_password (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n + check_password (n); }
int main (void) { int sum = 0; for (int n = 0; n < 3; n++) sum += work (n); printf ("ran\n"); return sum == 0; }
"#;

fn record(built: &Built, policy: &str, more: &[&str]) -> Ran {
    std::fs::write(built.path("policy.toml"), policy).expect("written");
    let mut arguments = vec![
        "record",
        "--policy",
        "policy.toml",
        "--audit",
        "log",
        "-o",
        "out.tf",
    ];
    arguments.extend(more);
    arguments.extend(["--", "./program"]);
    built.run(&arguments)
}

fn log(built: &Built) -> Vec<Value> {
    let text = std::fs::read_to_string(built.path("log")).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    lines.collect()
}

#[test]
fn what_a_policy_forbids_is_not_recorded_and_that_is_logged() {
    let built = Built::new(PROGRAM, &["-O1"]);
    let program = built.program.canonicalize().expect("its name");
    let program = program.to_str().expect("its name");
    let user = nix::unistd::geteuid().to_string();
    for (policy, more, expected) in [
        ("", &["-t", "work : n"][..], Ok(3)),
        (
            "[functions]\nallow = [\"work\"]",
            &["-t", "work : n"],
            Ok(3),
        ),
        // An entry and a return are a frame each.
        (
            "[functions]\nallow = [\"work\"]",
            &["-t", "span work : n"],
            Ok(6),
        ),
        (
            "[functions]\nallow = [\"work\"]",
            &["-t", "main"],
            Err("the function main may not be recorded"),
        ),
        (
            "[functions]\nallow = [\"work\"]",
            &["-t", "*0x401000", "--keep-going"],
            Err("places outside known functions may not be recorded"),
        ),
        (
            "[functions]\ndeny = [\"*password*\"]",
            &["-t", "work", "-t", "check_*"],
            Err("the function check_password may not be recorded"),
        ),
        (
            "[programs]\nallow = [\"/no/such/*\"]",
            &["-t", "work"],
            Err("the program "),
        ),
        (
            &format!("[programs]\nallow = [\"/*\"]\ndeny = [{program:?}]"),
            &["-t", "work"],
            Err("may not be recorded: a policy of this machine forbids it"),
        ),
        (
            &format!("[users]\ndeny = [{user:?}]"),
            &["-t", "work"],
            Err("processes of "),
        ),
        (
            &format!("[users]\nallow = [{user:?}]"),
            &["-t", "work : n"],
            Ok(3),
        ),
    ] {
        let _ = std::fs::remove_file(built.path("log"));
        let _ = std::fs::remove_file(built.path("out.tf"));
        let ran = record(&built, policy, more);
        let log = log(&built);
        let last = log
            .last()
            .unwrap_or_else(|| panic!("{policy}: {}", ran.stderr));
        assert_eq!(last["program"], program, "{policy}");
        match expected {
            Ok(frames) => {
                let ran = ran.code(0);
                assert_eq!(ran.stdout, "ran\n");
                assert_eq!((log.len(), &log[0]["event"]), (2, &Value::from("begin")));
                assert_eq!(log[0]["locations"], Value::from(vec!["work"]));
                assert_eq!(
                    (&last["event"], &last["frames"]),
                    (&Value::from("end"), &Value::from(frames))
                );
                assert_eq!(last["process"], log[0]["process"]);
                assert!(
                    last["user"].is_string() && last["time"].is_string(),
                    "{last}"
                );
                assert_eq!(last["arguments"][0], "record");
            }
            Err(words) => {
                // The program has not run.
                let ran = ran.code(2).says(&[words]);
                assert_eq!(ran.stdout, "");
                assert!(!built.path("out.tf").exists());
                assert_eq!((log.len(), &last["event"]), (1, &Value::from("denied")));
                assert!(
                    last["reason"]
                        .as_str()
                        .is_some_and(|reason| reason.contains(words))
                );
            }
        }
    }
    let mode = built
        .path("log")
        .metadata()
        .expect("the log")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_cannot_be_logged_is_not_recorded() {
    let built = Built::new(PROGRAM, &["-O1"]);
    symlink("elsewhere", built.path("link")).expect("linked");
    for log in ["/dev/full", "link", "no/such/folder"] {
        let arguments = [
            "record",
            "--audit",
            log,
            "-t",
            "work",
            "-o",
            "out.tf",
            "--",
            "./program",
        ];
        let ran = built.run(&arguments).code(2).says(&["log"]);
        assert_eq!(ran.stdout, "", "{log}");
        assert!(!built.path("out.tf").exists(), "{log}");
    }
    assert!(!built.path("elsewhere").exists());
}

#[test]
fn a_policy_that_cannot_be_read_forbids_all() {
    let built = Built::new(PROGRAM, &["-O1"]);
    for (policy, words) in [
        ("[program]\nallow = []", "unknown field `program`"),
        ("[programs]\nallow = \"all\"", "policy.toml"),
        ("[", "policy.toml"),
    ] {
        let ran = record(&built, policy, &["-t", "work"])
            .code(2)
            .says(&[words]);
        assert_eq!(ran.stdout, "");
    }
    built
        .run(&[
            "record",
            "--policy",
            "none",
            "-t",
            "work",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(2)
        .says(&["the policy none"]);
}

#[test]
fn a_debugger_is_served_only_where_the_policy_says_so() {
    let built = Built::new(PROGRAM, &["-O1"]);
    std::fs::write(built.path("policy.toml"), "[programs]\nallow = [\"/*\"]").expect("written");
    built
        .run(&["gdbserver", "--policy", "policy.toml", "-", "./program"])
        .code(2)
        .says(&["a debugger may not be served: policy.toml does not have `debuggers = true`"]);
    std::fs::write(built.path("policy.toml"), "debuggers = true").expect("written");
    let served = built.run(&[
        "gdbserver",
        "--policy",
        "policy.toml",
        "--once",
        "-",
        "./program",
    ]);
    assert!(
        !served.stderr.contains("may not be served"),
        "{}",
        served.stderr
    );
}
