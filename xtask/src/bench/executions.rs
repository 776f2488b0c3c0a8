//! `cargo xtask bench executions`: an execution trace as tables, and the value of a register and of memory at each call of a function, through
//! the index and over the Parquet files.
//!
//! DuckDB is asked twice: by a join with the intervals of the writes, which is the SQL of every engine, and by its own `ASOF JOIN`. Commands
//! are compared with commands, and each writes its rows to a Parquet file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::goals::verdict;
use super::trace::{example, printed};
use crate::ratio::{median, print_ratio};
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How large the trace is, in MiB; 9216 has more than 100 million instructions
    #[arg(long, default_value_t = 256)]
    mebibytes: u64,
    /// How often each thing is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the files are made
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// Measure this `tracewire-query`, in place of a release that is built
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Ask DuckDB by `ASOF JOIN` only: the other join takes hours for 100 million instructions
    #[arg(long)]
    asof_only: bool,
}

/// How many times faster the index is at least.
const FASTER: f64 = 10.0;

/// A place of memory that the program writes. Of the time before its first write only the index knows the value, from a read.
const PLACE: &str = "0x80100000";

/// Compares the rows of two Parquet files. Prints how many the first has, and how many are different.
const COMPARE: &str = "
import duckdb, sys
theirs, ours = sys.argv[1:]
duckdb.sql('set enable_progress_bar = false')
rows = duckdb.sql(f\"select count(*) from '{theirs}'\").fetchall()[0][0]
other = f\"select * from '{ours}' where value is not null\"
different = duckdb.sql(f\"\"\"select count(*) from ((from '{theirs}' except all ({other})) union all ({other} except all from '{theirs}'))\"\"\").fetchall()[0][0]
print(rows, different)
";

/// A question, as the index is asked and as the Parquet files are.
struct Question {
    what: String,
    /// Whether the index must be faster by the limit. A place with few writes is a short join in any engine.
    has_limit: bool,
    index: String,
    /// By a join with intervals, and by `ASOF JOIN`.
    parquet: [String; 2],
}

/// The ways in which DuckDB is asked.
const WAYS: [&str; 2] = ["a join with intervals", "ASOF JOIN"];

impl Question {
    /// What `r4` holds at each call of a function.
    fn register(function: &str, pc: u64) -> Self {
        Self {
            what: format!("a register at each call of {function}"),
            has_limit: true,
            index: format!(
                "select instruction, value from register_values where pc = {pc} and register = 'r4' order by instruction"
            ),
            parquet: joins(
                pc,
                "register_writes",
                "register = 'r4'",
                "w.cpu = i.cpu and ",
            ),
        }
    }

    /// What a word of memory holds at each call of a function.
    fn memory(function: &str, pc: u64) -> Result<Self> {
        let place = number_of(PLACE)?;
        let is_it = format!("address = {place} and size = 4");
        Ok(Self {
            what: format!("a word of memory at each call of {function}"),
            has_limit: false,
            index: format!(
                "select instruction, value from memory_values where pc = {pc} and {is_it}
                 and instruction >= (select min(valid_from) from memory_writes where {is_it}) order by instruction"
            ),
            parquet: joins(pc, "memory_writes", &is_it, ""),
        })
    }
}

/// The visits to an address with the value of the latest write before each, in two ways.
fn joins(pc: u64, table: &str, is_it: &str, on: &str) -> [String; 2] {
    let visits = format!("(select cpu, instruction from instructions where pc = {pc}) i");
    let writes = format!("(select * from {table} where {is_it}) w");
    [
        format!(
            "select i.instruction, w.value from {visits} join {writes}
             on {on}i.instruction between w.valid_from and w.valid_to where w.value is not null order by 1"
        ),
        format!(
            "select i.instruction, w.value from {visits} asof join {writes}
             on {on}i.instruction >= w.valid_from
             where w.value is not null and i.instruction <= w.valid_to order by 1"
        ),
    ]
}

fn number_of(address: &str) -> Result<u64> {
    let digits = address.strip_prefix("0x").context("no address")?;
    u64::from_str_radix(digits, 16).context("no address")
}

pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.mebibytes > 0 && arguments.rounds > 0,
        "expected at least a MiB and a round"
    );
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => {
            workspace::build_query()?;
            workspace::target().join("release/tracewire-query")
        }
    };
    let make = example("tracewire-sample-machine", "make_trace")?;
    let python = python()?;
    let parent = workspace::root().join(&arguments.folder);
    fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-executions-")
        .tempdir_in(parent)?;
    let (trace, dataset) = (
        folder.path().join("run.trace"),
        folder.path().join("dataset"),
    );
    let size = arguments.mebibytes.to_string();
    let made = workspace::output(Command::new(make).arg(size).arg(&trace))?;
    let (sizes, functions) = printed(&made)?;
    println!("a QEMU4V trace: {sizes}");

    let start = Instant::now();
    let added = workspace::output(
        Command::new(&program)
            .args(["dataset", "add", "--run", "bench"])
            .args([&trace, &dataset]),
    )?;
    print!(
        "to Parquet, with its index, in {:.1} s: {added}",
        start.elapsed().as_secs_f64()
    );

    let mut questions = Vec::new();
    for (name, address) in functions {
        let pc = number_of(address)?;
        questions.push(Question::register(name, pc));
        questions.push(Question::memory(name, pc)?);
    }
    let mut missed = Vec::new();
    for question in questions {
        let ours = folder.path().join("ours.parquet");
        let mut index = Vec::new();
        let mut parquet = [Vec::new(), Vec::new()];
        let mut count = 0u64;
        for _ in 0..arguments.rounds {
            let start = Instant::now();
            let mut ask = Command::new(&program);
            ask.arg("query").arg(&trace).arg(&question.index);
            workspace::run(ask.arg("-o").arg(&ours))?;
            index.push(start.elapsed().as_secs_f64());
            let first = usize::from(arguments.asof_only);
            for (sql, times) in question.parquet.iter().zip(&mut parquet).skip(first) {
                let theirs = folder.path().join("theirs.parquet");
                times.push(ask_duckdb(&python, &dataset, sql, &theirs)?);
                let (rows, different) = compare(&python, &theirs, &ours)?;
                ensure!(
                    different == 0,
                    "{}: {different} rows differ of {rows}",
                    question.what
                );
                count = rows;
            }
        }
        println!(
            "{}, {count} equal rows: {:.3} s through the index",
            question.what,
            median(&index)
        );
        for (way, times) in WAYS.iter().zip(&parquet) {
            if times.is_empty() {
                continue;
            }
            let is_met = median(times) / median(&index) >= FASTER;
            let goal = match question.has_limit {
                true => format!("goal: {FASTER} times faster: {}", verdict(is_met)),
                false => "times faster".to_owned(),
            };
            print_ratio(
                &format!(
                    "  DuckDB over the Parquet files by {way}: {:.2} s; {goal}",
                    median(times)
                ),
                times,
                &index,
            );
            if question.has_limit && !is_met {
                missed.push(format!("{} by {way}", question.what));
            }
        }
    }
    if !missed.is_empty() {
        bail!("limits are missed: {}", missed.join(", "));
    }
    Ok(())
}

/// The seconds of DuckDB's command, which writes its rows to a file as ours does.
fn ask_duckdb(python: &Path, dataset: &Path, sql: &str, theirs: &Path) -> Result<f64> {
    let mut script = String::new();
    for table in ["instructions", "register_writes", "memory_writes"] {
        let dataset = dataset.display();
        script.push_str(&format!(
            "create view {table} as select * from '{dataset}/*/*/*/table={table}/*.parquet';\n"
        ));
    }
    script.push_str(&format!(
        "copy ({sql}) to '{}' (format parquet);\n",
        theirs.display()
    ));
    let mut ask = Command::new(python.with_file_name("duckdb"));
    let start = Instant::now();
    workspace::output(ask.args(["-no-stdin", "-c", &script]))?;
    Ok(start.elapsed().as_secs_f64())
}

/// How many rows DuckDB gave, and how many of them differ from ours.
fn compare(python: &Path, theirs: &Path, ours: &Path) -> Result<(u64, u64)> {
    let mut ask = Command::new(python);
    let said = workspace::output(ask.args(["-c", COMPARE]).args([theirs, ours]))?;
    let mut words = said.split_whitespace();
    let mut next = || {
        words
            .next()
            .with_context(|| format!("DuckDB said {said:?}"))
    };
    Ok((next()?.parse()?, next()?.parse()?))
}

/// A Python with DuckDB.
pub(super) fn python() -> Result<PathBuf> {
    let environment = workspace::target().join("bench-data-python");
    let python = environment.join("bin/python");
    if !python.exists() {
        workspace::run(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        )?;
    }
    if !environment.join("bin/duckdb").exists() {
        // The library, and the command, which has versions of its own.
        let install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "duckdb==2.0.0",
            "duckdb-cli==1.5.6",
        ];
        workspace::run(Command::new(&python).args(install))?;
    }
    Ok(python)
}
