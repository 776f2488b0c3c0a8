//! A hit is an instant event on its thread's track, and a span a complete event: from its entry to its end, with nanoseconds.
//! A span whose end is not known is an instant event too.
//!
//! An event has the tracepoint's location as its name
//! (what the user typed, where the file gives it), `hit` or `step` as its category, microseconds of
//! `$trace_timestamp`, and what was collected among its arguments. A frame that does not tell its time has that
//! of the last frame before that did; one that does not tell its thread goes to the track of thread 0. Registers wider
//! than 64 bits are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::Write;

use serde_json::{Map, Value};
use tracewire_model::{TracepointNumber, VariableNumber};
use tracewire_tracefile::{Block, Frame, Span, TraceFile};

use super::{Events, PROCESS};
use crate::error::ConvertError;
use crate::hex;
use crate::printable::Printable;
use crate::registers::{MAX_NAME, RegisterMembers, quoted_names};
use crate::time::frame_times;

/// How much of a location is an event's name, in characters.
const MAX_TITLE: usize = 200;

/// Writes a trace file as one JSON object with an array `traceEvents`. One frame at a time is in memory.
///
/// # Errors
/// When the sink refuses.
pub fn write(file: &TraceFile, out: &mut impl Write) -> Result<(), ConvertError> {
    let names = Names {
        events: event_names(file),
        variables: quoted_names(file),
        registers: file.layout().map(|layout| {
            RegisterMembers::new(layout, |register| {
                register.bits <= 64 && register.name.len() <= MAX_NAME
            })
        }),
    };
    let mut threads = BTreeSet::new();
    let mut out = Printable::new(out);
    let mut events = Events::begin(&mut out)?;
    events.put_name("process_name", None, &process_name(file))?;
    let mut event = String::new();
    let spans = file.spans();
    for (frame, time) in file.frames().zip(frame_times(file)) {
        let span = spans.at(frame.number());
        // The frame of a return is in the event of its entry; what is of no span tells no more.
        let is_entry = span.is_some_and(|span| span.entry == frame.number());
        if spans.point(&frame).is_some() && !is_entry {
            continue;
        }
        let thread = frame.thread().map_or(0, |thread| thread.0);
        if threads.insert(thread) {
            let name = match thread {
                0 => "unknown thread".to_owned(),
                _ => format!("thread {thread}"),
            };
            events.put_name("thread_name", Some(thread), &name)?;
        }
        event.clear();
        // A String can be written to.
        let _ = push_event(&mut event, &frame, span, time, thread, &names);
        events.put(&event)?;
    }
    Ok(events.finish(Some(other(file)))?)
}

/// What is called how, quoted for JSON.
struct Names {
    events: HashMap<TracepointNumber, String>,
    variables: HashMap<VariableNumber, String>,
    registers: Option<RegisterMembers>,
}

/// The program's file name, as the first module has it.
fn process_name(file: &TraceFile) -> String {
    let modules = file.description().modules();
    let path = modules
        .first()
        .map(|module| String::from_utf8_lossy(&module.path));
    path.and_then(|path| path.rsplit('/').next().map(str::to_owned))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "traced program".to_owned())
}

fn event_names(file: &TraceFile) -> HashMap<TracepointNumber, String> {
    let mut names = HashMap::new();
    for tracepoint in file.description().tracepoints() {
        let definition = &tracepoint.definition;
        // The entry of a span has the function's name; its other locations are addresses.
        let point = definition.source.span_point();
        if point.is_some_and(|point| !point.role.is_entry()) {
            continue;
        }
        if let Some(at) = definition.source.location() {
            names.entry(definition.number).or_insert_with(|| {
                let shown: String = at.chars().take(MAX_TITLE).collect();
                Value::from(shown).to_string()
            });
        }
    }
    names
}

fn other(file: &TraceFile) -> Value {
    let mut other = Map::new();
    if let Some(status) = file.description().status() {
        let fields = &status.fields;
        let texts = [
            ("notes", &fields.notes),
            ("user", &fields.user),
            ("stop_text", &fields.stop_text),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                other.insert(name.to_owned(), text.as_str().into());
            }
        }
        if let Some(reason) = fields.stop_reason {
            other.insert("stop_reason".to_owned(), reason.name().into());
        }
    }
    Value::Object(other)
}

/// Nanoseconds as microseconds.
struct Thousandths(u64);

impl std::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

fn push_event(
    line: &mut String,
    frame: &Frame<'_>,
    span: Option<&Span>,
    time: u64,
    thread: u32,
    names: &Names,
) -> std::fmt::Result {
    let (number, tracepoint) = (frame.number(), frame.tracepoint());
    let whole = span.and_then(|span| Some((span.start_ns?, span.duration_ns()?)));
    line.push_str(match whole {
        Some(_) => "{\"ph\":\"X\",\"name\":",
        None => "{\"ph\":\"i\",\"s\":\"t\",\"name\":",
    });
    match names.events.get(&tracepoint) {
        Some(name) => line.push_str(name),
        None => write!(line, "\"tracepoint {tracepoint}\"")?,
    }
    let category = match span {
        _ if frame.is_step() == Some(true) => "step",
        Some(_) => "span",
        None => "hit",
    };
    write!(line, ",\"cat\":\"{category}\",\"ts\":")?;
    match whole {
        Some((start, duration)) => {
            let (start, duration) = (Thousandths(start), Thousandths(duration));
            write!(line, "{start},\"dur\":{duration}")?;
        }
        None => write!(line, "{time}")?,
    }
    write!(
        line,
        ",\"pid\":{PROCESS},\"tid\":{thread},\
         \"args\":{{\"frame\":{number},\"tracepoint\":{tracepoint}"
    )?;
    if let Some(span) = span {
        write!(line, ",\"ended\":\"{}\"", span.end.name())?;
    }
    if let Some(pc) = frame.program_counter() {
        write!(line, ",\"pc\":\"{pc}\"")?;
    }
    if let Some(cpu) = frame.cpu() {
        write!(line, ",\"cpu\":{cpu}")?;
    }
    // A JSON object has no name twice: the last value counts, as for GDB.
    let mut variables = BTreeMap::new();
    for block in frame.blocks() {
        if let Block::Variable { number, value } = block
            && !tracewire_tracefile::describes_frame(number)
        {
            variables.insert(number, value);
        }
    }
    for (index, (number, value)) in variables.iter().enumerate() {
        line.push_str(if index == 0 { ",\"variables\":{" } else { "," });
        match names.variables.get(number) {
            Some(name) => write!(line, "{name}:{value}")?,
            None => write!(line, "\"{number}\":{value}")?,
        }
    }
    if !variables.is_empty() {
        line.push('}');
    }
    for (index, (address, bytes)) in frame.memory_blocks().enumerate() {
        let before = if index == 0 { ",\"memory\":[" } else { "," };
        write!(line, "{before}{{\"address\":\"{address}\",\"bytes\":\"")?;
        hex::push(line, bytes);
        line.push_str("\"}");
    }
    if frame.memory_blocks().next().is_some() {
        line.push(']');
    }
    if let (Some(registers), Some(block)) = (&names.registers, frame.register_block()) {
        line.push_str(",\"registers\":");
        registers.push(line, block, frame.byte_order());
    }
    line.push_str("}}");
    Ok(())
}
