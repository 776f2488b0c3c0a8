//! Payloads in, bytes out.

use tracewire_model::hex;

/// Byte 3: stop the program. Sent outside a packet, never acknowledged.
pub const INTERRUPT: u8 = 0x03;
/// The last packet arrived.
pub const ACK: u8 = b'+';
/// The last packet arrived damaged; send it again.
pub const NAK: u8 = b'-';

/// An encoder of frames.
///
/// ```
/// use tracewire_packets::frame::Encoder;
///
/// let mut out = Vec::new();
/// Encoder::with_runs().packet(b"0000000000000000", &mut out);
/// assert_eq!(out, b"$0*,#86");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Encoder {
    runs: bool,
}

impl Encoder {
    /// Sends every byte as it is, as a client must.
    #[must_use]
    pub const fn plain() -> Self {
        Self { runs: false }
    }

    /// Sends runs of a byte by their length, as a server may. GDB expands them in any mode.
    #[must_use]
    pub const fn with_runs() -> Self {
        Self { runs: true }
    }

    /// Appends a packet. The payload must have been escaped where it carries binary data: a bare `$` or `#` in it
    /// would end it early.
    pub fn packet(self, payload: &[u8], out: &mut Vec<u8>) {
        self.frame(b'$', payload, out);
    }

    /// Appends a notification.
    pub fn notification(self, payload: &[u8], out: &mut Vec<u8>) {
        self.frame(b'%', payload, out);
    }

    fn frame(self, start: u8, payload: &[u8], out: &mut Vec<u8>) {
        out.reserve(payload.len().saturating_add(4));
        out.push(start);
        let begin = out.len();
        if self.runs {
            encode_runs(payload, out);
        } else {
            out.extend_from_slice(payload);
        }
        let sum = out[begin..]
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        out.push(b'#');
        hex::encode(&[sum], out);
    }
}

/// The longest repeat count: `~` is the last printable character.
const MOST_REPEATS: usize = 97;
/// The shortest repeat count: ` ` is the first printable character.
const FEWEST_REPEATS: usize = 3;

fn encode_runs(payload: &[u8], out: &mut Vec<u8>) {
    let mut rest = payload;
    while let Some(&byte) = rest.first() {
        let length = rest
            .iter()
            .take(MOST_REPEATS + 1)
            .take_while(|next| **next == byte)
            .count();
        let repeats = countable(length - 1);
        out.push(byte);
        if repeats > 0 {
            out.extend([b'*', repeats as u8 + 29]);
        }
        rest = &rest[1 + repeats..];
    }
}

/// The longest valid repeat count up to this many. It is 0 under three. Counts that are written as `#`, `$`, `+` or `-` are
/// skipped, because framing uses these (gdbserver leaves out the last two only because of old stubs).
fn countable(repeats: usize) -> usize {
    match repeats {
        0..FEWEST_REPEATS => 0,
        6 | 7 => 5,
        14 | 16 => repeats - 1,
        _ => repeats,
    }
}
