//! `cargo xtask torture`: what the tests do some times, many times.

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
    /// jumps harm nobody
    Kills(Kills),
    /// The program or the tracer ends at random moments; the newest frames are there
    Flight(Flight),
    /// Start and end programs at random while the agent that records them is killed, ended, upgraded and told other things: no program is
    /// harmed, and every finished frame is kept or counted
    Agent(Agent),
    /// Write the runs of 16 hosts into one dataset by eight processes at once, kill some of them and some compactions, and hold all rows against
    /// DuckDB
    Dataset(Dataset),
    /// Record generated programs of many types, and hold their values in every format against those of `show --json`
    Formats(Formats),
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
        Torture::Agent(arguments) => agent(arguments),
        Torture::Elf(arguments) => elf(arguments),
        Torture::Names => names(),
        Torture::Changed(arguments) => changed(arguments),
        Torture::Browser => browser(),
    }
}

fn agent(arguments: &Agent) -> Result<()> {
    // With fail points, and fast enough for so many programs.
    let mut test = workspace::cargo("test");
    test.args([
        "--quiet",
        "--profile",
        "checked",
        "-p",
        "tracewire-cli",
        "--test",
        "agent",
    ])
    .args(["upheaval::", "--", "--nocapture"])
    .env(
        "TRACEWIRE_AGENT_SECONDS",
        (arguments.minutes * 60).to_string(),
    )
    .env("TRACEWIRE_AGENT_PROGRAMS", arguments.programs.to_string())
    .env("TRACEWIRE_AGENT_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn repair(arguments: &Repair) -> Result<()> {
    // Without optimisation: an overflow is a panic.
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "commands"])
        .args(["repaired::", "--", "--nocapture"])
        .env("TRACEWIRE_REPAIR_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_REPAIR_GDB", arguments.gdb.to_string())
        .env("TRACEWIRE_REPAIR_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn jump_pad(arguments: &JumpPad) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "--release", "-p", "tracewire-jump-pad"])
        .args(["--test", "differential", "--test", "threads"])
        .args(["--", "--nocapture"])
        .env(
            "TRACEWIRE_JUMP_PAD_PROGRAMS",
            arguments.programs.to_string(),
        )
        .env("TRACEWIRE_JUMP_PAD_SEED", arguments.seed.to_string())
        .env("TRACEWIRE_JUMP_PAD_SECONDS", arguments.seconds.to_string());
    workspace::run(&mut test)
}

fn jumps(arguments: &Jumps) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args([
        "--quiet",
        "-p",
        "tracewire-target-linux",
        "--test",
        "torture",
    ])
    .args(["--", "--nocapture"])
    .env("TRACEWIRE_TORTURE_SITES", arguments.sites.to_string())
    .env("TRACEWIRE_TORTURE_BATCH", arguments.batch.to_string())
    .env("TRACEWIRE_TORTURE_COUNTED", arguments.counted.to_string());
    workspace::run(&mut test)?;
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "commands"])
        .args(["--", "--nocapture", "jumps::", "killed::"])
        .env("TRACEWIRE_KILL_TIMES", arguments.kills.to_string())
        .env("TRACEWIRE_KILL_SEED", arguments.seed.to_string())
        .env("TRACEWIRE_WILD_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn session(arguments: &Session) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "live_sequences"])
        .args(["--", "--nocapture"])
        .env("TRACEWIRE_SESSION_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_SESSION_SEED", arguments.seed.to_string())
        .env("TRACEWIRE_SESSION_FIRST", arguments.first.to_string());
    workspace::run(&mut test)
}

fn mixes(arguments: &Mixes) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "mixes"])
        .args(["--", "--nocapture"])
        .env("TRACEWIRE_MIXES_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_MIXES_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn storm(arguments: &Storm) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "storm"])
        .args(["--", "--nocapture", "--test-threads", "1"])
        .env("TRACEWIRE_STORM_SECONDS", arguments.seconds.to_string())
        .env("TRACEWIRE_STORM_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn disconnect(arguments: &Disconnect) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "disconnect"])
        .args(["--", "--nocapture"])
        .env("TRACEWIRE_DISCONNECT_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_DISCONNECT_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn kills(arguments: &Kills) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "--profile", "checked"])
        .args(["-p", "tracewire-cli", "--test", "kills"])
        .args(["--", "--nocapture", "--test-threads", "1"])
        .env("TRACEWIRE_KILLS_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_KILLS_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn flight(arguments: &Flight) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "--profile", "checked"])
        .args(["-p", "tracewire-cli", "--test", "kills", "flight::"])
        .args(["--", "--nocapture"])
        .env("TRACEWIRE_FLIGHT_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_FLIGHT_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

/// A test of the workspace `query`, with a number in its environment. It needs `tracewire` beside it.
fn query_test(name: &str, variable: &str, count: u64) -> Result<()> {
    workspace::run(workspace::cargo("build").args(["--quiet", "-p", "tracewire-cli"]))?;
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "--manifest-path", "query/Cargo.toml"])
        .args(["--target-dir", "target", "--workspace", "--test", name])
        .args(["--", "--nocapture"])
        .env(variable, count.to_string());
    workspace::run(&mut test)
}

fn elf(arguments: &Elf) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "--profile", "checked"])
        .args(["-p", "tracewire-cli", "--test", "commands"])
        .args(["damaged_programs::", "--", "--nocapture"])
        .env("TRACEWIRE_ELF_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_ELF_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}

fn names() -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args([
        "--quiet",
        "--profile",
        "checked",
        "-p",
        "tracewire-debuginfo",
    ])
    .args(["--test", "every_function", "--test", "names"])
    .args(["--", "--nocapture"])
    .env("TRACEWIRE_EVERY_FUNCTION", "1000000")
    .env("TRACEWIRE_EACH_NAME", "1");
    workspace::run(&mut test)?;
    let mut test = workspace::cargo("test");
    test.args([
        "--quiet",
        "--profile",
        "checked",
        "-p",
        "tracewire-cli",
        "--test",
        "places",
    ])
    .args(["--", "--nocapture", "scope::", "entries::"])
    .env("TRACEWIRE_EVERY_FUNCTION", "1000000");
    workspace::run(&mut test)
}

fn changed(arguments: &Changed) -> Result<()> {
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "values"])
        .args(["a_value_that_another_thread", "--", "--nocapture"])
        .env("TRACEWIRE_CHANGED_TIMES", arguments.times.to_string());
    workspace::run(&mut test)
}

fn browser() -> Result<()> {
    setup::provide(setup::BROWSER)?;
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli"])
        .args(["--test", "access", "--test", "report"])
        .args(["--features", "browser", "browser::", "--", "--nocapture"]);
    workspace::run(&mut test)
}
