//! The client's token, before its session.
//!
//! Stock GDB has one command that sends any text to a server, `monitor`, and it works before a program runs. So to
//! `target extended-remote`, a server that requires a token reports that there is no process. Until the token comes, it
//! answers what GDB needs to connect, and nothing that needs a program:
//!
//! ```text
//! (gdb) target extended-remote :2345
//! (gdb) monitor auth 6c1e…
//! (gdb) attach 4711
//! ```
//!
//! `attach` gives GDB the server's process. A debugger without the token stops nothing.

use std::io::{self, Read, Write};

use tracewire_model::{Status, StatusFields, StopReason};
use tracewire_packets::family::features::{FeatureList, FeatureRequest};
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::frame::{Connection, Received, Side};
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Request};

use crate::access::{Token, is_protocol};
use crate::session::{PACKET_SIZE, announced};

/// How many wrong tokens a client may give.
const MOST_GUESSES: u32 = 3;
/// How many settings a client may give before its token.
const MOST_SETTINGS: usize = 64;

const WANTED: &str = "this server wants its token first: monitor auth TOKEN";

/// The state of a connection before its session.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) connection: Connection,
    /// The requests that the client has made already, in order.
    pub(crate) requests: Vec<Request>,
    /// The bytes that it has sent after them.
    pub(crate) input: Vec<u8>,
}

impl Opening {
    /// A connection without any input yet.
    pub(crate) fn new() -> Self {
        Self {
            connection: Connection::new(Side::Server, PACKET_SIZE),
            requests: Vec::new(),
            input: Vec::new(),
        }
    }
}

/// The server's requirements for clients on TCP.
#[derive(Clone, Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) token: &'a Token,
    /// The features that the sessions announce.
    pub(crate) features: FeatureList,
    /// The hint for the user after the right token.
    pub(crate) hint: String,
}

/// The result of a client's input.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Its input is incomplete.
    Waits,
    /// It may go on.
    Admitted(Box<Opening>),
    /// It may not.
    Refused,
}

/// A client that has not sent the token yet.
#[derive(Debug)]
pub(crate) struct Handshake {
    opening: Opening,
    begun: bool,
    guesses: u32,
    non_stop: bool,
    reply: Vec<u8>,
}

impl Handshake {
    pub(crate) fn new() -> Self {
        Self {
            opening: Opening::new(),
            begun: false,
            guesses: 0,
            non_stop: false,
            reply: Vec::new(),
        }
    }

    /// Takes bytes that a client has sent, and answers them.
    pub(crate) fn take(
        &mut self,
        mut input: &[u8],
        admission: &Admission<'_>,
        output: &mut impl Write,
    ) -> Progress {
        if let Some(first) = input.first()
            && !std::mem::replace(&mut self.begun, true)
            && !is_protocol(*first)
        {
            return Progress::Refused;
        }
        loop {
            let request = match self.opening.connection.receive(&mut input) {
                None => break,
                Some(Received::Packet(payload)) => Request::parse(payload),
                Some(Received::Lost) => return Progress::Refused,
                Some(Received::Unreadable(_)) => {
                    self.send(&Reply::Error(Failure::text(WANTED)));
                    continue;
                }
                Some(Received::Interrupt | Received::Notification(_)) => continue,
            };
            let Ok(request) = request else {
                self.send(&Reply::Error(Failure::text(WANTED)));
                continue;
            };
            let admitted = self.answer(request, admission);
            if self.write(output).is_err() {
                return Progress::Refused;
            }
            match admitted {
                Some(true) => {
                    let mut opening = std::mem::replace(&mut self.opening, Opening::new());
                    opening.input = input.to_vec();
                    return Progress::Admitted(Box::new(opening));
                }
                Some(false) => return Progress::Refused,
                None => {}
            }
        }
        match self.write(output) {
            Ok(()) => Progress::Waits,
            Err(_) => Progress::Refused,
        }
    }

    /// Answers a request. Returns whether the client is accepted or refused, if that is decided.
    fn answer(&mut self, request: Request, admission: &Admission<'_>) -> Option<bool> {
        let reply = match &request {
            Request::Feature(FeatureRequest::Supported { .. }) => {
                let reply = Reply::Features(announced(admission.features.clone()));
                self.keep(request);
                reply
            }
            Request::Setting(SettingRequest::NoAcknowledgements) => {
                self.send(&Reply::Ok);
                self.opening.connection.stop_acknowledging();
                return None;
            }
            Request::Setting(setting) => {
                if let SettingRequest::NonStop { on } = setting {
                    self.non_stop = *on;
                }
                self.keep(request);
                Reply::Ok
            }
            Request::Process(ProcessRequest::ExtendedMode) => {
                self.keep(request);
                Reply::Ok
            }
            Request::Process(ProcessRequest::Monitor { command }) => {
                return self.monitor(command, admission);
            }
            Request::Process(ProcessRequest::WhyStopped) if self.non_stop => Reply::Ok,
            Request::Process(ProcessRequest::WhyStopped) => Reply::Stop(StopReply::Exited {
                status: 0,
                process: None,
            }),
            Request::Process(ProcessRequest::Detach { .. }) => {
                self.send(&Reply::Ok);
                return Some(false);
            }
            Request::Process(ProcessRequest::MustReplyEmpty) | Request::Unknown(_) => {
                Reply::Unsupported
            }
            Request::Thread(
                ThreadRequest::Select { .. } | ThreadRequest::SelectForResuming { .. },
            ) => Reply::Ok,
            Request::Thread(ThreadRequest::FirstThreads | ThreadRequest::MoreThreads)
            | Request::Trace(
                TraceRequest::FirstPiece
                | TraceRequest::MorePieces
                | TraceRequest::FirstVariable
                | TraceRequest::MoreVariables,
            ) => Reply::End,
            // GDB stops asking for the status of a trace run after one request without an answer.
            Request::Trace(TraceRequest::Status) => {
                Reply::TraceStatus(Box::new(Status::from(StatusFields {
                    stop_reason: Some(StopReason::NotRun),
                    ..StatusFields::default()
                })))
            }
            _ => Reply::Error(Failure::text(WANTED)),
        };
        self.send(&reply);
        None
    }

    /// Keeps a request for the session.
    fn keep(&mut self, request: Request) {
        let requests = &mut self.opening.requests;
        if requests.len() < MOST_SETTINGS {
            requests.push(request);
        }
    }

    fn monitor(&mut self, HexBytes(command): &HexBytes, admission: &Admission<'_>) -> Option<bool> {
        let word = command
            .trim_ascii()
            .strip_prefix(b"auth ")
            .map(<[u8]>::trim_ascii);
        let (words, reply, admitted) = match word {
            Some(word) if admission.token.is(word) => {
                (admission.hint.clone(), Reply::Ok, Some(true))
            }
            Some(_) => {
                self.guesses += 1;
                let over = self.guesses >= MOST_GUESSES;
                (
                    "That is not the token.\n".to_owned(),
                    Reply::Error(Failure::Number(1)),
                    over.then_some(false),
                )
            }
            None => (
                format!("{WANTED}\n"),
                Reply::Error(Failure::Number(1)),
                None,
            ),
        };
        if !words.is_empty() {
            self.send(&Reply::Output(HexBytes(words.into_bytes())));
        }
        self.send(&reply);
        admitted
    }

    fn send(&mut self, reply: &Reply) {
        self.reply.clear();
        reply.print(&mut self.reply);
        self.opening.connection.send(&self.reply);
    }

    fn write(&mut self, output: &mut impl Write) -> io::Result<()> {
        let connection = &mut self.opening.connection;
        output.write_all(connection.output())?;
        connection.written(usize::MAX);
        output.flush()
    }
}

/// Waits until a client has given the token; none when it goes, or must go.
pub(crate) fn admit(
    transport: &mut (impl Read + Write),
    admission: &Admission<'_>,
) -> Option<Opening> {
    let mut handshake = Handshake::new();
    let mut buffer = [0; 0x1000];
    loop {
        let count = match transport.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        match handshake.take(bytes, admission, transport) {
            Progress::Waits => {}
            Progress::Admitted(opening) => return Some(*opening),
            Progress::Refused => return None,
        }
    }
}
