//! A session with a debugger: requests in, replies out, until one side ends it.

use std::io::{self, Read, Write};

use tracewire_packets::family::features::{FeatureList, FeatureRequest};
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::frame::{Connection, Received, Unreadable};
use tracewire_packets::log::Direction;
use tracewire_packets::{Failure, Notification, Reply, Request};

use crate::access::is_protocol;
use crate::handshake::Opening;
use crate::log::SessionLog;

/// The longest packet that is taken, in bytes of payload, which is what `PacketSize` announces. It is gdbserver's own,
/// so that GDB cuts its requests as it does with that.
pub const PACKET_SIZE: usize = 0x47ff;

/// A session's answers to requests.
pub trait Responder {
    /// The features to announce in answer to `qSupported`, in addition to the session's own. A new client starts with
    /// this request.
    fn features(&mut self, client: &FeatureList) -> FeatureList;

    /// Answers a request. A reply should fit [`PACKET_SIZE`] if the request permits parts.
    fn respond(&mut self, request: &Request) -> Answer;

    /// The client has requested an interrupt, between two packets.
    fn interrupted(&mut self) {}

    /// Called when no input of the client is left: waits for something to send without a request.
    fn unsolicited(&mut self) -> Unsolicited {
        Unsolicited::Nothing
    }
}

/// What a session sends without a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unsolicited {
    /// A notification.
    Notification(Notification),
    /// Nothing yet: the client may have sent something.
    Interrupted,
    /// Nothing before the client's next packet.
    Nothing,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A reply.
    Reply(Reply),
    /// Text for the user, then a reply.
    Output(String, Reply),
    /// A reply, which is the last one.
    Last(Reply),
    /// No reply.
    Silence,
    /// No reply, and the session ends.
    End,
}

impl Answer {
    /// A failure, with a text for GDB's user.
    #[must_use]
    pub fn failed(text: &str) -> Self {
        Self::Reply(Reply::Error(Failure::text(text)))
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The connection ended without a request.
    Vanished,
    /// The client detached, or killed the program.
    Left,
}

/// How many bytes are read at a time.
const READ: usize = 0x10000;

/// Serves one client until it disconnects.
///
/// # Errors
/// When the transport fails in another way than by a disconnect.
pub fn run(
    transport: &mut (impl Read + Write),
    responder: &mut dyn Responder,
    log: &SessionLog,
) -> io::Result<Ended> {
    run_on(transport, |_| true, responder, log, Opening::new())
}

/// As [`run`], for a transport that can check for input; and where the connection is from.
pub(crate) fn run_on<T: Read + Write>(
    transport: &mut T,
    mut has_sent: impl FnMut(&mut T) -> bool,
    responder: &mut dyn Responder,
    log: &SessionLog,
    opening: Opening,
) -> io::Result<Ended> {
    let Opening {
        connection,
        requests,
        input,
    } = opening;
    let mut session = Session {
        connection,
        log,
        reply: Vec::new(),
    };
    for request in &requests {
        // The client has its answer.
        if let Request::Feature(FeatureRequest::Supported { features }) = request {
            responder.features(&features.clone().unwrap_or_default());
        } else {
            responder.respond(request);
        }
    }
    let mut begun = !requests.is_empty();
    if let Some(ended) = session.take(&input, transport, responder)? {
        return Ok(ended);
    }
    let mut buffer = vec![0; READ];
    loop {
        while !has_sent(transport) {
            let notification = match responder.unsolicited() {
                Unsolicited::Notification(notification) => notification,
                Unsolicited::Interrupted => continue,
                Unsolicited::Nothing => break,
            };
            session.notify(&notification);
            if !session.write(transport)? {
                return Ok(Ended::Vanished);
            }
        }
        let count = match transport.read(&mut buffer) {
            Ok(0) => return Ok(Ended::Vanished),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_gone(&error) => return Ok(Ended::Vanished),
            Err(error) => return Err(error),
        };
        let input = buffer.get(..count).unwrap_or_default();
        // A browser, for one: a web page may have it post packets.
        if !std::mem::replace(&mut begun, true) && !input.first().copied().is_some_and(is_protocol)
        {
            return Ok(Ended::Vanished);
        }
        if let Some(ended) = session.take(input, transport, responder)? {
            return Ok(ended);
        }
    }
}

/// The features that a session announces: its own and these.
pub(crate) fn announced(more: FeatureList) -> FeatureList {
    let mut announced = FeatureList::default();
    announced.announce_value("PacketSize", format!("{PACKET_SIZE:x}"));
    announced.announce("QStartNoAckMode");
    announced.0.extend(more.0);
    announced
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::BrokenPipe
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::NotConnected
            | Kind::UnexpectedEof
            // The error of a write that timed out.
            | Kind::WouldBlock
            | Kind::TimedOut
    )
}

struct Session<'a> {
    connection: Connection,
    log: &'a SessionLog,
    reply: Vec<u8>,
}

impl Session<'_> {
    /// Answers the client's input. Returns how the session ended, if it did.
    fn take(
        &mut self,
        mut input: &[u8],
        transport: &mut impl Write,
        responder: &mut dyn Responder,
    ) -> io::Result<Option<Ended>> {
        let mut ended = None;
        while ended.is_none() {
            let Some(next) = self.next(&mut input, responder) else {
                break;
            };
            ended = next;
            // Written after each reply: a client that sends many requests and reads nothing must not make us buffer all
            // replies.
            if !self.write(transport)? {
                return Ok(Some(Ended::Vanished));
            }
        }
        // Acknowledgements without a reply.
        if !self.write(transport)? {
            return Ok(Some(Ended::Vanished));
        }
        Ok(ended)
    }

    /// Writes the output; false when the client has gone.
    fn write(&mut self, transport: &mut impl Write) -> io::Result<bool> {
        let output = self.connection.output();
        if output.is_empty() {
            return Ok(true);
        }
        match transport.write_all(output).and_then(|()| transport.flush()) {
            Ok(()) => {
                self.connection.written(usize::MAX);
                Ok(true)
            }
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Answers the next packet of the input. `None` if there are no more packets; else how the session ended, if it did.
    fn next(&mut self, input: &mut &[u8], responder: &mut dyn Responder) -> Option<Option<Ended>> {
        let request = match self.connection.receive(input)? {
            Received::Packet(payload) => {
                let request = Request::parse(payload);
                self.log
                    .packet(Direction::Request, payload, || match &request {
                        Ok(request) => request.explain(),
                        Err(error) => format!("malformed: {error}"),
                    });
                request
            }
            Received::Unreadable(why) => {
                let text = match why {
                    Unreadable::TooLong => "the packet is longer than PacketSize",
                    Unreadable::BadRun => "the packet cannot be read",
                };
                self.send(&Reply::Error(Failure::text(text)));
                return Some(None);
            }
            Received::Lost => return Some(Some(Ended::Vanished)),
            Received::Interrupt => {
                responder.interrupted();
                return Some(None);
            }
            // A client does not notify.
            Received::Notification(_) => return Some(None),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                self.send(&Reply::Error(Failure::text(&error.to_string())));
                return Some(None);
            }
        };
        Some(self.answer(&request, responder))
    }

    fn answer(&mut self, request: &Request, responder: &mut dyn Responder) -> Option<Ended> {
        let answer = match request {
            Request::Feature(FeatureRequest::Supported { features }) => {
                let more = responder.features(&features.clone().unwrap_or_default());
                Answer::Reply(Reply::Features(announced(more)))
            }
            Request::Setting(SettingRequest::NoAcknowledgements) => {
                self.send(&Reply::Ok);
                self.connection.stop_acknowledging();
                return None;
            }
            Request::Unknown(_) => Answer::Reply(Reply::Unsupported),
            request => responder.respond(request),
        };
        match answer {
            Answer::Reply(reply) => self.send(&reply),
            Answer::Output(text, reply) => {
                self.send(&Reply::Output(tracewire_packets::HexBytes(
                    text.into_bytes(),
                )));
                self.send(&reply);
            }
            Answer::Last(reply) => {
                self.send(&reply);
                return Some(Ended::Left);
            }
            Answer::Silence => {}
            Answer::End => return Some(Ended::Left),
        }
        None
    }

    fn notify(&mut self, notification: &Notification) {
        self.reply.clear();
        notification.print(&mut self.reply);
        self.log.packet(
            Direction::Notification,
            &self.reply,
            || match notification {
                Notification::Stop(stop) => stop.to_string(),
                Notification::Other(_) => String::new(),
            },
        );
        self.connection.notify(&self.reply);
    }

    fn send(&mut self, reply: &Reply) {
        self.reply.clear();
        reply.print(&mut self.reply);
        self.log
            .packet(Direction::Reply, &self.reply, || reply.to_string());
        self.connection.send(&self.reply);
    }
}
