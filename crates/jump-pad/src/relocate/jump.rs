//! A planned jump over instructions.

use std::ops::Range;

use super::block::{Block, Unmovable};
use super::pattern::{ByteRule, Pattern};

/// The length of a jump, in bytes: its opcode and a displacement of 32 bits.
pub const JUMP_LENGTH: usize = 5;

/// The opcode of the jump.
const JUMP: u8 = 0xe9;
/// The size of a page, in bytes. No write to two pages is atomic.
const PAGE: u64 = 4096;
/// A prefix that means nothing before a jump in 64-bit mode (a segment override, Intel's manual, volume 1, 3.4.2.1).
const PREFIX: u8 = 0x26;

/// The form of a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The instruction is long enough.
    Whole,
    /// Its displacement ends in the instructions that follow.
    Punned,
    /// Several instructions are displaced.
    Several,
}

/// A jump over the instruction at an address.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    address: u64,
    way: Way,
    /// How many prefixes are before the opcode.
    prefixes: usize,
    /// How many of its bytes are written.
    written: usize,
    pattern: Pattern,
}

impl Jump {
    /// A jump over a block of one instruction, which has at least five bytes on its page.
    ///
    /// # Errors
    /// `Ends` when it is shorter, or the page is.
    pub fn whole(alone: &Block) -> Result<Self, Unmovable> {
        let address = alone.address();
        if alone.length().min(left_on_page(address)) < JUMP_LENGTH {
            return Err(Unmovable::Ends(alone.end()));
        }
        let from = address.wrapping_add(JUMP_LENGTH as u64);
        Ok(Self {
            address,
            way: Way::Whole,
            prefixes: 0,
            written: JUMP_LENGTH,
            pattern: Pattern::new(from, [ByteRule::Any; 4]),
        })
    }

    /// A jump over a block of one, shorter instruction, with this many prefixes before its opcode. `present` are the bytes that
    /// are in memory now, including jumps and breakpoints of the tracer. Those after the instruction, and those on the next page,
    /// must not change as long as this jump exists.
    ///
    /// # Errors
    /// `Ends` when there is no space for the opcode.
    pub fn punned(alone: &Block, present: &[u8], prefixes: usize) -> Result<Self, Unmovable> {
        let address = alone.address();
        let length = alone
            .length()
            .min(prefixes + JUMP_LENGTH)
            .min(left_on_page(address));
        let end = Unmovable::Ends(alone.end());
        if prefixes >= length {
            return Err(end);
        }
        let mut rules = [ByteRule::Any; 4];
        for (rule, offset) in rules.iter_mut().zip(prefixes + 1..) {
            if offset >= length {
                *rule = ByteRule::Is(*present.get(offset).ok_or(end)?);
            }
        }
        let from = address.wrapping_add((prefixes + JUMP_LENGTH) as u64);
        Ok(Self {
            address,
            way: Way::Punned,
            prefixes,
            written: length,
            pattern: Pattern::new(from, rules),
        })
    }

    /// A jump over as many instructions as needed, and these. `original` are the program's bytes from `address` on. The jump's bytes
    /// on the next page are not written, as in [`punned`](Self::punned).
    ///
    /// # Errors
    /// When one of them cannot be moved.
    pub fn several(
        address: u64,
        original: &[u8],
        present: &[u8],
    ) -> Result<(Self, Block), Unmovable> {
        let written = JUMP_LENGTH.min(left_on_page(address));
        let block = Block::decode(address, original, written)?;
        let mut rules = [ByteRule::Any; 4];
        for (rule, offset) in rules.iter_mut().zip(1..).skip(written - 1) {
            let end = Unmovable::Ends(address.wrapping_add(offset as u64));
            *rule = ByteRule::Is(*present.get(offset).ok_or(end)?);
        }
        for instruction in block.instructions().iter().skip(1) {
            let offset = instruction.address().wrapping_sub(address) as usize;
            if let Some(rule) = offset.checked_sub(1).and_then(|byte| rules.get_mut(byte)) {
                *rule = ByteRule::NoInstruction;
            }
        }
        let from = address.wrapping_add(JUMP_LENGTH as u64);
        let jump = Self {
            address,
            way: Way::Several,
            prefixes: 0,
            written,
            pattern: Pattern::new(from, rules),
        };
        Ok((jump, block))
    }

    /// The address of the site.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The form of the jump.
    #[must_use]
    pub const fn way(&self) -> Way {
        self.way
    }

    /// How many bytes from the site on are written.
    #[must_use]
    pub const fn written(&self) -> usize {
        self.written
    }

    /// The addresses whose bytes are written.
    #[must_use]
    pub const fn writes(&self) -> Range<u64> {
        self.address..self.address.wrapping_add(self.written as u64)
    }

    /// The addresses of the jump's bytes; those that are not written must not change.
    #[must_use]
    pub const fn reads(&self) -> Range<u64> {
        self.address
            ..self
                .address
                .wrapping_add((self.prefixes + JUMP_LENGTH) as u64)
    }

    /// The constraints on its displacement.
    #[must_use]
    pub const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The bytes to write; `None` if the target does not fit.
    #[must_use]
    pub fn bytes(&self, target: u64) -> Option<Vec<u8>> {
        let displacement = self.pattern.displacement(target)?;
        let mut bytes = vec![PREFIX; self.prefixes];
        bytes.push(JUMP);
        bytes.extend(displacement);
        bytes.truncate(self.written);
        Some(bytes)
    }
}

/// How many bytes there are from an address to the end of its page.
const fn left_on_page(address: u64) -> usize {
    (PAGE - address % PAGE) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// push rbp; mov rbp, rsp; sub rsp, 32; mov eax, 0x11223344
    const CODE: [u8; 24] = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xb8, 0x44, 0x33, 0x22, 0x11, 0x90, 0x90,
        0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
    ];

    #[test]
    fn a_jump_at_the_end_of_a_page_leaves_the_next_one_alone() {
        const NEXT: u64 = 0x5555_5555_6000;
        for left in 1..JUMP_LENGTH {
            // The jump is to begin this many bytes before the page's end, at the instruction of five bytes.
            let address = NEXT - left as u64;
            let code = &CODE[8..];
            let alone = Block::decode(address, code, 1).unwrap();
            assert_eq!(alone.length(), 5);
            assert!(Jump::whole(&alone).is_err());
            for prefixes in 0..left {
                let jump = Jump::punned(&alone, code, prefixes).unwrap();
                assert_eq!(jump.writes(), address..NEXT);
                let target = jump.pattern().first_target(0..u64::MAX).unwrap();
                let bytes = jump.bytes(target).unwrap();
                assert_eq!(bytes.len(), left);
                let whole = [&bytes, &code[left..]].concat();
                let distance = whole[prefixes + 1..prefixes + 5].try_into().unwrap();
                let after = address + prefixes as u64 + 5;
                let distance = i64::from(i32::from_le_bytes(distance));
                assert_eq!(after.wrapping_add_signed(distance), target);
            }
            assert!(Jump::punned(&alone, code, left).is_err());
            // Three short instructions: those that begin on the next page stay as they are.
            let (jump, block) = Jump::several(address, &CODE, &CODE).unwrap();
            assert_eq!(jump.writes(), address..NEXT);
            assert_eq!(block.length(), if left == 1 { 1 } else { 4 });
            let target = jump.pattern().first_target(0..u64::MAX).unwrap();
            let whole = [&jump.bytes(target).unwrap(), &CODE[left..]].concat();
            let distance = i32::from_le_bytes(whole[1..5].try_into().unwrap());
            assert_eq!((address + 5).wrapping_add_signed(distance.into()), target);
        }
    }
}
