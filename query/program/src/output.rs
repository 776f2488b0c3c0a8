//! Rows as a table, as CSV, as JSON lines, as Parquet and as an Arrow stream.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::ValueEnum;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tempfile::NamedTempFile;
use tracewire_dataset::with_encodings;
use tracewire_views::words::printable;
use unicode_width::UnicodeWidthStr as _;

/// How many rows are looked at for the widths of the columns of a table.
const ROWS_FOR_WIDTHS: usize = 1000;

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Columns for people
    Table,
    /// Comma-separated values, with the columns' names in the first line
    Csv,
    /// An object for each row, in a line of its own; what is null is left out
    Json,
    /// A Parquet file
    Parquet,
    /// Arrow's stream format
    Arrow,
}

impl Format {
    fn of_file(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Self::Csv,
            Some("json" | "jsonl" | "ndjson") => Self::Json,
            Some("parquet") => Self::Parquet,
            Some("arrow" | "arrows" | "ipc") => Self::Arrow,
            _ => Self::Table,
        }
    }
}

/// The output.
enum Target {
    Standard,
    /// A pipe or a device, which cannot be replaced.
    Stream(PathBuf),
    /// A temporary file, and its final path.
    File(PathBuf, NamedTempFile),
}

/// Where rows go.
pub struct Output {
    format: Format,
    target: Target,
    is_terminal: bool,
}

impl Output {
    /// Opens the file, or takes standard output.
    pub fn new(path: Option<&Path>, format: Option<Format>) -> anyhow::Result<Self> {
        let by_name = path.map_or(Format::Table, Format::of_file);
        let format = format.unwrap_or(by_name);
        let path = path.filter(|path| *path != Path::new("-"));
        let is_terminal = path.is_none() && io::stdout().is_terminal();
        ensure!(
            !is_terminal || !matches!(format, Format::Parquet | Format::Arrow),
            "this format is not for a terminal: name a file with -o"
        );
        let target = match path {
            None => Target::Standard,
            Some(path) if path.exists() && !path.is_file() => {
                ensure!(!path.is_dir(), "{} is a directory", path.display());
                Target::Stream(path.to_owned())
            }
            Some(path) => {
                let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
                let new = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")));
                let new = new.with_context(|| format!("{} cannot be written", path.display()))?;
                Target::File(path.to_owned(), new)
            }
        };
        Ok(Self {
            format,
            target,
            is_terminal,
        })
    }

    /// Writes all rows, and gives their number. A file is put in its place after the last.
    pub fn write(
        self,
        schema: SchemaRef,
        batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
    ) -> anyhow::Result<usize> {
        let is_broken = Arc::new(AtomicBool::new(false));
        let sink: Box<dyn Write + Send> = match &self.target {
            Target::Standard => Box::new(io::stdout()),
            Target::Stream(path) => {
                let opened = OpenOptions::new().write(true).open(path);
                Box::new(opened.with_context(|| path.display().to_string())?)
            }
            Target::File(_, new) => Box::new(new.reopen()?),
        };
        let sink = Sink {
            to: BufWriter::new(sink),
            is_broken: Arc::clone(&is_broken),
        };
        let mut rows = 0;
        let counted = batches.inspect(|batch| {
            if let Ok(batch) = batch {
                rows += batch.num_rows();
            }
        });
        let written = match self.format {
            Format::Table => write_table(sink, &schema, counted),
            Format::Csv => write_csv(sink, &schema, counted, self.is_terminal),
            Format::Json => write_json(sink, counted, self.is_terminal),
            Format::Parquet => write_parquet(sink, schema, counted),
            Format::Arrow => write_arrow(sink, &schema, counted),
        };
        // The reader of the output has closed it, and needs no more.
        if !is_broken.load(Ordering::Relaxed) {
            written?;
        }
        if let Target::File(path, new) = self.target {
            new.persist(&path)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(rows)
    }
}

/// The output, and whether its reader has closed it: not all writers of formats keep the kind of an error.
struct Sink {
    to: BufWriter<Box<dyn Write + Send>>,
    is_broken: Arc<AtomicBool>,
}

impl Sink {
    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.noted(flushed)
    }
}

/// Formats the values of a batch.
fn formatters<'b>(
    batch: &'b RecordBatch,
    options: &'b FormatOptions<'b>,
) -> Result<Vec<ArrayFormatter<'b>>, ArrowError> {
    let columns = batch.columns().iter();
    columns
        .map(|column| ArrayFormatter::try_new(column, options))
        .collect()
}

/// Whether a column is of numbers, which are written at the right.
fn is_number(schema: &SchemaRef, column: usize) -> bool {
    schema.field(column).data_type().is_numeric()
}

fn write_table(
    mut out: Sink,
    schema: &SchemaRef,
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
) -> anyhow::Result<()> {
    let options = FormatOptions::new().with_null("NULL");
    let names: Vec<String> = (schema.fields().iter())
        .map(|field| printable(field.name()))
        .collect();
    // The first rows wait until the widths are known.
    let mut waiting: Vec<Vec<String>> = vec![names];
    let mut widths: Option<Vec<usize>> = None;
    let mut has_rows = false;
    for batch in batches {
        let batch = batch?;
        let columns = formatters(&batch, &options)?;
        for row in 0..batch.num_rows() {
            let cells: Result<Vec<String>, ArrowError> = (columns.iter())
                .map(|column| Ok(printable(&column.value(row).try_to_string()?)))
                .collect();
            has_rows = true;
            match &widths {
                Some(widths) => write_row(&mut out, schema, widths, &cells?)?,
                None => {
                    waiting.push(cells?);
                    if waiting.len() > ROWS_FOR_WIDTHS {
                        widths = Some(write_first(&mut out, schema, &waiting)?);
                        waiting.clear();
                    }
                }
            }
        }
    }
    // Without rows there are no column types to report.
    if widths.is_none() && has_rows {
        write_first(&mut out, schema, &waiting)?;
    }
    Ok(out.flush()?)
}

/// Writes the first rows, and gives the widths of the columns.
fn write_first(out: &mut Sink, schema: &SchemaRef, rows: &[Vec<String>]) -> io::Result<Vec<usize>> {
    let mut widths = vec![0; schema.fields().len()];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    for row in rows {
        write_row(out, schema, &widths, row)?;
    }
    Ok(widths)
}

fn write_row(
    out: &mut Sink,
    schema: &SchemaRef,
    widths: &[usize],
    row: &[String],
) -> io::Result<()> {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        if at > 0 {
            line.push_str("  ");
        }
        let blanks = " ".repeat(width.saturating_sub(cell.width()));
        match is_number(schema, at) {
            true => line.extend([blanks.as_str(), cell]),
            false => line.extend([cell, blanks.as_str()]),
        }
    }
    writeln!(out, "{}", line.trim_end())
}

fn write_csv(
    mut out: Sink,
    schema: &SchemaRef,
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
    is_terminal: bool,
) -> anyhow::Result<()> {
    let options = FormatOptions::new();
    let field = |text: &str| match is_terminal {
        true => csv_field(&printable(text)),
        false => csv_field(text),
    };
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|one| field(one.name()))
        .collect();
    writeln!(out, "{}", names.join(","))?;
    for batch in batches {
        let batch = batch?;
        let columns = formatters(&batch, &options)?;
        // A column of only nulls has no bits for them.
        let nulls: Vec<_> = batch.columns().iter().map(Array::logical_nulls).collect();
        for row in 0..batch.num_rows() {
            for (at, (column, nulls)) in columns.iter().zip(&nulls).enumerate() {
                if at > 0 {
                    out.write_all(b",")?;
                }
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                    let text = column.value(row).try_to_string()?;
                    out.write_all(field(&text).as_bytes())?;
                }
            }
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}

/// A value in quotes where it needs some. An empty text has quotes, and null is nothing.
fn csv_field(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']);
    match is_plain {
        true => text.to_owned(),
        false => format!("\"{}\"", text.replace('"', "\"\"")),
    }
}

fn write_json(
    mut out: Sink,
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
    is_terminal: bool,
) -> anyhow::Result<()> {
    for batch in batches {
        let mut lines = LineDelimitedWriter::new(Vec::new());
        lines.write(&batch?)?;
        lines.finish()?;
        let bytes = lines.into_inner();
        if is_terminal {
            // JSON escapes some of the control characters.
            let text = String::from_utf8_lossy(&bytes);
            for line in text.lines() {
                writeln!(out, "{}", json_printable(line))?;
            }
        } else {
            out.write_all(&bytes)?;
        }
    }
    Ok(out.flush()?)
}

/// A line of JSON with its control characters escaped as JSON does it.
fn json_printable(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        match character.is_control() {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => shown.push(character),
        }
    }
    shown
}

fn write_parquet(
    out: Sink,
    schema: SchemaRef,
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
) -> anyhow::Result<()> {
    let mut batches = batches.peekable();
    let mut properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(Default::default()));
    if let Some(Ok(first)) = batches.peek() {
        properties = with_encodings(properties, &schema, first);
    }
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties.build()))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    let mut out = writer.into_inner()?;
    Ok(out.flush()?)
}

fn write_arrow(
    out: Sink,
    schema: &SchemaRef,
    batches: impl Iterator<Item = anyhow::Result<RecordBatch>>,
) -> anyhow::Result<()> {
    let mut writer = StreamWriter::try_new(out, schema)?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    let mut out = writer.into_inner()?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::{csv_field, json_printable};

    #[test]
    fn fields_have_quotes_where_they_need_some() {
        for (text, field) in [
            ("a b", "a b"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("a\nb", "\"a\nb\""),
        ] {
            assert_eq!(csv_field(text), field);
        }
    }

    #[test]
    fn json_has_no_control_characters() {
        assert_eq!(
            json_printable("{\"a\":\"\u{9b}1m\u{7f}\"}"),
            "{\"a\":\"\\u009b1m\\u007f\"}"
        );
    }
}
