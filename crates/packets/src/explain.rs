//! Plain words for packets.

use std::fmt;

use tracewire_model::{DefinitionContent, StopReason};

use crate::reply::{Notification, Reply};
use crate::request::Request;

/// How much of a packet that is not understood is shown.
const SHOWN: usize = 60;

/// The start of a packet, as a text of one line.
pub(crate) fn shortened(payload: &[u8]) -> String {
    let shown = payload.get(..SHOWN).unwrap_or(payload);
    let rest = if shown.len() < payload.len() {
        "…"
    } else {
        ""
    };
    format!("{}{rest}", shown.escape_ascii())
}

/// The meaning of a request, in a line; the error of a malformed one.
#[must_use]
pub fn explain_request(payload: &[u8]) -> String {
    match Request::parse(payload) {
        Ok(request) => request.explain(),
        Err(error) => format!("malformed: {error}"),
    }
}

/// The meaning of a reply, in a line. Its request must be known, because a reply does not show its kind.
#[must_use]
pub fn explain_reply(request: &Request, payload: &[u8]) -> String {
    match Reply::parse(request.reply_kind(), payload) {
        Ok(reply) => reply.to_string(),
        Err(error) => format!("malformed: {error}"),
    }
}

/// The meaning of a notification, in a line.
#[must_use]
pub fn explain_notification(payload: &[u8]) -> String {
    match Notification::parse(payload) {
        Ok(Notification::Stop(stop)) => stop.to_string(),
        Ok(Notification::Other(payload)) => {
            format!("unknown notification `{}`", shortened(&payload))
        }
        Err(error) => format!("malformed: {error}"),
    }
}

fn bytes(count: usize) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// The explanation, in a line.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("not supported"),
            Self::Ok => f.write_str("done"),
            Self::Error(failure) => write!(f, "failed: {failure}"),
            Self::Stop(stop) => stop.fmt(f),
            Self::Output(text) => write!(f, "output {text}"),
            Self::FileIo(call) => write!(f, "the program asks for the system call {}", call.name),
            Self::Relocate { from, to } => {
                write!(f, "move the instruction at {from} to {to}, please")
            }
            Self::Memory(data) | Self::BinaryMemory(data) => f.write_str(&bytes(data.len())),
            Self::Registers(registers) => {
                write!(f, "{} of registers", bytes(registers.0.len()))?;
                match registers.0.iter().filter(|byte| byte.is_none()).count() {
                    0 => Ok(()),
                    unknown => write!(f, ", {unknown} of them unavailable"),
                }
            }
            Self::Checksum(checksum) => write!(f, "the checksum is {checksum:#x}"),
            Self::Found(Some(address)) => write!(f, "found at {address}"),
            Self::Found(None) => f.write_str("not found"),
            Self::Tags(tags) => write!(f, "{} of tags", bytes(tags.0.len())),
            Self::ResumeActions(letters) => {
                write!(f, "supported: {}", String::from_utf8_lossy(letters))
            }
            Self::CurrentThread(thread) => thread.fmt(f),
            Self::Threads(threads) => {
                let names: Vec<String> = threads.0.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Self::Text(text) => text.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Attached(true) => f.write_str("it was attached to"),
            Self::Attached(false) => f.write_str("it was started"),
            Self::Offsets(offsets) => write!(f, "{offsets:x?}"),
            Self::Symbol(name) => write!(f, "where is the symbol {name}?"),
            Self::Chunk(chunk) => {
                let end = if chunk.last {
                    "the end"
                } else {
                    "there may be more"
                };
                write!(f, "{}, {end}", bytes(chunk.data.len()))
            }
            Self::Written(count) => write!(f, "{count} bytes written"),
            Self::File(reply) => f.write_str(&reply.explain()),
            Self::Features(features) => {
                write!(f, "{} features", features.0.len())?;
                match features.packet_size() {
                    Some(size) => write!(f, ", packets of at most {size} bytes"),
                    None => Ok(()),
                }
            }
            Self::End => f.write_str("nothing more"),
            Self::Frame(selected) => match (selected.frame, selected.tracepoint) {
                (None, _) => f.write_str("there is no such frame"),
                (Some(frame), Some(tracepoint)) => {
                    write!(f, "frame {frame} is selected, of tracepoint {tracepoint}")
                }
                (Some(frame), None) => write!(f, "frame {frame} is selected"),
            },
            Self::TraceStatus(status) => explain_status(&status.fields, f),
            Self::TracepointUsage(usage) => {
                write!(
                    f,
                    "{} hits, {} bytes of the trace buffer",
                    usage.hits, usage.bytes
                )
            }
            Self::VariableValue(Some(value)) => write!(f, "its value is {value}"),
            Self::VariableValue(None) => f.write_str("its value is not known"),
            Self::DefinitionRecord(record) => {
                let what = match &record.content {
                    DefinitionContent::Definition { .. } => "is defined",
                    DefinitionContent::Actions(_) => "has these actions",
                    DefinitionContent::StepActions(_) => "has these while-stepping actions",
                    DefinitionContent::Source { .. } => "has this source string",
                    DefinitionContent::Usage(_) => "was hit",
                };
                write!(
                    f,
                    "tracepoint {} at {} {what}",
                    record.number, record.address
                )
            }
            Self::Variable(variable) => write!(
                f,
                "trace state variable ${} (number {}) with initial value {}",
                variable.name, variable.number, variable.initial
            ),
            Self::Markers(markers) => {
                let names: Vec<String> = markers
                    .0
                    .iter()
                    .map(|marker| format!("{} at {}", marker.id, marker.address))
                    .collect();
                f.write_str(&names.join(", "))
            }
            Self::TraceBuffer(data) => write!(f, "{} of the trace buffer", bytes(data.len())),
            Self::Length(0) => f.write_str("not known yet"),
            Self::Length(length) => {
                f.write_str(&bytes(usize::try_from(*length).unwrap_or(usize::MAX)))
            }
            Self::Unknown(payload) => write!(f, "unknown reply `{}`", shortened(payload)),
        }
    }
}

fn explain_status(
    fields: &tracewire_model::StatusFields,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let reason = match fields.stop_reason {
        _ if fields.running => "the trace is running",
        None | Some(StopReason::Unknown) => "the trace is not running",
        Some(StopReason::NotRun) => "no trace has been run",
        Some(StopReason::Command) => "the trace was stopped by the user",
        Some(StopReason::Full) => "the trace stopped because the buffer is full",
        Some(StopReason::Disconnected) => "the trace stopped because the debugger went away",
        Some(StopReason::PassCount) => "the trace stopped because of a pass count",
        Some(StopReason::Error) => "the trace stopped because of an error",
    };
    f.write_str(reason)?;
    if let Some(tracepoint) = fields.stopping_tracepoint {
        write!(f, " of tracepoint {tracepoint}")?;
    }
    if let Some(text) = &fields.stop_text {
        write!(f, " (`{text}`)")?;
    }
    if let Some(frames) = fields.frames {
        write!(f, ", {frames} frames")?;
    }
    Ok(())
}
