//! `dataset`: runs as Parquet files in a directory.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand, ValueHint};
use std::time::Duration;

use tracewire_dataset::{
    AddOptions, COMPACT_TO, Execution, PruneOptions, Run, Severity, add, check, compact,
    is_execution, prune,
};

use crate::Answer;
use crate::byte_size::{ByteSize, byte_size};
use crate::open::{ProgramArguments, trace_file};

/// The end of the help.
pub const HELP: &str = "\
A dataset is a directory of Parquet files: DIR/batch=…/host=…/day=…/table=…/part-0.parquet. Many may write to it at once. DuckDB, Spark \
and Trino read it as it is.

Examples:
  tracewire dataset add run.tf traces/
  tracewire dataset check traces/
  tracewire dataset compact traces/
  tracewire dataset prune --before 2026-11-01 --size 500GiB traces/
  duckdb -c \"select function, count(*) from 'traces/*/*/*/table=hits/*.parquet' group by all\"";

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write runs into a dataset; a run that is there already is replaced
    Add(AddArguments),
    /// Read a dataset whole, and say what is wrong with it
    Check(CheckArguments),
    /// Put the runs of each host and day together: few large files of many small ones
    Compact(CompactArguments),
    /// Remove old runs, and what writers left behind that ended early
    Prune(PruneArguments),
}

#[derive(Args, Debug)]
pub struct AddArguments {
    /// Trace files and execution traces, and the directory of the dataset at the end
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

#[derive(Args, Debug)]
pub struct CompactArguments {
    /// How large the files of a batch become together, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size, default_value_t = ByteSize(COMPACT_TO))]
    to: ByteSize,
    /// The directory of the dataset
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

#[derive(Args, Debug)]
pub struct PruneArguments {
    /// Runs of earlier days than this
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    before: Option<String>,
    /// The oldest days, until the others have at most this size, such as 500GiB
    #[arg(long, value_name = "SIZE", value_parser = byte_size)]
    size: Option<ByteSize>,
    /// Unfinished runs of writers that ended early too, however young; without it, those that are older than a day
    #[arg(long)]
    unfinished: bool,
    /// The directory of the dataset
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

fn day(text: &str) -> Result<String, String> {
    let form = text
        .bytes()
        .map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    match form.eq(*b"0000-00-00") {
        true => Ok(text.to_owned()),
        false => Err("expected a day such as 2026-11-23".to_owned()),
    }
}

pub fn run(command: &Command) -> anyhow::Result<Answer> {
    match command {
        Command::Add(arguments) => add_runs(arguments),
        Command::Check(arguments) => check_all(arguments),
        Command::Compact(arguments) => compact_all(arguments),
        Command::Prune(arguments) => prune_old(arguments),
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
        if is_execution(path) {
            let execution = Execution::open(path, &arguments.program.elf)?;
            let added = add(directory, &execution, &options)?;
            let instructions = added.rows.get("instructions").copied().unwrap_or(0);
            writeln!(
                out,
                "{}: {instructions} instructions in {} tables, {} bytes",
                added.path.display(),
                added.rows.len(),
                added.bytes
            )?;
            continue;
        }
        let file = trace_file(path)?;
        let program = arguments.program.program(path, &file)?;
        let run = Run::new(&file, &program);
        let added = add(directory, &run, &options)?;
        if added.rows.is_empty() {
            writeln!(
                out,
                "{}: has the run {} already",
                added.path.display(),
                added.run
            )?;
            continue;
        }
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

fn compact_all(arguments: &CompactArguments) -> anyhow::Result<Answer> {
    let done = compact(&arguments.directory, arguments.to.0)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} batches are {} now, {} files {}, {} bytes {}",
        done.batches,
        done.batches_after,
        done.files,
        done.files_after,
        done.bytes,
        done.bytes_after
    )?;
    Ok(Answer::Yes)
}

fn prune_old(arguments: &PruneArguments) -> anyhow::Result<Answer> {
    let mut options = PruneOptions {
        before: arguments.before.clone(),
        most_bytes: arguments.size.map(|size| size.0),
        ..PruneOptions::default()
    };
    if arguments.unfinished {
        options.left_after = Duration::ZERO;
    }
    let done = prune(&arguments.directory, &options)?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "removed {} batches with {} bytes, and the rest of {} writers",
        done.batches, done.bytes, done.leftovers
    )?;
    Ok(Answer::Yes)
}
