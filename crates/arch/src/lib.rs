#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod architecture;
mod bfd;
mod feature;
mod layout;
mod standard;
mod types;
mod x86;

pub use architecture::{Architecture, UnknownArchitecture};
pub use bfd::{bfd_byte_order, likely_byte_order};
pub use layout::{LayoutError, Register, RegisterLayout, TargetDescription};
pub use standard::StandardRegisters;
pub use types::{BitField, FloatFormat, RegisterType};
pub use x86::X86Registers;
