//! Which register stands where in a register block.

mod feature;
mod layout;
mod standard;
mod types;
mod x86;

pub use layout::{LayoutError, Register, RegisterLayout};
pub use standard::StandardRegisters;
pub use types::{BitField, FloatFormat, RegisterType};
pub use x86::X86Registers;
