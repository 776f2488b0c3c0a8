//! Functions by their names as tools print them: `nm -C`, `perf`, and the backtraces of Rust.

use crate::dwarf::Die;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{Pattern, squeezed, without_return_type};
use crate::location::ResolvedLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::types::Language;

use super::function::{at_symbol, best, copies, die_at_entry, function_entry};

/// How the compilers' names for closures begin in the debug information of Rust, where the readable names have `{{closure}}`.
const CLOSURE: &str = "{closure#";

/// How many names are compared with one that is not there.
const MOST_COMPARED: usize = 2000;

/// How near a name is that is suggested, at least.
const LEAST_NEARNESS: f64 = 0.8;

/// A name that a tool printed.
pub(super) struct Printed<'a> {
    squeezed: String,
    pattern: &'a Pattern,
    /// Whether it looks like a demangler's output. Others do not justify a search through all names.
    is_readable: bool,
}

impl<'a> Printed<'a> {
    pub(super) fn new(name: &str, pattern: &'a Pattern) -> Self {
        Self {
            squeezed: squeezed(without_return_type(name)),
            pattern,
            is_readable: name.contains(['(', '<', '{']) || name.contains("::"),
        }
    }

    /// The places of the functions of that name, inlined copies among them.
    pub(super) fn functions(&self, modules: &[&Module]) -> Vec<ResolvedLocation> {
        let mut found = Vec::new();
        for &module in modules {
            for symbol in self.symbols(module) {
                if demangle::is_part(symbol.name) {
                    continue;
                }
                found.push(at_symbol(module, &symbol));
                if let Some(die) = die_at_entry(module, symbol.address) {
                    found.extend(copies_of_function(module, die));
                }
            }
        }
        for location in &mut found {
            location.known_to_gdb = false;
        }
        found
    }

    /// The name of the function that has the part of this name.
    pub(super) fn whole_function(&self, modules: &[&Module]) -> Option<String> {
        modules.iter().find_map(|module| {
            let part =
                (self.symbols(module).into_iter()).find(|symbol| demangle::is_part(symbol.name))?;
            let whole = part.name.split('.').next()?;
            Some(demangle::readable(whole))
        })
    }

    /// The readable names of functions that are the most like this one, best first.
    pub(super) fn near(&self, modules: &[&Module]) -> Vec<String> {
        let Some(word) = self.pattern.word().filter(|_| self.is_readable) else {
            return Vec::new();
        };
        let finder = memchr::memmem::Finder::new(word);
        let names = modules.iter().flat_map(|module| {
            (module.elf_symbols().iter())
                .filter(|symbol| symbol.kind == ElfSymbolKind::Function)
                .filter(|symbol| finder.find(symbol.name.as_bytes()).is_some())
                .filter(|symbol| !demangle::is_part(symbol.name))
                .map(|symbol| symbol.name)
        });
        best(names.take(MOST_COMPARED).filter_map(|name| {
            let Some(readable) = demangle::demangle(name) else {
                // It may be the one: some names are beyond the demangler here.
                return name
                    .starts_with("_Z")
                    .then(|| (LEAST_NEARNESS, name.to_owned()));
            };
            let nearness = strsim::sorensen_dice(&self.squeezed, &squeezed(&readable));
            (nearness > LEAST_NEARNESS).then_some((nearness, readable))
        }))
    }

    /// The symbols of functions that are printed so.
    fn symbols<'m>(&self, module: &'m Module) -> Vec<ElfSymbol<'m>> {
        if !self.is_readable {
            return Vec::new();
        }
        let word = self.pattern.word().map(memchr::memmem::Finder::new);
        let found = self.symbols_if(module, &|name| {
            word.as_ref()
                .is_some_and(|word| word.find(name.as_bytes()).is_some())
        });
        if !found.is_empty() {
            return found;
        }
        // A linker's name has letters in place of the library's most usual names (`Sa` for `std::allocator`).
        self.symbols_if(module, &|name| {
            word.as_ref()
                .is_none_or(|word| word.find(name.as_bytes()).is_none())
        })
    }

    fn symbols_if<'m>(
        &self,
        module: &'m Module,
        may_be: &dyn Fn(&str) -> bool,
    ) -> Vec<ElfSymbol<'m>> {
        module
            .elf_symbols()
            .mangled()
            .filter(|symbol| symbol.kind == ElfSymbolKind::Function)
            .filter(|symbol| may_be(symbol.name))
            .filter(|symbol| demangle::reads(symbol.name, &self.squeezed))
            .collect()
    }
}

/// The inlined copies of a function with code.
fn copies_of_function(module: &Module, die: Die) -> Vec<ResolvedLocation> {
    let debug = module.debug();
    let origin = debug
        .entry(die)
        .and_then(|entry| debug.origin(die.unit, &entry));
    let Some(name) = crate::function::function_name(debug, die) else {
        return Vec::new();
    };
    [Some(die), origin]
        .into_iter()
        .flatten()
        .flat_map(|die| copies(module, die, &name))
        .collect()
}

/// The functions of Rust that a pattern names by their linker's names: in these a method has the path of its type, where the debug
/// information has `{impl#0}`, and a closure is `{{closure}}`.
pub(super) fn rust_functions(modules: &[&Module], pattern: &Pattern) -> Vec<ResolvedLocation> {
    let mut found = Vec::new();
    for &module in modules {
        let candidates: Vec<Name> = if pattern.base() == "{{closure}}" {
            let debug = module.debug();
            let mut units = 0..debug.unit_count();
            if !units.any(|unit| debug.facts(unit).language == Language::Rust) {
                continue;
            }
            let index = debug.index();
            index
                .iter()
                .filter(|name| index.text(name).starts_with(CLOSURE))
                .collect()
        } else {
            module.named(pattern.base())
        };
        for name in candidates {
            let debug = module.debug();
            let unit = name.die().unit;
            let is_function = matches!(name.kind, NameKind::Function | NameKind::AbstractFunction);
            if !is_function || debug.facts(unit).language != Language::Rust {
                continue;
            }
            let readable = debug
                .entry(name.die())
                .and_then(|entry| debug.linkage_name(unit, &entry))
                .and_then(|linkage_name| demangle::demangle(&linkage_name));
            if !readable.is_some_and(|readable| pattern.matches_rust(&readable)) {
                continue;
            }
            let qualified = debug.index().qualified(debug, &name);
            if name.kind == NameKind::Function {
                found.extend(function_entry(module, name.die(), &qualified));
            }
            found.extend(copies(module, name.die(), &qualified));
        }
    }
    found
}
