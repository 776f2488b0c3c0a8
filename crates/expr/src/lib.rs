//! Expressions in the syntax of C, C++ and Rust: parsed, compiled to agent expressions, evaluated from saved state, and
//! values printed as GDB prints them.
//!
//! ```
//! use tracewire_debuginfo::Symbols;
//! use tracewire_expr::{PrintOptions, State, compile_condition, evaluate};
//! use tracewire_arch::Architecture;
//! use tracewire_model::{Address, RegisterNumber, VariableNumber};
//!
//! /// A thread of which one register was saved.
//! struct Saved;
//!
//! impl State for Saved {
//!     fn pc(&self) -> Address {
//!         Address(0x401136)
//!     }
//!     fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
//!         (register == RegisterNumber(0)).then(|| 42_u64.to_le_bytes().to_vec())
//!     }
//!     fn memory(&self, _: Address, _: &mut [u8], _: &mut [bool]) {}
//!     fn variable(&self, _: &str) -> Option<i64> {
//!         None
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A program without symbols: expressions of its registers are left.
//! let mut symbols = Symbols::new();
//! symbols.set_architecture(Architecture::X86_64);
//!
//! let value = evaluate(&symbols, &Saved, "$rax + 1")?;
//! assert_eq!(value.print(&symbols, &Saved, &PrintOptions::default()), "43");
//!
//! // The same as bytecode for the target to evaluate.
//! let no_variables = |_: &str| None::<VariableNumber>;
//! let bytecode = compile_condition(&symbols, Address(0x401136), "$rax == 42", &no_variables)?;
//! assert!(!bytecode.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # Two ways from one tree
//!
//! An expression is read in the language of its place, C, C++ or Rust, and every name in it is looked up once. Two ways
//! lead on from the typed tree. [`compile_condition`] and [`ActionList`] reduce it to 64-bit computations, folded and
//! written as agent expression bytecode: what the target evaluates at a hit. [`evaluate`] computes it from a [`State`],
//! what was saved at the hit, and [`Value::print`] writes it as GDB's `print` does. A byte that was not saved is
//! unavailable to the end. A [`PreparedExpression`] is resolved once for all the states of its place.
//!
//! Both ways read a variable's location through the same computations, so what is collected is what is read afterwards:
//! the tests evaluate hundreds of expressions from a core file, and from only those bytes of it that their own actions
//! collect.
//!
//! At a marker, `$_probe_argc` and `$_probe_arg0` to `$_probe_arg11` have the values that GDB gives them.
//!
//! # Limits
//!
//! Texts and debug information may be hostile: depth, sizes and steps are bounded, and an expression over a bound is an
//! [`ExpressionError`].
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod cell;
mod collect;
mod compile;
mod dwarf_numbers;
mod dwarf_run;
mod emit;
mod error;
mod float_compare;
mod gdb;
mod items;
mod location;
mod lower;
mod machine_registers;
mod marker_argument;
mod marker_operand;
mod members;
mod names;
mod node;
mod object;
mod operators;
mod parse;
mod primary;
mod real;
mod register_names;
mod register_types;
mod resolve;
mod scalar;
mod soft_float;
mod syntax;
mod token;
mod type_lookup;
mod type_name;
mod value;

pub use compile::{
    ActionList, CollectOptions, Variables, Warning, compile_collect, compile_condition,
    compile_teval,
};
pub use error::{ExpressionError, ExpressionErrorKind};
pub use gdb::{gdb_can_collect, gdb_can_read};
pub use items::split_items;
pub use marker_argument::{MarkerArgument, marker_arguments};
pub use value::{
    NamedValue, Place, PreparedExpression, PreparedItem, PrintOptions, State, Value, evaluate,
    expand, print_float, type_name,
};

pub(crate) use error::Span;
