//! `dataset`: runs as Parquet files in a directory.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand, ValueHint};
use tracewire_dataset::{AddOptions, Run, Severity, add, check};

use crate::Answer;
use crate::open::{ProgramArguments, trace_file};

/// The end of the help.
pub const HELP: &str = "\
A dataset is a directory of Parquet files: DIR/run=…/host=…/day=…/table=…/part-0.parquet. Many may write to it at once. DuckDB, Spark \
and Trino read it as it is.

Examples:
  tracewire dataset add run.tf traces/
  tracewire dataset check traces/
  duckdb -c \"select function, count(*) from 'traces/*/*/*/table=hits/*.parquet' group by all\"";

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write runs into a dataset; a run that is there already is replaced
    Add(AddArguments),
    /// Read a dataset whole, and say what is wrong with it
    Check(CheckArguments),
}

#[derive(Args, Debug)]
pub struct AddArguments {
    /// Trace files, and the directory of the dataset at the end
    #[arg(value_name = "RUN… DIR", num_args = 2.., required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Name the run, where there is one; by default it has the name of its file and a hash of the content
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// The machine that the runs are of, where it is not this one
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    #[command(flatten)]
    program: ProgramArguments,
}

#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The directory of the dataset
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub fn run(command: &Command) -> anyhow::Result<Answer> {
    match command {
        Command::Add(arguments) => add_runs(arguments),
        Command::Check(arguments) => check_all(arguments),
    }
}

fn add_runs(arguments: &AddArguments) -> anyhow::Result<Answer> {
    let (directory, runs) = arguments
        .paths
        .split_last()
        .context("no directory is named")?;
    ensure!(
        arguments.run.is_none() || runs.len() == 1,
        "--run names one run, and there are {}",
        runs.len()
    );
    ensure!(
        !directory.is_file(),
        "{} is a file: the directory of the dataset comes last",
        directory.display()
    );
    let options = AddOptions {
        run: arguments.run.clone(),
        host: arguments.host.clone(),
    };
    let mut out = std::io::stdout().lock();
    for path in runs {
        let file = trace_file(path)?;
        let program = arguments.program.program(path, &file)?;
        let run = Run::new(&file, &program);
        let added = add(directory, &run, &options)?;
        let hits = added.rows.get("hits").copied().unwrap_or(0);
        writeln!(
            out,
            "{}: {hits} hits in {} tables, {} bytes",
            added.path.display(),
            added.rows.len(),
            added.bytes
        )?;
    }
    Ok(Answer::Yes)
}

fn check_all(arguments: &CheckArguments) -> anyhow::Result<Answer> {
    let findings = check(&arguments.directory)?;
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let is_bad = findings
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    Ok(if is_bad { Answer::No } else { Answer::Yes })
}
