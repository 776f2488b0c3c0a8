//! BFD's names for machines, which the `architecture` element of a target description has.

use super::standard::StandardRegisters;
use super::x86::Width;
use crate::architecture::Architecture;
use tracewire_model::ByteOrder;

/// BFD's name for a machine.
pub(super) const fn bfd_name(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => Width::Bits64.architecture(),
        Architecture::I386 => Width::Bits32.architecture(),
        Architecture::Arm | Architecture::ArmBig => "arm",
        Architecture::Aarch64 => "aarch64",
        Architecture::Mips | Architecture::MipsLittle => "mips",
        Architecture::Mips64 | Architecture::Mips64Little => "mips:isa64",
        Architecture::Riscv32 => "riscv:rv32",
        Architecture::Riscv64 => "riscv:rv64",
        Architecture::PowerPc => "powerpc:common",
        Architecture::PowerPc64 | Architecture::PowerPc64Little => "powerpc:common64",
        Architecture::Nios2 => "nios2",
    }
}

impl Architecture {
    /// The machine of one of BFD's names, where it is one of those that have a name here. That of MIPS may leave open how
    /// `wide` the registers are; most leave open the byte order.
    #[must_use]
    pub fn of_bfd_name(bfd: &str, wide: bool, order: ByteOrder) -> Option<Self> {
        let (family, variant) = bfd.split_once(':').unwrap_or((bfd, ""));
        let little = order == ByteOrder::Little;
        Some(match (family, variant) {
            ("i386", variant) if variant.starts_with("x86-64") => Self::X86_64,
            ("i386", _) => Self::I386,
            ("aarch64", _) => Self::Aarch64,
            (family, _) if family.starts_with("arm") || family == "iwmmxt" => match little {
                true => Self::Arm,
                false => Self::ArmBig,
            },
            ("mips", variant) => {
                let wide = wide
                    || matches!(variant, "4000" | "4300" | "5000" | "8000" | "10000")
                    || variant.starts_with("isa64")
                    || variant.starts_with("octeon");
                match (wide, little) {
                    (false, false) => Self::Mips,
                    (false, true) => Self::MipsLittle,
                    (true, false) => Self::Mips64,
                    (true, true) => Self::Mips64Little,
                }
            }
            ("riscv", "rv32") => Self::Riscv32,
            ("riscv", _) => Self::Riscv64,
            ("powerpc", "common64") => match little {
                true => Self::PowerPc64Little,
                false => Self::PowerPc64,
            },
            ("powerpc" | "rs6000", _) => Self::PowerPc,
            ("nios2", _) => Self::Nios2,
            _ => return None,
        })
    }
}

impl StandardRegisters {
    /// The set for register blocks of this many bytes of the machine that BFD names so, as [`Self::fitting`] finds it.
    #[must_use]
    pub fn named(bfd: &str, order: ByteOrder, size: u32) -> Option<Self> {
        let narrow = Architecture::of_bfd_name(bfd, false, order)?;
        let wide = Architecture::of_bfd_name(bfd, true, order)?;
        Self::of_size(narrow, size)
            .or_else(|| Self::of_size(wide, size))
            .or_else(|| Self::fitting(narrow, size))
    }
}

/// The byte order of the machine that BFD names so, where it has only one.
#[must_use]
pub fn bfd_byte_order(bfd: &str) -> Option<ByteOrder> {
    ["i386", "riscv", "s390", "m68k", "sparc:v9", "hppa"]
        .iter()
        .any(|prefix| bfd.starts_with(prefix))
        .then(|| likely_byte_order(bfd))
}

/// The most likely byte order, for files whose frames do not show it.
#[must_use]
pub fn likely_byte_order(bfd: &str) -> ByteOrder {
    let little = ["powerpc:common64le", "powerpc64le"];
    let big = ["mips", "powerpc", "rs6000", "s390", "m68k", "sparc", "hppa"];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| bfd.starts_with(prefix));
    if starts(&big) && !starts(&little) {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfd_names() {
        let of_name = Architecture::of_bfd_name;
        let named = |bfd, order| of_name(bfd, false, order).map(Architecture::name);
        assert_eq!(named("i386:x86-64", ByteOrder::Little), Some("x86_64"));
        assert_eq!(named("i386", ByteOrder::Little), Some("i386"));
        assert_eq!(named("arm", ByteOrder::Big), Some("armeb"));
        assert_eq!(named("mips:isa64r2", ByteOrder::Little), Some("mips64el"));
        assert_eq!(named("powerpc:common", ByteOrder::Big), Some("ppc"));
        assert_eq!(named("z80", ByteOrder::Little), None);
        assert_eq!(
            of_name("mips", true, ByteOrder::Big),
            Some(Architecture::Mips64)
        );
    }

    /// The name and the size are enough for every register set of every machine.
    #[test]
    fn a_name_and_a_size_give_the_registers() {
        for machine in Architecture::ALL {
            for set in StandardRegisters::all(*machine) {
                let found =
                    StandardRegisters::named(bfd_name(*machine), machine.byte_order(), set.size());
                let found = found.map(|found| found.layout().registers().to_vec());
                assert_eq!(found.as_deref(), Some(set.layout().registers()), "{set:?}");
            }
        }
    }
}
