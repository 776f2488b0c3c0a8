//! The process's mappings, and other facts that are looked up repeatedly while it is stopped.

use std::io;
use std::ops::Range;

use nix::errno::Errno;

use crate::abi::Abi;
use crate::maps::{self, Mapping, ThreadStatus};
use crate::ptrace::{PAGE_SIZE, Tid};

/// The lowest address that programs may usually map (`vm.mmap_min_addr`).
pub(crate) const LOWEST: u64 = 0x1_0000;
/// Space that is left free below the main stack.
const STACK_ROOM: u64 = 1 << 30;
/// The first address that no program can use.
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// Address ranges where memory for data is placed, the best first.
///
/// Runtimes divide the address space among themselves and end the program where something is mapped that they do not know:
///
/// | runtime | its own | the program's |
/// |---|---|---|
/// | ThreadSanitizer to LLVM 17, GCC | 0x0100… to 0x5500…, 0x5680… to 0x7e80… | 0x5500… to 0x5680…, 0x7e80… on |
/// | ThreadSanitizer from LLVM 18 | 0x0200… to 0x5500…, 0x5a00… to 0x7a00… | 0x5500… to 0x5a00…, 0x7a00… on |
/// | MemorySanitizer | 0x0100… to 0x5100…, 0x6000… to 0x7400… | 0x5100… to 0x6000…, 0x7400… on |
/// | AddressSanitizer | 0x0000_7fff_8000 to 0x1000_7fff_8000; its heap from 0x5000… or 0x6000… | 0x1000_8000… on |
/// | Go | its heap from 0x00c0_0000_0000 | the rest |
/// | JVM | a heap below 32 GiB, its classes next to it; ZGC 0x0400… to 0x1000… | the rest |
///
/// (Each `…` is eight zeros.) What all leave to the program is 0x7e80… and on, where the kernel puts libraries and stacks, from
/// the top down and at most 1 TiB of it left out at random: 0x7e80… to 0x7f00… is the part that is reached last.
const DATA: [Range<u64>; 2] = [0x7e80_0000_0000..0x7f00_0000_0000, LOWEST..HIGHEST];

/// The mappings of a process. Our own mappings are entered too, so that no address is used twice.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    mappings: Vec<Mapping>,
    /// Rising, by starts and by ends.
    taken: Vec<Range<u64>>,
}

impl AddressSpace {
    pub(crate) fn new(mappings: Vec<Mapping>) -> Self {
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

    /// The program's mapping that contains an address.
    pub(crate) fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let next = self
            .mappings
            .partition_point(|mapping| mapping.end <= address);
        self.mappings
            .get(next)
            .filter(|mapping| mapping.start <= address)
    }

    /// Whole unmapped pages in a range.
    pub(crate) fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
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

    /// Free space of this size near an address and within `reach` of it. Space below the address is preferred. Above
    /// it, the farthest space is taken, since the heap grows up.
    pub(crate) fn room_near(&self, address: u64, reach: u64, size: u64) -> Option<Range<u64>> {
        let fits = |gap: &Range<u64>| gap.end - gap.start >= size;
        let below = address.saturating_sub(reach)..address;
        let above = address..address.saturating_add(reach);
        let gap = self
            .gaps(below)
            .filter(fits)
            .last()
            .or_else(|| self.gaps(above).filter(fits).last())?;
        Some(gap.end - size..gap.end)
    }

    /// Free space of this size for data.
    pub(crate) fn room_for_data(&self, size: u64) -> Option<Range<u64>> {
        DATA.into_iter().find_map(|within| {
            let largest = self
                .gaps(within)
                .max_by_key(|gap| gap.end - gap.start)
                .filter(|gap| gap.end - gap.start >= size)?;
            // In the middle, which the program's own mappings reach last.
            let slack = largest.end - largest.start - size;
            let start = (largest.start + slack / 2) & !(PAGE_SIZE - 1);
            Some(start..start + size)
        })
    }

    /// Whether a gap begins at the end of the program's heap.
    pub(crate) fn is_for_heap(&self, gap: &Range<u64>) -> bool {
        gap.start
            .checked_sub(1)
            .and_then(|last| self.mapping_at(last))
            .is_some_and(|mapping| mapping.path.as_os_str() == "[heap]")
    }

    /// Notes a new mapping.
    pub(crate) fn take(&mut self, range: Range<u64>) {
        let place = self
            .taken
            .partition_point(|taken| taken.start < range.start);
        self.taken.insert(place, range);
    }
}

/// Facts about a process that hold while all its threads are stopped.
#[derive(Debug)]
pub(crate) struct WhileStopped {
    pub(crate) space: AddressSpace,
    /// It runs a program for another machine.
    pub(crate) is_foreign: bool,
    /// Returns are checked against a shadow stack.
    pub(crate) has_shadow_stack: bool,
    /// The thread that made the last system call for the tracer.
    pub(crate) volunteer: Option<Tid>,
}

impl WhileStopped {
    pub(crate) fn of(thread: Tid) -> io::Result<Self> {
        Ok(Self {
            space: AddressSpace::new(maps::mappings(thread)?),
            is_foreign: Abi::of_program(thread) == Some(None),
            has_shadow_stack: ThreadStatus::read(thread)
                .is_ok_and(|status| status.has_shadow_stack()),
            volunteer: None,
        })
    }
}

/// Why the process cannot map memory for the tracer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoMemory {
    #[error("no memory can be had near enough to it")]
    NoRoom,
    #[error("the process lets no memory be had: its mappings cannot be read")]
    Unreadable,
    #[error(
        "the process lets no memory be had: it filters its system calls, or dispatches them to itself"
    )]
    Filtered,
    #[error("the process lets no memory be had: its threads wait in vfork for a child")]
    InVfork,
    #[error(
        "the process lets no memory be had: all its threads sleep in the kernel, where nothing stops them"
    )]
    Asleep,
    #[error("the process lets no memory be had: {}", .0.desc())]
    Refused(Errno),
    #[error("the process lets no memory be had: something else is mapped where there was room")]
    Taken,
}

/// The error that a system call has returned.
pub(crate) fn error_of(result: u64) -> Option<Errno> {
    const LARGEST: u64 = 4095;
    (result > u64::MAX - LARGEST).then(|| Errno::from_raw(result.wrapping_neg() as i32))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const REACH: u64 = 0x7fff_0000;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            readable: true,
            executable: true,
            offset: 0,
            inode: 0,
            path: PathBuf::from(path),
        }
    }

    #[test]
    fn room_is_below_the_program_and_above_only_if_it_must() {
        let program = AddressSpace::new(vec![
            mapping(0x40_0000, 0x50_0000, "/p"),
            mapping(0x60_0000, 0x70_0000, "[heap]"),
        ]);
        assert_eq!(
            program.room_near(0x40_1000, REACH, PAGE_SIZE),
            Some(0x3f_f000..0x40_0000)
        );
        assert!(program.is_for_heap(&(0x70_0000..0x80_0000)));
        assert!(!program.is_for_heap(&(0x50_0000..0x60_0000)));
        let low = AddressSpace::new(vec![
            mapping(LOWEST, 0x50_0000, "/p"),
            mapping(0x50_0000, 0x70_0000, "[heap]"),
        ]);
        let room = low.room_near(0x40_1000, REACH, PAGE_SIZE).unwrap();
        assert!(room.start > 0x7000_0000 && room.start - 0x40_1000 < REACH);
    }

    #[test]
    fn no_room_is_where_the_stack_grows() {
        let stack = 0x7fff_f000_0000;
        let program = AddressSpace::new(vec![
            mapping(stack, stack + 0x2_0000, "[stack]"),
            mapping(stack + 0x2_0000, stack + 0x3_0000, "[vdso]"),
        ]);
        let room = program.room_near(stack + 0x2_0000, REACH, PAGE_SIZE);
        let start = room.unwrap().start;
        assert!(start + STACK_ROOM <= stack || start > stack);
    }

    #[test]
    fn what_has_been_taken_is_no_room() {
        let mut program = AddressSpace::new(vec![mapping(0x40_0000, 0x50_0000, "/p")]);
        let mut before = 0x40_0000;
        for size in [PAGE_SIZE, 64 * PAGE_SIZE, PAGE_SIZE] {
            let room = program.room_near(0x40_1000, REACH, size).unwrap();
            assert_eq!(room, before - size..before);
            program.take(room.clone());
            before = room.start;
        }
    }
}
