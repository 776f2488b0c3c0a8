//! Comma-separated values: one line for each frame, one column for each item (RFC 4180, lines ended by `\n`).

use std::io::Write;
use std::str::FromStr;

use tracewire_arch::Register;
use tracewire_model::{Address, ByteOrder, ThreadId, VariableNumber};
use tracewire_tracefile::{Frame, TraceFile};

use crate::error::ConvertError;
use crate::hex;

/// The most memory that one column shows, in bytes.
const MAX_MEMORY: u64 = 1 << 20;

/// The contents of a column. A cell whose value was not collected is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// `process`: the process, in a run of several.
    Process,
    /// `frame`: the frame's number.
    Frame,
    /// `tracepoint`: the tracepoint's number.
    Tracepoint,
    /// `pc`: the program counter, as `0x…`.
    ProgramCounter,
    /// `time_us`: microseconds, of `$trace_timestamp`.
    Time,
    /// `time_ns`: nanoseconds, where the frame has them.
    Nanoseconds,
    /// `thread`: the kernel's number, of `$trace_thread`.
    Thread,
    /// `cpu`: of `$trace_cpu`.
    Cpu,
    /// `stepping`: `true` in a frame that a step of `while-stepping` made.
    Stepping,
    /// `duration_ns`: how long the frame's span took, in nanoseconds.
    Duration,
    /// `ended`: how the frame's span ended, such as `return`.
    Ended,
    /// `$name`: a trace state variable, in decimal, or else a register, as `0x…`.
    Named(String),
    /// `0xADDRESS@LENGTH`: collected memory, two digits a byte in the order of the addresses, `??` for a byte that
    /// was not collected.
    Memory {
        /// Where it starts.
        address: Address,
        /// How many bytes.
        length: u64,
    },
    /// Any other text: an expression, which the caller evaluates.
    Expression(String),
}

impl FromStr for Column {
    type Err = ConvertError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| ConvertError::Column {
            text: text.to_owned(),
            problem,
        };
        Ok(match text {
            "" => return Err(error("expected a name or an expression")),
            "process" => Self::Process,
            "frame" => Self::Frame,
            "tracepoint" => Self::Tracepoint,
            "pc" => Self::ProgramCounter,
            "time_us" => Self::Time,
            "time_ns" => Self::Nanoseconds,
            "duration_ns" => Self::Duration,
            "ended" => Self::Ended,
            "thread" => Self::Thread,
            "cpu" => Self::Cpu,
            "stepping" => Self::Stepping,
            _ if is_name(text) => Self::Named(text.get(1..).unwrap_or_default().to_owned()),
            _ => match text.split_once('@') {
                Some((address, length)) if address.starts_with("0x") => {
                    let address = number(address)
                        .ok_or_else(|| error("expected an address before the `@`, as 0x…"))?;
                    let length = number(length)
                        .filter(|length| (1..=MAX_MEMORY).contains(length))
                        .ok_or_else(|| error("expected 1 to 1048576 bytes after the `@`"))?;
                    Self::Memory {
                        address: Address(address),
                        length,
                    }
                }
                _ => Self::Expression(text.to_owned()),
            },
        })
    }
}

/// Whether this is `$` and one word, and no expression.
fn is_name(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.strip_prefix('$')
        .is_some_and(|name| !name.is_empty() && name.bytes().all(word))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Column {
    /// The title of the column, from which it can be parsed again.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Process => "process".to_owned(),
            Self::Frame => "frame".to_owned(),
            Self::Tracepoint => "tracepoint".to_owned(),
            Self::ProgramCounter => "pc".to_owned(),
            Self::Time => "time_us".to_owned(),
            Self::Nanoseconds => "time_ns".to_owned(),
            Self::Duration => "duration_ns".to_owned(),
            Self::Ended => "ended".to_owned(),
            Self::Thread => "thread".to_owned(),
            Self::Cpu => "cpu".to_owned(),
            Self::Stepping => "stepping".to_owned(),
            Self::Named(name) => format!("${name}"),
            Self::Memory { address, length } => format!("{address}@{length}"),
            Self::Expression(text) => text.clone(),
        }
    }

    /// Whether the file has the column's data: a variable or a register of its name.
    #[must_use]
    pub fn is_in(&self, file: &TraceFile) -> bool {
        !matches!(source(file, self), Source::Missing(_))
    }

    /// The default columns: those that every frame may have, those of spans in a file with spans, and each variable of the program.
    #[must_use]
    pub fn standard(file: &TraceFile) -> Vec<Self> {
        let own = |name: &&str| !["trace_timestamp", "trace_thread", "trace_cpu"].contains(name);
        let variables = file.description().variables();
        let names = variables
            .iter()
            .map(|variable| variable.name.as_str())
            .filter(own);
        let of_spans = match file.spans().is_empty() {
            true => &[][..],
            false => &[Self::Duration, Self::Ended],
        };
        [
            Self::Frame,
            Self::Tracepoint,
            Self::ProgramCounter,
            Self::Time,
            Self::Thread,
            Self::Cpu,
        ]
        .into_iter()
        .chain(of_spans.iter().cloned())
        .chain(names.map(|name| Self::Named(name.to_owned())))
        .collect()
    }
}

/// A column with its place looked up once for all frames.
enum Source<'a> {
    Plain(&'a Column),
    Variable(VariableNumber),
    Register(&'a Register),
    /// No variable and no register of the file has this name, which is here with its `$`.
    Missing(String),
}

/// The columns of a file's table.
pub struct Table<'a> {
    file: &'a TraceFile,
    columns: &'a [Column],
    sources: Vec<Source<'a>>,
    process: Option<ThreadId>,
}

impl<'a> Table<'a> {
    /// A table with these columns.
    #[must_use]
    pub fn new(file: &'a TraceFile, columns: &'a [Column]) -> Self {
        Self {
            file,
            columns,
            sources: columns.iter().map(|column| source(file, column)).collect(),
            process: None,
        }
    }

    /// Of the frames of one process of several.
    #[must_use]
    pub fn with_process(mut self, process: Option<ThreadId>) -> Self {
        self.process = process;
        self
    }

    /// Appends the line of titles.
    pub fn titles(&self, text: &mut String) {
        for (index, column) in self.columns.iter().enumerate() {
            push_cell(text, index, &column.title());
        }
        text.push('\n');
    }

    /// Appends the line of a frame. `evaluate` returns the printed value of an expression in that frame, or `None`. A name that is of no variable
    /// and no register is one, too. `has_value` is set for each column that has a value.
    pub fn row(
        &self,
        frame: &Frame<'_>,
        mut evaluate: impl FnMut(&str) -> Option<String>,
        has_value: &mut [bool],
        text: &mut String,
    ) {
        for ((index, source), has_value) in self.sources.iter().enumerate().zip(has_value) {
            let cell = match source {
                Source::Plain(Column::Expression(expression)) => evaluate(expression),
                Source::Plain(Column::Process) => self.process.map(|process| process.to_string()),
                Source::Plain(column) => plain(self.file, frame, column),
                Source::Variable(number) => frame.variable(*number).map(|value| value.to_string()),
                Source::Register(register) => frame.register(register.number).map(|bytes| {
                    let mut text = String::new();
                    match frame.byte_order() {
                        ByteOrder::Big => hex::push_number(&mut text, bytes.iter()),
                        ByteOrder::Little => hex::push_number(&mut text, bytes.iter().rev()),
                    }
                    text
                }),
                Source::Missing(name) => evaluate(name),
            };
            *has_value |= cell.is_some();
            push_cell(text, index, cell.as_deref().unwrap_or_default());
        }
        text.push('\n');
    }
}

/// Writes a line of titles and a line for each frame, as [`Table`] has them. The result has for each column whether a frame had a value for it.
///
/// # Errors
/// When the sink refuses.
pub fn write<'a>(
    file: &'a TraceFile,
    columns: &[Column],
    mut evaluate: impl FnMut(Frame<'a>, &str) -> Option<String>,
    out: &mut impl Write,
) -> Result<Vec<bool>, ConvertError> {
    let mut line = String::new();
    let mut has_value = vec![false; columns.len()];
    let table = Table::new(file, columns);
    table.titles(&mut line);
    out.write_all(line.as_bytes())?;
    for frame in file.frames() {
        line.clear();
        let evaluate = |expression: &str| evaluate(frame, expression);
        table.row(&frame, evaluate, &mut has_value, &mut line);
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    Ok(has_value)
}

fn source<'a>(file: &'a TraceFile, column: &'a Column) -> Source<'a> {
    let Column::Named(name) = column else {
        return Source::Plain(column);
    };
    let variables = file.description().variables();
    if let Some(variable) = variables.iter().find(|variable| variable.name == *name) {
        return Source::Variable(variable.number);
    }
    let layout = file.layout();
    let register = layout.and_then(|layout| match name.as_str() {
        "pc" => layout.program_counter(),
        _ => layout.by_name(name),
    });
    register.map_or_else(|| Source::Missing(column.title()), Source::Register)
}

fn plain(file: &TraceFile, frame: &Frame<'_>, column: &Column) -> Option<String> {
    let span = || file.spans().at(frame.number());
    match column {
        Column::Frame => Some(frame.number().to_string()),
        Column::Tracepoint => Some(frame.tracepoint().to_string()),
        Column::ProgramCounter => frame.program_counter().map(|pc| pc.to_string()),
        Column::Time => frame.timestamp().map(|time| time.to_string()),
        Column::Nanoseconds => frame.nanoseconds().map(|time| time.to_string()),
        Column::Duration => span()?.duration_ns().map(|time| time.to_string()),
        Column::Ended => span().map(|span| span.end.name().to_owned()),
        Column::Thread => frame.thread().map(|thread| thread.to_string()),
        Column::Cpu => frame.cpu().map(|cpu| cpu.to_string()),
        Column::Stepping => frame.is_step().map(|step| step.to_string()),
        Column::Memory { address, length } => {
            let mut bytes = vec![None; usize::try_from(*length).ok()?];
            frame.read_memory(*address, &mut bytes);
            bytes.iter().any(Option::is_some).then(|| {
                let mut text = String::new();
                for byte in bytes {
                    match byte {
                        Some(byte) => hex::push(&mut text, &[byte]),
                        None => text.push_str("??"),
                    }
                }
                text
            })
        }
        Column::Process | Column::Named(_) | Column::Expression(_) => None,
    }
}

fn push_cell(line: &mut String, index: usize, cell: &str) {
    if index > 0 {
        line.push(',');
    }
    let is_quoted = cell.contains([',', '"', '\n']) || cell.starts_with(' ') || cell.ends_with(' ');
    let quote = if is_quoted { "\"" } else { "" };
    line.push_str(quote);
    for character in cell.chars() {
        match character {
            '"' => line.push_str("\"\""),
            '\n' => line.push('\n'),
            // A name of the file's: a terminal would obey it.
            control if control.is_control() => line.extend(control.escape_default()),
            plain => line.push(plain),
        }
    }
    line.push_str(quote);
}
