//! Trace files of some of another's frames: cutting and splitting.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::{Range, RangeInclusive};

use tracewire_model::{FrameNumber, Status, ThreadId, TracepointNumber};
use tracewire_tracefile::{HEADER, SealingWriter, TraceFile};

use crate::error::ConvertError;
use crate::time::stamped_times;

/// How many parts a file is split into at most.
const MAX_PARTS: usize = 10_000;

/// Writes a trace file of these frames, in the given order. The frames are copied byte for byte, and so is the description, except
/// for the counts in the `status` line: frames become the written ones, and the buffer space of the others is free. The number of
/// created frames is unchanged, as a fact of the run. Returns the number of written frames.
///
/// # Errors
/// When the sink refuses.
pub fn write(
    file: &TraceFile,
    frames: impl Iterator<Item = FrameNumber> + Clone,
    out: &mut impl Write,
) -> Result<u64, ConvertError> {
    let wanted = || frames.clone().filter_map(|number| file.frame(number));
    let (count, size) = wanted().fold((0, 0), |(count, size), frame| {
        (count + 1, size + frame.bytes().len() as u64)
    });
    let mut out = SealingWriter::new(out);
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(ConvertError::Write);
    put(HEADER)?;
    let removed = frames_size(file).saturating_sub(size);
    for line in file.description().lines() {
        match line
            .text
            .strip_prefix(b"status ")
            .and_then(|text| Status::parse_line(text).ok())
        {
            Some(mut status) => {
                let fields = &mut status.fields;
                fields.frames = Some(count);
                fields.sealed = true;
                if let (Some(free), Some(whole)) = (fields.buffer_free, fields.buffer_size) {
                    fields.buffer_free = Some(free.saturating_add(removed).min(whole));
                }
                put(format!("status {status}").as_bytes())?;
            }
            None => put(line.text)?,
        }
        put(b"\n")?;
    }
    put(b"\n")?;
    for frame in wanted() {
        put(frame.bytes())?;
    }
    out.finish()?;
    Ok(count)
}

/// The size of all frames of a file, from the start of the first to the end of the last.
pub(crate) fn frames_size(file: &TraceFile) -> u64 {
    let ends = || {
        let first = file.frame(FrameNumber(0))?;
        let last = file.frame(FrameNumber(file.frame_count().checked_sub(1)?))?;
        (last.offset() + last.bytes().len() as u64).checked_sub(first.offset())
    };
    ends().unwrap_or(0)
}

/// The frames of a range of numbers that are there.
pub fn frames_in(file: &TraceFile, range: Range<u64>) -> impl Iterator<Item = FrameNumber> + Clone {
    (range.start..range.end.min(file.frame_count())).map(FrameNumber)
}

/// The frames made from the first to the last microsecond of a range. A frame without a time counts with that of the last frame
/// before it with one; frames before all times are left out.
#[must_use]
pub fn frames_at(file: &TraceFile, range: RangeInclusive<u64>) -> Vec<FrameNumber> {
    file.frames()
        .zip(stamped_times(file))
        .filter(|(_, time)| time.is_some_and(|time| range.contains(&time)))
        .map(|(frame, _)| frame.number())
        .collect()
}

/// The criterion of a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitBy {
    /// A part for each tracepoint.
    Tracepoint,
    /// A part for each thread. A frame without a thread (as most steps of `while-stepping`) goes with the last frame before it;
    /// those before all threads go to a separate part.
    Thread,
    /// Parts of so many frames each, the last one perhaps of fewer.
    Count(u64),
}

/// One part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its part of a file name: `tracepoint-2`, `thread-1234`, `thread-unknown`, `0`, `1`, …
    pub name: String,
    /// Its frames, in the file's order.
    pub frames: Vec<FrameNumber>,
}

/// Which frames go into which part; each of them is then written with [`write()`].
///
/// # Errors
/// When parts should have no frames, or there would be more than 10,000 of them.
pub fn split(file: &TraceFile, by: SplitBy) -> Result<Vec<Part>, ConvertError> {
    /// In this order the parts come.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Key {
        Tracepoint(TracepointNumber),
        Thread(Option<ThreadId>),
        Count(u64),
    }
    if by == SplitBy::Count(0) {
        return Err(ConvertError::EmptyParts);
    }
    let mut parts: BTreeMap<Key, Vec<FrameNumber>> = BTreeMap::new();
    let mut thread = None;
    for frame in file.frames() {
        let key = match by {
            SplitBy::Tracepoint => Key::Tracepoint(frame.tracepoint()),
            SplitBy::Thread => {
                thread = frame.thread().or(thread);
                Key::Thread(thread)
            }
            SplitBy::Count(count) => Key::Count(frame.number().0 / count),
        };
        parts.entry(key).or_default().push(frame.number());
        if parts.len() > MAX_PARTS {
            return Err(ConvertError::TooManyParts { limit: MAX_PARTS });
        }
    }
    let name = |key: Key| match key {
        Key::Tracepoint(number) => format!("tracepoint-{number}"),
        Key::Thread(Some(thread)) => format!("thread-{thread}"),
        Key::Thread(None) => "thread-unknown".to_owned(),
        Key::Count(part) => part.to_string(),
    };
    Ok(parts
        .into_iter()
        .map(|(key, frames)| Part {
            name: name(key),
            frames,
        })
        .collect())
}
