//! gdbserver's results, as they stand in the repository: for each file how many tests passed, and the names of those
//! that did not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::list::Test;
use super::sum::{Ended, FileResult, Outcome};

const HEAD: &str = "\
# What gdbserver 13.1 passes of GDB 13.1's own test suite: file, board, passes; below it the tests that do not pass.
# Written by `cargo xtask conformance --server gdbserver --write-baseline`.
";

/// Results by file and board.
pub struct Baseline(BTreeMap<Test, FileResult>);

impl Baseline {
    /// Reads the file; there may be none yet.
    pub fn read(path: &Path) -> Result<Self> {
        let text = if path.exists() {
            std::fs::read_to_string(path)
                .with_context(|| format!("{} cannot be read", path.display()))?
        } else {
            String::new()
        };
        Self::parse(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut all: BTreeMap<Test, FileResult> = BTreeMap::new();
        let mut current = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(outcome) = line.strip_prefix("  ") {
                let (word, test) = outcome.split_once(": ").context(outcome.to_owned())?;
                let result: &mut FileResult =
                    current
                        .as_ref()
                        .and_then(|test| all.get_mut(test))
                        .with_context(|| format!("`{outcome}` belongs to no file"))?;
                result.others.push(Outcome {
                    word: word.to_owned(),
                    test: test.to_owned(),
                });
                continue;
            }
            let mut words = line.split(' ');
            let (Some(file), Some(board), Some(passes)) =
                (words.next(), words.next(), words.next())
            else {
                anyhow::bail!("`{line}` is no file, board and number of passes");
            };
            let test = Test {
                file: file.to_owned(),
                board: board.parse()?,
            };
            let result = FileResult {
                passes: passes.parse().with_context(|| line.to_owned())?,
                passed: None,
                others: Vec::new(),
                ended: match words.next() {
                    None => Ended::Whole,
                    Some("hung") => Ended::Hung,
                    Some(_) => Ended::Broken,
                },
            };
            all.insert(test.clone(), result);
            current = Some(test);
        }
        Ok(Self(all))
    }

    pub fn get(&self, test: &Test) -> Option<&FileResult> {
        self.0.get(test)
    }

    pub fn set(&mut self, test: Test, result: FileResult) {
        self.0.insert(test, result);
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (Test { file, board }, result) in &self.0 {
            let ended = match result.ended {
                Ended::Whole => "",
                Ended::Hung => " hung",
                Ended::Broken => " broken",
            };
            writeln!(text, "{file} {board} {}{ended}", result.passes)?;
            for Outcome { word, test } in &result.others {
                writeln!(text, "  {word}: {test}")?;
            }
        }
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }
}
