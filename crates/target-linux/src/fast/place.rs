//! Finding the places for a pad and for the jump that leads to it.

use std::ops::Range;

use tracewire_jump_pad::relocate::{
    Block, JUMP_LENGTH, Jump, MAX_INSTRUCTION, Pattern, Region, Unmovable, Way, landing, landings,
};

use super::code_arena::CodeArena;
use super::{Code, Landings, NoJump};
use crate::address_space::{AddressSpace, LOWEST, NoMemory};
use crate::patcher::Patcher;
use crate::ptrace::PAGE_SIZE;

/// How far a pad may be from its site: what 32 bits reach, less room for what an instruction refers to.
const REACH: u64 = 0x7f00_0000;
/// The memory that is mapped for pads at once, in bytes, and that for springboards while there are few.
const AREA: u64 = 256 << 10;
/// How many springboard areas there are before the next ones are larger, and how often their size doubles.
const SMALL_AREAS: usize = 16;
const MOST_DOUBLINGS: u32 = 6;
/// In how many windows near memory that is there a place in it is looked for.
const MOST_WINDOWS: usize = 512;
/// More code than this is not searched for branches, in bytes.
const LARGEST_CODE: u64 = 256 << 20;
/// How often the code of a mapping is searched: so many searches take as long as finding where all of its branches lead.
const MOST_SEARCHES: usize = 4;

/// A jump and where it leads.
pub(super) struct Placement {
    pub(super) jump: Jump,
    /// The instructions that it displaces.
    pub(super) block: Block,
    /// The room of the pad.
    pub(super) pad: Range<u64>,
    pub(super) springboard: Option<u64>,
}

/// The most bytes of code that are looked at to plan a jump.
const LOOK: usize = JUMP_LENGTH + 2 * MAX_INSTRUCTION;

impl Patcher<'_> {
    /// Finds the way to put a jump at a site, and the places for a pad with a body of this length. Memory for them
    /// has been mapped, and is marked as used.
    pub(super) fn place_jump(&mut self, site: u64, body: usize) -> Result<Placement, NoJump> {
        let mut original = [0; LOOK];
        let mut present = [0; LOOK];
        let memory = &self.tracee.memory;
        let length = memory.read_both(site, &mut present, &mut original);
        let original = original.get(..length).unwrap_or_default();
        let present = present.get(..length).unwrap_or_default();
        let shadowed = self
            .tracee
            .while_stopped()
            .is_ok_and(|known| known.has_shadow_stack);
        let alone = Block::decode(site, original, 1)?;
        let (whole, prefixes) = match Jump::whole(&alone) {
            Ok(jump) => (Some(jump), 0),
            Err(_) => (None, JUMP_LENGTH - 1),
        };
        let punned =
            (0..prefixes).map_while(|prefixes| Jump::punned(&alone, present, prefixes).ok());
        let placed = match shadowed && alone.has_call() {
            true => Err(NoJump::ShadowStack),
            false => self.try_place(whole.into_iter().chain(punned), &alone, body),
        };
        let refusal = match placed {
            Ok((jump, pad, springboard)) => {
                return Ok(Placement {
                    jump,
                    block: alone,
                    pad,
                    springboard,
                });
            }
            Err(refusal) => refusal,
        };
        let (several, block) = Jump::several(site, original, present)?;
        self.check_landings(&several, &block)?;
        if shadowed && block.has_call() {
            return Err(NoJump::ShadowStack);
        }
        match self.try_place(std::iter::once(several), &block, body) {
            Ok((jump, pad, springboard)) => Ok(Placement {
                jump,
                block,
                pad,
                springboard,
            }),
            Err(NoJump::NoMemory(_)) => Err(refusal),
            Err(error) => Err(error),
        }
    }

    /// The first of these jumps over a block for which there are places, with these.
    fn try_place(
        &mut self,
        jumps: impl IntoIterator<Item = Jump>,
        block: &Block,
        body: usize,
    ) -> Result<(Jump, Range<u64>, Option<u64>), NoJump> {
        let size = body + block.instructions().len() * COPY_SIZE;
        let pad = self.pad_room(block.address(), size as u64)?;
        let mut refusal = NoJump::from(NoMemory::NoRoom);
        for jump in jumps {
            let springboard = match jump.pattern().is_free() {
                true => None,
                false => match self.springboard(&jump, pad.start) {
                    Ok(springboard) => Some(springboard),
                    Err(error) => {
                        refusal = error;
                        continue;
                    }
                },
            };
            self.tracee.fast.areas.use_range(pad.clone());
            return Ok((jump, pad, springboard));
        }
        // What was mapped for the pad stays for the next one.
        Err(refusal)
    }

    /// Nothing that is known to lead into the middle of a jump, and nothing of ours either.
    fn check_landings(&mut self, jump: &Jump, block: &Block) -> Result<(), NoJump> {
        debug_assert_eq!(jump.way(), Way::Several);
        let length = block.length() as u64;
        if self
            .tracee
            .threads
            .may_sleep_in(&(jump.address() + 1..jump.address() + length + 1))
        {
            return Err(NoJump::Asleep);
        }
        let middle = jump.address() + 1..jump.address() + length;
        let ours = self
            .tracee
            .fast
            .jumps
            .range(middle.clone())
            .map(|(site, _)| *site)
            .next()
            .or_else(|| self.tracee.breakpoints.first_in(middle.clone()));
        if let Some(ours) = ours {
            return Err(Unmovable::Landing(ours).into());
        }
        let known = self
            .tracee
            .while_stopped()
            .map_err(|_| NoMemory::Unreadable)?;
        let mapping = known.space.mapping_at(jump.address());
        let Some(mapping) = mapping else {
            return Err(NoMemory::NoRoom.into());
        };
        let key = Code {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            inode: mapping.inode,
        };
        match self.landing_in(key, middle)? {
            Some(landing) => Err(Unmovable::Landing(landing).into()),
            None => Ok(()),
        }
    }

    /// An address in a range that the code of a mapping leads to. The code is searched for the first few ranges, and decoded whole for
    /// the next, once for all.
    fn landing_in(&mut self, code: Code, wanted: Range<u64>) -> Result<Option<u64>, NoJump> {
        let size = code.end - code.start;
        if size > LARGEST_CODE {
            return Err(NoMemory::NoRoom.into());
        }
        let whole = code.start..code.end;
        let memory = &self.tracee.memory;
        let search = || {
            landing(&whole, &wanted, |address, bytes| {
                memory.read(address, bytes)
            })
        };
        // Code without a file is written by the program, which may have written other code there since.
        if code.inode == 0 {
            return Ok(search());
        }
        let mut known = self.tracee.fast.landings.borrow_mut();
        Ok(
            match known.entry(code).or_insert(Landings::Searched(Vec::new())) {
                Landings::All(all) => first_in(all, &wanted),
                Landings::Searched(places)
                    if let Some(known) = found_in(places.as_slice(), &wanted) =>
                {
                    known
                }
                Landings::Searched(places) if places.len() < MOST_SEARCHES => {
                    let found = search();
                    places.push((wanted, found));
                    found
                }
                searched @ Landings::Searched(_) => {
                    let mut code = vec![0; size as usize];
                    let filled = memory.read(whole.start, &mut code);
                    let code = code.get(..filled).unwrap_or_default();
                    let all = landings(whole.start, code, &whole);
                    let found = first_in(&all, &wanted);
                    *searched = Landings::All(all.into());
                    found
                }
            },
        )
    }

    /// A free stretch of an area within reach of a site, as long as asked for.
    pub(super) fn pad_room(&mut self, site: u64, size: u64) -> Result<Range<u64>, NoJump> {
        let reach = site.saturating_sub(REACH)..site.saturating_add(REACH);
        let size = size.next_multiple_of(16);
        let found = self
            .tracee
            .fast
            .areas
            .free(reach.clone())
            .map(|free| free.start.next_multiple_of(16)..free.end)
            .find(|free| free.start.saturating_add(size) <= free.end);
        if let Some(found) = found {
            return Ok(found.start..found.start + size);
        }
        let length = size.next_multiple_of(PAGE_SIZE).max(AREA);
        let area = self
            .tracee
            .map_code(|space| space.room_near(site, REACH, length))?;
        self.tracee.fast.areas.add(area.clone());
        Ok(area.start..area.start + size)
    }

    /// A place for a jump to the pad that the jump at the site can lead to.
    fn springboard(&mut self, jump: &Jump, pad: u64) -> Result<u64, NoJump> {
        const LENGTH: u64 = JUMP_LENGTH as u64;
        let pattern = jump.pattern();
        if !pattern.windows().any(|window| window.end > LOWEST) {
            return Err(NoJump::NoTarget);
        }
        let reaches = |at: &u64| at.abs_diff(pad) < REACH;
        // In memory that we have before any that must be mapped.
        let ready = ready_place(&self.tracee.fast.springboard_areas, pattern, reaches);
        let at = match ready {
            Some(at) => at,
            None => {
                let mut place = None;
                let size = self.springboard_area_size();
                let area = self.tracee.map_code(|space| {
                    let (at, area) = springboard_area(space, pattern, reaches, size)?;
                    place = Some(at);
                    Some(area)
                })?;
                self.tracee.fast.springboard_areas.add(area);
                place.ok_or(NoMemory::NoRoom)?
            }
        };
        self.tracee
            .fast
            .springboard_areas
            .use_range(at..at + LENGTH);
        Ok(at)
    }

    /// The size of the next springboard area, in bytes. Thousands of jumps lead everywhere within their reach: a mapping for each few of
    /// them would take a system call of the process each, and a table of mappings that the kernel searches.
    fn springboard_area_size(&self) -> u64 {
        let areas = self.tracee.fast.springboard_areas.count();
        AREA << (1 + areas / SMALL_AREAS).ilog2().min(MOST_DOUBLINGS)
    }

    /// Finds room for a copy of the instruction at a site that a debugger is to make. All threads are stopped.
    pub(crate) fn room_for_copy(&mut self, site: u64) -> Option<u64> {
        let size = self.tracee.fast.room_to_borrow(&self.tracee.memory, site)?;
        let room = self.pad_room(site, size).ok()?;
        let start = room.start;
        self.tracee.fast.borrow(site, room);
        Some(start)
    }
}

/// The first of these addresses, which ascend, in a range.
fn first_in(addresses: &[u64], wanted: &Range<u64>) -> Option<u64> {
    let first = addresses.partition_point(|address| *address < wanted.start);
    addresses
        .get(first)
        .copied()
        .filter(|address| *address < wanted.end)
}

/// What was found in a range, if that was searched.
fn found_in(places: &[(Range<u64>, Option<u64>)], wanted: &Range<u64>) -> Option<Option<u64>> {
    let known = places.iter().find(|(range, _)| range == wanted)?;
    Some(known.1)
}

/// A place for a springboard that a pattern admits, in memory that is there.
fn ready_place(
    areas: &CodeArena,
    pattern: &Pattern,
    reaches: impl Fn(&u64) -> bool,
) -> Option<u64> {
    let regions = pattern.regions().filter(|region| {
        let range = region.range();
        let gap = areas.free_from(range.start);
        gap.is_ok() || gap.is_err_and(|gap| gap.end < range.end)
    });
    let mut gap = 0..0;
    regions
        .flat_map(Region::windows)
        .take(MOST_WINDOWS)
        .find_map(|window| {
            if gap.start <= window.start && window.end <= gap.end {
                return None;
            }
            let mut next = window.start;
            loop {
                let at = pattern.first_target(next..window.end)?;
                match areas.free_from(at) {
                    Ok(free) if at + JUMP_LENGTH as u64 <= free.end => {
                        return Some(at).filter(&reaches);
                    }
                    Ok(free) => next = free.end,
                    Err(used) => {
                        next = used.end;
                        gap = used;
                    }
                }
            }
        })
}

/// A place that a pattern admits, and the pages around it that are to be mapped: more than it needs, up to `size` bytes, for its
/// neighbours.
fn springboard_area(
    space: &AddressSpace,
    pattern: &Pattern,
    reaches: impl Fn(&u64) -> bool,
    size: u64,
) -> Option<(u64, Range<u64>)> {
    const LENGTH: u64 = JUMP_LENGTH as u64;
    pattern.windows().find_map(|window| {
        let pages =
            window.start & !(PAGE_SIZE - 1)..window.end.next_multiple_of(PAGE_SIZE) + PAGE_SIZE;
        space.gaps(pages).find_map(|gap| {
            let end = gap.end.checked_sub(LENGTH - 1)?;
            let at = pattern
                .first_target(gap.start.max(window.start)..end.min(window.end))
                .filter(&reaches)?;
            let needed = at & !(PAGE_SIZE - 1)..(at + LENGTH).next_multiple_of(PAGE_SIZE);
            let around = needed.start & !(size - 1)..needed.end.next_multiple_of(size);
            let area = space
                .gaps(around)
                .find(|gap| gap.contains(&needed.start))
                .filter(|gap| !space.is_for_heap(gap))
                .unwrap_or(needed);
            Some((at, area))
        })
    })
}

/// The room that the copy of one instruction takes at most.
const COPY_SIZE: usize = tracewire_jump_pad::relocate::SLOT_SIZE;
