#![doc = include_str!("../README.md")]
//!
//! # Two ways from one tree
//!
//! An expression is parsed in the language of its place, and every name in it is looked up once. The typed tree is used in two ways:
//!
//! - [`compile_condition`] and [`ActionList`] reduce it to 64-bit computations, and write them as agent expression bytecode. The
//!   target evaluates it at a hit.
//! - [`evaluate`] computes it from a [`State`], which is what was saved at the hit. [`Value::print`] writes the value as GDB's
//!   `print` does.
//!
//! A byte that was not saved is unavailable to the end. A [`PreparedExpression`] is resolved once for all the states of its place.
//!
//! Both ways read a variable's location through the same computations, so what is collected is what is read afterwards. The tests
//! evaluate hundreds of expressions from a core file, and again from only the bytes that their own actions collect.
//!
//! `$stack` ([`StackItem`]) collects the registers and a piece of the stack, and `$stack_fp` what the frame pointers point to. An [`Unwinder`] finds the callers in them.
//!
//! At a USDT probe, `$_probe_argc` and `$_probe_arg0` to `$_probe_arg11` have the values that GDB gives them.
//!
//! # Limits
//!
//! Texts and debug information may be hostile. Depth, sizes and steps are bounded, and an expression over a bound is an
//! [`ExpressionError`].
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod code;
mod collect;
mod compile;
mod dwarf_numbers;
mod dwarf_run;
mod emit;
mod error;
mod float_compare;
mod float_expr;
mod follow;
mod gdb;
mod inlined;
mod int_expr;
mod items;
mod location;
mod lower;
mod marker_argument;
mod marker_operand;
mod members;
mod names;
mod node;
mod object;
mod operand;
mod operators;
mod parse;
mod parts;
mod primary;
mod redaction;
mod register_names;
mod register_types;
mod resolve;
mod scalar;
mod search;
mod soft_float;
mod stack;
mod syntax;
mod token;
mod type_lookup;
mod type_name;
mod value;
mod walk;
mod watched;

pub use compile::{
    ActionList, CollectOptions, Variables, Warning, check_redaction, compile_collect,
    compile_condition, compile_teval,
};
pub use error::{ExpressionError, ExpressionErrorKind};
pub use follow::CollectLimits;
pub use gdb::{gdb_can_collect, gdb_can_read};
pub use items::split_items;
pub use marker_argument::{MarkerArgument, marker_arguments};
pub use operand::{CompiledOperand, compile_operand};
pub use stack::{StackEnd, StackItem, StackWalk};
pub use value::{
    Backtrace, BacktraceEnd, CallFrame, Datum, NamedValue, NoState, Place, PlainState, PlainValue,
    PreparedExpression, PreparedItem, PrintOptions, Shape, ShownValue, State, Unwinder, Value,
    evaluate, expand, print_float, type_name,
};
pub use walk::TypeWalks;
pub use watched::FixedObject;

pub(crate) use error::Span;
