//! The end of a function's prologue, as GDB 13 finds it, so that a tracepoint on a function sees its arguments where GDB's would.
//!
//! There are three sources, in this order. A line table entry that the compiler marked as the prologue's end (LLVM does) is used.
//! Code of GCC with location lists needs no skipping, because its variables have places from the first instruction on. Otherwise
//! the first instructions are examined: after a frame set-up (`push %rbp; mov %rsp,%rbp`) the tracepoint goes to the start of the
//! next line.

use std::sync::Arc;

use tracewire_arch::Architecture;

use super::code::{self, Code};
use crate::dwarf::block::BlockTree;
use crate::dwarf::line::{LineEntry, LinePlace, LineTable};
use crate::module::{ElfSymbol, Module};

/// Finds the ends of prologues in a module; addresses are link-time ones.
pub(crate) struct Prologue<'a> {
    pub(crate) module: &'a Module,
}

/// A place in the line table of a unit.
pub(crate) struct UnitPlace {
    pub(crate) unit: usize,
    pub(crate) lines: Arc<LineTable>,
    pub(crate) place: LinePlace,
}

impl UnitPlace {
    fn entries(&self) -> &[LineEntry] {
        self.lines
            .files
            .get(self.place.file)
            .map_or(&[], |file| &file.entries)
    }

    pub(crate) fn file_name(&self) -> Option<&str> {
        Some(&self.lines.files.get(self.place.file)?.name)
    }

    fn is_assembler(&self, module: &Module) -> bool {
        module.debug().facts(self.unit).assembler
            || self
                .file_name()
                .is_some_and(|name| [".s", ".S", ".sx"].iter().any(|end| name.ends_with(end)))
    }
}

/// A function with debug information, or a symbol.
struct Start<'a> {
    entry: u64,
    end: u64,
    /// The unit and its blocks, for a function with debug information.
    unit: Option<(usize, Arc<BlockTree>)>,
    symbol: Option<ElfSymbol<'a>>,
}

impl<'a> Prologue<'a> {
    pub(crate) const fn new(module: &'a Module) -> Self {
        Self { module }
    }

    /// The line that covers an address: GDB's `find_pc_sect_line`.
    pub(crate) fn line_at(&self, address: u64) -> Option<UnitPlace> {
        let debug = self.module.debug();
        let unit = debug.unit_at(address)?;
        let lines = debug.lines(unit);
        let mut place = lines.place(address)?;
        if place.end.is_none() {
            place.end = debug
                .blocks(unit)
                .function_ranges()
                .map(|range| range.1)
                .max();
        }
        Some(UnitPlace { unit, lines, place })
    }

    /// Where a tracepoint on the function or the inlined copy goes that starts at `entry`: GDB's
    /// `find_function_start_sal`.
    pub(crate) fn function_start(&self, entry: u64) -> u64 {
        if let Some(line) = self.line_at(entry)
            && (self.locations_valid(line.unit) || line.is_assembler(self.module))
        {
            return entry;
        }
        self.skip(entry)
    }

    /// Whether variables have places from the first instruction of a function on.
    fn locations_valid(&self, unit: usize) -> bool {
        let debug = self.module.debug();
        gcc_at_least_4_5(&debug.facts(unit).producer) && debug.blocks(unit).has_location_lists
    }

    /// The function that an address is in.
    fn start(&self, address: u64) -> Option<Start<'a>> {
        let debug = self.module.debug();
        let symbol = self.module.elf_symbol_at(address);
        if let Some(unit) = debug.unit_at(address) {
            let tree = debug.blocks(unit);
            if let Some(function) = tree
                .function_at(address)
                .and_then(|index| tree.block(index))
            {
                return Some(Start {
                    entry: function.entry(),
                    end: function.end(),
                    symbol,
                    unit: Some((unit, Arc::clone(&tree))),
                });
            }
        }
        symbol.map(|symbol| Start {
            entry: symbol.address,
            end: self.module.elf_symbols().end_of(&symbol),
            unit: None,
            symbol: Some(symbol),
        })
    }

    /// The addresses of a function: the range that has the address, of a function in several pieces. GDB's
    /// `find_pc_partial_function`.
    fn partial_function(&self, address: u64) -> Option<(u64, u64)> {
        let start = self.start(address)?;
        if let Some((_, tree)) = &start.unit
            && start
                .symbol
                .is_none_or(|symbol| start.entry >= symbol.address)
        {
            let function = tree.block(tree.function_at(address)?)?;
            return function
                .ranges
                .iter()
                .copied()
                .find(|&(low, high)| low <= address && address < high);
        }
        let symbol = start.symbol?;
        Some((symbol.address, self.module.elf_symbols().end_of(&symbol)))
    }

    /// Moves an address that is in the prologue of its function past it: GDB's `skip_prologue_sal`.
    pub(crate) fn skip(&self, address: u64) -> u64 {
        let Some(start) = self.start(address) else {
            return address;
        };
        let skipped = if let Some(end) = self.marked_end(start.entry) {
            end
        } else if start
            .unit
            .as_ref()
            .is_some_and(|(unit, _)| self.locations_valid(*unit))
        {
            start.entry
        } else {
            self.analyzed_end(&start)
        };
        if address >= skipped { address } else { skipped }
    }

    /// The first line of a function that the compiler marked as the end of the prologue.
    fn marked_end(&self, entry: u64) -> Option<u64> {
        let (low, high) = self.partial_function(entry)?;
        let line = self.line_at(low)?;
        if line.is_assembler(self.module) {
            return None;
        }
        let entries = line.entries();
        let first = entries.partition_point(|entry| entry.address < low);
        entries
            .get(first..)?
            .iter()
            // GDB 13 takes the mark of the next function, too, where the functions lie close together.
            .take_while(|entry| entry.address < high)
            .find(|entry| entry.prologue_end)
            .map(|entry| entry.address)
    }

    /// The end that the instructions and the line table together suggest.
    fn analyzed_end(&self, start: &Start<'_>) -> u64 {
        let end = self.machine_end(start.entry);
        let Some(line) = self.line_at(end) else {
            return end;
        };
        let (Some(line_end), true) = (line.place.end, line.place.start != end) else {
            return end;
        };
        // Within a line, whose successor still belongs to the function.
        let within = if start.unit.is_some() {
            start.entry <= line_end && line_end < start.end
        } else {
            let symbol = |address| {
                self.module
                    .elf_symbol_at(address)
                    .map(|symbol| symbol.address)
            };
            symbol(line_end) == symbol(end)
        };
        if within { line_end } else { end }
    }

    /// The end by the machine's own rules: GDB's `gdbarch_skip_prologue`.
    fn machine_end(&self, entry: u64) -> u64 {
        let architecture = self.module.info.architecture;
        if !matches!(architecture, Architecture::X86_64 | Architecture::I386) {
            // Only the line table is used; the instructions of other machines are not examined.
            return self.end_by_lines(entry).map_or(entry, |end| end.max(entry));
        }
        if let Some((low, _)) = self.partial_function(entry)
            && let Some(end) = self.end_by_lines(low)
            && let Some(unit) = self.module.debug().unit_at(low)
            && trusts_lines(&self.module.debug().facts(unit).producer)
        {
            return entry.max(end);
        }
        let code = Code::new(self.module.image());
        if architecture == Architecture::I386 {
            return code::i386::prologue_end(code, entry).unwrap_or(entry);
        }
        match code::x86_64::prologue_end(code, entry) {
            Some(end) => self.skip_vector_saves(code, end, entry),
            None => entry,
        }
    }

    /// The end of the prologue by only the line table: GDB's `skip_prologue_using_sal`.
    fn end_by_lines(&self, entry: u64) -> Option<u64> {
        let (low, high) = self.partial_function(entry)?;
        let first = self.line_at(low)?;
        if !first.is_assembler(self.module) {
            // Two lines at one address: a prologue without instructions.
            let entries = first.entries();
            let index = entries
                .iter()
                .position(|entry| entry.address == first.place.start && entry.line != 0)?;
            if entries
                .get(index + 1)
                .is_some_and(|next| next.line != 0 && next.address == low)
            {
                return Some(low);
            }
        }
        let mut current = first;
        let mut end = current.place.end?;
        // One line that is the whole function.
        if end >= high {
            return None;
        }
        while end < high {
            let Some(next) = self.line_at(end) else {
                break;
            };
            if next.place.line >= current.place.line
                || next.file_name() != current.file_name()
                || self.is_inlined(end)
            {
                break;
            }
            // Instructions of the body that the optimizer moved up.
            let Some(next_end) = next.place.end.filter(|&next_end| next_end > end) else {
                break;
            };
            (current, end) = (next, next_end);
        }
        Some(if end < high { end } else { current.place.start })
    }

    fn is_inlined(&self, address: u64) -> bool {
        use crate::dwarf::block::BlockKind;
        let debug = self.module.debug();
        let Some(unit) = debug.unit_at(address) else {
            return false;
        };
        let tree = debug.blocks(unit);
        let Some(block) = tree.block_at(address) else {
            return false;
        };
        tree.outwards(block)
            .filter_map(|index| tree.block(index))
            .any(|block| block.kind == BlockKind::Inlined)
    }

    /// A variadic function saves the vector registers after a conditional jump; GCC's line table has an entry in the middle of it.
    /// GDB's `amd64_skip_xmm_prologue`.
    fn skip_vector_saves(&self, code: Code<'_>, end: u64, entry: u64) -> u64 {
        let skipped = || {
            if end == entry {
                return None;
            }
            let first = self.line_at(entry)?;
            let producer = &self.module.debug().facts(first.unit).producer;
            if !gcc_at_least_4_6(producer) || first.place.start != entry || end >= first.place.end?
            {
                return None;
            }
            let next = self.line_at(first.place.end?)?;
            if next.place.line != first.place.line
                || !code::x86_64::saves_vectors(code, next.place.start.checked_sub(4)?)
            {
                return None;
            }
            next.place.end
        };
        skipped().unwrap_or(end)
    }
}

/// The version of GCC that a producer is: (major, minor).
fn gcc_version(producer: &str) -> Option<(u32, u32)> {
    let rest = producer.strip_prefix("GNU ")?;
    // `GNU C17 12.2.0 -O2 …`, `GNU C++14 12.2.0 …`, `GNU C 4.8.5 …`: the first word with a digit in front.
    let version = rest
        .split_whitespace()
        .skip(1)
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = version.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().and_then(|minor| minor.parse().ok());
    Some((major, minor.unwrap_or(0)))
}

fn gcc_at_least_4_5(producer: &str) -> bool {
    gcc_version(producer).is_some_and(|version| version >= (4, 5))
}

fn gcc_at_least_4_6(producer: &str) -> bool {
    gcc_version(producer).is_some_and(|version| version >= (4, 6))
}

/// Whether the compiler's line table marks prologues well: LLVM's does, and so GDB trusts it.
fn trusts_lines(producer: &str) -> bool {
    producer.starts_with("clang ") || producer.starts_with(" F90 Flang ")
}
