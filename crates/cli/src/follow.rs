//! `show --follow` and `record --live`: frames as they come.

use std::collections::HashSet;
use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracewire_debuginfo::TypeRules;
use tracewire_model::ThreadId;
use tracewire_recorder::Aggregates;
use tracewire_tracefile::{
    Frame, GrowingFile, GrowingList, ListBatch, Module, Part, RunFolder, TraceFile,
};
use tracewire_views::{
    AggregateView, Condition, FrameRow, JsonWriter, Program, ProgramError, ProgramFiles, Viewer,
    table,
};

use crate::frame_output;

/// The interval of checks of the file while nothing comes.
const EVERY: Duration = Duration::from_millis(50);

/// The output form of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Rows of a table.
    Table,
    /// A JSON object a line.
    Json,
}

/// How frames are shown.
#[derive(Clone, Debug)]
pub struct Style {
    pub form: Form,
    pub rules: Arc<TypeRules>,
    /// The program and its libraries, if they are at other paths.
    pub elf: Vec<PathBuf>,
    /// Only frames of this tracepoint.
    pub tracepoint: Option<i32>,
}

impl Style {
    /// All frames, with the program at the path in the file.
    pub const fn new(form: Form, rules: Arc<TypeRules>) -> Self {
        Self {
            form,
            rules,
            elf: Vec::new(),
            tracepoint: None,
        }
    }

    fn files(&self) -> ProgramFiles {
        ProgramFiles {
            named: self.elf.clone(),
            ..ProgramFiles::default()
        }
    }
}

/// The source that is followed.
#[derive(Debug)]
pub enum Followed {
    /// The trace file of one process.
    File(Box<GrowingFile>),
    /// The parts of a run of several.
    Run(RunFolder),
}

/// Shows the frames for which a condition is true, spans when they have ended, and what each process has counted as returned by
/// `counted`, until the recorder has ended. Returns the number of lines. It only reads files, so that neither the recorder nor the program waits for the reader of the output.
pub fn follow(
    followed: Followed,
    style: &Style,
    condition: &Condition<'_>,
    mut counted: impl FnMut() -> Vec<Arc<Aggregates>>,
    output: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut shower = Shower {
        table: None,
        shown: 0,
        counted: Counted::new(style.form),
    };
    let counted = &mut counted;
    match followed {
        Followed::File(growing) => {
            let mut source = Source::new(*growing, None, style, style.files());
            loop {
                // Checked first: earlier output of the recorder is then in the file.
                let is_written = source.growing.is_written()?;
                while let Some(frames) = source.next(style, condition)? {
                    shower.show(frames, output)?;
                }
                if !is_written {
                    shower.show(source.rest(style, condition)?, output)?;
                    return shower.end(counted(), output);
                }
                shower.show_counted(counted(), output)?;
                std::thread::sleep(EVERY);
            }
        }
        Followed::Run(run) => follow_run(&run, style, condition, shower, counted, output),
    }
}

/// Shows the frames of all parts, as far as their order of time is certain.
fn follow_run(
    run: &RunFolder,
    style: &Style,
    condition: &Condition<'_>,
    mut shower: Shower,
    counted: &mut impl FnMut() -> Vec<Arc<Aggregates>>,
    output: &mut impl Write,
) -> anyhow::Result<u64> {
    let files = style.files();
    let mut sources: Vec<Source> = Vec::new();
    let mut known: HashSet<PathBuf> = HashSet::new();
    loop {
        let is_written = run.is_written()?;
        let mut frames = Shown::of(style.form);
        for part in run.parts()? {
            let name = part.path.with_extension("");
            let name = match part.path.extension() {
                Some(growing) if growing != "tf" => name,
                _ => part.path.clone(),
            };
            if !known.insert(name.clone()) {
                continue;
            }
            match GrowingFile::open(&name)? {
                Some(growing) => {
                    sources.push(Source::new(growing, Some(&part), style, files.clone()));
                }
                None => frames.add(finished(&part, &name, style, condition, &files)?),
            }
        }
        let mut over = Vec::new();
        for (index, source) in sources.iter_mut().enumerate() {
            let is_written = source.growing.is_written()?;
            while let Some(more) = source.next(style, condition)? {
                frames.add(more);
            }
            if !is_written {
                frames.add(source.rest(style, condition)?);
                over.push(index);
            }
        }
        for index in over.into_iter().rev() {
            sources.swap_remove(index);
        }
        frames.sort();
        shower.show(frames, output)?;
        if !is_written {
            return shower.end(counted(), output);
        }
        shower.show_counted(counted(), output)?;
        std::thread::sleep(EVERY);
    }
}

/// The frames of a part that had already ended.
fn finished(
    part: &Part,
    path: &std::path::Path,
    style: &Style,
    condition: &Condition<'_>,
    files: &ProgramFiles,
) -> anyhow::Result<Shown> {
    if !path.exists() {
        // It had no frames.
        return Ok(Shown::of(style.form));
    }
    let file = TraceFile::open(path)?;
    let mut program = Program::with_files(&file, files.clone())?;
    program.set_type_rules(&style.rules);
    let viewer = Viewer::new(&file, &program).with_process(Some(part.process));
    Shown::from(&viewer, file.frames(), style, condition)
}

/// A trace file that a recorder writes, with its program.
#[derive(Debug)]
struct Source {
    growing: GrowingList,
    process: Option<ThreadId>,
    files: ProgramFiles,
    rules: Arc<TypeRules>,
    /// The modules that the program's symbols were read from.
    modules: Vec<Module>,
    program: Program,
}

impl Source {
    fn new(growing: GrowingFile, part: Option<&Part>, style: &Style, files: ProgramFiles) -> Self {
        Self {
            growing: GrowingList::new(growing),
            process: part.map(|part| part.process),
            files,
            rules: Arc::clone(&style.rules),
            modules: Vec::new(),
            program: Program::default(),
        }
    }

    /// What has come since the last time.
    fn next(&mut self, style: &Style, condition: &Condition<'_>) -> anyhow::Result<Option<Shown>> {
        let batch = self.growing.batch()?;
        let shown = batch.map(|batch| self.shown(&batch, style, condition));
        shown.transpose()
    }

    /// The spans that have not ended, when the recorder has.
    fn rest(&mut self, style: &Style, condition: &Condition<'_>) -> anyhow::Result<Shown> {
        match self.growing.finish()? {
            Some(batch) => self.shown(&batch, style, condition),
            None => Ok(Shown::of(style.form)),
        }
    }

    fn shown(
        &mut self,
        batch: &ListBatch,
        style: &Style,
        condition: &Condition<'_>,
    ) -> anyhow::Result<Shown> {
        self.read_program(&batch.file)?;
        let viewer = Viewer::new(&batch.file, &self.program)
            .with_numbers(&batch.numbers)
            .with_process(self.process);
        let listed = batch.listed.iter();
        let frames = listed.filter_map(|number| batch.file.frame(*number));
        Shown::from(&viewer, frames, style, condition)
    }

    /// Reads the program's symbols, at the beginning and when its modules have changed.
    fn read_program(&mut self, file: &TraceFile) -> Result<(), ProgramError> {
        let modules = file.description().modules();
        if self.modules == modules && !modules.is_empty() {
            return Ok(());
        }
        self.program = Program::with_files(file, self.files.clone())?;
        self.program.set_type_rules(&self.rules);
        self.modules = modules.to_vec();
        Ok(())
    }
}

/// Frames that are to be shown next.
#[derive(Debug)]
enum Shown {
    /// With the origin of times.
    Rows(Option<u64>, Vec<FrameRow>),
    Json(Vec<JsonLine>),
}

/// A frame as a line of JSON.
#[derive(Debug)]
struct JsonLine {
    /// In microseconds, and in nanoseconds where the frame has them.
    time: (Option<u64>, Option<u64>),
    text: Vec<u8>,
}

impl JsonLine {
    fn of<'a>(writer: &mut JsonWriter<'_, 'a>, frame: Frame<'a>) -> Self {
        Self {
            time: (frame.timestamp(), frame.nanoseconds()),
            text: frame_output::json_line(writer, frame),
        }
    }
}

impl Shown {
    const fn of(form: Form) -> Self {
        match form {
            Form::Table => Self::Rows(None, Vec::new()),
            Form::Json => Self::Json(Vec::new()),
        }
    }

    fn from<'a>(
        viewer: &Viewer<'a>,
        frames: impl Iterator<Item = Frame<'a>>,
        style: &Style,
        condition: &Condition<'_>,
    ) -> anyhow::Result<Self> {
        let mut shown = Self::of(style.form);
        if let Self::Rows(origin, _) = &mut shown {
            *origin = frame_output::origin(viewer.file());
        }
        let mut writer = JsonWriter::new(viewer);
        let is_wanted = |frame: &Frame<'_>| {
            let wanted = style.tracepoint;
            wanted.is_none_or(|wanted| frame.tracepoint().0 == wanted)
        };
        for frame in frames.filter(is_wanted) {
            if !condition.fits(viewer, frame)? {
                continue;
            }
            match &mut shown {
                Self::Rows(_, rows) => rows.push(viewer.row(frame)),
                Self::Json(lines) => lines.push(JsonLine::of(&mut writer, frame)),
            }
        }
        Ok(shown)
    }

    const fn is_empty(&self) -> bool {
        match self {
            Self::Rows(_, rows) => rows.is_empty(),
            Self::Json(lines) => lines.is_empty(),
        }
    }

    fn add(&mut self, more: Self) {
        match (self, more) {
            (Self::Rows(origin, rows), Self::Rows(other, more)) => {
                *origin = match (*origin, other) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
                rows.extend(more);
            }
            (Self::Json(lines), Self::Json(more)) => lines.extend(more),
            (Self::Rows(..), Self::Json(_)) | (Self::Json(_), Self::Rows(..)) => {
                debug_assert!(false, "all are in one form");
            }
        }
    }

    /// Puts frames of several processes into the order of their times.
    fn sort(&mut self) {
        match self {
            Self::Rows(_, rows) => rows.sort_by_key(FrameRow::time_us),
            Self::Json(lines) => lines.sort_by_key(|line| line.time),
        }
    }
}

/// Writes frames and tables of counts.
#[derive(Debug)]
struct Shower {
    table: Option<table::FrameTable>,
    shown: u64,
    counted: Counted,
}

impl Shower {
    fn show(&mut self, frames: Shown, output: &mut impl Write) -> anyhow::Result<()> {
        if !frames.is_empty() {
            self.counted.clear(output)?;
        }
        match frames {
            Shown::Json(lines) => {
                self.shown += lines.len() as u64;
                for line in &lines {
                    output.write_all(&line.text)?;
                }
            }
            Shown::Rows(origin, rows) => {
                self.shown += rows.len() as u64;
                if !rows.is_empty() {
                    let new = || table::FrameTable::new(origin);
                    let table = self.table.get_or_insert_with(new);
                    output.write_all(table.rows(&rows).as_bytes())?;
                }
            }
        }
        output.flush()?;
        Ok(())
    }

    fn show_counted(
        &mut self,
        counted: Vec<Arc<Aggregates>>,
        output: &mut impl Write,
    ) -> anyhow::Result<()> {
        let mut tables = counted.iter().flat_map(|process| process.iter());
        if self.counted.is_shown(&counted) || tables.all(|(_, _, table)| table.is_empty()) {
            return Ok(());
        }
        self.counted.show(counted, output)
    }

    /// The recorder has ended: shows the numbers of the whole run. Returns the number of frames.
    fn end(
        mut self,
        counted: Vec<Arc<Aggregates>>,
        output: &mut impl Write,
    ) -> anyhow::Result<u64> {
        if !self.counted.is_shown(&counted) {
            self.counted.show(counted, output)?;
        }
        Ok(self.shown)
    }
}

/// The tables of counts, which replace the previous ones on a terminal, and else follow them.
#[derive(Debug)]
struct Counted {
    form: Form,
    is_terminal: bool,
    /// The aggregates that were shown last, by process.
    shown: Vec<Arc<Aggregates>>,
    /// How many lines of it are the last ones on the terminal.
    lines: usize,
    is_first: bool,
}

impl Counted {
    fn new(form: Form) -> Self {
        Self {
            form,
            is_terminal: form == Form::Table && std::io::stdout().is_terminal(),
            shown: Vec::new(),
            lines: 0,
            is_first: true,
        }
    }

    fn is_shown(&self, counted: &[Arc<Aggregates>]) -> bool {
        self.shown.len() == counted.len()
            && (self.shown.iter().zip(counted)).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Removes the last tables from the terminal, before other output.
    fn clear(&mut self, output: &mut impl Write) -> anyhow::Result<()> {
        if self.lines > 0 {
            // To the first line of them, and clear to the end of the screen.
            write!(output, "\x1b[{}F\x1b[J", self.lines)?;
            self.lines = 0;
            self.shown.clear();
        }
        Ok(())
    }

    fn show(
        &mut self,
        counted: Vec<Arc<Aggregates>>,
        output: &mut impl Write,
    ) -> anyhow::Result<()> {
        self.clear(output)?;
        let all = counted.iter().flat_map(|process| process.iter().cloned());
        let views = AggregateView::of_tables(all);
        let mut text = Vec::new();
        frame_output::write_aggregates(&mut text, &views, self.form == Form::Json)?;
        self.shown = counted;
        if text.is_empty() {
            return Ok(());
        }
        if self.form == Form::Table && !self.is_terminal && !self.is_first {
            output.write_all(b"\n")?;
        }
        self.is_first = false;
        output.write_all(&text)?;
        output.flush()?;
        if self.is_terminal {
            self.lines = text.split(|byte| *byte == b'\n').count() - 1;
        }
        Ok(())
    }
}
