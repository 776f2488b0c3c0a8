//! A beat by which a run looks around, at what pads have collected for instance, while nothing happens that a wait tells.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// How often, where there is nothing to hurry for.
const SLOWEST: Duration = Duration::from_millis(20);
/// How often at most.
const FASTEST: Duration = Duration::from_micros(250);
/// How much of the room for frames may be used from one beat to the next.
const SHARE: f64 = 0.25;

/// Interrupts waits of the calling thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pulse {
    timer: libc::timer_t,
    beat: Duration,
    last: Instant,
    /// How long the beat before the last one was.
    elapsed: Duration,
}

impl Pulse {
    /// Begins to beat; the handler of [`Interrupter`](crate::Interrupter) must have been installed.
    pub(crate) fn start() -> Option<Self> {
        // SAFETY: all-zero bytes are valid for these structures of plain numbers; every pointer is to a live one.
        let timer = unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = crate::interrupt::SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return None;
            }
            timer
        };
        let mut pulse = Self {
            timer,
            beat: SLOWEST,
            last: Instant::now(),
            elapsed: SLOWEST,
        };
        // The first frames may come fast.
        pulse.set(FASTEST);
        Some(pulse)
    }

    fn set(&mut self, beat: Duration) {
        self.beat = beat;
        let beat = libc::timespec {
            tv_sec: 0,
            tv_nsec: beat.as_nanos() as i64,
        };
        let times = libc::itimerspec {
            it_interval: beat,
            it_value: beat,
        };
        // SAFETY: the timer is ours and lives; the pointers are to a live structure, and to none.
        unsafe { libc::timer_settime(self.timer, 0, &raw const times, std::ptr::null_mut()) };
    }

    /// Whether it is time to look around.
    pub(crate) fn is_due(&mut self) -> bool {
        let elapsed = self.last.elapsed();
        let due = elapsed >= self.beat;
        if due {
            self.last = Instant::now();
            self.elapsed = elapsed;
        }
        due
    }

    /// Beats as often as frames need that have used this share of their room since the last beat.
    pub(crate) fn follow(&mut self, filled: f64) {
        let wanted = self.elapsed.as_secs_f64() * SHARE / filled.max(f64::MIN_POSITIVE);
        let beat = if wanted < SLOWEST.as_secs_f64() {
            Duration::from_secs_f64(wanted.max(FASTEST.as_secs_f64()))
        } else {
            SLOWEST
        };
        // Not for every little change.
        if beat * 2 < self.beat || beat > self.beat * 2 {
            self.set(beat);
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        // SAFETY: the timer was made by us and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}
