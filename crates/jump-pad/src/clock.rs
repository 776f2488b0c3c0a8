//! The clock of the pads: the processor's time stamp counter, converted to microseconds since the epoch.
//!
//! `microseconds = start + ((counter - base) * rate >> 64)`. Base and rate are measured once. The rate is slightly too small, so
//! that the tracer only ever raises `start` to follow the time of day. That is one word, written atomically, and time never goes
//! back.

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much slower than measured the clock runs, in millionths. It is more than the errors of the measurement and the corrections
/// of the time of day.
const SLOW: f64 = 50.0;

/// How long the counter is measured.
const MEASURED: Duration = Duration::from_millis(10);

/// The time stamp counter.
#[must_use]
pub fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; a kernel that forbids it to programs would forbid it to the
    // pads too.
    #[allow(unused_unsafe)]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

/// Converts ticks of the counter to nanoseconds. The first call takes 10 ms.
#[must_use]
pub fn nanoseconds(ticks: u64) -> u64 {
    Rate::measured().nanoseconds(ticks)
}

/// A counter and the time of day in microseconds since 1970-01-01 00:00 UTC, which is not later.
pub(crate) fn now() -> (u64, u64) {
    let reading = Reading::of(SystemTime::now);
    let since = reading.time.duration_since(UNIX_EPOCH);
    (
        reading.after,
        since.map_or(0, |since| since.as_micros() as u64),
    )
}

/// A time, and the counter before and after it was read.
struct Reading<T> {
    before: u64,
    time: T,
    after: u64,
}

impl<T> Reading<T> {
    /// The narrowest of some, for we can be interrupted in between.
    fn of(clock: impl Fn() -> T) -> Self {
        let read = || {
            let before = counter();
            let time = clock();
            Self {
                before,
                time,
                after: counter(),
            }
        };
        let mut best = read();
        for _ in 0..8 {
            let next = read();
            if next.after.wrapping_sub(next.before) < best.after.wrapping_sub(best.before) {
                best = next;
            }
        }
        best
    }
}

/// How counters become microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    pub(crate) base: u64,
    /// Microseconds a tick, times 2 to the 64th.
    pub(crate) rate: u64,
}

impl Rate {
    /// The rate of this machine. The first call takes 10 ms.
    pub(crate) fn measured() -> Self {
        static RATE: OnceLock<Rate> = OnceLock::new();
        *RATE.get_or_init(Self::measure)
    }

    fn measure() -> Self {
        let first = Reading::of(Instant::now);
        sleep(MEASURED);
        let last = Reading::of(Instant::now);
        // The error of a reading makes the clock slower, never faster.
        let ticks = last.after.wrapping_sub(first.before).max(1);
        let elapsed = last.time.duration_since(first.time);
        let per_tick = elapsed.as_secs_f64() * 1e6 / ticks as f64;
        let rate = per_tick * (1.0 - SLOW / 1e6) * 2_f64.powi(64);
        Self {
            base: first.before,
            rate: rate as u64,
        }
    }

    /// The microseconds from the base to a counter.
    pub(crate) fn since_base(self, counter: u64) -> u64 {
        self.parts_since_base(counter).0
    }

    /// The microseconds from the base to a counter, and the remaining fraction of one.
    pub(crate) fn parts_since_base(self, counter: u64) -> (u64, u64) {
        let ticks = u128::from(counter.wrapping_sub(self.base));
        let time = ticks * u128::from(self.rate);
        ((time >> 64) as u64, time as u64)
    }

    /// Converts ticks to nanoseconds.
    pub(crate) fn nanoseconds(self, ticks: u64) -> u64 {
        let time = u128::from(ticks) * u128::from(self.rate);
        let (microseconds, fraction) = ((time >> 64) as u64, time as u64);
        let rest = (u128::from(fraction) * 1000) >> 64;
        microseconds.wrapping_mul(1000).wrapping_add(rest as u64)
    }

    /// Converts nanoseconds to ticks.
    pub(crate) fn ticks_of_nanoseconds(self, nanoseconds: u64) -> u64 {
        let ticks = (u128::from(nanoseconds) << 64) / (u128::from(self.rate.max(1)) * 1000);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// How many ticks that is.
    pub(crate) fn ticks(self, duration: Duration) -> u64 {
        let ticks = (u128::from(duration.as_micros() as u64) << 64) / u128::from(self.rate.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}
