//! ELF and DWARF of a program and its libraries: which function, source line, variable and type is where, and how to unwind.
//!
//! ```
//! use tracewire_debuginfo::Symbols;
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
//! // The error for an unknown name has the names close to it, and says whether a library may bring it.
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
//! # What a file says is not believed
//!
//! Every byte of a file may be wrong: lists are bounded, chains of references are cut, types that need themselves are
//! told from those that do not, and what is damaged is left out of the answer rather than guessed.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod call_site;
mod dwarf;
mod error;
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
mod variables;

pub use error::{LocationError, SymbolError};
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
pub use types::base::canonical_c_name;
pub use types::{
    BaseEncoding, Enumerator, Language, Member, ReferenceKind, StaticMember, StructureKind, Type,
    TypeId, Variant, VariantPart,
};
