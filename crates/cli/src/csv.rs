//! `convert` to CSV: a line for each frame of a list. A span has one.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anyhow::anyhow;
use tracewire_convert::csv::{Column, Table};
use tracewire_model::{FrameNumber, ThreadId};
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Program, Viewer, by_time};

use crate::export::Programs;
use crate::in_order;
use crate::progress::Progress;

/// How many bytes of lines are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// Writes the frames of a file, or of all processes of a run by their times. A value that a frame does not have is an empty cell, which a
/// table treats as missing.
pub fn write(
    files: &[(Option<ThreadId>, &TraceFile)],
    columns: &[Column],
    programs: &mut Programs<'_>,
    progress: impl FnOnce() -> Progress,
    sink: &mut impl Write,
) -> anyhow::Result<()> {
    let asked = !columns.is_empty();
    let needs_programs = |(_, file): &(_, &TraceFile)| {
        let mut columns = columns.iter();
        !asked || columns.any(|column| is_evaluated(column, file))
    };
    let mut opened: Vec<Program> = Vec::with_capacity(files.len());
    if files.iter().any(needs_programs) {
        for (_, file) in files {
            opened.push(programs.of(file)?);
        }
    } else {
        opened.resize_with(files.len(), Program::default);
    }
    let mut programs = opened;
    let columns = match asked {
        true => {
            check_expressions(columns, &viewers_of(files, &programs))?;
            columns.to_vec()
        }
        false => standard_columns(files, &viewers_of(files, &programs)),
    };
    let columns = &columns[..];
    let progress = progress();
    let tables: Vec<Table<'_>> = files
        .iter()
        .map(|(process, file)| Table::new(file, columns).with_process(*process))
        .collect();
    let mut titles = String::new();
    if let Some(table) = tables.first() {
        table.titles(&mut titles);
    }
    sink.write_all(titles.as_bytes())?;
    let evaluated = |column: &&Column| files.iter().any(|(_, file)| is_evaluated(column, file));
    let lines = Lines {
        columns,
        evaluated: columns
            .iter()
            .filter(evaluated)
            .map(Column::title)
            .collect(),
        outcome: Mutex::new(Outcome::new(columns)),
    };
    if let ([(_, file)], [table]) = (files, &tables[..]) {
        let program = programs.pop().unwrap_or_default();
        let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
            let frames = (numbers.iter()).filter_map(|number| viewer.file().frame(*number));
            let mut text = String::new();
            let mut outcome = Outcome::new(columns);
            for frame in frames {
                lines.add(table, viewer, frame, &mut outcome, &mut text);
            }
            lines.note(outcome);
            Ok(text.into_bytes())
        };
        in_order::render(file, program, file.frames(), &render, |text| {
            Ok(sink.write_all(text)?)
        })?;
    } else {
        let mut text = String::new();
        let mut outcome = Outcome::new(columns);
        let viewers = viewers_of(files, &programs);
        for (viewer, frame) in by_time(&viewers) {
            let mut known = tables.iter().zip(&viewers);
            if let Some((table, _)) = known.find(|(_, known)| std::ptr::eq(*known, viewer)) {
                lines.add(table, viewer, frame, &mut outcome, &mut text);
            }
            if text.len() > WRITTEN_AT_ONCE {
                sink.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        sink.write_all(text.as_bytes())?;
        lines.note(outcome);
    }
    drop(progress);
    if asked && files.iter().any(|(_, file)| file.frame_count() > 0) {
        lines.report_empty(files);
    }
    Ok(())
}

fn viewers_of<'a>(
    files: &[(Option<ThreadId>, &'a TraceFile)],
    programs: &'a [Program],
) -> Vec<Viewer<'a>> {
    let viewers = files.iter().zip(programs);
    viewers
        .map(|((process, file), program)| Viewer::new(file, program).with_process(*process))
        .collect()
}

/// Checks that expressions are valid in one of the files.
fn check_expressions(columns: &[Column], viewers: &[Viewer<'_>]) -> anyhow::Result<()> {
    for column in columns {
        let Column::Expression(text) = column else {
            continue;
        };
        let mut results = viewers.iter().map(|viewer| viewer.check_expression(text));
        let first = results.next().unwrap_or(Ok(()));
        if let Err(error) = first
            && !results.any(|result| result.is_ok())
        {
            return Err(anyhow!("--column: {error}\n{}", error.underlined()));
        }
    }
    Ok(())
}

/// The columns of a table for which none were asked: what frames have, and all values.
fn standard_columns(
    files: &[(Option<ThreadId>, &TraceFile)],
    viewers: &[Viewer<'_>],
) -> Vec<Column> {
    let of_run = files.iter().any(|(process, _)| process.is_some());
    let mut columns: Vec<Column> = of_run.then_some(Column::Process).into_iter().collect();
    let mut add = |column: Column| {
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    for (_, file) in files {
        Column::standard(file).into_iter().for_each(&mut add);
    }
    for name in viewers.iter().flat_map(Viewer::value_names) {
        add(match name.parse() {
            Ok(column @ (Column::Expression(_) | Column::Named(_))) => column,
            // A variable may have the name of a column.
            _ => Column::Expression(format!("({name})")),
        });
    }
    columns
}

/// Whether a column is an expression, and not something that frames have by its name.
fn is_evaluated(column: &Column, file: &TraceFile) -> bool {
    match column {
        Column::Expression(_) => true,
        Column::Named(_) => !column.is_in(file),
        _ => false,
    }
}

/// What was seen of the columns.
struct Outcome {
    /// Which of them have a value.
    has_value: Vec<bool>,
    /// Why an expression had none, at the first frame without it.
    reasons: HashMap<String, String>,
}

impl Outcome {
    fn new(columns: &[Column]) -> Self {
        Self {
            has_value: vec![false; columns.len()],
            reasons: HashMap::new(),
        }
    }
}

/// The lines of a table.
struct Lines<'c> {
    columns: &'c [Column],
    /// The titles of the columns that are expressions.
    evaluated: HashSet<String>,
    outcome: Mutex<Outcome>,
}

impl Lines<'_> {
    /// Appends the line of a frame, if a list has it.
    fn add<'a>(
        &self,
        table: &Table<'_>,
        viewer: &Viewer<'a>,
        frame: Frame<'a>,
        outcome: &mut Outcome,
        text: &mut String,
    ) {
        if !viewer.is_listed(frame) {
            return;
        }
        let values = match self.evaluated.is_empty() {
            true => Vec::new(),
            false => {
                let is_wanted = |name: &str| self.evaluated.contains(name);
                viewer.shared_values(frame, &frame.saved_state(), is_wanted)
            }
        };
        let reasons = &mut outcome.reasons;
        let evaluate = |name: &str| {
            let result = match values.iter().find(|value| *value.expression == *name) {
                Some(value) => match &value.error {
                    None => return Some(value.shown.text().to_owned()).filter(is_available),
                    Some(error) => Err(error.clone()),
                },
                // A convenience variable that is not known is `void` in GDB.
                None if self.is_unknown(name) => Ok(None),
                None => viewer.print(frame, name).map_err(|error| error.to_string()),
            };
            result.unwrap_or_else(|error| {
                reasons.entry(name.to_owned()).or_insert(error);
                None
            })
        };
        table.row(&frame, evaluate, &mut outcome.has_value, text);
    }

    /// Whether this is a name after `$`, and not one that spans have.
    fn is_unknown(&self, name: &str) -> bool {
        let mut columns = self.columns.iter();
        !["$retval", "$duration"].contains(&name)
            && columns.any(|column| matches!(column, Column::Named(_)) && column.title() == name)
    }

    /// Adds what was seen of some frames.
    fn note(&self, outcome: Outcome) {
        let mut all = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, here) in all.has_value.iter_mut().zip(outcome.has_value) {
            *all |= here;
        }
        for (name, reason) in outcome.reasons {
            all.reasons.entry(name).or_insert(reason);
        }
    }

    /// Reports the columns without a value in any frame.
    fn report_empty(&self, files: &[(Option<ThreadId>, &TraceFile)]) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        for (column, _) in
            (self.columns.iter().zip(&outcome.has_value)).filter(|(_, has_value)| !**has_value)
        {
            let title = column.title();
            let is_known = files.iter().any(|(_, file)| column.is_in(file));
            let reason = match outcome.reasons.get(&title) {
                Some(error) if is_known => error,
                _ if is_known => "no frame holds it",
                _ => "the file has no variable, no register and no value of this name",
            };
            message!("tracewire: --column {title} could be worked out for no frame: {reason}");
        }
    }
}

fn is_available(value: &String) -> bool {
    value != "<unavailable>"
}
