//! The machine that a stub is at: its registers, its byte order, its breakpoints.

use tracewire_arch::{
    Architecture, LayoutError, Register, RegisterLayout, StandardRegisters, TargetDescription,
    likely_byte_order,
};
use tracewire_experiment::AddressForm;
use tracewire_model::{Address, ByteOrder};

use crate::error::RemoteError;

/// The machine of a stub.
#[derive(Clone, Debug)]
pub struct RemoteMachine {
    /// All registers that the stub describes.
    all: RegisterLayout,
    /// Those of the stub's register block.
    block: RegisterLayout,
    program_counter: Register,
    target_xml: String,
    architecture: Option<Architecture>,
    byte_order: ByteOrder,
    /// Whether instructions are Thumb's and no others.
    is_thumb_only: bool,
}

impl RemoteMachine {
    /// The machine of a description, else that of a name, whose register block has this many bytes.
    pub(crate) fn new(
        description: Option<&str>,
        named: Option<Architecture>,
        block_size: usize,
    ) -> Result<Self, RemoteError> {
        let parsed = match description.map(TargetDescription::parse) {
            // GDB accepts such a description and reads nothing from it.
            Some(Err(LayoutError::Root(_) | LayoutError::Empty)) => None,
            parsed => parsed.transpose()?,
        };
        let (all, target_xml) = match (parsed, description) {
            (Some(TargetDescription::Registers(layout)), Some(xml)) => (layout, xml.to_owned()),
            (Some(TargetDescription::Architecture(bfd)), _) => {
                let order = likely_byte_order(&bfd);
                let named = named.or_else(|| Architecture::of_bfd_name(&bfd, false, order));
                standard(named.ok_or(RemoteError::NoDescription)?, block_size)?
            }
            _ => standard(named.ok_or(RemoteError::NoDescription)?, block_size)?,
        };
        let bfd = all.architecture().unwrap_or_default();
        let counter = all.program_counter();
        let is_wide = counter.is_some_and(|register| register.bits > 32);
        let byte_order = named.map_or_else(|| likely_byte_order(bfd), Architecture::byte_order);
        let architecture = named.or_else(|| Architecture::of_bfd_name(bfd, is_wide, byte_order));
        let program_counter = counter.cloned().ok_or(RemoteError::NoProgramCounter)?;
        let is_thumb_only = target_xml.contains("org.gnu.gdb.arm.m-profile");
        Ok(Self {
            block: all.truncated(u32::try_from(block_size).unwrap_or(u32::MAX)),
            all,
            program_counter,
            target_xml,
            architecture,
            byte_order,
            is_thumb_only,
        })
    }

    /// All registers that the stub describes.
    #[must_use]
    pub const fn registers(&self) -> &RegisterLayout {
        &self.all
    }

    /// The registers of the stub's register block (`g`): the first of those that it describes, as many as the block has.
    #[must_use]
    pub const fn block(&self) -> &RegisterLayout {
        &self.block
    }

    /// The program counter.
    #[must_use]
    pub const fn program_counter(&self) -> &Register {
        &self.program_counter
    }

    /// The target description, in one document.
    #[must_use]
    pub fn target_xml(&self) -> &str {
        &self.target_xml
    }

    /// Its name, where it has one.
    #[must_use]
    pub const fn architecture(&self) -> Option<Architecture> {
        self.architecture
    }

    /// The order of bytes in registers and memory.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// How many bytes a breakpoint instruction at an address takes, as the packets `Z0` and `Z1` say it; `code` is what is there.
    #[must_use]
    pub fn breakpoint_kind(&self, code: &[u8]) -> u64 {
        match self.architecture {
            Some(Architecture::X86_64 | Architecture::I386) => 1,
            Some(Architecture::Arm | Architecture::ArmBig) if self.is_thumb_only => 2,
            // The two lowest bits of an instruction that is not compressed are set.
            Some(Architecture::Riscv32 | Architecture::Riscv64) => match code.first() {
                Some(byte) if byte & 3 != 3 => 2,
                _ => 4,
            },
            Some(_) => 4,
            None => 1,
        }
    }

    /// The breakpoint instruction, for a stub that inserts none; none of a machine that is not known.
    #[must_use]
    pub fn breakpoint_instruction(&self, code: &[u8]) -> Option<Vec<u8>> {
        let word = |code: u32| self.byte_order.u32_bytes(code).to_vec();
        // Instructions are little-endian on machines whose data is not.
        let little = |code: u32| code.to_le_bytes().to_vec();
        Some(match self.architecture? {
            Architecture::X86_64 | Architecture::I386 => vec![0xcc],
            Architecture::Arm | Architecture::ArmBig if self.is_thumb_only => vec![0x00, 0xbe],
            // GDB's: an undefined instruction that Linux takes for a breakpoint.
            Architecture::Arm | Architecture::ArmBig => word(0xe7f0_01f0),
            Architecture::Aarch64 => little(0xd420_0000),
            Architecture::Mips
            | Architecture::MipsLittle
            | Architecture::Mips64
            | Architecture::Mips64Little => word(0x0000_000d),
            Architecture::Riscv32 | Architecture::Riscv64 => match self.breakpoint_kind(code) {
                2 => vec![0x02, 0x90],
                _ => little(0x0010_0073),
            },
            Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
                word(0x7d82_1008)
            }
            Architecture::Nios2 => word(0x003d_a03a),
            _ => return None,
        })
    }

    /// How far behind a breakpoint instruction a stub may leave the program counter that says nothing of breakpoints.
    pub(crate) const fn bytes_after_breakpoint(&self) -> u64 {
        match self.architecture {
            Some(Architecture::X86_64 | Architecture::I386) => 1,
            _ => 0,
        }
    }

    /// Whether the instruction that begins with this code leads elsewhere, so that a step that ends where it began has not executed it.
    /// QEMU's stub reports such a step now and then.
    pub(crate) fn moves_on(&self, code: &[u8]) -> bool {
        let word = code.first_chunk::<4>();
        let word = word.map(|bytes| match self.byte_order {
            ByteOrder::Little => u32::from_le_bytes(*bytes),
            ByteOrder::Big => u32::from_be_bytes(*bytes),
        });
        let is_to_itself = match self.architecture {
            Some(Architecture::X86_64) => return moves_on_x86(code, true),
            Some(Architecture::I386) => return moves_on_x86(code, false),
            Some(Architecture::Arm | Architecture::ArmBig) => {
                word == Some(0xeaff_fffe) || code.starts_with(&[0xfe, 0xe7])
            }
            Some(Architecture::Aarch64) => word == Some(0x1400_0000),
            Some(Architecture::Riscv32 | Architecture::Riscv64) => {
                word == Some(0x0000_006f) || code.starts_with(&[0x01, 0xa0])
            }
            Some(
                Architecture::Mips
                | Architecture::MipsLittle
                | Architecture::Mips64
                | Architecture::Mips64Little,
            ) => word == Some(0x1000_ffff),
            Some(
                Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little,
            ) => word == Some(0x4800_0000),
            _ => false,
        };
        !is_to_itself
    }

    /// The form of addresses in trace frames.
    #[must_use]
    pub const fn address_form(&self) -> AddressForm {
        AddressForm::of_machine(self.architecture, self.program_counter.bits)
    }

    /// An address as the program counter has it.
    #[must_use]
    pub fn canonical(&self, address: Address) -> Address {
        match self.program_counter.bits {
            0..=32 => Address(address.0 & u64::from(u32::MAX)),
            _ => address,
        }
    }
}

/// The same for x86: jumps, loops, calls and returns may lead to themselves, and a string instruction makes a step for each element.
fn moves_on_x86(code: &[u8], is_64: bool) -> bool {
    let is_prefix = |byte: u8| {
        matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0)
            || is_64 && matches!(byte, 0x40..=0x4f)
    };
    let operation = code.iter().find(|byte| !is_prefix(**byte));
    !matches!(
        operation,
        Some(
            0x0f | 0x70..=0x7f
                | 0xc2
                | 0xc3
                | 0xca
                | 0xcb
                | 0xcf
                | 0xe0..=0xe3
                | 0xe8..=0xeb
                | 0xf2..=0xf4
                | 0xff
        ) | None
    )
}

/// The registers of a machine whose block has this many bytes.
fn standard(
    architecture: Architecture,
    block_size: usize,
) -> Result<(RegisterLayout, String), RemoteError> {
    let size = u32::try_from(block_size).unwrap_or(u32::MAX);
    StandardRegisters::fitting(architecture, size)
        .map(|set| (set.layout(), set.target_xml()))
        .ok_or(RemoteError::NoLayout {
            size: block_size,
            machine: architecture.name(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_that_says_nothing_leaves_the_standard_registers() {
        let block = 33 * 4;
        for nothing in ["<target/>", "<feature name='cpu'/>", "<other/>"] {
            let named = RemoteMachine::new(Some(nothing), Some(Architecture::Riscv32), block);
            let machine = named.expect("GDB has the registers of the machine, too");
            assert_eq!(machine.block().size(), 33 * 4);
            assert_eq!(machine.program_counter().name, "pc");
            let unknown = RemoteMachine::new(Some(nothing), None, block);
            assert!(matches!(unknown, Err(RemoteError::NoDescription)));
        }
        // A feature of GDB's names the machine.
        let feature =
            "<feature name='org.gnu.gdb.riscv.cpu'><reg name='zero' bitsize='32'/></feature>";
        let machine = RemoteMachine::new(Some(feature), None, block).expect("a machine");
        assert_eq!(machine.architecture(), Some(Architecture::Riscv32));
        assert!(machine.target_xml().starts_with("<?xml"));
        // What is wrong is refused.
        assert!(RemoteMachine::new(Some("<target"), Some(Architecture::Riscv32), block).is_err());
    }
}
