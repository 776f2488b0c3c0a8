//! Expressions in GDB's language: read, given types, compiled to agent expressions.

pub(crate) mod cell;
mod collect;
mod compile;
mod dwarf_numbers;
mod dwarf_run;
mod emit;
mod error;
mod float_compare;
mod gdb;
mod items;
pub(crate) mod location;
mod lower;
mod machine_registers;
mod marker_argument;
mod marker_operand;
mod members;
mod names;
pub(crate) mod node;
pub(crate) mod object;
mod operators;
mod parse;
mod primary;
mod real;
pub(crate) mod register_names;
pub(crate) mod register_types;
pub(crate) mod resolve;
pub(crate) mod scalar;
mod soft_float;
pub(crate) mod syntax;
mod token;
mod type_lookup;
mod type_name;

pub use compile::{
    ActionList, CollectOptions, Variables, Warning, compile_collect, compile_condition,
    compile_teval,
};
pub(crate) use error::Span;
pub use error::{ExpressionError, ExpressionErrorKind};
pub use gdb::{gdb_can_collect, gdb_can_read};
pub use items::split_items;
pub use marker_argument::MarkerArgument;
