//! The limit of frames of a tracepoint in a time, and the decision at each hit.
//!
//! A tracepoint has one number: when its next frame is due if its frames come evenly. A hit that is earlier than that by more
//! than a few frames' time is skipped; any other one advances the number by the time of one frame. No bucket is refilled, and one
//! atomic exchange is enough with several threads. It is the generic cell rate algorithm.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use tracewire_model::TracepointNumber;

/// The least burst of frames, for any rate.
const LEAST_BURST: u64 = 10;

/// A number of frames in a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRate {
    frames: NonZeroU64,
    period: Duration,
}

/// A rate that there cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{frames} frames in {period:?}: at most one in a nanosecond, and one in a day at least, are possible"
)]
pub struct FrameRateError {
    frames: NonZeroU64,
    period: Duration,
}

impl FrameRate {
    /// This many frames in a time.
    ///
    /// # Errors
    /// When these are more than one in a nanosecond, or the time is more than a day.
    pub const fn new(frames: NonZeroU64, period: Duration) -> Result<Self, FrameRateError> {
        let longest = Duration::from_secs(24 * 60 * 60);
        if period.as_nanos() > longest.as_nanos() || frames.get() as u128 > period.as_nanos() {
            return Err(FrameRateError { frames, period });
        }
        Ok(Self { frames, period })
    }

    /// The time in which this many frames may come.
    #[must_use]
    pub const fn period(self) -> Duration {
        self.period
    }

    /// How many frames may come in a burst, after a pause: a tenth of those of the period, and at least ten if these are not more
    /// than the rate allows.
    #[must_use]
    pub fn burst(self) -> u64 {
        let frames = self.frames.get();
        (frames / 10).max(LEAST_BURST).min(frames)
    }

    /// The rate by a clock with this many ticks in the period.
    #[must_use]
    pub fn pace(self, ticks: u64) -> Pace {
        let interval = ticks.div_ceil(self.frames.get()).max(1);
        Pace {
            interval,
            slack: interval.saturating_mul(self.burst() - 1),
        }
    }
}

/// `1000 frames a second`.
impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = match self.frames.get() {
            1 => "1 frame".to_owned(),
            frames => format!("{frames} frames"),
        };
        match self.period.as_secs() {
            1 => write!(f, "{frames} a second"),
            60 => write!(f, "{frames} a minute"),
            3600 => write!(f, "{frames} an hour"),
            _ => write!(f, "{frames} in {:?}", self.period),
        }
    }
}

/// A rate in ticks of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// From one frame to the next.
    pub interval: u64,
    /// How much before its due time a frame may come.
    pub slack: u64,
}

impl Pace {
    /// The due time after a frame at `now` that was due at `due`. `None` if the frame is too early, and is skipped.
    #[must_use]
    pub const fn admit(self, due: u64, now: u64) -> Option<u64> {
        let early = due.saturating_sub(now);
        if early > self.slack {
            return None;
        }
        let from = if early > 0 { due } else { now };
        Some(from.wrapping_add(self.interval))
    }
}

/// The rates of a run: a general one, and those of single tracepoints.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameRates {
    all: Option<FrameRate>,
    of: BTreeMap<TracepointNumber, FrameRate>,
}

impl FrameRates {
    /// Limits each tracepoint without an individual rate.
    pub const fn limit_all(&mut self, rate: FrameRate) {
        self.all = Some(rate);
    }

    /// Limits a tracepoint: all of its locations together.
    pub fn limit(&mut self, number: TracepointNumber, rate: FrameRate) {
        self.of.insert(number, rate);
    }

    /// The rate of a tracepoint.
    #[must_use]
    pub fn of(&self, number: TracepointNumber) -> Option<FrameRate> {
        self.of.get(&number).copied().or(self.all)
    }

    /// The tracepoints with individual rates.
    pub fn named(&self) -> impl Iterator<Item = TracepointNumber> + '_ {
        self.of.keys().copied()
    }
}

/// The due time of each tracepoint's next frame, in a run without pads.
#[derive(Debug, Default)]
pub(crate) struct Due(HashMap<TracepointNumber, u64>);

impl Due {
    /// Whether a hit at a time of the stopped thread's clock, in microseconds, makes a frame.
    pub(crate) fn admit(&mut self, number: TracepointNumber, rate: FrameRate, now: u64) -> bool {
        let period = u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX);
        let pace = rate.pace(period);
        let now = now.saturating_mul(1000);
        let due = self.0.entry(number).or_insert(now);
        // No frame is due later than this, unless the clock was set back.
        let latest = now.saturating_add(pace.slack).saturating_add(pace.interval);
        *due = (*due).min(latest);
        match pace.admit(*due, now) {
            Some(next) => {
                *due = next;
                true
            }
            None => false,
        }
    }

    /// A run begins.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(frames: u64) -> FrameRate {
        FrameRate::new(NonZeroU64::new(frames).unwrap(), Duration::from_secs(1)).unwrap()
    }

    /// How many of the hits at these times, in microseconds, make frames.
    fn admitted(rate: FrameRate, hits: impl IntoIterator<Item = u64>) -> u64 {
        let mut due = Due::default();
        let number = TracepointNumber(1);
        let admitted = hits.into_iter().filter(|at| due.admit(number, rate, *at));
        admitted.count() as u64
    }

    #[test]
    fn hits_as_often_as_the_rate_are_all_kept() {
        for frames in [1, 7, 50, 1000, 100_000] {
            let hits = (0..3 * frames).map(|hit| 5_000_000 + hit * 1_000_000 / frames);
            // Times are whole microseconds: at most one too early.
            assert!(admitted(rate(frames), hits) >= 3 * frames - 3, "{frames}");
        }
    }

    #[test]
    fn more_hits_than_that_make_as_many_frames_as_there_may_be() {
        for frames in [1, 7, 50, 1000, 20_000] {
            let rate = rate(frames);
            let seconds = 4;
            let hits = (0..seconds * 1_000_000).step_by(3).map(|at| at + 77);
            let most = seconds * frames + rate.burst();
            let kept = admitted(rate, hits);
            assert!((most - 2..=most).contains(&kept), "{frames}: {kept}");
        }
    }

    #[test]
    fn a_burst_is_kept() {
        assert_eq!(admitted(rate(5), [1000; 100]), 5);
        assert_eq!(admitted(rate(50), [1000; 100]), 10);
        assert_eq!(admitted(rate(500), [1000; 100]), 50);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_up() {
        let hour = 3_600_000_000;
        let hits = (0..10).map(|hit| 2 * hour - hit * hour / 10);
        assert!(admitted(rate(1), hits) <= 2);
        let later = std::iter::once(2 * hour).chain((0..10).map(|hit| hour + hit * 2_000_000));
        assert!(admitted(rate(1), later) >= 10);
    }

    #[test]
    fn rates_have_words_and_limits() {
        assert_eq!(rate(1000).to_string(), "1000 frames a second");
        let minute = FrameRate::new(NonZeroU64::MIN, Duration::from_secs(60)).unwrap();
        assert_eq!(minute.to_string(), "1 frame a minute");
        assert!(FrameRate::new(NonZeroU64::MAX, Duration::from_secs(1)).is_err());
        assert!(FrameRate::new(NonZeroU64::MIN, Duration::from_secs(90_000)).is_err());
    }
}
