//! Copies of instructions that GDB makes (`qRelocInsn`).
//!
//! GDB is asked only for instructions that the jump covers alone and that neither branch nor call. GDB copies a short
//! branch unchanged, and its copy of a call pushes an address in the pad. A copy of our own would do as well for the
//! rest.

use std::ops::Range;

use tracewire_jump_pad::relocate::{Block, Copy, JUMP_LENGTH, MAX_INSTRUCTION, Place, Spot};

use crate::memory::Memory;

/// The space for a copy and the jump back, in bytes: more than GDB makes of any instruction.
const ROOM: u64 = 64;

/// A copy by a debugger.
#[derive(Clone, Copy, Debug)]
pub(super) struct GdbRelocated {
    start: u64,
    /// The length of the copy; 0 until it is made.
    length: u64,
    /// The pad that ends in the copy, once there is one.
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

    /// The debugger has made a copy of this length; `None` if it could not.
    pub(crate) fn note_copy(&mut self, site: u64, length: Option<u64>) {
        let fits = |length: &u64| (1..=ROOM - JUMP_LENGTH as u64).contains(length);
        match (self.borrowed.get_mut(&site), length.filter(fits)) {
            (Some(borrowed), Some(length)) => borrowed.length = length,
            _ => _ = self.borrowed.remove(&site),
        }
    }

    /// How long a debugger's copy of the instruction at a site may be; `None` where our own copy is preferred.
    pub(super) fn room_to_borrow(&self, memory: &Memory, site: u64) -> Option<u64> {
        if self.has_borrowed(site) {
            return None;
        }
        let mut bytes = [0; MAX_INSTRUCTION];
        let length = memory.read(site, &mut bytes);
        let block = Block::decode(site, bytes.get(..length)?, 1).ok()?;
        (block.length() >= JUMP_LENGTH && block.is_plain()).then_some(ROOM)
    }

    /// Reserves space for a debugger's copy of the instruction at a site.
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

    /// Ends a pad in the debugger's copy if there is one, instead of our own copy at `at`.
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
