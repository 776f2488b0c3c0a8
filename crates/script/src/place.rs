//! The position of a word in a script, so that an error can point at it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One line of a script, or one `-t` argument.
#[derive(PartialEq, Eq, Debug)]
struct Line {
    file: Arc<str>,
    number: usize,
    text: String,
}

/// A piece of one line of a script, with its position.
#[derive(Clone, PartialEq, Eq)]
pub struct Located {
    line: Arc<Line>,
    range: Range<usize>,
}

impl Located {
    /// The whole of a line. `number` counts from 1.
    pub(crate) fn line(file: &Arc<str>, number: usize, text: String) -> Self {
        let range = 0..text.len();
        Self {
            line: Arc::new(Line {
                file: Arc::clone(file),
                number,
                text,
            }),
            range,
        }
    }

    /// The words.
    #[must_use]
    pub fn text(&self) -> &str {
        self.line.text.get(self.range.clone()).unwrap_or_default()
    }

    /// The file they are in, as it was named; `-t` for a one-line specification.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.line.file
    }

    /// The line they are in, from 1.
    #[must_use]
    pub fn line_number(&self) -> usize {
        self.line.number
    }

    /// The column they start at, in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        let before = self.line.text.get(..self.range.start).unwrap_or_default();
        before.chars().count() + 1
    }

    /// A part of these words; `range` counts bytes from their start, and is clipped to them.
    #[must_use]
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let length = self.range.len();
        let end = range.end.min(length);
        let start = range.start.min(end);
        Self {
            line: Arc::clone(&self.line),
            range: self.range.start + start..self.range.start + end,
        }
    }

    /// The part after the first `bytes` bytes.
    #[must_use]
    pub(crate) fn after(&self, bytes: usize) -> Self {
        self.part(bytes..self.range.len())
    }

    /// The words without blanks around them.
    #[must_use]
    pub(crate) fn trimmed(&self) -> Self {
        let text = self.text();
        let start = text.len() - text.trim_start().len();
        let length = text.trim().len();
        self.part(start..start + length)
    }

    /// The first word, up to a blank, and what follows it, trimmed.
    pub(crate) fn word(&self) -> (Self, Self) {
        let trimmed = self.trimmed();
        let end = trimmed
            .text()
            .find(char::is_whitespace)
            .unwrap_or(trimmed.range.len());
        (trimmed.part(0..end), trimmed.after(end).trimmed())
    }

    /// The first word.
    #[must_use]
    pub fn word_text(&self) -> &str {
        self.text().split_whitespace().next().unwrap_or_default()
    }

    /// Whether there are no words.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// The line with the words underlined.
    pub(crate) fn underline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.number.to_string();
        let margin = " ".repeat(number.len());
        let before = self.line.text.get(..self.range.start).unwrap_or_default();
        // Tabs are kept, so that the underline is below the words with any tab width.
        let indent: String = before
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let width = self.text().chars().count().max(1);
        writeln!(f, " {number} | {}", self.line.text)?;
        write!(f, " {margin} | {indent}{}", "^".repeat(width))
    }
}

impl fmt::Debug for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?}", self.text())
    }
}

/// `FILE:LINE:COLUMN`.
impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}",
            self.line.file,
            self.line.number,
            self.column()
        )
    }
}
