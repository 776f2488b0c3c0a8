//! Machines: their registers and target descriptions, names, byte order and sizes.
//!
//! ```
//! use tracewire_arch::{Architecture, RegisterLayout, X86Registers};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let machine: Architecture = "x86_64".parse()?;
//! assert_eq!(machine.pointer_size(), 8);
//!
//! // The target description that GDB is given, and the register block that it describes.
//! let xml = X86Registers::Core.target_xml_64();
//! let layout = RegisterLayout::parse(&xml)?;
//! assert_eq!(layout.by_name("rip").map(|register| register.offset), Some(128));
//! # Ok(())
//! # }
//! ```
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
