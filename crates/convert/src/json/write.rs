//! From a trace file to JSON lines.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

use serde_json::{Value, json};
use tracewire_model::VariableNumber;
use tracewire_tracefile::{Block, Ending, Frame, TraceFile};

use super::{MAX_FRAME, MAX_NAMED, lines, named_registers};
use crate::error::ConvertError;
use crate::hex;
use crate::printable::Printable;
use crate::registers::{RegisterMembers, quoted_names};

/// How many bytes after the last frame go into one line.
const REST: usize = 1 << 16;

/// Writes a trace file as JSON lines, from which [`read`](super::read) makes the same file again, byte for byte. One
/// frame at a time is in memory.
///
/// # Errors
/// When the sink refuses, or a frame is larger than a line should be (64 MiB).
pub fn write(file: &TraceFile, out: &mut impl Write) -> Result<(), ConvertError> {
    let mut out = Printable::new(out);
    let mut put = |line: &str| {
        out.write_all(line.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .map_err(ConvertError::Write)
    };
    let mut head = json!({
        "kind": "trace-file",
        "byte_order": file.byte_order().to_string(),
        "closed": file.ending() != Ending::CutInDescription,
        "frames": file.frame_count(),
    });
    if let Some(size) = file.register_block_size() {
        head["register_block_size"] = size.into();
    }
    put(&head.to_string())?;

    let description = file.description();
    let ends_well = description
        .as_bytes()
        .last()
        .is_none_or(|last| *last == b'\n');
    let mut lines = description.lines().peekable();
    while let Some(line) = lines.next() {
        let mut object = lines::describe(line);
        if lines.peek().is_none() && !ends_well {
            object["newline"] = Value::Bool(false);
        }
        put(&object.to_string())?;
    }

    let names = Names {
        registers: named_registers(description)
            .map(|layout| (layout.size(), RegisterMembers::new(&layout, |_| true))),
        variables: quoted_names(file),
    };
    let mut line = String::new();
    for frame in file.frames() {
        if frame.data().len() > MAX_FRAME {
            return Err(ConvertError::FrameTooLarge {
                frame: frame.number().0,
                size: frame.data().len(),
                limit: MAX_FRAME,
            });
        }
        line.clear();
        let names = (frame.data().len() <= MAX_NAMED).then_some(&names);
        // A String can be written to.
        let _ = push_frame(&mut line, &frame, names);
        put(&line)?;
    }

    for part in rest(file).chunks(REST) {
        line.clear();
        line.push_str("{\"kind\":\"rest\",\"bytes\":\"");
        hex::push(&mut line, part);
        line.push_str("\"}");
        put(&line)?;
    }
    Ok(out.flush()?)
}

/// The part after the last complete frame.
fn rest(file: &TraceFile) -> &[u8] {
    let (Ending::Marker { offset, .. } | Ending::Missing { offset } | Ending::Cut { offset, .. }) =
        file.ending()
    else {
        return &[];
    };
    usize::try_from(offset)
        .ok()
        .and_then(|offset| file.as_bytes().get(offset..))
        .unwrap_or_default()
}

/// Names, quoted for JSON.
struct Names {
    /// How large a block must be, and what its registers are.
    registers: Option<(u32, RegisterMembers)>,
    variables: HashMap<VariableNumber, String>,
}

fn push_frame(line: &mut String, frame: &Frame<'_>, names: Option<&Names>) -> std::fmt::Result {
    let (number, tracepoint) = (frame.number(), frame.tracepoint());
    write!(
        line,
        "{{\"kind\":\"frame\",\"frame\":{number},\"tracepoint\":{tracepoint}"
    )?;
    if let Some(pc) = frame.program_counter() {
        write!(line, ",\"pc\":\"{pc}\"")?;
    }
    if let Some(time) = frame.timestamp() {
        write!(line, ",\"time_us\":{time}")?;
    }
    if let Some(thread) = frame.thread() {
        write!(line, ",\"thread\":{thread}")?;
    }
    if let Some(cpu) = frame.cpu() {
        write!(line, ",\"cpu\":{cpu}")?;
    }
    if let Some(stepping) = frame.is_step() {
        write!(line, ",\"stepping\":{stepping}")?;
    }
    line.push_str(",\"blocks\":[");
    for (index, block) in frame.blocks().enumerate() {
        line.push_str(if index == 0 { "{" } else { ",{" });
        match block {
            Block::Registers(bytes) => match names.and_then(|names| names.registers.as_ref()) {
                Some((size, members)) if usize::try_from(*size) == Ok(bytes.len()) => {
                    line.push_str("\"registers\":");
                    members.push(line, bytes, frame.byte_order());
                }
                _ => push_bytes(line, "registers", bytes),
            },
            Block::Memory { address, bytes } => {
                write!(line, "\"memory\":\"{address}\",")?;
                push_bytes(line, "bytes", bytes);
            }
            Block::Variable { number, value } => {
                write!(line, "\"variable\":{number},\"value\":{value}")?;
                if let Some(name) = names.and_then(|names| names.variables.get(&number)) {
                    write!(line, ",\"name\":{name}")?;
                }
            }
            Block::StaticData(bytes) => push_bytes(line, "static_data", bytes),
            Block::Unknown(bytes) => push_bytes(line, "unknown", bytes),
        }
        line.push('}');
    }
    line.push_str("]}");
    Ok(())
}

fn push_bytes(line: &mut String, name: &str, bytes: &[u8]) {
    line.push('"');
    line.push_str(name);
    line.push_str("\":\"");
    hex::push(line, bytes);
    line.push('"');
}
