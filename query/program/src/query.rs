//! `query`: SQL over trace files and datasets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueHint};
use tracewire_sql::{Database, NamedQuery, Options, QueryError, ScalarValue, named_queries};
use tracewire_tracefile::IndexCache;
use tracewire_views::words::{printable, printable_lines};

use crate::Answer;
use crate::byte_size::byte_size;
use crate::open::ProgramArguments;
use crate::output::{Format, Output};

/// The end of the help.
pub const HELP: &str = "\
The tables are runs, modules, probes, hits, values, spans, and tpN for tracepoint N. Those of an execution trace are instructions, \
register_writes, memory_accesses, memory_writes, calls, register_values and memory_values. Names with other characters than letters, digits and \
_ are quoted: \"item->name\". The dialect is DataFusion's; capitals and small letters are the same in names.

Examples:
  tracewire query run.tf 'select function, count(*) from hits group by function'
  tracewire query monday.tf tuesday.tf 'select run, max(duration_ns) from spans group by run'
  tracewire query --named slowest --set limit=5 run.tf
  tracewire query traces/ -o slow.csv 'select * from tp1 where duration_ns > 1000000'
  tracewire query run.trace \"select instruction, value from register_values where pc = 0x80001000 and register = 'a0'\"

Exit status: 0 there are rows; 1 there are none; 2 wrong usage, no such query, or input that cannot be used.";

/// The least memory that a query may be given, in bytes: the engine needs some to begin with.
const LEAST_MEMORY: u64 = 16 << 20;

/// The longest query that is read from a file, in bytes.
const LONGEST_QUERY: u64 = 1 << 20;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Trace files, execution traces and datasets, and the query in SQL at the end where no other option gives one
    #[arg(value_name = "RUN… SQL", value_hint = ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// Read the query from a file
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "named")]
    file: Option<PathBuf>,
    /// Ask a query of the library; without a name, list them
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    named: Option<String>,
    /// List the queries of the library
    #[arg(long, conflicts_with_all = ["named", "file", "words"])]
    list: bool,
    /// Give a parameter of the query, which names it $NAME, a value; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// How the rows are written; by default as the ending of -o says, else a table
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the rows into a file, which is replaced when all are there; `-` is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print how the query would be answered, with the number of frames that are read, instead of its rows
    #[arg(long)]
    explain: bool,
    /// The most memory for sorting, grouping and joining, such as 512MiB; by default half of what is free
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    memory: Option<u64>,
    /// Where rows are written for which there is no memory; by default the directory for temporary files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    spill: Option<PathBuf>,
    #[command(flatten)]
    program: ProgramArguments,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn memory_size(text: &str) -> Result<u64, String> {
    match byte_size(text)?.0 {
        size @ LEAST_MEMORY.. => Ok(size),
        _ => Err(format!("at least {} MiB are needed", LEAST_MEMORY >> 20)),
    }
}

/// Half of the memory that is free, in bytes.
fn half_of_free() -> u64 {
    /// Where the system does not say.
    const USUAL: u64 = 1 << 30;
    let free = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024 / 2)
    };
    free().unwrap_or(USUAL).max(LEAST_MEMORY)
}

/// The query.
struct Question {
    sql: String,
    parameters: BTreeMap<String, ScalarValue>,
    runs: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    if arguments.list || arguments.named.as_deref() == Some("") {
        ensure!(
            arguments.words.is_empty(),
            "--named has no name; --list names the queries"
        );
        list()?;
        return Ok(Answer::Yes);
    }
    let question = question(arguments)?;
    let options = Options {
        elf: arguments.program.elf.clone(),
        index: IndexCache::of_user(),
        memory: usize::try_from(arguments.memory.unwrap_or_else(half_of_free))?,
        spill: arguments.spill.clone(),
        threads: None,
    };
    if let Some(spill) = &options.spill {
        ensure!(spill.is_dir(), "{} is no directory", spill.display());
    }
    let note = |text: String| eprintln!("{}", printable_lines(&text));
    let mut database = Database::open(&question.runs, options, note)?;
    let (sql, parameters) = (question.sql.as_str(), &question.parameters);
    if arguments.explain {
        let plan = database.explain(sql, parameters).map_err(said)?;
        write!(std::io::stdout().lock(), "{}", printable_lines(&plan))?;
        return Ok(Answer::Yes);
    }
    let output = Output::new(arguments.output.as_deref(), arguments.format)?;
    let answer = database.query(sql, parameters).map_err(said)?;
    let rows = output.write(
        answer.schema().clone(),
        answer.map(|batch| batch.map_err(said)),
    )?;
    Ok(if rows == 0 { Answer::No } else { Answer::Yes })
}

/// An error without the engine's context.
fn said(error: QueryError) -> anyhow::Error {
    match error {
        QueryError::Engine(inner) => {
            let text = inner.strip_backtrace();
            let kinds = [
                "Error during planning: ",
                "Execution error: ",
                "Schema error: ",
                "External error: ",
            ];
            let short = kinds
                .iter()
                .find_map(|kind| text.strip_prefix(kind))
                .unwrap_or(&text);
            anyhow::anyhow!("{short}")
        }
        // The engine's names of its parts do not help the user.
        QueryError::Memory { .. } => anyhow::anyhow!("{error}"),
        error => error.into(),
    }
}

fn list() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for query in named_queries() {
        writeln!(out, "{}: {}", query.name, query.about)?;
        for parameter in query.parameters {
            let default = match parameter.default {
                Some(value) => format!(" [default: {value}]"),
                None => String::new(),
            };
            writeln!(
                out,
                "  --set {}=…  {}{default}",
                parameter.name, parameter.about
            )?;
        }
    }
    Ok(())
}

fn question(arguments: &Arguments) -> anyhow::Result<Question> {
    let mut words = arguments.words.clone();
    let given: BTreeMap<String, String> = arguments.set.iter().cloned().collect();
    let (sql, parameters) = match (&arguments.named, &arguments.file) {
        (Some(name), _) => {
            let query = NamedQuery::find(name)?;
            let values = query.values(&given)?;
            (query.sql.to_owned(), values)
        }
        (None, Some(file)) => (read_query(file)?, typed(given)),
        (None, None) => {
            let sql = words.pop().context("expected RUN… SQL")?;
            let sql = sql.into_string();
            let sql = sql.map_err(|_| anyhow::anyhow!("the query is not UTF-8"))?;
            if PathBuf::from(&sql).exists() {
                bail!("{} is a file, and the query comes last", printable(&sql));
            }
            (sql, typed(given))
        }
    };
    ensure!(
        !words.is_empty(),
        "no run is named: expected trace files or datasets before the query"
    );
    let runs = words.into_iter().map(PathBuf::from).collect();
    Ok(Question {
        sql,
        parameters,
        runs,
    })
}

fn read_query(file: &PathBuf) -> anyhow::Result<String> {
    let shown = || file.display().to_string();
    let metadata = std::fs::metadata(file).with_context(shown)?;
    ensure!(
        metadata.len() <= LONGEST_QUERY,
        "{} has {} bytes: too long for a query",
        file.display(),
        metadata.len()
    );
    std::fs::read_to_string(file).with_context(shown)
}

/// Values as numbers, where they are some.
fn typed(given: BTreeMap<String, String>) -> BTreeMap<String, ScalarValue> {
    let value = |text: String| match (text.parse(), text.parse()) {
        (Ok(number), _) => ScalarValue::Int64(Some(number)),
        (_, Ok(number)) => ScalarValue::Float64(Some(number)),
        _ => ScalarValue::Utf8(Some(text)),
    };
    given
        .into_iter()
        .map(|(name, text)| (name, value(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{assignment, memory_size};

    #[test]
    fn sizes_of_memory() {
        for (text, size) in [
            ("512MiB", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(memory_size(text).ok(), size, "{text}");
        }
    }

    #[test]
    fn assignments() {
        assert_eq!(assignment("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(assignment("a").is_err() && assignment("=a").is_err());
    }
}
