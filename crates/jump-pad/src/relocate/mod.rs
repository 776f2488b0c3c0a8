//! Displaced instructions, and the jumps that displace them.
//!
//! A copy of an instruction is run elsewhere, followed by a jump back. What depends on where an instruction is
//! (operands relative to `rip`, branches, the return address that a call pushes) is rewritten, so that the
//! program cannot tell. Flags, registers and the red zone are untouched by what is added.
//!
//! A jump takes five bytes, and most instructions have fewer. There are three ways to put one in ([`Way`]):
//!
//! 1. The instruction is long enough.
//! 2. *Punned*: only the bytes of this one instruction are written, and the displacement of the jump goes on into the
//!    instructions that follow, which stay as they are. That leaves few places for the jump to lead to, but nothing
//!    else can notice: other instructions are there for code that jumps to them.
//! 3. *Several* instructions are displaced. A thread that gets into the middle of the jump (by a branch that nobody knew
//!    of, or by the return from a signal handler) would execute bytes of its displacement. So these are chosen such that
//!    wherever an instruction began there is a byte which is no instruction at all: the thread faults
//!    before it does anything, and the tracer takes it to its place in the copy.
//!
//! All three ask something of the displacement's bytes, which a [`Pattern`] says; where the jump leads is chosen to fit.
//!
//! ```
//! use tracewire_jump_pad::relocate::{Jump, Way};
//!
//! // push rbp; mov rbp, rsp; sub rsp, 32
//! let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
//! let punned = Jump::punned(0x1000, &code, &code, 0)?;
//! // e9 48 89 e5 48: leads to one place only.
//! assert_eq!(punned.pattern().first_target(0..u64::MAX), Some(0x1005 + 0x48e5_8948));
//! let several = Jump::several(0x1000, &code, &code)?;
//! assert_eq!((several.way(), several.written()), (Way::Several, 5));
//! let copy = several.block().copy(0x20_0000)?;
//! assert_eq!(copy.place(0).address, 0x1000);
//! # Ok::<(), tracewire_jump_pad::relocate::Unmovable>(())
//! ```

mod block;
mod copy;
mod instruction;
mod jump;
mod landings;
mod pattern;

pub use block::{Block, Unmovable};
pub use copy::{Copy, Place, SLOT_SIZE, Spot};
pub use instruction::{Displaced, Kind, MAX_INSTRUCTION};
pub use jump::{JUMP_LENGTH, Jump, Way};
pub use landings::{landing, landings};
pub use pattern::{ByteRule, Pattern};
