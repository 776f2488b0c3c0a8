//! Which test files run, and on which board.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{Arguments, Server, Suite, lists};

/// How GDB comes to a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Board {
    /// `target remote`: the server has the program from its command line
    Native,
    /// `target extended-remote`: GDB starts programs, and attaches to them
    Extended,
}

impl Board {
    /// The suite's board that this one is made of.
    pub const fn of_the_suite(self) -> &'static str {
        match self {
            Self::Native => "native-gdbserver",
            Self::Extended => "native-extended-gdbserver",
        }
    }

    pub const ALL: [Self; 2] = [Self::Native, Self::Extended];
}

impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Extended => "extended",
        })
    }
}

impl std::str::FromStr for Board {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|board| board.to_string() == text)
            .with_context(|| format!("`{text}` is neither `native` nor `extended`"))
    }
}

/// A file of the suite (`gdb.base/break.exp`) on a board.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Test {
    pub file: String,
    pub board: Board,
}

/// The tests that the arguments ask for.
pub fn chosen(arguments: &Arguments, suite: &Path) -> Result<Vec<Test>> {
    let mut all = Vec::new();
    let unnamed = arguments.suite.is_empty();
    for each in [Suite::Trace, Suite::Server, Suite::Base, Suite::Values] {
        if unnamed || arguments.suite.contains(&each) {
            all.extend(of_suite(each, suite)?);
        }
    }
    let mut tests = if arguments.files.is_empty() {
        all
    } else {
        let mut named = Vec::new();
        for file in &arguments.files {
            named.extend(of_name(file, &all, suite)?);
        }
        named
    };
    if let Some(board) = arguments.board {
        for test in &mut tests {
            test.board = board;
        }
    }
    if arguments.server == Server::Proxy {
        // The proxy is in front of a program: a server that has none yet is not behind it.
        tests.retain(|test| test.board == Board::Native);
    }
    tests.sort();
    tests.dedup();
    Ok(tests)
}

fn of_suite(which: Suite, suite: &Path) -> Result<Vec<Test>> {
    match which {
        Suite::Trace => in_folder("gdb.trace", suite, &[Board::Native]),
        // Some files attach, which they do on the one board only; others want a stub.
        Suite::Server => in_folder("gdb.server", suite, &Board::ALL),
        Suite::Base => listed("base.txt"),
        Suite::Values => listed("values.txt"),
    }
}

/// The tests of a list of the repository: a file a line, and its board where that is not the native one.
fn listed(name: &str) -> Result<Vec<Test>> {
    let file = lists().join(name);
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (file, board) = line.split_once(' ').unwrap_or((line, "native"));
            Ok(Test {
                file: file.to_owned(),
                board: board.parse()?,
            })
        })
        .collect()
}

fn in_folder(name: &str, suite: &Path, boards: &[Board]) -> Result<Vec<Test>> {
    let folder = suite.join(name);
    let mut tests = Vec::new();
    for entry in std::fs::read_dir(&folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?
    {
        let file = entry?.file_name();
        let file = file.to_string_lossy();
        if file.ends_with(".exp") {
            tests.extend(boards.iter().map(|board| Test {
                file: format!("{name}/{file}"),
                board: *board,
            }));
        }
    }
    Ok(tests)
}

/// The listed files of a name; one that no list has is looked for in the suite.
fn of_name(name: &str, listed: &[Test], suite: &Path) -> Result<Vec<Test>> {
    let name = if name.ends_with(".exp") {
        name.to_owned()
    } else {
        format!("{name}.exp")
    };
    let found: Vec<_> = listed
        .iter()
        .filter(|test| {
            test.file == name || !name.contains('/') && test.file.ends_with(&format!("/{name}"))
        })
        .cloned()
        .collect();
    if found.is_empty() {
        if !suite.join(&name).is_file() {
            bail!("{name} is in no list, and is no file of the suite");
        }
        return Ok(vec![Test {
            file: name,
            board: Board::Native,
        }]);
    }
    Ok(found)
}
