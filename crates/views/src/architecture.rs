//! The machine that a trace file is of, by the name the command line has for it.

use tracewire_tracefile::{Architecture, ByteOrder, TraceFile};

/// The machine's name: from the target description, which has BFD's names.
pub(crate) fn architecture_name(file: &TraceFile) -> Option<String> {
    let bfd = file.layout()?.architecture()?;
    let known = architecture(bfd, file.byte_order());
    Some(known.map_or_else(|| bfd.to_owned(), |known| known.name().to_owned()))
}

/// The machine of one of BFD's names; the byte order tells the two orders of one machine apart.
fn architecture(bfd: &str, order: ByteOrder) -> Option<Architecture> {
    use Architecture as A;
    let (family, variant) = bfd.split_once(':').unwrap_or((bfd, ""));
    let little = order == ByteOrder::Little;
    Some(match (family, variant) {
        ("i386", variant) if variant.starts_with("x86-64") => A::X86_64,
        ("i386", _) => A::I386,
        ("aarch64", _) => A::Aarch64,
        (family, _) if family.starts_with("arm") || family == "iwmmxt" => match little {
            true => A::Arm,
            false => A::ArmBig,
        },
        ("mips", variant) => {
            let wide = matches!(
                variant,
                "4000" | "4300" | "5000" | "8000" | "10000" | "octeon"
            ) || variant.starts_with("isa64")
                || variant.starts_with("octeon");
            match (wide, little) {
                (false, false) => A::Mips,
                (false, true) => A::MipsLittle,
                (true, false) => A::Mips64,
                (true, true) => A::Mips64Little,
            }
        }
        ("riscv", "rv32") => A::Riscv32,
        ("riscv", _) => A::Riscv64,
        ("powerpc", "common64") => match little {
            true => A::PowerPc64Little,
            false => A::PowerPc64,
        },
        ("powerpc" | "rs6000", _) => A::PowerPc,
        ("nios2", _) => A::Nios2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfd_names() {
        let named = |bfd, order| architecture(bfd, order).map(Architecture::name);
        assert_eq!(named("i386:x86-64", ByteOrder::Little), Some("x86_64"));
        assert_eq!(named("i386", ByteOrder::Little), Some("i386"));
        assert_eq!(named("arm", ByteOrder::Big), Some("armeb"));
        assert_eq!(named("mips:isa64r2", ByteOrder::Little), Some("mips64el"));
        assert_eq!(named("powerpc:common", ByteOrder::Big), Some("ppc"));
        assert_eq!(named("z80", ByteOrder::Little), None);
    }
}
