//! `dataset` and `query`: executed by the program `tracewire-query`, which includes Arrow, Parquet and an SQL engine.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::answer::Answer;

/// The end of the help of `dataset`.
pub const HELP: &str = "\
The program tracewire-query does this: it is looked for beside tracewire, then in PATH. In a checkout, \
`cargo build --release --manifest-path query/Cargo.toml --target-dir target` puts it there; `cargo install --path query/program` installs it.

Examples:
  tracewire dataset add run.tf traces/
  tracewire dataset check traces/
  tracewire dataset compact traces/
  tracewire dataset add --help";

/// The end of the help of `query`.
pub const QUERY_HELP: &str = "\
The program tracewire-query does this: it is looked for beside tracewire, then in PATH. In a checkout, \
`cargo build --release --manifest-path query/Cargo.toml --target-dir target` puts it there; `cargo install --path query/program` installs it. \
`tracewire query -- --help` lists its options.

Examples:
  tracewire query run.tf 'select function, count(*) from hits group by function'
  tracewire query --named slowest run.tf
  tracewire query --list

Exit status: 0 there are rows; 1 there are none; 2 wrong usage, no such query, or input that cannot be used.";

/// The program that is started.
const PROGRAM: &str = "tracewire-query";

#[derive(Args, Debug)]
pub struct DatasetArguments {
    /// add RUN… DIR, or check, compact or prune DIR
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub arguments: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct QueryArguments {
    /// RUN… SQL, or --named NAME RUN…; runs are trace files and datasets
    #[arg(
        value_name = "ARGUMENTS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub arguments: Vec<OsString>,
}

/// Starts `tracewire-query` in the place of this program, with the name of a command and its arguments.
pub fn run(command: &str, arguments: &[OsString]) -> anyhow::Result<Answer> {
    let beside = std::env::current_exe()
        .ok()
        .map(|path| path.with_file_name(PROGRAM))
        .filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg(command).args(arguments).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!(
            "the program {PROGRAM} is neither beside tracewire nor in PATH: in a checkout of Tracewire, build it with \
             `cargo build --release --manifest-path query/Cargo.toml --target-dir target`, or install it with \
             `cargo install --path query/program`"
        );
    }
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}
