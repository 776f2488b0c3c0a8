//! The clock of the pads: the processor's time stamp counter, told in microseconds of the day.
//!
//! `microseconds = start + ((counter - base) * rate >> 64)`. Base and rate are measured once. The rate is taken a trifle
//! too small, so that the tracer only ever has to raise `start` to follow the time of day: one word, written at once,
//! and no time that goes back.

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much slower than measured the clock goes, in millionths. More than the measurement and the corrections of the
/// time of day are wrong.
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

/// Microseconds since 1970-01-01 00:00 UTC.
pub(crate) fn time_of_day() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

/// How counters become microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    pub(crate) base: u64,
    /// Microseconds a tick, times 2 to the 64th.
    pub(crate) rate: u64,
}

impl Rate {
    /// That of this machine. The first call takes 10 ms.
    pub(crate) fn measured() -> Self {
        static RATE: OnceLock<Rate> = OnceLock::new();
        *RATE.get_or_init(Self::measure)
    }

    fn measure() -> Self {
        let (base, start) = (counter(), Instant::now());
        sleep(MEASURED);
        let (ticks, elapsed) = (counter().wrapping_sub(base), start.elapsed());
        let per_tick = elapsed.as_secs_f64() * 1e6 / (ticks.max(1) as f64);
        let rate = per_tick * (1.0 - SLOW / 1e6) * 2_f64.powi(64);
        Self {
            base,
            rate: rate as u64,
        }
    }

    /// The microseconds from the base to a counter.
    pub(crate) fn since_base(self, counter: u64) -> u64 {
        let ticks = u128::from(counter.wrapping_sub(self.base));
        ((ticks * u128::from(self.rate)) >> 64) as u64
    }

    /// How many ticks that is.
    pub(crate) fn ticks(self, duration: Duration) -> u64 {
        let ticks = (u128::from(duration.as_micros() as u64) << 64) / u128::from(self.rate.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}
