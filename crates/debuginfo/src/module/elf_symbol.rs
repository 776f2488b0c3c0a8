//! The symbols of the ELF symbol tables: what is known without debug information.

use object::elf::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_TLS};
use object::{Object, ObjectSymbol, SymbolFlags};
use tracewire_arch::Architecture;

use super::image::Image;
use super::{go, mini_debug};

/// What a symbol names.
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
#[derive(Clone, Debug)]
pub(crate) struct ElfSymbol {
    pub(crate) name: Box<str>,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: ElfSymbolKind,
    pub(crate) local: bool,
    /// A name in the code without type and size: the start of a function in assembler code, or a label in one.
    pub(crate) label: bool,
    section: u16,
}

/// The defined symbols of a module, by address.
#[derive(Debug, Default)]
pub(crate) struct ElfSymbols {
    symbols: Vec<ElfSymbol>,
    /// Indices into `symbols`, by name.
    by_name: Vec<u32>,
}

impl ElfSymbols {
    /// Reads `.symtab` (of the debug file where the program was stripped, else of `.gnu_debugdata`) and `.dynsym`, and the functions
    /// that the runtime of a stripped Go program knows.
    pub(crate) fn read(image: &Image, debug: Option<&Image>) -> Self {
        let mut symbols = Vec::new();
        let is_stripped = !image.has_bytes(".symtab") && debug.is_none();
        let inner = is_stripped.then(|| mini_debug::read(image)).flatten();
        for source in [Some(image), debug, inner.as_ref()].into_iter().flatten() {
            let Ok(file) = object::File::parse(&*source.bytes) else {
                continue;
            };
            symbols.extend(file.symbols().filter_map(|symbol| read(image, &symbol)));
            symbols.extend(
                file.dynamic_symbols()
                    .filter_map(|symbol| read(image, &symbol)),
            );
        }
        if is_stripped {
            symbols.extend(go::functions(image).into_iter().filter_map(|function| {
                let section = section_at(image, function.address)?;
                Some(ElfSymbol {
                    name: function.name.into(),
                    address: function.address,
                    size: function.size,
                    kind: ElfSymbolKind::Function,
                    local: true,
                    label: false,
                    section: u16::try_from(section).ok()?,
                })
            }));
        }
        // GDB orders several names at one address by their bytes, and takes the last.
        let key = |symbol: &ElfSymbol| (symbol.kind == ElfSymbolKind::ThreadLocal, symbol.address);
        symbols.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
        let mut seen = std::collections::HashSet::new();
        symbols.retain(|symbol: &ElfSymbol| seen.insert((symbol.name.clone(), symbol.address)));
        let mut by_name: Vec<u32> = (0..u32::try_from(symbols.len()).unwrap_or(u32::MAX)).collect();
        by_name.sort_by(|&a, &b| name_of(&symbols, a).cmp(name_of(&symbols, b)));
        Self { symbols, by_name }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ElfSymbol> {
        self.symbols.iter()
    }

    /// The symbols of exactly that name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &ElfSymbol> {
        let start = self
            .by_name
            .partition_point(|&index| name_of(&self.symbols, index) < name);
        let end = self
            .by_name
            .partition_point(|&index| name_of(&self.symbols, index) <= name);
        self.by_name
            .get(start..end)
            .unwrap_or(&[])
            .iter()
            .filter_map(|&index| self.symbols.get(index as usize))
    }

    /// The symbol that covers a link-time address, as GDB's `lookup_minimal_symbol_by_pc_section` prefers: the
    /// last that starts at or before it, but a global function before the local one that follows it at its address; one that
    /// has a size before one that has none; none if the address is past the end of a symbol with a size.
    pub(crate) fn covering(&self, image: &Image, address: u64) -> Option<&ElfSymbol> {
        let section = u16::try_from(section_at(image, address)?).ok()?;
        let end = self.symbols.partition_point(|symbol| {
            symbol.kind != ElfSymbolKind::ThreadLocal && symbol.address <= address
        });
        let mut without_size = None;
        let mut candidates = self
            .symbols
            .get(..end)?
            .iter()
            .rev()
            .filter(|symbol| symbol.section == section)
            .peekable();
        while let Some(symbol) = candidates.next() {
            if symbol.size == 0 {
                without_size = without_size.or(Some(symbol));
                continue;
            }
            let covers = |symbol: &ElfSymbol| address - symbol.address < symbol.size;
            if !covers(symbol)
                && candidates
                    .peek()
                    .is_some_and(|previous| previous.size > 0 && covers(previous))
            {
                continue;
            }
            if !covers(symbol) {
                return without_size;
            }
            let is_global = |previous: &&&ElfSymbol| {
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
    pub(crate) fn end_of(&self, symbol: &ElfSymbol) -> u64 {
        if symbol.size > 0 {
            return symbol.address.saturating_add(symbol.size);
        }
        let next = self
            .symbols
            .partition_point(|other| other.address <= symbol.address);
        self.symbols
            .get(next)
            .map_or(u64::MAX, |other| other.address)
    }
}

/// The section that is loaded where an address is.
fn section_at(image: &Image, address: u64) -> Option<usize> {
    image.sections.iter().position(|section| {
        section.allocated && address >= section.address && address - section.address < section.size
    })
}

fn name_of(symbols: &[ElfSymbol], index: u32) -> &str {
    symbols
        .get(index as usize)
        .map_or("", |symbol| &*symbol.name)
}

fn read<'data>(image: &Image, symbol: &impl ObjectSymbol<'data>) -> Option<ElfSymbol> {
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
            // A symbol may stand at the end of its section (`_end`).
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
        name: name.into(),
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

/// Where the code of a function is that a symbol or a pointer has the address of: on Arm and MIPS bit 0 says which
/// instruction set the code is of (Thumb, MIPS16 or microMIPS), and is not part of the address.
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
