//! What happens when there is no more memory: a run ends in order, and what it has saved stays.
//!
//! Most allocations cannot report that they failed: the standard library aborts, and what an aborted tracer leaves in a
//! program may kill it. So a program may have [`Allocator`] as its global allocator, which holds memory in reserve while there
//! is a program to leave ([`reserve`]). The first allocation that fails gives the reserve back to the system, which is what the end
//! in order then uses, and sends this process [`SIGNAL`], for which one of its threads waits, and stops the run with
//! [`Stop::OutOfMemory`](crate::Stop::OutOfMemory). A request that is larger than the reserve fails as it is: those whose size
//! comes from a program or a file report it.
//!
//! The reserve must not go to the one piece of work that can need any amount: reading the symbols of files. That is done by
//! threads that can be given up ([`Expendable`]): one that gets no memory stops for good, and the thread that waits for it
//! gets an error.
//!
//! Where nothing is left, not even for a small request, the command ends at once with a message and status 2.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The signal that this process sends itself. Linux never sends it itself; like other classic signals it needs no memory.
pub const SIGNAL: libc::c_int = libc::SIGSTKFLT;

/// How much memory is held for the end of a run: for threads to leave, places to take out and what the file says of them.
const FOR_LEAVING: usize = 16 << 20;

/// How much more for each cpu: its ring is read a last time, into a vector that grows meanwhile.
const FOR_RING: usize = 16 << 20;

/// From what size on a request of an expendable thread just fails: its size is then likely to be a file's word, and the
/// thread to expect it.
const LARGE: usize = 1 << 30;

/// Up to what size a request is none that a caller expects to fail.
const SMALL: usize = 1 << 20;

/// The least that the C library asks the system for last, when its own memory is used up.
const C_LIBRARY_LEAST: usize = 1 << 20;

/// How much of its stack the calling thread is to have from the start. A stack that cannot grow is no error but a fault.
const STACK: usize = 256 << 10;

/// What is held, or null.
static HELD: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// How much it is.
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// Whether the reserve had to be used.
static USED: AtomicBool = AtomicBool::new(false);

/// Whether any allocation has failed for good.
static FAILED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The work of this thread, where it can be given up.
    static WORK: Cell<*const Progress> = const { Cell::new(ptr::null()) };
}

/// There is not enough memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl std::error::Error for OutOfMemory {}

/// Holds memory for an end in order. The process is sent [`SIGNAL`] when it is given back, which must be blocked by then.
///
/// # Errors
/// When there is not that much memory now.
pub fn reserve() -> std::io::Result<()> {
    extend_stack();
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let size = FOR_RING.saturating_mul(cpus).saturating_add(FOR_LEAVING);
    // SAFETY: new memory anywhere; nothing else is touched.
    let held = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if held == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    SIZE.store(size, Ordering::Release);
    HELD.store(held, Ordering::Release);
    Ok(())
}

/// Has the calling thread's stack grow now.
#[inline(never)]
pub(crate) fn extend_stack() {
    let mut room = [MaybeUninit::<u8>::uninit(); STACK];
    for page in room.chunks_mut(4096) {
        page[0].write(0);
    }
    std::hint::black_box(&mut room);
}

/// Whether there was memory for everything.
///
/// # Errors
/// When the reserve had to be used.
pub fn verify() -> Result<(), OutOfMemory> {
    if USED.load(Ordering::Acquire) {
        return Err(OutOfMemory);
    }
    Ok(())
}

/// Installs a handler of SIGABRT. Without memory, the tracer exits with a message, or an expendable thread ends. Other aborts are
/// as before. The C library aborts, too, where it gets no memory for what a thread has of its own.
pub fn handle_aborts() {
    extern "C" fn aborted(signal: libc::c_int) {
        // SAFETY: all of these may be called in a signal handler; a thread's work lives until the thread has cleared the pointer,
        // and this is that thread.
        unsafe {
            if FAILED.load(Ordering::Acquire) || !is_memory_left() {
                if let Some(work) = WORK.get().as_ref() {
                    work.give_up();
                }
                end_at_once();
            }
            // `abort` raises the signal once more when this returns.
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    // SAFETY: all-zero bytes are a valid sigaction, and both pointers are good for the call.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = aborted as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGABRT, &raw const action, ptr::null_mut());
    }
}

/// Whether the C library would get memory now. May be called in a signal handler.
fn is_memory_left() -> bool {
    // SAFETY: new memory anywhere, which is unmapped at once.
    unsafe {
        let memory = libc::mmap(
            ptr::null_mut(),
            C_LIBRARY_LEAST,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        memory != libc::MAP_FAILED && libc::munmap(memory, C_LIBRARY_LEAST) == 0
    }
}

/// The system's allocator, with the reserve.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: every request is the system allocator's, or the same one once more.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        again(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; all memory is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; where it fails the memory is as it was.
        again(size, || unsafe { System.realloc(memory, layout, size) })
    }
}

#[inline]
fn again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() {
        return without_memory(size, &allocate);
    }
    memory
}

/// Nothing here may allocate or panic.
#[cold]
fn without_memory(size: usize, allocate: &dyn Fn() -> *mut u8) -> *mut u8 {
    // SAFETY: a thread's work lives until the thread has cleared the pointer, and this is that thread.
    let work = unsafe { WORK.get().as_ref() };
    let mut memory = ptr::null_mut();
    match work {
        // Here and not when the standard library gives up, for it holds a lock then.
        Some(work) if size < LARGE => work.give_up(),
        None if size < SIZE.load(Ordering::Acquire).max(SMALL) => {
            release();
            // Another thread may have released it.
            memory = allocate();
            if memory.is_null() {
                // Here and not when the standard library gives up: it waits for the lock under which this thread may be making the
                // backtrace of an error.
                end_at_once();
            }
        }
        _ => {}
    }
    if memory.is_null() {
        FAILED.store(true, Ordering::Release);
    }
    memory
}

/// Ends the command with a message. May be called in a signal handler.
fn end_at_once() -> ! {
    const WORDS: &str = "tracewire: out of memory\n";
    // SAFETY: both may be called in a signal handler; the words live for ever.
    unsafe {
        libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len());
        libc::_exit(2);
    }
}

/// Gives the reserve back to the system and asks for the end, if that was not done before.
fn release() {
    let held = HELD.swap(ptr::null_mut(), Ordering::AcqRel);
    if held.is_null() {
        return;
    }
    USED.store(true, Ordering::Release);
    // SAFETY: the memory was mapped by `reserve`, the caller that takes the pointer out is the only one to have it, and it was
    // never used. `kill` takes plain numbers.
    unsafe {
        libc::munmap(held, SIZE.load(Ordering::Acquire));
        libc::kill(libc::getpid(), SIGNAL);
    }
}

/// How far the work of an expendable thread is.
struct Progress {
    state: AtomicU8,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl Progress {
    const WORKING: u8 = 0;
    /// The thread ends, with a result or a panic.
    const ENDED: u8 = 1;
    /// The thread never ends.
    const GIVEN_UP: u8 = 2;

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        (self.notify)();
    }

    /// Stops the calling thread for good: what it needs it does not get.
    fn give_up(&self) -> ! {
        self.set(Self::GIVEN_UP);
        loop {
            // SAFETY: pause touches nothing.
            unsafe { libc::pause() };
        }
    }
}

/// Why work in a thread of its own has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// There is not enough memory for it.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

/// Work that may need any amount of memory, in a thread of its own that can be given up.
pub struct Expendable<R> {
    progress: Arc<Progress>,
    thread: JoinHandle<R>,
}

impl<R: Send + 'static> Expendable<R> {
    /// Begins with it. `notify` is called when it is over, one way or the other; it may not allocate.
    pub fn start(
        notify: impl Fn() + Send + Sync + 'static,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> std::io::Result<Self> {
        let progress = Arc::new(Progress {
            state: AtomicU8::new(Progress::WORKING),
            notify: Box::new(notify),
        });
        let own = Arc::clone(&progress);
        let thread = std::thread::Builder::new()
            .name("symbols".to_owned())
            .spawn(move || {
                // However the work ends, no thread waits any more.
                let _marked = Marked::new(&own);
                work()
            })?;
        Ok(Self { progress, thread })
    }

    /// Does it while the calling thread waits.
    ///
    /// # Errors
    /// When there is no thread, or not enough memory for the work.
    pub fn wait(work: impl FnOnce() -> R + Send + 'static) -> Result<R, WorkError> {
        let waiting = std::thread::current();
        let started = Self::start(move || waiting.unpark(), work).map_err(WorkError::Thread)?;
        while !started.is_over() {
            std::thread::park();
        }
        Ok(started.result()?)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.progress.state() != Progress::WORKING
    }

    /// The result, when it is over.
    ///
    /// # Errors
    /// When there was not enough memory for it.
    pub fn result(self) -> Result<R, OutOfMemory> {
        if self.progress.state() == Progress::GIVEN_UP {
            return Err(OutOfMemory);
        }
        match self.thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// While it lives, the calling thread is one that can be given up.
struct Marked<'a>(&'a Progress);

impl<'a> Marked<'a> {
    fn new(progress: &'a Progress) -> Self {
        WORK.set(progress);
        Self(progress)
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        WORK.set(ptr::null());
        self.0.set(Progress::ENDED);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    #[test]
    fn work_in_a_thread_of_its_own_is_done() {
        let text = "text".to_owned();
        assert_eq!(Expendable::wait(move || text.len()).expect("done"), 4);
    }

    /// Set in a process that a test makes to abort in: `none` for no more memory.
    const TO_ABORT: &str = "TRACEWIRE_TEST_ABORT";

    #[test]
    fn an_abort_is_one_for_want_of_memory_where_there_is_none() {
        if let Some(limit) = std::env::var_os(TO_ABORT) {
            handle_aborts();
            if limit == "none" {
                let limit = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: libc::RLIM_INFINITY,
                };
                // SAFETY: the pointer is to a live structure.
                let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
                assert_eq!(set, 0);
            }
            std::process::abort();
        }
        let aborted = |memory: &str| {
            let test = std::env::current_exe().expect("its path");
            std::process::Command::new(test)
                .args([
                    "--exact",
                    "out_of_memory::tests::an_abort_is_one_for_want_of_memory_where_there_is_none",
                ])
                .arg("--nocapture")
                .env(TO_ABORT, memory)
                .output()
                .expect("it runs")
        };
        let without = aborted("none");
        assert_eq!(without.status.code(), Some(2), "{without:?}");
        assert!(String::from_utf8_lossy(&without.stderr).ends_with("tracewire: out of memory\n"));
        let with = aborted("any");
        assert_eq!(with.status.signal(), Some(libc::SIGABRT), "{with:?}");
    }

    #[test]
    fn a_process_without_memory_ends_with_a_message() {
        if let Some(held) = std::env::var_os(TO_ABORT) {
            // No thread of the tests waits for it.
            // SAFETY: it takes plain numbers.
            unsafe { libc::signal(SIGNAL, libc::SIG_IGN) };
            handle_aborts();
            if held == "reserve" {
                reserve().expect("a reserve");
            }
            let limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: libc::RLIM_INFINITY,
            };
            // SAFETY: the pointer is to a live structure.
            let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
            assert_eq!(set, 0);
            loop {
                std::mem::forget(Vec::<u8>::with_capacity(1 << 12));
            }
        }
        for held in ["reserve", "nothing"] {
            let test = std::env::current_exe().expect("its path");
            let ended = std::process::Command::new(test)
                .args([
                    "--exact",
                    "out_of_memory::tests::a_process_without_memory_ends_with_a_message",
                ])
                .arg("--nocapture")
                .env(TO_ABORT, held)
                .env("RUST_BACKTRACE", "1")
                .output()
                .expect("it runs");
            assert_eq!(ended.status.code(), Some(2), "{ended:?}");
            // The standard library says nothing: it would take a lock for that.
            let words = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(words, "tracewire: out of memory\n");
        }
    }

    #[test]
    fn a_thread_without_memory_is_given_up() {
        handle_aborts();
        // More than there are addresses: it fails on every machine.
        let work = || Vec::<u8>::with_capacity(1 << 60).len();
        let error = Expendable::wait(work).expect_err("no memory");
        assert!(matches!(error, WorkError::OutOfMemory(_)), "{error}");
        // Nothing else had to go without.
        assert_eq!(verify(), Ok(()));
    }
}
