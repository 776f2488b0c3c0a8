#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod architecture;
mod bfd;
mod code;
mod dwarf;
mod elf;
mod feature;
mod flow;
mod layout;
mod machine;
mod names;
mod standard;
mod stores;
mod types;
mod x86;

pub use architecture::{Architecture, UnknownArchitecture};
pub use bfd::{bfd_byte_order, likely_byte_order};
pub use code::{InstructionCode, InstructionSet, Opcode};
pub use dwarf::{dwarf_register, gdb_register};
pub use elf::of_elf;
pub use flow::{DelaySlot, Flow, FlowKind};
pub use layout::{LayoutError, Register, RegisterLayout, TargetDescription};
pub use machine::{Machine, RegisterPart, UpperBits};
pub use names::{StackBank, stack_bank};
pub use standard::StandardRegisters;
pub use stores::Stores;
pub use types::{BitField, FloatFormat, RegisterType};
pub use x86::{EFLAGS, X86Registers, is_x87};
