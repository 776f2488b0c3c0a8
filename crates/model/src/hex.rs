//! Hexadecimal digits: numbers, and bytes as pairs of digits.

use std::fmt;

const fn digit_values() -> [u8; 256] {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
}

const fn digit_pairs() -> [[u8; 2]; 256] {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [
            b"0123456789abcdef"[byte >> 4],
            b"0123456789abcdef"[byte & 15],
        ];
        byte += 1;
    }
    pairs
}

static VALUES: [u8; 256] = digit_values();
static PAIRS: [[u8; 2]; 256] = digit_pairs();

/// The value of a digit; more than 15 for other bytes.
#[inline]
#[must_use]
pub fn digit(byte: u8) -> u8 {
    VALUES[usize::from(byte)]
}

/// Appends two lower-case digits for each byte.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len() * 2, 0);
    // Written in place: four times as fast as pushing.
    write_pairs(bytes, &mut out[start..]);
}

/// Writes two digits for each byte, as far as there is room.
fn write_pairs(bytes: &[u8], out: &mut [u8]) {
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

/// The bytes of pairs of digits; `None` when a byte is no digit or a digit has no partner.
#[must_use]
pub fn decode(digits: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decode_onto(digits, &mut bytes)?;
    Some(bytes)
}

/// Appends the bytes of pairs of digits; `None`, with undefined appended bytes, when a byte is no digit or a digit has no partner.
#[must_use]
pub fn decode_onto(digits: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let mut bad = 0;
    out.extend(pairs.iter().map(|[high, low]| {
        let (high, low) = (digit(*high), digit(*low));
        // One test at the end instead of one a byte: a bad digit is the only one over 15.
        bad |= high | low;
        high << 4 | low & 15
    }));
    (bad <= 15).then_some(())
}

/// Appends two lower-case digits for each byte.
pub fn push(text: &mut String, bytes: &[u8]) {
    text.reserve(bytes.len() * 2);
    // Not character by character: each would be encoded by itself.
    let mut digits = [0; 64];
    for some in bytes.chunks(digits.len() / 2) {
        write_pairs(some, &mut digits);
        let digits = str::from_utf8(&digits[..some.len() * 2]);
        text.push_str(digits.expect("digits are ASCII"));
    }
}

/// Two lower-case digits for each byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    push(&mut text, bytes);
    text
}

/// The value of digits; none where there is no digit, where one is bad, or where it does not fit 64 bits.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    let value = digits.iter().try_fold(0u64, |value, byte| {
        let digit = digit(*byte);
        (value >> 60 == 0 && digit <= 15).then(|| value << 4 | u64::from(digit))
    })?;
    (!digits.is_empty()).then_some(value)
}

/// The eight digits of a number, lower-case, with zeros in front.
#[inline]
#[must_use]
pub const fn eight_digits(number: u32) -> [u8; 8] {
    let mut digits = number as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & (0x0f * EACH);
    let letters = (digits + 6 * EACH) >> 4 & EACH;
    let text = digits + b'0' as u64 * EACH + letters * (b'a' - b'0' - 10) as u64;
    text.to_be_bytes()
}

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

/// Bytes shown as pairs of lower-case digits.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 64];
        self.0.chunks(digits.len() / 2).try_for_each(|bytes| {
            write_pairs(bytes, &mut digits);
            let digits = std::str::from_utf8(&digits[..bytes.len() * 2]);
            f.write_str(digits.map_err(|_| fmt::Error)?)
        })
    }
}

/// Appends a number without leading zeros.
pub fn put_number(value: u64, out: &mut Vec<u8>) {
    put_padded(value, 1, out);
}

/// Appends a number with at least so many digits.
pub fn put_padded(value: u64, least: u32, out: &mut Vec<u8>) {
    let digits = (u64::BITS - value.leading_zeros()).div_ceil(4).max(least);
    for place in (0..digits).rev() {
        let nibble = value.checked_shr(place * 4).unwrap_or(0) & 15;
        out.push(PAIRS[nibble as usize][1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_those_of_the_formatter() {
        let all = (0..32).map(|shift| 0x9abc_def1_u32.rotate_left(shift));
        for number in all.chain([0, 9, 10, 15, 16, u32::MAX]) {
            let digits = eight_digits(number);
            assert_eq!(digits[..], *format!("{number:08x}").as_bytes());
            assert_eq!(super::number(&digits), Some(u64::from(number)));
        }
    }
}
