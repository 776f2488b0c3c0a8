//! The ELF symbol tables, which need no debug information.

use object::elf::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_TLS};
use object::{Object, ObjectSymbol, SymbolFlags};
use tracewire_arch::Architecture;

use super::image::{Image, code_address};
use super::kept::{Cache, Content, Kept, Key};
use super::{go, mini_debug};

/// Fewer symbols are read in the time that looking for a file takes, in bytes of their tables.
const SMALLEST: u64 = if cfg!(fuzzing) { 0 } else { 128 << 10 };

/// The kind of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ElfSymbolKind {
    Function,
    /// A GNU indirect function: the code at its address chooses the real one.
    IndirectFunction,
    Data,
    /// Its value is an offset into the thread-local segment.
    ThreadLocal,
}

/// One defined symbol; addresses are link-time ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElfSymbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: ElfSymbolKind,
    pub(crate) local: bool,
    /// A name in the code without type and size: the start of a function in assembler code, or a label in one.
    pub(crate) label: bool,
    section: u16,
}

/// The defined symbols of a module, by address, in the stored form: their number, an entry for each, their indices in the order of
/// their names, and the names.
#[derive(Debug)]
pub(crate) struct ElfSymbols {
    table: Kept,
    count: usize,
}

/// The length of a symbol in the table: its address (8 bytes), its size (8), where its name begins in the names (4) and how long it
/// is (4), its section (2), its kind (1), what else it is (1), and 4 bytes of nothing.
const ENTRY: usize = 32;

/// The length of the number of symbols before them, with 4 bytes of nothing.
const HEADER: usize = 8;

/// Bits for the kind of a symbol.
const LOCAL: u8 = 1;
const LABEL: u8 = 2;

impl ElfSymbols {
    /// The symbols that were kept, else those of the files, which are then kept.
    pub(crate) fn get(image: &Image, debug: Option<&Image>, cache: Option<&Cache>) -> Self {
        let key = cache
            .filter(|_| is_large(image, debug))
            .and_then(|cache| Key::new(cache, Content::Symbols, image, debug));
        if let Some(kept) = key.as_ref().and_then(Key::load).and_then(Self::of_table) {
            return kept;
        }
        let read = Self::read(image, debug);
        if let Some(key) = key {
            key.store(read.table.content());
        }
        read
    }

    /// Reads `.symtab` (of the debug file if the program was stripped, else of `.gnu_debugdata`) and `.dynsym`, and the function
    /// table of a stripped Go program's runtime.
    fn read(image: &Image, debug: Option<&Image>) -> Self {
        let is_stripped = !image.has_bytes(".symtab") && debug.is_none();
        let inner = is_stripped.then(|| mini_debug::read(image)).flatten();
        let files: Vec<object::File<'_>> = [Some(image), debug, inner.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|source| object::File::parse(&*source.bytes).ok())
            .collect();
        let go_functions = if is_stripped {
            go::functions(image)
        } else {
            Vec::new()
        };
        let mut symbols = Vec::new();
        for file in &files {
            symbols.extend(file.symbols().filter_map(|symbol| read(image, &symbol)));
            symbols.extend(
                file.dynamic_symbols()
                    .filter_map(|symbol| read(image, &symbol)),
            );
        }
        symbols.extend(go_functions.iter().filter_map(|function| {
            let section = section_at(image, function.address)?;
            Some(ElfSymbol {
                name: &function.name,
                address: function.address,
                size: function.size,
                kind: ElfSymbolKind::Function,
                local: true,
                label: false,
                section: u16::try_from(section).ok()?,
            })
        }));
        Self::of(symbols)
    }

    fn of(mut symbols: Vec<ElfSymbol<'_>>) -> Self {
        // GDB orders several names at one address by their bytes, and takes the last.
        fn key<'a>(symbol: &ElfSymbol<'a>) -> (bool, u64, &'a str) {
            (
                symbol.kind == ElfSymbolKind::ThreadLocal,
                symbol.address,
                symbol.name,
            )
        }
        symbols.sort_by(|a, b| key(a).cmp(&key(b)));
        symbols.dedup_by(|a, b| key(a) == key(b));
        // No file is so large that it has more, or longer names.
        symbols.truncate(u32::MAX as usize);
        let mut by_name: Vec<u32> = (0..).zip(&symbols).map(|(index, _)| index).collect();
        by_name.sort_by_key(|&index| symbols.get(index as usize).map_or("", |symbol| symbol.name));
        let count = symbols.len();
        let mut table = Vec::with_capacity(HEADER + count * (ENTRY + 4));
        table.extend((count as u64).to_le_bytes());
        let mut names = Vec::new();
        for symbol in &symbols {
            table.extend(symbol.address.to_le_bytes());
            table.extend(symbol.size.to_le_bytes());
            let place = [names.len(), symbol.name.len()];
            table.extend(
                place
                    .map(|number| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes())
                    .as_flattened(),
            );
            table.extend(symbol.section.to_le_bytes());
            table.push(symbol.kind as u8);
            let bit = |is_set, bit| if is_set { bit } else { 0 };
            table.push(bit(symbol.local, LOCAL) | bit(symbol.label, LABEL));
            table.extend([0; 4]);
            names.extend_from_slice(symbol.name.as_bytes());
        }
        table.extend(by_name.iter().flat_map(|index| index.to_le_bytes()));
        table.append(&mut names);
        Self {
            table: table.into(),
            count,
        }
    }

    /// A table that was kept, if it can be one.
    fn of_table(table: Kept) -> Option<Self> {
        let (count, rest) = table.content().split_first_chunk::<HEADER>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let is_there = count.checked_mul(ENTRY + 4)? <= rest.len();
        is_there.then_some(Self { table, count })
    }

    fn entries(&self) -> &[[u8; ENTRY]] {
        let end = HEADER + self.count * ENTRY;
        let entries = self.table.content().get(HEADER..end).unwrap_or(&[]);
        entries.as_chunks().0
    }

    /// Indices of the symbols, by their names.
    fn by_name(&self) -> &[[u8; 4]] {
        let start = HEADER + self.count * ENTRY;
        let end = start + self.count * 4;
        self.table
            .content()
            .get(start..end)
            .unwrap_or(&[])
            .as_chunks()
            .0
    }

    /// A symbol; one that is damaged has no name.
    fn symbol(&self, entry: &[u8; ENTRY]) -> ElfSymbol<'_> {
        let number = |at: usize| {
            let bytes = entry.get(at..).and_then(<[u8]>::first_chunk);
            u64::from_le_bytes(bytes.copied().unwrap_or_default())
        };
        let (name, [section @ .., kind, what, _, _, _, _]) =
            (number(16), *entry.last_chunk::<8>().unwrap_or(&[0; 8]));
        let (start, length) = ((name & 0xffff_ffff) as usize, (name >> 32) as usize);
        let names = self
            .table
            .content()
            .get(HEADER + self.count * (ENTRY + 4)..);
        let name = names.and_then(|names| names.get(start..)?.get(..length));
        ElfSymbol {
            name: name
                .and_then(|name| std::str::from_utf8(name).ok())
                .unwrap_or(""),
            address: number(0),
            size: number(8),
            kind: match kind {
                0 => ElfSymbolKind::Function,
                1 => ElfSymbolKind::IndirectFunction,
                2 => ElfSymbolKind::Data,
                _ => ElfSymbolKind::ThreadLocal,
            },
            local: what & LOCAL != 0,
            label: what & LABEL != 0,
            section: u16::from_le_bytes(section),
        }
    }

    fn at(&self, index: usize) -> Option<ElfSymbol<'_>> {
        Some(self.symbol(self.entries().get(index)?))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = ElfSymbol<'_>> {
        self.entries().iter().map(|entry| self.symbol(entry))
    }

    /// The symbols of exactly that name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = ElfSymbol<'_>> {
        let at = |index: &[u8; 4]| self.at(u32::from_le_bytes(*index) as usize);
        let name_of = move |index: &[u8; 4]| at(index).map_or("", |symbol| symbol.name);
        let by_name = self.by_name();
        let start = by_name.partition_point(|index| name_of(index) < name);
        let end = by_name.partition_point(|index| name_of(index) <= name);
        by_name.get(start..end).unwrap_or(&[]).iter().filter_map(at)
    }

    /// The symbols whose names a C++ or a Rust compiler has mangled, by their addresses.
    pub(crate) fn mangled(&self) -> impl Iterator<Item = ElfSymbol<'_>> {
        let (by_name, entries) = (self.by_name(), self.entries());
        let index = |index: &[u8; 4]| u32::from_le_bytes(*index) as usize;
        let before = |end: &'static str| {
            by_name.partition_point(|at| self.at(index(at)).map_or("", |symbol| symbol.name) < end)
        };
        let mut mangled: Vec<usize> = [("_R", "_S"), ("_Z", "_[")]
            .iter()
            .filter_map(|(first, end)| by_name.get(before(first)..before(end)))
            .flatten()
            .map(index)
            .collect();
        mangled.sort_unstable();
        (mangled.into_iter()).filter_map(|index| Some(self.symbol(entries.get(index)?)))
    }

    /// The symbol that covers a link-time address, as GDB's `lookup_minimal_symbol_by_pc_section` prefers: the
    /// last that starts at or before it, but a global function before the local one that follows it at its address; one that
    /// has a size before one that has none; none if the address is past the end of a symbol with a size.
    pub(crate) fn covering(&self, image: &Image, address: u64) -> Option<ElfSymbol<'_>> {
        let section = u16::try_from(section_at(image, address)?).ok()?;
        let end = self.entries().partition_point(|entry| {
            let symbol = self.symbol(entry);
            symbol.kind != ElfSymbolKind::ThreadLocal && symbol.address <= address
        });
        let mut without_size = None;
        let mut candidates = self
            .entries()
            .get(..end)?
            .iter()
            .rev()
            .map(|entry| self.symbol(entry))
            .filter(|symbol| symbol.section == section)
            .peekable();
        while let Some(symbol) = candidates.next() {
            if symbol.size == 0 {
                without_size = without_size.or(Some(symbol));
                continue;
            }
            let covers = |symbol: &ElfSymbol<'_>| address - symbol.address < symbol.size;
            if !covers(&symbol)
                && candidates
                    .peek()
                    .is_some_and(|previous| previous.size > 0 && covers(previous))
            {
                continue;
            }
            if !covers(&symbol) {
                return without_size;
            }
            let is_global = |previous: &&ElfSymbol<'_>| {
                symbol.local
                    && !previous.local
                    && [symbol.kind, previous.kind] == [ElfSymbolKind::Function; 2]
                    && (previous.address, previous.size) == (symbol.address, symbol.size)
            };
            return candidates
                .peek()
                .filter(is_global)
                .copied()
                .or(Some(symbol));
        }
        without_size
    }

    /// Where the symbol that covers an address ends: at its size, or where the next one starts.
    pub(crate) fn end_of(&self, symbol: &ElfSymbol<'_>) -> u64 {
        if symbol.size > 0 {
            return symbol.address.saturating_add(symbol.size);
        }
        let next =
            (self.entries()).partition_point(|entry| self.symbol(entry).address <= symbol.address);
        self.at(next).map_or(u64::MAX, |other| other.address)
    }
}

/// The section that is loaded where an address is.
fn section_at(image: &Image, address: u64) -> Option<usize> {
    image.sections.iter().position(|section| {
        section.allocated && address >= section.address && address - section.address < section.size
    })
}

/// Whether it takes long to read the symbols.
fn is_large(image: &Image, debug: Option<&Image>) -> bool {
    const TABLES: [&str; 4] = [".symtab", ".dynsym", ".gnu_debugdata", ".gopclntab"];
    let sections = std::iter::once(image)
        .chain(debug)
        .flat_map(|file| TABLES.iter().filter_map(|name| file.section(name)));
    sections.map(|section| section.size).sum::<u64>() > SMALLEST
}

fn read<'data>(image: &Image, symbol: &impl ObjectSymbol<'data>) -> Option<ElfSymbol<'data>> {
    if symbol.is_undefined() {
        return None;
    }
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let symbol_type = st_info.st_type();
    let address = match symbol_type {
        STT_FUNC | STT_GNU_IFUNC => code_address(image.architecture, symbol.address()),
        _ => symbol.address(),
    };
    let thread_local = symbol_type == STT_TLS;
    let section = image.sections.iter().position(|section| {
        section.allocated
            && !thread_local
            && address >= section.address
            // A symbol may be at the end of its section (`_end`).
            && address - section.address <= section.size
            && (address - section.address < section.size || section.size == 0)
    });
    let executable = section
        .and_then(|index| image.sections.get(index))
        .is_some_and(|section| section.executable);
    let kind = match symbol_type {
        STT_FUNC => ElfSymbolKind::Function,
        STT_GNU_IFUNC => ElfSymbolKind::IndirectFunction,
        STT_NOTYPE if executable => ElfSymbolKind::Function,
        STT_NOTYPE | STT_OBJECT => ElfSymbolKind::Data,
        STT_TLS => ElfSymbolKind::ThreadLocal,
        _ => return None,
    };
    let name = symbol.name().ok()?;
    // `name@VERSION` and `name@@VERSION`.
    let name = name.split('@').next().filter(|name| !name.is_empty())?;
    if is_special(image.architecture, name) {
        return None;
    }
    Some(ElfSymbol {
        name,
        address,
        size: symbol.size(),
        kind,
        local: st_info.st_bind() == STB_LOCAL,
        label: symbol_type == STT_NOTYPE && executable && symbol.size() == 0,
        section: section
            .and_then(|index| u16::try_from(index).ok())
            .unwrap_or(u16::MAX),
    })
}

/// Whether a name is none of the program's: the mapping symbols of the Arm and RISC-V ELF specifications, which say
/// where code and data begin, and the labels that RISC-V's assembler leaves for the linker's relaxation.
fn is_special(architecture: Architecture, name: &str) -> bool {
    match architecture {
        Architecture::Arm | Architecture::ArmBig | Architecture::Aarch64 => {
            let mut rest = name.bytes();
            rest.next() == Some(b'$')
                && rest
                    .next()
                    .is_some_and(|letter| letter.is_ascii_lowercase())
                && matches!(rest.next(), None | Some(b'.'))
        }
        Architecture::Riscv32 | Architecture::Riscv64 => {
            let mapping = |name: &str| name.is_empty() || name.starts_with('.');
            name.starts_with(".L")
                || name.strip_prefix("$d").is_some_and(mapping)
                || name
                    .strip_prefix("$x")
                    .is_some_and(|rest| mapping(rest) || rest.starts_with("rv"))
        }
        _ => false,
    }
}
