//! Copies of instructions that GDB makes (`qRelocInsn`).
//!
//! It is asked for instructions that a copy of our own would do as well, and only for those that a jump stands over alone
//! and that neither branch nor call: GDB copies a short branch as it is, and has a call leave an address of ours.

use std::ops::Range;

use tracewire_jump_pad::relocate::{Block, Copy, JUMP_LENGTH, MAX_INSTRUCTION, Place, Spot};

use crate::memory::Memory;

/// The room for a copy with the jump back, in bytes: more than GDB makes of any instruction.
const ROOM: u64 = 64;

/// A copy that a debugger makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct GdbRelocated {
    start: u64,
    /// The length of the copy, 0 as long as it is not made.
    length: u64,
    /// The pad that leads there, once one does.
    pad: u64,
}

impl super::Fast {
    /// The pad and the place of a thread in such a copy.
    pub(super) fn inside_borrowed(&self, address: u64) -> Option<(u64, Spot)> {
        let (site, borrowed) = self.borrowed.iter().find(|(_, borrowed)| {
            borrowed.pad != 0
                && (borrowed.start..borrowed.start + borrowed.length + JUMP_LENGTH as u64)
                    .contains(&address)
        })?;
        let displaced = self.pads.get(&borrowed.pad)?.displaced.clone();
        let place = if address < borrowed.start + borrowed.length {
            Place::Before
        } else {
            Place::At(displaced.end)
        };
        let spot = Spot {
            offset: 0,
            address: *site,
            place,
        };
        Some((borrowed.pad, spot))
    }

    /// Whether a debugger's copy of the instruction at a site is in use.
    fn has_borrowed(&self, site: u64) -> bool {
        self.borrowed
            .get(&site)
            .is_some_and(|borrowed| self.pads.contains_key(&borrowed.pad))
    }

    /// The debugger has made the copy, of so many bytes; `None` if it could not.
    pub(crate) fn note_copy(&mut self, site: u64, length: Option<u64>) {
        let fits = |length: &u64| (1..=ROOM - JUMP_LENGTH as u64).contains(length);
        match (self.borrowed.get_mut(&site), length.filter(fits)) {
            (Some(borrowed), Some(length)) => borrowed.length = length,
            _ => _ = self.borrowed.remove(&site),
        }
    }

    /// How long a debugger's copy of the instruction at a site may be; `None` where a copy of ours is to be preferred.
    pub(super) fn room_to_borrow(&self, memory: &Memory, site: u64) -> Option<u64> {
        if self.has_borrowed(site) {
            return None;
        }
        let mut bytes = [0; MAX_INSTRUCTION];
        let length = memory.read(site, &mut bytes);
        let block = Block::decode(site, bytes.get(..length)?, 1).ok()?;
        (block.length() >= JUMP_LENGTH && block.is_plain()).then_some(ROOM)
    }

    /// A debugger is to make a copy of the instruction at a site, here.
    pub(super) fn borrow(&mut self, site: u64, room: Range<u64>) {
        let start = room.start;
        self.areas.use_range(room);
        let borrowed = GdbRelocated {
            start,
            length: 0,
            pad: 0,
        };
        self.borrowed.insert(site, borrowed);
    }

    /// Ends a pad in a debugger's copy, where there is one: what stands in place of our own copy, at `at`.
    pub(super) fn lead_to_borrowed(
        &mut self,
        memory: &Memory,
        pad: u64,
        at: u64,
        block: &Block,
    ) -> Option<Copy> {
        let [instruction] = block.instructions() else {
            return None;
        };
        let site = instruction.address();
        let borrowed = *self
            .borrowed
            .get(&site)
            .filter(|borrowed| borrowed.length > 0 && borrowed.pad == 0)?;
        let end = borrowed.start + borrowed.length;
        let back = Copy::led_to(end, site + block.length() as u64, site)?;
        memory.write(end, &back.code).ok()?;
        let led = Copy::led_to(at, borrowed.start, site)?;
        self.borrowed.get_mut(&site)?.pad = pad;
        Some(led)
    }
}
