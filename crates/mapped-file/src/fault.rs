//! Pages that a mapped file has lost: they read as zeros instead of ending the program.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many files can be mapped at once. Commands map a few; `merge` one for each of its inputs.
const REGIONS: usize = 4096;

/// A region of memory, for the handler, which can take no lock. It is unused while `end` is 0.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
}

static SLOTS: [Slot; REGIONS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
    }
}; REGIONS];

/// In [`Slot::start`] of a slot that is taken but has no region yet.
const TAKEN: usize = usize::MAX;

/// The previous handler of the signal.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The pages of a map, while this value lives.
#[derive(Debug)]
pub(crate) struct Region {
    /// The slot; none for a map of no bytes.
    slot: Option<usize>,
}

impl Region {
    /// # Errors
    /// When too many regions are in use, or the kernel refuses the handler.
    pub(crate) fn new(bytes: &[u8]) -> io::Result<Self> {
        if bytes.is_empty() {
            return Ok(Self { slot: None });
        }
        install()?;
        let slot = SLOTS
            .iter()
            .position(|slot| {
                slot.start
                    .compare_exchange(0, TAKEN, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            })
            .ok_or_else(|| io::Error::other("too many files are mapped at once"))?;
        let start = bytes.as_ptr().addr();
        SLOTS[slot].start.store(start, Ordering::Relaxed);
        SLOTS[slot]
            .end
            .store(start + bytes.len(), Ordering::Release);
        Ok(Self { slot: Some(slot) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            SLOTS[slot].end.store(0, Ordering::Release);
            SLOTS[slot].start.store(0, Ordering::Release);
        }
    }
}

fn install() -> io::Result<()> {
    static RESULT: OnceLock<Result<(), i32>> = OnceLock::new();
    RESULT
        .get_or_init(|| {
            let mut before = MaybeUninit::uninit();
            // SAFETY: the action is whole: a handler with three arguments, an empty mask.
            let result = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr())
            };
            if result != 0 {
                return Err(io::Error::last_os_error()
                    .raw_os_error()
                    .unwrap_or(libc::EINVAL));
            }
            // SAFETY: the call has filled it.
            let _ = BEFORE.set(unsafe { before.assume_init() });
            Ok(())
        })
        .map_err(io::Error::from_raw_os_error)
}

/// Puts zeros where the file has lost its pages. Only calls that may be made in a handler are made.
extern "C" fn handle(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives the address of the fault with this signal.
    let address = unsafe { (*information).si_addr() }.addr();
    let region = SLOTS.iter().find_map(|slot| {
        let end = slot.end.load(Ordering::Acquire);
        let start = slot.start.load(Ordering::Relaxed);
        (start <= address && address < end).then_some(end)
    });
    let Some(end) = region else {
        return pass_on(signal, information, context);
    };
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = address & !(page - 1);
    // SAFETY: the pages belong to a map of a file that is only read, from here to its end, and stay mapped while the map lives.
    // Zeros are valid bytes.
    let zeros = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(start),
            end - start,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if zeros == libc::MAP_FAILED {
        pass_on(signal, information, context);
    }
}

/// Passes the signal to the previous handler, or to the kernel: the instruction faults again, then without a handler.
fn pass_on(signal: libc::c_int, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().filter(|before| {
        before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN
    });
    match before {
        // SAFETY: it was installed for this signal with these arguments.
        Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(before.sa_sigaction);
            handler(signal, information, context);
        },
        // SAFETY: as above, with one argument.
        Some(before) => unsafe {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(before.sa_sigaction);
            handler(signal);
        },
        // SAFETY: the action is whole: the kernel's own.
        None => unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        },
    }
}
