//! Keeping the tracer and the thread it wakes on one cpu.
//!
//! A hit is two switches: from the thread to the tracer and back. Within one cpu they are cheap. Between two they
//! cost several times as much, since the other one must be woken from its sleep, by an interrupt that in a
//! virtual machine the host has to deliver. The scheduler does not know this: it sees the tracer awake on one cpu
//! while it wakes the thread, and puts the thread on another that is idle.
//!
//! So when one thread makes hit after hit, the tracer keeps to one cpu, and each time it wakes the thread it first
//! narrows the thread's affinity to that cpu, and widens it again right after: the thread has been put in that
//! cpu's queue, and runs as soon as the tracer waits. The affinity is only ever narrow while the thread stands
//! still, so neither it nor a child of it can find it so, and it needs no putting right at its end, an exec or
//! when we leave. (If the scheduler takes the cpu from the tracer between the two calls, the program runs with the
//! narrow one until the tracer gets it back.) What the program itself sets meanwhile is kept: the mask is read
//! anew each time.

use std::mem::{MaybeUninit, size_of};

use libc::cpu_set_t;
use nix::errno::Errno;

use crate::ptrace::{Status, Tid, wait_any};

/// After how many hits in a row of one thread it is followed.
const ENOUGH: u32 = 4;
/// After how many hits the scheduler is asked anew where the tracer should run.
const MANY: u32 = 4096;

/// Decides on which cpu a thread wakes after a hit.
#[derive(Debug)]
pub(crate) struct Follower {
    wanted: bool,
    /// The thread that was hit last, and how often in a row.
    last: Tid,
    streak: u32,
    /// While following: the cpu, and the tracer's own mask.
    held: Option<(usize, cpu_set_t)>,
    /// A mask that a thread had, and the one that gives it back.
    widened: Option<(cpu_set_t, cpu_set_t)>,
}

impl Follower {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            last: 0,
            streak: 0,
            held: None,
            widened: None,
        }
    }

    /// Waits for the next thing that a thread tells.
    pub(crate) fn wait(&mut self) -> Result<(Tid, Status), Errno> {
        wait_any()
    }

    /// A thread has been hit.
    pub(crate) fn hit(&mut self, thread: Tid) {
        if thread == self.last {
            self.streak = self.streak.saturating_add(1);
        } else {
            self.last = thread;
            self.streak = 0;
            self.rest();
        }
    }

    /// Wakes a thread by the function given, near the tracer if that pays.
    pub(crate) fn wake(&mut self, thread: Tid, wake: impl FnOnce()) {
        match self.narrow(thread) {
            Some(mask) => {
                wake();
                self.widen(thread, &mask);
            }
            None => wake(),
        }
    }

    /// Narrows the affinity of a thread that stands; what it was.
    fn narrow(&mut self, thread: Tid) -> Option<cpu_set_t> {
        if !self.wanted || thread != self.last || self.streak < ENOUGH {
            return None;
        }
        if self.streak > MANY {
            self.streak = 0;
            self.rest();
            return None;
        }
        let mask = affinity(thread)?;
        let cpu = self.hold(&mask)?;
        if count(&mask) == 1 {
            return None;
        }
        if !set_affinity(thread, &only(cpu)) {
            // Not allowed for this process: it is left alone from now on.
            self.wanted = false;
            self.rest();
            return None;
        }
        Some(mask)
    }

    fn widen(&mut self, thread: Tid, mask: &cpu_set_t) {
        let mask = self.widening(thread, mask);
        set_affinity(thread, &mask);
    }

    /// The mask to set in order to give a thread the mask it had. Where it had all cpus that it may have, it is
    /// given all there are: then it also gets those that it may have later on, as if nothing had been set.
    fn widening(&mut self, thread: Tid, mask: &cpu_set_t) -> cpu_set_t {
        match &self.widened {
            Some((had, set)) if had == mask => *set,
            _ => {
                let all = all();
                let same = set_affinity(thread, &all) && affinity(thread).as_ref() == Some(mask);
                let set = if same { all } else { *mask };
                self.widened = Some((*mask, set));
                set
            }
        }
    }

    /// Keeps the tracer to a cpu that the thread may run on too.
    fn hold(&mut self, mask: &cpu_set_t) -> Option<usize> {
        if let Some((cpu, _)) = &self.held
            && contains(mask, *cpu)
        {
            return Some(*cpu);
        }
        self.rest();
        let own = affinity(0)?;
        let here = current_cpu()?;
        let cpu = if contains(mask, here) {
            here
        } else {
            (0..libc::CPU_SETSIZE as usize)
                .find(|cpu| contains(mask, *cpu) && contains(&own, *cpu))?
        };
        set_affinity(0, &only(cpu)).then(|| {
            self.held = Some((cpu, own));
            cpu
        })
    }

    /// Gives the tracer its own affinity back.
    pub(crate) fn rest(&mut self) {
        if let Some((_, own)) = self.held.take() {
            set_affinity(0, &own);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.rest();
    }
}

/// The mask of a thread, 0 being the caller; `None` if it is gone or the machine has more cpus than a mask.
fn affinity(thread: Tid) -> Option<cpu_set_t> {
    let mut mask = MaybeUninit::<cpu_set_t>::zeroed();
    // SAFETY: the pointer is to a mask of the size given, of which all-zero bytes are a valid value.
    unsafe {
        (libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), mask.as_mut_ptr()) == 0)
            .then(|| mask.assume_init())
    }
}

fn set_affinity(thread: Tid, mask: &cpu_set_t) -> bool {
    // SAFETY: the pointer is to a mask of the size given.
    unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), mask) == 0 }
}

fn current_cpu() -> Option<usize> {
    // SAFETY: sched_getcpu touches nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn none() -> cpu_set_t {
    // SAFETY: all-zero bytes are a valid mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn only(cpu: usize) -> cpu_set_t {
    let mut mask = none();
    // SAFETY: the macro checks that the cpu is within the mask.
    unsafe { libc::CPU_SET(cpu, &mut mask) };
    mask
}

fn all() -> cpu_set_t {
    let mut mask = none();
    for cpu in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: the cpu is within the mask.
        unsafe { libc::CPU_SET(cpu, &mut mask) };
    }
    mask
}

fn contains(mask: &cpu_set_t, cpu: usize) -> bool {
    // SAFETY: the macro checks that the cpu is within the mask.
    cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, mask) }
}

fn count(mask: &cpu_set_t) -> i32 {
    // SAFETY: the function only reads the mask.
    unsafe { libc::CPU_COUNT(mask) }
}
