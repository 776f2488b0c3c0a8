//! Programs in separate namespaces and roots, as in containers.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tracewire_test_support::{copy_program, tool};

use crate::support::{Built, OBEYS, ran, tracewire, value};

/// The parts of a container: namespaces for processes, mounts and users, and a root that is mounted only there.
const CONTAINER: &str = "mount -t tmpfs none root && cp \"$0\" root/ && exec chroot root \"/$0\"";

/// The values of `n` in frames.
fn values(frames: &[Value]) -> Vec<&str> {
    let values = frames.iter().filter_map(|frame| value(frame, "n"));
    values.collect()
}

#[test]
fn a_program_in_a_container_is_found_recorded_and_shown() {
    let name = format!("boxed-{}", std::process::id());
    let built = Built::named(&name, OBEYS, &["-O1", "-static"]);
    std::fs::create_dir(built.path("root")).expect("made");
    std::fs::create_dir(built.path("copy")).expect("made");
    copy_program(&built.program, &built.path(&format!("copy/{name}")));
    for mechanism in ["jump", "trap"] {
        let mut recording = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--name", &name, "--later", "-t", "work : n"])
            .args(["--mechanism", mechanism, "-o", mechanism])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let mut errors = BufReader::new(recording.stderr.take().expect("its errors"));
        let mut said = String::new();
        let mut hear = |words: &str| {
            while !said.contains(words) {
                assert_ne!(errors.read_line(&mut said).expect("read"), 0, "{said}");
            }
        };
        hear("those that start are recorded");
        let mut boxed = tool("unshare")
            .current_dir(built.folder.path())
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "sh",
                "-c",
                CONTAINER,
                &name,
            ])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        hear("has started, and is recorded");
        let mut input = boxed.stdin.take().expect("its input");
        input.write_all(b"xxxxx").expect("written");
        drop(input);
        let boxed = boxed.wait_with_output().expect("it ends");
        let own = String::from_utf8_lossy(&boxed.stderr);
        assert!(own.ends_with(" 5 calls\n"), "{own}");
        kill(Pid::from_raw(recording.id().cast_signed()), Signal::SIGINT).expect("sent");
        std::io::Read::read_to_string(&mut errors, &mut said).expect("read");
        let status = recording.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{said}");
        for words in [
            "5 frames of 1 process",
            "has a root directory of its own",
            "/root, or",
        ] {
            assert!(said.contains(words), "{said}");
        }
        // The private mount does not exist any more.
        let shown = built.run(&["show", mechanism, "--json"]).code(0);
        assert!(values(&shown.json()).is_empty(), "{}", shown.stdout);
        let shown = built
            .run(&["show", mechanism, "--json", "--elf", "copy"])
            .code(0);
        assert_eq!(values(&shown.json()), ["0", "1", "2", "3", "4"]);
        assert_eq!(shown.stderr, "");
    }
}

#[test]
fn a_program_with_a_root_of_our_own_files_is_shown_as_any_other() {
    let name = format!("rooted-{}", std::process::id());
    let built = Built::named(&name, OBEYS, &["-O1", "-static"]);
    let program = built.program.file_name().expect("a name").to_owned();
    let folder = built.folder.path().to_owned();
    let mut rooted = tool("unshare")
        .args(["--user", "--map-root-user", "--root"])
        .arg(&folder)
        .arg(std::path::Path::new("/").join(&program))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare runs");
    // It is the program before it waits for its input.
    let is_program = || {
        let link = std::fs::read_link(format!("/proc/{}/exe", rooted.id()));
        link.is_ok_and(|link| link.file_name() == Some(&program))
    };
    while !is_program() {
        std::thread::yield_now();
    }
    let id = rooted.id().to_string();
    let mut recording = tracewire()
        .current_dir(&folder)
        .args(["record", "-p", &id, "-t", "work : n", "-o", "out.tf"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let mut errors = BufReader::new(recording.stderr.take().expect("its errors"));
    let mut said = String::new();
    while !said.contains("tracepoint 1 by") {
        assert_ne!(errors.read_line(&mut said).expect("read"), 0, "{said}");
    }
    let mut input = rooted.stdin.take().expect("its input");
    input.write_all(b"xxx").expect("written");
    drop(input);
    let rooted = ran(rooted.wait_with_output().expect("it ends")).code(0);
    assert!(rooted.stderr.ends_with(" 3 calls\n"), "{}", rooted.stderr);
    std::io::Read::read_to_string(&mut errors, &mut said).expect("read");
    assert_eq!(recording.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(!said.contains("warning"), "{said}");
    let shown = built.run(&["show", "out.tf", "--json"]).code(0);
    assert_eq!(values(&shown.json()), ["0", "1", "2"]);
}
