//! Displaced instructions, and the jumps over them.
//!
//! A copy of an instruction runs elsewhere, followed by a jump back. Everything that depends on the address of an instruction
//! (operands relative to `rip`, branches, the return address that a call pushes) is rewritten, so that the result is the same.
//! The added code changes no flags, no registers and no byte of the red zone.
//!
//! A jump takes five bytes, and most instructions are shorter. There are three forms ([`Way`]):
//!
//! 1. The instruction is long enough.
//! 2. *Punned*: only the bytes of this one instruction are written. The displacement of the jump continues in the following
//!    instructions, which are unchanged. So the jump has few possible targets, but nothing else can notice: other code that jumps
//!    to those instructions finds them.
//! 3. *Several* instructions are displaced. A thread that gets into the middle of the jump (by an unknown branch, or by the
//!    return from a signal handler) would execute bytes of its displacement. So these are chosen such that at each instruction's
//!    old start there is a byte that is no instruction. The thread faults before it executes anything, and the tracer moves it to
//!    the same place in the copy.
//!
//! All three constrain the displacement's bytes. A [`Pattern`] holds the constraints, and the jump's target is chosen to fit.
//!
//! ```
//! use tracewire_jump_pad::relocate::{Block, Jump, Way};
//!
//! // push rbp; mov rbp, rsp; sub rsp, 32
//! let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
//! let punned = Jump::punned(&Block::decode(0x1000, &code, 1)?, &code, 0)?;
//! // e9 48 89 e5 48: leads to one place only.
//! assert_eq!(punned.pattern().first_target(0..u64::MAX), Some(0x1005 + 0x48e5_8948));
//! let (several, block) = Jump::several(0x1000, &code, &code)?;
//! assert_eq!((several.way(), several.written()), (Way::Several, 5));
//! let copy = block.copy(0x20_0000)?;
//! assert_eq!(copy.spots.place(0).address, 0x1000);
//! # Ok::<(), tracewire_jump_pad::relocate::Unmovable>(())
//! ```

mod block;
mod copy;
mod instruction;
mod jump;
mod landings;
mod pattern;

pub use block::{Block, Unmovable};
pub use copy::{Copy, Place, SLOT_SIZE, Spot, Spots};
pub use instruction::{Displaced, Kind, MAX_INSTRUCTION};
pub use jump::{JUMP_LENGTH, Jump, Way};
pub use landings::{landing, landings};
pub use pattern::{ByteRule, Pattern, Region};
