//! The signals that end a run from outside.
//!
//! ^C, SIGTERM and SIGHUP are blocked in every thread and taken by one that waits for them. So no signal handler runs, and no
//! signal is lost between two steps. A program that is started gets an empty mask.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracewire_recorder::{Priority, Stop, StopHandle, out_of_memory};

/// Blocked signals; made before any thread is.
#[derive(Debug)]
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals that end a run, and the signal that reports that memory has run out. Ignored signals (`nohup`) are not
    /// blocked, except SIGINT: a shell without job control ignores it for every `&`, and scripts end a recording with `kill -INT`.
    /// It stays ignored, so that the started program inherits that: Linux queues a blocked signal that is ignored.
    pub fn block() -> Self {
        let wanted = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is written by sigemptyset before it is read; `action` is written by sigaction if that returns 0. All
        // pointers are valid for the calls, and the numbers are those of signals.
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
            // A file at its size limit is then an error like a full disk, and does not end this process.
            let mut too_large = MaybeUninit::uninit();
            libc::sigemptyset(too_large.as_mut_ptr());
            libc::sigaddset(too_large.as_mut_ptr(), libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, too_large.as_ptr(), std::ptr::null_mut());
            set
        };
        Self { set }
    }

    /// Waits for one of the signals. Returns its number, and whether it came from the keyboard.
    pub fn wait(&self) -> Option<(i32, bool)> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set was filled by `block`; `info` is zeroed and large enough.
        let (signal, info) = unsafe {
            let signal = libc::sigwaitinfo(&raw const self.set, info.as_mut_ptr());
            (signal, info.assume_init())
        };
        (signal > 0).then_some((signal, info.si_code > 0))
    }
}

/// Stops a run when one of the signals comes, in a separate thread.
#[derive(Clone, Debug)]
pub struct Watch {
    stop: StopHandle,
    only_wait: Arc<AtomicBool>,
    /// Whether a signal that was sent only to this process has stopped the run.
    signalled: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch for signals; the first one stops the run.
    pub fn begin(signals: Signals, stop: StopHandle) -> std::io::Result<Self> {
        let watch = Self {
            stop,
            only_wait: Arc::default(),
            signalled: Arc::default(),
        };
        let own = watch.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                // It nearly always waits. Beside busy threads a signal would be noticed late.
                let _priority = Priority::raise_alone();
                own.watch(&signals);
            })?;
        Ok(watch)
    }

    fn watch(&self, signals: &Signals) {
        loop {
            let Some((signal, is_keyboard)) = signals.wait() else {
                continue;
            };
            if signal == out_of_memory::SIGNAL && out_of_memory::verify().is_err() {
                self.stop.stop(Stop::OutOfMemory);
                continue;
            }
            if self.only_wait.load(Ordering::Acquire) {
                if !is_keyboard {
                    // The file is written. At the keyboard the program decides; else the signal was meant for this process.
                    std::process::exit(0);
                }
                continue;
            }
            if self.stop.stopped().is_none() && !is_keyboard {
                self.signalled.store(true, Ordering::Release);
            }
            let by = match signal {
                _ if is_keyboard => "^C",
                libc::SIGTERM => "SIGTERM",
                libc::SIGHUP => "SIGHUP",
                _ => "a signal",
            };
            self.stop
                .stop(Stop::Asked(format!("the run was ended by {by}")));
        }
    }

    /// Whether a signal that was sent only to this process has stopped the run.
    pub fn signalled(&self) -> bool {
        self.signalled.load(Ordering::Acquire)
    }

    /// From now on only the program is waited for.
    pub fn only_wait(&self) {
        self.only_wait.store(true, Ordering::Release);
    }
}
