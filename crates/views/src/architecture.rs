//! The machine that a trace file is of, by the name the command line has for it.

use std::path::PathBuf;

use tracewire_arch::{Architecture, RegisterLayout, StandardRegisters};
use tracewire_debuginfo::ModuleFile;
use tracewire_model::ByteOrder;
use tracewire_tracefile::TraceFile;

use crate::program::module_path;

/// A machine that a file cannot be of.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the trace file says that it is of {declared}; it cannot be read as one of {named}")]
pub struct OtherMachine {
    /// The machine in the file's target description.
    pub declared: Architecture,
    /// The machine that was named.
    pub named: Architecture,
}

/// Determines the machine of a file, and with it the layout of its register blocks. The first of these is used: the `named`
/// one, that of the file, that of the program (`elf` or the file's own modules), the only one with a register set of this size.
///
/// # Errors
/// When the file names another machine than the named one.
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
    if file.layout().is_some() || file.named_architecture().is_some() {
        return Ok(());
    }
    let modules = file.description().modules().iter().map(module_path);
    let files = elf.iter().cloned().chain(modules);
    let program = files.filter_map(|path| ModuleFile::read(&path).ok()).next();
    let machine = program.map(|program| program.architecture()).or_else(|| {
        // Without frames nothing gives the byte order.
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

/// Checks that a file may be of a machine. A description may leave the byte order open, and so may frames of a machine that has a
/// name for one order only.
///
/// # Errors
/// When the file names another machine, or its frames have another byte order than the name.
pub fn check_architecture(file: &TraceFile, named: Architecture) -> Result<(), OtherMachine> {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let declared: Vec<_> = match (file.named_architecture(), file.layout()) {
        // A name may leave the width of the registers open.
        (Some(name), _) => [false, true]
            .into_iter()
            .flat_map(|wide| orders.map(|order| Architecture::of_bfd_name(name, wide, order)))
            .collect(),
        (None, Some(layout)) => orders.map(|order| architecture(layout, order)).to_vec(),
        (None, None) => Vec::new(),
    };
    if let Some(Some(one)) = declared.first()
        && !declared.contains(&Some(named))
    {
        return Err(OtherMachine {
            declared: *one,
            named,
        });
    }
    let order = match file.byte_order() == named.byte_order() {
        true => None,
        false => file.byte_order_of_frames(),
    };
    match order.and_then(|order| named.in_order(order)) {
        Some(declared) if declared != named => Err(OtherMachine { declared, named }),
        _ => Ok(()),
    }
}

/// The machine, where the file or the layout set for it gives one of those that have a name.
#[must_use]
pub fn architecture_of(file: &TraceFile) -> Option<Architecture> {
    match file.layout() {
        Some(layout) => architecture(layout, file.byte_order()),
        None => Architecture::of_bfd_name(file.named_architecture()?, false, file.byte_order()),
    }
}

/// The machine's name: from the target description, which has BFD's names.
pub(crate) fn architecture_name(file: &TraceFile) -> Option<String> {
    let layout = file.layout().and_then(RegisterLayout::architecture);
    let bfd = file.named_architecture().or(layout)?;
    let known = architecture_of(file);
    Some(known.map_or_else(|| bfd.to_owned(), |known| known.name().to_owned()))
}

/// The machine of a layout; the byte order distinguishes the two orders of one machine.
fn architecture(layout: &RegisterLayout, order: ByteOrder) -> Option<Architecture> {
    let counter = layout.program_counter();
    let wide = counter.is_some_and(|register| register.bits == 64);
    Architecture::of_bfd_name(layout.architecture()?, wide, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every machine's own registers identify it.
    #[test]
    fn standard_registers() {
        for machine in Architecture::ALL {
            for set in StandardRegisters::all(*machine) {
                let declared = architecture(&set.layout(), machine.byte_order());
                assert_eq!(declared, Some(*machine), "{set:?}");
            }
        }
    }
}
