//! `show --follow` and `record --live`: frames as they come.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tracewire_debuginfo::TypeRules;
use tracewire_tracefile::{Batch, GrowingFile, Module, TraceFile};
use tracewire_views::{Program, ProgramError, Viewer, table};

use crate::look;

/// How often the file is looked at while nothing comes.
const EVERY: Duration = Duration::from_millis(50);

/// Shows the frames of a file that a recorder writes. It reads the file alone, so that neither the recorder nor the program waits
/// for who reads what is shown.
#[derive(Debug)]
pub struct Follower {
    growing: GrowingFile,
    elf: Vec<PathBuf>,
    rules: Arc<TypeRules>,
    /// Only frames of this tracepoint.
    tracepoint: Option<i32>,
    form: Form,
    /// The modules that the program's symbols were read from.
    modules: Vec<Module>,
    program: Program,
    table: Option<table::FrameTable>,
}

/// What frames are shown as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Rows of a table.
    Table,
    /// A JSON object a line.
    Json,
}

impl Follower {
    pub fn new(growing: GrowingFile, form: Form, rules: Arc<TypeRules>) -> Self {
        Self {
            growing,
            elf: Vec::new(),
            rules,
            tracepoint: None,
            form,
            modules: Vec::new(),
            program: Program::default(),
            table: None,
        }
    }

    /// Names the program and its libraries.
    pub fn elf(mut self, elf: &[PathBuf]) -> Self {
        self.elf = elf.to_vec();
        self
    }

    /// Shows frames of one tracepoint alone.
    pub fn tracepoint(mut self, number: Option<i32>) -> Self {
        self.tracepoint = number;
        self
    }

    /// Shows frames until the recorder has ended, and gives how many there were.
    pub fn run(mut self, output: &mut impl Write) -> anyhow::Result<u64> {
        let mut shown = 0;
        loop {
            // Asked first: what came before the recorder ended is then in the file.
            let is_written = self.growing.is_written()?;
            while let Some(batch) = self.growing.batch()? {
                shown += self.show(&batch, output)?;
                output.flush()?;
            }
            if !is_written {
                return Ok(shown);
            }
            std::thread::sleep(EVERY);
        }
    }

    fn show(&mut self, batch: &Batch, output: &mut impl Write) -> anyhow::Result<u64> {
        self.read_program(&batch.file)?;
        let viewer = Viewer::new(&batch.file, &self.program).with_first(batch.first);
        let wanted = self.tracepoint;
        let frames = batch
            .file
            .frames()
            .filter(|frame| wanted.is_none_or(|wanted| frame.tracepoint().0 == wanted));
        let mut shown = 0;
        match self.form {
            Form::Json => {
                for frame in frames {
                    look::write_json(output, &viewer.view(frame))?;
                    shown += 1;
                }
            }
            Form::Table => {
                let rows: Vec<_> = frames.map(|frame| viewer.row(frame)).collect();
                if !rows.is_empty() {
                    let table = self
                        .table
                        .get_or_insert_with(|| table::FrameTable::new(look::origin(&batch.file)));
                    output.write_all(table.rows(&rows).as_bytes())?;
                }
                shown = rows.len() as u64;
            }
        }
        Ok(shown)
    }

    /// Reads the program's symbols, at the beginning and when its modules have changed.
    fn read_program(&mut self, file: &TraceFile) -> Result<(), ProgramError> {
        let modules = file.description().modules();
        if self.modules == modules && !modules.is_empty() {
            return Ok(());
        }
        self.program = Program::of(file, &self.elf)?;
        self.program.set_type_rules(&self.rules);
        self.modules = modules.to_vec();
        Ok(())
    }
}
