//! Bytes as pairs of hexadecimal digits, and back.

use std::fmt::Write as _;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Adds the bytes, two lower-case digits each.
pub(crate) fn push(text: &mut String, bytes: &[u8]) {
    text.reserve(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// The bytes, two lower-case digits each.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    push(&mut text, bytes);
    text
}

/// Adds a number as `0x…` without leading zeros, from its bytes, most significant first.
pub(crate) fn push_number<'b>(text: &mut String, bytes: impl ExactSizeIterator<Item = &'b u8>) {
    text.push_str("0x");
    let start = text.len();
    for byte in bytes {
        if text.len() > start {
            push(text, &[*byte]);
        } else if *byte != 0 {
            // A String can be written to.
            let _ = write!(text, "{byte:x}");
        }
    }
    if text.len() == start {
        text.push('0');
    }
}

/// The bytes that pairs of digits stand for.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decode_onto(&mut bytes, digits)?;
    Some(bytes)
}

/// Adds the bytes that pairs of digits stand for.
pub(crate) fn decode_onto(bytes: &mut Vec<u8>, digits: &str) -> Option<()> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    bytes.reserve(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(())
}

/// Fills `bytes` with the number that `0x…` stands for, most significant first; `None` if it is none or does not fit.
pub(crate) fn decode_number(text: &str, bytes: &mut [u8]) -> Option<()> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.is_empty() {
        return None;
    }
    bytes.fill(0);
    let mut places = bytes.iter_mut().rev();
    for pair in digits.rchunks(2) {
        let value = pair
            .iter()
            .try_fold(0, |value, byte| Some(value << 4 | digit(*byte)?))?;
        match places.next() {
            Some(place) => *place = value,
            // Leading zeros are as good as none.
            None if value == 0 => {}
            None => return None,
        }
    }
    Some(())
}

fn digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width() {
        let write = |bytes: &[u8]| {
            let mut text = String::new();
            push_number(&mut text, bytes.iter());
            text
        };
        assert_eq!(write(&[0, 0, 0x1a, 0]), "0x1a00");
        assert_eq!(write(&[0; 32]), "0x0");
        let read = |text, size| {
            let mut bytes = vec![0xff; size];
            decode_number(text, &mut bytes).map(|()| bytes)
        };
        assert_eq!(read("0x1a00", 4), Some(vec![0, 0, 0x1a, 0]));
        assert_eq!(read("0x00012", 1), Some(vec![0x12]));
        for wrong in ["", "12", "0x", "0x123", "0x1g"] {
            assert_eq!(read(wrong, 1), None, "{wrong}");
        }
        assert_eq!(decode("0aFF"), Some(vec![10, 255]));
        assert_eq!(decode("0"), None);
    }
}
