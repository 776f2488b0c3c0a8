//! Binary data inside a packet: `}` and the byte with bit 5 inverted replace a byte that framing uses.
//!
//! Escapes belong to the packets with binary data (`X`, `vFile:pwrite`, `qXfer`, …), not to framing: gdbserver sends the text of an
//! `E.` reply unescaped, braces included, and GDB reads it unescaped.

/// The escape character.
const ESCAPE: u8 = b'}';

/// The bits that are inverted in an escaped byte.
const TURN: u8 = 0x20;

/// `$` and `#` frame a packet, `}` escapes, `*` starts a run.
const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'$' | b'#' | b'*' | ESCAPE)
}

/// Appends the data, escaped as GDB and gdbserver do it.
pub fn escape(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len());
    let mut rest = data;
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        out.extend([ESCAPE, special[0] ^ TURN]);
        rest = &special[1..];
    }
    out.extend_from_slice(rest);
}

/// How many bytes from the start of the data fit `room` bytes of a packet once they are escaped.
#[must_use]
pub fn escaped_prefix(data: &[u8], room: usize) -> usize {
    let mut used = 0usize;
    data.iter()
        .take_while(|byte| {
            used += 1 + usize::from(needs_escape(**byte));
            used <= room
        })
        .count()
}

/// The data of escaped bytes; `None` when the last byte is an escape character.
#[must_use]
pub fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        let (plain, after) = rest.split_at(at);
        let byte = after.get(1)?;
        data.extend_from_slice(plain);
        data.push(byte ^ TURN);
        rest = &after[2..];
    }
    data.extend_from_slice(rest);
    Some(data)
}
