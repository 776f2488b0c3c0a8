//! A connection's state without its transport: what to acknowledge, what to send again.

use super::{ACK, Decoder, Encoder, Event, INTERRUPT, NAK, Side, Unreadable};

/// A received packet or event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received<'a> {
    /// A packet, already acknowledged if needed.
    Packet(&'a [u8]),
    /// A notification.
    Notification(&'a [u8]),
    /// The client requests an interrupt.
    Interrupt,
    /// A packet that was not understood as such; it was acknowledged, and should be answered with an error.
    Unreadable(Unreadable),
    /// The other side requested the last packet too often; the connection is unusable.
    Lost,
}

/// How often a packet is sent again, which is GDB's own patience.
const MAX_RESENDS: u8 = 3;

/// One end of a connection. Bytes from the transport go into [`Self::receive`]; bytes for it come from
/// [`Self::output`].
///
/// ```
/// use tracewire_packets::frame::{Connection, Received, Side};
///
/// let mut stub = Connection::new(Side::Server, 0x4000);
/// let mut bytes: &[u8] = b"+$qC#b4";
/// assert_eq!(stub.receive(&mut bytes), Some(Received::Packet(b"qC")));
/// assert_eq!(stub.receive(&mut bytes), None);
/// stub.send(b"QCp1.1");
/// assert_eq!(stub.output(), b"+$QCp1.1#94");
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    decoder: Decoder,
    encoder: Encoder,
    acknowledging: bool,
    output: Vec<u8>,
    /// The last packet sent, framed, until the other side has it.
    unacknowledged: Vec<u8>,
    resends: u8,
}

impl Connection {
    /// A new connection, on which packets are acknowledged. A payload longer than `limit` bytes is refused.
    #[must_use]
    pub fn new(side: Side, limit: usize) -> Self {
        Self {
            decoder: Decoder::new(side, limit),
            encoder: match side {
                Side::Client => Encoder::plain(),
                Side::Server => Encoder::with_runs(),
            },
            acknowledging: true,
            output: Vec::new(),
            unacknowledged: Vec::new(),
            resends: 0,
        }
    }

    /// No acknowledgements from now on: both sides agreed by `QStartNoAckMode` and its `OK`. Later ones are ignored.
    pub fn stop_acknowledging(&mut self) {
        self.acknowledging = false;
        self.unacknowledged.clear();
    }

    /// Consumes input up to the next packet or event; `None` when the input is used up.
    pub fn receive(&mut self, input: &mut &[u8]) -> Option<Received<'_>> {
        loop {
            match self.decoder.decode(input)? {
                Event::Packet => {
                    self.acknowledge(ACK);
                    return Some(Received::Packet(self.decoder.payload()));
                }
                // It would not be sent again, so it is accepted, as by gdbserver.
                Event::Damaged { .. } if !self.acknowledging => {
                    return Some(Received::Packet(self.decoder.payload()));
                }
                Event::Damaged { .. } => self.acknowledge(NAK),
                Event::Unreadable(why) => {
                    self.acknowledge(ACK);
                    return Some(Received::Unreadable(why));
                }
                Event::Notification => {
                    return Some(Received::Notification(self.decoder.payload()));
                }
                Event::Interrupt => return Some(Received::Interrupt),
                Event::Ack => self.unacknowledged.clear(),
                Event::Nak => {
                    if !self.unacknowledged.is_empty() {
                        self.resends += 1;
                        if self.resends > MAX_RESENDS {
                            return Some(Received::Lost);
                        }
                        self.output.extend_from_slice(&self.unacknowledged);
                    }
                }
                Event::Garbage(_) => {}
            }
        }
    }

    fn acknowledge(&mut self, byte: u8) {
        if self.acknowledging {
            self.output.push(byte);
        }
    }

    /// Sends a packet, whose binary data is escaped already.
    pub fn send(&mut self, payload: &[u8]) {
        let start = self.output.len();
        self.encoder.packet(payload, &mut self.output);
        self.resends = 0;
        self.unacknowledged.clear();
        if self.acknowledging {
            self.unacknowledged.extend_from_slice(&self.output[start..]);
        }
    }

    /// Sends a notification, which is not acknowledged.
    pub fn notify(&mut self, payload: &[u8]) {
        self.encoder.notification(payload, &mut self.output);
    }

    /// Sends the interrupt byte.
    pub fn interrupt(&mut self) {
        self.output.push(INTERRUPT);
    }

    /// The bytes to write to the transport.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of the output were written.
    pub fn written(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }
}
