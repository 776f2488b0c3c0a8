//! ELF and DWARF for tracepoints. (Front page to be written with a running example.)
#![deny(missing_docs)]

mod dwarf;
mod error;
mod expression;
mod frame;
mod function;
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
    ActionList, CollectOptions, ExpressionError, ExpressionErrorKind, Variables, Warning,
    compile_collect, compile_condition, compile_teval, split_items,
};
pub use frame::{CfaRule, RegisterRule, UnwindRow};
pub use location::{CallerPlace, Function, Marker, ResolvedLocation, SourcePlace};
pub use location_expression::{
    BaseTypeOffset, ExpressionBytes, ExpressionOperation, LocationExpression, ThreadLocalOffset,
    VariableLocation,
};
pub use module::{ModuleId, ModuleInfo, Segment};
pub use registers::{dwarf_register, gdb_register};
pub use scope::{ScopeVariables, Variable, VariableKind};
pub use symbols::{ArrayBound, Symbols};
pub use types::{
    BaseEncoding, Enumerator, Language, Member, ReferenceKind, StaticMember, StructureKind, Type,
    TypeId, Variant, VariantPart,
};
pub use value::{NamedValue, Place, PrintOptions, State, Value, evaluate, expand, type_name};
