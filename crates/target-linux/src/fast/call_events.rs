//! Pads that make call events, in thousands at once.

use std::cell::RefCell;
use std::rc::Rc;

use tracewire_experiment::TargetError;
use tracewire_jump_pad::call_events::{CallPad, CallRings, Drained, SiteNumber, ThreadEvents};
use tracewire_jump_pad::{Features, PadMemory, SharedLayout, SharedSizes, WhenFull};
use tracewire_model::Address;

use super::Body;
use super::change::JUMP_REACH;
use super::journal::JUMPS;
use crate::insert::NOT_MAPPED;
use crate::process::Process;
use crate::ptrace::PAGE_SIZE;

/// The call events of a process: what makes them, and what reads them.
#[derive(Debug)]
pub struct CallEvents {
    rings: Rc<RefCell<CallRings>>,
    pad: CallPad,
    /// The journal of the jumps is there.
    _memory: PadMemory,
}

impl CallEvents {
    /// How many sites a process may have: so many a tracer that comes after us can take out, should we be killed.
    pub const MOST_SITES: usize = if SiteNumber::COUNT < JUMPS as usize {
        SiteNumber::COUNT
    } else {
        JUMPS as usize - 16
    };

    /// Sets up memory for call events. What was set up for other pads is given up.
    ///
    /// # Errors
    /// When the process cannot have it, or the machine has no `rdfsbase`, in words for the user.
    pub fn set_up(process: &mut Process) -> Result<Self, String> {
        if !Features::of_this_machine().fsgsbase {
            return Err(
                "calls are followed where programs may read their fs base: that takes Linux 5.9 and a processor of the \
                 last ten years"
                    .to_owned(),
            );
        }
        // No pad makes frames: the memory is there for its journal and for the table of threads.
        let sizes = SharedSizes {
            cpus: 1,
            ring_bytes: 4096,
            frame_limit: 0,
            tracepoints: 0,
            variables: 0,
            hold_bytes: 0,
            count_bytes: 0,
            when_full: WhenFull::Stop,
        };
        let layout = SharedLayout::new(sizes, 1).map_err(|error| error.to_string())?;
        let memory = process.patcher().attend(layout)?;
        let busy = 0..CallRings::BUSY;
        let shared = process
            .patcher()
            .share_memory_partly(CallRings::SIZE, std::slice::from_ref(&busy))?;
        let pad = CallPad::new(shared.address()).map_err(|error| error.to_string())?;
        let (base, address) = (shared.as_ptr(), shared.address());
        // SAFETY: the mapping has this size, starts at a page, and is kept by the last argument.
        let rings = unsafe { CallRings::create(base, address, Box::new(shared)) };
        let rings = Rc::new(RefCell::new(rings));
        process
            .tracee
            .fast
            .follow_calls(&process.tracee.threads, &rings);
        Ok(Self {
            rings,
            pad,
            _memory: memory,
        })
    }

    /// Puts pads in that make call events, and gives the sites where none can be. All threads are stopped.
    pub fn insert(
        &self,
        process: &mut Process,
        sites: &[(Address, SiteNumber)],
    ) -> Vec<SiteRefused> {
        // The displacement of a jump may end in the bytes of the next one: higher ones come first, and none has to be made again.
        let mut sites = sites.to_vec();
        sites.sort_by_key(|(address, _)| std::cmp::Reverse(*address));
        let threads = process.patcher().settled_threads();
        let mut refused = Vec::new();
        for together in sites.chunk_by(|one, next| stage_of(one.0) == stage_of(next.0)) {
            let first = together.first().and_then(|(address, _)| stage_of(*address));
            let page = first.filter(|_| together.len() > 1);
            let before = refused.len();
            for (address, site) in together {
                if let Some(page) = page {
                    // Again after a system call for memory, which has written what waited.
                    process.patcher().stage_code(page, &threads);
                }
                let body = Body::numbered(self.pad.code(), self.pad.number(*site));
                if let Err(error) = process.insert_body(*address, body) {
                    refused.push(SiteRefused {
                        site: *site,
                        reason: reason_of(error),
                    });
                }
            }
            if let Err(error) = process.tracee.memory.write_staged() {
                refused.truncate(before);
                refused.extend(together.iter().map(|(_, site)| SiteRefused {
                    site: *site,
                    reason: error.to_string(),
                }));
            }
        }
        refused
    }

    /// Takes all pads out, and every thread out of them as far as can be: no event comes any more. All threads are stopped.
    pub fn leave(process: &mut Process) {
        process.tracee.remove_everything();
        process.tracee.empty_pads();
    }

    /// Takes the pads out at these sites. All threads are stopped.
    pub fn remove(process: &mut Process, sites: &[Address]) {
        for site in sites {
            // Memory that is gone needs no byte back.
            let _ = process.patcher().take_jump_out(site.0);
            let tracee = &mut process.tracee;
            tracee.fast.forget_jump(&mut tracee.memory, site.0);
        }
    }

    /// Reads the events that are there, while the program runs.
    pub fn drain(&self, take: &mut dyn FnMut(ThreadEvents<'_>)) -> Drained {
        self.rings.borrow_mut().drain(take)
    }

    /// Reads all events that are left, once no thread is in a pad.
    pub fn finish(&self, take: &mut dyn FnMut(ThreadEvents<'_>)) -> Drained {
        self.rings.borrow_mut().finish(take)
    }

    /// How many events were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.borrow().lost()
    }

    /// How many threads got no ring, because there were too many at once: their events are among those that were lost.
    #[must_use]
    pub fn threads_without_ring(&self) -> u64 {
        self.rings.borrow().threads_without_ring()
    }
}

/// The page that a jump at an address is staged on; none where bytes of another page matter to it.
fn stage_of(address: Address) -> Option<u64> {
    let within = address.0 % PAGE_SIZE;
    (JUMP_REACH..PAGE_SIZE - JUMP_REACH)
        .contains(&within)
        .then_some(address.0 - within)
}

fn reason_of(error: TargetError) -> String {
    match error {
        TargetError::CannotInsert { reason, .. } => reason,
        TargetError::NotMapped(_) => NOT_MAPPED.to_owned(),
        other => other.to_string(),
    }
}

/// A site where no pad can be, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteRefused {
    /// The site.
    pub site: SiteNumber,
    /// Why not, in words for the user.
    pub reason: String,
}
