//! Trace files for people: aligned text, coloured by the caller's terminal only.
//!
//! The text always has colours; a caller prints it through a stream that removes them for anything but a terminal.

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};

use crate::words::printable;

mod aggregates;
mod columns;
mod elf;
mod frames;
mod info;

pub use aggregates::aggregates;
pub use elf::elf;
pub use frames::{FrameTable, frames, is_builtin, write_frame};
pub(crate) use frames::{SourceWords, end_words, entry_words, text_or_digits};
pub use info::{info, stop_words};

/// Headings and labels.
const STRONG: Style = Style::new().bold();
/// The style of less important text.
const FAINT: Style = Style::new().dimmed();
/// The style of errors.
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Up to how many registers of a frame are shown one by one even where they are 0.
const FEW_REGISTERS: usize = 40;

fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The longest text of a file in a table, in characters: each row is as wide as the widest one.
const MOST_SHOWN: usize = 500;

/// Text from a file for a cell of a table, made safe for a terminal and cut to a limit. JSON has it whole.
pub(crate) fn cell(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => printable(text.get(..end).unwrap_or_default()) + "…",
        None => printable(text),
    }
}

/// Appends [`cell`].
pub(crate) fn push_cell(line: &mut String, text: &str) {
    // Most texts are short and plain.
    if text.len() <= MOST_SHOWN && !text.bytes().any(|byte| !matches!(byte, b' '..=b'~')) {
        line.push_str(text);
    } else {
        line.push_str(&cell(text));
    }
}

/// Appends [`cell`] of something that is no value.
pub(crate) fn push_warning(line: &mut String, text: &str) {
    line.push_str(&styled(WARNING, cell(text)));
}

/// A table without frames, whose lines are never wrapped: what reads it may be a program.
fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn lines_of(table: &Table) -> String {
    let mut text = String::new();
    for (index, line) in table.lines().enumerate() {
        let line = line.trim_end();
        if index == 0 {
            text.push_str(&styled(STRONG, line));
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
