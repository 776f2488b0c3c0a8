//! The modules of the process: the program, the dynamic linker, libraries, the vdso.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, FileKind};
use tracewire_model::{Address, ThreadId};

use crate::dynamic_linker::{DynamicLinker, program_bias};
use crate::maps::{self, AuxiliaryVector, FileView, Mapping};
use crate::memory::Memory;
use crate::page_reader::PageReader;
use crate::ptrace::Tid;

/// The entry point of a program, from its file's header. The file may have hundreds of megabytes, so no more is read.
fn entry_point(file: &Path) -> Option<u64> {
    let mut header = Vec::new();
    let length = size_of::<FileHeader64<Endianness>>() as u64;
    (File::open(file).ok()?.take(length))
        .read_to_end(&mut header)
        .ok()?;
    match FileKind::parse(header.as_slice()).ok()? {
        FileKind::Elf64 => entry_of::<FileHeader64<Endianness>>(&header),
        FileKind::Elf32 => entry_of::<FileHeader32<Endianness>>(&header),
        _ => None,
    }
}

fn entry_of<H: FileHeader>(header: &[u8]) -> Option<u64> {
    let header = H::parse(header).ok()?;
    Some(header.e_entry(header.endian().ok()?).into())
}

/// The kind of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModuleKind {
    /// The program itself.
    Executable,
    /// The dynamic linker.
    Interpreter,
    /// A shared library.
    Library,
    /// The code that the kernel maps into every process.
    Vdso,
}

/// An object with symbols in the process's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Its kind.
    pub kind: ModuleKind,
    /// The path of its file as the process sees it; `[vdso]` for the vdso.
    pub path: PathBuf,
    /// A path by which we can open the file as long as the process lives. That of the program does so even if `path` is renamed or
    /// deleted.
    pub file: PathBuf,
    /// The difference between an address in memory and the same address in the file.
    pub load_bias: u64,
    /// The first address of its mappings.
    pub start: Address,
    /// The first address after its mappings.
    pub end: Address,
}

/// A file that a process has mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedFile {
    /// Its path as the process sees it.
    pub path: PathBuf,
    /// A path by which we can open it as long as the process lives.
    pub file: PathBuf,
    /// The first address of its mappings.
    pub start: Address,
}

/// The files that a process has mapped, without attaching to it: the program first, each once.
///
/// # Errors
/// When there is no such process, or `/proc` keeps it from this user.
pub fn mapped_files(process: ThreadId) -> io::Result<Vec<MappedFile>> {
    let thread = process.0.cast_signed();
    let (program, _) = maps::program_file(thread);
    let own = std::fs::read_link(&program)?;
    let own = without_deleted(own);
    let files = FileView::of(thread);
    let mut found: Vec<MappedFile> = Vec::new();
    for mapping in maps::mappings(thread)? {
        if !mapping.path.is_absolute() || found.iter().any(|one| one.path == mapping.path) {
            continue;
        }
        let is_program = mapping.path == own;
        let mapped = MappedFile {
            file: if is_program {
                program.clone()
            } else {
                files.path(&mapping.path)
            },
            path: mapping.path,
            start: Address(mapping.start),
        };
        let place = if is_program { 0 } else { found.len() };
        found.insert(place, mapped);
    }
    Ok(found)
}

/// The modules of a process now: the program first, then the dynamic linker and the vdso, then libraries in load order.
/// An error names the file of `/proc` that cannot be read.
pub(crate) fn all(
    dynamic_linker: &DynamicLinker,
    memory: &Memory,
    thread: Tid,
) -> Result<Vec<Module>, (&'static str, io::Error)> {
    let abi = dynamic_linker.abi();
    let memory = PageReader::new(memory);
    let mappings = maps::mappings(thread).map_err(|error| ("maps", error))?;
    let auxiliary = AuxiliaryVector::read(thread, abi.bytes()).map_err(|error| ("auxv", error))?;
    let files = FileView::of(thread);
    let mut modules = Vec::new();

    let (file, name) = maps::program_file(thread);
    let entry = entry_point(&file);
    if let Some(load_bias) = program_bias(abi, &memory, &auxiliary, entry) {
        let anchor = auxiliary.get(libc::AT_PHDR).unwrap_or(load_bias);
        let (start, end) = extent(&mappings, anchor).unwrap_or((load_bias, load_bias));
        modules.push(Module {
            kind: ModuleKind::Executable,
            path: without_deleted(name),
            file,
            load_bias,
            start: Address(start),
            end: Address(end),
        });
    }
    for (kind, key) in [
        (ModuleKind::Interpreter, libc::AT_BASE),
        (ModuleKind::Vdso, libc::AT_SYSINFO_EHDR),
    ] {
        let Some(base) = auxiliary.get(key) else {
            continue;
        };
        modules.extend(module_at(&files, kind, &mappings, base, base, b""));
    }
    for object in dynamic_linker.loaded(&memory, true) {
        if !modules.iter().any(|module| holds(module, object.dynamic)) {
            modules.extend(module_at(
                &files,
                ModuleKind::Library,
                &mappings,
                object.dynamic,
                object.bias,
                &object.name,
            ));
        }
    }
    Ok(modules)
}

fn module_at(
    files: &FileView,
    kind: ModuleKind,
    mappings: &[Mapping],
    anchor: u64,
    load_bias: u64,
    name: &[u8],
) -> Option<Module> {
    let mapping = mapping_at(mappings, anchor)?;
    let (start, end) = extent(mappings, anchor)?;
    let path = if mapping.path.as_os_str().is_empty() {
        PathBuf::from(OsStr::from_bytes(name))
    } else {
        mapping.path.clone()
    };
    Some(Module {
        kind,
        file: files.path(&path),
        path,
        load_bias,
        start: Address(start),
        end: Address(end),
    })
}

fn holds(module: &Module, address: u64) -> bool {
    (module.start.0..module.end.0).contains(&address)
}

fn mapping_at(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    mappings
        .iter()
        .find(|mapping| (mapping.start..mapping.end).contains(&address))
}

/// The addresses from the first to the last mapping of the file that is mapped at `anchor`, with nothing of
/// another file in between.
fn extent(mappings: &[Mapping], anchor: u64) -> Option<(u64, u64)> {
    let index = mappings
        .iter()
        .position(|mapping| (mapping.start..mapping.end).contains(&anchor))?;
    let path = &mappings.get(index)?.path;
    let belongs = |mapping: &&Mapping| mapping.path == *path || mapping.path.as_os_str().is_empty();
    let start = mappings
        .get(..=index)?
        .iter()
        .rev()
        .take_while(belongs)
        .filter(|mapping| mapping.path == *path)
        .last()?
        .start;
    let end = mappings
        .get(index..)?
        .iter()
        .take_while(belongs)
        .filter(|mapping| mapping.path == *path)
        .last()?
        .end;
    Some((start, end))
}

fn without_deleted(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(name) => PathBuf::from(OsStr::from_bytes(name)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use object::Object as _;

    use super::entry_point;

    #[test]
    fn a_program_s_entry_is_read_from_its_header() {
        let own = std::env::current_exe().expect("this program");
        let bytes = std::fs::read(&own).expect("its file");
        let whole = object::File::parse(bytes.as_slice()).expect("an ELF file");
        assert_eq!(entry_point(&own), Some(whole.entry()));
        for length in [0, 3, 16, 63] {
            let mut cut = tempfile::NamedTempFile::new().expect("a file");
            cut.write_all(&bytes[..length]).expect("written");
            assert_eq!(entry_point(cut.path()), None, "{length}");
        }
    }
}
