//! Control of the agent: its configuration, its socket, its signals.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::agent::{Place, TRACEWIRE, recorders, wait};
use crate::program::{self, Counted};
use crate::runs::{self, Archive, has_own_code};

/// A user that the test's is not.
const NOBODY: u32 = 65534;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_probe_finds_a_program_that_starts_and_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let place = Place::new(folder.path());
    place.configure(&format!(
        "rotate = \"300ms\"\n[[probe]]\nname = \"calls\"\nprocess = {built:?}\ntracepoints = [\"hit : thread, seq, check\"]\n"
    ));
    let agent = place.start();
    let archive = Archive::begin(place.directory(), folder.path().join("archive"));
    let mut ended = Vec::new();
    for _ in 0..3 {
        let program = Counted::start(&built, folder.path(), 2, 20_000);
        let process = program.id();
        wait("it is recorded", || place.records("calls", process));
        // All calls come after the tracepoint, so each has its frame.
        program.begin();
        let files = place.probe("calls").unwrap()["files"].as_u64().unwrap();
        wait("files are finished while it runs", || {
            place.probe("calls").unwrap()["files"].as_u64().unwrap() > files + 1
        });
        let (status, counts) = program.finish();
        assert!(status.success(), "{status}");
        ended.push((process, counts));
        wait("it is no longer recorded", || {
            !place.records("calls", process)
        });
    }
    assert!(agent.end().success(), "{}", place.messages());
    let (archive, _) = archive.end();
    let mut frames = archive.frames();
    assert_eq!(frames.missing(), 0);
    for (process, counts) in ended {
        for (thread, count) in counts.iter().enumerate() {
            let seen = frames.of(process, thread as u64);
            assert!(
                seen.iter().copied().eq(0..count.begun),
                "{count:?} of {process}"
            );
        }
    }
    assert_eq!(place.counts("calls")["lost"], 0);
}

#[test]
fn the_oldest_runs_make_room_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let place = Place::new(folder.path());
    let probe = format!(
        "[[probe]]\nname = \"calls\"\nprocess = {built:?}\ntracepoints = [\"hit : thread, seq, check\"]\n"
    );
    // An unfinished file has room set aside, which counts.
    let limit = 4 << 20;
    place.configure(&format!(
        "rotate = \"100ms\"\nlimits = {{ size = \"{limit}\" }}\n{probe}"
    ));
    let agent = place.start();
    let program = Counted::start(&built, folder.path(), 2, 1000);
    program.begin();
    let removed = |key: &str| place.status().unwrap()["agent"][key].as_u64().unwrap();
    wait("runs are removed", || removed("removed_runs") > 5);
    assert!(program.finish().0.success());
    assert!(agent.end().success());
    let agent = place.start();
    let all = place.probe("calls").unwrap()["frames"].as_u64().unwrap();
    let mut kept = 0;
    for entry in fs::read_dir(place.directory().join("runs")).unwrap() {
        for run in fs::read_dir(entry.unwrap().path()).unwrap() {
            let file = tracewire_tracefile::TraceFile::open(run.unwrap().path()).unwrap();
            kept += file.frame_count();
        }
    }
    assert!(kept > 0);
    assert_eq!(
        all,
        kept + removed("removed_frames"),
        "{}",
        place.messages()
    );
    assert!(runs::size(&place.directory().join("runs")) <= limit);
    assert!(place.messages().contains(" for limits.size: "));
    // So do old ones.
    place.configure(&format!("limits = {{ age = \"1ms\" }}\n{probe}"));
    agent.signal(libc::SIGHUP);
    wait("all are removed", || removed("removed_frames") == all);
    assert_eq!(runs::size(&place.directory().join("runs")), 0);
    assert!(agent.end().success());
}

#[test]
fn probes_are_added_and_removed_and_survive_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let place = Place::new(folder.path());
    place.configure("rotate = \"200ms\"\n");
    let agent = place.start();
    let program = Counted::start(&built, folder.path(), 1, 20_000);
    program.begin();
    let process = program.id();
    let path = built.display().to_string();
    let add = [
        "add",
        "calls",
        "--process",
        &path,
        "-t",
        "hit : thread, seq, check",
    ];
    assert!(place.ask(&add).status.success());
    wait("it is recorded", || place.records("calls", process));
    for (wrong, words) in [
        (
            &add[..],
            "there is a probe calls: remove it, or choose another name",
        ),
        (
            &["add", "other", "--process", &path, "-t", "hit"],
            "chooses the same processes as calls",
        ),
        (
            &["add", "../x", "--process", "x", "-t", "hit"],
            "expected 1 to 64 letters, digits",
        ),
        (&["add", "x", "-t", "hit"], "expected which processes"),
        (
            &["add", "x", "--process", "x", "-t", "hit if"],
            "probe x: tracepoints: ",
        ),
        (
            &["add", "x", "--process", "x", "-t", "hit", "--rate", "fast"],
            "probe x: rate: expected a number of frames",
        ),
        (&["remove", "other"], "there is no probe other"),
    ] {
        let refused = place.ask(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(words), "{wrong:?}: {said}");
    }
    // A file of the agent's is not read for a client.
    let hostile = folder.path().join("hostile.toml");
    fs::write(
        &hostile,
        "[[probe]]\nname = \"x\"\nprocess = \"x\"\nscript = \"/etc/shadow\"\n",
    )
    .unwrap();
    let refused = place.ask(&["add", "--file", hostile.to_str().unwrap()]);
    assert!(
        text(&refused.stderr).contains("a probe that is added names no files"),
        "{refused:?}"
    );
    agent.kill();
    let agent = place.start();
    wait("it is recorded again", || place.records("calls", process));
    assert!(place.ask(&["remove", "calls"]).status.success());
    wait("it is removed", || place.probe("calls").is_none());
    assert!(has_own_code(process));
    assert!(program.finish().0.success());
    agent.end();
    let agent = place.start();
    assert!(place.probe("calls").is_none());
    agent.end();
}

#[test]
fn the_configuration_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    let place = Place::new(folder.path());
    let probe = |name: &str, tracepoint: &str| {
        format!(
            "[[probe]]\nname = \"{name}\"\nprocess = {built:?}\ntracepoints = \"{tracepoint}\"\n"
        )
    };
    place.configure(&probe("one", "hit : thread"));
    let agent = place.start();
    let program = Counted::start(&built, folder.path(), 1, 20_000);
    let process = program.id();
    wait("it is recorded", || place.records("one", process));
    // A wrong one changes nothing.
    place.configure("[[probe]]\nname = 1\n");
    agent.signal(libc::SIGHUP);
    wait("it says so", || {
        place.messages().contains("nothing is changed")
    });
    assert!(place.records("one", process));
    let recorder = place.probe("one").unwrap()["recorder"].clone();
    place.configure(&(probe("two", "hit : seq") + "[limits]\nage = \"1d\"\n"));
    agent.signal(libc::SIGHUP);
    wait("the other one records it", || {
        place.probe("one").is_none() && place.records("two", process)
    });
    assert_ne!(place.probe("two").unwrap()["recorder"], recorder);
    assert_eq!(place.status().unwrap()["agent"]["limit_seconds"], 86400);
    assert!(program.finish().0.success());
    assert!(agent.end().success());
}

#[test]
fn a_probe_expires() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    place.configure(
        "[[probe]]\nname = \"short\"\nprocess = \"nothing-has-this-name\"\ntracepoints = \"main\"\nexpire = \"300ms\"\n",
    );
    let agent = place.start();
    wait("it expires", || {
        place.probe("short").unwrap()["state"] == "expired"
    });
    agent.kill();
    let agent = place.start();
    wait("it stays so", || {
        place.probe("short").unwrap()["state"] == "expired"
    });
    assert!(agent.end().success());
}

#[test]
fn the_socket_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = Place::new(folder.path());
    place.configure("");
    let agent = place.start();
    let mode = fs::metadata(place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let directory = fs::metadata(place.directory())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(directory & 0o777, 0o700);
    let is_root = nix_is_root();
    let as_nobody = || {
        let mut command = Command::new(TRACEWIRE);
        command
            .args(["agent", "status", "--socket"])
            .arg(place.socket());
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        text(&command.output().unwrap().stderr)
    };
    if is_root {
        let said = as_nobody();
        assert!(said.contains("Permission denied"), "{said}");
        // If the file's mode lets others connect, the kernel's user of the peer still decides.
        fs::set_permissions(place.socket(), fs::Permissions::from_mode(0o666)).unwrap();
        let said = as_nobody();
        assert!(
            said.contains("this user may not talk to the agent"),
            "{said}"
        );
    }
    agent.end();
    if is_root {
        place.configure(&format!("group = \"{NOBODY}\"\n"));
        let agent = place.start();
        let mode = fs::metadata(place.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        assert_eq!(as_nobody(), "");
        agent.end();
    }
}

fn nix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn hostile_clients_disturb_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    place.configure("");
    let agent = place.start();
    let connect = || UnixStream::connect(place.socket()).unwrap();
    for line in [
        &b"\n"[..],
        b"{}\n",
        b"\xff\xfe\n",
        b"[[[[[[[[\n",
        b"{\"command\":\"add\",\"probes\":\"[[probe]]\"}\n",
    ] {
        let mut client = connect();
        client.write_all(line).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer["error"].is_string(), "{answer}");
    }
    // Without an end, and more than is read.
    let mut client = connect();
    let piece = vec![b'x'; 1 << 20];
    let written = (0..16).try_for_each(|_| client.write_all(&piece));
    assert!(written.is_err());
    // Waiting clients do not prevent the error that there are too many, and are closed.
    let waiting: Vec<UnixStream> = (0..16).map(|_| connect()).collect();
    wait("there are too many", || {
        text(&place.ask(&["status"]).stderr).contains("too many clients")
    });
    drop(waiting);
    wait("it answers again", || place.status().is_some());
    assert!(agent.end().success());
}

/// The agent may end between a client's connection and its request. The socket's broken pipe is not that of standard output.
#[test]
fn an_agent_that_closes_the_connection_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let listener = UnixListener::bind(place.socket()).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            drop(client);
        }
    });
    for _ in 0..40 {
        let asked = place.ask(&["status", "--json"]);
        assert_eq!(asked.status.code(), Some(2), "{asked:?}");
        let said = text(&asked.stderr);
        assert!(said.contains("no agent answers at "), "{said}");
    }
}

#[test]
fn one_agent_has_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    place.configure("");
    let agent = place.start();
    let second = place.command(Path::new(TRACEWIRE)).status().unwrap();
    assert_eq!(second.code(), Some(2));
    assert!(
        place.messages().contains("another agent uses"),
        "{}",
        place.messages()
    );
    assert!(agent.end().success());
    assert!(recorders(&place.directory()).is_empty());
}

#[test]
fn wrong_configurations_are_named_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    let probe = "directory = \"/nowhere\"\n[[probe]]\nname = \"p\"\nprocess = \"x\"\n";
    let mut all = String::new();
    for wrong in [
        "",
        "directory = 1\n",
        "directory = \"/nowhere\"\ncolour = \"red\"\n",
        "directory = \"/nowhere\"\n[limits]\nsize = \"large\"\n",
        "directory = \"/nowhere\"\n[limits]\nage = \"1 year\"\n",
        "directory = \"/nowhere\"\ngroup = \"no-such-group\"\n",
        "directory = \"/nowhere\"\n[[probe]]\n",
        "directory = \"/nowhere\"\n[[probe]]\nname = \"a b\"\n",
        "directory = \"/nowhere\"\n[[probe]]\nname = \"p\"\ntracepoints = \"main\"\n",
        probe,
        &format!("{probe}tracepoints = 5\n"),
        &format!("{probe}tracepoints = [\"main\", \"work if\"]\n"),
        &format!("{probe}script = \"relative.gdb\"\n"),
        &format!("{probe}script = \"/nowhere.gdb\"\n"),
        &format!("{probe}tracepoints = \"main\"\nuser = \"no-such-user\"\n"),
        &format!("{probe}tracepoints = \"main\"\nrate = \"fast\"\n"),
        &format!("{probe}tracepoints = \"main\"\nbudget = \"all\"\n"),
        &format!("{probe}tracepoints = \"main\"\nexpire = \"soon\"\n"),
        &format!("{probe}tracepoints = \"main\"\nredact = \"\"\n"),
        &format!("{probe}tracepoints = \"main\"\nmechanism = \"magic\"\n"),
        &format!("{probe}tracepoints = \"main\"\nbuffer_size = \"1KiB\"\n"),
        &format!(
            "{probe}tracepoints = \"main\"\n[[probe]]\nname = \"q\"\nprocess = \"x\"\ntracepoints = \"f\"\n"
        ),
    ] {
        fs::write(&config, wrong).unwrap();
        let mut command = Command::new(TRACEWIRE);
        command
            .args(["agent", "--config", "agent.toml"])
            .current_dir(&folder);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        all += &format!("{wrong}{}\n", text(&output.stderr));
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/agent-configurations.txt");
    snapbox::Assert::new().action_env("SNAPSHOTS").eq(
        snapbox::data::Data::text(all).raw(),
        snapbox::data::Data::read_from(&path, None).raw(),
    );
}
