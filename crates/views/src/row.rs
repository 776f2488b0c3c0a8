//! A frame as a row of a table: the part of a [`FrameView`](crate::FrameView) that a table shows, directly as text. A table of a
//! million frames does not need the registers of each.

use std::fmt::Write as _;

use tracewire_debuginfo::TypeId;
use tracewire_expr::{State as _, type_name};
use tracewire_tracefile::{Block, Frame};

use crate::frame::{Viewer, reason};
use crate::place_cache::CachedPlace;
use crate::span;
use crate::state::FrameState;
use crate::table::{cell, end_words, entry_words, is_builtin, push_cell, push_warning};
use crate::words::{bytes, count};

/// One frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameRow {
    /// In a run of several processes.
    pub(crate) process: Option<u32>,
    pub(crate) frame: u64,
    pub(crate) tracepoint: i32,
    pub(crate) time_us: Option<u64>,
    pub(crate) thread: Option<u32>,
    pub(crate) cpu: Option<u32>,
    /// Whether the program has a source place for the frame, and not only an address.
    pub(crate) is_placed: bool,
    pub(crate) place: String,
    /// The frame's data, one line each: the values, or the contents of the frame if no symbols are known.
    pub(crate) lines: String,
}

impl FrameRow {
    /// When the frame was made, in microseconds.
    #[must_use]
    pub const fn time_us(&self) -> Option<u64> {
        self.time_us
    }
}

/// How deep a span is indented, at most.
const DEEPEST_SHOWN: usize = 16;

fn push_line(lines: &mut String, line: &str) {
    if !lines.is_empty() && !line.is_empty() {
        lines.push('\n');
    }
    lines.push_str(line);
}

impl<'a> Viewer<'a> {
    /// One frame for [`table::frames`](crate::table::frames).
    #[must_use]
    pub fn row(&self, frame: Frame<'a>) -> FrameRow {
        let state = FrameState::new(self.file(), frame);
        let here = state.map(|state| self.source_place(frame, state.pc()));
        let here = here.as_deref();
        let marker = self.marker(frame);
        let is_placed = marker.is_some() || here.is_some_and(|here| here.words().is_some());
        let mut place = String::new();
        if let Some(marker) = &marker {
            push_cell(&mut place, marker);
        }
        if let Some(words) = here.and_then(CachedPlace::words) {
            if !place.is_empty() {
                place.push(' ');
            }
            place.push_str(words);
        }
        if place.is_empty() {
            match frame.program_counter() {
                Some(pc) => drop(write!(place, "{pc}")),
                None => place.push('?'),
            }
        }
        if frame.is_step() == Some(true) {
            place.push_str(" (step)");
        }
        let span = self.span(frame);
        if let Some(span) = span {
            let depth = usize::try_from(span.depth).unwrap_or(usize::MAX);
            place.insert_str(0, &"  ".repeat(depth.min(DEEPEST_SHOWN)));
        }
        let mut lines = String::new();
        for frame in self.frames_of(frame) {
            let state = FrameState::new(self.file(), frame);
            let here = state
                .as_ref()
                .map(|state| self.cached_place(frame, state.pc()));
            let mut own = String::new();
            self.value_lines(frame, state.as_ref(), here.as_deref(), &mut own);
            self.stack_lines(frame, &mut own);
            push_line(&mut lines, &own);
        }
        if let Some(span) = span {
            push_line(&mut lines, &span::end_words(span));
        }
        if lines.is_empty() {
            self.content_lines(frame, &mut lines);
        }
        FrameRow {
            process: self.process(),
            frame: self.number(&frame),
            tracepoint: frame.tracepoint().0,
            time_us: frame.timestamp(),
            thread: frame.thread().map(|thread| thread.0),
            cpu: frame.cpu(),
            is_placed,
            place,
            lines,
        }
    }

    /// Every collected expression and its value, each once.
    fn value_lines(
        &self,
        frame: Frame<'a>,
        state: Option<&FrameState<'a>>,
        here: Option<&CachedPlace<'a>>,
        lines: &mut String,
    ) {
        let (Some(state), Some(here)) = (state, here) else {
            return;
        };
        let symbols = self.symbols(frame);
        // Where each line is, and of what type its value is.
        let mut known: Vec<(usize, usize, Option<TypeId>)> = Vec::new();
        let mut line = String::new();
        for item in self.items(frame, state) {
            for named in self.expand(frame, here, item, state, &|_| true) {
                line.clear();
                push_cell(&mut line, &named.name);
                line.push_str(" = ");
                let type_id = match &named.value {
                    Ok(value) => {
                        push_cell(&mut line, &self.text(value, here, state));
                        Some(value.type_id())
                    }
                    Err(error) => {
                        push_warning(&mut line, &reason(error));
                        None
                    }
                };
                let is_known = known.iter().any(|(start, end, of)| {
                    let same_type = *of == type_id
                        || of.zip(type_id).is_some_and(|(one, other)| {
                            type_name(symbols, one) == type_name(symbols, other)
                        });
                    lines.get(*start..*end) == Some(&line) && same_type
                });
                if is_known {
                    continue;
                }
                if !known.is_empty() {
                    lines.push('\n');
                }
                let start = lines.len();
                lines.push_str(&line);
                known.push((start, lines.len(), type_id));
            }
        }
    }

    /// The callers, if the frame has its stack.
    fn stack_lines(&self, frame: Frame<'a>, lines: &mut String) {
        let Some(stack) = self.stack(frame) else {
            return;
        };
        for (level, entry) in stack.entries.iter().enumerate().skip(1) {
            if !lines.is_empty() {
                lines.push('\n');
            }
            let _ = write!(lines, "#{level} {}", entry_words(entry, cell));
        }
        if let Some(reason) = end_words(stack.end) {
            if !lines.is_empty() {
                lines.push('\n');
            }
            push_warning(lines, reason);
        }
    }

    /// The contents of a frame without values.
    fn content_lines(&self, frame: Frame<'a>, lines: &mut String) {
        let registers = frame
            .registers()
            .filter(|(_, bytes)| bytes.is_some())
            .count();
        let mut words = Vec::new();
        if registers > 0 {
            words.push(count(registers as u64, "register"));
        }
        let mut memory = None;
        let mut data: Option<Vec<u8>> = None;
        let mut unknown = None;
        for block in frame.blocks() {
            match block {
                Block::Memory { bytes, .. } => *memory.get_or_insert(0) += bytes.len() as u64,
                Block::StaticData(bytes) => data.get_or_insert_default().extend_from_slice(bytes),
                Block::Unknown(bytes) => unknown = Some(bytes.len() as u64),
                Block::Registers(_) | Block::Variable { .. } => {}
            }
        }
        if let Some(total) = memory {
            words.push(format!("{} of memory", bytes(total)));
        }
        let mut all = Vec::new();
        if !words.is_empty() {
            all.push(words.join(", "));
        }
        for (name, value) in self.variables(frame).0 {
            if !is_builtin(&name) {
                let mut line = "$".to_owned();
                push_cell(&mut line, &name);
                let _ = write!(line, " = {value}");
                all.push(line);
            }
        }
        if let Some(data) = data {
            let mut line = "$_sdata = ".to_owned();
            push_cell(&mut line, &crate::table::text_or_digits(&data));
            all.push(line);
        }
        if let Some(unknown) = unknown {
            all.push(format!("{} not understood", bytes(unknown)));
        }
        lines.push_str(&all.join("\n"));
    }
}
