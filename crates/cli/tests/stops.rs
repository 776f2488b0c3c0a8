//! What is told of stops in the corners: traps of the program's own, interrupts between two runs, children that are gone,
//! threads that stand when a client comes in non-stop mode.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

mod wire;

use wire::{Client, Server, address, build, counter, memory, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn serve(program: &Path) -> Server {
    Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "127.0.0.1:0"])
            .arg(program),
    )
}

/// `rip` of the selected thread.
fn place(client: &mut Client) -> u64 {
    let digits = client.ask("p10");
    u64::from_str_radix(&digits, 16).unwrap().swap_bytes()
}

/// A process that counts, which ends with the test.
struct Counting(Child);

impl Counting {
    fn start(program: &Path) -> Self {
        let child = Command::new(program).stdin(Stdio::null()).spawn().unwrap();
        let other = address(program, "other");
        // Both threads are there.
        while memory(child.id(), other, 8).map_or(true, |bytes| bytes == [0; 8]) {
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_trap_of_the_program_s_own_is_told_of_where_a_breakpoint_was() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let step = address(&program, "step");
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("?");
    assert_eq!(client.ask(&format!("Z0,{step:x},1")), "OK");
    assert!(client.ask("vCont;c").starts_with("T05"));
    assert_eq!(client.ask(&format!("z0,{step:x},1")), "OK");
    assert_eq!(client.ask(&format!("M{step:x},1:cc")), "OK");
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_eq!(place(&mut client), step + 1);
}

#[test]
fn a_breakpoint_at_a_trap_of_the_program_s_own_stops_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let step = address(&program, "step");
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("qSupported:swbreak+");
    client.ask("?");
    assert_eq!(client.ask(&format!("M{step:x},1:cc")), "OK");
    assert_eq!(client.ask(&format!("Z0,{step:x},1")), "OK");
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T05swbreak"), "{stop}");
    assert_eq!(place(&mut client), step);
    // It is executed by who does not go past it.
    let stop = client.ask("vCont;c");
    assert!(
        stop.starts_with("T05") && !stop.contains("swbreak"),
        "{stop}"
    );
    assert_eq!(place(&mut client), step + 1);
}

#[test]
fn an_interrupt_between_two_runs_stops_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let step = address(&program, "step");
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("?");
    assert_eq!(client.ask(&format!("Z0,{step:x},1")), "OK");
    assert!(client.ask("vCont;c").starts_with("T05"));
    assert_eq!(client.ask(&format!("z0,{step:x},1")), "OK");
    // It comes too late for the stop, and there is no other.
    client.0.write_all(&[3]).unwrap();
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T02"), "{stop}");
    // One interrupt is one stop.
    assert_eq!(client.ask(&format!("Z0,{step:x},1")), "OK");
    for _ in 0..2 {
        let stop = client.ask("vCont;c");
        assert!(stop.starts_with("T05"), "{stop}");
    }
}

#[test]
fn an_interrupt_is_told_of_a_thread_that_was_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let count = address(&program, "count");
    let counting = Counting::start(&program);
    let process = counting.0.id();
    let server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "--attach", "127.0.0.1:0"])
            .arg(process.to_string()),
    );
    let mut client = server.connect();
    client.ask("?");
    let threads = client.ask("qfThreadInfo");
    let second = threads.split(',').nth(1).unwrap().to_owned();
    let before = counter(process, count);
    client.send(format!("vCont;c:{second}").as_bytes()).unwrap();
    wire::runs(process, address(&program, "other"), 3);
    client.0.write_all(&[3]).unwrap();
    let stop = client.reply().unwrap();
    assert!(
        stop.starts_with("T02") && stop.contains(&format!("thread:{second};")),
        "{stop} of {threads}"
    );
    assert_eq!(counter(process, count), before);
    assert_eq!(client.ask("D"), "OK");
}

#[test]
fn a_thread_goes_on_from_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let [step, main] = ["step", "main"].map(|symbol| address(&program, symbol));
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("?");
    assert!(client.ask(&format!("s{step:x}")).starts_with("T05"));
    // `push %rbp`
    assert_eq!(place(&mut client), step + 1);
    assert_eq!(client.ask(&format!("Z0,{:x},1", main + 1)), "OK");
    assert!(client.ask(&format!("c{main:x}")).starts_with("T05"));
    assert_eq!(place(&mut client), main + 1);
}

#[test]
fn a_child_that_is_gone_is_told_of_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "family.c");
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("qSupported:multiprocess+;fork-events+;vfork-events+");
    client.ask("?");
    let stop = client.ask("vCont;c");
    let (_, rest) = stop.split_once("fork:p").expect(&stop);
    let child = rest.split('.').next().unwrap();
    assert!(client.ask("?").contains("fork:p"));
    assert_eq!(client.ask(&format!("vKill;{child}")), "OK");
    let stop = client.ask("?");
    assert!(stop.starts_with("T05") && !stop.contains("fork"), "{stop}");
}

#[test]
fn of_a_process_attached_to_before_one_thread_stands_in_non_stop_mode() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let counting = Counting::start(&program);
    let process = counting.0.id();
    let server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "--attach", "127.0.0.1:0"])
            .arg(process.to_string()),
    );
    let mut client = server.connect();
    let threads = client.ask("qfThreadInfo");
    let (first, second) = threads[1..].split_once(',').unwrap();
    assert_eq!(client.ask("QNonStop:1"), "OK");
    let stop = client.ask("?");
    assert!(
        stop.starts_with("T00") && stop.contains(&format!("thread:{first};")),
        "{stop}"
    );
    assert_eq!(client.ask("vStopped"), "OK");
    let count = address(&program, "count");
    let before = counter(process, count);
    wire::runs(process, address(&program, "other"), 3);
    assert_eq!(counter(process, count), before);
    assert_eq!(client.ask(&format!("vCont;t:{second}")), "OK");
    let stop = client.notification();
    assert!(
        stop.starts_with("Stop:T00") && stop.contains(&format!("thread:{second};")),
        "{stop}"
    );
    assert_eq!(client.ask("vStopped"), "OK");
    assert_eq!(client.ask("D"), "OK");
}

#[test]
fn nothing_of_a_process_is_left_when_it_is_attached_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let step = address(&program, "step");
    let counting = Counting::start(&program);
    let process = counting.0.id();
    let server = Server::start(Command::new(TRACEWIRE).args([
        "gdbserver",
        "--once",
        "--multi",
        "127.0.0.1:0",
    ]));
    let mut client = server.connect();
    assert_eq!(client.ask("!"), "OK");
    assert!(
        client
            .ask(&format!("vAttach;{process:x}"))
            .starts_with("T00")
    );
    assert_eq!(client.ask(&format!("Z0,{step:x},1")), "OK");
    assert!(client.ask("vCont;c").starts_with("T05"));
    assert_eq!(client.ask(&format!("z0,{step:x},1")), "OK");
    assert_eq!(client.ask("D"), "OK");
    let stop = client.ask(&format!("vAttach;{process:x}"));
    assert!(stop.starts_with("T00"), "{stop}");
    assert_eq!(client.ask("QNonStop:1"), "OK");
    let stop = client.ask("?");
    assert!(stop.starts_with("T00"), "{stop}");
    assert_eq!(client.ask("vStopped"), "OK");
    let stop = client.notification();
    assert!(stop.starts_with("Stop:T00"), "{stop}");
    assert_eq!(client.ask("vStopped"), "OK");
    assert_eq!(client.ask("D"), "OK");
}

#[test]
fn a_step_over_a_fork_ends_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "forks.c");
    for (before, after, events) in [("forks", "forked", 1), ("vforks", "vforked", 2)] {
        let [before, after] = [before, after].map(|symbol| address(&program, symbol));
        let server = serve(&program);
        let mut client = server.connect();
        client.ask("qSupported:multiprocess+;fork-events+;vfork-events+");
        client.ask("?");
        // SIGCHLD
        assert_eq!(client.ask("QPassSignals:14"), "OK");
        let process = server.process.unwrap();
        assert_eq!(client.ask(&format!("Z0,{before:x},1")), "OK");
        let mut stop = client.ask("vCont;c");
        // The other child, which lives its own life.
        if let Some((_, child)) = stop.split_once("fork:p") {
            let child = child.split('.').next().unwrap();
            assert_eq!(client.ask(&format!("z0,{before:x},1")), "OK");
            assert_eq!(client.ask(&format!("D;{child}")), "OK");
            assert_eq!(client.ask(&format!("Z0,{before:x},1")), "OK");
            stop = client.ask("vCont;c");
        }
        assert!(stop.starts_with("T05"), "{stop}");
        assert_eq!(client.ask(&format!("z0,{before:x},1")), "OK");
        assert_eq!(place(&mut client), before);
        let mut stop = client.ask(&format!("vCont;s:p{process:x}.{process:x}"));
        for event in 0..events {
            assert!(stop.contains("fork"), "{stop}");
            if let Some((_, child)) = stop.split_once("fork:p") {
                let child = child.split('.').next().unwrap();
                assert_eq!(client.ask(&format!("D;{child}")), "OK");
            }
            // As GDB has a parent by vfork go on without breakpoints, and stepped once its child has gone.
            let last = event + 1 == events;
            let how = if last { 's' } else { 'c' };
            stop = client.ask(&format!("vCont;{how}:p{process:x}.{process:x}"));
        }
        assert!(stop.starts_with("T05") && !stop.contains("fork"), "{stop}");
        client.ask(&format!("Hgp{process:x}.{process:x}"));
        assert_eq!(place(&mut client), after);
    }
}

#[test]
fn a_breakpoint_is_put_into_memory_that_was_mapped_anew() {
    const PLACE: u64 = 0x1000_0000;
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "remap.c");
    let mapped = address(&program, "mapped");
    let server = serve(&program);
    let mut client = server.connect();
    client.ask("?");
    let process = server.process.unwrap();
    for _ in 0..2 {
        assert_eq!(client.ask(&format!("Z0,{mapped:x},1")), "OK");
        assert!(client.ask("vCont;c").starts_with("T05"));
        assert_eq!(place(&mut client), mapped);
        assert_eq!(client.ask(&format!("z0,{mapped:x},1")), "OK");
        // Nobody has taken out the first.
        assert_eq!(client.ask(&format!("Z0,{PLACE:x},1")), "OK");
        assert_eq!(memory(process, PLACE, 2).unwrap(), [0xcc, 0x90]);
        assert!(client.ask("vCont;c").starts_with("T05"));
        assert_eq!(place(&mut client), PLACE);
    }
    // What has been unmapped with it is gone.
    assert_eq!(client.ask("vCont;c"), "W00");
}

#[test]
fn a_run_that_a_jump_has_ended_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "steady.c");
    let counting = Counting::start(&program);
    let process = counting.0.id();
    let server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "--attach", "127.0.0.1:0"])
            .arg(process.to_string()),
    );
    let mut client = server.connect();
    // The store of an argument and a longer instruction behind it; a condition that never comes to an end.
    let site = address(&program, "step") + 4;
    assert_eq!(client.ask("QTinit"), "OK");
    let tracepoint = format!("QTDP:1:{site:016x}:E:0:0:X3,210000");
    assert_eq!(client.ask(&tracepoint), "OK");
    for _ in 0..5 {
        assert_eq!(client.ask("QTStart"), "OK");
        while !client.ask("qTStatus").starts_with("T0;terror:") {
            client.send(b"vCont;c").unwrap();
            client.0.write_all(&[3]).unwrap();
            assert!(client.reply().unwrap().starts_with("T02"));
        }
    }
    assert_eq!(client.ask("D"), "OK");
    runs(process, address(&program, "count"), 2);
    runs(process, address(&program, "other"), 2);
}
