//! A timer for what a run polls while no thread stops, such as the frames of pads.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::priority::FirstAmongEquals;

/// The interval while nothing is urgent.
const SLOWEST: Duration = Duration::from_millis(20);
/// The shortest interval.
const FASTEST: Duration = Duration::from_micros(250);
/// The part of the space for frames that may be filled in one interval.
const SHARE: f64 = 0.25;
/// The part of the space for frames from which on pads may soon wait for room in it.
const FULL: f64 = 0.5;
/// How long the reader comes first after the space was as full as that.
const FIRST: Duration = Duration::from_secs(1);

/// Interrupts waits of the calling thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct PollTimer {
    ticker: Ticker,
    beat: Duration,
    last: Instant,
    /// The length of the previous interval.
    elapsed: Duration,
    hurry: Option<Hurry>,
}

/// While frames come faster than they are read. Pads that wait for room do not give the processor up, so beside more threads than
/// processors the reader would get a small part of one, and all would wait for it.
#[derive(Debug)]
struct Hurry {
    _first: FirstAmongEquals,
    /// When the space was full last.
    full: Instant,
}

/// The source of the interruptions.
#[derive(Debug)]
enum Ticker {
    Timer(Timer),
    /// A thread, if the kernel has no timer left: timers count against the user's limit of queued signals, which the
    /// traced program may have used up.
    Thread(TickerThread),
}

impl PollTimer {
    /// Starts the timer; the handler of [`Interrupter`](crate::Interrupter) must be installed. `None` if neither a
    /// timer nor a thread can be created.
    pub(crate) fn start() -> Option<Self> {
        let ticker = match Timer::new() {
            Some(timer) => Ticker::Timer(timer),
            None => Ticker::Thread(TickerThread::start()?),
        };
        let mut timer = Self {
            ticker,
            beat: SLOWEST,
            last: Instant::now(),
            elapsed: SLOWEST,
            hurry: None,
        };
        // The first frames may come fast.
        timer.set(FASTEST);
        Some(timer)
    }

    fn set(&mut self, beat: Duration) {
        self.beat = beat;
        match &self.ticker {
            Ticker::Timer(timer) => timer.set(beat),
            Ticker::Thread(thread) => thread.set(beat),
        }
    }

    /// Whether it is time to poll.
    pub(crate) fn is_due(&mut self) -> bool {
        let elapsed = self.last.elapsed();
        let due = elapsed >= self.beat;
        if due {
            self.last = Instant::now();
            self.elapsed = elapsed;
        }
        due
    }

    /// Whether the time to poll has come while the last poll went on, where frames come. Its signal has come then, too, and would not
    /// end a wait.
    pub(crate) fn is_late(&self) -> bool {
        self.beat < SLOWEST && self.last.elapsed() >= self.beat
    }

    /// Adapts the interval, and the priority of the calling thread, to frames that have used this share of their space in the
    /// last one.
    pub(crate) fn follow(&mut self, filled: f64) {
        if filled >= FULL {
            match &mut self.hurry {
                Some(hurry) => hurry.full = self.last,
                None => {
                    self.hurry = Some(Hurry {
                        _first: FirstAmongEquals::begin(),
                        full: self.last,
                    });
                }
            }
        } else {
            self.hurry
                .take_if(|hurry| self.last.saturating_duration_since(hurry.full) > FIRST);
        }
        let wanted = self.elapsed.as_secs_f64() * SHARE / filled.max(f64::MIN_POSITIVE);
        let beat = if wanted < SLOWEST.as_secs_f64() {
            Duration::from_secs_f64(wanted.max(FASTEST.as_secs_f64()))
        } else {
            SLOWEST
        };
        // Small changes are ignored.
        if beat * 2 < self.beat || beat > self.beat * 2 {
            self.set(beat);
        }
    }
}

/// A timer of the kernel's that sends our signal to the thread that made it.
#[derive(Debug)]
struct Timer(libc::timer_t);

impl Timer {
    fn new() -> Option<Self> {
        // SAFETY: all-zero bytes are valid for these structures of plain numbers; every pointer is to a live one.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = crate::interrupt::SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            (made == 0).then_some(Self(timer))
        }
    }

    fn set(&self, beat: Duration) {
        let beat = libc::timespec {
            tv_sec: 0,
            tv_nsec: beat.as_nanos() as i64,
        };
        let times = libc::itimerspec {
            it_interval: beat,
            it_value: beat,
        };
        // SAFETY: the timer is live and belongs to this value; the pointers are to a live structure, and null.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, std::ptr::null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was made by us and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A thread that interrupts the one that started it.
#[derive(Debug)]
struct TickerThread {
    /// The interval in nanoseconds; 0 when it is over.
    beat: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl TickerThread {
    fn start() -> Option<Self> {
        let beat = Arc::new(AtomicU64::new(SLOWEST.as_nanos() as u64));
        let shared = Arc::clone(&beat);
        // SAFETY: gettid cannot fail and touches nothing.
        let waiting = unsafe { libc::gettid() };
        let tick = move || loop {
            match shared.load(Ordering::Acquire) {
                0 => return,
                beat => std::thread::park_timeout(Duration::from_nanos(beat)),
            }
            crate::interrupt::send(waiting);
        };
        let thread = std::thread::Builder::new()
            .name("timer".to_owned())
            .spawn(tick);
        Some(Self {
            beat,
            thread: Some(thread.ok()?),
        })
    }

    fn set(&self, beat: Duration) {
        self.beat.store(beat.as_nanos() as u64, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for TickerThread {
    fn drop(&mut self) {
        self.beat.store(0, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // It does nothing that panics.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FASTEST, PollTimer};
    use crate::priority::{FirstAmongEquals, UsualPriority};

    #[test]
    fn a_poll_that_takes_longer_than_the_interval_is_followed_by_the_next() {
        let mut timer = PollTimer::start().expect("a timer");
        while timer.last.elapsed() < FASTEST {
            std::hint::spin_loop();
        }
        assert!(timer.is_late());
        assert!(timer.is_due());
        // Where no frames come, there is no hurry.
        timer.follow(0.0);
        while timer.last.elapsed() < FASTEST {
            std::hint::spin_loop();
        }
        assert!(!timer.is_late());
    }

    #[test]
    fn the_reader_comes_first_while_the_rings_fill_and_shortly_afterwards() {
        let before = UsualPriority::of_thread();
        let raised = FirstAmongEquals::begin();
        let is_allowed = UsualPriority::of_thread() != before;
        drop(raised);
        let mut timer = PollTimer::start().expect("a timer");
        timer.follow(0.3);
        assert_eq!(UsualPriority::of_thread(), before);
        for filled in [0.9, 0.0] {
            timer.follow(filled);
            let is_first = UsualPriority::of_thread() != before;
            assert_eq!(is_first, is_allowed, "{filled}");
        }
        drop(timer);
        assert_eq!(UsualPriority::of_thread(), before);
    }
}
