//! The text again, and the compact form.

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tracewire_tracefile::private;

use super::{ReadError, Recording};
use crate::index::Table;
use crate::record::Line;
use crate::text::{LineError, Piece, Sink, UnparsedLine, read};

/// Why text or a compact form was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was to be written cannot be.
    #[error("cannot write the text of a trace")]
    Text(#[source] io::Error),
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Recording {
    pub(super) fn block_count(&self) -> usize {
        self.store().rows(Table::Blocks)
    }

    /// The text of a block's groups.
    fn block_text(&self, number: usize) -> Result<Vec<u8>, ReadError> {
        self.ask(|store| {
            let at = store.read_block(number)?;
            let mut text = Vec::new();
            store.text(&at, 0..at.row.groups, &mut text)?;
            Ok(text)
        })
    }

    /// Whether a block begins inside a line: only segments of a line that is longer than they are do.
    fn begins_in_line(&self, number: usize) -> Result<bool, ReadError> {
        let Some(before) = number.checked_sub(1) else {
            return Ok(false);
        };
        let segment = |number| self.ask(|store| Ok(store.block_row(number)?.segment));
        if segment(number)? == segment(before)? {
            return Ok(false);
        }
        Ok(!self.block_text(before)?.ends_with(b"\n"))
    }

    /// Writes the trace's text, byte for byte as it was.
    ///
    /// # Errors
    ///
    /// When the recording cannot be read, or the text not written.
    pub fn write_text(&self, out: &mut dyn Write) -> Result<(), WriteError> {
        for number in 0..self.block_count() {
            out.write_all(&self.block_text(number)?)
                .map_err(WriteError::Text)?;
        }
        Ok(())
    }

    /// Writes the compact form to a file, which replaces the text: everything is in it. A file that is there is
    /// replaced once the new one is whole.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn save_compact(&self, path: &Path) -> Result<(), WriteError> {
        let failed = |source| WriteError::File {
            path: path.to_owned(),
            source,
        };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let make = || {
            private::options()
                .write(true)
                .create_new(true)
                .open(&temporary)
        };
        let made = make().or_else(|error| {
            // What an earlier process of this number left.
            if error.kind() == io::ErrorKind::AlreadyExists {
                fs::remove_file(&temporary)?;
                return make();
            }
            Err(error)
        });
        let mut file = made.map_err(failed)?;
        let written = file
            .write_all(self.store().bytes())
            .and_then(|()| fs::rename(&temporary, path));
        written.map_err(|error| {
            // Nothing more can be done about it.
            drop(fs::remove_file(&temporary));
            failed(error)
        })
    }

    /// Visits every line that could not be read, in order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn unparsed_lines(
        &self,
        visit: &mut dyn FnMut(&UnparsedLine, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        struct Unparsed<'a> {
            visit: &'a mut dyn FnMut(&UnparsedLine, &[u8]) -> ControlFlow<()>,
            flow: ControlFlow<()>,
        }
        impl Sink for Unparsed<'_> {
            fn unparsed(&mut self, line: Line, text: &[u8], error: LineError) {
                if self.flow.is_continue() {
                    self.flow = (self.visit)(&UnparsedLine { line, error }, text);
                }
            }
        }
        let mut sink = Unparsed {
            visit,
            flow: ControlFlow::Continue(()),
        };
        for number in 0..self.block_count() {
            let row = self.ask(|store| store.block_row(number))?;
            if row.unparsed == 0 {
                continue;
            }
            let mut text = self.block_text(number)?;
            if self.begins_in_line(number)? {
                let rest = memchr::memchr(b'\n', &text).map_or(text.len(), |at| at + 1);
                text.drain(..rest);
            }
            let mut piece = Piece::whole(&text);
            piece.first_line = row.lines + 1;
            read(self.format, &text, &piece, &mut sink);
            if sink.flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}
