//! Objects that GDB reads in windows (`qXfer`).

use tracewire_packets::family::transfer::{self, Chunk, Operation, Transfer};
use tracewire_packets::tracepoint::{FrameInfo, FramePart};
use tracewire_packets::{Failure, Reply};
use tracewire_tracefile::{Block, Frame};

use super::{Debuggee, FAILED, threads};
use crate::session::PACKET_SIZE;

/// A session's copy of an object.
pub(crate) enum Object {
    /// It has no such objects.
    Unknown,
    /// It has such objects, and not this one.
    Missing,
    /// This one.
    Bytes(Vec<u8>),
}

impl From<Option<Vec<u8>>> for Object {
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Missing, Self::Bytes)
    }
}

pub(super) fn answer(of: &mut dyn Debuggee, window: &Transfer) -> Reply {
    let length = match &window.operation {
        Operation::Read { length } => *length,
        Operation::Write { data } => return of.write_object(window, &data.0),
    };
    let object = match window.object {
        transfer::Object::Features if window.annex != "target.xml" => {
            return Reply::Error(Failure::Number(0));
        }
        transfer::Object::Features => of
            .target_xml()
            .map(|xml| xml.into_owned().into_bytes())
            .into(),
        transfer::Object::TraceframeInfo => match of_frame(of, |frame| info(frame).to_xml()) {
            Ok(info) => Object::Bytes(info.into_bytes()),
            Err(refusal) => return refusal,
        },
        transfer::Object::StaticTraceData if of.has_probes() => match of_frame(of, static_data) {
            Ok(data) => Object::Bytes(data),
            Err(refusal) => return refusal,
        },
        transfer::Object::Threads => of.thread_table().map_or(Object::Unknown, |table| {
            Object::Bytes(threads::xml(&table).into_bytes())
        }),
        _ => of.object(window),
    };
    match object {
        Object::Unknown => Reply::Unsupported,
        Object::Missing => FAILED,
        Object::Bytes(bytes) => {
            Reply::Chunk(Chunk::window(&bytes, window.offset, length, PACKET_SIZE))
        }
    }
}

/// Something of the selected trace frame.
fn of_frame<T>(of: &mut dyn Debuggee, see: impl Fn(&Frame<'_>) -> T) -> Result<T, Reply> {
    let mut seen = None;
    of.show_frame(&mut |frame| seen = Some(see(frame)));
    seen.ok_or_else(|| Reply::Error(Failure::text("No trace frame is selected")))
}

/// The contents of a frame, for `traceframe-info`.
fn info(frame: &Frame<'_>) -> FrameInfo {
    let parts = frame.blocks().filter_map(|block| match block {
        Block::Memory { address, bytes } => Some(FramePart::Memory {
            start: address,
            length: bytes.len() as u64,
        }),
        Block::Variable { number, .. } if !tracewire_tracefile::describes_frame(number) => {
            Some(FramePart::Variable(number))
        }
        _ => None,
    });
    FrameInfo(parts.collect())
}

/// The data that a static tracepoint collected in a frame; empty in the frame of another one.
fn static_data(frame: &Frame<'_>) -> Vec<u8> {
    let mut blocks = frame.blocks();
    let data = blocks.find_map(|block| match block {
        Block::StaticData(data) => Some(data.to_vec()),
        _ => None,
    });
    data.unwrap_or_default()
}

/// Escapes a text for an attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter if letter.is_control() => safe.push('?'),
            letter => safe.push(letter),
        }
    }
    safe
}
