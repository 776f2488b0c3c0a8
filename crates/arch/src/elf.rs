//! The machine that an ELF file is for.

use crate::architecture::Architecture;
use tracewire_model::ByteOrder;

/// The machine that an ELF file is for, known from its header (System V ABI, ELF Header); none where it is no ELF file
/// or for a machine without a table, or with one for the other byte order only.
#[must_use]
pub fn of_elf(file: &[u8]) -> Option<Architecture> {
    let [0x7f, b'E', b'L', b'F', class, data, ..] = file else {
        return None;
    };
    let order = match data {
        1 => ByteOrder::Little,
        2 => ByteOrder::Big,
        _ => return None,
    };
    let machine = order.unsigned(file.get(18..20)?)?;
    let is_wide = *class == 2;
    let is_little = order == ByteOrder::Little;
    Some(match (machine, is_wide, is_little) {
        (62, ..) => Architecture::X86_64,
        (3, ..) => Architecture::I386,
        (40, _, true) => Architecture::Arm,
        (40, _, false) => Architecture::ArmBig,
        (183, _, true) => Architecture::Aarch64,
        (8, false, false) => Architecture::Mips,
        (8, false, true) => Architecture::MipsLittle,
        (8, true, false) => Architecture::Mips64,
        (8, true, true) => Architecture::Mips64Little,
        (243, false, true) => Architecture::Riscv32,
        (243, true, true) => Architecture::Riscv64,
        (20, _, false) => Architecture::PowerPc,
        (21, _, false) => Architecture::PowerPc64,
        (21, _, true) => Architecture::PowerPc64Little,
        (113, ..) => Architecture::Nios2,
        _ => return None,
    })
}
