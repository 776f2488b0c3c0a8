//! The differences that are not Tracewire's to mend, with their reasons: `known.toml`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::list::Board;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default)]
    pub known: Vec<Entry>,
}

/// Tests of one file that do not pass, and why not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub file: String,
    /// Left out: any board.
    board: Option<String>,
    /// Names; a `*` in one stands for anything.
    tests: Vec<String>,
    /// Whether they pass now and then.
    #[serde(default)]
    pub sometimes: bool,
    pub reason: String,
}

impl Known {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// What is known of a test.
    pub fn find(&self, file: &str, board: Board, test: &str) -> Option<(usize, &Entry)> {
        self.known
            .iter()
            .enumerate()
            .find(|(_, entry)| entry.is_about(file, board) && entry.names(test))
    }
}

impl Entry {
    pub fn is_about(&self, file: &str, board: Board) -> bool {
        self.file == file
            && self
                .board
                .as_ref()
                .is_none_or(|name| *name == board.to_string())
    }

    fn names(&self, test: &str) -> bool {
        self.tests.iter().any(|pattern| matches(pattern, test))
    }
}

/// Whether a text is a pattern's, whose `*` stand for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(start, _)| start)
                .chain([rest.len()])
                .any(|start| rest.get(start..).is_some_and(|rest| matches(after, rest)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("a: *print locf", "a: tfile: print locf"));
        assert!(matches("a: *", "a: "));
        assert!(!matches("a: *print locf", "a: print locd"));
        assert!(!matches("a", "a: b"));
    }

    #[test]
    fn the_list_can_be_read() {
        Known::read(&super::super::lists().join("known.toml")).expect("a list");
    }
}
