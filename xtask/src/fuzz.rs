//! `cargo xtask fuzz`: the fuzz targets under `fuzz/`, with the toolchain there is.

use std::process::Command;

use anyhow::Result;

use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// The targets to run; all of them by default
    targets: Vec<String>,
    /// How many inputs each target gets
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
}

/// Runs the targets one after the other; a finding is an error.
pub fn run(arguments: &Arguments) -> Result<()> {
    if setup::find_program("cargo-fuzz").is_none() {
        workspace::run(workspace::cargo("install").args(["cargo-fuzz", "--locked"]))?;
    }
    let targets = if arguments.targets.is_empty() {
        workspace::output(cargo_fuzz("list").arg("--fuzz-dir").arg("fuzz"))?
            .lines()
            .map(str::to_owned)
            .collect()
    } else {
        arguments.targets.clone()
    };
    for target in targets {
        workspace::run(
            cargo_fuzz("run")
                .args(["--fuzz-dir", "fuzz", "--release", &target, "--"])
                .arg(format!("-runs={}", arguments.runs))
                .arg("-print_final_stats=1"),
        )?;
    }
    Ok(())
}

/// `cargo fuzz` wants unstable compiler flags, which a stable compiler takes with this variable set.
fn cargo_fuzz(subcommand: &str) -> Command {
    let mut command = workspace::cargo("fuzz");
    command.arg(subcommand).env("RUSTC_BOOTSTRAP", "1");
    command
}
