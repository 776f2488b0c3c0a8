//! The dynamic linker's own account of what it has loaded.
//!
//! It keeps a list of loaded objects, and calls an empty function before and after each change to it, made to
//! have a breakpoint put on (`struct r_debug` in `<link.h>`; glibc and musl alike). After a change, nothing of a
//! new object has been executed yet.

use object::{Object, ObjectSymbol};

use crate::maps::{AuxiliaryVector, mappings, seen_by};
use crate::memory::Memory;
use crate::ptrace::Tid;

/// The most objects that are followed through the list.
const MAX_OBJECTS: usize = 10_000;
/// The longest name that is read.
const MAX_NAME: usize = 4096;
/// The largest file that is taken for a dynamic linker, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// The most lists, of different namespaces.
const MAX_LISTS: usize = 64;
/// The longest table of program headers or dynamic section that is read, in entries.
const MAX_ENTRIES: u64 = 4096;

/// One object of the dynamic linker's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loaded {
    /// What is added to its addresses.
    pub(crate) bias: u64,
    /// Where its dynamic section is in memory.
    pub(crate) dynamic: u64,
    /// The name it was found by; empty for the program itself.
    pub(crate) name: Vec<u8>,
}

/// What is known about the dynamic linker of the program.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    /// The function that it calls at a change.
    hook: Option<u64>,
    /// Where the program's dynamic section is.
    dynamic: Option<u64>,
    /// The objects at the last look, each by its bias and its dynamic section.
    known: Vec<(u64, u64)>,
}

impl Loader {
    /// Of a program that has not executed anything.
    pub(crate) fn at_start(memory: &Memory, thread: Tid) -> Self {
        let Ok(auxiliary) = AuxiliaryVector::read(thread) else {
            return Self::default();
        };
        Self {
            hook: auxiliary
                .get(libc::AT_BASE)
                .and_then(|base| hook_by_symbol(thread, base)),
            dynamic: dynamic_section(memory, &auxiliary),
            known: Vec::new(),
        }
    }

    /// Of a program that runs already.
    pub(crate) fn of_running(memory: &Memory, thread: Tid) -> Self {
        let mut loader = Self::at_start(memory, thread);
        if let Some(debug) = loader.debug(memory) {
            /// The offset of `r_brk` in `struct r_debug`.
            const FUNCTION: u64 = 16;
            loader.hook = memory
                .read_u64(debug.wrapping_add(FUNCTION))
                .filter(|function| *function != 0)
                .or(loader.hook);
            loader.known = loader.keys(memory);
        }
        loader
    }

    /// Where a breakpoint tells of changes.
    pub(crate) fn hook(&self) -> Option<u64> {
        self.hook
    }

    /// Whether the list differs from what it was at the last look, and is complete.
    pub(crate) fn has_changed(&mut self, memory: &Memory) -> bool {
        /// The offset of `r_state` in `struct r_debug`, which is 0 while no change is under way.
        const STATE: u64 = 24;
        let Some(debug) = self.debug(memory) else {
            return false;
        };
        if memory.read_array::<4>(debug.wrapping_add(STATE)) != Some([0; 4]) {
            return false;
        }
        let now = self.keys(memory);
        let changed = now != self.known;
        self.known = now;
        changed
    }

    fn keys(&self, memory: &Memory) -> Vec<(u64, u64)> {
        self.loaded(memory, false)
            .into_iter()
            .map(|object| (object.bias, object.dynamic))
            .collect()
    }

    /// The objects that the dynamic linker has loaded, itself and the program among them.
    pub(crate) fn loaded(&self, memory: &Memory, with_names: bool) -> Vec<Loaded> {
        /// The offset of `r_next` in the `struct r_debug_extended` of version 2.
        const NEXT_LIST: u64 = 40;
        let mut objects = Vec::new();
        let mut list = self.debug(memory);
        for _ in 0..MAX_LISTS {
            let Some(debug) = list.filter(|debug| *debug != 0) else {
                break;
            };
            let Some([version, first]) = read_words(memory, debug) else {
                break;
            };
            let mut next = first;
            while next != 0 && objects.len() < MAX_OBJECTS {
                // struct link_map: l_addr, l_name, l_ld, l_next
                let Some([bias, name, dynamic, following]) = read_words(memory, next) else {
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
                memory.read_u64(debug.wrapping_add(NEXT_LIST))
            } else {
                None
            };
        }
        objects
    }

    /// The address of `struct r_debug`, which the dynamic linker writes into the program's dynamic section.
    fn debug(&self, memory: &Memory) -> Option<u64> {
        /// `DT_DEBUG`.
        const DEBUG: u64 = 21;
        let dynamic = self.dynamic?;
        (0..MAX_ENTRIES)
            .map_while(|entry| read_words::<2>(memory, dynamic.wrapping_add(entry * 16)))
            .take_while(|[tag, _]| *tag != 0)
            .find(|[tag, _]| *tag == DEBUG)
            .map(|[_, value]| value)
            .filter(|value| *value != 0)
    }
}

fn read_words<const N: usize>(memory: &Memory, address: u64) -> Option<[u64; N]> {
    let mut bytes = [[0; 8]; N];
    let flat = bytes.as_flattened_mut();
    (memory.read(address, flat) == flat.len()).then(|| bytes.map(u64::from_le_bytes))
}

/// The type, the address in the file and the size of a program header.
fn program_headers(memory: &Memory, auxiliary: &AuxiliaryVector) -> Vec<(u32, u64)> {
    let Some(table) = auxiliary.get(libc::AT_PHDR) else {
        return Vec::new();
    };
    let entry = auxiliary.get(libc::AT_PHENT).unwrap_or(56);
    let count = auxiliary.get(libc::AT_PHNUM).unwrap_or(0).min(MAX_ENTRIES);
    (0..count)
        .filter_map(|index| {
            // p_type and p_flags, p_offset, p_vaddr
            let [kind, _, address] =
                read_words(memory, table.wrapping_add(index.wrapping_mul(entry)))?;
            Some((kind as u32, address))
        })
        .collect()
}

/// What is added to the program's addresses; `None` if its headers do not tell.
pub(crate) fn program_bias(
    memory: &Memory,
    auxiliary: &AuxiliaryVector,
    file_entry: Option<u64>,
) -> Option<u64> {
    program_headers(memory, auxiliary)
        .into_iter()
        .find(|(kind, _)| *kind == libc::PT_PHDR)
        .and_then(|(_, address)| Some(auxiliary.get(libc::AT_PHDR)?.wrapping_sub(address)))
        .or_else(|| Some(auxiliary.get(libc::AT_ENTRY)?.wrapping_sub(file_entry?)))
}

fn dynamic_section(memory: &Memory, auxiliary: &AuxiliaryVector) -> Option<u64> {
    let bias = program_bias(memory, auxiliary, None)?;
    program_headers(memory, auxiliary)
        .into_iter()
        .find(|(kind, _)| *kind == libc::PT_DYNAMIC)
        .map(|(_, address)| address.wrapping_add(bias))
}

/// Finds the function by its name in the file of the dynamic linker, which has not come so far as to tell.
fn hook_by_symbol(thread: Tid, base: u64) -> Option<u64> {
    let mappings = mappings(thread).ok()?;
    let mapping = mappings.iter().find(|mapping| mapping.start == base)?;
    let file = seen_by(thread, &mapping.path);
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
