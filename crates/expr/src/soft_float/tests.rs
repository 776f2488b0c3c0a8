//! Against the machine's own arithmetic: 64 digits are more than twice a `float`'s 24, so that a result rounded to
//! them and then to 24 is the result rounded to 24 at once.

use proptest::prelude::*;

use super::{Binary, Format, arithmetic, compare, convert, from_integer, to_integer};

fn single(number: f32) -> u128 {
    u128::from(number.to_bits())
}

fn double(number: f64) -> u128 {
    u128::from(number.to_bits())
}

fn any_single() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits),
        (-40_i16..40).prop_map(|number| f32::from(number) / 8.0)
    ]
}

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any_single().prop_map(f64::from)
    ]
}

proptest! {
    #[test]
    fn arithmetic_of_80_bits_is_that_of_the_machine(a in any_single(), b in any_single()) {
        let wide = |number| convert(single(number), Format::Single, Format::Extended);
        for (operator, expected) in [
            (Binary::Add, a + b),
            (Binary::Subtract, a - b),
            (Binary::Multiply, a * b),
            (Binary::DivideSigned, a / b),
        ] {
            let result = arithmetic(operator, wide(a), wide(b), Format::Extended);
            let result = f32::from_bits(convert(result, Format::Extended, Format::Single) as u32);
            if expected.is_nan() {
                prop_assert!(result.is_nan(), "{a:e} {operator:?} {b:e}: {result:e}");
            } else {
                prop_assert_eq!(result.to_bits(), expected.to_bits(), "{:e} {:?} {:e}", a, operator, b);
            }
        }
    }

    #[test]
    fn conversions_are_those_of_the_machine(number in any_double()) {
        let narrow = convert(double(number), Format::Double, Format::Single) as u32;
        let wide = convert(double(number), Format::Double, Format::Extended);
        let back = convert(wide, Format::Extended, Format::Double) as u64;
        if number.is_nan() {
            prop_assert!(f32::from_bits(narrow).is_nan() && f64::from_bits(back).is_nan());
        } else {
            prop_assert_eq!(narrow, (number as f32).to_bits());
            prop_assert_eq!(back, number.to_bits());
            for (bits, format) in [(double(number), Format::Double), (wide, Format::Extended)] {
                prop_assert_eq!(to_integer(bits, format, true), number as i64 as u64);
                if number >= 0.0 {
                    prop_assert_eq!(to_integer(bits, format, false), number as u64);
                }
            }
        }
    }

    #[test]
    fn integers_are_rounded_as_by_the_machine(number: u64, shift in 0_u32..64) {
        let number = number >> shift;
        prop_assert_eq!(from_integer(number, false, Format::Single), single(number as f32));
        let negative = number.wrapping_neg();
        prop_assert_eq!(from_integer(negative, true, Format::Double), double(negative.cast_signed() as f64));
        let wide = from_integer(number, false, Format::Extended);
        prop_assert_eq!(to_integer(wide, Format::Extended, false), number);
    }

    #[test]
    fn numbers_order_as_on_the_machine(a in any_double(), b in any_double()) {
        let wide = |number| convert(double(number), Format::Double, Format::Extended);
        prop_assert_eq!(compare(double(a), double(b), Format::Double), a.partial_cmp(&b));
        prop_assert_eq!(compare(wide(a), wide(b), Format::Extended), a.partial_cmp(&b));
    }

    #[test]
    fn any_bits_have_a_result(a: u128, b: u128) {
        let (a, b) = (a >> 48, b >> 48);
        for operator in [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::DivideSigned] {
            prop_assert!(arithmetic(operator, a, b, Format::Extended) >> 80 == 0);
        }
        for format in [Format::Single, Format::Double, Format::Extended] {
            prop_assert!(convert(a, Format::Extended, format) >> format.bits() == 0);
        }
        to_integer(a, Format::Extended, true);
    }
}

/// The digits below those of a `double` count: 2^63 + 1 is a number of 80 bits.
#[test]
fn all_64_digits_are_kept() {
    let wide = |number: u64| from_integer(number, false, Format::Extended);
    let sum = arithmetic(Binary::Add, wide(1 << 63), wide(1), Format::Extended);
    assert_eq!(to_integer(sum, Format::Extended, false), (1 << 63) + 1);
    // Half of the last digit, and to even.
    let half = arithmetic(Binary::DivideSigned, wide(1), wide(2), Format::Extended);
    let up = arithmetic(Binary::Add, sum, half, Format::Extended);
    assert_eq!(to_integer(up, Format::Extended, false), (1 << 63) + 2);
    let down = arithmetic(Binary::Add, wide(1 << 63), half, Format::Extended);
    assert_eq!(to_integer(down, Format::Extended, false), 1 << 63);
    let third = arithmetic(Binary::DivideSigned, wide(1), wide(3), Format::Extended);
    assert_eq!(third, 0x3ffd_aaaa_aaaa_aaaa_aaab);
}
