//! Random mixes of mechanisms, buffers, threads, pass counts, steps and conditions, compared with the log of the program itself.
//! The frames of each thread are its hits in their order. Those of different threads are in the order of the clock. The counts are
//! those of the log, and `check` finds nothing. `cargo xtask torture mixes` does it ten thousand times.

mod expect;
mod live;
mod mix;
mod packets;
mod program;
#[path = "../wire/mod.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

use std::path::Path;

use expect::Summary;
use fastrand::Rng;
use mix::Mix;
use program::{Log, Program};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the requested number of mixes. `record` leaves a trace file and the program's log.
fn run_mixes(debugger: bool, mut record: impl FnMut(&Program, &Mix, &Path, &Path)) {
    let times = from_environment("TRACEWIRE_MIXES_TIMES", 200) / 2;
    let seed = from_environment("TRACEWIRE_MIXES_SEED", 1);
    let only = std::env::var("TRACEWIRE_MIXES_ONLY").ok();
    let folder = tempfile::tempdir().unwrap();
    let program = Program::build(folder.path());
    let trace = folder.path().join("mix.tf");
    let results = folder.path().join("log");
    let mut all = Summary::default();
    let mut mixed = 0;
    let mut random = Rng::with_seed(seed);
    let mut seeds: Vec<u64> = (0..times).map(|_| random.u64(..)).collect();
    if let Some(only) = only {
        seeds = vec![only.parse().expect("the seed of one mix")];
    }
    for seed in seeds {
        let mix = Mix::new(seed, debugger);
        record(&program, &mix, &trace, &results);
        let log = Log::read(&results, mix.threads, mix.events);
        let file = tracewire_tracefile::TraceFile::open(&trace).expect("a trace file");
        match expect::hold(&file, &mix, &program, &log) {
            Ok(summary) => {
                all.hits += summary.hits;
                all.steps += summary.steps;
                mixed += u64::from(summary.mixed);
            }
            Err(error) => {
                panic!("TRACEWIRE_MIXES_ONLY={seed}: {error}\n{mix:#?}");
            }
        }
        drop(file);
        std::fs::remove_file(&trace).unwrap();
        std::fs::remove_file(&results).unwrap();
    }
    println!(
        "{times} mixes: {} hits, {} steps; {mixed} with both jumps and traps",
        all.hits, all.steps
    );
}

/// As `record` does it.
#[test]
fn recordings_hold_what_the_program_did() {
    run_mixes(false, live::record);
}

/// As a debugger does it, by packets.
#[test]
fn debugger_runs_hold_what_the_program_did() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = packets::Session::start(folder.path());
    run_mixes(true, |program, mix, trace, results| {
        session.record(program, mix, trace, results);
    });
}
