//! Floating-point numbers: IEEE's of 2, 4 and 8 bytes and the x87's of 10, and their decimal text.

use std::fmt;

use super::contents::{Value, number, order, pack};
use crate::float_expr::Format;
use crate::scalar::{Scalar, scalar, strip};
use crate::soft_float::convert;
use tracewire_arch::FloatFormat;
use tracewire_debuginfo::{Symbols, Type};

/// The number of a floating-point value; long doubles lose the precision beyond a double.
pub(crate) fn from_bytes(symbols: &Symbols, value: &Value) -> Option<f64> {
    let Scalar::Float { size } = scalar(symbols, value.type_id) else {
        return None;
    };
    of_size(symbols, value, size)
}

/// The number in the bytes of a value, as a floating-point number of so many bytes.
pub(crate) fn of_size(symbols: &Symbols, value: &Value, size: u64) -> Option<f64> {
    if !value.is_complete() {
        return None;
    }
    let bytes = value.contents.as_slice();
    let raw =
        |count: usize| number(bytes.get(..count)?, false, order(symbols)).map(|raw| raw as u128);
    Some(match size {
        2 if is_brain_float(symbols, value) => f64::from(f32::from_bits((raw(2)? as u32) << 16)),
        4 => f64::from(f32::from_bits(raw(4)? as u32)),
        8 => f64::from_bits(raw(8)? as u64),
        10 | 12 | 16 => f64::from_bits(convert(raw(10)?, Format::Extended, Format::Double) as u64),
        _ => return None,
    })
}

fn is_brain_float(symbols: &Symbols, value: &Value) -> bool {
    matches!(&*strip(symbols, value.type_id).1, Type::Base { name, .. } if name == "bfloat16")
}

/// The bytes of a number as a floating-point type of `size` bytes.
pub(crate) fn to_bytes(symbols: &Symbols, value: f64, size: u64) -> Vec<u8> {
    let order = order(symbols);
    match size {
        4 => pack(i128::from((value as f32).to_bits()), 4, order),
        8 => pack(i128::from(value.to_bits()), 8, order),
        10 | 12 | 16 => {
            let bits = convert(value.to_bits().into(), Format::Double, Format::Extended);
            let mut bytes = pack(bits as i128, 10, order);
            bytes.resize(usize::try_from(size).unwrap_or(16), 0);
            bytes
        }
        _ => vec![0; usize::try_from(size).unwrap_or(0).min(64)],
    }
}

/// A floating-point value as GDB prints it.
pub(crate) fn text(symbols: &Symbols, value: &Value, size: u64) -> Option<String> {
    let raw = number(
        value.contents.get(..size.min(16) as usize)?,
        false,
        order(symbols),
    )? as u128;
    let format = match size {
        2 if is_brain_float(symbols, value) => FloatFormat::BrainFloat,
        2 => FloatFormat::Half,
        4 => FloatFormat::Single,
        8 => FloatFormat::Double,
        10 | 12 => FloatFormat::Extended,
        16 if is_quadruple(symbols, value) => FloatFormat::Quadruple,
        16 => FloatFormat::Extended,
        _ => return None,
    };
    Some(print_float(format, raw))
}

/// The digits that tell numbers of 4 bytes apart, and those of 8 bytes.
const SINGLE_DIGITS: usize = 9;
const DOUBLE_DIGITS: usize = 17;

/// The bits of a floating-point number, as GDB prints them: `%g` with as many digits as the format needs.
#[must_use]
pub fn print_float(format: FloatFormat, raw: u128) -> String {
    match format {
        FloatFormat::Half => binary(raw, 10, 5, 5, 0),
        FloatFormat::BrainFloat => binary(raw << 16, 23, 8, 4, 16),
        FloatFormat::Single => {
            let number = f32::from_bits(raw as u32);
            finite(number.into(), SINGLE_DIGITS)
                .unwrap_or_else(|| binary(raw, 23, 8, SINGLE_DIGITS, 0))
        }
        FloatFormat::Double => {
            let number = f64::from_bits(raw as u64);
            finite(number, DOUBLE_DIGITS).unwrap_or_else(|| binary(raw, 52, 11, DOUBLE_DIGITS, 0))
        }
        FloatFormat::Extended => extended(raw),
        FloatFormat::Quadruple => binary(raw, 112, 15, 36, 0),
    }
}

/// Whether 16 bytes are an IEEE number of 128 bits, and not an x87 number with padding.
fn is_quadruple(symbols: &Symbols, value: &Value) -> bool {
    let x86 = matches!(
        symbols.architecture(),
        Some(tracewire_arch::Architecture::X86_64 | tracewire_arch::Architecture::I386)
    );
    let named = matches!(&*strip(symbols, value.type_id).1, Type::Base { name, .. } if name.contains("128"));
    named || !x86
}

/// A finite number of at most 64 bits as [`decimal`] writes it: Rust's own formatting rounds the exact number in the same way.
fn finite(number: f64, digits: usize) -> Option<String> {
    if !number.is_finite() || number == 0.0 {
        return None;
    }
    if let Some(short) = ShortNumber::new(number, digits) {
        return Some(short.to_string());
    }
    let text = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e')?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let mantissa: String = mantissa.chars().filter(|c| *c != '.').collect();
    let significant = mantissa.trim_end_matches('0');
    let shown = general(significant, exponent.parse().ok()?, digits);
    Some(match sign {
        "" => shown,
        sign => format!("{sign}{shown}"),
    })
}

/// The most places after the point that a [`ShortNumber`] has: 10 to this power is a number of 64 bits.
const MOST_PLACES: u32 = 19;

/// A number whose exact digits are so few that none is rounded, without an exponent: an integer, a price.
pub(super) struct ShortNumber {
    is_negative: bool,
    whole: u64,
    /// The digits after the point, as a number of so many digits.
    part: u64,
    places: u32,
}

impl ShortNumber {
    /// A number of 8 bytes, as GDB prints it; none where it is written in another way.
    pub(super) fn of_double(number: f64) -> Option<Self> {
        Self::new(number, DOUBLE_DIGITS)
    }

    fn new(number: f64, digits: usize) -> Option<Self> {
        const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
        let bits = number.to_bits();
        let raw_exponent = (bits >> FRACTION) as i32 & 0x7ff;
        // Zero and the smallest numbers, infinity and what is no number.
        if matches!(raw_exponent, 0 | 0x7ff) {
            return None;
        }
        let mantissa = bits & ((1 << FRACTION) - 1) | 1 << FRACTION;
        let zeros = mantissa.trailing_zeros();
        let (odd, power) = (mantissa >> zeros, raw_exponent - 1075 + zeros as i32);
        let places = power.min(0).unsigned_abs();
        if places > MOST_PLACES || power > 63 {
            return None;
        }
        // n / 2^k is n * 5^k / 10^k.
        let scale = match power {
            0.. => 1 << power,
            _ => 5_u64.pow(places),
        };
        let most = 10_u64.checked_pow(u32::try_from(digits).ok()?)?;
        let exact = odd.checked_mul(scale).filter(|exact| *exact < most)?;
        let one = 10_u64.pow(places);
        let (whole, part) = (exact / one, exact % one);
        // `%g` writes smaller ones with an exponent.
        let has_exponent = whole == 0 && u128::from(part) * 10_000 < u128::from(one);
        (!has_exponent).then_some(Self {
            is_negative: number < 0.0,
            whole,
            part,
            places,
        })
    }
}

impl fmt::Display for ShortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let (whole, places) = (self.whole, self.places as usize);
        match places {
            0 => write!(f, "{sign}{whole}"),
            _ => write!(f, "{sign}{whole}.{:0places$}", self.part),
        }
    }
}

/// An IEEE number with `fraction_bits` of fraction; `spare` low bits are no part of the format.
fn binary(raw: u128, fraction_bits: u32, exponent_bits: u32, digits: usize, spare: u32) -> String {
    let fraction = raw & ((1 << fraction_bits) - 1);
    let exponent = (raw >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let negative = raw >> (fraction_bits + exponent_bits) & 1 == 1;
    let bias = (1 << (exponent_bits - 1)) - 1;
    if exponent == (1 << exponent_bits) - 1 {
        return special(negative, fraction >> spare, fraction == 0);
    }
    let (mantissa, power) = match exponent {
        0 => (fraction, 1 - bias - fraction_bits as i32),
        _ => (
            fraction | 1 << fraction_bits,
            exponent - bias - fraction_bits as i32,
        ),
    };
    decimal(negative, mantissa, power, digits)
}

fn extended(raw: u128) -> String {
    let mantissa = raw as u64;
    let exponent = ((raw >> 64) & 0x7fff) as i32;
    let negative = raw >> 79 & 1 == 1;
    if exponent == 0x7fff {
        return special(negative, u128::from(mantissa), mantissa << 1 == 0);
    }
    decimal(
        negative,
        u128::from(mantissa),
        exponent.max(1) - 16383 - 63,
        21,
    )
}

fn special(negative: bool, mantissa: u128, infinite: bool) -> String {
    let sign = if negative { "-" } else { "" };
    if infinite {
        format!("{sign}inf")
    } else {
        format!("{sign}nan({mantissa:#x})")
    }
}

/// `mantissa * 2^power` with so many significant digits, as C's `%g` writes it.
fn decimal(negative: bool, mantissa: u128, power: i32, digits: usize) -> String {
    let sign = if negative { "-" } else { "" };
    if mantissa == 0 {
        return format!("{sign}0");
    }
    // The exact decimal digits, and how many of them are after the point.
    let mut number = Large::from(mantissa);
    let mut behind = 0_i32;
    for _ in 0..power.unsigned_abs() {
        if power > 0 {
            number.multiply(2);
        } else {
            // n / 2 is n * 5 / 10.
            number.multiply(5);
            behind += 1;
        }
    }
    let exact = number.digits();
    let mut exponent = exact.len() as i32 - 1 - behind;
    let mut rounded: Vec<u8> = exact.iter().copied().take(digits).collect();
    let rest = exact.get(digits..).unwrap_or(&[]);
    let half = rest.first().copied().unwrap_or(0);
    let beyond = rest.iter().skip(1).any(|digit| *digit != 0);
    let odd = rounded.last().is_some_and(|digit| digit % 2 == 1);
    if half > 5 || half == 5 && (beyond || odd) {
        let mut carry = true;
        for digit in rounded.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                carry = false;
                break;
            }
            *digit = 0;
        }
        if carry {
            rounded.insert(0, 1);
            rounded.pop();
            exponent += 1;
        }
    }
    while rounded.len() > 1 && rounded.last() == Some(&0) {
        rounded.pop();
    }
    let text: String = rounded
        .iter()
        .map(|digit| char::from(b'0' + digit))
        .collect();
    format!("{sign}{}", general(&text, exponent, digits))
}

/// Digits and exponent in the form that `%g` chooses, without trailing zeros.
fn general(text: &str, exponent: i32, digits: usize) -> String {
    let (first, rest) = text.split_at(1);
    if exponent < -4 || exponent >= digits as i32 {
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs());
    }
    match usize::try_from(exponent) {
        Err(_) => format!(
            "0.{}{text}",
            "0".repeat(exponent.unsigned_abs() as usize - 1)
        ),
        Ok(places) if text.len() <= places + 1 => {
            format!("{text}{}", "0".repeat(places + 1 - text.len()))
        }
        Ok(places) => {
            let (whole, fraction) = text.split_at(places + 1);
            format!("{whole}.{fraction}")
        }
    }
}

/// A number of any size, in base 10^9, least significant first.
struct Large(Vec<u32>);

const BASE: u64 = 1_000_000_000;

impl Large {
    fn from(mut number: u128) -> Self {
        let mut parts = Vec::new();
        while number > 0 {
            parts.push((number % u128::from(BASE)) as u32);
            number /= u128::from(BASE);
        }
        Self(parts)
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for part in &mut self.0 {
            let product = u64::from(*part) * u64::from(factor) + carry;
            *part = (product % BASE) as u32;
            carry = product / BASE;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// The decimal digits, most significant first.
    fn digits(&self) -> Vec<u8> {
        let mut digits = Vec::new();
        for part in self.0.iter().rev() {
            digits.extend(format!("{part:09}").bytes().map(|byte| byte - b'0'));
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.split_off(zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::{DOUBLE_DIGITS, SINGLE_DIGITS, binary, finite};

    /// Many numbers from a seed: xorshift.
    fn numbers() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |last| {
            let mut next = *last;
            next ^= next << 13;
            next ^= next >> 7;
            next ^= next << 17;
            Some(next)
        })
    }

    /// Both ways to write a number agree, and so they do on numbers that lie in the middle of two with fewer digits.
    #[test]
    fn finite_numbers_are_written_with_the_digits_of_the_exact_number() {
        let quarters = (0..2_000).map(|n| f64::from(n) * 0.25);
        let middles = (1..2_000).map(|n| 1e17 + f64::from(n) * 16.0 + 2_f64.powi(n % 60));
        let edges = [
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::from_bits(1),
            1e22,
            1e23,
            1e-5,
            1e-4,
        ];
        let all = quarters.chain(middles).chain(edges);
        let all = all.chain(numbers().take(20_000).map(f64::from_bits));
        for number in all.flat_map(|number| [number, -number]) {
            if let Some(text) = finite(number, DOUBLE_DIGITS) {
                let exact = binary(number.to_bits().into(), 52, 11, DOUBLE_DIGITS, 0);
                assert_eq!(text, exact, "{number:?}");
            }
            let single = number as f32;
            if let Some(text) = finite(single.into(), SINGLE_DIGITS) {
                let exact = binary(single.to_bits().into(), 23, 8, SINGLE_DIGITS, 0);
                assert_eq!(text, exact, "{single:?}");
            }
        }
    }
}
