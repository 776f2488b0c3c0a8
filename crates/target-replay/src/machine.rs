//! The machine of a recording, as a debugger wants to know it.

use tracewire_tracefile::{Address, Architecture, ByteOrder, RegisterLayout};

/// Registers, byte order, and what watchpoints do.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which one.
    pub architecture: Architecture,
    /// The registers in the order of a `g` packet.
    pub layout: RegisterLayout,
    /// The target description.
    pub target_xml: String,
}

impl Machine {
    /// The order of bytes in numbers.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.architecture.byte_order()
    }

    /// An address as the machine has it: GDB extends those of 32-bit MIPS with their sign.
    #[must_use]
    pub const fn address(&self, address: Address) -> Address {
        if self.architecture.pointer_size() == 4 {
            Address(address.0 & 0xffff_ffff)
        } else {
            address
        }
    }

    /// Whether GDB expects a watchpoint to stop before the instruction that accesses the memory, and then steps over it
    /// to see what it did (`have_nonsteppable_watchpoint` in its tables).
    #[must_use]
    pub const fn watches_before(&self) -> bool {
        matches!(
            self.architecture,
            Architecture::Arm | Architecture::ArmBig | Architecture::Aarch64
        )
    }
}
