#![doc = include_str!("../README.md")]
//!
//! # Contents
//!
//! - [`instructions`] and [`decode_at`] decode a program; [`Opcode`] is the table behind them.
//! - [`verify()`] follows every path through a program before it runs on a target, and returns what it accesses.
//! - [`Evaluation`] runs a program. It stops at each register, memory read, variable and collection, as `gimli::Evaluation` does for
//!   DWARF expressions. So the caller can fetch the data of many evaluations at once. A caller that has all data passes a
//!   [`Context`] to [`Evaluation::evaluate`].
//! - [`CollectOnce`] removes collections of memory that an earlier program of the same frame has made.
//! - [`Builder`] makes programs for a compiler, with labels and the shortest constants.
//! - [`assemble`] and [`disassemble`] read and write the listing that GDB's `maint agent` prints.
//!
//! The source is the GDB manual, appendix "The GDB Agent Expression Mechanism". For cases that it leaves open, the choice is
//! documented at the [`Opcode`]: shifts by 64 and more, the smallest number divided by -1, `ext 0`. A program comes from a file or
//! a wire, so it is not trusted. The evaluation of any bytes ends within [`STEP_LIMIT`] steps, in a result or an
//! [`EvaluationError`].
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
