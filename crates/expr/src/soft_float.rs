//! Floating-point numbers as bits: conversions, comparisons and arithmetic, also of the x87's format, which has no type here.

use std::cmp::Ordering;

use rustc_apfloat::ieee::{Double, Single, X87DoubleExtended};
use rustc_apfloat::{Float, FloatConvert};

use crate::float_expr::Format;
use crate::int_expr::Binary;

/// The number with these bits in a format. The x87's format has all numbers of the others.
fn unpack(bits: u128, format: Format) -> X87DoubleExtended {
    match format {
        Format::Single => Single::from_bits(bits).convert(&mut false).value,
        Format::Double => Double::from_bits(bits).convert(&mut false).value,
        Format::Extended => X87DoubleExtended::from_bits(bits),
    }
}

/// The bits of a number in a format, rounded to nearest, ties to even.
fn pack(number: X87DoubleExtended, format: Format) -> u128 {
    match format {
        Format::Single => FloatConvert::<Single>::convert(number, &mut false)
            .value
            .to_bits(),
        Format::Double => FloatConvert::<Double>::convert(number, &mut false)
            .value
            .to_bits(),
        Format::Extended => number.to_bits(),
    }
}

/// An integer of 64 bits in a format, rounded to nearest, ties to even.
pub(crate) fn from_integer(number: u64, signed: bool, format: Format) -> u128 {
    let number = if signed {
        i128::from(number.cast_signed())
    } else {
        i128::from(number)
    };
    pack(X87DoubleExtended::from_i128(number).value, format)
}

/// A number in another format.
pub(crate) fn convert(bits: u128, from: Format, to: Format) -> u128 {
    pack(unpack(bits, from), to)
}

/// The integer next to a number on the way to zero, or the one nearest to it that there is.
pub(crate) fn to_integer(bits: u128, format: Format, signed: bool) -> u64 {
    let number = unpack(bits, format);
    if number.is_nan() {
        return i64::MIN.cast_unsigned();
    }
    let highest = if signed {
        i128::from(i64::MAX)
    } else {
        i128::from(u64::MAX)
    };
    let integer = number.to_i128(128).value;
    integer.clamp(i128::from(i64::MIN), highest) as u64
}

/// The order of two numbers of one format; `None` with a NaN.
pub(crate) fn compare(left: u128, right: u128, format: Format) -> Option<Ordering> {
    unpack(left, format).partial_cmp(&unpack(right, format))
}

/// A sum, difference, product or quotient of two numbers of one format.
pub(crate) fn arithmetic(operator: Binary, left: u128, right: u128, format: Format) -> u128 {
    match format {
        Format::Single => compute::<Single>(operator, left, right),
        Format::Double => compute::<Double>(operator, left, right),
        Format::Extended => compute::<X87DoubleExtended>(operator, left, right),
    }
}

fn compute<F: Float>(operator: Binary, left: u128, right: u128) -> u128 {
    let (a, b) = (F::from_bits(left), F::from_bits(right));
    let result = match operator {
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::DivideSigned | Binary::DivideUnsigned => a / b,
        _ => a + b,
    }
    .value;
    if result.is_nan() && !a.is_nan() && !b.is_nan() {
        // The processor's answer to what has none is negative.
        return (-F::NAN).to_bits();
    }
    result.to_bits()
}

#[cfg(test)]
mod tests;
