//! Text in columns, laid out in one pass over many rows.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// The width between two columns.
const GAP: usize = 2;

/// A column.
pub(super) struct Column<R> {
    pub(super) heading: &'static str,
    /// Numbers are set to the right.
    pub(super) right: bool,
    /// The text of a row in this column.
    pub(super) cell: for<'a> fn(&'a R, &'a Context) -> Cow<'a, str>,
}

/// The context of cells.
pub(super) struct Context {
    /// The origin of times.
    pub(super) origin: Option<u64>,
}

/// Rows as text under their headings, which `heading` styles; without it, the headings were already printed. The last column may
/// have several lines a row, and has no width. No line ends in blanks, and none is wrapped, since a program may read it. The
/// columns are at least as wide as `widths`, which is updated.
pub(super) fn lines<R>(
    rows: &[R],
    columns: &[Column<R>],
    context: &Context,
    last: (&'static str, fn(&R) -> &str),
    widths: &mut Vec<usize>,
    heading: Option<fn(&str) -> String>,
) -> String {
    // Cells are made once: their text one after the other, and where each ends.
    let mut cells = String::new();
    let mut ends = Vec::with_capacity(rows.len() * columns.len());
    widths.resize(columns.len(), 0);
    for (column, widest) in columns.iter().zip(widths.iter_mut()) {
        *widest = (*widest).max(column.heading.len());
    }
    for row in rows {
        for (column, widest) in columns.iter().zip(widths.iter_mut()) {
            let text = (column.cell)(row, context);
            let width = width(&text);
            *widest = (*widest).max(width);
            cells.push_str(&text);
            ends.push((cells.len(), width));
        }
    }
    let indent: usize = widths.iter().map(|width| width + GAP).sum();
    let mut text = String::with_capacity(rows.len() * (indent + 40));
    if let Some(heading) = heading {
        let mut line = String::new();
        for (column, widest) in columns.iter().zip(&*widths) {
            put(
                &mut line,
                column.heading,
                column.heading.len(),
                *widest,
                column.right,
            );
        }
        line.push_str(last.0);
        text.push_str(&heading(line.trim_end()));
        text.push('\n');
    }
    let mut ends = ends.into_iter();
    let mut start = 0;
    for row in rows {
        for (column, widest) in columns.iter().zip(&*widths) {
            let Some((end, width)) = ends.next() else {
                debug_assert!(false, "a cell of each row and column");
                continue;
            };
            let cell = cells.get(start..end).unwrap_or_default();
            put(&mut text, cell, width, *widest, column.right);
            start = end;
        }
        for (index, line) in last.1(row).split('\n').enumerate() {
            if index > 0 {
                text.extend(std::iter::repeat_n(' ', indent));
            }
            text.push_str(line);
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
    }
    text
}

/// How many columns of a terminal a text takes.
fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

fn put(text: &mut String, cell: &str, width: usize, widest: usize, right: bool) {
    let blanks = std::iter::repeat_n(' ', widest.saturating_sub(width));
    if right {
        text.extend(blanks);
        text.push_str(cell);
    } else {
        text.push_str(cell);
        text.extend(blanks);
    }
    text.extend([' '; GAP]);
}
