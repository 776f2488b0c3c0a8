//! The signals and the clock that end a run from outside.
//!
//! ^C, SIGTERM and SIGHUP are blocked in every thread and taken by one that waits for them: nothing of ours runs
//! in a signal handler, and no signal is lost between two steps. A program that is started gets an empty mask.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::Interrupter;

use crate::out_of_memory;

/// Why somebody wants the run to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// ^C at the terminal, which the program has had too.
    Keyboard,
    /// A signal sent to us alone, by its number.
    Signal(i32),
    /// The time is over.
    Duration,
    /// There is no more memory.
    OutOfMemory,
}

/// Blocked signals; made before any thread is.
#[derive(Debug)]
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals that end a run, the one that is sent for want of memory among them, but for those that are ignored (`nohup`). SIGINT is taken even so: a shell without
    /// job control has every `&` ignore it, and `kill -INT` is how scripts end a recording. It stays ignored where it was,
    /// for the program that is started to inherit: Linux queues a blocked signal that is ignored.
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
                let ignored = !known || action.assume_init_ref().sa_sigaction == libc::SIG_IGN;
                if signal == libc::SIGINT || !ignored {
                    libc::sigaddset(set.as_mut_ptr(), signal);
                }
            }
            libc::sigaddset(set.as_mut_ptr(), out_of_memory::SIGNAL);
            let set = set.assume_init();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            // A file at its largest is then an error like a full disk, and not the end of us.
            let mut too_large = MaybeUninit::uninit();
            libc::sigemptyset(too_large.as_mut_ptr());
            libc::sigaddset(too_large.as_mut_ptr(), libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, too_large.as_ptr(), std::ptr::null_mut());
            set
        };
        Self { set }
    }

    /// Waits for one of the signals: its number, and whether it came from the keyboard.
    pub fn wait(&self) -> Option<(i32, bool)> {
        let mut told = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set was filled by `block`; `told` is zeroed and large enough.
        let (signal, told) = unsafe {
            let signal = libc::sigwaitinfo(&raw const self.set, told.as_mut_ptr());
            (signal, told.assume_init())
        };
        (signal > 0).then_some((signal, told.si_code > 0))
    }
}

/// For how long the program has been held still by us.
#[derive(Debug, Default)]
struct Held {
    before: Duration,
    /// Since when it is now.
    since: Option<Instant>,
}

/// Watches for signals and the end of the time, in threads of its own.
#[derive(Clone, Debug)]
pub struct Watch {
    wish: Arc<Mutex<Option<Wish>>>,
    waiting: Arc<AtomicBool>,
    held: Arc<Mutex<Held>>,
    interrupter: Interrupter,
}

impl Watch {
    /// Begins to watch for signals; the run is interrupted at the first wish.
    pub fn begin(signals: Signals, interrupter: Interrupter) -> std::io::Result<Self> {
        let watch = Self {
            wish: Arc::default(),
            waiting: Arc::default(),
            held: Arc::default(),
            interrupter,
        };
        let own = watch.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || own.watch(&signals))?;
        Ok(watch)
    }

    fn watch(&self, signals: &Signals) {
        loop {
            let wish = match signals.wait() {
                Some((out_of_memory::SIGNAL, _)) if out_of_memory::verify().is_err() => {
                    Wish::OutOfMemory
                }
                Some((_, true)) => Wish::Keyboard,
                Some((signal, false)) => Wish::Signal(signal),
                None => continue,
            };
            if !self.waiting.load(Ordering::Acquire) {
                self.want(wish);
            } else if matches!(wish, Wish::Signal(_)) {
                // The file is written. At the keyboard the program decides; else somebody wants us gone.
                std::process::exit(0);
            }
        }
    }

    fn want(&self, wish: Wish) {
        self.lock().get_or_insert(wish);
        self.interrupter.interrupt();
    }

    /// Wants the run to end when the program has run for so long from now on.
    pub fn end_after(&self, duration: Duration) -> std::io::Result<()> {
        let own = self.clone();
        let begun = Instant::now();
        std::thread::Builder::new()
            .name("duration".to_owned())
            .spawn(move || {
                loop {
                    let held = own.held();
                    let left = duration
                        .saturating_add(held)
                        .saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return own.want(Wish::Duration);
                    }
                    std::thread::sleep(left);
                }
            })?;
        Ok(())
    }

    /// Does something while the program stands still for it; that time does not count.
    pub fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        self.lock_held().since = Some(Instant::now());
        let result = work();
        let mut held = self.lock_held();
        let now = held.since.take().map(|since| since.elapsed());
        held.before += now.unwrap_or_default();
        result
    }

    fn held(&self) -> Duration {
        let held = self.lock_held();
        held.before + held.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Wish>> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first wish, if there was one.
    pub fn wish(&self) -> Option<Wish> {
        *self.lock()
    }

    /// Ends a wait for something else than a wish.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// From now on only the program is waited for.
    pub fn only_wait(&self) {
        self.waiting.store(true, Ordering::Release);
    }
}
