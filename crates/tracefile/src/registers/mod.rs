//! Which register stands where in a register block.

mod bfd;
mod feature;
mod layout;
mod standard;
mod types;
mod x86;

pub(crate) use bfd::{byte_order, likely_byte_order};
pub(crate) use layout::TargetDescription;
pub use layout::{LayoutError, Register, RegisterLayout};
pub use standard::StandardRegisters;
pub use types::{BitField, FloatFormat, RegisterType};
pub use x86::X86Registers;
