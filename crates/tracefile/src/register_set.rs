//! The registers that a frame keeps, where it does not keep all of them: a block of our own.
//!
//! The format's `R` block has room for every register of the machine. A frame that wants two of them would take 2.4 KB on
//! x86-64, so a frame in a trace buffer keeps its registers in a block that no file has. A frame is
//! [expanded](RegisterSets::expand) before anyone reads it. `docs/formats/trace-file-extensions.md` has the form.

use crate::encode::FRAME_HEADER;
use crate::unknown::unknown_masks;
use tracewire_arch::RegisterLayout;
use tracewire_model::{ByteOrder, RegisterMask, VariableNumber};

/// The letter of a block of a set's registers.
pub const SET_LETTER: u8 = b'r';

/// The letter and the number of the set, before the bytes.
pub const SET_HEADER: usize = 5;

/// A variable's block.
pub(crate) const VARIABLE_BLOCK: usize = 13;

/// Neighbouring bytes of a register block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: usize,
    length: usize,
}

/// Some of the registers of a register block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterSet {
    mask: RegisterMask,
    runs: Vec<Run>,
    size: usize,
    unknown: Vec<u64>,
}

impl RegisterSet {
    /// The registers of the layout that the mask names. What else it names is no register of the machine's.
    #[must_use]
    pub fn new(layout: &RegisterLayout, mask: &RegisterMask) -> Self {
        let chosen = |number| mask.contains(number);
        let mut runs: Vec<Run> = Vec::new();
        let mut known = vec![false; layout.size() as usize];
        for register in layout.registers() {
            if !chosen(register.number) {
                continue;
            }
            let (start, length) = (register.offset as usize, register.size() as usize);
            known
                .get_mut(start..start + length)
                .unwrap_or_default()
                .fill(true);
            match runs.last_mut() {
                Some(last) if last.start + last.length == start => last.length += length,
                _ => runs.push(Run { start, length }),
            }
        }
        let registers = layout.registers();
        Self {
            mask: registers
                .iter()
                .map(|register| register.number)
                .filter(|number| chosen(*number))
                .collect(),
            size: runs.iter().map(|run| run.length).sum(),
            runs,
            unknown: unknown_masks(registers, &known),
        }
    }

    /// The registers of the set.
    #[must_use]
    pub const fn mask(&self) -> &RegisterMask {
        &self.mask
    }

    /// How many bytes they take.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// How many bytes from the start of a register block hold all of them.
    #[must_use]
    pub fn end(&self) -> usize {
        self.runs.last().map_or(0, |run| run.start + run.length)
    }

    /// The bytes of the set's registers, of a whole register block.
    pub(crate) fn gather<'b>(&self, block: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.runs.iter().map(|run| {
            block
                .get(run.start..run.start + run.length)
                .unwrap_or_default()
        })
    }

    /// Fills in which bytes of a register block the set has.
    pub fn keep_known(&self, bytes: &mut [Option<u8>]) {
        let mut at = 0;
        for run in &self.runs {
            bytes.get_mut(at..run.start).unwrap_or_default().fill(None);
            at = run.start + run.length;
        }
        bytes.get_mut(at..).unwrap_or_default().fill(None);
    }

    /// The masks of the registers that the set does not have, without those that are zero.
    fn unknown(&self) -> impl Iterator<Item = (VariableNumber, u64)> {
        let masks = self.unknown.iter().enumerate();
        masks
            .filter(|(_, mask)| **mask != 0)
            .filter_map(|(place, mask)| Some((crate::unknown::mask_variable(place)?, *mask)))
    }

    /// The size of the blocks that it is expanded to.
    fn expanded_size(&self, block_size: usize) -> usize {
        1 + block_size + VARIABLE_BLOCK * self.unknown().count()
    }
}

/// The register sets of the frames of one buffer, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterSets(Vec<RegisterSet>);

impl RegisterSets {
    /// No sets.
    pub const EMPTY: Self = Self(Vec::new());

    /// The number of a set, which is added if it is new. The sets are of one layout.
    pub fn add(&mut self, set: RegisterSet) -> u32 {
        let known = self.0.iter().position(|one| one.mask == set.mask);
        let place = known.unwrap_or_else(|| {
            self.0.push(set);
            self.0.len() - 1
        });
        // Memory ends before the numbers do.
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Sets of these numbers, in any order, made of masks; the others are empty. `None` where a number is larger than any buffer's.
    pub(crate) fn of_masks(
        masks: Vec<(usize, RegisterMask)>,
        make: impl Fn(&RegisterMask) -> Option<RegisterSet>,
    ) -> Option<Self> {
        /// More sets than tracepoints have actions.
        const MOST: usize = 1 << 12;
        let empty = RegisterMask::default();
        let mut sets = Vec::new();
        for (number, mask) in masks {
            if number >= MOST {
                return None;
            }
            while sets.len() <= number {
                sets.push(make(&empty)?);
            }
            *sets.get_mut(number)? = make(&mask)?;
        }
        Some(Self(sets))
    }

    /// The sets with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &RegisterSet)> {
        (0..).zip(&self.0)
    }

    /// The set of this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&RegisterSet> {
        self.0.get(usize::try_from(number).ok()?)
    }

    /// How many bytes from the start of a register block hold the registers of all sets.
    #[must_use]
    pub fn end(&self) -> usize {
        self.0.iter().map(RegisterSet::end).max().unwrap_or(0)
    }

    /// The set whose registers the frame keeps: none for one that has a whole block, or none.
    #[must_use]
    pub fn of_frame(&self, frame: &[u8], order: ByteOrder) -> Option<&RegisterSet> {
        let (letter, body) = frame.get(FRAME_HEADER..)?.split_first()?;
        let number = order.u32_at(body, 0).filter(|_| *letter == SET_LETTER)?;
        self.get(number)
    }

    /// How many bytes a frame has once it is expanded to a register block of this size, header included.
    #[must_use]
    pub fn expanded_size(&self, frame: &[u8], order: ByteOrder, block_size: usize) -> usize {
        self.of_frame(frame, order).map_or(frame.len(), |set| {
            (frame.len() + set.expanded_size(block_size)).saturating_sub(SET_HEADER + set.size)
        })
    }

    /// Adds a frame to `into` as it is in a file whose register blocks have this size. A block may end before the last
    /// registers of the machine, but not before one of the set ([`Self::end`]).
    pub fn expand(&self, frame: &[u8], order: ByteOrder, block_size: usize, into: &mut Vec<u8>) {
        let Some(set) = self.of_frame(frame, order) else {
            into.extend_from_slice(frame);
            return;
        };
        let start = into.len();
        into.reserve(self.expanded_size(frame, order, block_size));
        let (header, blocks) = frame.split_at_checked(FRAME_HEADER).unwrap_or_default();
        let body = blocks.get(SET_HEADER..).unwrap_or_default();
        let (mut kept, rest) = body.split_at_checked(set.size).unwrap_or((body, &[]));
        into.extend_from_slice(header);
        into.push(b'R');
        let block = into.len();
        into.resize(block + block_size, 0);
        for run in &set.runs {
            let (bytes, others) = kept.split_at_checked(run.length).unwrap_or((kept, &[]));
            let place = block + run.start..block + run.start + bytes.len();
            if let Some(place) = into.get_mut(place) {
                place.copy_from_slice(bytes);
            }
            kept = others;
        }
        for (number, mask) in set.unknown() {
            into.push(b'V');
            into.extend_from_slice(&order.u32_bytes(number.0.cast_unsigned()));
            into.extend_from_slice(&order.u64_bytes(mask));
        }
        into.extend_from_slice(rest);
        let size = u32::try_from(into.len() - start - FRAME_HEADER).unwrap_or(u32::MAX);
        if let Some(field) = into.get_mut(start + 2..start + FRAME_HEADER) {
            field.copy_from_slice(&order.u32_bytes(size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{FrameEncoder, FrameFormat};
    use tracewire_arch::X86Registers;
    use tracewire_model::{Address, RegisterNumber, TracepointNumber};

    fn mask(layout: &RegisterLayout, names: &[&str]) -> RegisterMask {
        let number = |name: &&str| layout.by_name(name).unwrap().number;
        names.iter().map(number).collect()
    }

    /// A frame with the registers of the block that the set has, and one with the block as it is expanded.
    fn both(layout: &RegisterLayout, set: &RegisterSet, block: &[u8]) -> [Vec<u8>; 2] {
        let order = ByteOrder::Little;
        let format = FrameFormat {
            byte_order: order,
            register_block_size: layout.size(),
        };
        let [mut kept, mut whole] = [Vec::new(), Vec::new()];
        let mut frame = FrameEncoder::begin(&mut kept, format, TracepointNumber(7)).unwrap();
        frame.register_set(0, set, block).unwrap();
        frame.memory(Address(0x1000), b"some bytes");
        frame.finish().unwrap();

        let mut zeroed = vec![0; block.len()];
        for register in layout.registers() {
            if set.mask().contains(register.number) {
                let place = register.offset as usize..(register.offset + register.size()) as usize;
                zeroed[place.clone()].copy_from_slice(&block[place]);
            }
        }
        let mut frame = FrameEncoder::begin(&mut whole, format, TracepointNumber(7)).unwrap();
        frame.registers(&zeroed).unwrap();
        frame.unknown_registers(&set.unknown);
        frame.memory(Address(0x1000), b"some bytes");
        frame.finish().unwrap();
        [kept, whole]
    }

    #[test]
    fn a_frame_is_expanded_to_the_one_with_the_whole_block() {
        let layout = X86Registers::Avx512.layout_64();
        let block: Vec<u8> = (0..layout.size()).map(|at| (at % 251 + 1) as u8).collect();
        for names in [
            &["rip"][..],
            &["rdi", "rip", "rsi"],
            &["rip", "xmm0", "ymm0h"],
            &["rip", "zmm31h"],
            &[],
        ] {
            let set = RegisterSet::new(layout, &mask(layout, names));
            let [kept, whole] = both(layout, &set, &block);
            assert_eq!(kept.len(), 6 + 5 + set.size() + 11 + 10);
            let mut sets = RegisterSets::default();
            assert_eq!(sets.add(set), 0);
            let mut expanded = b"before".to_vec();
            let size = layout.size() as usize;
            sets.expand(&kept, ByteOrder::Little, size, &mut expanded);
            assert!(expanded[6..] == whole[..], "{names:?}");
            let declared = sets.expanded_size(&kept, ByteOrder::Little, size);
            assert_eq!(declared, whole.len());
        }
    }

    #[test]
    fn a_block_may_end_behind_the_last_register_of_the_sets() {
        let layout = X86Registers::Avx512.layout_64();
        let block: Vec<u8> = (0..layout.size()).map(|at| (at % 251 + 1) as u8).collect();
        let set = RegisterSet::new(layout, &mask(layout, &["rdi", "rip"]));
        let [kept, _] = both(layout, &set, &block);
        let mut sets = RegisterSets::default();
        sets.add(set);
        assert_eq!(sets.end(), 17 * 8);
        let mut expanded = Vec::new();
        sets.expand(&kept, ByteOrder::Little, sets.end(), &mut expanded);
        assert_eq!(expanded[7 + 16 * 8..][..8], block[16 * 8..][..8]);
        assert_eq!(expanded[7 + 17 * 8], b'V');
        assert_eq!(
            expanded.len(),
            sets.expanded_size(&kept, ByteOrder::Little, 17 * 8)
        );
    }

    #[test]
    fn a_frame_that_keeps_a_block_or_none_stays_as_it_is() {
        let layout = X86Registers::Core.layout_64();
        let format = FrameFormat {
            byte_order: ByteOrder::Little,
            register_block_size: layout.size(),
        };
        let mut bytes = Vec::new();
        let mut frame = FrameEncoder::begin(&mut bytes, format, TracepointNumber(1)).unwrap();
        frame.registers(&vec![1; layout.size() as usize]).unwrap();
        frame.finish().unwrap();
        let mut expanded = Vec::new();
        RegisterSets::default().expand(&bytes, ByteOrder::Little, 276, &mut expanded);
        assert_eq!(expanded, bytes);
    }

    #[test]
    fn sets_are_told_apart_by_their_registers() {
        let layout = X86Registers::Core.layout_64();
        let mut sets = RegisterSets::default();
        let mut add = |names: &[&str]| {
            let mut mask = mask(layout, names);
            // No register of the machine.
            mask.insert(RegisterNumber(9000));
            sets.add(RegisterSet::new(layout, &mask))
        };
        assert_eq!(add(&["rip"]), 0);
        assert_eq!(add(&["rip", "rax"]), 1);
        assert_eq!(add(&["rip"]), 0);
    }
}
