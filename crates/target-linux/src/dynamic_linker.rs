//! The list of loaded objects that the dynamic linker keeps.
//!
//! The dynamic linker calls an empty function before and after each change of the list. A debugger can put a breakpoint
//! there (`struct r_debug` in `<link.h>`; the same in glibc and musl). After a change, no code of a new object has run yet.

use object::{Object, ObjectSymbol};

use crate::abi::Abi;
use crate::maps::{AuxiliaryVector, FileView, mappings};
use crate::memory::{Memory, ReadMemory as _};
use crate::page_reader::PageReader;
use crate::ptrace::Tid;

/// The most objects that are followed through the list.
pub(crate) const MAX_OBJECTS: usize = 10_000;
/// The longest name that is read.
pub(crate) const MAX_NAME: usize = 4096;
/// The largest file that is taken for a dynamic linker, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// The most lists, of different namespaces.
pub(crate) const MAX_LISTS: usize = 64;
/// The longest table of program headers or dynamic section that is read, in entries.
const MAX_ENTRIES: u64 = 4096;

/// Offsets in `struct r_debug`, in words.
pub(crate) mod debug_words {
    /// `r_brk`.
    pub(crate) const FUNCTION: u64 = 2;
    /// `r_state`, which is 0 while no change is under way.
    pub(crate) const STATE: u64 = 3;
    /// `r_next`, in the `struct r_debug_extended` of version 2.
    pub(crate) const NEXT_LIST: u64 = 5;
}

/// One object of the dynamic linker's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loaded {
    /// The load bias of its addresses.
    pub(crate) bias: u64,
    /// Where its dynamic section is in memory.
    pub(crate) dynamic: u64,
    /// The name it was found by; empty for the program itself.
    pub(crate) name: Vec<u8>,
}

/// The state of the program's dynamic linker.
#[derive(Debug, Default)]
pub(crate) struct DynamicLinker {
    abi: Abi,
    /// The function that it calls at a change.
    hook: Option<u64>,
    /// Where the program's dynamic section is.
    dynamic: Option<u64>,
    /// The objects that were read last, each by its bias and its dynamic section.
    known: Vec<(u64, u64)>,
    /// Its hook was called, and the list has not been read since.
    reported: bool,
    /// Whether a jump was tried at the hook.
    pub(crate) hook_tried: bool,
}

impl DynamicLinker {
    /// For a program that has not executed anything.
    pub(crate) fn at_start(abi: Abi, memory: &Memory, thread: Tid) -> Self {
        let memory = PageReader::new(memory);
        let (mut dynamic_linker, base) = Self::without_hook(abi, &memory, thread);
        dynamic_linker.hook = base.and_then(|base| hook_by_symbol(thread, base));
        dynamic_linker
    }

    /// For a program that is already running. Its threads are stopped, so the dynamic linker's file is read only if the
    /// dynamic linker itself does not say where the hook is.
    pub(crate) fn of_running(abi: Abi, memory: &Memory, thread: Tid) -> Self {
        let memory = PageReader::new(memory);
        let (mut dynamic_linker, base) = Self::without_hook(abi, &memory, thread);
        let debug = dynamic_linker.debug(&memory);
        dynamic_linker.hook = debug
            .and_then(|debug| abi.read_at(&memory, debug, debug_words::FUNCTION))
            .filter(|function| *function != 0)
            .or_else(|| hook_by_symbol(thread, base?));
        if debug.is_some() {
            dynamic_linker.known = dynamic_linker.keys(&memory);
        }
        dynamic_linker
    }

    /// Its state without the hook, and the address where it is mapped.
    fn without_hook(abi: Abi, memory: &PageReader<'_>, thread: Tid) -> (Self, Option<u64>) {
        let auxiliary = AuxiliaryVector::read(thread, abi.bytes()).ok();
        let dynamic_linker = Self {
            abi,
            dynamic: (auxiliary.as_ref())
                .and_then(|auxiliary| dynamic_section(abi, memory, auxiliary)),
            ..Self::default()
        };
        let base = auxiliary.and_then(|auxiliary| auxiliary.get(libc::AT_BASE));
        (dynamic_linker, base)
    }

    /// The word size of its structures.
    pub(crate) const fn abi(&self) -> Abi {
        self.abi
    }

    /// The objects that were read last, each by its bias and its dynamic section.
    pub(crate) fn known(&self) -> &[(u64, u64)] {
        &self.known
    }

    /// The address of the hook for changes.
    pub(crate) fn hook(&self) -> Option<u64> {
        self.hook
    }

    /// Whether the list is complete and differs from the one that was read last.
    pub(crate) fn has_changed(&mut self, memory: &Memory) -> bool {
        let memory = PageReader::new(memory);
        let Some(debug) = self.debug(&memory) else {
            return false;
        };
        let state = debug.wrapping_add(debug_words::STATE * self.abi.bytes() as u64);
        let mut consistent = [0xff; 4];
        memory.read(state, &mut consistent);
        if consistent != [0; 4] {
            return false;
        }
        let now = self.keys(&memory);
        let changed = now != self.known;
        self.known = now;
        changed
    }

    /// Notes that its hook was called.
    pub(crate) const fn note_report(&mut self) {
        self.reported = true;
    }

    /// The same as [`has_changed`](Self::has_changed), if its hook was called since.
    pub(crate) fn has_reported_change(&mut self, memory: &Memory) -> bool {
        std::mem::take(&mut self.reported) && self.has_changed(memory)
    }

    fn keys(&self, memory: &PageReader<'_>) -> Vec<(u64, u64)> {
        self.loaded(memory, false)
            .into_iter()
            .map(|object| (object.bias, object.dynamic))
            .collect()
    }

    /// The objects that the dynamic linker has loaded, including itself and the program.
    pub(crate) fn loaded(&self, memory: &PageReader<'_>, with_names: bool) -> Vec<Loaded> {
        let mut objects = Vec::new();
        let mut list = self.debug(memory);
        for _ in 0..MAX_LISTS {
            let Some(debug) = list.filter(|debug| *debug != 0) else {
                break;
            };
            let Some([version, first]) = self.abi.read(memory, debug) else {
                break;
            };
            let mut next = first;
            while next != 0 && objects.len() < MAX_OBJECTS {
                // struct link_map: l_addr, l_name, l_ld, l_next
                let Some([bias, name, dynamic, following]) = self.abi.read(memory, next) else {
                    break;
                };
                let name = if with_names {
                    memory.read_string(name, MAX_NAME)
                } else {
                    Vec::new()
                };
                objects.push(Loaded {
                    bias,
                    dynamic,
                    name,
                });
                next = following;
            }
            list = if version as u32 >= 2 {
                self.abi.read_at(memory, debug, debug_words::NEXT_LIST)
            } else {
                None
            };
        }
        objects
    }

    /// The address of `struct r_debug`, which the dynamic linker writes into the program's dynamic section.
    fn debug(&self, memory: &PageReader<'_>) -> Option<u64> {
        self.debug_entry(memory).filter(|debug| *debug != 0)
    }

    /// The same; 0 before it is written, and `None` where there is no place for it.
    pub(crate) fn debug_entry(&self, memory: &PageReader<'_>) -> Option<u64> {
        /// `DT_DEBUG`.
        const DEBUG: u64 = 21;
        let dynamic = self.dynamic?;
        (0..MAX_ENTRIES)
            .map_while(|entry| {
                let size = 2 * self.abi.bytes() as u64;
                self.abi.read(memory, dynamic.wrapping_add(entry * size))
            })
            .take_while(|[tag, _]| *tag != 0)
            .find(|[tag, _]| *tag == DEBUG)
            .map(|[_, value]| value)
    }
}

/// The type, the address in the file and the size of a program header.
fn program_headers(
    abi: Abi,
    memory: &PageReader<'_>,
    auxiliary: &AuxiliaryVector,
) -> Vec<(u32, u64)> {
    let Some(table) = auxiliary.get(libc::AT_PHDR) else {
        return Vec::new();
    };
    let entry = auxiliary.get(libc::AT_PHENT).unwrap_or(56);
    let count = auxiliary.get(libc::AT_PHNUM).unwrap_or(0).min(MAX_ENTRIES);
    (0..count)
        .filter_map(|index| {
            // p_type (and p_flags, in 64 bits), p_offset, p_vaddr
            let [kind, _, address] =
                abi.read(memory, table.wrapping_add(index.wrapping_mul(entry)))?;
            Some((kind as u32, address))
        })
        .collect()
}

/// The load bias of the program; `None` if its headers do not give it.
pub(crate) fn program_bias(
    abi: Abi,
    memory: &PageReader<'_>,
    auxiliary: &AuxiliaryVector,
    file_entry: Option<u64>,
) -> Option<u64> {
    program_headers(abi, memory, auxiliary)
        .into_iter()
        .find(|(kind, _)| *kind == libc::PT_PHDR)
        .and_then(|(_, address)| Some(auxiliary.get(libc::AT_PHDR)?.wrapping_sub(address)))
        .or_else(|| Some(auxiliary.get(libc::AT_ENTRY)?.wrapping_sub(file_entry?)))
}

fn dynamic_section(abi: Abi, memory: &PageReader<'_>, auxiliary: &AuxiliaryVector) -> Option<u64> {
    let bias = program_bias(abi, memory, auxiliary, None)?;
    program_headers(abi, memory, auxiliary)
        .into_iter()
        .find(|(kind, _)| *kind == libc::PT_DYNAMIC)
        .map(|(_, address)| address.wrapping_add(bias))
}

/// Finds the function by its symbol in the dynamic linker's file, before the dynamic linker has filled in `r_debug`.
fn hook_by_symbol(thread: Tid, base: u64) -> Option<u64> {
    let mappings = mappings(thread).ok()?;
    let mapping = mappings.iter().find(|mapping| mapping.start == base)?;
    let file = FileView::of(thread).path(&mapping.path);
    if std::fs::metadata(&file).ok()?.len() > MAX_FILE {
        return None;
    }
    let bytes = std::fs::read(file).ok()?;
    let object = object::File::parse(bytes.as_slice()).ok()?;
    object
        .dynamic_symbols()
        .chain(object.symbols())
        .find(|symbol| {
            symbol.is_definition()
                && matches!(symbol.name(), Ok("_dl_debug_state" | "dl_debug_state"))
        })
        .map(|symbol| base.wrapping_add(symbol.address()))
}
