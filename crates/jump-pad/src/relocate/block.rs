//! The instructions that a jump displaces.

use super::copy::{Copy, Copying};
use super::instruction::{Displaced, Kind};

/// Why instructions cannot run elsewhere, or no jump can cover them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unmovable {
    /// The bytes are none that the processor executes.
    #[error("there is no instruction at {0:#x}")]
    NoInstruction(u64),
    /// A breakpoint of the program in its own code.
    #[error("the instruction at {0:#x} is a breakpoint of the program's own")]
    OwnTrap(u64),
    /// It has another meaning, or none, elsewhere.
    #[error("the instruction at {0:#x} only works in its place")]
    Fixed(u64),
    /// Its operand or target is more than 2 GiB away from its new place.
    #[error("what the instruction at {0:#x} refers to is out of reach")]
    OutOfReach(u64),
    /// A call or a system call before the last instruction: a thread may return from it at any time.
    #[error("a thread may be on its way back to {0:#x}, into the middle of the jump")]
    Returns(u64),
    /// Execution does not continue and there is no padding where another instruction would have to be displaced.
    #[error("the code before {0:#x} ends there, and what follows is not known to be code")]
    Ends(u64),
    /// The target of a branch is inside the jump.
    #[error("a branch leads to {0:#x}, into the middle of the jump")]
    Landing(u64),
}

/// Consecutive instructions.
#[derive(Debug)]
pub struct Block {
    address: u64,
    instructions: Vec<Displaced>,
}

impl Block {
    /// Takes as many whole instructions as needed for `length` bytes. `bytes` begin with the first one, at `address`.
    ///
    /// # Errors
    /// When one of them cannot be moved.
    pub fn decode(address: u64, bytes: &[u8], length: usize) -> Result<Self, Unmovable> {
        let mut instructions: Vec<Displaced> = Vec::new();
        let mut taken = 0;
        while taken < length.max(1) {
            let at = address.wrapping_add(taken as u64);
            if instructions
                .last()
                .is_some_and(|before| before.is_call() || before.is_system_call())
            {
                return Err(Unmovable::Returns(at));
            }
            let instruction = Displaced::decode(bytes.get(taken..).unwrap_or_default(), at);
            // The padding up to the next function is not its code.
            if let Some(before) = instructions.last()
                && !before.falls_through()
                && !instruction.is_padding()
            {
                return Err(Unmovable::Ends(at));
            }
            match instruction.kind {
                _ if instruction.length() == 0 || !instruction.is_valid() => {
                    return Err(Unmovable::NoInstruction(at));
                }
                Kind::OwnTrap => return Err(Unmovable::OwnTrap(at)),
                Kind::Fixed => return Err(Unmovable::Fixed(at)),
                Kind::Relocatable => {}
            }
            taken += instruction.length();
            instructions.push(instruction);
        }
        Ok(Self {
            address,
            instructions,
        })
    }

    /// The address of the first one.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The address after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(self.length() as u64)
    }

    /// The instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Displaced] {
        &self.instructions
    }

    /// How many bytes they have.
    #[must_use]
    pub fn length(&self) -> usize {
        self.instructions.iter().map(Displaced::length).sum()
    }

    /// Whether one of them is a call, which a shadow stack must see made by a call.
    #[must_use]
    pub fn has_call(&self) -> bool {
        self.instructions.iter().any(Displaced::is_call)
    }

    /// Whether execution continues only at the next instruction after each of them.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.instructions.iter().all(Displaced::is_plain)
    }

    /// Makes the copy that runs at `at`, and jumps back after the last instruction.
    ///
    /// # Errors
    /// When something is out of reach from there.
    pub fn copy(&self, at: u64) -> Result<Copy, Unmovable> {
        let mut copying = Copying::new(at);
        let last = self.instructions.len().saturating_sub(1);
        for (index, instruction) in self.instructions.iter().enumerate() {
            copying
                .add(instruction, index == last)
                .ok_or(Unmovable::OutOfReach(instruction.address()))?;
        }
        Ok(copying.finish())
    }
}
