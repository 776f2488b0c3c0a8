//! Replies: the server's answers to requests, and its own messages.

mod failure;
mod kind;
mod notification;
#[cfg(test)]
pub(crate) mod samples;

pub use failure::Failure;
pub use kind::ReplyKind;
pub use notification::Notification;

use tracewire_model::{Address, DefinitionRecord, Status, TracepointUsage, VariableDefinition};

use crate::PacketError;
use crate::family::features::FeatureList;
use crate::family::file::FileReply;
use crate::family::file_io::FileIoCall;
use crate::family::process::Offsets;
use crate::family::register::RegisterBytes;
use crate::family::stop::StopReply;
use crate::family::transfer::Chunk;
use crate::field::{Field, HexBytes};
use crate::thread_id::{ThreadList, ThreadSelector};
use crate::tracepoint::{MarkerList, SelectedFrame, print_record};
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing: the packet is not supported.
    Unsupported,
    /// `OK`.
    Ok,
    /// `E`: it failed.
    Error(Failure),
    /// A stop reply: `S`, `T`, `W`, `X`, `w`, `N`.
    Stop(StopReply),
    /// `O` and hexadecimal digits: text for the user, while the program runs or a monitor command does. The actual reply follows.
    Output(HexBytes),
    /// `F`: a system call that the program asks GDB to do; no reply comes before GDB has answered.
    FileIo(FileIoCall),
    /// `qRelocInsn`: GDB is to move an instruction; the reply proper comes after its answer.
    Relocate {
        /// Where it is.
        from: Address,
        /// Where it is to go.
        to: Address,
    },
    /// `m`: memory, perhaps less than requested.
    Memory(Vec<u8>),
    /// `x`: `b` and memory.
    BinaryMemory(Vec<u8>),
    /// `g`, `p`: registers.
    Registers(RegisterBytes),
    /// `qCRC`: `C` and the checksum.
    Checksum(u32),
    /// `qSearch`: `1,address` or `0`.
    Found(Option<Address>),
    /// `qMemTags`: `m` and the tags.
    Tags(HexBytes),
    /// `vCont?`: the letters of the actions that are supported.
    ResumeActions(Vec<u8>),
    /// `qC`: `QC` and the thread.
    CurrentThread(ThreadSelector),
    /// `qfThreadInfo`: `m` and threads.
    Threads(ThreadList),
    /// `qThreadExtraInfo`, `qRcmd`: text for the user.
    Text(HexBytes),
    /// `qGetTLSAddr`, `qGetTIBAddr`: an address.
    Address(Address),
    /// `qAttached`: 1 or 0.
    Attached(bool),
    /// `qOffsets`.
    Offsets(Offsets),
    /// `qSymbol`: the next symbol that the stub requests.
    Symbol(HexBytes),
    /// `qXfer` read.
    Chunk(Chunk),
    /// `qXfer` write: how many bytes were written.
    Written(u64),
    /// `vFile`.
    File(FileReply),
    /// `qSupported`.
    Features(FeatureList),
    /// `l`: the end of a list, of tracepoints, variables, markers, threads; or of the trace buffer.
    End,
    /// `QTFrame`.
    Frame(SelectedFrame),
    /// `qTStatus`: `T` and the state of the run.
    TraceStatus(Box<Status>),
    /// `qTP`: `Vhits:usage`.
    TracepointUsage(TracepointUsage),
    /// `qTV`: `V` and the value, or `U` when it is not known.
    VariableValue(Option<i64>),
    /// `qTfP`, `qTsP`: a record of a tracepoint.
    DefinitionRecord(DefinitionRecord),
    /// `qTfV`, `qTsV`: a trace state variable.
    Variable(VariableDefinition),
    /// `qTfSTM`, `qTsSTM`, `qTSTMat`: markers.
    Markers(MarkerList),
    /// `qTBuffer`: bytes of the trace buffer.
    TraceBuffer(Vec<u8>),
    /// `qTMinFTPILen`: a length in bytes; 0 when it is not known yet.
    Length(u64),
    /// One that does not answer the request.
    Unknown(Vec<u8>),
}

impl Reply {
    /// Reads the reply to a request of this kind.
    ///
    /// # Errors
    /// When it is neither that nor one that may always come.
    pub fn parse(kind: ReplyKind, payload: &[u8]) -> Result<Self, PacketError> {
        match payload {
            b"" => return Ok(Self::Unsupported),
            b"OK" => return Ok(Self::Ok),
            text if Failure::is(text) => {
                return Failure::scan(&mut Scanner::new(&text[1..]))
                    .map(Self::Error)
                    .map_err(|error| PacketError::new(error, kind.name(), payload));
            }
            _ => {}
        }
        let mut scanner = Scanner::new(payload);
        Self::scan(kind, &mut scanner)
            .and_then(|reply| scanner.end("the end of the packet").map(|()| reply))
            .map_err(|error| PacketError::new(error, kind.name(), payload))
    }

    fn scan(kind: ReplyKind, scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        match kind {
            ReplyKind::Done => {
                if scanner.take("qRelocInsn:") {
                    let from = Field::scan(scanner)?;
                    scanner.literal(";")?;
                    return Ok(Self::Relocate {
                        from,
                        to: Field::scan(scanner)?,
                    });
                }
                Ok(Self::Unknown(scanner.take_rest().to_vec()))
            }
            ReplyKind::Stop => match scanner.peek() {
                Some(b'O') => {
                    scanner.byte();
                    Field::scan(scanner).map(Self::Output)
                }
                Some(b'F') => {
                    scanner.byte();
                    Field::scan(scanner).map(Self::FileIo)
                }
                _ => Field::scan(scanner).map(Self::Stop),
            },
            ReplyKind::Memory => bytes(scanner).map(Self::Memory),
            ReplyKind::BinaryMemory => {
                scanner.literal("b")?;
                crate::escape::unescape(scanner.take_rest())
                    .map(Self::BinaryMemory)
                    .ok_or_else(|| start.expected("binary data that does not end in an escape"))
            }
            ReplyKind::Registers => RegisterBytes::scan(scanner).map(Self::Registers),
            ReplyKind::Checksum => {
                scanner.literal("C")?;
                Field::scan(scanner).map(Self::Checksum)
            }
            ReplyKind::Search => {
                if scanner.take("0") {
                    return Ok(Self::Found(None));
                }
                scanner.literal("1,")?;
                Field::scan(scanner).map(|address| Self::Found(Some(address)))
            }
            ReplyKind::Tags => {
                scanner.literal("m")?;
                Field::scan(scanner).map(Self::Tags)
            }
            ReplyKind::ResumeActions => {
                scanner.literal("vCont")?;
                let mut letters = Vec::new();
                while scanner.take(";") {
                    let letter = scanner.byte().filter(u8::is_ascii_alphabetic);
                    letters.push(letter.ok_or_else(|| start.expected("letters after `;`"))?);
                }
                Ok(Self::ResumeActions(letters))
            }
            ReplyKind::CurrentThread => {
                scanner.literal("QC")?;
                Field::scan(scanner).map(Self::CurrentThread)
            }
            ReplyKind::Threads => {
                if end(scanner) {
                    return Ok(Self::End);
                }
                scanner.literal("m")?;
                Field::scan(scanner).map(Self::Threads)
            }
            ReplyKind::ThreadDescription => Field::scan(scanner).map(Self::Text),
            ReplyKind::Address => Field::scan(scanner).map(Self::Address),
            ReplyKind::Attached => Field::scan(scanner).map(Self::Attached),
            ReplyKind::Offsets => Field::scan(scanner).map(Self::Offsets),
            ReplyKind::Symbol => {
                scanner.literal("qSymbol:")?;
                Field::scan(scanner).map(Self::Symbol)
            }
            ReplyKind::Monitor => {
                if scanner.take("O") {
                    return Field::scan(scanner).map(Self::Output);
                }
                Field::scan(scanner).map(Self::Text)
            }
            ReplyKind::Chunk => Field::scan(scanner).map(Self::Chunk),
            ReplyKind::Written => Field::scan(scanner).map(Self::Written),
            ReplyKind::File => {
                scanner.literal("F")?;
                Field::scan(scanner).map(Self::File)
            }
            ReplyKind::Features => Field::scan(scanner).map(Self::Features),
            ReplyKind::Frame
            | ReplyKind::TraceStatus
            | ReplyKind::TracepointUsage
            | ReplyKind::VariableValue
            | ReplyKind::DefinitionRecord
            | ReplyKind::Variable
            | ReplyKind::Markers
            | ReplyKind::TraceBuffer
            | ReplyKind::Length => Self::scan_trace(kind, scanner),
            ReplyKind::Anything => Ok(Self::Unknown(scanner.take_rest().to_vec())),
        }
    }

    fn scan_trace(kind: ReplyKind, scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        match kind {
            ReplyKind::Frame => Field::scan(scanner).map(Self::Frame),
            ReplyKind::TraceStatus => {
                scanner.literal("T")?;
                let start = *scanner;
                Status::parse(scanner.take_rest())
                    .map(|status| Self::TraceStatus(Box::new(status)))
                    .map_err(|error| Expected {
                        column: start.column() + error.column,
                        what: error.expected,
                    })
            }
            ReplyKind::TracepointUsage => {
                scanner.literal("V")?;
                let hits = scanner.hex()?;
                scanner.literal(":")?;
                Ok(Self::TracepointUsage(TracepointUsage {
                    hits,
                    bytes: scanner.hex()?,
                }))
            }
            ReplyKind::VariableValue => {
                if scanner.take("U") {
                    return Ok(Self::VariableValue(None));
                }
                scanner.literal("V")?;
                scanner
                    .hex()
                    .map(|value| Self::VariableValue(Some(value.cast_signed())))
            }
            ReplyKind::Length => Field::scan(scanner).map(Self::Length),
            _ if end(scanner) => Ok(Self::End),
            ReplyKind::DefinitionRecord => {
                DefinitionRecord::scan(scanner).map(Self::DefinitionRecord)
            }
            ReplyKind::Variable => Field::scan(scanner).map(Self::Variable),
            ReplyKind::TraceBuffer => bytes(scanner).map(Self::TraceBuffer),
            _ => Field::scan(scanner).map(Self::Markers),
        }
    }

    /// Appends the reply as gdbserver 13 spells it, escaped where it carries binary data.
    pub fn print(&self, out: &mut Vec<u8>) {
        let mut word = |text: &str| out.extend_from_slice(text.as_bytes());
        match self {
            Self::Unsupported => {}
            Self::Ok => word("OK"),
            Self::Error(failure) => {
                word("E");
                failure.print(out);
            }
            Self::Stop(stop) => stop.print(out),
            Self::Output(text) => {
                word("O");
                text.print(out);
            }
            Self::FileIo(call) => {
                word("F");
                call.print(out);
            }
            Self::Relocate { from, to } => {
                word("qRelocInsn:");
                from.print(out);
                out.push(b';');
                to.print(out);
            }
            Self::Memory(bytes) | Self::TraceBuffer(bytes) => hex::encode(bytes, out),
            Self::BinaryMemory(bytes) => {
                word("b");
                crate::escape::escape(bytes, out);
            }
            Self::Registers(registers) => registers.print(out),
            Self::Checksum(checksum) => {
                word("C");
                checksum.print(out);
            }
            Self::Found(None) => word("0"),
            Self::Found(Some(address)) => {
                word("1,");
                address.print(out);
            }
            Self::Tags(tags) => {
                word("m");
                tags.print(out);
            }
            Self::ResumeActions(letters) => {
                word("vCont");
                out.extend(letters.iter().flat_map(|letter| [b';', *letter]));
            }
            Self::CurrentThread(thread) => {
                word("QC");
                thread.print(out);
            }
            Self::Threads(threads) => {
                word("m");
                threads.print(out);
            }
            Self::Text(text) => text.print(out),
            Self::Address(address) => address.print(out),
            Self::Attached(attached) => attached.print(out),
            Self::Offsets(offsets) => offsets.print(out),
            Self::Symbol(name) => {
                word("qSymbol:");
                name.print(out);
            }
            Self::Chunk(chunk) => chunk.print(out),
            Self::Written(count) | Self::Length(count) => count.print(out),
            Self::File(reply) => {
                word("F");
                reply.print(out);
            }
            Self::Features(features) => features.print(out),
            Self::End => word("l"),
            Self::Frame(frame) => frame.print(out),
            Self::TraceStatus(status) => word(&format!("T{status}")),
            Self::TracepointUsage(usage) => word(&format!("V{:x}:{:x}", usage.hits, usage.bytes)),
            Self::VariableValue(None) => word("U"),
            Self::VariableValue(Some(value)) => word(&format!("V{value:x}")),
            Self::DefinitionRecord(record) => print_record(record, out),
            Self::Variable(variable) => word(&variable.to_string()),
            Self::Markers(markers) => markers.print(out),
            Self::Unknown(payload) => out.extend_from_slice(payload),
        }
    }

    /// The reply as bytes; see [`Self::print`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.print(&mut out);
        out
    }
}

/// Only an `l`.
fn end(scanner: &mut Scanner<'_>) -> bool {
    let found = scanner.rest() == b"l";
    if found {
        scanner.byte();
    }
    found
}

fn bytes(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, Expected> {
    let HexBytes(bytes) = Field::scan(scanner)?;
    Ok(bytes)
}
