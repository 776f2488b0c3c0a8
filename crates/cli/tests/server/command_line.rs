//! gdbserver's command line, and its words that scripts wait for.

use std::process::{Command, Stdio};

use crate::{Server, TRACEWIRE, build, gdb};
use tracewire_test_support::assert_in_order;

#[test]
fn a_server_for_many_programs_lives_on_and_says_what_gdbserver_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "asked.c");
    let written = folder.path().join("written");
    let (program, written) = (program.to_str().unwrap(), written.to_str().unwrap());
    let mut server = Server::start(&["--multi", "localhost:0"]);
    let connect = format!("target extended-remote localhost:{}", server.port());

    let said = gdb(&[
        &connect,
        &format!("file {program}"),
        &format!("set remote exec-file {program}"),
        &format!("set args {written} 'two words' $HOME"),
        "set environment COLOUR=red blue",
        "unset environment HOME",
        "set cwd /usr",
        "break main",
        "run",
        "print count",
        "continue",
        "run",
        "kill",
        "info inferiors",
        "disconnect",
    ]);
    server.says("Remote debugging from host 127.0.0.1, port ");
    server.says(&format!("Process {program} created; pid = "));
    server.says("Child exited with status 3");
    assert_in_order(
        &said,
        &["Breakpoint 1, main", "$1 = 4", "exited with code 03"],
    );
    assert_in_order(
        &said,
        &["exited with", "Breakpoint 1, main", "killed]", "<null>"],
    );
    server.says("Remote side has terminated connection.  GDBserver will reopen the connection.");
    assert_eq!(
        std::fs::read_to_string(written).unwrap(),
        "in /usr\nCOLOUR red blue\nHOME (none)\n<two words>\n<$HOME>\n"
    );

    // The next client finds no program, the one before having killed it, and attaches to another.
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let said = gdb(&[
        &connect,
        &format!("attach {}", other.id()),
        "detach",
        "monitor exit",
    ]);
    assert!(said.contains("detached]"), "{said}");
    server.says(&format!("Attached; pid = {}", other.id()));
    server.says(&format!("Detaching from process {}", other.id()));
    server.end();
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn programs_are_started_by_a_wrapper_and_by_none() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "asked.c");
    let (program, written) = (program.to_str().unwrap(), folder.path().join("written"));
    for shell in ["--startup-with-shell", "--no-startup-with-shell"] {
        let mut server = Server::start(&[
            "--once",
            shell,
            "--wrapper",
            "env",
            "COLOUR=green",
            "--",
            "localhost:0",
            program,
            written.to_str().unwrap(),
            "*",
        ]);
        let said = gdb(&[
            &format!("target remote localhost:{}", server.port()),
            "continue",
        ]);
        assert!(said.contains("exited with code 03"), "{said}");
        server.end();
        let written = std::fs::read_to_string(&written).unwrap();
        assert_in_order(&written, &["COLOUR green\n", "<*>\n"]);
    }
}

#[test]
fn what_cannot_be_started_is_said() {
    for arguments in [
        &["localhost:0", "/no/such/program"][..],
        &["localhost:0"],
        &["--attach", "localhost:0", "many"],
        &["--disable-packet=vContinue", "localhost:0", "/bin/true"],
    ] {
        let output = Command::new(TRACEWIRE)
            .arg("gdbserver")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    for option in ["--version", "--help"] {
        let output = Command::new(TRACEWIRE)
            .args(["gdbserver", option])
            .output()
            .unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
    }
}

#[test]
fn a_signal_ends_the_server_and_leaves_what_it_attached_to_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "ticking.c");
    let socket = folder.path().join("socket");
    let mut ticking = Command::new(&program).stdin(Stdio::null()).spawn().unwrap();
    let mut server = Server::start(&[
        "--attach",
        socket.to_str().unwrap(),
        &ticking.id().to_string(),
    ]);
    server.says("Listening on ");
    // A client leaves a breakpoint that the program reaches all the time, and disconnects without a request.
    let said = gdb(&[
        &format!("file {}", program.display()),
        &format!("target remote {}", socket.display()),
        "set breakpoint always-inserted on",
        "break tick",
        "disconnect",
    ]);
    assert!(said.contains("Breakpoint 1"), "{said}");
    server.says("Remote side has terminated connection.");
    assert!(socket.exists());
    // SAFETY: kill takes plain numbers.
    unsafe { libc::kill(server.server.id().cast_signed(), libc::SIGTERM) };
    server.says(&format!("Detaching process(es): {}", ticking.id()));
    server.end();
    assert!(!socket.exists());
    // It goes on, and does not hit the breakpoint.
    let said = gdb(&[
        &format!("file {}", program.display()),
        &format!("attach {}", ticking.id()),
        "tbreak tick",
        "continue",
    ]);
    assert!(said.contains("Temporary breakpoint 1, tick"), "{said}");
    assert!(ticking.try_wait().unwrap().is_none());
    ticking.kill().unwrap();
    ticking.wait().unwrap();
}
