//! Values: evaluated from a saved state, and shown as GDB shows them.

mod arithmetic;
mod contents;
mod datum;
mod evaluate;
mod expand;
mod float;
mod locate;
mod plain;
mod prepare;
mod print;
mod source;
mod state;
mod type_name;
mod unwind;

pub use contents::{Place, Value};
pub use datum::{Datum, Shape};
pub use evaluate::evaluate;
pub use expand::{NamedValue, PreparedItem, expand};
pub use float::print_float;
pub use plain::{PlainState, PlainValue, ShownValue};
pub use prepare::PreparedExpression;
pub use print::PrintOptions;
pub use state::{NoState, State};
pub use type_name::type_name;
pub use unwind::{Backtrace, BacktraceEnd, CallFrame, Unwinder};
