//! One file of the program: its ELF image and its debug information.

mod debug_file;
pub(crate) mod demangle;
mod elf_symbol;
mod image;
mod marker;

use std::cell::OnceCell;
use std::path::PathBuf;

use tracewire_tracefile::{Address, Architecture};

pub(crate) use elf_symbol::{ElfSymbol, ElfSymbolKind, ElfSymbols};
pub(crate) use image::{Image, Reader};
pub(crate) use marker::MarkerNote;

use crate::dwarf::DebugInformation;
use crate::unwind::FrameTables;

/// A module in a [`crate::Symbols`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub(crate) u32);

/// A part of a module that is loaded into memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it is in memory, bias added.
    pub address: Address,
    /// Its size in memory, in bytes.
    pub size: u64,
    /// Where its bytes are in the file.
    pub file_offset: u64,
    /// How many bytes the file has; the rest is zero.
    pub file_size: u64,
    /// Whether the program may write there.
    pub writable: bool,
    /// Whether it holds code.
    pub executable: bool,
}

/// What is known of a module.
#[derive(Clone, Debug)]
pub struct ModuleInfo {
    /// Which module.
    pub id: ModuleId,
    /// The file it was read from.
    pub path: PathBuf,
    /// What is added to the addresses of the file: 0 for a program linked to a fixed address.
    pub bias: u64,
    /// The first address and one past the last, bias added.
    pub range: (Address, Address),
    /// The parts that are loaded, by address.
    pub segments: Vec<Segment>,
    /// The build id, if the file has one.
    pub build_id: Option<Vec<u8>>,
    /// The machine.
    pub architecture: Architecture,
    /// The entry point, bias added.
    pub entry: Address,
    /// Whether the file may be loaded anywhere (a library or a position-independent program).
    pub relocatable: bool,
    /// The program interpreter (`PT_INTERP`), which a dynamically linked program has.
    pub interpreter: Option<PathBuf>,
    /// The file that the debug information came from, if it is not the module itself.
    pub debug_file: Option<PathBuf>,
    /// Whether there is DWARF debug information.
    pub has_debug_information: bool,
}

/// A module with everything read from it.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) info: ModuleInfo,
    pub(crate) image: Image,
    /// The file that has the debug information; the image itself if `None`.
    debug_image: Option<Image>,
    elf_symbols: OnceCell<ElfSymbols>,
    markers: OnceCell<Vec<MarkerNote>>,
    debug: OnceCell<DebugInformation>,
    frames: OnceCell<FrameTables>,
}

impl Module {
    pub(crate) fn new(id: ModuleId, image: Image, bias: u64) -> Self {
        let has_dwarf = |image: &Image| image.has_bytes(".debug_info");
        let debug_image = if has_dwarf(&image) {
            None
        } else {
            debug_file::find(&image)
        };
        let (low, high) = image.extent();
        let biased = |address: u64| Address(address.wrapping_add(bias));
        let info = ModuleInfo {
            id,
            path: image.path.clone(),
            bias,
            range: (biased(low), biased(high)),
            segments: image
                .segments
                .iter()
                .map(|segment| Segment {
                    address: biased(segment.address.0),
                    ..*segment
                })
                .collect(),
            build_id: image.build_id.clone(),
            architecture: image.architecture,
            entry: biased(image.entry),
            relocatable: image.relocatable,
            interpreter: image.interpreter.clone(),
            debug_file: debug_image.as_ref().map(|image| image.path.clone()),
            has_debug_information: has_dwarf(debug_image.as_ref().unwrap_or(&image)),
        };
        Self {
            info,
            image,
            debug_image,
            elf_symbols: OnceCell::new(),
            markers: OnceCell::new(),
            debug: OnceCell::new(),
            frames: OnceCell::new(),
        }
    }

    /// Whether an address in memory is in one of the module's segments.
    pub(crate) fn contains(&self, address: Address) -> bool {
        self.info.segments.iter().any(|segment| {
            address >= segment.address && address.0 - segment.address.0 < segment.size
        })
    }

    /// The link-time address of an address in memory.
    pub(crate) const fn unbiased(&self, address: Address) -> u64 {
        address.0.wrapping_sub(self.info.bias)
    }

    /// Where a link-time address is in memory.
    pub(crate) const fn biased(&self, address: u64) -> Address {
        let address = address.wrapping_add(self.info.bias);
        Address(if self.image.address_size() == 4 {
            address & 0xffff_ffff
        } else {
            address
        })
    }

    pub(crate) fn elf_symbols(&self) -> &ElfSymbols {
        self.elf_symbols
            .get_or_init(|| ElfSymbols::read(&self.image, self.debug_image.as_ref()))
    }

    pub(crate) fn elf_symbol_at(&self, address: u64) -> Option<&ElfSymbol> {
        self.elf_symbols().covering(&self.image, address)
    }

    pub(crate) fn markers(&self) -> &[MarkerNote] {
        self.markers.get_or_init(|| marker::read(&self.image))
    }

    pub(crate) fn debug(&self) -> &DebugInformation {
        self.debug.get_or_init(|| {
            let image = self.debug_image.as_ref().unwrap_or(&self.image);
            DebugInformation::new(image, debug_file::supplementary(image).as_ref())
        })
    }

    pub(crate) fn frames(&self) -> &FrameTables {
        self.frames
            .get_or_init(|| FrameTables::new(&self.image, self.debug_image.as_ref()))
    }
}
