//! One file of the program: its ELF image and its debug information.

mod debug_file;
pub(crate) mod demangle;
mod elf_symbol;
mod go;
mod id;
mod image;
pub(crate) mod indirect;
pub(crate) mod kept;
pub(crate) mod known_names;
mod marker;
mod mini_debug;
mod read_files;
mod sections;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tracewire_arch::Architecture;
use tracewire_model::Address;

pub use debug_file::DebugFileSource;
pub(crate) use elf_symbol::{ElfSymbol, ElfSymbolKind, ElfSymbols};
pub use id::ModuleId;
pub use image::Segment;
pub(crate) use image::{Image, Reader, code_address};
pub(crate) use kept::Cache;
use kept::{Content, Key};
use known_names::{Kind, KnownNames};
pub(crate) use marker::MarkerNote;
pub use read_files::ReadFiles;
pub(crate) use sections::Sections;

use crate::dwarf::DebugInformation;
use crate::dwarf::index::Name;
use crate::error::SymbolError;
use crate::unwind::FrameTables;

/// Facts about a module.
#[derive(Clone, Debug)]
pub struct ModuleInfo {
    /// Which module.
    pub id: ModuleId,
    /// The file it was read from.
    pub path: PathBuf,
    /// The difference between its addresses in memory and in the file: 0 for a program linked to a fixed address.
    pub bias: u64,
    /// The first address and one past the last, bias added.
    pub range: (Address, Address),
    /// The parts that are loaded, by address.
    pub segments: Vec<Segment>,
    /// The sections that are loaded and that the program does not write, bias added: the first address and one past the
    /// last. They may be in a segment that is writable.
    pub constant_sections: Vec<(Address, Address)>,
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

/// An ELF file with everything read from it, which is read once for all the modules that it is
/// ([`Symbols::add_file`](crate::Symbols::add_file)).
#[derive(Clone, Debug)]
pub struct ModuleFile(Arc<Contents>);

#[derive(Debug)]
struct Contents {
    image: Image,
    debug_image: OnceLock<Option<Image>>,
    elf_symbols: OnceLock<ElfSymbols>,
    hidden_versions: OnceLock<HashSet<(Box<str>, u64)>>,
    markers: OnceLock<Vec<MarkerNote>>,
    debug: OnceLock<DebugInformation>,
    frames: OnceLock<FrameTables>,
    /// Where debug information can be had that is not on this machine.
    debug_files: OnceLock<Arc<dyn DebugFileSource>>,
    /// Where what was read is kept.
    cache: OnceLock<Cache>,
    known_names: OnceLock<Option<KnownNames>>,
}

impl ModuleFile {
    /// Opens an ELF file.
    ///
    /// # Errors
    /// When it cannot be read or is not an ELF executable or library of a known machine.
    pub fn read(path: &Path) -> Result<Self, SymbolError> {
        Ok(Self::new(Image::read(path)?))
    }

    pub(crate) fn new(image: Image) -> Self {
        Self(Arc::new(Contents {
            image,
            debug_image: OnceLock::new(),
            elf_symbols: OnceLock::new(),
            hidden_versions: OnceLock::new(),
            markers: OnceLock::new(),
            debug: OnceLock::new(),
            frames: OnceLock::new(),
            debug_files: OnceLock::new(),
            cache: OnceLock::new(),
            known_names: OnceLock::new(),
        }))
    }

    /// A number that this file has as long as anybody has it, and no other one.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Keeps data read from a large file in the cache, and uses kept data.
    pub(crate) fn keep_in(&self, cache: &Cache) {
        self.0.cache.get_or_init(|| cache.clone());
    }

    /// Has debug information that is not on this machine come from a source. Nothing of the file may have been asked by then.
    pub fn take_debug_files_from(&self, source: &Arc<dyn DebugFileSource>) {
        self.0.debug_files.get_or_init(|| Arc::clone(source));
    }

    /// How the file is called.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.image.path
    }

    /// The same file under another name, such as the one by which it was found. Call it before anything is read.
    #[must_use]
    pub fn called(self, path: PathBuf) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(mut contents) => {
                contents.image.path = path;
                Self(Arc::new(contents))
            }
            Err(shared) => Self(shared),
        }
    }

    /// The build id, if the file has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.0.image.build_id.as_deref()
    }

    /// The machine.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.0.image.architecture
    }

    /// Whether the file may be loaded anywhere (a library or a position-independent program).
    #[must_use]
    pub fn is_relocatable(&self) -> bool {
        self.0.image.relocatable
    }

    /// The first address of code and data in the file.
    #[must_use]
    pub fn first_address(&self) -> u64 {
        self.0.image.extent().0
    }

    /// The debug information that the file refers to and that cannot be read; one line for the user, `None` if all can be. Only
    /// files that may have some elsewhere are examined.
    #[must_use]
    pub fn unread_debug_information(&self) -> Option<String> {
        let image = self.0.debug_image().unwrap_or(&self.0.image);
        let mut unread: Vec<String> =
            debug_file::missing_supplementary(image, self.0.other_debug_files())
                .into_iter()
                .collect();
        // The addresses that split units refer to are in a separate section.
        if image.has_bytes(".debug_addr") {
            unread.extend_from_slice(self.0.debug().unread_files());
        }
        let others = match unread.len() {
            0 => return None,
            1 => String::new(),
            2 => " and another file".to_owned(),
            count => format!(" and {} more files", count - 1),
        };
        Some(format!(
            "{}: cannot read the debug information in {}{others}; variables and types that are there are not known",
            self.path().display(),
            unread.first()?
        ))
    }
}

impl Contents {
    fn other_debug_files(&self) -> Option<&dyn DebugFileSource> {
        self.debug_files.get().map(|source| &**source)
    }

    /// The file that has the debug information; the image itself if `None`.
    fn debug_image(&self) -> Option<&Image> {
        let found = self.debug_image.get_or_init(|| {
            let is_apart = !has_dwarf(&self.image);
            is_apart
                .then(|| debug_file::find(&self.image, self.other_debug_files()))
                .flatten()
        });
        found.as_ref()
    }

    /// Where something of the debug information is kept; none where it does not pay.
    fn key(&self, content: Content) -> Option<Key> {
        let debug = self.debug_image();
        let with_dwarf = debug.unwrap_or(&self.image);
        let size = with_dwarf.section(".debug_info")?.size;
        // Larger files are not read only for names.
        if with_dwarf.bytes.len() as u64 <= SMALLEST || content == Content::Names && size > LARGEST
        {
            return None;
        }
        Key::new(self.cache.get()?, content, &self.image, debug)
    }

    /// The names of the debug information, where they are kept.
    fn known_names(&self) -> Option<&KnownNames> {
        let known = self.known_names.get_or_init(|| {
            let key = self.key(Content::Names)?;
            KnownNames::load(&key).or_else(|| {
                let known = KnownNames::read(self.debug())?;
                known.store(&key);
                Some(known)
            })
        });
        known.as_ref()
    }

    fn debug(&self) -> &DebugInformation {
        self.debug.get_or_init(|| {
            let image = self.debug_image().unwrap_or(&self.image);
            let sections = (image.has_compressed_dwarf())
                .then(|| Sections::get(image, &self.key(Content::Sections)?))
                .flatten();
            let files = [Some(&self.image), self.debug_image()];
            let files = files.into_iter().flatten().map(|image| image.path.clone());
            DebugInformation::new(
                image,
                sections.as_ref(),
                debug_file::supplementary(image, self.other_debug_files()).as_ref(),
                files.collect(),
                self.key(Content::Index),
            )
        })
    }
}

/// Less debug information is read in the time that looking for a file takes, in bytes as it is stored.
const SMALLEST: u64 = if cfg!(fuzzing) { 0 } else { 256 << 10 };

/// More debug information is not read unasked, in bytes of `.debug_info` when decompressed.
const LARGEST: u64 = 256 << 20;

fn has_dwarf(image: &Image) -> bool {
    image.has_bytes(".debug_info")
}

/// A file, somewhere in the program's memory.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) info: ModuleInfo,
    file: ModuleFile,
}

impl Module {
    pub(crate) fn new(id: ModuleId, file: ModuleFile, bias: u64) -> Self {
        let (image, debug_image) = (&file.0.image, file.0.debug_image());
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
            constant_sections: image
                .sections
                .iter()
                .filter(|section| section.allocated && !section.writable && section.size > 0)
                .map(|section| {
                    let end = section.address.saturating_add(section.size);
                    (biased(section.address), biased(end))
                })
                .collect(),
            build_id: image.build_id.clone(),
            architecture: image.architecture,
            entry: biased(image.entry),
            relocatable: image.relocatable,
            interpreter: image.interpreter.clone(),
            debug_file: debug_image.map(|image| image.path.clone()),
            has_debug_information: has_dwarf(debug_image.unwrap_or(image)),
        };
        Self { info, file }
    }

    pub(crate) fn image(&self) -> &Image {
        &self.file.0.image
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
    pub(crate) fn biased(&self, address: u64) -> Address {
        let address = address.wrapping_add(self.info.bias);
        Address(if self.image().address_size() == 4 {
            address & 0xffff_ffff
        } else {
            address
        })
    }

    pub(crate) fn elf_symbols(&self) -> &ElfSymbols {
        let file = &*self.file.0;
        file.elf_symbols
            .get_or_init(|| ElfSymbols::get(&file.image, file.debug_image(), file.cache.get()))
    }

    pub(crate) fn elf_symbol_at(&self, address: u64) -> Option<ElfSymbol<'_>> {
        self.elf_symbols().covering(self.image(), address)
    }

    /// The indirect functions of a name: those of its newest version where there are several.
    pub(crate) fn indirect_functions(&self, name: &str) -> Vec<ElfSymbol<'_>> {
        let found: Vec<ElfSymbol<'_>> = self
            .elf_symbols()
            .named(name)
            .filter(|symbol| symbol.kind == ElfSymbolKind::IndirectFunction)
            .collect();
        if found.len() < 2 {
            return found;
        }
        let file = &*self.file.0;
        let hidden = file
            .hidden_versions
            .get_or_init(|| indirect::hidden_versions(&file.image));
        let newest =
            |symbol: &&ElfSymbol<'_>| !hidden.contains(&(symbol.name.into(), symbol.address));
        let newest: Vec<ElfSymbol<'_>> = found.iter().filter(newest).copied().collect();
        if newest.is_empty() { found } else { newest }
    }

    /// The slots for the selections of its own functions, and for functions of these names.
    pub(crate) fn indirect_slots(&self, names: &HashSet<&str>) -> Vec<indirect::Slot> {
        indirect::slots(self.image(), names)
    }

    /// Whether there is code at an address in memory.
    pub(crate) fn has_code(&self, address: Address) -> bool {
        self.info.segments.iter().any(|segment| {
            segment.executable
                && address >= segment.address
                && address.0 - segment.address.0 < segment.size
        })
    }

    pub(crate) fn markers(&self) -> &[MarkerNote] {
        let file = &*self.file.0;
        file.markers.get_or_init(|| marker::read(&file.image))
    }

    pub(crate) fn debug(&self) -> &DebugInformation {
        self.file.0.debug()
    }

    /// The entries whose last component without template arguments is `plain_name`, in the order of the file. The debug information of
    /// a module is not read for a name that it is known not to have.
    pub(crate) fn named(&self, plain_name: &str) -> Vec<Name> {
        if self.may_have(Kind::Entry, plain_name) {
            self.debug().named(plain_name)
        } else {
            Vec::new()
        }
    }

    /// Whether the debug information may have a name. Never wrongly `false`.
    pub(crate) fn may_have(&self, kind: Kind, name: &str) -> bool {
        let file = &*self.file.0;
        // Debug information that is already read is used itself.
        let known = if file.debug.get().is_some() {
            file.known_names.get().and_then(Option::as_ref)
        } else {
            file.known_names()
        };
        known.is_none_or(|known| known.may_have(kind, name))
    }

    pub(crate) fn file(&self) -> &ModuleFile {
        &self.file
    }

    pub(crate) fn frames(&self) -> &FrameTables {
        let file = &*self.file.0;
        file.frames
            .get_or_init(|| FrameTables::new(&file.image, file.debug_image()))
    }
}
