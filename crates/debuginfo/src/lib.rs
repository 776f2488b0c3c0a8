#![doc = include_str!("../README.md")]
//!
//! # One program, many modules
//!
//! A [`Symbols`] is the program and its libraries, each an ELF file at a load bias. Each part is read when it is first needed, and
//! kept. The parts are the headers of all units, the names ([`Symbols::resolve`]), and the line table and blocks of one unit.
//!
//! A file is mapped; parts that are lost when a program is rebuilt while it is traced read as zeros. A file in several sets of
//! modules is read once ([`ModuleFile`]). Answers have addresses of the traced program, bias included.
//!
//! Debug information may be in the file, compressed or not, or in another file that is found by build id, by `.gnu_debuglink`, or
//! by a [`DebugFileSource`]. Parts may be in split units (`.dwo`, `.dwp`) or in a file that several programs share
//! (`.gnu_debugaltlink`). Without any, the ELF symbols remain: those of the file, of a file within it (`.gnu_debugdata`), or of the
//! table of a Go program's runtime. A part that cannot be read is reported ([`ModuleFile::unread_debug_information`]).
//!
//! # GDB's answers
//!
//! A tracepoint that is set here must be where GDB would set it, with the same variables in scope. So the rules are GDB 13's:
//!
//! - one line table for each source file, with an end mark where the compiler switches files;
//! - a prologue skipped by the rules for the compiler that made it;
//! - one location for each block where the optimizer scattered a line.
//!
//! The tests compare every function and every line of a dozen builds with GDB. Some names are found that GDB does not find, such as a Rust function by
//! the end of its path.
//!
//! # Locations
//!
//! | form | places |
//! |---|---|
//! | `FUNCTION` | after the prologue of every function of that name, and at every inlined copy |
//! | `ns::f`, `Class::method`, `f`, `crate::module::f` | a qualified name, or its end |
//! | `f(int)`, `f<int>`, `f` | one overload, one instance, all of them |
//! | `FILE:LINE`, `LINE` | every place of that line, or of the next that has code |
//! | `FILE:FUNCTION` | the functions of the units with that file |
//! | `MODULE:FUNCTION` | the functions of one module: `libc.so.6:getenv`, `libc:getenv` |
//! | `<T as Trait>::f`, `main::{{closure}}`, `void f<int>(int)` | a name as `nm -C`, `perf` and Rust's backtraces print it |
//! | `Cart::*`, `FILE:*`, `MODULE:str*` | all functions whose name, or its end after a `::`, matches the pattern; `*` matches any characters |
//! | `/^ngx_http_/`, `FILE:/_init$/` | all functions in whose qualified name, without parameters, the regular expression is found |
//! | `*0x1234`, `*f+4`, `*&f` | that very address |
//! | `-m NAME`, `-probe-stap PROVIDER:NAME` | a USDT probe |
//! | `-function`, `-source`, `-line`, `-qualified` | GDB's explicit locations |
//!
//! # Input is hostile
//!
//! Any byte of a file may be wrong. Lists are bounded, and chains of references are cut. Types that contain themselves are
//! detected. Damaged parts are left out of the answer.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod call_site;
mod code_place;
mod dwarf;
mod dynamic;
mod error;
mod frame;
mod function;
mod goroutine;
mod indirect;
mod listing;
mod location;
mod location_expression;
mod lookup;
mod markers;
mod misplaced;
mod module;
mod modules;
mod narrow;
mod nearest;
mod redaction;
mod resolve;
mod return_value;
mod scope;
mod symbols;
mod type_rules;
mod types;
mod unwind;
mod variables;

pub use dwarf::name::plain_name;
pub use error::{LocationError, SymbolError};
pub use frame::{CfaRule, RegisterRule, UnwindRow};
pub use goroutine::GoroutineLayout;
pub use indirect::IndirectSlot;
pub use location::{CallerPlace, Function, FunctionPlace, Marker, ResolvedLocation, SourcePlace};
pub use location_expression::{
    BaseTypeOffset, ExpressionBytes, ExpressionOperation, LocationExpression, ThreadLocalOffset,
    VariableLocation,
};
pub use module::{DebugFileSource, ModuleFile, ModuleId, ModuleInfo, ReadFiles, Segment};
pub use nearest::ValuePlace;
pub use redaction::ByteRange;
pub use resolve::{is_pattern, names_functions};
pub use return_value::ReturnValueError;
pub use scope::{Scope, ScopeVariables, Variable, VariableKind};
pub use symbols::Symbols;
pub use type_rules::{TypeRule, TypeRuleError, TypeRuleErrorKind, TypeRules, WalkKind};
pub use types::base::canonical_c_name;
pub use types::{
    ArrayBound, BaseEncoding, Enumerator, Language, Member, ReferenceKind, StaticMember,
    StructureKind, Type, TypeId, Variant, VariantPart,
};
