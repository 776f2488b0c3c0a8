//! Where thread-local variables are.
//!
//! The C library describes how it keeps them in constants for `libthread_db` (`_thread_db_…`, `nptl_db/structs.def`).
//! So this is exact for every glibc that has them, and no library has to be loaded. The thread pointer leads to the
//! thread's table of blocks, one a module. The table has the generation of modules for which it is valid. A block that
//! is missing or from another generation may still have its fixed place below the thread pointer: the program's own,
//! and those of the libraries that were loaded at the start.
//!
//! A program without a dynamic linker has one block, whose place the ABI gives (ELF Handling For Thread-Local Storage,
//! variant II).

use libc::user_regs_struct;
use object::{Object, ObjectSymbol};
use tracewire_model::{Address, ThreadId};

use crate::abi::Abi;
use crate::dynamic_linker::DynamicLinker;
use crate::maps::AuxiliaryVector;
use crate::memory::Memory;
use crate::modules;
use crate::ptrace::Tid;

/// The most generations of modules that are looked through, lists of them.
const MAX_LISTS: usize = 1000;
/// The largest file that is taken for a C library, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Why a thread-local variable has no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadLocalError {
    /// The thread has ended, or is running.
    #[error("thread {0} is not stopped")]
    NoThread(ThreadId),
    /// The thread has not come so far.
    #[error("the thread has no thread-local storage yet")]
    NoStorage,
    /// The variable's module has none.
    #[error("the module has no thread-local storage")]
    NoneInModule,
    /// The C library makes a thread's copy of a module's variables when it first uses one.
    #[error("the thread has no copy of the module's variables yet")]
    NotAllocated,
    /// The C library does not say how it keeps them.
    #[error("the C library of the program does not say where it keeps thread-local variables")]
    UnknownLibrary,
    /// Something that the C library keeps cannot be read.
    #[error("the memory at {0} cannot be read")]
    Unreadable(Address),
}

use ThreadLocalError as Error;

/// Where a field is in a structure of the C library's.
#[derive(Clone, Copy, Debug)]
struct Field {
    bits: u32,
    offset: u32,
}

/// How the C library keeps thread-local variables.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The first of the lists of modules.
    lists: u64,
    list_length: Field,
    list_next: Field,
    list_entries: Field,
    entry_size: u64,
    entry_generation: Field,
    entry_map: Field,
    map_module: Field,
    map_offset: Field,
    thread_table: Field,
    table: Field,
    block: Field,
}

/// The layout, once it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownLayout(Option<Layout>);

/// The thread-local storage of a program.
pub(crate) struct ThreadLocal<'p> {
    memory: &'p Memory,
    dynamic_linker: &'p DynamicLinker,
    /// A thread that has not ended.
    thread: Tid,
    abi: Abi,
}

impl<'p> ThreadLocal<'p> {
    pub(crate) fn new(memory: &'p Memory, dynamic_linker: &'p DynamicLinker, thread: Tid) -> Self {
        Self {
            memory,
            dynamic_linker,
            thread,
            abi: dynamic_linker.abi(),
        }
    }

    /// The address of a copy of a variable, that of the thread with these registers: of the module with this `struct link_map`, 0
    /// for a program without a dynamic linker, at this offset of the module's thread-local storage.
    pub(crate) fn address(
        &self,
        known: &mut KnownLayout,
        registers: &user_regs_struct,
        Address(module): Address,
        offset: u64,
    ) -> Result<Address, Error> {
        let pointer = match self.abi {
            Abi::Bits64 => registers.fs_base,
            Abi::Bits32 => registers.gs_base,
        };
        if pointer == 0 {
            return Err(Error::NoStorage);
        }
        let block = if module == 0 {
            pointer.wrapping_sub(self.only_block()?)
        } else {
            let layout = match known.0 {
                Some(layout) => layout,
                None => *known.0.insert(self.layout()?),
            };
            self.block(&layout, pointer, module)?
        };
        Ok(Address(self.fitting(block.wrapping_add(offset))))
    }

    fn fitting(&self, address: u64) -> u64 {
        match self.abi {
            Abi::Bits64 => address,
            Abi::Bits32 => address & u64::from(u32::MAX),
        }
    }

    /// How far below the thread pointer the block of a program begins that has no other.
    fn only_block(&self) -> Result<u64, Error> {
        let auxiliary = AuxiliaryVector::read(self.thread, self.abi.bytes())
            .map_err(|_| Error::UnknownLibrary)?;
        let (table, entry) = auxiliary
            .get(libc::AT_PHDR)
            .zip(auxiliary.get(libc::AT_PHENT))
            .ok_or(Error::UnknownLibrary)?;
        let count = auxiliary.get(libc::AT_PHNUM).unwrap_or(0).min(4096);
        for index in 0..count {
            let header = table.wrapping_add(index.wrapping_mul(entry));
            // p_type, then in words of 64 bits: p_flags with it, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
            // in those of 32: p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_flags, p_align.
            let [kind, _, _, _, _, size, _, align] = match self.abi {
                Abi::Bits64 => {
                    let [kind, a, b, c, d, size, align] =
                        self.abi.read(self.memory, header).unwrap_or_default();
                    [kind, a, b, c, d, size, 0, align]
                }
                Abi::Bits32 => self.abi.read(self.memory, header).unwrap_or_default(),
            };
            if kind as u32 == libc::PT_TLS {
                let align = align.max(1);
                return size
                    .checked_next_multiple_of(align)
                    .ok_or(Error::NoneInModule);
            }
        }
        Err(Error::NoneInModule)
    }

    /// Where a thread's block of a module is.
    fn block(&self, layout: &Layout, pointer: u64, map: u64) -> Result<u64, Error> {
        let module = self.field(map, layout.map_module)?;
        if module == 0 {
            return Err(Error::NoneInModule);
        }
        let fixed = || {
            let below = self.field(map, layout.map_offset)?;
            // It has no place, or may not have one.
            let none = [0, self.fitting(u64::MAX)];
            if none.contains(&below) {
                Err(Error::NotAllocated)
            } else {
                Ok(self.fitting(pointer.wrapping_sub(below)))
            }
        };
        let table = self.field(pointer, layout.thread_table)?;
        if table == 0 {
            return Err(Error::NoStorage);
        }
        let generation = self.word(table)?;
        if generation < self.generation(layout, module)? {
            return fixed();
        }
        let slot = Field {
            bits: layout.table.bits,
            offset: layout.table.offset,
        };
        let size = u64::from(slot.bits / 8);
        let place = table
            .wrapping_add(u64::from(slot.offset))
            .wrapping_add(module.wrapping_mul(size));
        let block = self.field(place, layout.block)?;
        if block & 1 == 1 { fixed() } else { Ok(block) }
    }

    /// Since which generation the number of a module has been that module's.
    fn generation(&self, layout: &Layout, module: u64) -> Result<u64, Error> {
        let mut list = self.word(layout.lists)?;
        let mut number = module;
        for _ in 0..MAX_LISTS {
            if list == 0 {
                break;
            }
            let length = self.field(list, layout.list_length)?;
            if number < length {
                let entry = list
                    .wrapping_add(u64::from(layout.list_entries.offset))
                    .wrapping_add(number.wrapping_mul(layout.entry_size));
                return if self.field(entry, layout.entry_map)? == 0 {
                    Err(Error::NoneInModule)
                } else {
                    self.field(entry, layout.entry_generation)
                };
            }
            number -= length;
            list = self.field(list, layout.list_next)?;
        }
        Err(Error::NoneInModule)
    }

    fn word(&self, address: u64) -> Result<u64, Error> {
        let address = self.fitting(address);
        self.abi
            .read::<1>(self.memory, address)
            .map(|[word]| word)
            .ok_or(Error::Unreadable(Address(address)))
    }

    fn field(&self, structure: u64, field: Field) -> Result<u64, Error> {
        let address = self.fitting(structure.wrapping_add(u64::from(field.offset)));
        let unreadable = Error::Unreadable(Address(address));
        match field.bits {
            32 => self
                .memory
                .read_array(address)
                .map(|bytes| u64::from(u32::from_le_bytes(bytes))),
            64 => self.memory.read_u64(address),
            _ => return Err(Error::UnknownLibrary),
        }
        .ok_or(unreadable)
    }

    /// The layout, if the library that describes it is loaded.
    fn layout(&self) -> Result<Layout, Error> {
        let modules = modules::all(self.dynamic_linker, self.memory, self.thread)
            .map_err(|_| Error::UnknownLibrary)?;
        let mut lists = None;
        let mut descriptors = None;
        for module in &modules {
            if std::fs::metadata(&module.file).map_or(true, |file| file.len() > MAX_FILE) {
                continue;
            }
            let Ok(bytes) = std::fs::read(&module.file) else {
                continue;
            };
            let Ok(object) = object::File::parse(bytes.as_slice()) else {
                continue;
            };
            let find = |name: &str| {
                object
                    .dynamic_symbols()
                    .chain(object.symbols())
                    .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
                    .map(|symbol| module.load_bias.wrapping_add(symbol.address()))
            };
            lists = lists.or_else(|| find("_rtld_global"));
            if descriptors.is_none() && find("_thread_db_pthread_dtvp").is_some() {
                descriptors = self.descriptors(&find);
            }
        }
        let (lists, (layout, first)) = lists.zip(descriptors).ok_or(Error::UnknownLibrary)?;
        Ok(Layout {
            lists: lists.wrapping_add(u64::from(first.offset)),
            ..layout
        })
    }

    /// The layout from the library's constants, and where in the dynamic linker's variables the lists of modules are.
    fn descriptors(&self, find: &dyn Fn(&str) -> Option<u64>) -> Option<(Layout, Field)> {
        let field = |name: &str| -> Option<Field> {
            let address = find(&format!("_thread_db_{name}"))?;
            // Size in bits, number of elements, offset.
            let [bits, _, offset] = Abi::Bits32.read(self.memory, address)?;
            Some(Field {
                bits: bits as u32,
                offset: offset as u32,
            })
        };
        let size = find("_thread_db_sizeof_dtv_slotinfo")?;
        let [entry_size] = Abi::Bits32.read(self.memory, size)?;
        let layout = Layout {
            lists: 0,
            list_length: field("dtv_slotinfo_list_len")?,
            list_next: field("dtv_slotinfo_list_next")?,
            list_entries: field("dtv_slotinfo_list_slotinfo")?,
            entry_size,
            entry_generation: field("dtv_slotinfo_gen")?,
            entry_map: field("dtv_slotinfo_map")?,
            map_module: field("link_map_l_tls_modid")?,
            map_offset: field("link_map_l_tls_offset")?,
            thread_table: field("pthread_dtvp")?,
            table: field("dtv_dtv")?,
            block: field("dtv_t_pointer_val")?,
        };
        Some((layout, field("rtld_global__dl_tls_dtv_slotinfo_list")?))
    }
}
