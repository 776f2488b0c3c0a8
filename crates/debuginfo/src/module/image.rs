//! The bytes of an ELF file and what its headers say.

use std::path::{Path, PathBuf};

use gimli::{EndianReader, RunTimeEndian};
use object::elf::{PF_W, PF_X, PT_INTERP, PT_LOAD, PT_TLS};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{CompressionFormat, Object, ObjectKind, ObjectSection};
use tracewire_arch::Architecture;
use tracewire_mapped_file::SharedBytes;
use tracewire_model::Address;

use crate::error::SymbolError;

/// The reader of everything: a slice of the file, or of a section that was compressed in it.
pub(crate) type Reader = EndianReader<RunTimeEndian, SharedBytes>;

/// The largest section that is decompressed.
const LARGEST_SECTION: u64 = 4 << 30;

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

/// An ELF file. It is mapped, since most of it is never read. Parts that are lost when a program is rebuilt during a trace read as
/// zeros.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) bytes: SharedBytes,
    pub(crate) endian: RunTimeEndian,
    pub(crate) architecture: Architecture,
    pub(crate) relocatable: bool,
    pub(crate) entry: u64,
    pub(crate) interpreter: Option<PathBuf>,
    pub(crate) build_id: Option<Vec<u8>>,
    /// Loaded segments, by link-time address.
    pub(crate) segments: Vec<Segment>,
    /// The thread-local segment: size in memory, alignment.
    pub(crate) thread_local: Option<(u64, u64)>,
    pub(crate) sections: Vec<Section>,
}

/// A section of the file.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Where its bytes are; `None` if it has none (`.bss`, or stripped into another file).
    range: Option<(usize, usize)>,
    compression: Compression,
    /// Whether it is loaded.
    pub(crate) allocated: bool,
    /// Whether it holds code.
    pub(crate) executable: bool,
    pub(crate) writable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compression {
    None,
    Some(CompressionFormat, u64),
}

/// The purpose of reading a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contents {
    Program,
    DebugInformation,
}

impl Image {
    /// Reads a regular file.
    pub(crate) fn read(path: &Path) -> Result<Self, SymbolError> {
        Self::read_as(path, Contents::Program)
    }

    fn read_as(path: &Path, contents: Contents) -> Result<Self, SymbolError> {
        let cannot_read = |reason| SymbolError::Read {
            path: path.to_owned(),
            reason,
        };
        let metadata = std::fs::metadata(path).map_err(cannot_read)?;
        if !metadata.is_file() {
            return Err(SymbolError::NotUsable {
                path: path.to_owned(),
                reason: "not a regular file".to_owned(),
            });
        }
        let file = std::fs::File::open(path).map_err(cannot_read)?;
        let bytes = SharedBytes::of_file(file, path).map_err(cannot_read)?;
        Self::parse_as(path, bytes, contents)
    }

    /// Reads a file that has debug information only: one for several programs, or of split units. It may be one that was
    /// not linked.
    pub(crate) fn read_debug(path: &Path) -> Result<Self, SymbolError> {
        Self::read_as(path, Contents::DebugInformation)
    }

    pub(crate) fn parse(path: &Path, bytes: SharedBytes) -> Result<Self, SymbolError> {
        Self::parse_as(path, bytes, Contents::Program)
    }

    fn parse_as(path: &Path, bytes: SharedBytes, contents: Contents) -> Result<Self, SymbolError> {
        let unusable = |reason: String| SymbolError::NotUsable {
            path: path.to_owned(),
            reason,
        };
        let data: &[u8] = &bytes;
        if !data.starts_with(b"\x7fELF") {
            return Err(unusable("not an ELF file".to_owned()));
        }
        let file = object::File::parse(data).map_err(|error| unusable(error.to_string()))?;
        let architecture = tracewire_arch::of_elf(data)
            .filter(|machine| (machine.pointer_size() == 8) == file.is_64())
            .ok_or_else(|| {
                let order = if file.is_little_endian() {
                    "little-endian"
                } else {
                    "big-endian"
                };
                unusable(format!(
                    "programs for {order} {:?} are not known",
                    file.architecture()
                ))
            })?;
        let relocatable = match file.kind() {
            ObjectKind::Executable => false,
            ObjectKind::Dynamic => true,
            ObjectKind::Relocatable if contents == Contents::DebugInformation => true,
            ObjectKind::Relocatable => {
                return Err(unusable("an object file that was not linked".to_owned()));
            }
            ObjectKind::Core => return Err(unusable("a core dump, not a program".to_owned())),
            _ => return Err(unusable("neither a program nor a library".to_owned())),
        };
        let programs = match &file {
            object::File::Elf32(elf) => program_headers(elf.elf_header(), data),
            object::File::Elf64(elf) => program_headers(elf.elf_header(), data),
            _ => return Err(unusable("not an ELF file".to_owned())),
        };
        Ok(Self {
            path: path.to_owned(),
            endian: if file.is_little_endian() {
                RunTimeEndian::Little
            } else {
                RunTimeEndian::Big
            },
            architecture,
            relocatable,
            entry: code_address(architecture, file.entry()),
            interpreter: programs.interpreter,
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            segments: programs.segments,
            thread_local: programs.thread_local,
            sections: sections(&file),
            bytes: bytes.clone(),
        })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Whether a section of that name has bytes.
    pub(crate) fn has_bytes(&self, name: &str) -> bool {
        self.stored(name).is_some()
    }

    /// A section that has bytes in the file.
    fn stored(&self, name: &str) -> Option<(&Section, std::ops::Range<usize>)> {
        // `.zdebug_…` is the older way to say that a section is compressed.
        let section = self.section(name).or_else(|| {
            let rest = name.strip_prefix(".debug_")?;
            self.section(&format!(".zdebug_{rest}"))
        })?;
        let (start, length) = section.range?;
        let range = start..start.checked_add(length)?;
        self.bytes.get(range.clone())?;
        Some((section, range))
    }

    /// The bytes of a section, decompressed if need be; none for one that is missing or damaged.
    pub(crate) fn section_reader(&self, name: &str) -> Option<Reader> {
        let (section, range) = self.stored(name)?;
        self.content(section, range)
    }

    /// The bytes of all sections of a name, one after the other: a file that was not linked has one for each type unit
    /// beside that of the unit itself.
    pub(crate) fn sections_reader(&self, name: &str) -> Option<Reader> {
        let mut named = self.sections.iter().filter(|section| section.name == name);
        if named.by_ref().nth(1).is_none() {
            return self.section_reader(name);
        }
        let mut joined = Vec::new();
        for section in self.sections.iter().filter(|section| section.name == name) {
            let (start, length) = section.range?;
            let part = self.content(section, start..start.checked_add(length)?)?;
            let part = gimli::Reader::to_slice(&part).ok()?;
            if joined.len() as u64 + part.len() as u64 > LARGEST_SECTION {
                return None;
            }
            joined.extend_from_slice(&part);
        }
        Some(Reader::new(joined.into(), self.endian))
    }

    /// Whether debug information is compressed.
    pub(crate) fn has_compressed_dwarf(&self) -> bool {
        let stored = self.stored(".debug_info");
        stored.is_some_and(|(section, _)| section.compression != Compression::None)
    }

    fn content(&self, section: &Section, range: std::ops::Range<usize>) -> Option<Reader> {
        let data = self.bytes.get(range.clone())?;
        match section.compression {
            Compression::None => Some(Reader::new(self.bytes.clone(), self.endian).range(range)),
            Compression::Some(format, uncompressed_size) => {
                if uncompressed_size > LARGEST_SECTION {
                    return None;
                }
                let data = object::CompressedData {
                    format,
                    data,
                    uncompressed_size,
                };
                let data = data.decompress().ok()?;
                Some(Reader::new(data.into_owned().into(), self.endian))
            }
        }
    }

    /// An empty section.
    pub(crate) fn empty_reader(&self) -> Reader {
        Reader::new(Vec::new().into(), self.endian)
    }

    /// Copies bytes of the file as they are loaded at a link-time address; only from segments that are not
    /// writable if `read_only`.
    pub(crate) fn read_at(&self, address: u64, bytes: &mut [u8], read_only: bool) -> bool {
        self.bytes_at(address, bytes.len(), read_only)
            .is_some_and(|found| {
                bytes.copy_from_slice(found);
                true
            })
    }

    /// As [`read_at`](Self::read_at), without the copy.
    pub(crate) fn bytes_at(&self, address: u64, length: usize, read_only: bool) -> Option<&[u8]> {
        self.segments
            .iter()
            .filter(|segment| !(read_only && segment.writable))
            .find_map(|segment| {
                let skip = address.checked_sub(segment.address.0)?;
                if skip.checked_add(length as u64)? > segment.file_size {
                    return None;
                }
                let start = usize::try_from(segment.file_offset.checked_add(skip)?).ok()?;
                self.bytes.get(start..start.checked_add(length)?)
            })
    }

    /// The first link-time address and one past the last.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let low = self.segments.iter().map(|segment| segment.address.0).min();
        let high = self
            .segments
            .iter()
            .map(|segment| segment.address.0.saturating_add(segment.size))
            .max();
        (low.unwrap_or(0), high.unwrap_or(0))
    }

    pub(crate) const fn address_size(&self) -> u8 {
        self.architecture.pointer_size()
    }
}

struct ProgramHeaders {
    segments: Vec<Segment>,
    thread_local: Option<(u64, u64)>,
    interpreter: Option<PathBuf>,
}

fn program_headers<Elf: FileHeader>(header: &Elf, data: &[u8]) -> ProgramHeaders {
    let mut found = ProgramHeaders {
        segments: Vec::new(),
        thread_local: None,
        interpreter: None,
    };
    let Ok(endian) = header.endian() else {
        return found;
    };
    for program in header.program_headers(endian, data).unwrap_or(&[]) {
        match program.p_type(endian) {
            PT_LOAD => {
                let flags = program.p_flags(endian);
                found.segments.push(Segment {
                    address: Address(program.p_vaddr(endian).into()),
                    size: program.p_memsz(endian).into(),
                    file_offset: program.p_offset(endian).into(),
                    file_size: program.p_filesz(endian).into(),
                    writable: flags.0 & PF_W.0 != 0,
                    executable: flags.0 & PF_X.0 != 0,
                });
            }
            PT_TLS => {
                found.thread_local = Some((
                    program.p_memsz(endian).into(),
                    program.p_align(endian).into(),
                ));
            }
            PT_INTERP => {
                found.interpreter = program
                    .interpreter(endian, data)
                    .ok()
                    .flatten()
                    .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()));
            }
            _ => {}
        }
    }
    found.segments.sort_by_key(|segment| segment.address);
    found
}

fn sections(file: &object::File<'_>) -> Vec<Section> {
    file.sections()
        .map(|section| {
            let (range, compression) = match section.compressed_file_range() {
                Ok(range) => {
                    let bytes = usize::try_from(range.offset)
                        .ok()
                        .zip(usize::try_from(range.compressed_size).ok());
                    let compression = match range.format {
                        CompressionFormat::None => Compression::None,
                        format => Compression::Some(format, range.uncompressed_size),
                    };
                    (
                        bytes.filter(|_| section.file_range().is_some()),
                        compression,
                    )
                }
                Err(_) => (None, Compression::None),
            };
            let flags = match section.flags() {
                object::SectionFlags::Elf { sh_flags, .. } => sh_flags.0,
                _ => 0,
            };
            Section {
                name: section.name().unwrap_or("").to_owned(),
                address: section.address(),
                size: section.size(),
                range,
                compression,
                allocated: flags & object::elf::SHF_ALLOC.0 != 0,
                executable: flags & object::elf::SHF_EXECINSTR.0 != 0,
                writable: flags & object::elf::SHF_WRITE.0 != 0,
            }
        })
        .collect()
}

/// The address of a function's code, from a symbol or a pointer: on Arm and MIPS bit 0 selects the instruction set (Thumb, MIPS16
/// or microMIPS), and is not part of the address.
pub(crate) const fn code_address(architecture: Architecture, address: u64) -> u64 {
    match architecture {
        Architecture::Arm
        | Architecture::ArmBig
        | Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => address & !1,
        _ => address,
    }
}
