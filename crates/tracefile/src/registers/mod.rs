//! Which register stands where in a register block.

mod layout;
mod x86;

pub use layout::{LayoutError, Register, RegisterLayout};
pub use x86::X86Registers;
