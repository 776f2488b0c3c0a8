//! Putting jumps in, with those that share bytes with them.
//!
//! The displacement of a punned jump goes on into the instructions that follow, and these may get a jump or a breakpoint
//! of their own, or lose it. So each change of a byte first *lifts* the jumps that read the byte, and puts them back
//! afterwards over the new bytes: by another kind of jump if necessary, and as a trap if no jump is possible. A jump that
//! is lifted or put back changes bytes too, so this goes on to lower addresses. It ends where no jump reads the bytes.
//!
//! Lower jumps are lifted first and put back last. So each jump goes to its own pad at every moment.

use std::collections::BTreeSet;
use std::ops::Range;

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::relocate::{Displaced, JUMP_LENGTH, MAX_INSTRUCTION};

use super::NoJump;
use super::place::Placement;
use super::position::move_into;
use super::{Body, Lifted, Pad, Patch};
use crate::address_space::NoMemory;
use crate::breakpoints::{INT3, Purpose};
use crate::patcher::Patcher;
use crate::ptrace::PAGE_SIZE;
use crate::thread::Thread;
use crate::tracee::Tracee;

/// How far before a byte a jump that reads it can begin, and how far behind its site a jump reads: the most prefixes, and the jump.
pub(crate) const JUMP_REACH: u64 = 2 * JUMP_LENGTH as u64;

impl Patcher<'_> {
    /// Puts a jump in, to a pad with this body. All threads are stopped.
    pub(crate) fn insert_jump(&mut self, site: u64, body: Body) -> Result<(), NoJump> {
        if self.tracee.fast.has_jump(site) {
            self.take_jump_out(site)
                .map_err(|error| NoJump::Write(error.to_string()))?;
        }
        if self.tracee.breakpoints.has(site) {
            return Err(NoJump::Breakpoint);
        }
        self.tracee.absorb_all();
        let lifted = self.lift(site..site + JUMP_LENGTH as u64);
        fail_point!("jump/lifted");
        let placed = self.put_jump(site, body);
        fail_point!("jump/put");
        self.put_back(lifted);
        self.tracee.free_some_pads();
        placed
    }

    /// Takes out the jumps that read any of these bytes, lower ones first. A jump after the first byte is not one of
    /// them: these bytes are its own.
    pub(crate) fn lift(&mut self, bytes: Range<u64>) -> Vec<Lifted> {
        let last = bytes.start;
        self.lift_up_to(last, bytes)
    }

    /// Writes bytes of the program's where jumps are made of them.
    pub(crate) fn write_under_jumps(
        &mut self,
        range: Range<u64>,
        bytes: &[u8],
    ) -> std::io::Result<()> {
        self.tracee.absorb_all();
        let lifted = self.lift_up_to(range.end, range.clone());
        let written = self.tracee.memory.write_through(range.start, bytes);
        self.put_back(lifted);
        self.tracee.free_some_pads();
        written
    }

    /// Takes out all jumps.
    pub(crate) fn lift_all(&mut self) -> Vec<Lifted> {
        self.tracee.absorb_all();
        self.lift_up_to(u64::MAX, 0..u64::MAX)
    }

    /// Takes out the jumps up to an address that read any of these bytes, and those below that read the bytes of these.
    fn lift_up_to(&mut self, last: u64, bytes: Range<u64>) -> Vec<Lifted> {
        let mut sites = BTreeSet::new();
        let mut changed = vec![(last, bytes)];
        while let Some((last, bytes)) = changed.pop() {
            let before = bytes.start.saturating_sub(JUMP_REACH)..=last;
            for (site, patch) in self.tracee.fast.jumps.range(before) {
                if overlap(&patch.jump.reads(), &bytes) && sites.insert(*site) {
                    let writes = patch.jump.writes();
                    changed.push((writes.start, writes));
                }
            }
        }
        sites
            .into_iter()
            .filter_map(|site| {
                let fast = &self.tracee.fast;
                let pad = fast.pads.get(&fast.jumps.get(&site)?.pad)?;
                let body = pad.body.clone();
                self.tracee.erase_jump(site).ok()?;
                Some(Lifted { site, body })
            })
            .collect()
    }

    /// Puts jumps back, higher ones first. Those that cannot be are traps from now on.
    pub(crate) fn put_back(&mut self, lifted: Vec<Lifted>) {
        for Lifted { site, body } in lifted.into_iter().rev() {
            let placed = if self.tracee.breakpoints.has(site) {
                Err(NoJump::Breakpoint)
            } else {
                self.put_jump(site, body)
            };
            if let Err(why) = placed {
                // A breakpoint changes one byte, which lower jumps that are still there may read.
                if Some(site) == self.tracee.program.dynamic_linker.hook() {
                    self.place_loader_hook();
                    continue;
                }
                let _ = self.insert_breakpoint(site, Purpose::Tracepoint);
                self.tracee.fast.demoted.push((site, why.to_string()));
            }
        }
    }

    /// Makes the pad and writes the jump. No jump reads the bytes at the site.
    fn put_jump(&mut self, site: u64, body: Body) -> Result<(), NoJump> {
        let placement = self.place_jump(site, body.length())?;
        fail_point!("jump/placed");
        let (pad, springboard) = (placement.pad.start, placement.springboard);
        let written = self.write_jump(site, body, placement);
        if written.is_err() {
            self.tracee.fast.pads.remove(&pad);
            self.tracee.fast.areas.forget_use(pad);
            if let Some(springboard) = springboard {
                self.tracee.fast.springboards.remove(&springboard);
                self.tracee.fast.springboard_areas.forget_use(springboard);
            }
        }
        written
    }

    fn write_jump(
        &mut self,
        site: u64,
        body: Body,
        Placement {
            jump,
            block,
            pad,
            springboard,
        }: Placement,
    ) -> Result<(), NoJump> {
        let (room, pad) = ((pad.end - pad.start) as usize, pad.start);
        let start = body.length() as u64;
        let copy =
            match self
                .tracee
                .fast
                .lead_to_borrowed(&self.tracee.memory, pad, pad + start, &block)
            {
                Some(copy) => copy,
                None => block.copy(pad + start)?,
            };
        let mut code = body.begin(room);
        code.extend_from_slice(&copy.code);
        let length = code.len();
        debug_assert!(length <= room, "a pad in the room of the next one");
        // To the end of its room: pads that follow each other are written as one.
        code.resize(room.max(length), INT3);
        let write = |error: std::io::Error| NoJump::Write(error.to_string());
        self.tracee.memory.write_target(pad, &code).map_err(write)?;
        fail_point!("jump/pad-written");
        if let Some(springboard) = springboard {
            let Tracee { memory, fast, .. } = self.tracee;
            let bytes = springboard_bytes(springboard, pad);
            memory
                .write_target_among_others(springboard, bytes, |page| fast.springboards_on(page))
                .map_err(write)?;
        }
        let bytes = jump
            .bytes(springboard.unwrap_or(pad))
            .ok_or(NoMemory::NoRoom)?;
        let entry = Pad {
            site,
            springboard,
            body,
            length: length as u64,
            spots: copy.spots,
            displaced: site..site + block.length() as u64,
            restartable: block
                .instructions()
                .last()
                .filter(|last| last.restartable)
                .map(Displaced::address),
            retired: false,
        };
        move_into(&self.tracee.threads, &jump, &block, pad, &entry);
        fail_point!("jump/threads-moved");
        let mut original = vec![0; bytes.len()];
        if self.tracee.memory.read(site, &mut original) < original.len() {
            return Err(write(std::io::Error::from_raw_os_error(libc::EIO)));
        }
        if let Some(journal) = self.tracee.fast.journal_of(site) {
            journal.add(site, &original, &bytes);
        }
        fail_point!("jump/write");
        self.tracee
            .memory
            .cover_all(site, &original, &bytes)
            .map_err(write)?;
        fail_point!("jump/written");
        let written = site..site + bytes.len() as u64;
        for changed in [written, pad..pad + code.len() as u64] {
            self.tracee.remote.note_change(&changed);
        }
        if let Some(springboard) = springboard {
            self.tracee.fast.springboards.insert(springboard, pad);
        }
        self.tracee.fast.pads.insert(pad, entry);
        self.tracee.fast.jumps.insert(site, Patch { jump, pad });
        Ok(())
    }

    /// Takes the jump at a site out, if there is one. All threads are stopped.
    pub(crate) fn take_jump_out(&mut self, site: u64) -> std::io::Result<()> {
        let Some(patch) = self.tracee.fast.jumps.get(&site) else {
            return Ok(());
        };
        let writes = patch.jump.writes();
        self.tracee.absorb_all();
        // The site itself is among those that read its bytes, and is not put back.
        let mut lifted = self.lift(writes);
        lifted.retain(|lifted| lifted.site() != site);
        let erased = self.tracee.erase_jump(site);
        self.put_back(lifted);
        self.tracee.free_some_pads();
        erased
    }

    /// Where the stopped threads are, each in the program or in a pad that is not about to change.
    pub(super) fn settled_threads(&mut self) -> Vec<u64> {
        self.tracee.absorb_all();
        let stopped = self.tracee.threads.iter().filter_map(Thread::stopped);
        stopped
            .filter_map(|thread| Some(thread.registers().ok()?.rip))
            .collect()
    }

    /// Lets the jumps on a page wait until they are written together. Where a thread may have to be moved from there to a pad, each is
    /// written as it is made.
    pub(super) fn stage_code(&mut self, page: u64, threads: &[u64]) {
        // A thread among the displaced instructions, the last of which may end on the next page.
        let near = page..page + PAGE_SIZE + MAX_INSTRUCTION as u64;
        if threads.iter().any(|thread| near.contains(thread)) {
            return;
        }
        // Of a page that cannot be had, each jump is written by itself, and refused with the reason.
        let _ = self.tracee.memory.stage(page);
    }
}

impl super::Fast {
    /// No site has a jump any more.
    pub(super) fn strike(&mut self, site: u64) {
        if let Some(journal) = self.journal_of(site) {
            journal.remove(site);
        }
    }

    /// The springboards on a page, also in part: their addresses and their bytes.
    fn springboards_on(&self, page: u64) -> impl Iterator<Item = (u64, [u8; JUMP_LENGTH])> {
        let before = page.saturating_sub(JUMP_LENGTH as u64 - 1);
        let known = self.springboards.range(before..page + PAGE_SIZE);
        known.map(|(at, pad)| (*at, springboard_bytes(*at, *pad)))
    }

    /// Whether any of these bytes is part of a jump.
    pub(crate) fn is_read(&self, bytes: &Range<u64>) -> bool {
        let near = bytes.start.saturating_sub(JUMP_REACH)..bytes.end.max(bytes.start);
        let mut jumps = self.jumps.range(near);
        jumps.any(|(_, patch)| overlap(&patch.jump.reads(), bytes))
    }
}

/// The jump from a springboard to its pad.
fn springboard_bytes(springboard: u64, pad: u64) -> [u8; JUMP_LENGTH] {
    let distance = pad.wrapping_sub(springboard + JUMP_LENGTH as u64) as i32;
    let [a, b, c, d] = distance.to_le_bytes();
    [0xe9, a, b, c, d]
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
