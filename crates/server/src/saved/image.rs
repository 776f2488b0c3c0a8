//! The program and its shared libraries: their read-only contents, and their addresses for GDB.

use std::ops::Range;
use std::path::{Path, PathBuf};

use object::elf::{ET_EXEC, PF_W, PT_DYNAMIC, PT_LOAD, PT_PHDR};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, SymbolKind};
use tracewire_arch::Architecture;
use tracewire_model::{Address, ByteOrder, Tracepoint};
use tracewire_tracefile::Module;

/// The largest file that is read.
const LARGEST: u64 = 4 << 30;

/// Why a program cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be read.
    #[error("{path}: {reason}", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// It is larger than anyone's program.
    #[error("{path}: {size} bytes are too many for a program", path = .path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// It is no ELF file that can be run.
    #[error("{path}: {reason}", path = .path.display())]
    NotElf {
        /// Which.
        path: PathBuf,
        /// The reason why it is invalid.
        reason: String,
    },
    /// It is another one than the one that was traced.
    #[error("{path}: its build id is {found}, that of the traced program was {expected}", path = .path.display())]
    OtherBuild {
        /// Which.
        path: PathBuf,
        /// The build id of the file.
        found: String,
        /// The build id in the trace.
        expected: String,
    },
}

/// An ELF file at its place in memory.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) bias: u64,
    bytes: Vec<u8>,
    /// The bytes of the file that the program cannot write, with their addresses without the bias.
    read_only: Vec<(u64, Range<usize>)>,
    /// All of its mappings, without the bias.
    pub(super) extent: Range<u64>,
    pub(super) entry: u64,
    /// The address of the program headers without the bias, their size and number.
    pub(super) headers: Option<(u64, u64, u64)>,
    pub(super) dynamic: Option<u64>,
    pub(super) wide: bool,
    pub(super) byte_order: ByteOrder,
    pub(super) architecture: Option<Architecture>,
    /// Whether it runs at any address.
    pub(super) movable: bool,
}

impl Image {
    /// Reads a module that a trace names.
    pub(super) fn of_module(module: &Module) -> Result<Self, ImageError> {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(&module.path));
        let image = Self {
            bias: module.bias,
            ..Self::read(path)?
        };
        let found = object::File::parse(image.bytes.as_slice())
            .ok()
            .and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec))
            .unwrap_or_default();
        if !module.build_id.is_empty() && found != module.build_id {
            let hex = |bytes: &[u8]| {
                let mut digits = Vec::new();
                tracewire_model::hex::encode(bytes, &mut digits);
                String::from_utf8_lossy(&digits).into_owned()
            };
            return Err(ImageError::OtherBuild {
                path: image.path,
                found: hex(&found),
                expected: hex(&module.build_id),
            });
        }
        Ok(image)
    }

    /// Reads a file, with load bias 0.
    pub(super) fn read(path: &Path) -> Result<Self, ImageError> {
        let cannot_read = |reason| ImageError::Read {
            path: path.to_owned(),
            reason,
        };
        let size = std::fs::metadata(path).map_err(cannot_read)?.len();
        if size > LARGEST {
            return Err(ImageError::TooLarge {
                path: path.to_owned(),
                size,
            });
        }
        let bytes = std::fs::read(path).map_err(cannot_read)?;
        let not_elf = |reason: String| ImageError::NotElf {
            path: path.to_owned(),
            reason,
        };
        let file =
            object::File::parse(bytes.as_slice()).map_err(|error| not_elf(error.to_string()))?;
        let shape = match &file {
            object::File::Elf32(elf) => shape(elf.elf_header(), &bytes),
            object::File::Elf64(elf) => shape(elf.elf_header(), &bytes),
            _ => None,
        };
        let shape = shape.ok_or_else(|| not_elf("not an ELF program".to_owned()))?;
        let (entry, wide) = (file.entry(), file.is_64());
        let architecture = architecture(&file);
        let byte_order = if file.is_little_endian() {
            ByteOrder::Little
        } else {
            ByteOrder::Big
        };
        Ok(Self {
            path: path.to_owned(),
            bias: 0,
            read_only: shape.read_only,
            extent: shape.extent,
            entry,
            headers: shape.headers,
            dynamic: shape.dynamic,
            wide,
            byte_order,
            architecture,
            movable: shape.movable,
            bytes,
        })
    }

    /// Fills in memory from the parts of the file that the program cannot write.
    pub(super) fn read_memory(&self, address: Address, memory: &mut [Option<u8>]) {
        for (start, range) in &self.read_only {
            let Some(bytes) = self.bytes.get(range.clone()) else {
                continue;
            };
            let start = start.wrapping_add(self.bias);
            // The start of the part within the memory, or of the memory within the part.
            let (skip, from) = if start >= address.0 {
                (start - address.0, 0)
            } else {
                (0, address.0 - start)
            };
            let (Ok(skip), Ok(from)) = (usize::try_from(skip), usize::try_from(from)) else {
                continue;
            };
            let wanted = memory.get_mut(skip..).unwrap_or_default();
            for (byte, value) in wanted.iter_mut().zip(bytes.get(from..).unwrap_or_default()) {
                byte.get_or_insert(*value);
            }
        }
    }

    /// The load bias of a movable program, from its tracepoints: one that was set at a function by name is within the
    /// function's code. `None` when there is no such tracepoint, or they differ.
    pub(super) fn bias_from(&self, tracepoints: &[Tracepoint]) -> Option<u64> {
        let file = object::File::parse(self.bytes.as_slice()).ok()?;
        let mut biases = tracepoints.iter().filter_map(|tracepoint| {
            let name = tracepoint.definition.source.at.as_deref()?.trim();
            let symbol = file.symbols().find(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.name() == Ok(name) && symbol.size() > 0
            })?;
            // The page-aligned biases that put the tracepoint into the function.
            let highest = tracepoint
                .definition
                .address
                .0
                .checked_sub(symbol.address())?;
            let bias = highest & !(PAGE - 1);
            (highest - bias < symbol.size()).then_some(bias)
        });
        let first = biases.next()?;
        biases.all(|bias| bias == first).then_some(first)
    }
}

/// The machine; none when it is not one that is known.
fn architecture(file: &object::File<'_>) -> Option<Architecture> {
    let little = file.is_little_endian();
    Some(match (file.architecture(), little, file.is_64()) {
        (object::Architecture::X86_64, ..) => Architecture::X86_64,
        (object::Architecture::I386, ..) => Architecture::I386,
        (object::Architecture::Arm, true, _) => Architecture::Arm,
        (object::Architecture::Arm, false, _) => Architecture::ArmBig,
        (object::Architecture::Aarch64, ..) => Architecture::Aarch64,
        (object::Architecture::Mips, true, _) => Architecture::MipsLittle,
        (object::Architecture::Mips, false, _) => Architecture::Mips,
        (object::Architecture::Mips64, true, _) => Architecture::Mips64Little,
        (object::Architecture::Mips64, false, _) => Architecture::Mips64,
        (object::Architecture::Riscv32, ..) => Architecture::Riscv32,
        (object::Architecture::Riscv64, ..) => Architecture::Riscv64,
        (object::Architecture::PowerPc, ..) => Architecture::PowerPc,
        (object::Architecture::PowerPc64, true, _) => Architecture::PowerPc64Little,
        (object::Architecture::PowerPc64, false, _) => Architecture::PowerPc64,
        _ => return None,
    })
}

/// The smallest page there is.
const PAGE: u64 = 0x1000;

/// The contents of the program headers.
struct Shape {
    read_only: Vec<(u64, Range<usize>)>,
    extent: Range<u64>,
    headers: Option<(u64, u64, u64)>,
    dynamic: Option<u64>,
    movable: bool,
}

fn shape<H: FileHeader>(header: &H, bytes: &[u8]) -> Option<Shape> {
    let endian = header.endian().ok()?;
    let programs = header.program_headers(endian, bytes).ok()?;
    let size = u64::from(header.e_phentsize(endian));
    let count = programs.len() as u64;
    let offset: u64 = header.e_phoff(endian).into();
    let mut shape = Shape {
        read_only: Vec::new(),
        extent: 0..0,
        headers: None,
        dynamic: None,
        movable: header.e_type(endian) != ET_EXEC,
    };
    for program in programs {
        let start: u64 = program.p_vaddr(endian).into();
        match program.p_type(endian) {
            PT_LOAD => {
                let (file, length) = program.file_range(endian);
                let memory: u64 = program.p_memsz(endian).into();
                let end = start.saturating_add(memory);
                shape.extent = if shape.extent.is_empty() {
                    start..end
                } else {
                    shape.extent.start.min(start)..shape.extent.end.max(end)
                };
                if (file..file.saturating_add(length)).contains(&offset) {
                    shape
                        .headers
                        .get_or_insert((start.wrapping_add(offset - file), size, count));
                }
                if !program.p_flags(endian).contains(PF_W) {
                    let from = usize::try_from(file).ok()?;
                    let to = usize::try_from(file.saturating_add(length)).ok()?;
                    shape.read_only.push((start, from..to.min(bytes.len())));
                }
            }
            PT_PHDR => shape.headers = Some((start, size, count)),
            PT_DYNAMIC => shape.dynamic = Some(start),
            _ => {}
        }
    }
    (!shape.extent.is_empty()).then_some(shape)
}
