//! QEMU4V's lines. They are written by the hundred million, so each piece is copied and nothing is formatted in general.

use crate::api::Access;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A time as text, which each line of an instruction begins with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Time {
    number: u64,
}

impl Time {
    pub fn advance(&mut self) {
        self.number += 1;
    }

    /// Appends the number and the scale.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self.number).as_bytes());
        out.extend_from_slice(b" clk ");
    }

    /// Appends the number.
    #[inline]
    pub fn write_number(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self.number).as_bytes());
    }
}

/// Appends a number as so many hex digits, the lowest ones.
#[inline]
pub fn hex(out: &mut Vec<u8>, value: u64, digits: usize) {
    let mut text = [b'0'; 16];
    for (place, digit) in text.iter_mut().rev().enumerate() {
        *digit = DIGITS[(value >> (4 * place)) as usize & 15];
    }
    out.extend_from_slice(&text[16 - digits.min(16)..]);
}

/// Appends bytes as hex, the last or the first one first.
pub fn bytes<'b>(out: &mut Vec<u8>, bytes: impl Iterator<Item = &'b u8>) {
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Appends what follows the time in the line of an access. The data is the number in the machine's byte order.
pub fn access(out: &mut Vec<u8>, access: &Access, is_big: bool, address_digits: usize) {
    out.extend_from_slice(if access.is_store { b"MW" } else { b"MR" });
    out.extend_from_slice(match access.size {
        1 => b"1 ",
        2 => b"2 ",
        4 => b"4 ",
        8 => b"8 ",
        _ => b"16 ",
    });
    hex(out, access.address, address_digits);
    out.push(b' ');
    let digits = usize::from(access.size) * 2;
    let value = if access.is_big == is_big {
        access.value
    } else {
        access.value.swap_bytes() >> (128 - 8 * u32::from(access.size))
    };
    if digits > 16 {
        hex(out, (value >> 64) as u64, digits - 16);
    }
    hex(out, value as u64, digits);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_of_the_other_byte_order_is_turned() {
        let read = Access {
            address: 0x1234,
            size: 2,
            is_store: false,
            is_big: true,
            value: 0xabcd,
        };
        let mut out = Vec::new();
        access(&mut out, &read, true, 8);
        access(&mut out, &read, false, 8);
        let wide = Access {
            size: 16,
            is_store: true,
            is_big: false,
            value: 1 << 64 | 2,
            ..read
        };
        access(&mut out, &wide, false, 16);
        let text = String::from_utf8(out).expect("ASCII");
        assert_eq!(
            text,
            "MR2 00001234 abcd\nMR2 00001234 cdab\n\
             MW16 0000000000001234 00000000000000010000000000000002\n"
        );
    }
}
