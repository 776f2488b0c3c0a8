//! GDB agent expressions: the bytecode of tracepoint conditions and collect actions.
//!
//! The debugger compiles `depth < 3` once, on the host, with all it knows of types and locations; what reaches the
//! target is a handful of bytes for a machine with a stack of 64-bit cells, which needs no memory of its own and no
//! knowledge of the language. That machine is here, with what surrounds it:
//!
//! - [`instructions`] and [`decode_at`] take a program apart; [`Opcode`] is the table that everything reads;
//! - [`verify()`] follows every path through a program before it is let near a target, and says what it touches;
//! - [`Evaluation`] runs one. It stops whenever it needs a register, memory or a variable, and whenever it has something
//!   to collect, as `gimli::Evaluation` does for DWARF expressions: the caller may then fetch for many evaluations at
//!   once. Who has everything at hand gives a [`Context`] to [`Evaluation::evaluate`];
//! - [`CollectOnce`] leaves out of a frame's programs what others of them have collected;
//! - [`Builder`] puts programs together for a compiler, with labels and the shortest constants;
//! - [`assemble`] and [`disassemble`] read and write the listing that GDB's `maint agent` prints.
//!
//! The source is the GDB manual, appendix "The GDB Agent Expression Mechanism". Where it is silent, the choice is
//! told at the [`Opcode`]: shifts by 64 and more, the smallest number divided by -1, `ext 0`. A program comes from a
//! file or a wire, so it is believed in nothing: evaluating any bytes at all ends, within [`STEP_LIMIT`] steps, in a
//! result or an [`EvaluationError`].
//!
//! ```
//! use tracewire_agent_expr::{Context, Evaluation, assemble, verify};
//!
//! struct Machine;
//!
//! impl Context for Machine {
//!     fn register(&mut self, register: u16) -> Option<u64> {
//!         (register == 5).then_some(0x1000)
//!     }
//!     fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
//!         (address == 0x1008 && size == 4).then_some(41)
//!     }
//!     fn variable(&mut self, _: u16) -> i64 {
//!         1
//!     }
//!     fn set_variable(&mut self, _: u16, _: i64) {}
//! }
//!
//! // p->count + $step, with `p` in register 5.
//! let program = assemble(
//!     "reg 5
//!      const8 8
//!      add
//!      ref32
//!      getv 2
//!      add
//!      end",
//! )?;
//! let verified = verify(&program)?;
//! assert!(verified.has_result() && verified.registers().contains(&5));
//! assert_eq!(Evaluation::new().evaluate(&program, &mut Machine)?, Some(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builder;
mod context;
mod evaluation;
mod instruction;
mod once;
mod opcode;
mod text;
mod verify;

pub use builder::{BuildError, Builder, Label};
pub use context::Context;
pub use evaluation::{
    Evaluation, EvaluationError, EvaluationErrorKind, Request, STACK_LIMIT, STEP_LIMIT,
};
pub use instruction::{
    DecodeError, Instruction, Instructions, Operand, PROGRAM_LIMIT, decode_at, instructions,
};
pub use once::CollectOnce;
pub use opcode::{Opcode, OperandKind};
pub use text::{AssembleError, assemble, disassemble};
pub use verify::{Verified, VerifyError, verify};
