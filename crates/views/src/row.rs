//! A frame as a row of a table: the part of a [`FrameView`](crate::FrameView) that a table shows, directly as text. A table of a
//! million frames does not need the registers of each.

use std::fmt::Write as _;

use tracewire_tracefile::{Block, Frame, SavedState};

use crate::frame::Viewer;
use crate::frame_place::FramePlace;
use crate::span;
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

/// Ends the line before, if there is one.
fn begin_line(lines: &mut String) {
    if !lines.is_empty() {
        lines.push('\n');
    }
}

impl<'a> Viewer<'a> {
    /// One frame for [`table::frames`](crate::table::frames).
    #[must_use]
    pub fn row(&self, frame: Frame<'a>) -> FrameRow {
        let saved = frame.saved_state();
        let here = self.frame_place(frame, &saved);
        let marker = here.as_ref().and_then(|here| here.marker());
        let words = here.as_ref().and_then(|here| here.words());
        let is_placed = marker.is_some() || words.is_some();
        let mut place = String::new();
        if let Some(marker) = marker {
            push_cell(&mut place, marker);
        }
        if let Some(words) = words {
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
        for part in self.frames_of(frame) {
            if part.number() == frame.number() {
                self.part_lines(part, &saved, here.as_deref(), &mut lines);
            } else {
                let saved = part.saved_state();
                let here = self.frame_place(part, &saved);
                self.part_lines(part, &saved, here.as_deref(), &mut lines);
            }
        }
        if let Some(span) = span {
            begin_line(&mut lines);
            lines.push_str(&span::end_words(span));
        }
        if lines.is_empty() {
            self.content_lines(frame, &mut lines);
        }
        FrameRow {
            process: self.process(),
            frame: self.number(frame.number()),
            tracepoint: frame.tracepoint().0,
            time_us: saved.timestamp(),
            thread: saved.thread().map(|thread| thread.0),
            cpu: saved.cpu(),
            is_placed,
            place,
            lines,
        }
    }

    /// The values and the callers that one frame has, without those of the frame that it makes a span with.
    fn part_lines(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
        here: Option<&FramePlace<'a>>,
        lines: &mut String,
    ) {
        let mut values = Vec::new();
        self.add_values(frame, saved, &|_| true, &mut values);
        for value in &values {
            begin_line(lines);
            push_cell(lines, &value.expression);
            lines.push_str(" = ");
            match value.error {
                Some(_) => push_warning(lines, value.shown.text()),
                None => push_cell(lines, value.shown.text()),
            }
        }
        let Some(stack) = here.and_then(|here| self.stack_at(frame, here)) else {
            return;
        };
        for (level, entry) in stack.entries.iter().enumerate().skip(1) {
            begin_line(lines);
            let _ = write!(lines, "#{level} {}", entry_words(entry, cell));
        }
        if let Some(reason) = end_words(stack.end) {
            begin_line(lines);
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
