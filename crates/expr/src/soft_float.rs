//! Floating-point numbers as bits: conversions, and the arithmetic of the format that has no type here.

use std::cmp::Ordering;

use crate::float_expr::Format;
use crate::int_expr::Binary;

/// The x87's answer to what has none.
const INDEFINITE: u128 = 0xffff_c000_0000_0000_0000;

/// The number of a known format that some bits stand for.
enum Number {
    /// Its fraction, with the highest bit of it in bit 62.
    Nan {
        negative: bool,
        fraction: u64,
    },
    Infinite {
        negative: bool,
    },
    Finite(Finite),
}

/// `mantissa * 2^power`.
#[derive(Clone, Copy)]
struct Finite {
    negative: bool,
    mantissa: u64,
    power: i32,
}

impl Format {
    /// The digits of a mantissa, its highest included.
    fn digits(self) -> u32 {
        match self {
            Self::Single => 24,
            Self::Double => 53,
            Self::Extended => 64,
        }
    }

    /// Where the exponent starts.
    fn exponent_at(self) -> u32 {
        match self {
            Self::Extended => 64,
            _ => self.digits() - 1,
        }
    }

    fn largest_exponent(self) -> i32 {
        match self {
            Self::Single => 0xff,
            Self::Double => 0x7ff,
            Self::Extended => 0x7fff,
        }
    }

    fn bias(self) -> i32 {
        self.largest_exponent() / 2
    }

    fn sign(self, negative: bool) -> u128 {
        u128::from(negative) << (self.bits() - 1)
    }

    fn infinity(self, negative: bool) -> u128 {
        let integer = match self {
            Self::Extended => 1 << 63,
            _ => 0,
        };
        self.sign(negative) | (self.largest_exponent() as u128) << self.exponent_at() | integer
    }

    fn unpack(self, bits: u128) -> Number {
        let negative = bits >> (self.bits() - 1) & 1 == 1;
        let exponent = (bits >> self.exponent_at()) as i32 & self.largest_exponent();
        let below = bits as u64 & (u64::MAX >> (64 - self.exponent_at()));
        // The highest digit of a mantissa is stored by one format only.
        let fraction = below << (64 - self.digits()) & (u64::MAX >> 1);
        if exponent == self.largest_exponent() {
            return if fraction == 0 {
                Number::Infinite { negative }
            } else {
                Number::Nan { negative, fraction }
            };
        }
        let highest = match self {
            Self::Extended => 0,
            _ => u64::from(exponent != 0) << (self.digits() - 1),
        };
        Number::Finite(Finite {
            negative,
            mantissa: below | highest,
            power: exponent.max(1) - self.bias() - (self.digits() as i32 - 1),
        })
    }
}

/// `mantissa * 2^power` in a format, rounded to nearest, ties to even. Where there is more in the mantissa than the
/// format holds, its lowest bit may stand for all that is below it.
pub(crate) fn round(negative: bool, mantissa: u128, power: i32, format: Format) -> u128 {
    let sign = format.sign(negative);
    if mantissa == 0 {
        return sign;
    }
    let digits = format.digits() as i32;
    let highest = power + (127 - mantissa.leading_zeros() as i32);
    let mut lowest = highest.max(1 - format.bias()) - (digits - 1);
    let mut kept = match lowest - power {
        left @ ..=0 => mantissa << -left,
        dropped @ 1..=127 => {
            let (whole, rest) = (mantissa >> dropped, mantissa & ((1 << dropped) - 1));
            let up = match rest.cmp(&(1 << (dropped - 1))) {
                Ordering::Less => false,
                Ordering::Equal => whole & 1 == 1,
                Ordering::Greater => true,
            };
            whole + u128::from(up)
        }
        128 => u128::from(mantissa > 1 << 127),
        _ => 0,
    };
    if kept >> digits != 0 {
        kept >>= 1;
        lowest += 1;
    }
    let exponent = match kept >> (digits - 1) {
        0 => 0,
        _ => lowest + (digits - 1) + format.bias(),
    };
    if exponent >= format.largest_exponent() {
        return format.infinity(negative);
    }
    let stored = kept & (u128::MAX >> (128 - format.exponent_at()));
    sign | (exponent as u128) << format.exponent_at() | stored
}

/// A number in another format.
pub(crate) fn convert(bits: u128, from: Format, to: Format) -> u128 {
    match from.unpack(bits) {
        Number::Nan { negative, fraction } => {
            let quiet = fraction | 1 << 62;
            to.infinity(negative) | u128::from(quiet >> (64 - to.digits()))
        }
        Number::Infinite { negative } => to.infinity(negative),
        Number::Finite(finite) => {
            let mantissa = u128::from(finite.mantissa);
            round(finite.negative, mantissa, finite.power, to)
        }
    }
}

/// The integer next to a number on the way to zero, or the one nearest to it that there is.
pub(crate) fn to_integer(bits: u128, format: Format, signed: bool) -> u64 {
    let lowest = i64::MIN as u64;
    let highest = if signed { i64::MAX as u64 } else { u64::MAX };
    match format.unpack(bits) {
        Number::Nan { .. } | Number::Infinite { negative: true } => lowest,
        Number::Infinite { .. } => highest,
        Number::Finite(Finite {
            negative,
            mantissa,
            power,
        }) => {
            let magnitude = match power {
                _ if mantissa == 0 => 0,
                ..=-64 => 0,
                -63..=0 => u128::from(mantissa >> -power),
                1..=63 => u128::from(mantissa) << power,
                _ => u128::MAX,
            };
            match u64::try_from(magnitude) {
                Ok(magnitude) if negative && magnitude <= lowest => magnitude.wrapping_neg(),
                Ok(magnitude) if !negative => magnitude.min(highest),
                _ if negative => lowest,
                _ => highest,
            }
        }
    }
}

/// How two numbers of one format compare; not at all where one is no number.
pub(crate) fn compare(left: u128, right: u128, format: Format) -> Option<Ordering> {
    let key = |bits: u128| {
        if matches!(format.unpack(bits), Number::Nan { .. }) {
            return None;
        }
        let sign = format.sign(true);
        let magnitude = (bits & !sign) as i128;
        Some(if bits & sign != 0 {
            -magnitude
        } else {
            magnitude
        })
    };
    Some(key(left)?.cmp(&key(right)?))
}

/// A sum, difference, product or quotient of two numbers of one format.
pub(crate) fn arithmetic(operator: Binary, left: u128, right: u128, format: Format) -> u128 {
    match format {
        Format::Single => {
            let number = |bits: u128| f32::from_bits(bits as u32);
            let (a, b) = (number(left), number(right));
            u128::from(native(operator, a, b).to_bits())
        }
        Format::Double => {
            let number = |bits: u128| f64::from_bits(bits as u64);
            let (a, b) = (number(left), number(right));
            u128::from(native(operator, a, b).to_bits())
        }
        Format::Extended => extended(operator, left, right),
    }
}

fn native<T>(operator: Binary, a: T, b: T) -> T
where
    T: std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>
        + std::ops::Div<Output = T>,
{
    match operator {
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::DivideSigned | Binary::DivideUnsigned => a / b,
        _ => a + b,
    }
}

fn extended(operator: Binary, left: u128, right: u128) -> u128 {
    let format = Format::Extended;
    let (a, b) = match (format.unpack(left), format.unpack(right)) {
        (Number::Finite(a), Number::Finite(b)) => (a, b),
        (Number::Nan { .. }, _) => return convert(left, format, format),
        (_, Number::Nan { .. }) => return convert(right, format, format),
        (a, b) => {
            // Next to an infinity, a number counts for its sign and for being zero only.
            let simple = |number: &Number| match number {
                Number::Nan { .. } => f64::NAN,
                Number::Infinite { negative: true } => f64::NEG_INFINITY,
                Number::Infinite { .. } => f64::INFINITY,
                Number::Finite(finite) => {
                    let size = if finite.mantissa == 0 { 0.0 } else { 1.0 };
                    if finite.negative { -size } else { size }
                }
            };
            let result = native(operator, simple(&a), simple(&b));
            if result.is_nan() {
                return INDEFINITE;
            }
            return convert(u128::from(result.to_bits()), Format::Double, format);
        }
    };
    let negative = a.negative != b.negative;
    match operator {
        Binary::Multiply => {
            let product = u128::from(a.mantissa) * u128::from(b.mantissa);
            round(negative, product, a.power + b.power, format)
        }
        Binary::DivideSigned | Binary::DivideUnsigned => match (a.mantissa, b.mantissa) {
            (0, 0) => INDEFINITE,
            (_, 0) => format.infinity(negative),
            (0, _) => format.sign(negative),
            (dividend, divisor) => {
                let (up, down) = (dividend.leading_zeros(), divisor.leading_zeros());
                let divisor = u128::from(divisor << down);
                let dividend = u128::from(dividend << up) << 64;
                // 64 or 65 digits, and 32 more of which the last tells of the rest.
                let (whole, rest) = (dividend / divisor, dividend % divisor);
                let (more, rest) = ((rest << 32) / divisor, (rest << 32) % divisor);
                let quotient = whole << 32 | more | u128::from(rest != 0);
                let power = (a.power - up as i32) - (b.power - down as i32) - 96;
                round(negative, quotient, power, format)
            }
        },
        _ => {
            let turned = operator == Binary::Subtract;
            let negative = b.negative != turned;
            sum(a, Finite { negative, ..b })
        }
    }
}

fn sum(a: Finite, b: Finite) -> u128 {
    let format = Format::Extended;
    let highest = |finite: Finite| finite.power - finite.mantissa.leading_zeros() as i32;
    let (a, b) = match (a.mantissa, b.mantissa) {
        (0, 0) => return format.sign(a.negative && b.negative),
        (0, _) => (b, a),
        (_, 0) => (a, b),
        _ if highest(a) >= highest(b) => (a, b),
        _ => (b, a),
    };
    let power = a.power - 63;
    let large = u128::from(a.mantissa) << 63;
    let small = u128::from(b.mantissa);
    let small = match b.power - power {
        _ if small == 0 => 0,
        up @ 0.. => small << up,
        down @ -127..0 => small >> -down | u128::from(small & ((1 << -down) - 1) != 0),
        _ => 1,
    };
    if a.negative == b.negative {
        round(a.negative, large + small, power, format)
    } else if large == small {
        format.sign(false)
    } else {
        // Digits of the same height: the smaller may turn out larger.
        let negative = a.negative != (small > large);
        round(negative, large.abs_diff(small), power, format)
    }
}

#[cfg(test)]
mod tests;
