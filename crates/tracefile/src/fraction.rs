//! Nanoseconds: a variable of our own in a frame.
//!
//! `$trace_timestamp` counts microseconds, as GDB expects. A frame keeps the part of a microsecond that it leaves out in a variable whose
//! number no experiment has: a fraction of 64 bits, as the clock of jump pads computes it. `docs/formats/trace-file-extensions.md` has the form.

use tracewire_model::VariableNumber;

/// The variable that has the fraction of a microsecond; it follows the one that says that a frame is of a step.
pub const FRACTION: VariableNumber = VariableNumber(i32::MIN + 257);

const NANOSECONDS: u128 = 1000;

/// The whole nanoseconds of a fraction of a microsecond.
#[must_use]
pub const fn nanoseconds_of(fraction: u64) -> u64 {
    ((fraction as u128 * NANOSECONDS) >> 64) as u64
}

/// The fraction of a microsecond that so many nanoseconds below 1000 are.
#[must_use]
pub const fn fraction_of(nanoseconds: u64) -> u64 {
    let below = (nanoseconds as u128) % NANOSECONDS;
    (below << 64).div_ceil(NANOSECONDS) as u64
}

#[cfg(test)]
mod tests {
    use super::{fraction_of, nanoseconds_of};

    #[test]
    fn every_number_of_nanoseconds_comes_back() {
        for nanoseconds in 0..1000 {
            assert_eq!(nanoseconds_of(fraction_of(nanoseconds)), nanoseconds);
        }
        assert_eq!(nanoseconds_of(u64::MAX), 999);
    }
}
