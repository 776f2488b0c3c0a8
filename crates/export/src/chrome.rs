//! Chrome's JSON trace event format, which Perfetto opens too.
//!
//! A hit is an instant event on its thread's track, and a span a complete event, with nanoseconds. A span that does not fit into the one around it
//! is a pair of asynchronous events, which have a track of their own. One that is open at the end of the run has a beginning alone, and one whose end is
//! not known is an instant event.

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
use crate::run::{Needs, Run};
use crate::threads::{ThreadKey, Threads, process_number};
use crate::words::program_name;

/// Nanoseconds as microseconds, the unit of the format.
struct Thousandths(u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Writes a run as one JSON object with an array `traceEvents`. One event at a time is in memory.
///
/// # Errors
/// When the sink refuses.
pub fn write(parts: &[RunPart<'_>], out: &mut impl Write) -> Result<(), ExportError> {
    let run = Run::new(parts);
    let mut events = Events::begin(out)?;
    for (index, part) in parts.iter().enumerate() {
        let process = process_number(parts, index);
        events.put_name("process_name", process, None, &program_name(part.file))?;
    }
    let mut threads = Threads::default();
    let mut named: HashSet<ThreadKey> = HashSet::new();
    let mut closed = Vec::new();
    let needs = Needs {
        values: true,
        stack: true,
    };
    run.for_each(needs, |event| -> Result<(), ExportError> {
        let key = ThreadKey::of(&event);
        let process = process_number(parts, key.part);
        if named.insert(key) {
            let name = match key.thread {
                0 => "unknown thread".to_owned(),
                thread => format!("thread {thread}"),
            };
            events.put_name("thread_name", process, Some(key.thread), &name)?;
        }
        let placed = threads.lanes(key).place(&event, &mut closed);
        put_ends(&mut events, parts, key, &mut closed)?;
        put_event(&mut events, &event, placed, process, key)
    })?;
    for (key, mut lanes) in threads.into_sorted() {
        lanes.finish(&mut closed);
        put_ends(&mut events, parts, key, &mut closed)?;
    }
    Ok(events.finish(Some(other(parts.first().map(|part| part.file))))?)
}

/// The name of the asynchronous track of a row.
fn track(process: u32, key: ThreadKey, lane: usize) -> String {
    format!("{process}.{}.{lane}", key.thread)
}

fn put_event(
    events: &mut Events<impl Write>,
    event: &Event<'_>,
    placed: Placed,
    process: u32,
    key: ThreadKey,
) -> Result<(), ExportError> {
    let name = Value::from(&*event.name);
    let start = Thousandths(placed.start);
    let phase = match (placed.extent, placed.lane) {
        (Extent::Instant, _) => r#""ph":"i","s":"t""#.to_owned(),
        (Extent::Until(end), 0) => {
            format!(
                r#""ph":"X","dur":{}"#,
                Thousandths(end.saturating_sub(placed.start))
            )
        }
        (Extent::Open, 0) => r#""ph":"B""#.to_owned(),
        (_, lane) => format!(r#""ph":"b","id":"{}""#, track(process, key, lane)),
    };
    let category = event.kind;
    let thread = key.thread;
    let arguments = Value::from(arguments(event));
    events.put(format_args!(
        r#"{{{phase},"name":{name},"cat":"{category}","ts":{start},"pid":{process},"tid":{thread},"args":{arguments}}}"#
    ))?;
    Ok(())
}

/// Ends asynchronous events. Complete events have their durations.
fn put_ends(
    events: &mut Events<impl Write>,
    parts: &[RunPart<'_>],
    key: ThreadKey,
    closed: &mut Vec<Closed>,
) -> Result<(), ExportError> {
    let process = process_number(parts, key.part);
    for one in closed.drain(..).filter(|one| one.lane > 0) {
        let (track, end) = (track(process, key, one.lane), Thousandths(one.end));
        let thread = key.thread;
        events.put(format_args!(
            r#"{{"ph":"e","id":"{track}","cat":"span","ts":{end},"pid":{process},"tid":{thread}}}"#
        ))?;
    }
    Ok(())
}

/// What the first file says of its run.
fn other(file: Option<&TraceFile>) -> Value {
    let mut other = Map::new();
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
