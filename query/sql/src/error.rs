//! Errors of queries.

use std::path::{Path, PathBuf};

use datafusion::common::DataFusionError;
use tracewire_dataset::DatasetError;

/// Why a query cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A file that is named is neither a trace file nor a dataset.
    #[error("{} cannot be read as a trace file", path.display())]
    TraceFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: tracewire_tracefile::OpenError,
    },
    /// A file of the program that the user named cannot be used.
    #[error("{}", path.display())]
    Program {
        /// The trace file.
        path: PathBuf,
        /// Why.
        source: tracewire_views::ProgramError,
    },
    /// A dataset has something that is no part of it, or that is damaged.
    #[error("{}: {message}; `tracewire dataset check` lists all that is wrong", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// A directory has no runs.
    #[error("{} has no runs: expected a dataset that `tracewire dataset add` wrote", path.display())]
    NoRuns {
        /// The directory.
        path: PathBuf,
    },
    /// Two runs have one name.
    #[error("two runs have the name {name}: {} and {}", first.display(), second.display())]
    SameName {
        /// The name.
        name: String,
        /// Where the first is.
        first: PathBuf,
        /// Where the second is.
        second: PathBuf,
    },
    /// A table of a dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The text is no SQL.
    #[error("{message}\n{}", underlined(sql, *line, *column))]
    Syntax {
        /// The problem.
        message: String,
        /// The text.
        sql: String,
        /// The line of the fault, from 1; 0 where it is not known.
        line: u64,
        /// The character of the line, from 1.
        column: u64,
    },
    /// A query is so long that the engine might not survive it.
    #[error(
        "a query of {found} words; at most {most} are read, commas, numbers and texts not counted"
    )]
    Long {
        /// How many words it has.
        found: usize,
        /// How many it may have.
        most: usize,
    },
    /// More than one statement, or none.
    #[error("expected one query, found {0} statements")]
    Statements(usize),
    /// A statement that changes something.
    #[error("only queries are answered: {0}")]
    ReadOnly(String),
    /// A table that is not there.
    #[error("no table {name}; the tables are {}", tables.join(", "))]
    Table {
        /// The name.
        name: String,
        /// The names of all tables.
        tables: Vec<String>,
    },
    /// A named query that is not there.
    #[error("no query is named {0}; --list names all")]
    Named(String),
    /// A value for a parameter that the query does not have.
    #[error(
        "the query {query} has no parameter {name}; it has {}",
        parameters(all)
    )]
    Parameter {
        /// The query.
        query: String,
        /// The name given.
        name: String,
        /// The names that it has.
        all: Vec<String>,
    },
    /// A parameter without a value.
    #[error("the query {query} needs a value for {name}: --set {name}=VALUE")]
    Value {
        /// The query.
        query: String,
        /// The parameter.
        name: String,
    },
    /// A value of another kind than the parameter has.
    #[error("{name} is a number, and {value:?} is none")]
    Number {
        /// The parameter.
        name: String,
        /// The value.
        value: String,
    },
    /// The query needs more memory than its limit.
    #[error(
        "the query wants more than {limit} of memory, after what could be written to {} was: give it more with --memory, or ask for less",
        spill.display()
    )]
    Memory {
        /// The limit, as text.
        limit: String,
        /// Where rows are written that do not fit in memory.
        spill: PathBuf,
        /// The engine's message.
        source: Box<DataFusionError>,
    },
    /// The engine cannot answer.
    #[error(transparent)]
    Engine(Box<DataFusionError>),
    /// The engine cannot be started.
    #[error("the query engine cannot be started")]
    Start(#[source] std::io::Error),
}

fn parameters(all: &[String]) -> String {
    match all {
        [] => "none".to_owned(),
        all => all.join(", "),
    }
}

/// The line of a text that has a fault, and a mark below the place.
fn underlined(sql: &str, line: u64, column: u64) -> String {
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let text = at(line)
        .checked_sub(1)
        .and_then(|line| sql.lines().nth(line));
    match text {
        Some(text) => {
            // A character from a file or the shell may be as wide as none: each is shown as one.
            let shown: String = text
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let column = at(column).saturating_sub(1).min(shown.chars().count());
            format!("  {shown}\n  {}^", " ".repeat(column))
        }
        None => String::new(),
    }
}

impl QueryError {
    pub(crate) fn trace_file(path: &Path) -> impl FnOnce(tracewire_tracefile::OpenError) -> Self {
        move |source| Self::TraceFile {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::underlined;

    #[test]
    fn a_fault_is_underlined() {
        assert_eq!(underlined("select\n  1 +", 2, 5), "    1 +\n      ^");
        assert_eq!(underlined("select\t€ 1", 1, 9), "  select € 1\n          ^");
        assert_eq!(underlined("select", 1, 99), "  select\n        ^");
        assert_eq!(underlined("select", 0, 0), "");
    }
}
