//! `cargo xtask torture`: what the tests do some times, many times.

use std::process::Command;

use anyhow::Result;

use crate::{setup, workspace};

#[derive(clap::Subcommand)]
pub enum Torture {
    /// Cut and damage real trace files at random, repair them, and open some of the results in GDB
    Repair(Repair),
    /// Compile random tracepoints and hold what the code does against the trap mechanism, then let many threads and
    /// signals hit at once
    JumpPad(JumpPad),
    /// Put jumps on every instruction of libc, of a C++ program and of a Rust program, kill Tracewire at random moments, and
    /// collect through wild pointers
    Jumps(Jumps),
    /// Send random packets in random order to a server that is attached to a live process, which must live on unharmed
    Session(Session),
    /// Trace random mixes of jumps, traps, buffers, threads, pass counts, steps and conditions, and hold the order and the
    /// counts of the frames against the log that the program keeps itself
    Mixes(Mixes),
    /// Trace a program with fifty threads, signals, children and a library that comes and goes, while tracepoints are enabled
    /// and disabled at random
    Storm(Storm),
    /// Kill GDB at random moments of runs, in all-stop and non-stop mode: the program runs on, and its trace run goes on or ends
    /// as GDB has said
    Disconnect(Disconnect),
    /// Kill Tracewire, the traced program or one of its threads at fail points: every call has its frame once or is counted, and
    /// jumps harm no program
    Kills(Kills),
    /// The program or the tracer ends at random moments; the newest frames are there
    Flight(Flight),
    /// Programs start and end at random while an agent records them. The agent is killed, ended and upgraded, and gets other
    /// configurations. No program is harmed, and every finished frame is kept or counted
    Agent(Agent),
    /// Write the runs of 16 hosts into one dataset by eight processes at once, kill some of them and some compactions, and hold all rows against
    /// DuckDB
    Dataset(Dataset),
    /// Record generated programs of many types, and hold their values in every format against those of `show --json`
    Formats(Formats),
    /// Hold what the plugin of QEMU records against QEMU's stub at 1,000 instants of seven machines, and kill QEMU at random moments
    Qemu(Qemu),
    /// Damage the symbols, sections and debug information of a program, and record it
    Elf(Elf),
    /// Look up every function and every name of real programs, and hold the arguments of every function against DWARF, GDB and what
    /// the programs print
    Names,
    /// Collect a vector, a map and a string while another thread pushes into them: no value is shown that never was
    Changed(Changed),
    /// Have a page in a headless browser post packets to a server's port, which must not obey them, and open reports in it
    Browser,
}

#[derive(clap::Args)]
pub struct Agent {
    /// How long, in minutes
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// How many programs run at a time
    #[arg(long, default_value_t = 24)]
    programs: u64,
    /// What the moments are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Dataset {
    /// How many runs
    #[arg(long, default_value_t = 1000)]
    runs: u64,
}

#[derive(clap::Args)]
pub struct Formats {
    /// How many programs
    #[arg(long, default_value_t = 200)]
    runs: u64,
}

#[derive(clap::Args)]
pub struct Qemu {
    /// One of how many instructions of 2,000 is an instant
    #[arg(long, default_value_t = 2)]
    every: u64,
    /// How many kills
    #[arg(long, default_value_t = 60)]
    kills: u64,
}

#[derive(clap::Args)]
pub struct Elf {
    /// How many programs
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// What the damages are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Changed {
    /// How many runs, of 1,000 hits each
    #[arg(long, default_value_t = 20)]
    times: u64,
}

#[derive(clap::Args)]
pub struct Disconnect {
    /// How many kills
    #[arg(long, default_value_t = 200)]
    times: u64,
    /// What the moments are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Kills {
    /// How many kills
    #[arg(long, default_value_t = 5000)]
    times: u64,
    /// What the rounds are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Flight {
    /// How many ends
    #[arg(long, default_value_t = 1000)]
    times: u64,
    /// What the rounds are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Storm {
    /// How long, in seconds for each mechanism
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Jumps {
    /// How many instructions of each of the three
    #[arg(long, default_value_t = 1_000_000)]
    sites: u64,
    /// How many at once
    #[arg(long, default_value_t = 2000)]
    batch: u64,
    /// Every how many batches a seventh of the sites is counted by breakpoints, too
    #[arg(long, default_value_t = 12)]
    counted: u64,
    /// How many kills over each mechanism
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// What the wild addresses and the moments of the kills are made from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Repair {
    /// How many cuts, and how many damages
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// How many of each GDB opens
    #[arg(long, default_value_t = 500)]
    gdb: u64,
    /// What the random numbers start from: the same number, the same damages
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct JumpPad {
    /// How many random expressions
    #[arg(long, default_value_t = 100_000)]
    programs: u64,
    /// What the random numbers start from: the same number, the same expressions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long threads and signals hit, in seconds for each of three ways
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

#[derive(clap::Args)]
pub struct Session {
    /// How many sequences
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// What the random numbers start from: the same number, the same packets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many sequences of the seed to leave out before the first: to see one again
    #[arg(long, default_value_t = 0)]
    first: u64,
}

#[derive(clap::Args)]
pub struct Mixes {
    /// How many mixes: half as `record` has them, half by packets to `gdbserver`
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// What the random numbers start from: the same number, the same mixes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(what: &Torture) -> Result<()> {
    setup::provide(setup::FOR_TESTS)?;
    match what {
        Torture::Repair(arguments) => repair(arguments),
        Torture::JumpPad(arguments) => jump_pad(arguments),
        Torture::Jumps(arguments) => jumps(arguments),
        Torture::Session(arguments) => session(arguments),
        Torture::Mixes(arguments) => mixes(arguments),
        Torture::Storm(arguments) => storm(arguments),
        Torture::Disconnect(arguments) => disconnect(arguments),
        Torture::Kills(arguments) => kills(arguments),
        Torture::Flight(arguments) => flight(arguments),
        Torture::Dataset(arguments) => query_test("fleet", "TRACEWIRE_FLEET_RUNS", arguments.runs),
        Torture::Formats(arguments) => {
            query_test("corpus", "TRACEWIRE_CORPUS_RUNS", arguments.runs)
        }
        Torture::Qemu(arguments) => qemu(arguments),
        Torture::Agent(arguments) => agent(arguments),
        Torture::Elf(arguments) => elf(arguments),
        Torture::Names => names(),
        Torture::Changed(arguments) => changed(arguments),
        Torture::Browser => browser(),
    }
}

/// Tests of a package, with numbers in their environment.
struct Tests(Command);

impl Tests {
    /// Tests of the development build, in which an overflow is a panic.
    fn of(package: &str, tests: &[&str]) -> Self {
        let mut command = workspace::cargo("test");
        command.args(["--quiet", "-p", package]);
        for test in tests {
            command.args(["--test", test]);
        }
        Self(command)
    }

    /// The build for many rounds, with fail points.
    fn checked(mut self) -> Self {
        self.0.args(["--profile", "checked"]);
        self
    }

    fn with(mut self, variable: &str, number: u64) -> Self {
        self.0.env(variable, number.to_string());
        self
    }

    /// Runs those whose names have one of the words, or all where there is none.
    fn run(mut self, words: &[&str]) -> Result<()> {
        self.0.args(["--", "--nocapture"]).args(words);
        workspace::run(&mut self.0)
    }

    /// Runs all, one after the other.
    fn run_in_turn(self) -> Result<()> {
        self.run(&["--test-threads", "1"])
    }
}

fn agent(arguments: &Agent) -> Result<()> {
    Tests::of("tracewire-cli", &["agent"])
        .checked()
        .with("TRACEWIRE_AGENT_SECONDS", arguments.minutes * 60)
        .with("TRACEWIRE_AGENT_PROGRAMS", arguments.programs)
        .with("TRACEWIRE_AGENT_SEED", arguments.seed)
        .run(&["upheaval::"])
}

fn repair(arguments: &Repair) -> Result<()> {
    Tests::of("tracewire-cli", &["commands"])
        .with("TRACEWIRE_REPAIR_TIMES", arguments.times)
        .with("TRACEWIRE_REPAIR_GDB", arguments.gdb)
        .with("TRACEWIRE_REPAIR_SEED", arguments.seed)
        .run(&["repaired::"])
}

fn jump_pad(arguments: &JumpPad) -> Result<()> {
    let mut tests = Tests::of("tracewire-jump-pad", &["differential", "threads"]);
    tests.0.arg("--release");
    tests
        .with("TRACEWIRE_JUMP_PAD_PROGRAMS", arguments.programs)
        .with("TRACEWIRE_JUMP_PAD_SEED", arguments.seed)
        .with("TRACEWIRE_JUMP_PAD_SECONDS", arguments.seconds)
        .run(&[])
}

fn jumps(arguments: &Jumps) -> Result<()> {
    Tests::of("tracewire-target-linux", &["torture"])
        .with("TRACEWIRE_TORTURE_SITES", arguments.sites)
        .with("TRACEWIRE_TORTURE_BATCH", arguments.batch)
        .with("TRACEWIRE_TORTURE_COUNTED", arguments.counted)
        .run(&[])?;
    Tests::of("tracewire-cli", &["commands"])
        .with("TRACEWIRE_KILL_TIMES", arguments.kills)
        .with("TRACEWIRE_KILL_SEED", arguments.seed)
        .with("TRACEWIRE_WILD_SEED", arguments.seed)
        .run(&["jumps::", "killed::"])
}

fn session(arguments: &Session) -> Result<()> {
    Tests::of("tracewire-cli", &["live_sequences"])
        .with("TRACEWIRE_SESSION_TIMES", arguments.times)
        .with("TRACEWIRE_SESSION_SEED", arguments.seed)
        .with("TRACEWIRE_SESSION_FIRST", arguments.first)
        .run(&[])
}

fn mixes(arguments: &Mixes) -> Result<()> {
    Tests::of("tracewire-cli", &["mixes"])
        .with("TRACEWIRE_MIXES_TIMES", arguments.times)
        .with("TRACEWIRE_MIXES_SEED", arguments.seed)
        .run(&[])
}

fn storm(arguments: &Storm) -> Result<()> {
    Tests::of("tracewire-cli", &["storm"])
        .with("TRACEWIRE_STORM_SECONDS", arguments.seconds)
        .with("TRACEWIRE_STORM_SEED", arguments.seed)
        .run_in_turn()
}

fn disconnect(arguments: &Disconnect) -> Result<()> {
    Tests::of("tracewire-cli", &["disconnect"])
        .with("TRACEWIRE_DISCONNECT_TIMES", arguments.times)
        .with("TRACEWIRE_DISCONNECT_SEED", arguments.seed)
        .run(&[])
}

fn kills(arguments: &Kills) -> Result<()> {
    Tests::of("tracewire-cli", &["kills"])
        .checked()
        .with("TRACEWIRE_KILLS_TIMES", arguments.times)
        .with("TRACEWIRE_KILLS_SEED", arguments.seed)
        .run_in_turn()
}

fn flight(arguments: &Flight) -> Result<()> {
    Tests::of("tracewire-cli", &["kills"])
        .checked()
        .with("TRACEWIRE_FLIGHT_TIMES", arguments.times)
        .with("TRACEWIRE_FLIGHT_SEED", arguments.seed)
        .run(&["flight::"])
}

/// A test of the workspace `query`. It needs `tracewire` beside it.
fn query_test(name: &str, variable: &str, count: u64) -> Result<()> {
    workspace::run(workspace::cargo("build").args(["--quiet", "-p", "tracewire-cli"]))?;
    let mut tests = Tests::of("tracewire-query", &[name]);
    tests
        .0
        .args(["--manifest-path", "query/Cargo.toml"])
        .args(["--target-dir", "target"]);
    tests.with(variable, count).run(&[])
}

fn qemu(arguments: &Qemu) -> Result<()> {
    Tests::of("tracewire-cli", &["qemu"])
        .with("TRACEWIRE_QEMU_EVERY", arguments.every)
        .with("TRACEWIRE_QEMU_KILLS", arguments.kills)
        .run(&[
            "the_state_of_",
            "no_instruction_is_missing",
            "a_killed_guest",
        ])
}

fn elf(arguments: &Elf) -> Result<()> {
    Tests::of("tracewire-cli", &["commands"])
        .checked()
        .with("TRACEWIRE_ELF_TIMES", arguments.times)
        .with("TRACEWIRE_ELF_SEED", arguments.seed)
        .run(&["damaged_programs::"])
}

/// How many functions of a program are looked up: all.
const EVERY_FUNCTION: u64 = 1_000_000;

fn names() -> Result<()> {
    Tests::of("tracewire-debuginfo", &["every_function", "names"])
        .checked()
        .with("TRACEWIRE_EVERY_FUNCTION", EVERY_FUNCTION)
        .with("TRACEWIRE_EACH_NAME", 1)
        .run(&[])?;
    Tests::of("tracewire-cli", &["places"])
        .checked()
        .with("TRACEWIRE_EVERY_FUNCTION", EVERY_FUNCTION)
        .run(&["scope::", "entries::"])
}

fn changed(arguments: &Changed) -> Result<()> {
    Tests::of("tracewire-cli", &["values"])
        .with("TRACEWIRE_CHANGED_TIMES", arguments.times)
        .run(&["a_value_that_another_thread"])
}

fn browser() -> Result<()> {
    setup::provide(setup::BROWSER)?;
    let mut tests = Tests::of("tracewire-cli", &["access", "report"]);
    tests.0.args(["--features", "browser"]);
    tests.run(&["browser::"])
}
