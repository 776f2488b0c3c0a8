//! What is wrong with a line.

use std::fmt;

use super::cursor::is_blank;

/// Why a line could not be read: what was expected, and the token that was there instead.
///
/// ```
/// use tracewire_exec_trace::text::{Format, first_error};
///
/// let line = b"1 clk 0 IT (1) 00000004 lui A svc : lui t0,0x1";
/// let error = first_error(Format::Qemu4v, line).expect("an opcode has hex digits");
/// assert_eq!(
///     error.underlined(line),
///     "1 clk 0 IT (1) 00000004 lui A svc : lui t0,0x1\n                        ^^^ expected the opcode in hex"
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}")]
pub struct LineError {
    /// What was expected there.
    pub expected: &'static str,
    /// Where the token starts in the line, in bytes.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
}

impl LineError {
    pub(super) fn at(line: &[u8], position: usize, expected: &'static str) -> Self {
        let blanks = |from: usize| {
            line.iter()
                .skip(from)
                .take_while(|byte| is_blank(**byte))
                .count()
        };
        let start = position + blanks(position);
        let token = line
            .iter()
            .skip(start)
            .take_while(|byte| !is_blank(**byte))
            .count();
        let column = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            expected,
            start: column(start.min(line.len())),
            end: column((start + token).min(line.len())),
        }
    }

    /// The line and, below it, the token underlined and what was expected. A long line is shown around the token;
    /// bytes that are no printable ASCII are shown as dots.
    #[must_use]
    pub fn underlined(&self, line: &[u8]) -> String {
        const SHOWN: usize = 160;
        let start = (self.start as usize).min(line.len());
        let first = if line.len() <= SHOWN {
            0
        } else {
            start.saturating_sub(SHOWN / 2)
        };
        let shown: String = line
            .iter()
            .skip(first)
            .take(SHOWN)
            .map(|byte| match byte {
                b' '..=b'~' => char::from(*byte),
                b'\t' => ' ',
                _ => '.',
            })
            .collect();
        let width = (self.end.saturating_sub(self.start) as usize).clamp(1, SHOWN / 2);
        let before = " ".repeat(start - first);
        format!("{}\n{before}{} {self}", shown.trim_end(), "^".repeat(width))
    }
}

/// A line that could not be read, for a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnparsedLine {
    /// Which line.
    pub line: crate::record::Line,
    /// What is wrong with it.
    pub error: LineError,
}

impl fmt::Display for UnparsedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line.number, self.error)
    }
}
