//! `show` for people.

use std::borrow::Cow;
use std::io;

use tracewire_model::hex;

use super::columns::{Column, Context, lines};
use super::{FAINT, FEW_REGISTERS, STRONG, WARNING, styled};
use crate::frame::{FrameView, ValueView};
use crate::row::FrameRow;
use crate::span::end_words as end_of_span;
use crate::stack::StackEntry;
use crate::words::{bytes, printable};

/// `show` of many frames: one row a frame and a line a value. `origin` is the time that times count from.
#[must_use]
pub fn frames(rows: &[FrameRow], origin: Option<u64>) -> String {
    FrameTable::new(origin).rows(rows)
}

/// `show` of frames that come one after the other: one table, in pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameTable {
    origin: Option<u64>,
    /// Of the pieces so far; `None` before the first.
    columns: Option<Columns>,
    widths: Vec<usize>,
}

/// Which columns a table has beside those that all have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Columns {
    process: bool,
    time: bool,
    thread: bool,
    source: bool,
}

impl FrameTable {
    /// A table without rows. `origin` is the time that times count from, in microseconds.
    #[must_use]
    pub const fn new(origin: Option<u64>) -> Self {
        Self {
            origin,
            columns: None,
            widths: Vec::new(),
        }
    }

    /// The text of more rows. It begins with headings where the text before has none for these columns. The columns are as wide as the
    /// widest cell so far.
    pub fn rows(&mut self, rows: &[FrameRow]) -> String {
        let mut shown = Columns {
            process: rows.iter().any(|row| row.process.is_some()),
            time: rows.iter().any(|row| row.time_us.is_some()),
            thread: rows.iter().any(|row| row.thread.is_some()),
            source: rows.iter().any(|row| row.is_placed),
        };
        if let Some(before) = self.columns {
            shown.process |= before.process;
            shown.time |= before.time;
            shown.thread |= before.thread;
            shown.source |= before.source;
        }
        let has_headings = self.columns == Some(shown);
        if !has_headings {
            self.widths.clear();
        }
        self.columns = Some(shown);
        let columns = shown.list();
        let last: (_, fn(&FrameRow) -> &str) = ("What", |row| &row.lines);
        let context = Context {
            origin: self.origin,
        };
        let heading: fn(&str) -> String = |heading| styled(STRONG, heading);
        let heading = (!has_headings).then_some(heading);
        lines(rows, &columns, &context, last, &mut self.widths, heading)
    }
}

impl Columns {
    fn list(self) -> Vec<Column<FrameRow>> {
        type Cell = for<'a> fn(&'a FrameRow, &'a Context) -> Cow<'a, str>;
        let numbered = |heading, cell: Cell| Column {
            heading,
            right: true,
            cell,
        };
        let mut columns: Vec<Column<FrameRow>> = Vec::new();
        if self.process {
            columns.push(numbered("Process", |row, _| shown(row.process)));
        }
        columns.push(numbered("Frame", |row, _| row.frame.to_string().into()));
        columns.push(numbered("TP", |row, _| row.tracepoint.to_string().into()));
        if self.time {
            columns.push(numbered("Time", |row, context| match row.time_us {
                Some(time) => since(time, context.origin).into(),
                None => "".into(),
            }));
        }
        if self.thread {
            columns.push(numbered("Thread", |row, _| shown(row.thread)));
            columns.push(numbered("CPU", |row, _| shown(row.cpu)));
        }
        columns.push(Column {
            heading: if self.source { "Where" } else { "PC" },
            right: false,
            cell: |row, _| row.place.as_str().into(),
        });
        columns
    }
}

fn shown(number: Option<u32>) -> Cow<'static, str> {
    number
        .map_or_else(String::new, |number| number.to_string())
        .into()
}

/// A time in microseconds as seconds since `origin`.
fn since(time: u64, origin: Option<u64>) -> String {
    let origin = origin.unwrap_or(0);
    match time.checked_sub(origin) {
        Some(since) => format!("{:.6}", since as f64 / 1e6),
        None => format!("-{:.6}", (origin - time) as f64 / 1e6),
    }
}

/// Where a frame is, its words made safe for a terminal.
fn place_words(view: &FrameView) -> String {
    let mut words = Vec::new();
    words.extend(view.marker.as_deref().map(printable));
    let source = SourceWords {
        function: view.function.as_deref(),
        file: view.file.as_deref(),
        line: view.line,
    };
    words.extend(source.words(printable));
    if words.is_empty() {
        words.push(view.pc.clone().unwrap_or_else(|| "?".to_owned()));
    }
    words.join(" ")
}

/// The source position of a place, by the program's symbols.
pub(crate) struct SourceWords<'a> {
    pub(crate) function: Option<&'a str>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u64>,
}

impl SourceWords<'_> {
    /// As one text, made safe by `shown`; none where nothing is known.
    pub(crate) fn words(&self, shown: fn(&str) -> String) -> Option<String> {
        let file = self.file.map(|file| {
            let file = file.strip_prefix("./").unwrap_or(file);
            let line = self
                .line
                .map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{line}", shown(file))
        });
        match (self.function.map(shown), file) {
            (Some(function), Some(file)) => Some(format!("{function} {file}")),
            (function, file) => function.or(file),
        }
    }
}

/// A function on the stack, made safe by `shown`.
pub(crate) fn entry_words(entry: &StackEntry, shown: fn(&str) -> String) -> String {
    let source = SourceWords {
        function: entry.function.as_deref(),
        file: entry.file.as_deref(),
        line: entry.line,
    };
    let mut words = source.words(shown).unwrap_or_else(|| entry.pc.clone());
    if entry.inlined {
        words.push_str(" (inlined)");
    }
    words
}

/// Why a stack ends before its outermost function; `None` if it does not, or at the requested limit.
pub(crate) fn end_words(end: &str) -> Option<&'static str> {
    match end {
        "unavailable" => Some("<more of the stack was not collected>"),
        "no-information" => Some("<no call frame information says who called>"),
        _ => None,
    }
}

/// An expression and its value, made safe for a terminal.
fn value_line(value: &ValueView) -> String {
    let (expression, shown) = (printable(&value.expression), printable(&value.value));
    match value.error {
        Some(_) => format!("{expression} = {}", styled(WARNING, shown)),
        None => format!("{expression} = {shown}"),
    }
}

/// Whether a variable has a separate column.
#[must_use]
pub fn is_builtin(name: &str) -> bool {
    matches!(name, "trace_timestamp" | "trace_thread" | "trace_cpu")
}

/// `show` of one frame: everything in it.
///
/// # Errors
/// When it cannot be written.
pub fn write_frame(
    out: &mut impl io::Write,
    view: &FrameView,
    origin: Option<u64>,
) -> io::Result<()> {
    let mut head = vec![
        format!("frame {}", view.frame),
        format!("tracepoint {}", view.tracepoint),
    ];
    if view.stepping == Some(true) {
        head.push("while-stepping".to_owned());
    }
    if let Some(time) = view.time_us {
        head.push(format!("at {} s", since(time, origin)));
    }
    if let Some(thread) = view.thread {
        head.push(format!("thread {thread}"));
    }
    if let Some(cpu) = view.cpu {
        head.push(format!("cpu {cpu}"));
    }
    writeln!(out, "{}", styled(STRONG, head.join(", ")))?;
    let place = place_words(view);
    match &view.pc {
        Some(pc) if *pc != place => {
            writeln!(out, "{place} {}", styled(FAINT, pc))?;
        }
        _ => {
            writeln!(out, "{place}")?;
        }
    }
    if let Some(span) = &view.span {
        let within = view.parent.map_or_else(String::new, |parent| {
            format!(", in the span of frame {parent}")
        });
        writeln!(out, "  {}{within}", end_of_span(span))?;
    }
    for value in &view.values {
        let named = value.type_name.as_deref().map_or_else(String::new, |name| {
            format!("{} ", styled(FAINT, format_args!("({})", printable(name))))
        });
        writeln!(out, "  {named}{}", value_line(value))?;
    }
    if !view.stack.is_empty() {
        writeln!(out, "{}", styled(STRONG, "stack"))?;
        for (level, entry) in view.stack.iter().enumerate() {
            let words = entry_words(entry, printable);
            writeln!(out, "  #{level:<3}{words} {}", styled(FAINT, &entry.pc))?;
        }
        if let Some(reason) = view.stack_end.and_then(end_words) {
            writeln!(out, "  {}", styled(WARNING, reason))?;
        }
    }
    if !view.variables.is_empty() {
        writeln!(out, "{}", styled(STRONG, "variables"))?;
        for (name, value) in &view.variables.0 {
            writeln!(out, "  ${} = {value}", printable(name))?;
        }
    }
    if !view.registers.is_empty() || !view.unavailable_registers.is_empty() {
        writeln!(out, "{}", styled(STRONG, "registers"))?;
        let names = view.registers.0.iter().map(|(name, _)| &**name);
        let width = names
            .chain(view.unavailable_registers.iter().map(String::as_str))
            .map(str::len)
            .max()
            .unwrap_or(0);
        let many = view.registers.0.len() > FEW_REGISTERS;
        let mut zero = 0_u64;
        for (name, value) in &view.registers.0 {
            if many && **value == *"0x0" {
                zero += 1;
                continue;
            }
            // A vector has many forms; `--json` has them.
            let shown = view.register_values.0.iter().find(|(of, _)| of == name);
            let shown = shown.filter(|(_, shown)| !shown.starts_with('{'));
            let shown =
                shown.map_or_else(String::new, |(_, shown)| format!(" {}", printable(shown)));
            writeln!(out, "  {:<width$} {value}{shown}", printable(name))?;
        }
        for name in &view.unavailable_registers {
            let unavailable = styled(FAINT, "<unavailable>");
            writeln!(out, "  {:<width$} {unavailable}", printable(name))?;
        }
        if zero > 0 {
            writeln!(
                out,
                "  {}",
                styled(FAINT, format_args!("{zero} more are 0"))
            )?;
        }
    }
    for piece in &view.memory {
        write!(out, "{} {}", styled(STRONG, "memory"), piece.address)?;
        if piece.is_stack {
            // So many lines that what matters is lost among them; `--json` has the bytes.
            let size = bytes(piece.bytes.0.len() as u64);
            writeln!(
                out,
                " {}",
                styled(FAINT, format_args!("{size} of the stack"))
            )?;
            continue;
        }
        writeln!(out)?;
        dump(out, &piece.bytes.0)?;
    }
    if let Some(data) = &view.static_data {
        writeln!(out, "{}", styled(STRONG, "static tracepoint data"))?;
        dump(out, &data.0)?;
    }
    if let Some(unknown) = &view.unknown {
        writeln!(out, "{}", styled(WARNING, "not understood"))?;
        dump(out, &unknown.0)?;
    }
    Ok(())
}

/// Pairs of digits, 16 bytes a line, with the characters beside.
fn dump(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    for line in bytes.chunks(16) {
        let (mut pairs, mut characters) = (String::new(), String::new());
        for byte in line {
            pairs.push_str(&hex::text(&[*byte]));
            pairs.push(' ');
            let shown = byte.is_ascii_graphic() || *byte == b' ';
            characters.push(if shown { char::from(*byte) } else { '.' });
        }
        writeln!(out, "  {pairs:<48} {}", styled(FAINT, characters))?;
    }
    Ok(())
}

/// The data of a probe: mostly text.
pub(crate) fn text_or_digits(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => format!("\"{text}\""),
        _ => hex::text(bytes),
    }
}
