//! Keeping the tracer and the thread it wakes on one cpu.
//!
//! A hit is two switches: from the thread to the tracer and back. Within one cpu they are cheap. Between two cpus they
//! can cost several times as much: the other cpu must be woken by an interrupt, which in a virtual machine the host
//! delivers. The scheduler sees the tracer awake on one cpu while it wakes the thread, and puts the thread on an idle
//! one.
//!
//! So when one thread makes hit after hit, the tracer stays on one cpu. Before it wakes the thread it narrows the
//! thread's affinity to that cpu, and it widens the affinity right after. By then the thread is in that cpu's queue,
//! and it runs as soon as the tracer waits. The affinity is narrow only while the thread is stopped. So nothing must be
//! restored at its end, at an exec or at detach. The mask is read each time, so that a change by the program is kept.
//!
//! There is one gap: the scheduler may take the cpu from the tracer between the waking and the widening, about once in
//! some hundred hits. Then the program runs with the narrow mask until the tracer is back, and only a program that
//! reads its affinity at that moment notices. A child that is made at that moment gets the right mask before it runs
//! ([`Follower::born`]).
//!
//! Whether this pays depends on the machine and its load: with no cpu idle, the scheduler does the same by itself. So
//! both ways are measured over some hits, and the faster one is used for a while.

use std::mem::{MaybeUninit, size_of};
use std::time::{Duration, Instant};

use libc::cpu_set_t;

use crate::ptrace::Tid;

/// How many consecutive hits of one thread each trial takes.
const TRIAL: u32 = 48;
/// For how many hits the faster way is used.
const KEPT: u32 = 4096;
/// With more time than this between hits, their cost does not matter.
const RARE: Duration = Duration::from_millis(1);

/// How the hits of the last thread are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Following the tracer's cpu, to measure the time.
    TryWith,
    /// Not following it, to measure the time; following took this long.
    TryWithout(Duration),
    /// The faster way.
    Kept(bool),
}

/// Decides on which cpu a thread wakes after a hit.
#[derive(Debug)]
pub(crate) struct Follower {
    wanted: bool,
    /// The thread that was hit last, its consecutive hits during the phase, and when that began.
    last: Tid,
    streak: u32,
    phase: Phase,
    since: Option<Instant>,
    /// While following: the cpu, and the tracer's own mask.
    held: Option<(usize, cpu_set_t)>,
    /// A thread's previous mask, and the mask that restores it.
    widened: Option<(cpu_set_t, cpu_set_t)>,
}

impl Follower {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            last: 0,
            streak: 0,
            phase: Phase::Kept(false),
            since: None,
            held: None,
            widened: None,
        }
    }

    /// A thread has been hit.
    pub(crate) fn hit(&mut self, thread: Tid) {
        if !self.wanted {
            return;
        }
        if thread != self.last {
            self.last = thread;
            self.enter(Phase::Kept(false));
            // Not at once: other threads may be about to be hit too.
            self.streak = KEPT - TRIAL;
            self.since = None;
            return;
        }
        self.streak += 1;
        let enough = if matches!(self.phase, Phase::Kept(_)) {
            KEPT
        } else {
            TRIAL
        };
        if self.streak < enough {
            return;
        }
        let took = self.since.map(|since| since.elapsed()).unwrap_or_default();
        self.enter(match self.phase {
            Phase::Kept(_) => Phase::TryWith,
            Phase::TryWith => Phase::TryWithout(took),
            Phase::TryWithout(with) => Phase::Kept(with < took && took < RARE * TRIAL),
        });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.streak = 0;
        self.since = Some(Instant::now());
        if !self.follows() {
            self.rest();
        }
    }

    fn follows(&self) -> bool {
        matches!(self.phase, Phase::TryWith | Phase::Kept(true))
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

    /// A thread or a process was created and has not run yet: it should have its parent's mask.
    pub(crate) fn born(&self, parent: Tid, child: Tid) {
        if let Some((cpu, _)) = self.held
            && let Some(mask) = affinity(parent)
            && affinity(child) == Some(only(cpu))
        {
            set_affinity(child, &mask);
        }
    }

    /// Narrows the affinity of a stopped thread. Returns the previous mask.
    fn narrow(&mut self, thread: Tid) -> Option<cpu_set_t> {
        if !self.wanted || thread != self.last || !self.follows() {
            return None;
        }
        let mask = affinity(thread)?;
        let cpu = self.hold(&mask)?;
        if count(&mask) == 1 {
            return None;
        }
        if !set_affinity(thread, &only(cpu)) {
            // Not allowed for this process: do not try again.
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

    /// The mask that restores a thread's previous mask. If it had all permitted cpus, this is the mask of all existing
    /// ones: then it also gets cpus that are permitted later, as if nothing had been set.
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

    /// Restores the tracer's own affinity.
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

/// The mask of a thread, 0 being the caller; `None` if the thread has ended or the machine has more cpus than a mask.
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
