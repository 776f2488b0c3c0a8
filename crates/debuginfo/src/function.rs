//! Functions, and the source places of addresses.

use gimli::constants;
use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::block::{Block, BlockKind};
use crate::dwarf::index::NameKind;
use crate::dwarf::{DebugInformation, Die, Entry, Value};
use crate::location::{CallerPlace, Function, SourcePlace};
use crate::module::{ElfSymbolKind, Module, demangle};
use crate::modules::Modules;
use crate::types::Types;

/// The functions of a program.
#[derive(Clone, Copy)]
pub(crate) struct Functions<'a> {
    types: Types<'a>,
}

impl<'a> Functions<'a> {
    pub(crate) const fn new(types: Types<'a>) -> Self {
        Self { types }
    }

    /// The (not inlined) function that an address is in.
    pub(crate) fn at(self, pc: Address) -> Option<Function> {
        let modules = self.types.modules();
        if let Some(place) = CodePlace::at(modules, pc)
            && let Some(function) = place.function()
        {
            return self.function(place.module, place.die(function));
        }
        let module = modules.at(pc)?;
        let symbol = module.elf_symbol_at(module.unbiased(pc))?;
        Some(symbol_function(module, &symbol))
    }

    /// Every function with debug information, and every function symbol without.
    pub(crate) fn all(self) -> Vec<Function> {
        let mut functions = Vec::new();
        for module in self.types.modules().iter() {
            let debug = module.debug();
            let mut known = std::collections::HashSet::new();
            for name in debug.index().iter() {
                if name.kind == NameKind::Function
                    && let Some(function) = self.function(module, name.die())
                {
                    known.insert(module.unbiased(function.entry));
                    functions.push(function);
                }
            }
            functions.extend(
                module
                    .elf_symbols()
                    .iter()
                    .filter(|symbol| symbol.kind == ElfSymbolKind::Function)
                    .filter(|symbol| !demangle::is_part(symbol.name))
                    .filter(|symbol| !known.contains(&symbol.address))
                    .filter(|symbol| !is_inside(module, symbol))
                    .map(|symbol| symbol_function(module, &symbol)),
            );
        }
        functions
    }

    /// The function that an entry describes; none if it has no code.
    fn function(self, module: &Module, die: Die) -> Option<Function> {
        let debug = module.debug();
        let entry = debug.entry(die)?;
        let ranges = debug.ranges(die.unit, &entry);
        let entry_address = ranges.first()?.0;
        let (file, line) = declared_by(debug, die.unit, &entry);
        Some(Function {
            name: name_of(debug, die, &entry)?,
            linkage_name: debug.linkage_name(die.unit, &entry),
            entry: module.biased(entry_address),
            ranges: ranges
                .iter()
                .map(|&(start, end)| (module.biased(start), module.biased(end)))
                .collect(),
            file,
            line,
            module: module.info.id,
            returns: Some(self.types.type_id_of(module, die.unit, &entry)),
            is_label: false,
        })
    }
}

/// The source place of an address; none when no module has it or nothing is known of it.
pub(crate) fn source_place(modules: &Modules, pc: Address) -> Option<SourcePlace> {
    let module = modules.at(pc)?;
    let address = module.unbiased(pc);
    let symbol = module.elf_symbol_at(address);
    let mut place = SourcePlace {
        function: symbol.map(|symbol| without_signature(&demangle::readable(symbol.name))),
        file: None,
        line: 0,
        offset: symbol.map_or(0, |symbol| address.wrapping_sub(symbol.address)),
        module: module.info.id,
        callers: Vec::new(),
    };
    let code = CodePlace::at(modules, pc);
    if let Some(code) = &code {
        if let Some(line) = code.debug().lines(code.unit).place(address) {
            place.line = line.line;
            let lines = code.debug().lines(code.unit);
            place.file = lines.files.get(line.file).map(|file| file.name.clone());
        }
        describe(code, &mut place);
    }
    (place.function.is_some() || place.file.is_some()).then_some(place)
}

fn symbol_function(module: &Module, symbol: &crate::module::ElfSymbol<'_>) -> Function {
    let readable = demangle::readable(symbol.name);
    let start = module.biased(symbol.address);
    let end = module.elf_symbols().end_of(symbol);
    Function {
        name: without_signature(&readable),
        linkage_name: (readable != *symbol.name).then(|| symbol.name.to_string()),
        entry: start,
        ranges: vec![(start, module.biased(end))],
        file: None,
        line: 0,
        module: module.info.id,
        returns: None,
        is_label: symbol.label,
    }
}

/// Whether a symbol is a label within a function that has a size.
fn is_inside(module: &Module, symbol: &crate::module::ElfSymbol<'_>) -> bool {
    symbol.label
        && module
            .elf_symbol_at(symbol.address)
            .is_some_and(|around| around.kind == ElfSymbolKind::Function && around.size > 0)
}

/// A readable name without its parameters.
fn without_signature(name: &str) -> String {
    crate::dwarf::name::without_parameters(name).to_owned()
}

/// Names the function of a place and those it was inlined into.
fn describe(code: &CodePlace<'_>, place: &mut SourcePlace) {
    let Some(innermost) = code.block else {
        return;
    };
    if let Some(function) = code.function() {
        place.offset = code.address.wrapping_sub(function.entry());
    }
    let mut call: Option<(Option<String>, u64)> = None;
    for index in code.tree.outwards(innermost) {
        let Some(block) = code.tree.block(index) else {
            break;
        };
        if block.kind == BlockKind::Lexical {
            continue;
        }
        let name = block_name(code.debug(), code.unit, block);
        match call.take() {
            None => place.function = name.or_else(|| place.function.take()),
            Some((file, line)) => place.callers.push(CallerPlace {
                function: name.unwrap_or_default(),
                file,
                line,
            }),
        }
        let file = block.call_file.and_then(|number| {
            let files = code.debug().file_names(code.unit);
            files.file(number).map(|file| file.name.clone())
        });
        call = Some((file, block.call_line));
    }
}

/// The name of the function that a block is of.
pub(crate) fn block_name(debug: &DebugInformation, unit: usize, block: &Block) -> Option<String> {
    let die = Die {
        unit,
        offset: block.offset,
    };
    match (block.kind, block.origin) {
        (BlockKind::Inlined, Some(origin)) => function_name(debug, origin),
        _ => function_name(debug, die),
    }
}

/// The name of a function as GDB shows it in a frame line.
pub(crate) fn function_name(debug: &DebugInformation, die: Die) -> Option<String> {
    name_of(debug, die, &debug.entry(die)?)
}

fn name_of(debug: &DebugInformation, die: Die, entry: &Entry) -> Option<String> {
    let language = debug.facts(die.unit).language;
    if !language.is_like_c() {
        let index = debug.index();
        if let Some(name) = index.at(die)
            && !name.is_empty()
        {
            return Some(index.qualified(debug, &name));
        }
    }
    debug.name(die.unit, entry)
}

/// The file of the function `main`: GDB's default for a line number without a file.
pub(crate) fn default_file(modules: &Modules) -> Option<String> {
    let (module, main) = modules.main()?;
    declared_at(module.debug(), main).0
}

/// Where an entry is declared.
pub(crate) fn declared_at(debug: &DebugInformation, die: Die) -> (Option<String>, u64) {
    match debug.entry(die) {
        Some(entry) => declared_by(debug, die.unit, &entry),
        None => (None, 0),
    }
}

fn declared_by(debug: &DebugInformation, unit: usize, entry: &Entry) -> (Option<String>, u64) {
    let number = |value: &Value| match value {
        gimli::AttributeValue::FileIndex(file) => Some(*file),
        other => other.udata_value(),
    };
    let file = debug
        .attribute_of(unit, entry, constants::DW_AT_decl_file)
        .and_then(|(unit, value)| {
            // The lines of a large unit take long to read.
            let files = debug.file_names(unit);
            Some(files.file(number(&value)?)?.name.clone())
        });
    let line = debug
        .attribute_of(unit, entry, constants::DW_AT_decl_line)
        .and_then(|(_, value)| number(&value));
    (file, line.unwrap_or(0))
}
