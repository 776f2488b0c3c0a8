//! Chrome's JSON trace event format, which Perfetto opens too: a hit is an instant event on its thread's track.
//!
//! The source is the "Trace Event Format" of the Chromium project. An event has the tracepoint's location as its name
//! (what the user typed, where the file tells it), `hit` or `step` as its category, microseconds of
//! `$trace_timestamp`, and what was collected among its arguments. A frame that does not tell its time has that
//! of the last frame before that did; one that does not tell its thread goes to the track of thread 0. Registers wider
//! than 64 bits are left out.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use serde_json::{Map, Value, json};
use tracewire_tracefile::{Block, Frame, TraceFile, TracepointNumber};

use crate::error::ConvertError;
use crate::hex;
use crate::time::frame_times;

/// The process that all threads belong to; the file does not tell its number.
const PROCESS: u32 = 1;

/// Writes a trace file as one JSON object with an array `traceEvents`. One frame at a time is in memory.
///
/// # Errors
/// When the sink refuses.
pub fn write(file: &TraceFile, out: &mut impl Write) -> Result<(), ConvertError> {
    let names = event_names(file);
    let mut threads = BTreeSet::new();
    let mut put = |text: &str| out.write_all(text.as_bytes()).map_err(ConvertError::Write);
    put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    put(&metadata("process_name", None, &process_name(file)))?;
    for (frame, time) in file.frames().zip(frame_times(file)) {
        let thread = frame.thread().map_or(0, |thread| thread.0);
        if threads.insert(thread) {
            let name = match thread {
                0 => "unknown thread".to_owned(),
                _ => format!("thread {thread}"),
            };
            put(",\n")?;
            put(&metadata("thread_name", Some(thread), &name))?;
        }
        put(",\n")?;
        put(&event(file, &frame, time, thread, &names).to_string())?;
    }
    put("\n],\"otherData\":")?;
    put(&other(file).to_string())?;
    put("}\n")?;
    out.flush().map_err(ConvertError::Write)
}

fn metadata(what: &str, thread: Option<u32>, name: &str) -> String {
    let mut object = json!({ "ph": "M", "name": what, "pid": PROCESS, "args": { "name": name } });
    if let Some(thread) = thread {
        object["tid"] = thread.into();
    }
    object.to_string()
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
        if let Some(at) = &definition.source.at {
            names.entry(definition.number).or_insert_with(|| at.clone());
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

fn event(
    file: &TraceFile,
    frame: &Frame<'_>,
    time: u64,
    thread: u32,
    names: &HashMap<TracepointNumber, String>,
) -> Value {
    let name = names.get(&frame.tracepoint()).cloned();
    let category = if frame.is_step() == Some(true) {
        "step"
    } else {
        "hit"
    };
    json!({
        "ph": "i",
        "s": "t",
        "name": name.unwrap_or_else(|| format!("tracepoint {}", frame.tracepoint())),
        "cat": category,
        "ts": time,
        "pid": PROCESS,
        "tid": thread,
        "args": arguments(file, frame),
    })
}

fn arguments(file: &TraceFile, frame: &Frame<'_>) -> Value {
    let mut arguments = Map::new();
    arguments.insert("frame".to_owned(), frame.number().0.into());
    arguments.insert("tracepoint".to_owned(), frame.tracepoint().0.into());
    if let Some(pc) = frame.program_counter() {
        arguments.insert("pc".to_owned(), pc.to_string().into());
    }
    if let Some(cpu) = frame.cpu() {
        arguments.insert("cpu".to_owned(), cpu.into());
    }
    let mut memory = Vec::new();
    let mut variables = Map::new();
    for block in frame.blocks() {
        match block {
            Block::Memory { address, bytes } => {
                memory.push(json!({ "address": address.to_string(), "bytes": hex::text(bytes) }));
            }
            Block::Variable { number, value } => {
                let defined = file.description().variables();
                let name = defined.iter().find(|variable| variable.number == number);
                let name = name.map_or_else(|| number.to_string(), |name| name.name.clone());
                variables.insert(name, value.into());
            }
            Block::Registers(_) | Block::StaticData(_) | Block::Unknown(_) => {}
        }
    }
    if !variables.is_empty() {
        arguments.insert("variables".to_owned(), variables.into());
    }
    if !memory.is_empty() {
        arguments.insert("memory".to_owned(), memory.into());
    }
    if let (Some(layout), Some(_)) = (file.layout(), frame.register_block()) {
        let registers: Map<_, _> = layout
            .registers()
            .iter()
            .filter(|register| register.bits <= 64)
            .filter_map(|register| {
                let bytes = frame.register(register.number)?;
                let value = frame.byte_order().unsigned(bytes)?;
                Some((register.name.clone(), format!("{value:#x}").into()))
            })
            .collect();
        arguments.insert("registers".to_owned(), registers.into());
    }
    Value::Object(arguments)
}
