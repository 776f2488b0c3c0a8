//! `cargo xtask torture`: what the tests do some times, many times.

use anyhow::Result;

use crate::{setup, workspace};

#[derive(clap::Subcommand)]
pub enum Torture {
    /// Cut and damage real trace files at random, repair them, and open some of the results in GDB
    Repair(Arguments),
}

#[derive(clap::Args)]
pub struct Arguments {
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

pub fn run(what: &Torture) -> Result<()> {
    let Torture::Repair(arguments) = what;
    setup::provide(setup::FOR_TESTS)?;
    // Without optimisation: an overflow is a panic.
    let mut test = workspace::cargo("test");
    test.args(["--quiet", "-p", "tracewire-cli", "--test", "commands"])
        .args(["repaired::", "--", "--nocapture"])
        .env("TRACEWIRE_REPAIR_TIMES", arguments.times.to_string())
        .env("TRACEWIRE_REPAIR_GDB", arguments.gdb.to_string())
        .env("TRACEWIRE_REPAIR_SEED", arguments.seed.to_string());
    workspace::run(&mut test)
}
