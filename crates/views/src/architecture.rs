//! The machine that a trace file is of, by the name the command line has for it.

use std::path::PathBuf;

use tracewire_symbols::ModuleFile;
use tracewire_tracefile::{Architecture, ByteOrder, RegisterLayout, StandardRegisters, TraceFile};

use crate::program::module_path;

/// A machine that a file cannot be of.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the trace file tells that it is of {told}; it cannot be read as one of {named}")]
pub struct OtherMachine {
    /// What the file's target description says.
    pub told: Architecture,
    /// What was said.
    pub named: Architecture,
}

/// Settles which machine a file is of, and with it the layout of its register blocks: the `named` one, else what the
/// file itself tells, else what the program does (`elf`, else the file's own modules), else the only machine that has
/// a register set of this size.
///
/// # Errors
/// When the file tells that it is of another machine than the named one.
pub fn settle_architecture(
    file: &mut TraceFile,
    named: Option<Architecture>,
    elf: &[PathBuf],
) -> Result<(), OtherMachine> {
    if let Some(named) = named {
        check_architecture(file, named)?;
        file.set_architecture(named);
        return Ok(());
    }
    if file.layout().is_some() {
        return Ok(());
    }
    let modules = file.description().modules().iter().map(module_path);
    let files = elf.iter().cloned().chain(modules);
    let program = files.filter_map(|path| ModuleFile::read(&path).ok()).next();
    let machine = program.map(|program| program.architecture()).or_else(|| {
        // Without frames nothing tells the byte order.
        let size = file
            .register_block_size()
            .filter(|_| file.frame_count() > 0)?;
        Some(StandardRegisters::only_of_size(file.byte_order(), size)?.architecture())
    });
    if let Some(machine) = machine {
        file.set_architecture(machine);
    }
    Ok(())
}

/// Makes sure that a file may be of a machine. A description that leaves the byte order open may be of either.
///
/// # Errors
/// When the file tells that it is of another machine.
pub fn check_architecture(file: &TraceFile, named: Architecture) -> Result<(), OtherMachine> {
    let Some(layout) = file.layout() else {
        return Ok(());
    };
    let told = [ByteOrder::Little, ByteOrder::Big].map(|order| architecture(layout, order));
    match told[0] {
        Some(one) if !told.contains(&Some(named)) => Err(OtherMachine { told: one, named }),
        _ => Ok(()),
    }
}

/// The machine, where the file or the layout set for it tells one of those that have a name.
#[must_use]
pub fn architecture_of(file: &TraceFile) -> Option<Architecture> {
    architecture(file.layout()?, file.byte_order())
}

/// The machine's name: from the target description, which has BFD's names.
pub(crate) fn architecture_name(file: &TraceFile) -> Option<String> {
    let bfd = file.layout()?.architecture()?;
    let known = architecture_of(file);
    Some(known.map_or_else(|| bfd.to_owned(), |known| known.name().to_owned()))
}

/// The machine of a layout; the byte order tells the two orders of one machine apart.
fn architecture(layout: &RegisterLayout, order: ByteOrder) -> Option<Architecture> {
    let counter = layout.program_counter();
    let wide = counter.is_some_and(|register| register.bits == 64);
    of_name(layout.architecture()?, wide, order)
}

/// The machine of one of BFD's names. That of MIPS may leave open how `wide` the registers are.
fn of_name(bfd: &str, wide: bool, order: ByteOrder) -> Option<Architecture> {
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
            let wide = wide
                || matches!(variant, "4000" | "4300" | "5000" | "8000" | "10000")
                || variant.starts_with("isa64")
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

    /// Every machine's own registers tell which it is.
    #[test]
    fn standard_registers() {
        for machine in Architecture::ALL {
            for set in StandardRegisters::all(*machine) {
                let told = architecture(&set.layout(), machine.byte_order());
                assert_eq!(told, Some(*machine), "{set:?}");
            }
        }
    }
}
