//! Values: evaluated from a saved state, and shown as GDB shows them.

mod arithmetic;
mod contents;
mod evaluate;
mod expand;
mod float;
mod locate;
mod print;
mod source;
mod state;
mod type_name;

pub use contents::{Place, Value};
pub use evaluate::evaluate;
pub use expand::{NamedValue, expand};
pub use float::print_float;
pub use print::PrintOptions;
pub use state::State;
pub use type_name::type_name;
