//! Locations that name functions.

use std::collections::{HashMap, HashSet};

use gimli::constants;

use crate::dwarf::block::{Block, BlockKind, BlockTree};
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{Pattern, without_parameters, without_return_type};
use crate::dwarf::{DebugInformation, Die};
use crate::error::LocationError;
use crate::location::ResolvedLocation;
use crate::lookup::elf_symbols_named;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::scope::Scope;
use crate::types::Language;

use super::prologue::Prologue;
use super::signature::Signatures;
use super::{Resolution, frame, readable};

const FUNCTIONS: &[NameKind] = &[NameKind::Function, NameKind::AbstractFunction];

/// How many similar names an error lists.
const MOST_NEAR: usize = 3;

impl Resolution<'_> {
    pub(crate) fn resolve_function(
        &self,
        name: &str,
        whole: bool,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let modules: Vec<&Module> = self.modules.iter().collect();
        self.resolve_function_in(&modules, name, whole)
    }

    /// `MODULE:FUNCTION`.
    pub(crate) fn resolve_in_modules(
        &self,
        modules: &[&Module],
        name: &str,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let mut found = self.resolve_function_in(modules, name, false)?;
        for location in &mut found {
            location.known_to_gdb = false;
        }
        Ok(found)
    }

    fn resolve_function_in(
        &self,
        modules: &[&Module],
        name: &str,
        whole: bool,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let name = without_version(name);
        let plain = without_return_type(name);
        let pattern = if whole {
            Pattern::new(&format!("::{}", plain.trim_start_matches("::")))
        } else {
            Pattern::new(plain)
        };
        // A linker's name is that of one function, which is looked for under its readable name.
        let linkage_name = demangle::demangle(name).map(|readable| (Pattern::new(&readable), name));
        let mut found = Vec::new();
        // GDB needs the whole name of a Rust function; here a part of it is enough if no function has that name.
        let mut partly = Vec::new();
        let mut indirect = false;
        let mut elsewhere = false;
        let signatures = Signatures::new(self.types);
        for &module in modules {
            let base = linkage_name
                .as_ref()
                .map_or(pattern.base(), |(pattern, _)| pattern.base());
            let named = module.named(base);
            let linked = (linkage_name.as_ref()).map(|(_, wanted)| linked(module, &named, wanted));
            for name in named {
                let debug = module.debug();
                if !FUNCTIONS.contains(&name.kind) {
                    continue;
                }
                if linked
                    .as_ref()
                    .is_some_and(|linked| !linked.contains(&name.die()))
                {
                    continue;
                }
                let qualified = debug.index().qualified(debug, &name);
                if linked.is_none() && !signatures.matches(module, &name, &qualified, &pattern) {
                    continue;
                }
                let rust = debug.facts(name.die().unit).language == Language::Rust;
                let places = if rust && linkage_name.is_none() && !pattern.is_exactly(&qualified) {
                    &mut partly
                } else {
                    &mut found
                };
                if name.kind == NameKind::Function {
                    places.extend(function_entry(module, name.die(), &qualified));
                }
                let copies = Copies::of(module, name.die(), &qualified);
                elsewhere |= copies.has_rest;
                places.extend(copies.places);
            }
            let symbols = elf_symbols_named(module, &pattern);
            let functions = symbols
                .into_iter()
                .filter(|symbol| symbol.kind == ElfSymbolKind::Function);
            for symbol in functions {
                let readable = demangle::readable(symbol.name);
                let function = without_parameters(&readable);
                if !demangle::is_rust(symbol.name) {
                    found.push(at_entry(module, symbol.address, function, None));
                } else if pattern.is_exactly(function) {
                    found.push(at_symbol(module, &symbol));
                } else {
                    partly.push(at_symbol(module, &symbol));
                }
            }
            for symbol in module.indirect_functions(name.trim_start_matches("::")) {
                indirect = true;
                for selected in self.selected.of(module.biased(symbol.address)) {
                    found.push(implementation(
                        module,
                        module.unbiased(selected),
                        symbol.name,
                    ));
                }
            }
        }
        if found.is_empty() {
            found = partly;
            if linkage_name.is_none() && (pattern.length() > 1 || name.starts_with('<')) {
                found.extend(readable::rust_functions(modules, &pattern));
            }
        }
        let printed = readable::Printed::new(name, &pattern);
        if found.is_empty() {
            found = printed.functions(modules);
        }
        // The debug information may have another name than the linkage name contains.
        if found.is_empty() && (linkage_name.is_some() || name.starts_with("_Z")) {
            let modules = modules.iter();
            found.extend(modules.flat_map(|module| with_linkage_name(module, name)));
        }
        // GDB resolves the name to all of its places, and reads the actions at each.
        elsewhere |= found.iter().any(|location| location.elsewhere_in_gdb);
        for location in &mut found {
            location.elsewhere_in_gdb |= elsewhere;
        }
        if !found.is_empty() {
            return Ok(found);
        }
        if indirect {
            return Err(LocationError::IndirectFunction {
                name: name.to_owned(),
            });
        }
        if let Some(function) = printed.whole_function(modules) {
            return Err(LocationError::PartOfFunction {
                name: name.to_owned(),
                function,
            });
        }
        let mut near = if self.suggestions.may_suggest() {
            printed.near(modules)
        } else {
            Vec::new()
        };
        if near.is_empty() {
            near = self.near_functions(&pattern);
        }
        Err(LocationError::NoFunction {
            name: name.to_owned(),
            searched: match modules {
                [module] => module.info.path.display().to_string(),
                _ => self.modules.searched(),
            },
            near,
        })
    }

    /// `FILE:FUNCTION`: the functions of the units that have the file; inlined copies are not among them (GDB's
    /// rule).
    pub(crate) fn resolve_in_file(
        &self,
        file: &str,
        function: &str,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let pattern = Pattern::new(function);
        let signatures = Signatures::new(self.types);
        let mut found = Vec::new();
        let mut file_found = false;
        for module in self.modules.iter() {
            let units = super::line::units_with_file(module, file);
            file_found |= !units.is_empty();
            for name in module.named(pattern.base()) {
                let debug = module.debug();
                if name.kind != NameKind::Function || !units.contains(&name.die().unit) {
                    continue;
                }
                let qualified = debug.index().qualified(debug, &name);
                if signatures.matches(module, &name, &qualified, &pattern) {
                    found.extend(function_entry(module, name.die(), &qualified));
                }
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        if !file_found {
            return Err(self.no_file(file));
        }
        Err(LocationError::NoFunctionInFile {
            name: function.to_owned(),
            file: file.to_owned(),
            near: self.near_functions(&pattern),
        })
    }

    /// Names of functions close to one that is not there.
    fn near_functions(&self, pattern: &Pattern) -> Vec<String> {
        if !self.suggestions.may_suggest() {
            return Vec::new();
        }
        let wanted = pattern.base();
        let mut near: Vec<(f64, String)> = Vec::new();
        for module in self.modules.iter() {
            near.extend(
                module
                    .debug()
                    .index()
                    .near(wanted, FUNCTIONS)
                    .map(|(nearness, name)| (nearness, name.to_owned())),
            );
            near.extend(
                module
                    .elf_symbols()
                    .iter()
                    .filter(|symbol| symbol.kind == ElfSymbolKind::Function)
                    .filter_map(|symbol| {
                        let nearness = crate::dwarf::nearness(wanted, symbol.name)?;
                        Some((nearness, symbol.name.to_string()))
                    }),
            );
        }
        best(near.into_iter())
    }
}

/// The best of some names, each once.
pub(crate) fn best(names: impl Iterator<Item = (f64, String)>) -> Vec<String> {
    let mut nearest: HashMap<String, f64> = HashMap::new();
    for (nearness, name) in names {
        let known = nearest.entry(name).or_insert(nearness);
        *known = known.max(nearness);
    }
    let mut sorted: Vec<(String, f64)> = nearest.into_iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted
        .into_iter()
        .take(MOST_NEAR)
        .map(|(name, _)| name)
        .collect()
}

/// The entries among some that have a linker's name, and those that such entries complete: of a constructor that is only ever
/// inlined, the linker's name is given beside the entry that its copies come from.
fn linked(module: &Module, named: &[Name], wanted: &str) -> HashSet<Die> {
    let mut linked = HashSet::new();
    if named.is_empty() {
        return linked;
    }
    let debug = module.debug();
    for die in named.iter().map(Name::die) {
        let Some(entry) = debug.entry(die) else {
            continue;
        };
        if debug.linkage_name(die.unit, &entry).as_deref() == Some(wanted) {
            linked.insert(die);
            linked.extend(debug.origin(die.unit, &entry));
        }
    }
    linked
}

/// The places of the functions of a module that have a linker's name.
fn with_linkage_name(module: &Module, wanted: &str) -> Vec<ResolvedLocation> {
    let debug = module.debug();
    let mut found = Vec::new();
    for name in debug.functions_linked_as(wanted) {
        let die = name.die();
        let qualified = debug.index().qualified(debug, &name);
        if name.kind == NameKind::Function {
            found.extend(function_entry(module, die, &qualified));
        }
        found.extend(copies(module, die, &qualified));
    }
    found
}

/// The place of a function with code.
pub(super) fn function_entry(module: &Module, die: Die, name: &str) -> Option<ResolvedLocation> {
    let start = entry_address(module, die)?;
    Some(at_entry(module, start, name, Some(die)))
}

/// The link-time address of the first instruction of a function; none if it has no code.
pub(super) fn entry_address(module: &Module, die: Die) -> Option<u64> {
    let debug = module.debug();
    let entry = debug.entry(die)?;
    let &(start, _) = debug.ranges(die.unit, &entry).first()?;
    Some(start)
}

/// The places of the inlined copies of a function.
pub(super) fn copies(module: &Module, die: Die, name: &str) -> Vec<ResolvedLocation> {
    Copies::of(module, die, name).places
}

/// The inlined copies of a function.
struct Copies {
    places: Vec<ResolvedLocation>,
    /// Whether there are others, which are within the function itself. To GDB they are copies like all.
    has_rest: bool,
}

impl Copies {
    fn of(module: &Module, die: Die, name: &str) -> Self {
        let debug = module.debug();
        let mut places = Vec::new();
        let mut has_rest = false;
        for unit in debug.index().units_with_copies(die) {
            let tree = debug.blocks(unit);
            let copies = (tree.blocks.iter())
                .filter(|block| block.kind == BlockKind::Inlined && block.origin == Some(die));
            for copy in copies {
                if is_rest(debug, unit, &tree, copy) {
                    has_rest = true;
                    continue;
                }
                let location = at_entry(module, copy.entered_at(), name, Some(die));
                let of_gdb = Prologue::new(module).function_start(copy.entry());
                places.push(ResolvedLocation {
                    elsewhere_in_gdb: location.address != module.biased(of_gdb),
                    ..location
                });
            }
        }
        Self { places, has_rest }
    }
}

/// Whether a copy is of the rest that GCC has split off a function, and within the function's beginning: it is a copy of the
/// function in itself, called where the function is declared.
fn is_rest(debug: &DebugInformation, unit: usize, tree: &BlockTree, copy: &Block) -> bool {
    let Some(function) = copy.origin else {
        return false;
    };
    let around = copy.parent.and_then(|parent| {
        tree.outwards(parent)
            .filter_map(|index| tree.block(index))
            .find(|block| block.kind != BlockKind::Lexical)
    });
    let is_within_itself = around.is_some_and(|around| {
        let die = Die {
            unit,
            offset: around.offset,
        };
        // A destructor that deletes and the one in it are two functions of one origin.
        let is_variant = || {
            debug
                .entry(die)
                .is_some_and(|entry| entry.has_attr(constants::DW_AT_linkage_name))
        };
        die == function || around.origin == Some(function) && !is_variant()
    });
    let number = |die, name| Some(debug.attribute(die, name)?.1.udata_value());
    let call = Die {
        unit,
        offset: copy.offset,
    };
    is_within_itself
        && copy.call_line == crate::function::declared_at(debug, function).1
        && number(call, constants::DW_AT_call_column)
            == number(function, constants::DW_AT_decl_column)
}

/// The place of a function that a symbol is of, with the name that the debug information has for it.
pub(super) fn at_symbol(module: &Module, symbol: &ElfSymbol<'_>) -> ResolvedLocation {
    let named = die_at_entry(module, symbol.address)
        .and_then(|die| Some((die, crate::function::function_name(module.debug(), die)?)));
    match named {
        Some((die, name)) => at_entry(module, symbol.address, &name, Some(die)),
        None => {
            let readable = demangle::readable(symbol.name);
            at_entry(module, symbol.address, without_parameters(&readable), None)
        }
    }
}

/// The function that is entered at a link-time address.
pub(super) fn die_at_entry(module: &Module, address: u64) -> Option<Die> {
    let debug = module.debug();
    let unit = debug.unit_at(address)?;
    let tree = debug.blocks(unit);
    let function = tree.block(tree.function_at(address)?)?;
    (function.entry() == address).then_some(Die {
        unit,
        offset: function.offset,
    })
}

/// The place of the implementation that was selected for an indirect function.
pub(super) fn implementation(module: &Module, address: u64, indirect: &str) -> ResolvedLocation {
    let symbol = module.elf_symbol_at(address);
    let own = symbol.filter(|symbol| symbol.address == address);
    let name = own.map_or_else(
        || indirect.to_owned(),
        |symbol| demangle::readable(symbol.name),
    );
    ResolvedLocation {
        selected_for: Some(indirect.to_owned()),
        ..at_entry(module, address, without_parameters(&name), None)
    }
}

/// The place of a function or copy that starts at a link-time address; without its entry, of a symbol.
pub(super) fn at_entry(
    module: &Module,
    entry: u64,
    name: &str,
    die: Option<Die>,
) -> ResolvedLocation {
    let in_gdb = Prologue::new(module).function_start(entry);
    let mut address = in_gdb;
    let level = match die {
        None => frame::outermost(module, address),
        Some(die) => {
            let level = frame::of_function(module, address, die);
            if level == Scope::OUTSIDE && address != entry {
                // Past the prologue of the function that it was inlined into is outside of a copy that begins in it.
                address = entry;
                frame::of_function(module, entry, die)
            } else {
                level
            }
        }
    };
    ResolvedLocation {
        elsewhere_in_gdb: address != in_gdb,
        ..located(
            module,
            address,
            address != entry,
            Some(name.to_owned()),
            level,
        )
    }
}

/// A location at a link-time address. The line is that of the frame that the location means: where copies of other functions
/// begin there, the line of the call. GDB 13 has the innermost copy's, but for a prologue that was skipped.
pub(crate) fn located(
    module: &Module,
    address: u64,
    moved: bool,
    function: Option<String>,
    level: u32,
) -> ResolvedLocation {
    let line = Prologue::new(module).line_at(address);
    let (mut file, mut number) = line.as_ref().map_or((None, 0), |line| {
        (line.file_name().map(str::to_owned), line.place.line)
    });
    let call = match level {
        0 if moved => outermost_call(module, address),
        level => frame::call_line(module, address, level),
    };
    if let Some((call_file, call_line)) = call {
        (file, number) = (call_file, call_line);
    }
    ResolvedLocation {
        address: module.biased(address),
        function,
        level,
        file,
        line: number,
        module: module.info.id,
        known_to_gdb: true,
        selected_for: None,
        marker: None,
        elsewhere_in_gdb: false,
    }
}

/// Where the function is called whose inlined copy an address is in; of several the outermost.
fn outermost_call(module: &Module, address: u64) -> Option<(Option<String>, u64)> {
    let debug = module.debug();
    let unit = debug.unit_at(address)?;
    let tree = debug.blocks(unit);
    let outermost = tree
        .outwards(tree.block_at(address)?)
        .filter_map(|index| tree.block(index))
        .filter(|block| block.kind == BlockKind::Inlined)
        .last()?;
    let lines = debug.lines(unit);
    let file = outermost
        .call_file
        .and_then(|number| lines.file(number))
        .map(|file| file.name.clone());
    (outermost.call_line != 0).then_some((file, outermost.call_line))
}

/// A name without the version that `nm` prints after it: `memcpy@@GLIBC_2.14`.
fn without_version(name: &str) -> &str {
    match name.split_once('@') {
        Some((plain, version)) if !plain.is_empty() && !version.contains(' ') => plain.trim_end(),
        _ => name,
    }
}
