//! Stopping a run from another thread, or from a signal handler's thread, without a race.
//!
//! The thread that runs the program waits in the kernel, where only a signal reaches it, and a signal just before the
//! wait is lost. So the request is a flag, and the signal is sent repeatedly until the flag has been seen.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

/// The signal that interrupts the wait. It is ignored by default, so that an additional one is harmless.
pub(crate) const SIGNAL: libc::c_int = libc::SIGURG;

/// How long to wait before the next try, long enough for the waiting thread to be scheduled.
const RETRY: Duration = Duration::from_millis(1);

/// The state that the running thread and its interrupters share.
#[derive(Debug, Default)]
pub(crate) struct Request {
    wanted: AtomicBool,
    /// The thread that runs the program; 0 while none does.
    runner: AtomicI32,
}

impl Request {
    /// Whether an interruption is requested; clears the request.
    pub(crate) fn take(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::AcqRel)
    }

    /// Makes the next run end at once.
    pub(crate) fn make(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Marks the calling thread as the one that runs, until the mark is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> RunMark {
        install_handler();
        // SAFETY: gettid cannot fail and touches nothing.
        self.runner
            .store(unsafe { libc::gettid() }, Ordering::Release);
        RunMark(Arc::clone(self))
    }
}

/// While this value exists, its thread can be interrupted.
pub(crate) struct RunMark(Arc<Request>);

impl Drop for RunMark {
    fn drop(&mut self) {
        self.0.runner.store(0, Ordering::Release);
    }
}

/// Ends a [`run`](crate::Process::run) with [`Event::Interrupted`](crate::Event::Interrupted), from any thread.
#[derive(Clone, Debug)]
pub struct Interrupter(pub(crate) Arc<Request>);

impl Interrupter {
    /// Whether the process, or another handle for it, still exists.
    #[must_use]
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Requests the end of the run and returns once the request has been seen. If no run is under way, the next one
    /// ends at once. The thread that runs the program may call this too, from a handler of hits: it sees the request
    /// before it waits again.
    pub fn interrupt(&self) {
        Self::interrupt_all(std::slice::from_ref(self));
    }

    /// Requests the end of several runs as [`interrupt`](Self::interrupt) does, of all before one is waited for.
    pub fn interrupt_all(all: &[Self]) {
        for one in all {
            one.0.wanted.store(true, Ordering::Release);
        }
        // SAFETY: gettid cannot fail and touches nothing.
        let own = unsafe { libc::gettid() };
        loop {
            // Nothing is allocated: a thread that gets no memory says so by an interruption.
            let mut waits = false;
            for one in all {
                let runner = one.0.runner.load(Ordering::Acquire);
                if runner != 0 && runner != own && one.0.wanted.load(Ordering::Acquire) {
                    send(runner);
                    waits = true;
                }
            }
            if !waits {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }
}

/// Sends the signal to a thread of the tracer. It is a standard signal, which needs no room in the signal queue.
pub(crate) fn send(thread: i32) {
    // SAFETY: tgkill takes plain numbers; that the thread has ended meanwhile is an error it reports.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
}

/// Installs a handler so that the signal interrupts system calls, once for the whole process.
fn install_handler() {
    static INSTALLED: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    INSTALLED.call_once(|| {
        // SAFETY: all-zero bytes are a valid sigaction, the handler does nothing, and both pointers are good
        // for the call. Without SA_RESTART the signal ends the wait.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
        }
    });
}
