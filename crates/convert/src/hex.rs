//! Bytes as pairs of hexadecimal digits, and back.

use std::fmt::Write as _;

pub(crate) use tracewire_model::hex::{decode, decode_onto, digit, push, text};

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

/// Fills `bytes` with the number `0x…`, most significant first; `None` if it is none or does not fit.
pub(crate) fn decode_number(text: &str, bytes: &mut [u8]) -> Option<()> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if digits.is_empty() {
        return None;
    }
    bytes.fill(0);
    let mut places = bytes.iter_mut().rev();
    for pair in digits.rchunks(2) {
        let value = pair.iter().try_fold(0, |value, byte| {
            let digit = digit(*byte);
            (digit <= 15).then_some(value << 4 | digit)
        })?;
        match places.next() {
            Some(place) => *place = value,
            // Leading zeros are as good as none.
            None if value == 0 => {}
            None => return None,
        }
    }
    Some(())
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
        assert_eq!(decode(b"0aFF"), Some(vec![10, 255]));
        assert_eq!(decode(b"0"), None);
    }
}
