//! How long the tracer stops threads.
//!
//! The times belong to the tracing thread, as its tracees do.

use std::cell::RefCell;
use std::time::{Duration, Instant};

thread_local! {
    static TIMES: RefCell<StopTimes> = const { RefCell::new(StopTimes::new()) };
}

/// How many classes there are for each doubling of the time.
const CLASSES: u64 = 8;

/// A histogram of the times for which threads were stopped, one for each stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopTimes {
    /// How many stops took about so long: class `8 * log2 + the next three bits` of the nanoseconds.
    classes: [u64; 64 * CLASSES as usize],
    longest: Duration,
}

impl Default for StopTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl StopTimes {
    const fn new() -> Self {
        Self {
            classes: [0; 64 * CLASSES as usize],
            longest: Duration::ZERO,
        }
    }

    fn note(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        if let Some(class) = self.classes.get_mut(class_of(nanoseconds)) {
            *class += 1;
        }
        self.longest = self.longest.max(time);
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        for (count, more) in self.classes.iter_mut().zip(others.classes) {
            *count += more;
        }
        self.longest = self.longest.max(others.longest);
    }

    /// The number of stops.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The median time, to an eighth.
    #[must_use]
    pub fn median(&self) -> Duration {
        let half = self.count().div_ceil(2);
        let mut seen = 0;
        let class = self.classes.iter().position(|count| {
            seen += count;
            seen >= half
        });
        // A time is less than the longest of its class.
        Duration::from_nanos(class.map_or(0, end_of)).min(self.longest)
    }

    /// The longest time.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }
}

fn class_of(nanoseconds: u64) -> usize {
    let exponent = u64::from(nanoseconds.ilog2());
    let fraction = match exponent.checked_sub(3) {
        Some(shift) => nanoseconds >> shift,
        None => nanoseconds << (3 - exponent),
    };
    (exponent * CLASSES + fraction % CLASSES) as usize
}

/// The longest time of a class.
fn end_of(class: usize) -> u64 {
    let (exponent, fraction) = (class as u64 / CLASSES, class as u64 % CLASSES);
    let end = u128::from(CLASSES + fraction + 1) << exponent >> 3;
    u64::try_from(end).unwrap_or(u64::MAX)
}

/// A thread that was stopped at this moment is now resumed.
pub(crate) fn note(since: Instant) {
    TIMES.with_borrow_mut(|times| times.note(since.elapsed()));
}

/// Takes the stop times of the threads that the calling thread has traced, since the last call.
#[must_use]
pub fn take_stop_times() -> StopTimes {
    TIMES.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_right_to_an_eighth() {
        for middle in [1, 7, 8, 9, 1000, 12_345, 1 << 40, u64::MAX] {
            let mut times = StopTimes::default();
            for time in [1, middle, u64::MAX] {
                times.note(Duration::from_nanos(time));
            }
            let median = u64::try_from(times.median().as_nanos()).expect("small");
            assert!(
                median >= middle && median - middle <= middle.div_ceil(8),
                "{middle}: {median}"
            );
            assert_eq!(times.count(), 3);
            assert_eq!(times.longest(), Duration::from_nanos(u64::MAX));
        }
        assert_eq!(StopTimes::default().median(), Duration::ZERO);
    }
}
