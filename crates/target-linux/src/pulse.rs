//! A beat by which a run looks around, at what pads have collected for instance, while nothing happens that a wait tells.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// How often.
const BEAT: Duration = Duration::from_millis(20);

/// Interrupts waits of the calling thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pulse {
    timer: libc::timer_t,
    last: Instant,
}

impl Pulse {
    /// Begins to beat; the handler of [`Interrupter`](crate::Interrupter) must have been installed.
    pub(crate) fn start() -> Option<Self> {
        // SAFETY: all-zero bytes are valid for these structures of plain numbers; every pointer is to a live one.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = crate::interrupt::SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return None;
            }
            let beat = libc::timespec {
                tv_sec: 0,
                tv_nsec: BEAT.as_nanos() as i64,
            };
            let times = libc::itimerspec {
                it_interval: beat,
                it_value: beat,
            };
            libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut());
            Some(Self {
                timer,
                last: Instant::now(),
            })
        }
    }

    /// Whether it is time to look around.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= BEAT;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        // SAFETY: the timer was made by us and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}
