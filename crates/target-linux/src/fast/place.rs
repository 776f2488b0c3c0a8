//! Finding the places for a pad and for the jump that leads to it.

use std::ops::Range;

use tracewire_jump_pad::CannotCompile;
use tracewire_jump_pad::relocate::{JUMP_LENGTH, Jump, MAX_INSTRUCTION, Unmovable, Way, landings};

use crate::maps::{self, Mapping, ThreadStatus};
use crate::process::Process;
use crate::slots::{PAGE_SIZE, STACK_ROOM};

/// How far a pad may be from its site: what 32 bits reach, less room for what an instruction refers to.
const REACH: u64 = 0x7f00_0000;
/// The memory that is mapped for pads at once, in bytes.
const AREA: u64 = 256 << 10;
/// More code than this is not searched for branches, in bytes.
const LARGEST_CODE: u64 = 256 << 20;
/// The lowest address that programs may usually map (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x1_0000;
/// The first address that no program has.
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// Why a site cannot have a jump.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoJump {
    #[error(transparent)]
    Unmovable(#[from] Unmovable),
    #[error("no memory can be had near enough to it")]
    NoMemory,
    #[error("a debugger has a breakpoint there")]
    Breakpoint,
    #[error("the process lets no memory be had: {0}")]
    Refused(&'static str),
    #[error("calls are checked against a shadow stack")]
    ShadowStack,
    #[error("its memory cannot be written: {0}")]
    Write(String),
    #[error(transparent)]
    Code(#[from] CannotCompile),
}

/// What is mapped in a process.
#[derive(Debug)]
pub(crate) struct Room {
    mappings: Vec<Mapping>,
    /// Rising, not touching.
    taken: Vec<Range<u64>>,
}

impl Room {
    fn new(mappings: Vec<Mapping>) -> Self {
        let taken = mappings
            .iter()
            .map(|mapping| {
                // The main stack grows down.
                let below = if mapping.path.as_os_str() == "[stack]" {
                    STACK_ROOM
                } else {
                    0
                };
                mapping.start.saturating_sub(below)..mapping.end
            })
            .collect();
        Self { mappings, taken }
    }

    fn executable_at(&self, address: u64) -> Option<&Mapping> {
        self.mappings
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&address))
            .filter(|mapping| mapping.executable)
    }

    /// Whole pages that nothing is mapped on, in a range.
    fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let within = within.start.max(LOWEST)..within.end.min(HIGHEST);
        let first = self
            .taken
            .partition_point(|taken| taken.end <= within.start);
        let relevant = self.taken.get(first..).unwrap_or_default();
        let ends = std::iter::once(within.start).chain(relevant.iter().map(|taken| taken.end));
        let starts = relevant.iter().map(|taken| taken.start).chain([within.end]);
        ends.zip(starts)
            .take_while(move |(start, _)| *start < within.end)
            .filter_map(move |(start, end)| {
                let start = start.next_multiple_of(PAGE_SIZE);
                let end = end.min(within.end) & !(PAGE_SIZE - 1);
                (start < end).then_some(start..end)
            })
    }

    /// In the middle of the largest gap.
    pub(super) fn middle(&self, size: u64) -> Option<u64> {
        let largest = self
            .gaps(0..HIGHEST)
            .max_by_key(|gap| gap.end - gap.start)
            .filter(|gap| gap.end - gap.start >= size)?;
        let slack = largest.end - largest.start - size;
        Some((largest.start + slack / 2) & !(PAGE_SIZE - 1))
    }

    fn take(&mut self, range: Range<u64>) {
        let place = self
            .taken
            .partition_point(|taken| taken.start < range.start);
        self.taken.insert(place, range);
    }
}

/// A jump and where it leads.
pub(super) struct Placement {
    pub(super) jump: Jump,
    pub(super) pad: u64,
    pub(super) springboard: Option<u64>,
}

/// The most bytes of code that are looked at to plan a jump.
const LOOK: usize = JUMP_LENGTH + 2 * MAX_INSTRUCTION;

impl Process {
    /// Finds the way to put a jump at a site, and the places for a pad with a body of this length. Memory for them
    /// has been mapped, and is marked as used.
    pub(super) fn place_jump(&mut self, site: u64, body: usize) -> Result<Placement, NoJump> {
        let mut original = [0; LOOK];
        let mut present = [0; LOOK];
        let length = self.memory.read(site, &mut original);
        let length = length.min(self.memory.read_present(site, &mut present));
        let original = original.get(..length).unwrap_or_default();
        let present = present.get(..length).unwrap_or_default();
        let shadowed =
            ThreadStatus::read(self.any_thread()).is_ok_and(|status| status.has_shadow_stack());
        let mut refusal = NoJump::NoMemory;
        let whole = Jump::whole(site, original);
        let punned = (0..JUMP_LENGTH - 1)
            .map_while(|prefixes| Jump::punned(site, original, present, prefixes).ok());
        let candidates: Vec<Jump> = match whole {
            Ok(jump) => vec![jump],
            Err(Unmovable::Ends(_)) => punned.collect(),
            Err(error) => return Err(error.into()),
        };
        for jump in candidates {
            match self.try_place(jump, body, shadowed) {
                Ok(placement) => return Ok(placement),
                Err(error) => refusal = error,
            }
        }
        let several = Jump::several(site, original, present)?;
        self.check_landings(&several)?;
        self.try_place(several, body, shadowed)
            .map_err(|error| match error {
                NoJump::NoMemory => refusal,
                error => error,
            })
    }

    fn try_place(&mut self, jump: Jump, body: usize, shadowed: bool) -> Result<Placement, NoJump> {
        if shadowed && jump.block().has_call() {
            return Err(NoJump::ShadowStack);
        }
        let size = body + jump.block().instructions().len() * COPY_SIZE;
        let pad = self.pad_room(jump.address(), size as u64)?;
        self.fast.areas.use_range(pad.clone());
        if jump.pattern().is_free() {
            return Ok(Placement {
                jump,
                pad: pad.start,
                springboard: None,
            });
        }
        match self.springboard(&jump, pad.start) {
            Some(springboard) => Ok(Placement {
                jump,
                pad: pad.start,
                springboard: Some(springboard),
            }),
            None => {
                // The area stays for the next one.
                self.fast.areas.forget_use(pad.start);
                Err(NoJump::NoMemory)
            }
        }
    }

    /// Nothing that is known to lead into the middle of a jump, and nothing of ours either.
    fn check_landings(&mut self, jump: &Jump) -> Result<(), NoJump> {
        debug_assert_eq!(jump.way(), Way::Several);
        let length = jump.block().length() as u64;
        let middle = jump.address() + 1..jump.address() + length;
        let ours = self
            .fast
            .jumps
            .range(middle.clone())
            .map(|(site, _)| *site)
            .chain(
                self.breakpoints
                    .range(middle.clone())
                    .map(|(site, _)| *site),
            )
            .next();
        if let Some(ours) = ours {
            return Err(Unmovable::Landing(ours).into());
        }
        let Some(mapping) = self.room()?.executable_at(jump.address()).cloned() else {
            return Err(NoJump::NoMemory);
        };
        let key = (mapping.start, mapping.end);
        if !self.fast.landings.contains_key(&key) {
            let size = mapping.end - mapping.start;
            if size > LARGEST_CODE {
                return Err(NoJump::NoMemory);
            }
            let mut code = vec![0; size as usize];
            let filled = self.memory.read(mapping.start, &mut code);
            let code = code.get(..filled).unwrap_or_default();
            let found = landings(mapping.start, code, &(mapping.start..mapping.end));
            self.fast.landings.insert(key, found);
        }
        let landing = self
            .fast
            .landings
            .get(&key)
            .and_then(|landings| landings.range(middle).next());
        match landing {
            Some(landing) => Err(Unmovable::Landing(*landing).into()),
            None => Ok(()),
        }
    }

    /// What is mapped, looked up once while the process stands.
    pub(super) fn room(&mut self) -> Result<&mut Room, NoJump> {
        if self.fast.room.is_none() {
            let mappings = maps::mappings(self.any_thread())
                .map_err(|_| NoJump::Refused("its mappings cannot be read"))?;
            self.fast.room = Some(Room::new(mappings));
        }
        self.fast.room.as_mut().ok_or(NoJump::NoMemory)
    }

    /// A free stretch of an area within reach of a site, as long as asked for.
    pub(super) fn pad_room(&mut self, site: u64, size: u64) -> Result<Range<u64>, NoJump> {
        let reach = site.saturating_sub(REACH)..site.saturating_add(REACH);
        let size = size.next_multiple_of(16);
        let found = self
            .fast
            .areas
            .free(reach.clone())
            .map(|free| free.start.next_multiple_of(16)..free.end)
            .find(|free| free.start.saturating_add(size) <= free.end);
        if let Some(found) = found {
            return Ok(found.start..found.start + size);
        }
        let length = size.next_multiple_of(PAGE_SIZE).max(AREA);
        let room = self.room()?;
        let fits = |gap: &Range<u64>| gap.end - gap.start >= length;
        // Below the site, and only where nothing is free there above, as far off as can be: the heap grows up.
        let below = room
            .gaps(reach.start..site)
            .filter(fits)
            .last()
            .map(|gap| gap.end - length);
        let area = below
            .or_else(|| {
                room.gaps(site..reach.end)
                    .filter(fits)
                    .last()
                    .map(|gap| gap.end - length)
            })
            .ok_or(NoJump::NoMemory)?;
        self.map_area(area..area + length)?;
        Ok(area..area + size)
    }

    fn map_area(&mut self, area: Range<u64>) -> Result<(), NoJump> {
        self.map_code(area.start, area.end - area.start)
            .ok_or(NoJump::Refused(
                "it filters its system calls, or may map no more",
            ))?;
        self.room()?.take(area.clone());
        self.fast.areas.add(area);
        Ok(())
    }

    /// A place for a jump to the pad that the jump at the site can lead to.
    fn springboard(&mut self, jump: &Jump, pad: u64) -> Option<u64> {
        const LENGTH: u64 = JUMP_LENGTH as u64;
        let pattern = jump.pattern();
        let reaches = |at: &u64| at.abs_diff(pad) < REACH;
        // In memory that we have before any that must be mapped.
        let near = pad.saturating_sub(REACH)..pad.saturating_add(REACH);
        let ready = self
            .fast
            .areas
            .free(near)
            .filter(|free| free.end - free.start >= LENGTH)
            .find_map(|free| pattern.first_target(free.start..free.end - LENGTH + 1));
        let at = match ready {
            Some(at) => at,
            None => {
                let room = self.room().ok()?;
                let (at, area) = pattern.windows().find_map(|window| {
                    let pages = window.start & !(PAGE_SIZE - 1)
                        ..window.end.next_multiple_of(PAGE_SIZE) + PAGE_SIZE;
                    room.gaps(pages).find_map(|gap| {
                        let end = gap.end - LENGTH + 1;
                        let at = pattern
                            .first_target(gap.start.max(window.start)..end.min(window.end))
                            .filter(reaches)?;
                        let first = at & !(PAGE_SIZE - 1);
                        let last = (at + LENGTH).next_multiple_of(PAGE_SIZE);
                        Some((at, first..last))
                    })
                })?;
                self.map_area(area).ok()?;
                at
            }
        };
        self.fast.areas.use_range(at..at + LENGTH);
        Some(at)
    }
}

/// The room that the copy of one instruction takes at most.
const COPY_SIZE: usize = tracewire_jump_pad::relocate::SLOT_SIZE;
