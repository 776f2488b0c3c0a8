//! Saving a trace of a stub that has tracepoints of its own and cannot save (`QTSave`), as gdbserver cannot: the proxy reads the stub's
//! definitions and its buffer, and writes the file that GDB's `tsave` would write.

use std::path::Path;

use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Request};
use tracewire_target_remote::{RemoteError, Stub};
use tracewire_tracefile::{Description, TraceFileWriter, WriteError};

use crate::trace::SaveFolder;

/// How much of a buffer is asked for at once: GDB's own size, which every stub takes.
const PIECE: u64 = 2000;

/// The most bytes of a buffer: a stub that never comes to its end is wrong.
const MOST_BYTES: usize = 1 << 30;

/// The most definitions of a kind that a stub may list.
const MOST_RECORDS: usize = 100_000;

/// Saves the trace of a stub under this name.
pub(super) fn save(
    stub: &mut Stub,
    folder: Option<&SaveFolder>,
    name: &HexBytes,
) -> Result<Reply, RemoteError> {
    let path = match SaveFolder::destination(folder, name) {
        Ok(path) => path,
        Err(failure) => return Ok(Reply::Error(failure)),
    };
    let description = Description::parse(description(stub)?);
    let frames = match buffer(stub)? {
        Ok(frames) => frames,
        Err(why) => return Ok(Reply::Error(Failure::text(why))),
    };
    Ok(match write(&path, &description, &frames) {
        Ok(()) => Reply::Ok,
        Err(error) => Reply::Error(Failure::text(&error.to_string())),
    })
}

/// The lines at the front of a trace file, from what the stub answers: the packets have the text of the lines.
fn description(stub: &mut Stub) -> Result<Vec<u8>, RemoteError> {
    let mut text = format!("R {:x}\n", stub.machine().block().size()).into_bytes();
    let mut line = |kind: &[u8], rest: &[u8]| {
        text.extend_from_slice(kind);
        text.extend_from_slice(rest);
        text.push(b'\n');
    };
    let xml = stub.machine().target_xml().to_owned();
    let status = ask(stub, TraceRequest::Status)?;
    line(b"status ", status.strip_prefix(b"T").unwrap_or(&status));
    for (kind, first, more) in [
        (
            &b"tp "[..],
            TraceRequest::FirstPiece,
            TraceRequest::MorePieces,
        ),
        (
            b"tsv ",
            TraceRequest::FirstVariable,
            TraceRequest::MoreVariables,
        ),
    ] {
        let mut record = ask(stub, first)?;
        for _ in 0..MOST_RECORDS {
            if record.is_empty() || record.starts_with(b"l") || record.starts_with(b"E") {
                break;
            }
            line(kind, &record);
            record = ask(stub, more.clone())?;
        }
    }
    for part in xml.lines() {
        line(b"tdesc ", part.as_bytes());
    }
    Ok(text)
}

fn ask(stub: &mut Stub, request: TraceRequest) -> Result<Vec<u8>, RemoteError> {
    stub.request(&Request::from(request).to_bytes())
}

/// The frames in the stub's buffer; or why they cannot be had.
fn buffer(stub: &mut Stub) -> Result<Result<Vec<u8>, &'static str>, RemoteError> {
    let mut frames = Vec::new();
    loop {
        let request = TraceRequest::Buffer {
            offset: frames.len() as u64,
            length: PIECE,
        };
        let answer = ask(stub, request)?;
        if answer == b"l" {
            return Ok(Ok(frames));
        }
        match tracewire_model::hex::decode(&answer) {
            Some(piece) if !piece.is_empty() => frames.extend(piece),
            _ => return Ok(Err("the stub does not give its trace buffer")),
        }
        if frames.len() > MOST_BYTES {
            return Ok(Err("the stub's trace buffer has no end"));
        }
    }
}

fn write(path: &Path, description: &Description, frames: &[u8]) -> Result<(), WriteError> {
    let mut writer = TraceFileWriter::create(path, description)?;
    if !frames.is_empty() {
        writer.append(frames)?;
    }
    writer.finish()
}
