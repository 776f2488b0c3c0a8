//! Chrome's JSON trace event format, which Perfetto opens too.
//!
//! A hit is an instant event on its thread's track, and a span is a complete event, in nanoseconds. A span that does not nest is a
//! pair of asynchronous events, which have a separate track. One that is open at the end of the run has only a beginning, and one
//! with an unknown end is an instant event.

use std::collections::HashSet;
use std::fmt;
use std::io::Write;

use serde_json::{Map, Value, json};
use tracewire_convert::chrome::Events;
use tracewire_tracefile::TraceFile;
use tracewire_views::RunPart;

use crate::error::ExportError;
use crate::event::Event;
use crate::json::arguments;
use crate::lanes::{Closed, Extent, Placed};
use crate::run::Run;
use crate::threads::{LaneWriter, ThreadKey, process_number, write_lanes};
use crate::words::program_name;

/// The category of spans that overlap others of their thread.
const OVERLAPPING: &str = "overlapping";

/// Nanoseconds as microseconds, the unit of the format.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Writes a run as one JSON object with an array `traceEvents`. One event at a time is in memory.
///
/// Times count from the first one of the run, because readers take them as floating-point numbers, which have no room for the nanoseconds of a time of
/// day. That first time is `time_origin_ns` of `otherData`.
///
/// # Errors
/// When the sink refuses.
pub fn write(parts: &[RunPart<'_>], out: &mut impl Write) -> Result<(), ExportError> {
    let run = Run::new(parts);
    let mut writer = Writer {
        parts,
        first: run.first_time().unwrap_or(0),
        events: Events::begin(out)?,
        named: HashSet::new(),
    };
    writer.name_processes()?;
    write_lanes(&run, &mut writer)?;
    let other = other(parts.first().map(|part| part.file), writer.first);
    Ok(writer.events.finish(Some(other))?)
}

struct Writer<'p, 'a, W> {
    parts: &'p [RunPart<'a>],
    /// The first time of the run, in nanoseconds.
    first: u64,
    events: Events<W>,
    /// The threads that have a name.
    named: HashSet<ThreadKey>,
}

impl<W: Write> Writer<'_, '_, W> {
    fn process(&self, key: ThreadKey) -> u32 {
        process_number(self.parts, key.part)
    }

    fn time(&self, time: u64) -> Thousandths {
        Thousandths(time.saturating_sub(self.first))
    }

    fn name_processes(&mut self) -> Result<(), ExportError> {
        for (index, part) in self.parts.iter().enumerate() {
            let process = process_number(self.parts, index);
            let name = program_name(part.file);
            self.events.put_name("process_name", process, None, &name)?;
        }
        Ok(())
    }

    fn name_thread(&mut self, key: ThreadKey) -> Result<(), ExportError> {
        if !self.named.insert(key) {
            return Ok(());
        }
        let name = match key.thread {
            0 => "unknown thread".to_owned(),
            thread => format!("thread {thread}"),
        };
        let process = self.process(key);
        Ok(self
            .events
            .put_name("thread_name", process, Some(key.thread), &name)?)
    }

    /// The name of the asynchronous track of a row.
    fn track(&self, key: ThreadKey, lane: usize) -> String {
        format!("{}.{}.{lane}", self.process(key), key.thread)
    }
}

impl<W: Write> LaneWriter for Writer<'_, '_, W> {
    fn put(
        &mut self,
        event: &Event<'_>,
        placed: Placed,
        key: ThreadKey,
    ) -> Result<(), ExportError> {
        self.name_thread(key)?;
        let name = Value::from(&*event.name);
        let (process, thread) = (self.process(key), key.thread);
        let start = self.time(placed.start);
        let phase = match (placed.extent, placed.lane) {
            (Extent::Instant, _) => r#""ph":"i","s":"t""#.to_owned(),
            (Extent::Until(end), 0) => {
                let duration = Thousandths(end.saturating_sub(placed.start));
                format!(r#""ph":"X","dur":{duration}"#)
            }
            (Extent::Open, 0) => r#""ph":"B""#.to_owned(),
            (_, lane) => format!(r#""ph":"b","id":"{}""#, self.track(key, lane)),
        };
        // The ends of asynchronous events have this category.
        let category = match placed.lane {
            0 => event.kind,
            _ => OVERLAPPING,
        };
        let arguments = Value::from(arguments(event));
        self.events.put(format_args!(
            r#"{{{phase},"name":{name},"cat":"{category}","ts":{start},"pid":{process},"tid":{thread},"args":{arguments}}}"#
        ))?;
        Ok(())
    }

    /// Ends asynchronous events. Complete events have their durations.
    fn put_ends(&mut self, key: ThreadKey, closed: &mut Vec<Closed>) -> Result<(), ExportError> {
        let (process, thread) = (self.process(key), key.thread);
        for one in closed.drain(..).filter(|one| one.lane > 0) {
            let (track, end) = (self.track(key, one.lane), self.time(one.end));
            self.events.put(format_args!(
                r#"{{"ph":"e","id":"{track}","cat":"{OVERLAPPING}","ts":{end},"pid":{process},"tid":{thread}}}"#
            ))?;
        }
        Ok(())
    }
}

/// The description of the run in the first file.
fn other(file: Option<&TraceFile>, first: u64) -> Value {
    let mut other = Map::new();
    // A reader of floating-point numbers loses the last digits of this one.
    other.insert("time_origin_ns".to_owned(), json!(first.to_string()));
    if let Some(status) = file.and_then(|file| file.description().status()) {
        let fields = &status.fields;
        let texts = [
            ("notes", &fields.notes),
            ("user", &fields.user),
            ("stop_text", &fields.stop_text),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                other.insert(name.to_owned(), json!(text));
            }
        }
        if let Some(reason) = fields.stop_reason {
            other.insert("stop_reason".to_owned(), json!(reason.name()));
        }
    }
    Value::Object(other)
}
