//! The arguments of `info`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

pub const HELP: &str = "\
Examples:
  tracewire info run.tf
  tracewire info --json run.tf | jq .status
  tracewire info simulated.tf --architecture nios2
  tracewire info cpu.trace.gz --elf firmware.elf";

#[derive(Args, Debug)]
pub struct InfoArguments {
    /// The trace file or execution trace; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Of an execution trace: the program, whose functions are counted; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}
