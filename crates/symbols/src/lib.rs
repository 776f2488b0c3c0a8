//! ELF and DWARF for tracepoints: a location becomes addresses, a C-like or Rust-like expression becomes an agent
//! expression, bytes become a typed value.
//!
//! ```
//! use tracewire_symbols::Symbols;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut symbols = Symbols::new();
//! symbols.add_module(&std::env::current_exe()?, 0)?;
//!
//! // Where would a tracepoint on `main` go, and what is there?
//! let places = symbols.resolve("main", None)?;
//! let place = symbols.place(places[0].address).expect("its module is known");
//! assert!(place.function.is_some());
//!
//! // A name that is not there is told with those that are near, and whether a library may bring it.
//! let error = symbols.resolve("maim", None).unwrap_err();
//! assert!(error.may_come_later());
//! # Ok(())
//! # }
//! ```
//!
//! # One program, many modules
//!
//! A [`Symbols`] is the program and its libraries, each an ELF file at a load bias. Everything it is asked is read
//! from the files when it is first asked for, and kept: the headers of the units at once, one pass over all entries
//! for the names ([`Symbols::resolve`]), and of a single unit its line table and blocks. A file is read whole into
//! memory, not mapped, so that a program that is built anew while it is traced does no harm; one that is in several
//! sets of modules is read once ([`ModuleFile`]). Addresses in what it answers are always addresses in the traced
//! program, bias added.
//!
//! Debug information may be in the file itself, compressed or not, or apart from it (by build id, by
//! `.gnu_debuglink`), with parts in other files (split units in `.dwo` files or a `.dwp`, what several programs have in
//! common by `.gnu_debugaltlink`), or not there at all: then the ELF symbols are what there is. A part that cannot be read is
//! said ([`ModuleFile::unread_debug_information`]).
//!
//! # GDB's answers
//!
//! Trace files are for GDB, too, and a tracepoint set here must be where GDB would have set it, with the same
//! variables in sight. So the rules are GDB 13's, down to its line tables: one table a source file, an end mark where
//! the compiler switches files, a prologue skipped by the rules for the compiler that made it, one location a block
//! where the optimizer scattered a line. The tests compare every function and every line of a dozen builds with GDB.
//! Where GDB knows no better, more is found: a Rust function by the end of its path, for one.
//!
//! # Locations
//!
//! | form | places |
//! |---|---|
//! | `FUNCTION` | after the prologue of every function of that name, and at every inlined copy: a C name; `ns::f`, `Class::method`, `f` of any namespace; `f(int)` for one overload; `f<int>` for one instance, `f` for all; `crate::module::f`; an ELF symbol |
//! | `FILE:LINE`, `LINE` | every place of that line, or of the next that has code |
//! | `FILE:FUNCTION` | the functions of the units with that file |
//! | `*0x1234`, `*f+4`, `*&f` | that very address |
//! | `-m NAME`, `-probe-stap PROVIDER:NAME` | a SystemTap marker |
//! | `-function`, `-source`, `-line`, `-qualified` | GDB's explicit locations |
//!
//! # Expressions and values
//!
//! At a marker, `$_probe_argc` and `$_probe_arg0` to `$_probe_arg11` are what GDB has them for.
//!
//! An expression is read in the language of its place, C, C++ or Rust, and every name in it looked up once. From
//! there it goes two ways. [`compile_condition`] and [`ActionList`] bring it down to 64-bit computations, folded and
//! written as agent expression bytecode: what the target needs to know at a hit. [`evaluate`] works it out from a
//! [`State`], what was saved at the hit, and [`Value::print`] writes it as GDB's `print` does; a byte that was not
//! saved stays unknown to the end; a [`PreparedExpression`] is understood once for all the states of its place. Both read a variable's place through the same computations, so what is collected
//! is what is looked at afterwards: the tests evaluate hundreds of expressions from a core file and from only those
//! bytes of it that their own actions collect.
//!
//! # What a file says is not believed
//!
//! Every byte of a file may be wrong: lists are bounded, chains of references are cut, types that need themselves are
//! told from those that do not, and what is damaged is left out of the answer rather than guessed.
#![deny(missing_docs)]

mod call_site;
mod dwarf;
mod error;
mod expression;
mod frame;
mod function;
mod indirect;
mod location;
mod location_expression;
mod lookup;
mod module;
mod registers;
mod resolve;
mod scope;
mod symbols;
mod types;
mod unwind;
mod value;
mod variables;

pub use error::{LocationError, SymbolError};
pub use expression::{
    ActionList, CollectOptions, ExpressionError, ExpressionErrorKind, MarkerArgument, Variables,
    Warning, compile_collect, compile_condition, compile_teval, gdb_can_collect, gdb_can_read,
    split_items,
};
pub use frame::{CfaRule, RegisterRule, UnwindRow};
pub use indirect::IndirectSlot;
pub use location::{CallerPlace, Function, Marker, ResolvedLocation, SourcePlace};
pub use location_expression::{
    BaseTypeOffset, ExpressionBytes, ExpressionOperation, LocationExpression, ThreadLocalOffset,
    VariableLocation,
};
pub use module::{ModuleFile, ModuleId, ModuleInfo, Segment};
pub use registers::{dwarf_register, gdb_register};
pub use scope::{Scope, ScopeVariables, Variable, VariableKind};
pub use symbols::{ArrayBound, Symbols};
pub use types::{
    BaseEncoding, Enumerator, Language, Member, ReferenceKind, StaticMember, StructureKind, Type,
    TypeId, Variant, VariantPart,
};
pub use value::{
    NamedValue, Place, PreparedExpression, PreparedItem, PrintOptions, State, Value, evaluate,
    expand, print_float, type_name,
};
