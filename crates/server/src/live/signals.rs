//! The protocol's signal numbers, which are GDB's own, and Linux's.

use tracewire_packets::Signal;

/// The signals with a number in the protocol, from 1 on: Linux's number for each, or 0.
const NUMBERS: [i32; 32] = [
    1, 2, 3, 4, 5, 6, 0, 8, 9, 7, 11, 31, 13, 14, 15, 23, 19, 20, 18, 17, 21, 22, 29, 24, 25, 26,
    27, 28, 0, 10, 12, 30,
];

/// The protocol's number for an unknown signal.
const UNKNOWN: u8 = 143;

/// Linux's number; none for a signal that Linux does not have, and for no signal.
pub(super) fn to_linux(signal: Signal) -> Option<i32> {
    match signal.0 {
        0 => None,
        // Those from 33 to 63, then 32 and 64.
        number @ 45..=75 => Some(i32::from(number) - 12),
        77 => Some(32),
        78 => Some(64),
        number => NUMBERS
            .get(usize::from(number) - 1)
            .copied()
            .filter(|signal| *signal != 0),
    }
}

/// The protocol's number for one of Linux's.
pub(super) fn from_linux(signal: i32) -> Signal {
    Signal(match signal {
        0 => 0,
        32 => 77,
        64 => 78,
        33..=63 => (signal + 12) as u8,
        signal => (1..)
            .zip(NUMBERS)
            .find(|(_, linux)| *linux == signal)
            .map_or(UNKNOWN, |(number, _)| number),
    })
}

/// Linux's numbers of the given protocol signals, as far as Linux has them.
pub(super) fn named(numbers: &[u64]) -> impl Iterator<Item = i32> + '_ {
    numbers
        .iter()
        .filter_map(|number| u8::try_from(*number).ok())
        .filter_map(|number| to_linux(Signal(number)))
}

#[cfg(test)]
mod tests {
    use super::{from_linux, to_linux};

    #[test]
    fn signals_come_back_as_they_went() {
        for signal in (1..=64).filter(|signal| *signal != 16) {
            assert_eq!(to_linux(from_linux(signal)), Some(signal));
        }
        assert_eq!(from_linux(10).0, 30);
        assert_eq!(from_linux(16).0, super::UNKNOWN);
    }
}
