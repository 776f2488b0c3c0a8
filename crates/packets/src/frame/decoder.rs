//! Bytes in, packets out.

use super::Side;
use tracewire_model::hex;

/// The result of decoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet with a good checksum; [`Decoder::payload`] has it.
    Packet,
    /// A notification (`%…`) with a good checksum; [`Decoder::payload`] has it. It is never acknowledged.
    Notification,
    /// A packet whose checksum is wrong; [`Decoder::payload`] has what arrived.
    Damaged {
        /// The checksum that was computed.
        computed: u8,
        /// The checksum that was sent; none when it was not two hexadecimal digits.
        sent: Option<u8>,
    },
    /// A packet longer than the limit, or one with a run that cannot be expanded; its payload is lost.
    Unreadable(Unreadable),
    /// `+`: the other side has the last packet.
    Ack,
    /// `-`: the other side requests the last packet again.
    Nak,
    /// Byte 3, outside a packet: stop the program.
    Interrupt,
    /// This many bytes outside of packets were skipped.
    Garbage(usize),
}

/// Why a packet's payload is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It is longer than the limit, once runs are expanded.
    TooLong,
    /// `*` at the start, or with a count that is none.
    BadRun,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Between packets; so many bytes of garbage were seen.
    Outside {
        garbage: usize,
    },
    Payload,
    /// The byte after `*`.
    RunCount,
    /// After `#`; the first digit's value once it is there.
    Checksum {
        first: Option<u8>,
    },
}

/// An incremental decoder of frames. It holds at most one payload, of at most the limit it was made with.
///
/// A `$` inside a packet starts a new one, as in GDB: the end of the old one was lost.
#[derive(Clone, Debug)]
pub struct Decoder {
    side: Side,
    limit: usize,
    state: State,
    payload: Vec<u8>,
    notification: bool,
    unreadable: Option<Unreadable>,
    sum: u8,
}

/// The longest run of one byte, and the bias that makes a count printable.
const RUN_BIAS: u8 = 29;

impl Decoder {
    /// A decoder whose payloads are at most `limit` bytes, expanded.
    #[must_use]
    pub const fn new(side: Side, limit: usize) -> Self {
        Self {
            side,
            limit,
            state: State::Outside { garbage: 0 },
            payload: Vec::new(),
            notification: false,
            unreadable: None,
            sum: 0,
        }
    }

    /// The payload of the event that was returned last: runs are expanded, escapes are as they came.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Takes bytes from the front of the input up to the next event; none when the input ran out first.
    pub fn decode(&mut self, input: &mut &[u8]) -> Option<Event> {
        while let Some((&byte, rest)) = input.split_first() {
            match self.state {
                State::Outside { garbage } => {
                    let simple = match byte {
                        b'$' | b'%' => None,
                        b'+' => Some(Event::Ack),
                        b'-' => Some(Event::Nak),
                        0x03 => Some(Event::Interrupt),
                        _ => {
                            *input = rest;
                            self.state = State::Outside {
                                garbage: garbage.saturating_add(1),
                            };
                            continue;
                        }
                    };
                    self.state = State::Outside { garbage: 0 };
                    if garbage > 0 {
                        // The byte itself is looked at again with the next call.
                        return Some(Event::Garbage(garbage));
                    }
                    *input = rest;
                    if simple.is_some() {
                        return simple;
                    }
                    self.start(byte == b'%');
                }
                State::Payload => {
                    let plain = self.plain_length(input);
                    if plain > 0 {
                        self.take(&input[..plain]);
                        *input = &input[plain..];
                        continue;
                    }
                    *input = rest;
                    match byte {
                        b'$' => self.start(false),
                        b'#' => self.state = State::Checksum { first: None },
                        // A run, since for a server plain_length takes the byte.
                        _ => {
                            self.sum = self.sum.wrapping_add(byte);
                            self.state = State::RunCount;
                        }
                    }
                }
                // No count is `#` or `$`: they are what they always are.
                State::RunCount if matches!(byte, b'#' | b'$') => {
                    self.spoil(Unreadable::BadRun);
                    self.state = State::Payload;
                }
                State::RunCount => {
                    *input = rest;
                    self.run(byte);
                }
                // A byte that is no digit belongs to the next packet.
                State::Checksum { .. } if hex::digit(byte) > 15 => {
                    self.state = State::Outside { garbage: 0 };
                    return Some(self.finish(None));
                }
                State::Checksum { first: None } => {
                    *input = rest;
                    self.state = State::Checksum {
                        first: Some(hex::digit(byte)),
                    };
                }
                State::Checksum { first: Some(first) } => {
                    *input = rest;
                    self.state = State::Outside { garbage: 0 };
                    return Some(self.finish(Some(first << 4 | hex::digit(byte))));
                }
            }
        }
        // The rest of the input is at most garbage: reported at once, so that a log has the right order.
        if let State::Outside {
            garbage: garbage @ 1..,
        } = self.state
        {
            self.state = State::Outside { garbage: 0 };
            return Some(Event::Garbage(garbage));
        }
        None
    }

    fn start(&mut self, notification: bool) {
        self.state = State::Payload;
        self.payload.clear();
        self.notification = notification;
        self.unreadable = None;
        self.sum = 0;
    }

    /// How many bytes are before the next one that means something.
    fn plain_length(&self, input: &[u8]) -> usize {
        let found = match self.side {
            Side::Client => memchr::memchr3(b'#', b'$', b'*', input),
            Side::Server => memchr::memchr2(b'#', b'$', input),
        };
        found.unwrap_or(input.len())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.sum = bytes
            .iter()
            .fold(self.sum, |sum, byte| sum.wrapping_add(*byte));
        if self.unreadable.is_some() {
            return;
        }
        if bytes.len() > self.limit.saturating_sub(self.payload.len()) {
            self.spoil(Unreadable::TooLong);
        } else {
            self.payload.extend_from_slice(bytes);
        }
    }

    fn run(&mut self, count: u8) {
        self.sum = self.sum.wrapping_add(count);
        self.state = State::Payload;
        if self.unreadable.is_some() {
            return;
        }
        // A count byte is a printable character.
        let repeats = match count {
            b' '..=b'~' => usize::from(count - RUN_BIAS),
            _ => 0,
        };
        match self.payload.last() {
            Some(_) if repeats > self.limit.saturating_sub(self.payload.len()) => {
                self.spoil(Unreadable::TooLong);
            }
            Some(&last) if repeats > 0 => {
                self.payload.resize(self.payload.len() + repeats, last);
            }
            _ => self.spoil(Unreadable::BadRun),
        }
    }

    /// Forgets the payload, for the first reason there is.
    fn spoil(&mut self, why: Unreadable) {
        self.unreadable.get_or_insert(why);
        self.payload.clear();
    }

    fn finish(&mut self, sent: Option<u8>) -> Event {
        if let Some(unreadable) = self.unreadable {
            return Event::Unreadable(unreadable);
        }
        match (sent == Some(self.sum), self.notification) {
            (true, false) => Event::Packet,
            (true, true) => Event::Notification,
            (false, false) => Event::Damaged {
                computed: self.sum,
                sent,
            },
            // It will not be sent again.
            (false, true) => Event::Garbage(self.payload.len()),
        }
    }
}
