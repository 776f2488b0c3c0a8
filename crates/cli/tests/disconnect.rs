//! GDB is killed while the program runs: the program runs on, and its trace run goes on or ends as GDB has requested (`set
//! disconnected-tracing`).
//!
//! `TRACEWIRE_DISCONNECT_TIMES` is the number of kills, `TRACEWIRE_DISCONNECT_SEED` the seed of the moments (`cargo xtask torture
//! disconnect`).

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use fastrand::Rng;
use tracewire_test_support::{Gdb, setting};
use wire::{Server, address, build, counter, runs};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// How long GDB may take to resume the program.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most ticks of the program (of half a millisecond and more) before GDB is killed.
const MOST_TICKS: u64 = 60;

/// GDB's activity when it is killed.
#[derive(Clone, Copy, Debug)]
struct Round {
    non_stop: bool,
    /// `set disconnected-tracing`; none without a trace run.
    goes_on: Option<bool>,
    mechanism: &'static str,
    /// How many ticks after the first one.
    ticks: u64,
    /// Whether the next client is GDB.
    by_gdb: bool,
}

impl Round {
    fn random(number: u64, random: &mut Rng) -> Self {
        Self {
            non_stop: number % 2 == 1,
            goes_on: [Some(true), Some(false), Some(true), None]
                [usize::try_from(number / 2 % 4).unwrap()],
            mechanism: random.choice(["jump", "trap"]).unwrap(),
            ticks: random.u64(..MOST_TICKS),
            by_gdb: number % 4 < 2,
        }
    }

    /// GDB, which resumes the program. In non-stop mode it sends requests all the time.
    fn gdb(self, program: &Path, server: &Server) -> Child {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-q"]).args([
            "-ex",
            "set pagination off",
            "-ex",
            "set confirm off",
            "-ex",
            "set sysroot",
        ]);
        if self.non_stop {
            gdb.args(["-ex", "set non-stop on"]);
        }
        gdb.args(["-ex", &format!("target remote :{}", server.port)]);
        if let Some(goes_on) = self.goes_on {
            let word = if goes_on { "on" } else { "off" };
            gdb.args(["-ex", &format!("set disconnected-tracing {word}")])
                .args(["-ex", "set circular-trace-buffer on"])
                .args(["-ex", "trace tick", "-ex", "tstart"]);
        }
        let go = if self.non_stop {
            "continue -a &"
        } else {
            "continue"
        };
        let mut gdb = gdb
            .args(["-ex", go])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("gdb is installed");
        let mut input = gdb.stdin.take().unwrap();
        // In all-stop mode GDB reads it when the program stops.
        std::thread::spawn(move || while input.write_all(b"tstatus\n").is_ok() {});
        gdb
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    program: std::path::PathBuf,
    ticks: u64,
    turns: u64,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), "beats.c");
        Self {
            ticks: address(&program, "ticks"),
            turns: address(&program, "turns"),
            program,
            _folder: folder,
        }
    }

    /// Waits until the program has made so many ticks, which it may not have begun with.
    fn await_ticks(&self, process: u32, wanted: u64) {
        let end = Instant::now() + PATIENCE;
        while counter(process, self.ticks) < wanted || counter(process, self.turns) == 0 {
            assert!(Instant::now() < end, "GDB does not let the program run");
            std::thread::yield_now();
        }
    }

    fn run(&self, round: Round) {
        let server = Server::start(
            Command::new(TRACEWIRE)
                .args(["gdbserver", "--mechanism", round.mechanism, "127.0.0.1:0"])
                .arg(&self.program),
        );
        let process = server.process.unwrap();
        let mut gdb = round.gdb(&self.program, &server);
        self.await_ticks(process, 1 + round.ticks);
        gdb.kill().unwrap();
        gdb.wait().unwrap();

        // Both threads run on.
        runs(process, self.ticks, 20);
        runs(process, self.turns, 20);

        if round.by_gdb {
            return self.reconnect(round, &server);
        }
        let mut client = server.connect();
        let status = client.ask("qTStatus");
        let field = |name: &str| {
            let (_, rest) = status.split_once(name).expect(&status);
            u64::from_str_radix(rest.split(';').next().unwrap(), 16).unwrap()
        };
        // It is stopped now.
        let ticks = counter(process, self.ticks);
        match round.goes_on {
            Some(true) => {
                assert!(status.starts_with("T1;"), "{status}");
                // The one that is being made counts before its tick.
                let created = field("tcreated:");
                assert!((ticks..=ticks + 1).contains(&created), "{ticks}: {status}");
            }
            Some(false) => {
                assert!(status.starts_with("T0;tdisconnected:0;"), "{status}");
                assert!(field("tcreated:") <= ticks - 20, "{ticks}: {status}");
            }
            None => assert!(status.starts_with("T0;tnotrun:0;"), "{status}"),
        }
        if round.goes_on.is_some() {
            assert_eq!(client.ask("QTFrame:0"), "F0T1");
        }
    }

    /// The next GDB finds the run.
    fn reconnect(&self, round: Round, server: &Server) {
        let gdb = Gdb::new().program(&self.program);
        let gdb = gdb.command(format!("target remote :{}", server.port));
        let said = gdb
            .commands(["tstatus", "tstop", "tfind 0", "kill"])
            .run()
            .output;
        let wanted: &[&str] = match round.goes_on {
            Some(true) => &["Trace is running on the target.", "Found trace frame 0"],
            Some(false) => &[
                "Trace stopped because of disconnection.",
                "Found trace frame 0",
            ],
            None => &["No trace has been run on the target."],
        };
        for words in wanted {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[test]
fn a_program_runs_on_when_gdb_is_killed_and_its_trace_run_as_gdb_has_said() {
    let times = setting("TRACEWIRE_DISCONNECT_TIMES", 8);
    let mut random = Rng::with_seed(setting("TRACEWIRE_DISCONNECT_SEED", 1));
    let fixture = Fixture::new();
    for number in 0..times {
        let round = Round::random(number, &mut random);
        eprintln!("{number}: {round:?}");
        fixture.run(round);
    }
    println!(
        "{times} kills of GDB: the program ran on each time, and the trace run did as GDB had said"
    );
}

/// With `--once` the server goes too, and takes everything out of a program that it was attached to.
#[test]
fn a_program_that_was_attached_to_once_runs_on_without_the_server() {
    let fixture = Fixture::new();
    for non_stop in [false, true] {
        let mut program = Command::new(&fixture.program).spawn().unwrap();
        let process = program.id();
        let mut server = Server::start(
            Command::new(TRACEWIRE)
                .args(["gdbserver", "--once", "--attach", "127.0.0.1:0"])
                .arg(process.to_string()),
        );
        let tick = address(&fixture.program, "tick");
        let code = wire::memory(process, tick, 16).unwrap();
        let before = counter(process, fixture.ticks);
        let round = Round {
            non_stop,
            goes_on: Some(true),
            mechanism: "jump",
            ticks: 0,
            by_gdb: false,
        };
        let mut gdb = round.gdb(&fixture.program, &server);
        fixture.await_ticks(process, before + 20);
        gdb.kill().unwrap();
        gdb.wait().unwrap();
        assert!(server.child.wait().unwrap().success());
        runs(process, fixture.ticks, 20);
        runs(process, fixture.turns, 20);
        assert_eq!(wire::memory(process, tick, 16).unwrap(), code);
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
        program.kill().unwrap();
        program.wait().unwrap();
    }
}

/// With `--once` the program that the server has started ends with it.
#[test]
fn a_program_that_was_started_for_once_ends_with_the_server() {
    let fixture = Fixture::new();
    let mut server = Server::start(
        Command::new(TRACEWIRE)
            .args(["gdbserver", "--once", "127.0.0.1:0"])
            .arg(&fixture.program),
    );
    let process = server.process.take().unwrap();
    let mut client = server.connect();
    assert!(client.ask("?").starts_with('T'));
    drop(client);
    assert!(server.child.wait().unwrap().success());
    assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
}
