//! The signals and the clock that end a run from outside.
//!
//! ^C, SIGTERM and SIGHUP are blocked in every thread and taken by one that waits for them: nothing of ours runs
//! in a signal handler, and no signal is lost between two steps. A program that is started gets an empty mask.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::Interrupter;

/// Why somebody wants the run to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// ^C at the terminal, which the program has had too.
    Keyboard,
    /// A signal sent to us alone, by its number.
    Signal(i32),
    /// The time is over.
    Duration,
}

/// Blocked signals; made before any thread is.
#[derive(Debug)]
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals that end a run, but for those that are ignored (`nohup`, a background job).
    pub fn block() -> Self {
        let wanted = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is written by sigemptyset before anything reads it; `action` is written by sigaction
        // where it returns 0; all pointers are good for the calls, and the numbers are of real signals.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in wanted {
                let mut action = MaybeUninit::<libc::sigaction>::uninit();
                let known = libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0;
                if known && action.assume_init_ref().sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(set.as_mut_ptr(), signal);
                }
            }
            let set = set.assume_init();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            set
        };
        Self { set }
    }

    /// Waits for one of the signals, at most so long: its number, and whether it came from the keyboard.
    fn wait(&self, limit: Duration) -> Option<(i32, bool)> {
        let limit = libc::timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut told = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set was filled by `block`; `told` is zeroed and large enough; the time is a good one.
        let (signal, told) = unsafe {
            let signal =
                libc::sigtimedwait(&raw const self.set, told.as_mut_ptr(), &raw const limit);
            (signal, told.assume_init())
        };
        (signal > 0).then_some((signal, told.si_code > 0))
    }
}

/// Watches for signals and the end of the time, in a thread of its own.
#[derive(Clone, Debug)]
pub struct Watch {
    wish: Arc<Mutex<Option<Wish>>>,
    waiting: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch; the run is interrupted at the first wish.
    pub fn begin(
        signals: Signals,
        interrupter: Interrupter,
        duration: Option<Duration>,
    ) -> std::io::Result<Self> {
        let watch = Self {
            wish: Arc::default(),
            waiting: Arc::default(),
        };
        let own = watch.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || own.watch(&signals, &interrupter, duration))?;
        Ok(watch)
    }

    fn watch(&self, signals: &Signals, interrupter: &Interrupter, duration: Option<Duration>) {
        let mut end = duration.and_then(|duration| Instant::now().checked_add(duration));
        loop {
            let left = end.map_or(Duration::from_secs(3600), |end| {
                end.saturating_duration_since(Instant::now())
            });
            let wish = match signals.wait(left) {
                Some((_, true)) => Wish::Keyboard,
                Some((signal, false)) => Wish::Signal(signal),
                None if end.is_some_and(|end| Instant::now() >= end) => {
                    end = None;
                    Wish::Duration
                }
                None => continue,
            };
            if self.waiting.load(Ordering::Acquire) {
                // The file is written. At the keyboard the program decides; else somebody wants us gone.
                if matches!(wish, Wish::Signal(_)) {
                    std::process::exit(0);
                }
                continue;
            }
            self.lock().get_or_insert(wish);
            interrupter.interrupt();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Wish>> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first wish, if there was one.
    pub fn wish(&self) -> Option<Wish> {
        *self.lock()
    }

    /// From now on only the program is waited for.
    pub fn only_wait(&self) {
        self.waiting.store(true, Ordering::Release);
    }
}
