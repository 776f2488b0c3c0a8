//! QEMU4V's lines. They are written by the hundred million: nothing is formatted in general, and pieces are copied in units of fixed
//! size, which costs less than a call of `memcpy` for each few bytes.

use tracewire_model::hex;

use crate::api::Access;

/// The size of the units that a [`Piece`] is copied in, in bytes.
const UNIT: usize = 16;

/// A text that lines have in common.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The text, with zeros up to whole units.
    units: Box<[[u8; UNIT]]>,
    length: usize,
}

impl Piece {
    pub fn new(text: &[u8]) -> Self {
        let units = text.chunks(UNIT).map(|part| {
            let mut unit = [0; UNIT];
            unit[..part.len()].copy_from_slice(part);
            unit
        });
        Self {
            units: units.collect(),
            length: text.len(),
        }
    }
}

/// Lines that are on their way to the file.
#[derive(Debug)]
pub struct Lines {
    /// The lines, and the room after them.
    bytes: Vec<u8>,
    length: usize,
}

impl Lines {
    /// No lines, and room for some. There may be more.
    pub fn with_room(room: usize) -> Self {
        Self {
            bytes: vec![0; room],
            length: 0,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Where the next bytes are written: at least so many.
    #[inline]
    fn room(&mut self, size: usize) -> &mut [u8] {
        if self.bytes.len() - self.length < size {
            self.grow(size);
        }
        &mut self.bytes[self.length..]
    }

    #[cold]
    fn grow(&mut self, size: usize) {
        let least = self.length + size;
        self.bytes.resize(least.max(2 * self.bytes.len()), 0);
    }

    /// Appends the first bytes of an array.
    #[inline]
    pub fn array<const SIZE: usize>(&mut self, bytes: &[u8; SIZE], length: usize) {
        debug_assert!(length <= SIZE);
        self.room(SIZE)[..SIZE].copy_from_slice(bytes);
        self.length += length;
    }

    /// Appends a text.
    #[inline]
    pub fn piece(&mut self, piece: &Piece) {
        let room = self.room(piece.units.len() * UNIT);
        for (to, unit) in room.chunks_exact_mut(UNIT).zip(&piece.units) {
            to.copy_from_slice(unit);
        }
        self.length += piece.length;
    }

    /// Appends a number as so many hex digits, the lowest ones; at most 16.
    #[inline]
    pub fn hex(&mut self, value: u64, digits: usize) {
        debug_assert!(digits <= 16);
        let low_digits = digits.min(8);
        if digits > 8 {
            self.eight_digits((value >> 32) as u32, digits - 8);
        }
        self.eight_digits(value as u32, low_digits);
    }

    #[inline]
    fn eight_digits(&mut self, value: u32, digits: usize) {
        let text = u64::from_be_bytes(hex::eight_digits(value));
        let text = text << (8 * (8 - digits as u32)).min(63);
        self.array(&text.to_be_bytes(), digits);
    }

    /// Appends bytes as hex.
    pub fn hex_bytes<'b>(&mut self, bytes: impl Iterator<Item = &'b u8>) {
        for byte in bytes {
            self.hex(u64::from(*byte), 2);
        }
    }
}

/// A time as text, which each line of an instruction begins with.
#[derive(Clone, Debug)]
pub struct Time {
    /// The number, a space, and what follows.
    text: [u8; 32],
    digits: usize,
}

/// What follows the number of a time.
const SCALE: &[u8; 5] = b" clk ";

impl Default for Time {
    fn default() -> Self {
        let mut text = [0; 32];
        text[0] = b'0';
        text[1..1 + SCALE.len()].copy_from_slice(SCALE);
        Self { text, digits: 1 }
    }
}

impl Time {
    pub fn advance(&mut self) {
        for digit in self.text[..self.digits].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        // All were nines. The longest number of 64 bits, and the scale, are shorter than the array.
        self.text.copy_within(..self.digits + SCALE.len(), 1);
        self.text[0] = b'1';
        self.digits += 1;
    }

    /// Appends the number and the scale.
    #[inline]
    pub fn write(&self, out: &mut Lines) {
        out.array(&self.text, self.digits + SCALE.len());
    }

    /// Appends the number.
    #[inline]
    pub fn write_number(&self, out: &mut Lines) {
        out.array(&self.text, self.digits);
    }
}

/// Appends what follows the time in the line of an access. The data is the number in the machine's byte order.
pub fn access(out: &mut Lines, access: &Access, is_big: bool, address_digits: usize) {
    let mut kind = *if access.is_store { b"MW16 " } else { b"MR16 " };
    let kind_length = if access.size < 16 {
        kind[2] = b'0' + access.size;
        kind[3] = b' ';
        4
    } else {
        5
    };
    out.array(&kind, kind_length);
    out.hex(access.address, address_digits);
    out.array(b" ", 1);
    let digits = usize::from(access.size) * 2;
    let value = if access.is_big == is_big {
        access.value
    } else {
        access.value.swap_bytes() >> (128 - 8 * u32::from(access.size))
    };
    if digits > 16 {
        out.hex((value >> 64) as u64, digits - 16);
    }
    out.hex(value as u64, digits.min(16));
    out.array(b"\n", 1);
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
        let mut out = Lines::with_room(1);
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
        let text = String::from_utf8(out.as_bytes().to_vec()).expect("ASCII");
        assert_eq!(
            text,
            "MR2 00001234 abcd\nMR2 00001234 cdab\n\
             MW16 0000000000001234 00000000000000010000000000000002\n"
        );
    }

    #[test]
    fn a_time_counts_and_hex_has_all_digits() {
        let mut time = Time::default();
        let mut out = Lines::with_room(0);
        for number in 0..=10_001_u64 {
            let value = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let digits = number as usize % 17;
            out.clear();
            time.write(&mut out);
            out.hex(value, digits);
            out.piece(&Piece::new(b" a piece of more than one unit "));
            time.write_number(&mut out);
            out.hex_bytes([0x0f, 0xa0].iter());
            let all = format!("{value:016x}");
            let shown = &all[16 - digits..];
            assert_eq!(
                str::from_utf8(out.as_bytes()).expect("ASCII"),
                format!("{number} clk {shown} a piece of more than one unit {number}0fa0")
            );
            time.advance();
        }
    }
}
