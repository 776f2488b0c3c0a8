//! The value of a register, of which some bits may be unknown.

use std::fmt;

use crate::record::BitRange;

/// Bits, and which of them are known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Limb {
    bits: u64,
    known: u64,
}

/// What is known of a register: its bits, of which some may be unknown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RegisterValue {
    digits: u16,
    low: Limb,
    high: Vec<Limb>,
}

impl RegisterValue {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        digits: 0,
        low: Limb { bits: 0, known: 0 },
        high: Vec::new(),
    };

    /// A number of so many hex digits, at most 16, all of them known.
    #[must_use]
    pub const fn of(value: u64, digits: u8) -> Self {
        let digits = if digits > 16 { 16 } else { digits };
        let known = digits_mask(digits as u32);
        Self {
            digits: digits as u16,
            low: Limb {
                bits: value & known,
                known,
            },
            high: Vec::new(),
        }
    }

    /// How many hex digits the trace writes it with.
    #[must_use]
    pub const fn digits(&self) -> u16 {
        self.digits
    }

    /// How wide it is, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.digits.div_ceil(2) as usize
    }

    /// The number, where the register has at most 64 bits and all are known.
    #[inline]
    #[must_use]
    pub fn known(&self) -> Option<u64> {
        let all = digits_mask(u32::from(self.digits));
        (self.digits > 0 && self.high.is_empty() && self.low.known == all).then_some(self.low.bits)
    }

    /// The number that the lowest 64 bits have, where all of them are known; bits that the register does not have
    /// are zeros.
    #[must_use]
    pub fn low(&self) -> Option<u64> {
        let all = digits_mask(u32::from(self.digits));
        (self.digits > 0 && self.low.known & all == all).then_some(self.low.bits & all)
    }

    /// Whether no bit is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.low.known == 0 && self.high.iter().all(|limb| limb.known == 0)
    }

    /// The bytes from the least significant one on; none for one that is not wholly known.
    pub fn bytes(&self) -> impl Iterator<Item = Option<u8>> + '_ {
        (0..self.size()).map(|at| {
            let limb = self.limb(at / 8);
            let shift = at % 8 * 8;
            let odd = self.digits % 2 == 1 && at + 1 == self.size();
            let needed = if odd { 0x0f } else { 0xff };
            let known = (limb.known >> shift) as u8;
            (known & needed == needed).then_some((limb.bits >> shift) as u8 & needed)
        })
    }

    fn limb(&self, at: usize) -> Limb {
        match at.checked_sub(1) {
            None => self.low,
            Some(at) => self.high.get(at).copied().unwrap_or_default(),
        }
    }

    fn limb_mut(&mut self, at: usize) -> &mut Limb {
        match at.checked_sub(1) {
            None => &mut self.low,
            Some(at) => {
                if self.high.len() <= at {
                    self.high.resize(at + 1, Limb::default());
                }
                &mut self.high[at]
            }
        }
    }

    /// Puts up to 64 bits at a bit's place.
    fn put(&mut self, at: u32, limb: Limb) {
        let (place, shift) = ((at / 64) as usize, at % 64);
        let low = self.limb_mut(place);
        low.bits = low.bits & !(limb.known << shift) | limb.bits << shift;
        low.known |= limb.known << shift;
        if shift > 0 && limb.known >> (64 - shift) != 0 {
            let high = self.limb_mut(place + 1);
            high.bits = high.bits & !(limb.known >> (64 - shift)) | limb.bits >> (64 - shift);
            high.known |= limb.known >> (64 - shift);
        }
    }

    /// What a value has at some digit on: `at` digits from the least significant.
    pub(crate) fn put_digits(&mut self, at: u32, value: u64, digits: u8) {
        let known = digits_mask(u32::from(digits));
        self.put(
            at * 4,
            Limb {
                bits: value & known,
                known,
            },
        );
    }

    pub(crate) fn set_digits(&mut self, digits: u16) {
        self.digits = digits;
    }

    /// Writes a value to all of the register: unknown digits stay as they were, bits above it are not there any
    /// more.
    #[inline]
    pub fn write(&mut self, value: &Self) {
        if value.high.is_empty() && value.known().is_some() {
            self.digits = value.digits;
            self.low = value.low;
            self.high.clear();
        } else {
            self.write_some(value);
        }
    }

    /// Writes a number of so many digits, at most 16, to all of the register.
    #[inline]
    pub(crate) fn write_number(&mut self, number: u64, digits: u8) {
        let known = digits_mask(u32::from(digits.min(16)));
        self.digits = u16::from(digits.min(16));
        self.low = Limb {
            bits: number & known,
            known,
        };
        self.high.clear();
    }

    fn write_some(&mut self, value: &Self) {
        self.digits = value.digits;
        let bits = u32::from(value.digits) * 4;
        self.high
            .truncate((bits.div_ceil(64) as usize).saturating_sub(1));
        let top = bits / 64;
        for at in 0..=self.high.len() {
            let keep = if at as u32 == top {
                (1 << (bits % 64)) - 1
            } else if (at as u32) < top {
                u64::MAX
            } else {
                0
            };
            let from = value.limb(at);
            let limb = self.limb_mut(at);
            limb.bits = (limb.bits & !from.known | from.bits) & keep;
            limb.known = (limb.known | from.known) & keep;
        }
        for at in self.high.len() + 1..=value.high.len() {
            *self.limb_mut(at) = value.limb(at);
        }
    }

    /// Writes a value to some bits of the register.
    pub fn write_part(&mut self, part: BitRange, value: &Self) {
        let width = u32::from(part.high.saturating_sub(part.low)) + 1;
        for at in 0..width.div_ceil(64) {
            let limb = value.limb(at as usize);
            let left = width - at * 64;
            let mask = if left >= 64 {
                u64::MAX
            } else {
                (1 << left) - 1
            };
            self.put(
                u32::from(part.low) + at * 64,
                Limb {
                    bits: limb.bits & mask & limb.known,
                    known: limb.known & mask,
                },
            );
        }
        let digits = (u32::from(part.high) + 1).div_ceil(4) as u16;
        self.digits = self.digits.max(digits);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        use super::bytes::put;
        let all = self.known();
        put(out, u64::from(self.digits) << 1 | u64::from(all.is_some()));
        if let Some(value) = all {
            return put(out, value);
        }
        put(out, self.high.len() as u64 + 1);
        for at in 0..=self.high.len() {
            let limb = self.limb(at);
            put(out, limb.bits);
            put(out, limb.known);
        }
    }

    pub(crate) fn decode(
        reader: &mut super::bytes::Reader<'_>,
    ) -> Result<Self, super::bytes::Damaged> {
        let head = reader.number()?;
        let digits = u16::try_from(head >> 1).map_err(|_| super::bytes::Damaged)?;
        if head & 1 == 1 {
            let mut value = Self::of(reader.number()?, digits.min(16) as u8);
            value.digits = digits;
            return Ok(value);
        }
        let mut value = Self::UNKNOWN;
        value.digits = digits;
        for at in 0..reader.count()? {
            let (bits, known) = (reader.number()?, reader.number()?);
            *value.limb_mut(at) = Limb {
                bits: bits & known,
                known,
            };
        }
        Ok(value)
    }
}

const fn digits_mask(digits: u32) -> u64 {
    if digits >= 16 {
        u64::MAX
    } else {
        (1 << (digits * 4)) - 1
    }
}

/// The digits, `?` for one that is not wholly known.
impl fmt::Display for RegisterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in (0..usize::from(self.digits)).rev() {
            let limb = self.limb(at / 16);
            let shift = at % 16 * 4;
            if limb.known >> shift & 15 == 15 {
                write!(f, "{:x}", limb.bits >> shift & 15)?;
            } else {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RegisterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisterValue({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a value of single bits.
        #[test]
        fn writes_do_to_bits_what_they_say(writes in proptest::collection::vec(
            (1..40u16, proptest::collection::vec(proptest::option::of(0..16u64), 40), proptest::option::of((0..150u16, 0..150u16))),
            1..6,
        )) {
            let mut value = RegisterValue::UNKNOWN;
            let mut bits: Vec<Option<bool>> = vec![None; 400];
            let mut digits = 0;
            for (width, nibbles, part) in writes {
                let mut written = RegisterValue::UNKNOWN;
                written.set_digits(width);
                let mut written_bits = vec![None; 400];
                for (at, nibble) in nibbles.iter().take(usize::from(width)).enumerate() {
                    if let Some(nibble) = nibble {
                        written.put_digits(at as u32, *nibble, 1);
                        for bit in 0..4 {
                            written_bits[at * 4 + bit] = Some(nibble >> bit & 1 == 1);
                        }
                    }
                }
                match part {
                    None => {
                        value.write(&written);
                        for at in 0..400 {
                            if at >= usize::from(width) * 4 {
                                bits[at] = None;
                            } else if written_bits[at].is_some() {
                                bits[at] = written_bits[at];
                            }
                        }
                        digits = width;
                    }
                    Some((a, b)) => {
                        let part = BitRange { high: a.max(b), low: a.min(b) };
                        value.write_part(part, &written);
                        for at in part.low..=part.high {
                            if let Some(bit) = written_bits[usize::from(at - part.low)] {
                                bits[usize::from(at)] = Some(bit);
                            }
                        }
                        digits = digits.max((part.high + 4) / 4);
                    }
                }
            }
            let shown: String = (0..usize::from(digits)).rev().map(|at| {
                let nibble = bits[at * 4..at * 4 + 4].iter().rev().try_fold(0, |value, bit| Some(value << 1 | u32::from((*bit)?)));
                nibble.and_then(|nibble| char::from_digit(nibble, 16)).unwrap_or('?')
            }).collect();
            prop_assert_eq!(value.to_string(), shown);
            let mut out = Vec::new();
            value.encode(&mut out);
            let back = RegisterValue::decode(&mut super::super::bytes::Reader::new(&out)).unwrap();
            prop_assert_eq!(back.to_string(), value.to_string());
        }
    }
}
