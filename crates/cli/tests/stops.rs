//! Reports of rare stops: traps of the program itself, interrupts between two runs, children that have ended, threads that are
//! stopped when a client connects in non-stop mode.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

mod wire;

use wire::{Client, Server, address, build, counter, memory, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// A program of the tests behind a server, and a client.
struct Session {
    client: Client,
    server: Server,
    /// The process, where it was there before the server.
    counting: Option<Counting>,
    program: PathBuf,
    _folder: TempDir,
}

impl Session {
    /// The server has started the program.
    fn started(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), source);
        let server = serve(&["--once", "127.0.0.1:0", program.to_str().unwrap()]);
        Self {
            client: server.connect(),
            server,
            counting: None,
            program,
            _folder: folder,
        }
    }

    /// The server has attached to a process that counts.
    fn attached() -> Self {
        Self::beside(|process| serve(&["--once", "--attach", "127.0.0.1:0", process]))
    }

    /// A process that counts is there.
    fn beside(serve: impl FnOnce(&str) -> Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), "steady.c");
        let counting = Counting::start(&program);
        let server = serve(&counting.0.id().to_string());
        Self {
            client: server.connect(),
            server,
            counting: Some(counting),
            program,
            _folder: folder,
        }
    }

    fn process(&self) -> u32 {
        self.counting
            .as_ref()
            .map_or_else(|| self.server.process.unwrap(), |counting| counting.0.id())
    }

    fn address(&self, symbol: &str) -> u64 {
        address(&self.program, symbol)
    }

    fn ask(&mut self, payload: &str) -> String {
        self.client.ask(payload)
    }

    /// Sends a request that is answered by `OK`.
    fn tell(&mut self, payload: &str) {
        assert_eq!(self.ask(payload), "OK", "{payload}");
    }

    /// Runs the program to a breakpoint at an address, and removes it.
    fn run_to(&mut self, address: u64) {
        self.tell(&format!("Z0,{address:x},1"));
        let stop = self.ask("vCont;c");
        assert!(stop.starts_with("T05"), "{stop}");
        self.tell(&format!("z0,{address:x},1"));
    }

    /// `rip` of the selected thread.
    fn place(&mut self) -> u64 {
        let digits = self.ask("p10");
        u64::from_str_radix(&digits, 16).unwrap().swap_bytes()
    }
}

fn serve(arguments: &[&str]) -> Server {
    Server::start(Command::new(TRACEWIRE).arg("gdbserver").args(arguments))
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
    let mut session = Session::started("steady.c");
    let step = session.address("step");
    session.ask("?");
    session.run_to(step);
    session.tell(&format!("M{step:x},1:cc"));
    let stop = session.ask("vCont;c");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_eq!(session.place(), step + 1);
}

#[test]
fn a_breakpoint_at_a_trap_of_the_program_s_own_stops_before_it() {
    let mut session = Session::started("steady.c");
    let step = session.address("step");
    session.ask("qSupported:swbreak+");
    session.ask("?");
    session.tell(&format!("M{step:x},1:cc"));
    session.tell(&format!("Z0,{step:x},1"));
    let stop = session.ask("vCont;c");
    assert!(stop.starts_with("T05swbreak"), "{stop}");
    assert_eq!(session.place(), step);
    // A client that does not step past it executes it.
    let stop = session.ask("vCont;c");
    assert!(
        stop.starts_with("T05") && !stop.contains("swbreak"),
        "{stop}"
    );
    assert_eq!(session.place(), step + 1);
}

#[test]
fn an_interrupt_between_two_runs_stops_the_next() {
    let mut session = Session::started("steady.c");
    let step = session.address("step");
    session.ask("?");
    session.run_to(step);
    // It comes too late for the stop, and there is no other.
    session.client.0.write_all(&[3]).unwrap();
    let stop = session.ask("vCont;c");
    assert!(stop.starts_with("T02"), "{stop}");
    // One interrupt is one stop.
    session.tell(&format!("Z0,{step:x},1"));
    for _ in 0..2 {
        let stop = session.ask("vCont;c");
        assert!(stop.starts_with("T05"), "{stop}");
    }
}

#[test]
fn an_interrupt_is_told_of_a_thread_that_was_let_go() {
    let mut session = Session::attached();
    let process = session.process();
    let count = session.address("count");
    session.ask("?");
    let threads = session.ask("qfThreadInfo");
    let second = threads.split(',').nth(1).unwrap().to_owned();
    let before = counter(process, count);
    session
        .client
        .send(format!("vCont;c:{second}").as_bytes())
        .unwrap();
    runs(process, session.address("other"), 3);
    session.client.0.write_all(&[3]).unwrap();
    let stop = session.client.reply().unwrap();
    assert!(
        stop.starts_with("T02") && stop.contains(&format!("thread:{second};")),
        "{stop} of {threads}"
    );
    assert_eq!(counter(process, count), before);
    session.tell("D");
}

#[test]
fn a_thread_goes_on_from_an_address() {
    let mut session = Session::started("steady.c");
    let [step, main] = ["step", "main"].map(|symbol| session.address(symbol));
    session.ask("?");
    assert!(session.ask(&format!("s{step:x}")).starts_with("T05"));
    // `push %rbp`
    assert_eq!(session.place(), step + 1);
    session.tell(&format!("Z0,{:x},1", main + 1));
    assert!(session.ask(&format!("c{main:x}")).starts_with("T05"));
    assert_eq!(session.place(), main + 1);
}

#[test]
fn a_child_that_is_gone_is_told_of_no_more() {
    let mut session = Session::started("family.c");
    session.ask("qSupported:multiprocess+;fork-events+;vfork-events+");
    session.ask("?");
    let stop = session.ask("vCont;c");
    let (_, rest) = stop.split_once("fork:p").expect(&stop);
    let child = rest.split('.').next().unwrap();
    assert!(session.ask("?").contains("fork:p"));
    session.tell(&format!("vKill;{child}"));
    let stop = session.ask("?");
    assert!(stop.starts_with("T05") && !stop.contains("fork"), "{stop}");
}

#[test]
fn of_a_process_attached_to_before_one_thread_stands_in_non_stop_mode() {
    let mut session = Session::attached();
    let process = session.process();
    let threads = session.ask("qfThreadInfo");
    let (first, second) = threads[1..].split_once(',').unwrap();
    session.tell("QNonStop:1");
    let stop = session.ask("?");
    assert!(
        stop.starts_with("T00") && stop.contains(&format!("thread:{first};")),
        "{stop}"
    );
    session.tell("vStopped");
    let count = session.address("count");
    let before = counter(process, count);
    runs(process, session.address("other"), 3);
    assert_eq!(counter(process, count), before);
    session.tell(&format!("vCont;t:{second}"));
    let stop = session.client.notification();
    assert!(
        stop.starts_with("Stop:T00") && stop.contains(&format!("thread:{second};")),
        "{stop}"
    );
    session.tell("vStopped");
    session.tell("D");
}

#[test]
fn nothing_of_a_process_is_left_when_it_is_attached_to_again() {
    let mut session = Session::beside(|_| serve(&["--once", "--multi", "127.0.0.1:0"]));
    let (process, step) = (session.process(), session.address("step"));
    session.tell("!");
    assert!(
        session
            .ask(&format!("vAttach;{process:x}"))
            .starts_with("T00")
    );
    session.run_to(step);
    session.tell("D");
    let stop = session.ask(&format!("vAttach;{process:x}"));
    assert!(stop.starts_with("T00"), "{stop}");
    session.tell("QNonStop:1");
    let stop = session.ask("?");
    assert!(stop.starts_with("T00"), "{stop}");
    session.tell("vStopped");
    let stop = session.client.notification();
    assert!(stop.starts_with("Stop:T00"), "{stop}");
    session.tell("vStopped");
    session.tell("D");
}

#[test]
fn a_process_is_not_attached_to_twice() {
    for non_stop in [false, true] {
        let mut session = Session::beside(|_| serve(&["--once", "--multi", "127.0.0.1:0"]));
        let (process, step) = (session.process(), session.address("step"));
        session.tell("!");
        if non_stop {
            session.tell("QNonStop:1");
        }
        let first = session.ask(&format!("vAttach;{process:x}"));
        assert!(first.starts_with(if non_stop { "OK" } else { "T00" }));
        if non_stop {
            let stop = session.client.notification();
            assert!(stop.starts_with("Stop:T00"), "{stop}");
            while session.ask("vStopped") != "OK" {}
        }
        let second = session.ask(&format!("vAttach;{process:x}"));
        assert!(second.starts_with('E'), "{second}");
        if !non_stop {
            session.run_to(step);
        }
        session.tell("D");
    }
}

#[test]
fn a_step_over_a_fork_ends_behind_it() {
    for (before, after, events) in [("forks", "forked", 1), ("vforks", "vforked", 2)] {
        let mut session = Session::started("forks.c");
        let [before, after] = [before, after].map(|symbol| session.address(symbol));
        session.ask("qSupported:multiprocess+;fork-events+;vfork-events+");
        session.ask("?");
        // SIGCHLD
        session.tell("QPassSignals:14");
        let process = session.process();
        session.tell(&format!("Z0,{before:x},1"));
        let mut stop = session.ask("vCont;c");
        // The other child, which is independent.
        if let Some((_, child)) = stop.split_once("fork:p") {
            let child = child.split('.').next().unwrap();
            session.tell(&format!("z0,{before:x},1"));
            session.tell(&format!("D;{child}"));
            session.tell(&format!("Z0,{before:x},1"));
            stop = session.ask("vCont;c");
        }
        assert!(stop.starts_with("T05"), "{stop}");
        session.tell(&format!("z0,{before:x},1"));
        assert_eq!(session.place(), before);
        let mut stop = session.ask(&format!("vCont;s:p{process:x}.{process:x}"));
        for event in 0..events {
            assert!(stop.contains("fork"), "{stop}");
            if let Some((_, child)) = stop.split_once("fork:p") {
                let child = child.split('.').next().unwrap();
                session.tell(&format!("D;{child}"));
            }
            // GDB resumes a parent by vfork without breakpoints, and steps it once its child has ended.
            let last = event + 1 == events;
            let how = if last { 's' } else { 'c' };
            stop = session.ask(&format!("vCont;{how}:p{process:x}.{process:x}"));
        }
        assert!(stop.starts_with("T05") && !stop.contains("fork"), "{stop}");
        session.ask(&format!("Hgp{process:x}.{process:x}"));
        assert_eq!(session.place(), after);
    }
}

#[test]
fn a_breakpoint_is_put_into_memory_that_was_mapped_again() {
    const PLACE: u64 = 0x1000_0000;
    let mut session = Session::started("remap.c");
    let mapped = session.address("mapped");
    session.ask("?");
    let process = session.process();
    for _ in 0..2 {
        session.run_to(mapped);
        assert_eq!(session.place(), mapped);
        // The first breakpoint is still inserted.
        session.tell(&format!("Z0,{PLACE:x},1"));
        assert_eq!(memory(process, PLACE, 2).unwrap(), [0xcc, 0x90]);
        assert!(session.ask("vCont;c").starts_with("T05"));
        assert_eq!(session.place(), PLACE);
    }
    // A breakpoint in unmapped memory is gone.
    assert_eq!(session.ask("vCont;c"), "W00");
}

#[test]
fn a_run_that_a_jump_has_ended_is_started_again() {
    let mut session = Session::attached();
    let process = session.process();
    // The store of an argument and the longer instruction after it; a condition that never ends.
    let site = session.address("step") + 4;
    session.tell("QTinit");
    let tracepoint = format!("QTDP:1:{site:016x}:E:0:0:X3,210000");
    session.tell(&tracepoint);
    for _ in 0..5 {
        session.tell("QTStart");
        while !session.ask("qTStatus").starts_with("T0;terror:") {
            session.client.send(b"vCont;c").unwrap();
            session.client.0.write_all(&[3]).unwrap();
            assert!(session.client.reply().unwrap().starts_with("T02"));
        }
    }
    session.tell("D");
    runs(process, session.address("count"), 2);
    runs(process, session.address("other"), 2);
}
