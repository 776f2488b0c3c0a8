//! Where a module keeps what was selected for GNU indirect functions: the slots that its relocations fill.

use std::collections::HashSet;

use object::elf::{
    FileHeader32, FileHeader64, R_386_32, R_386_GLOB_DAT, R_386_IRELATIVE, R_386_JMP_SLOT,
    R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT, RelocationType,
    SHF_ALLOC,
};
use object::read::elf::{ElfFile, FileHeader, Rel as _, Rela as _, SectionHeader as _, Sym as _};
use object::{Endianness, Object as _, ObjectSection as _};
use tracewire_arch::Architecture;

use super::image::Image;

/// A word that the dynamic linker, or a static program's start, writes; addresses are link-time ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) address: u64,
    /// The value in the file, which is in memory until the slot is filled, moved or not.
    pub(crate) initial: u64,
    pub(crate) what: SlotKind,
}

/// The purpose of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SlotKind {
    /// The selection of the resolver at this address.
    Selected(u64),
    /// The function of this name, of whichever module.
    Named(Box<str>),
}

/// The numbers of a machine's relocations.
struct Relocations {
    selected: RelocationType,
    named: [RelocationType; 3],
    /// The size of a slot.
    size: usize,
}

/// A relocation: its address, its type, its symbol and its addend, which otherwise is the value in place.
type Entry = (u64, RelocationType, u32, Option<u64>);

/// The slots of a module for the selections of its own functions, and for functions of these names.
pub(crate) fn slots(image: &Image, names: &HashSet<&str>) -> Vec<Slot> {
    let data = &*image.bytes;
    match image.architecture {
        Architecture::X86_64 => {
            let relocations = Relocations {
                selected: R_X86_64_IRELATIVE,
                named: [R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64],
                size: 8,
            };
            let file = ElfFile::<FileHeader64<Endianness>>::parse(data);
            file.map_or_else(
                |_| Vec::new(),
                |file| read(image, &file, &relocations, names),
            )
        }
        Architecture::I386 => {
            let relocations = Relocations {
                selected: R_386_IRELATIVE,
                named: [R_386_JMP_SLOT, R_386_GLOB_DAT, R_386_32],
                size: 4,
            };
            let file = ElfFile::<FileHeader32<Endianness>>::parse(data);
            file.map_or_else(
                |_| Vec::new(),
                |file| read(image, &file, &relocations, names),
            )
        }
        // No process of another machine is traced here.
        _ => Vec::new(),
    }
}

fn read<'data, Elf: FileHeader<Endian = Endianness>>(
    image: &Image,
    file: &ElfFile<'data, Elf>,
    relocations: &Relocations,
    names: &HashSet<&str>,
) -> Vec<Slot> {
    let (endian, data) = (file.endian(), file.data());
    let table = file.elf_section_table();
    let mut found = Vec::new();
    for section in table.iter() {
        if !section.sh_flags(endian).contains(SHF_ALLOC) {
            continue;
        }
        let (entries, link): (Vec<Entry>, _) =
            if let Ok(Some((entries, link))) = section.rela(endian, data) {
                let entry = |entry: &Elf::Rela| {
                    let addend: i64 = entry.r_addend(endian).into();
                    (
                        entry.r_offset(endian).into(),
                        entry.r_type(endian, false),
                        entry.r_sym(endian, false),
                        Some(addend.cast_unsigned()),
                    )
                };
                (entries.iter().map(entry).collect(), link)
            } else if let Ok(Some((entries, link))) = section.rel(endian, data) {
                let entry = |entry: &Elf::Rel| {
                    (
                        entry.r_offset(endian).into(),
                        entry.r_type(endian),
                        entry.r_sym(endian),
                        None,
                    )
                };
                (entries.iter().map(entry).collect(), link)
            } else {
                continue;
            };
        let symbols = table.symbol_table_by_index(endian, data, link).ok();
        let name = |index: u32| {
            let symbols = symbols.as_ref()?;
            let symbol = symbols.symbol(object::SymbolIndex(index as usize)).ok()?;
            std::str::from_utf8(symbol.name(endian, symbols.strings()).ok()?).ok()
        };
        for (address, kind, symbol, addend) in entries {
            let initial = || initial(image, address, relocations.size);
            if kind == relocations.selected {
                let initial = initial();
                found.push(Slot {
                    address,
                    initial,
                    what: SlotKind::Selected(addend.unwrap_or(initial)),
                });
            } else if relocations.named.contains(&kind)
                && let Some(name) = name(symbol).filter(|name| names.contains(name))
            {
                found.push(Slot {
                    address,
                    initial: initial(),
                    what: SlotKind::Named(name.into()),
                });
            }
        }
    }
    found
}

/// The value in the file for a slot.
fn initial(image: &Image, address: u64, size: usize) -> u64 {
    let mut bytes = [0; 8];
    if let Some(slot) = bytes.get_mut(..size)
        && !image.read_at(address, slot, false)
    {
        return 0;
    }
    u64::from_le_bytes(bytes)
}

/// The names that a library has only for programs that were linked with an older version of it, as `name` and link-time
/// address: `memcpy@GLIBC_2.2.5` beside `memcpy@@GLIBC_2.14`.
pub(crate) fn hidden_versions(image: &Image) -> HashSet<(Box<str>, u64)> {
    use object::ObjectSymbol as _;
    /// The bit of an entry of `.gnu.version`.
    const HIDDEN: u16 = 0x8000;
    let mut hidden = HashSet::new();
    let Ok(file) = object::File::parse(&*image.bytes) else {
        return hidden;
    };
    let versions = file
        .section_by_name(".gnu.version")
        .and_then(|section| section.data().ok());
    let version = |index: usize| {
        let entry = versions?.get(2 * index..2 * index + 2)?;
        Some(u16::from_le_bytes([entry[0], entry[1]]))
    };
    for symbol in file.dynamic_symbols() {
        if version(symbol.index().0).is_some_and(|version| version & HIDDEN != 0)
            && let Ok(name) = symbol.name()
        {
            hidden.insert((name.into(), symbol.address()));
        }
    }
    hidden
}
