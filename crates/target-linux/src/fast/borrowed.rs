//! Copies of instructions that a debugger makes (`qRelocInsn`).
//!
//! It is asked for instructions that a copy of our own would do as well, and only for those that a jump stands over alone
//! and that neither branch nor call: GDB copies a short branch as it is, and has a call leave an address of ours.

use std::ops::Range;

use tracewire_jump_pad::relocate::{Block, Copy, JUMP_LENGTH, MAX_INSTRUCTION, Place, Spot};
use tracewire_model::Address;

use crate::process::Process;

/// The room for a copy with the jump back, in bytes: more than GDB makes of any instruction.
const ROOM: u64 = 64;

/// A copy that a debugger makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borrowed {
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
}

impl Process {
    /// Finds room for a copy of the instruction at a site that a debugger is to make; `None` where a copy of ours is to be
    /// preferred, or there is no room. All threads stand.
    pub fn room_for_copy(&mut self, site: Address) -> Option<Address> {
        let known = self.fast.borrowed.get(&site.0);
        if known.is_some_and(|borrowed| self.fast.pads.contains_key(&borrowed.pad)) {
            return None;
        }
        let mut bytes = [0; MAX_INSTRUCTION];
        let length = self.memory.read(site.0, &mut bytes);
        let block = Block::decode(site.0, bytes.get(..length)?, 1).ok()?;
        if block.length() < JUMP_LENGTH || !block.is_plain() {
            return None;
        }
        let Range { start, end } = self.pad_room(site.0, ROOM).ok()?;
        self.fast.areas.use_range(start..end);
        let borrowed = Borrowed {
            start,
            length: 0,
            pad: 0,
        };
        self.fast.borrowed.insert(site.0, borrowed);
        Some(Address(start))
    }

    /// The debugger has made the copy, of so many bytes; `None` if it could not.
    pub fn copy_is_made(&mut self, site: Address, length: Option<u64>) {
        let fits = |length: &u64| (1..=ROOM - JUMP_LENGTH as u64).contains(length);
        match (self.fast.borrowed.get_mut(&site.0), length.filter(fits)) {
            (Some(borrowed), Some(length)) => borrowed.length = length,
            _ => _ = self.fast.borrowed.remove(&site.0),
        }
    }

    /// Ends a pad in a debugger's copy, where there is one: what stands in place of our own copy, at `at`.
    pub(super) fn lead_to_borrowed(&mut self, pad: u64, at: u64, block: &Block) -> Option<Copy> {
        let [instruction] = block.instructions() else {
            return None;
        };
        let site = instruction.address();
        let borrowed = *self
            .fast
            .borrowed
            .get(&site)
            .filter(|borrowed| borrowed.length > 0 && borrowed.pad == 0)?;
        let end = borrowed.start + borrowed.length;
        let back = Copy::led_to(end, site + block.length() as u64, site)?;
        self.memory.write(end, &back.code).ok()?;
        let led = Copy::led_to(at, borrowed.start, site)?;
        self.fast.borrowed.get_mut(&site)?.pad = pad;
        Some(led)
    }
}
