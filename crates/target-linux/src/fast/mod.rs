//! Jump pads: tracepoints that the program serves by itself.
//!
//! At the site stands a jump, into code of ours in memory that we had the process map: the *pad*. It does what the
//! tracepoint is there for, runs a copy of the displaced instructions, and jumps back. No stop, no system call.
//!
//! All of this happens while every thread stands still. A jump goes in with one write within a page, which the kernel
//! does not leave half done even if we are killed: the program never runs with a part of a jump.

mod call_events;
mod change;
mod code_arena;
mod gdb_relocated;
mod hook;
mod journal;
mod mechanism;
mod place;
mod position;
mod remove;
mod shared;
mod shared_state;
mod threads;

pub use call_events::{CallEvents, SiteRefused};
pub(crate) use change::JUMP_REACH;
pub use journal::{FramesFile, FramesFileNote};
pub(crate) use journal::{Reading, SIZE as JOURNAL_SIZE};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use crate::address_space::NoMemory;
use crate::ptrace::Tid;
use tracewire_experiment::{Fault, PadCode};
use tracewire_jump_pad::relocate::{Copy, Jump, Spot, Unmovable};

use code_arena::CodeArena;
use gdb_relocated::GdbRelocated;
use journal::Journal;
pub use mechanism::Mechanism;
pub(crate) use shared::Mapping;
pub use shared::{Ownership, SharedMemory};
use shared_state::{HookMemory, SharedState};

/// The jumps in a process, and the pads that they lead to.
#[derive(Debug, Default)]
pub(crate) struct Fast {
    /// The jumps by their sites.
    jumps: BTreeMap<u64, Patch>,
    /// The pads by their starts, those included whose jump is out while a thread may still be inside.
    pads: BTreeMap<u64, Pad>,
    /// Jumps on the way from a site to its pad, by their addresses, and which pad that is.
    springboards: BTreeMap<u64, u64>,
    /// Where pads are: near their sites.
    areas: CodeArena,
    /// Where springboards are: no pad lies where a neighbour's jump can only lead.
    springboard_areas: CodeArena,
    /// The pads whose jump is out, which are freed together.
    retired: Vec<u64>,
    /// Copies of displaced instructions that a debugger makes, by the sites.
    borrowed: BTreeMap<u64, GdbRelocated>,
    /// Where branches lead, by the mapping whose code they are in.
    landings: BTreeMap<Code, Landings>,
    /// Sites whose jump has become a trap, and why.
    demoted: Vec<(u64, String)>,
    /// The address and the size of what is shared.
    shared: Vec<(u64, u64)>,
    /// What is out of the memory for a child that shares it and is not traced.
    pub(crate) bare: Option<BareMemory>,
    attended: Option<SharedState>,
    hook: Option<HookMemory>,
    /// Signal handlers have been let run on top of a pad: some stack may lead back into it.
    interrupted: bool,
}

/// Which code a mapping has: a library that is loaded later may have the addresses of one that went.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
}

/// What is known of where the branches of a mapping lead.
#[derive(Clone, Debug)]
enum Landings {
    /// It was looked at for so many places, one by one.
    Searched(u32),
    All(Rc<BTreeSet<u64>>),
}

/// A jump that has been taken out for a moment.
#[derive(Debug)]
pub(crate) struct Lifted {
    site: u64,
    body: Body,
}

impl Lifted {
    pub(crate) const fn site(&self) -> u64 {
        self.site
    }
}

/// What was taken out of the memory for a child that is not traced.
#[derive(Debug)]
pub(crate) struct BareMemory {
    /// The thread that waits in vfork for that child.
    pub(crate) parent: Tid,
    pub(crate) jumps: Vec<Lifted>,
}

/// What a pad does before the displaced instructions.
pub(crate) type Body = Rc<PadCode>;

/// Why a site cannot have a jump.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoJump {
    #[error(transparent)]
    Unmovable(#[from] Unmovable),
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    #[error("the instructions after it leave its jump no address to lead to")]
    NoTarget,
    #[error("a thread that cannot be stopped now may be in the middle of the jump")]
    Asleep,
    #[error("a debugger has a breakpoint there")]
    Breakpoint,
    #[error("calls are checked against a shadow stack")]
    ShadowStack,
    #[error("its memory cannot be written: {0}")]
    Write(String),
    #[error("its pad cannot be made: {0}")]
    Code(String),
}

/// A jump at its site.
#[derive(Debug)]
struct Patch {
    jump: Jump,
    body: Body,
    pad: u64,
}

/// A pad.
#[derive(Debug)]
struct Pad {
    site: u64,
    /// Where the jump at the site leads, if not to the pad itself.
    springboard: Option<u64>,
    /// The length of the body.
    body: u64,
    faults: Vec<Fault>,
    copy: Copy,
    /// The displaced instructions: their addresses.
    displaced: Range<u64>,
    /// The last of them, if it may wait in the kernel or repeat itself.
    restartable: Option<u64>,
    /// Its jump is out.
    retired: bool,
}

impl Pad {
    fn length(&self) -> u64 {
        self.body + self.copy.code.len() as u64
    }
}

/// Where a thread is that is in code of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// It has not done anything yet.
    Entry { site: u64 },
    /// In the body, this far.
    Body { pad: u64, offset: u64 },
    /// Among the displaced instructions.
    Displaced { pad: u64, spot: Spot },
}

impl Fast {
    /// Takes over where branches lead from a process whose memory this one has a copy of.
    pub(crate) fn take_landings_of(&mut self, parent: &Self) {
        self.landings.clone_from(&parent.landings);
    }

    /// What a thread at this address does in code of ours.
    pub(crate) fn inside(&self, address: u64) -> Option<Inside> {
        if let Some(pad) = self.springboards.get(&address) {
            let site = self.pads.get(pad)?.site;
            return Some(Inside::Entry { site });
        }
        if let Some((pad, spot)) = self.inside_borrowed(address) {
            return Some(Inside::Displaced { pad, spot });
        }
        let (start, pad) = self.pads.range(..=address).next_back()?;
        let offset = address - start;
        if offset >= pad.length() {
            return None;
        }
        Some(match offset.checked_sub(pad.body) {
            Some(offset) => Inside::Displaced {
                pad: *start,
                spot: pad.copy.place(offset),
            },
            None if offset == 0 => Inside::Entry { site: pad.site },
            None => Inside::Body {
                pad: *start,
                offset,
            },
        })
    }

    /// Gives up what was set up for pads. Where pads stay in the program, their memory does: its journal is closed, so that
    /// nobody takes this run for one whose tracer was killed.
    pub(crate) fn leave_attended(&mut self) {
        if let Some(attended) = self.attended.take() {
            attended.journal.close();
        }
    }

    /// The same for the memory of the pad at the dynamic linker's hook.
    pub(crate) fn leave_hook(&mut self) {
        self.hook = None;
    }

    /// Memory that is shared, of this size.
    pub(crate) fn note_shared(&mut self, address: u64, size: u64) {
        self.shared.push((address, size));
    }

    /// A signal handler runs on top of a pad.
    pub(crate) const fn note_interrupted(&mut self) {
        self.interrupted = true;
    }

    /// Whether there are pads.
    pub(crate) fn has_pads(&self) -> bool {
        !self.pads.is_empty()
    }

    /// The sites whose jump has become a trap since they were taken last, and why.
    pub(crate) fn take_demoted(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.demoted)
    }

    /// The site of a pad.
    pub(crate) fn site_of(&self, pad: u64) -> Option<u64> {
        Some(self.pads.get(&pad)?.site)
    }

    /// Whether a jump stands at this address.
    pub(crate) fn has_jump(&self, site: u64) -> bool {
        self.jumps.contains_key(&site)
    }

    /// Whether there are jumps of tracepoints.
    pub(crate) fn has_jumps(&self) -> bool {
        let hook = self.hook.as_ref().map(HookMemory::hook);
        self.jumps.keys().any(|site| Some(*site) != hook)
    }

    /// Whether there are jumps, be it one at the dynamic linker's hook.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// What notes the jump at a site for a tracer that comes after us.
    fn journal_of(&mut self, site: u64) -> Option<&mut Journal> {
        match &mut self.hook {
            Some(memory) if memory.hook() == site => Some(memory.journal()),
            _ => Some(&mut self.attended.as_mut()?.journal),
        }
    }

    /// Where the displaced instructions run for a site.
    pub(crate) fn past(&self, site: u64) -> Option<u64> {
        let start = self.jumps.get(&site)?.pad;
        Some(start + self.pads.get(&start)?.body)
    }

    /// Whether an address is within a jump, but not its first byte.
    fn is_within_jump(&self, address: u64) -> bool {
        self.jump_around(address).is_some()
    }

    /// The pad of the jump that an address is within, but not its first byte.
    fn jump_around(&self, address: u64) -> Option<u64> {
        let (site, patch) = self.jumps.range(..address).next_back()?;
        (address < site + patch.jump.written() as u64).then_some(patch.pad)
    }

    /// The jump to a pad is out.
    fn retire(&mut self, start: u64) {
        if let Some(pad) = self.pads.get_mut(&start) {
            pad.retired = true;
            self.retired.push(start);
        }
    }
}
