//! Expressions in GDB's language: read, given types, compiled to agent expressions.

mod compile;
mod error;
mod items;
mod parse;
mod syntax;
mod token;
mod type_name;

pub use compile::{
    ActionList, CollectOptions, Variables, Warning, compile_collect, compile_condition,
    compile_teval,
};
pub(crate) use error::Span;
pub use error::{ExpressionError, ExpressionErrorKind};
pub use items::split_items;
