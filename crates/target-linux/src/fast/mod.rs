//! Jump pads: tracepoints that the program serves without a stop.
//!
//! The site has a jump to a *pad*: code in memory that the process maps for us. The pad evaluates and collects, runs a
//! copy of the displaced instructions, and jumps back. There is no stop and no system call.
//!
//! Jumps are changed only while every thread is stopped. A jump is inserted with one write within a page, which the
//! kernel completes even if the tracer is killed: the program never runs a part of a jump.

mod body;
mod call_events;
mod change;
mod child_memory;
mod code_arena;
mod gdb_relocated;
mod hook;
mod journal;
mod mappings;
mod mechanism;
mod place;
mod position;
mod remove;
mod shared;
mod shared_state;
mod threads;

pub(crate) use body::Body;
pub use call_events::{CallEvents, SiteRefused};
pub(crate) use change::JUMP_REACH;
pub(crate) use child_memory::{ChildMemory, parts_of};
pub use journal::{FramesFile, FramesFileNote};
pub(crate) use journal::{Reading, SIZE as JOURNAL_SIZE};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::address_space::NoMemory;
use crate::ptrace::Tid;
use tracewire_jump_pad::relocate::{Jump, Spot, Spots, Unmovable};

use child_memory::ChildPart;
use code_arena::CodeArena;
use gdb_relocated::GdbRelocated;
use journal::Journal;
use mappings::SharedMappings;
pub use mechanism::Mechanism;
pub(crate) use shared::Mapping;
pub use shared::{Ownership, PreparedPads, SharedMemory};
use shared_state::{HookMemory, SharedState};
pub use threads::ThreadsInPads;

/// The jumps in a process, and their pads.
#[derive(Debug, Default)]
pub(crate) struct Fast {
    /// The jumps by their sites.
    jumps: BTreeMap<u64, Patch>,
    /// The pads by their starts, including those whose jump is removed while a thread may still be inside.
    pads: BTreeMap<u64, Pad>,
    /// Jumps from the range of a site to its pad, by their addresses, with the pad.
    springboards: BTreeMap<u64, u64>,
    /// Where pads are: near their sites.
    areas: CodeArena,
    /// Where springboards are: pads are kept out of the ranges that only a neighbour's jump can reach.
    springboard_areas: CodeArena,
    /// The pads whose jump is removed, which are freed together.
    retired: Vec<u64>,
    /// Copies of displaced instructions that a debugger makes, by the sites.
    borrowed: BTreeMap<u64, GdbRelocated>,
    /// The targets of branches, by the mapping that contains the branches.
    landings: Rc<RefCell<BTreeMap<Code, Landings>>>,
    /// Sites whose jump has become a trap, and why.
    demoted: Vec<(u64, String)>,
    /// What the program has mapped and shares.
    pub(crate) mappings: SharedMappings,
    /// The patches that are out of the memory while an untraced child shares it.
    pub(crate) bare: Option<BareMemory>,
    attended: Option<SharedState>,
    hook: Option<HookMemory>,
    /// What it has mapped for its children, or its parent for it.
    child_memory: Option<ChildMemory>,
    /// Its own part of that, once it is taken.
    part: Option<ChildPart>,
    /// Signal handlers have run on top of a pad: some stack may return into it.
    interrupted: bool,
    /// The memory was a copy of another process's at its start: this is a child by fork.
    is_copy: bool,
}

/// The code in a mapping: a library that is loaded later may have the addresses of one that was unloaded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
}

/// The known branch targets in a mapping.
#[derive(Clone, Debug)]
enum Landings {
    /// The first places were searched one by one: what was found in each.
    Searched(Vec<(Range<u64>, Option<u64>)>),
    /// All of them, in ascending order.
    All(Rc<[u64]>),
}

/// A jump that was removed temporarily.
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

/// The patches that were removed from the memory for a child that is not traced.
#[derive(Debug)]
pub(crate) struct BareMemory {
    /// The thread that waits in vfork for that child.
    pub(crate) parent: Tid,
    pub(crate) jumps: Vec<Lifted>,
}

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
    pad: u64,
}

/// A pad.
#[derive(Debug)]
struct Pad {
    site: u64,
    /// Where the jump at the site goes, if not to the pad itself.
    springboard: Option<u64>,
    body: Body,
    /// The length of all code.
    length: u64,
    /// The stretches of the displaced instructions' copy, which follows the body.
    spots: Spots,
    /// The displaced instructions: their addresses.
    displaced: Range<u64>,
    /// The last of them, if it may wait in the kernel or repeat itself.
    restartable: Option<u64>,
    /// Its jump is removed.
    retired: bool,
}

impl Pad {
    /// The offset of the displaced instructions.
    fn past(&self) -> u64 {
        self.body.length() as u64
    }
}

/// Where in code of the tracer a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// Nothing has been executed yet.
    Entry { site: u64 },
    /// In the body, at this offset.
    Body { pad: u64, offset: u64 },
    /// In the displaced instructions.
    Displaced { pad: u64, spot: Spot },
}

impl Fast {
    /// Begins as a copy of the memory of another process. Both have the same code, and what one finds there is known to the other.
    /// The copy has memory for pads, too. Its own pads are put there, unless its only thread, which is at `place`, is in a pad or may
    /// return into one.
    pub(crate) fn copy_of(parent: &Self, place: Option<u64>) -> Self {
        let may_return = parent.interrupted
            || !parent.borrowed.is_empty()
            || place.is_none_or(|place| parent.inside(place).is_some());
        let areas = |areas: &CodeArena| match may_return {
            true => CodeArena::default(),
            false => areas.emptied(),
        };
        Self {
            areas: areas(&parent.areas),
            springboard_areas: areas(&parent.springboard_areas),
            landings: Rc::clone(&parent.landings),
            mappings: match may_return {
                true => SharedMappings::default(),
                false => parent
                    .mappings
                    .of_copy(parent.hook.as_ref().map(HookMemory::place)),
            },
            child_memory: parent.child_memory.clone(),
            is_copy: true,
            ..Self::default()
        }
    }

    /// Forgets the shared memory, and returns where it is in the program, which is to unmap it. The memory of the dynamic linker's hook
    /// stays as long as its jump does.
    pub(crate) fn take_mappings(&mut self) -> Vec<Range<u64>> {
        let hook = self.hook.as_ref().map(HookMemory::place);
        self.mappings.take_all(hook)
    }

    /// Whether there is memory for children: its own, or that of its parent, which its children have, too.
    pub(crate) const fn has_child_memory(&self) -> bool {
        self.child_memory.is_some()
    }

    /// Notes what was mapped for children.
    pub(crate) fn note_child_memory(&mut self, memory: ChildMemory) {
        debug_assert!(self.child_memory.is_none(), "it is mapped once");
        self.child_memory = Some(memory);
    }

    /// Its part of the memory that its parent has mapped for its children; `None` where there is none.
    fn part(&mut self) -> Option<&mut ChildPart> {
        if self.is_copy && self.part.is_none() {
            self.part = self.child_memory.as_ref()?.take();
        }
        self.part.as_mut()
    }

    /// The memory for the pads of a child, if its parent has mapped so much for it and it was not taken before.
    pub(crate) fn take_pads_of_child(&mut self, size: u64) -> Option<SharedMemory> {
        self.part()?.take_pads(size)
    }

    /// The memory for the pad at the dynamic linker's hook in a child, if its parent has mapped some for it and it was not taken
    /// before.
    pub(crate) fn take_hook_of_child(&mut self) -> Option<SharedMemory> {
        self.part()?.take_hook()
    }

    /// Whether this process was made by fork and has not executed another program.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// The part of the tracer's code that a thread at this address executes.
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
        if offset >= pad.length {
            return None;
        }
        Some(match offset.checked_sub(pad.past()) {
            Some(offset) => Inside::Displaced {
                pad: *start,
                spot: pad.spots.place(offset),
            },
            None if offset == 0 => Inside::Entry { site: pad.site },
            None => Inside::Body {
                pad: *start,
                offset,
            },
        })
    }

    /// Drops the state that pads share with the tracer. If pads stay in the program, their memory stays too, and its
    /// journal is closed: no tracer takes this run for one whose tracer was killed.
    pub(crate) fn leave_attended(&mut self) {
        if let Some(attended) = self.attended.take() {
            attended.journal.close();
        }
    }

    /// The same for the memory of the pad at the dynamic linker's hook.
    pub(crate) fn leave_hook(&mut self) {
        self.hook = None;
    }

    /// The memory of the pads that are set up.
    pub(crate) fn memory(&self) -> Option<&SharedMemory> {
        (self.attended.as_ref()).map(|attended| attended.journal.memory())
    }

    /// Notes that a signal handler runs on top of a pad.
    pub(crate) const fn note_interrupted(&mut self) {
        self.interrupted = true;
    }

    /// Whether there are pads.
    pub(crate) fn has_pads(&self) -> bool {
        !self.pads.is_empty()
    }

    /// Takes the sites whose jump has become a trap since the last call, with the reason.
    pub(crate) fn take_demoted(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.demoted)
    }

    /// The site of a pad.
    pub(crate) fn site_of(&self, pad: u64) -> Option<u64> {
        Some(self.pads.get(&pad)?.site)
    }

    /// Whether there is a jump at this address.
    pub(crate) fn has_jump(&self, site: u64) -> bool {
        self.jumps.contains_key(&site)
    }

    /// Whether there are jumps of tracepoints.
    pub(crate) fn has_jumps(&self) -> bool {
        let hook = self.hook.as_ref().map(HookMemory::hook);
        self.jumps.keys().any(|site| Some(*site) != hook)
    }

    /// Whether there are jumps, including one at the dynamic linker's hook.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.jumps.is_empty()
    }

    /// The journal that records the jump at a site for a later tracer.
    fn journal_of(&mut self, site: u64) -> Option<&mut Journal> {
        match &mut self.hook {
            Some(memory) if memory.hook() == site => Some(memory.journal()),
            _ => Some(&mut self.attended.as_mut()?.journal),
        }
    }

    /// Where the displaced instructions run for a site.
    pub(crate) fn past(&self, site: u64) -> Option<u64> {
        let start = self.jumps.get(&site)?.pad;
        Some(start + self.pads.get(&start)?.past())
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

    /// Notes that the jump to a pad is removed.
    fn retire(&mut self, start: u64) {
        if let Some(pad) = self.pads.get_mut(&start) {
            pad.retired = true;
            self.retired.push(start);
        }
    }
}
