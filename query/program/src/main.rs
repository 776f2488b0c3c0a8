//! `tracewire-query`: trace runs as data. `tracewire dataset …` and `tracewire query …` start it.

mod byte_size;
mod dataset;
mod open;
mod output;
mod query;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Trace runs as data: typed rows, for SQL.
#[derive(Parser, Debug)]
#[command(
    name = "tracewire-query",
    bin_name = "tracewire",
    version,
    after_help = "Exit status: 0 done; 1 the data says no; 2 wrong usage or input that cannot be used.",
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Runs as Parquet files in a directory
    #[command(subcommand, after_help = dataset::HELP)]
    Dataset(dataset::Command),
    /// Ask trace files and datasets in SQL
    #[command(after_help = query::HELP)]
    Query(query::Arguments),
}

/// How a command ended that had no error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// Done: exit status 0.
    Yes,
    /// The data says no: exit status 1.
    No,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Dataset(command) => dataset::run(&command),
        Command::Query(arguments) => query::run(&arguments),
    };
    match result {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let shown = tracewire_views::words::printable_lines(&format!("{error:#}"));
            eprintln!("tracewire: {shown}");
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of our output has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
