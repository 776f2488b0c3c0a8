//! Logs of sessions: the output of GDB's `set debug remote 1`, and our own form, parsed into packets.
//!
//! GDB's lines are `Sending packet: $…#cc`, `Packet received: …` and `  Notification received: …`, with `[remote] ` before them
//! since GDB 12. Up to GDB 10 the reply is on the request's line, after `...`. Unprintable bytes are escaped as in C. A long packet
//! is cut (`set debug remote-packet-max-chars`), and the log has the number of missing bytes.
//!
//! Our own lines are a time in seconds, `<-` for a request, `->` for a reply or `=>` for a notification. The packet follows, escaped
//! in the same way, then a tab and its meaning:
//!
//! ```
//! use tracewire_packets::log::{Direction, Explainer, packets};
//!
//! let log = b"Sending packet: $m401000,4#f2\nPacket received: 554889e5\n";
//! let mut explainer = Explainer::default();
//! let meanings: Vec<String> = packets(log).map(|packet| explainer.explain(&packet)).collect();
//! assert_eq!(meanings, ["read 4 bytes of memory at 0x401000", "4 bytes"]);
//!
//! let line = tracewire_packets::log::line(1.5, Direction::Request, b"qC", "ask for the current thread");
//! assert_eq!(line, "    1.500000 <- qC\task for the current thread");
//! assert_eq!(packets(line.as_bytes()).next().unwrap().payload, b"qC");
//! ```

use std::fmt::Write;

use crate::explain::{explain_notification, explain_reply, shortened};
use crate::request::Request;

/// Which way a packet went, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
    /// From the server to the client, unasked.
    Notification,
}

/// A packet in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedPacket {
    /// On which line of the log, from 1.
    pub line: usize,
    /// Which way it went.
    pub direction: Direction,
    /// The payload, without framing; binary data is escaped as on the wire.
    pub payload: Vec<u8>,
    /// How many bytes at the end the log left out. For a request that counts the checksum's three.
    pub omitted: usize,
    /// The checksum, where the log has it.
    pub checksum: Option<u8>,
}

const SENT: &[u8] = b"Sending packet: ";
const RECEIVED: &[u8] = b"Packet received: ";
const NOTIFIED: &[u8] = b"Notification received: ";

/// The packets of a log, in order; all other lines are passed over.
pub fn packets(log: &[u8]) -> impl Iterator<Item = LoggedPacket> {
    log.split(|byte| *byte == b'\n')
        .enumerate()
        .flat_map(|(index, line)| on_line(index + 1, line.strip_suffix(b"\r").unwrap_or(line)))
}

fn on_line(number: usize, line: &[u8]) -> Vec<LoggedPacket> {
    if let Some(text) = after(line, SENT) {
        let (request, rest) = sent(number, text);
        let reply = after(rest, RECEIVED).map(|text| received(number, Direction::Reply, text));
        return std::iter::once(request).chain(reply).collect();
    }
    if let Some(text) = after(line, RECEIVED) {
        return vec![received(number, Direction::Reply, text)];
    }
    if let Some(text) = after(line, NOTIFIED) {
        return vec![received(number, Direction::Notification, text)];
    }
    own(number, line).into_iter().collect()
}

/// The text after the words, anywhere in the line.
fn after<'a>(line: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    memchr::memmem::find(line, words).map(|at| &line[at + words.len()..])
}

/// A packet as it was framed, and what follows it on the line.
fn sent(line: usize, text: &[u8]) -> (LoggedPacket, &[u8]) {
    let text = text.strip_prefix(b"$").unwrap_or(text);
    // A `#` in the payload is escaped, so that the first one is the end.
    let end = memchr::memchr(b'#', text);
    let (payload, after, omitted) = match end {
        Some(end) => (&text[..end], &text[end + 1..], 0),
        None => {
            let (payload, omitted) = cut(text);
            (payload, &[][..], omitted)
        }
    };
    let checksum = after
        .get(..2)
        .and_then(tracewire_model::hex::decode)
        .and_then(|byte| byte.first().copied());
    let packet = LoggedPacket {
        line,
        direction: Direction::Request,
        payload: unescape(payload),
        omitted,
        checksum,
    };
    (packet, after.get(2..).unwrap_or_default())
}

fn received(line: usize, direction: Direction, text: &[u8]) -> LoggedPacket {
    let (payload, omitted) = cut(text);
    LoggedPacket {
        line,
        direction,
        payload: unescape(payload),
        omitted,
        checksum: None,
    }
}

/// Without ` [N bytes omitted]`, and N.
fn cut(text: &[u8]) -> (&[u8], usize) {
    let found = || {
        let head = text.strip_suffix(b" bytes omitted]")?;
        let at = memchr::memmem::rfind(head, b" [")?;
        let omitted = std::str::from_utf8(&head[at + 2..]).ok()?.parse().ok()?;
        Some((&head[..at], omitted))
    };
    found().unwrap_or((text, 0))
}

/// A line of our own.
fn own(number: usize, line: &[u8]) -> Option<LoggedPacket> {
    let line = line.trim_ascii_start();
    let time = line
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let (direction, text) = match line.get(time..)?.split_at_checked(4)? {
        (b" <- ", text) => (Direction::Request, text),
        (b" -> ", text) => (Direction::Reply, text),
        (b" => ", text) => (Direction::Notification, text),
        _ => return None,
    };
    let end = memchr::memchr(b'\t', text).unwrap_or(text.len());
    Some(received(number, direction, &text[..end]))
}

/// A line of our own log, without its newline. The time is in seconds.
#[must_use]
pub fn line(time: f64, direction: Direction, payload: &[u8], meaning: &str) -> String {
    let arrow = match direction {
        Direction::Request => "<-",
        Direction::Reply => "->",
        Direction::Notification => "=>",
    };
    format!("{time:12.6} {arrow} {}\t{meaning}", escape(payload))
}

/// In GDB's escaping, with non-ASCII bytes escaped too.
fn escape(payload: &[u8]) -> String {
    let mut text = String::with_capacity(payload.len());
    for byte in payload {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text
}

/// The bytes of a log's text: C's escapes, `\ooo` and `\xNN`. A backslash before other characters is kept.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, length) = escaped(&rest[at + 1..]);
        bytes.push(byte);
        rest = &rest[at + 1 + length..];
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// The byte of the escape after a backslash, and the length of the escape.
fn escaped(text: &[u8]) -> (u8, usize) {
    match text {
        [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), 3)
        }
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => (
            tracewire_model::hex::digit(*high) << 4 | tracewire_model::hex::digit(*low),
            3,
        ),
        [b'n', ..] => (b'\n', 1),
        [b't', ..] => (b'\t', 1),
        [b'r', ..] => (b'\r', 1),
        [b'a', ..] => (0x07, 1),
        [b'b', ..] => (0x08, 1),
        [b'f', ..] => (0x0c, 1),
        [b'v', ..] => (0x0b, 1),
        [b'e', ..] => (0x1b, 1),
        [byte @ (b'\\' | b'"' | b'\''), ..] => (*byte, 1),
        _ => (b'\\', 0),
    }
}

/// Explains the packets of a session in sequence: the meaning of a reply depends on its request.
#[derive(Clone, Debug, Default)]
pub struct Explainer {
    last: Option<Request>,
}

impl Explainer {
    /// The meaning of the packet, in a line.
    pub fn explain(&mut self, packet: &LoggedPacket) -> String {
        let LoggedPacket {
            direction,
            payload,
            omitted,
            ..
        } = packet;
        let (known, text) = match direction {
            Direction::Request => {
                let parsed = Request::parse(payload);
                let text = match &parsed {
                    Ok(request) => request.explain(),
                    Err(error) => format!("malformed: {error}"),
                };
                let prefix = match &parsed {
                    Ok(request) => request.prefix(),
                    Err(error) => error.packet,
                };
                self.last = Some(parsed.unwrap_or_else(|_| Request::Unknown(payload.clone())));
                (prefix, text)
            }
            Direction::Reply => {
                match self.last.take() {
                    Some(request) => {
                        let text = explain_reply(&request, payload);
                        // Output comes before the reply proper.
                        if payload.first() == Some(&b'O') && payload != b"OK" {
                            self.last = Some(request);
                        }
                        ("reply", text)
                    }
                    None => (
                        "reply",
                        format!("`{}`, whose request is missing", shortened(payload)),
                    ),
                }
            }
            Direction::Notification => ("notification", explain_notification(payload)),
        };
        match (omitted, direction) {
            (0, _) => text,
            (_, Direction::Reply) => {
                format!(
                    "`{}` ({omitted} bytes more than the log has)",
                    shortened(payload)
                )
            }
            _ => format!("{known} ({omitted} bytes more than the log has)"),
        }
    }
}
