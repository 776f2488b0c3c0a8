//! Locations that name functions by a pattern.

use tracewire_model::Address;

use crate::dwarf::Die;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::line::names_file;
use crate::dwarf::name::{rust_path, without_parameters};
use crate::error::LocationError;
use crate::location::ResolvedLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};

use crate::types::Language;

use super::Resolution;
use super::name_pattern::NamePattern;

use super::function::{at_entry, copies, entry_address, function_entry, implementation};

/// The modules and source files in which a pattern is searched.
pub(crate) struct Where<'a> {
    pub(crate) modules: Vec<&'a Module>,
    /// Only functions that this file declares.
    pub(crate) file: Option<&'a str>,
}

/// A function that a pattern names.
enum Matching<'a> {
    /// By its entry of the debug information.
    Described {
        die: Die,
        /// Its qualified name.
        name: &'a str,
        /// Whether it has code of its own. Otherwise there are inlined copies at most.
        has_code: bool,
    },
    /// By its symbol.
    Symbol(ElfSymbol<'a>),
    /// What was selected for an indirect function: its link-time address, and the function's name.
    Selected(u64, &'a str),
}

impl<'a> Resolution<'a> {
    /// The places of all functions of a pattern, inlined copies among them. `within` is a source file or a module.
    pub(crate) fn resolve_pattern(
        &self,
        within: Option<&str>,
        pattern: &NamePattern,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let mut found = Vec::new();
        self.each_matching(within, pattern, &mut |module, matching| match matching {
            Matching::Described {
                die,
                name,
                has_code,
            } => {
                if has_code {
                    found.extend(function_entry(module, die, name));
                }
                found.extend(copies(module, die, name));
            }
            Matching::Symbol(symbol) => {
                let readable = demangle::readable(symbol.name);
                let name = without_parameters(&readable);
                found.push(at_entry(module, symbol.address, name, None));
            }
            Matching::Selected(address, indirect) => {
                found.push(implementation(module, address, indirect));
            }
        })?;
        if found.is_empty() {
            return Err(self.no_match(within, pattern));
        }
        for location in &mut found {
            location.known_to_gdb = false;
        }
        Ok(found)
    }

    /// The addresses of the first instructions of all functions of a pattern. Inlined copies have none.
    pub(super) fn entries_matching(
        &self,
        within: Option<&str>,
        pattern: &NamePattern,
    ) -> Result<Vec<Address>, LocationError> {
        let mut found = Vec::new();
        let mut is_inlined = false;
        self.each_matching(within, pattern, &mut |module, matching| {
            let address = match matching {
                Matching::Described { die, has_code, .. } => {
                    is_inlined |= !has_code;
                    has_code.then(|| entry_address(module, die)).flatten()
                }
                Matching::Symbol(symbol) => Some(symbol.address),
                Matching::Selected(address, _) => Some(address),
            };
            found.extend(address.map(|address| module.biased(address)));
        })?;
        match (found.is_empty(), is_inlined) {
            (false, _) => Ok(found),
            (true, true) => Err(LocationError::OnlyInlined {
                name: pattern.text().to_owned(),
            }),
            (true, false) => Err(self.no_match(within, pattern)),
        }
    }

    /// Gives out each function that a pattern names, by its debug information and by its symbol: most come twice.
    fn each_matching(
        &self,
        within: Option<&str>,
        pattern: &NamePattern,
        take: &mut dyn FnMut(&Module, Matching<'_>),
    ) -> Result<(), LocationError> {
        let place = self.places_named(within)?;
        for &module in &place.modules {
            functions_matching(module, &place, pattern, &mut |die, name, has_code| {
                let matching = Matching::Described {
                    die,
                    name,
                    has_code,
                };
                take(module, matching);
            });
            if place.file.is_some() {
                continue;
            }
            for symbol in module.elf_symbols().iter() {
                match symbol.kind {
                    ElfSymbolKind::Function if symbol_matches(pattern, &symbol) => {
                        take(module, Matching::Symbol(symbol));
                    }
                    ElfSymbolKind::IndirectFunction if pattern.matches(symbol.name) => {
                        for selected in self.selected.of(module.biased(symbol.address)) {
                            let address = module.unbiased(selected);
                            take(module, Matching::Selected(address, symbol.name));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn no_match(&self, within: Option<&str>, pattern: &NamePattern) -> LocationError {
        LocationError::NoMatch {
            pattern: pattern.text().to_owned(),
            searched: match within {
                Some(within) => within.to_owned(),
                None => self.modules.searched(),
            },
        }
    }

    /// The modules and files for the name of a source file or of a module; without one, all modules.
    pub(crate) fn places_named<'n>(
        &self,
        within: Option<&'n str>,
    ) -> Result<Where<'n>, LocationError>
    where
        'a: 'n,
    {
        let Some(name) = within else {
            return Ok(Where {
                modules: self.modules.iter().collect(),
                file: None,
            });
        };
        let with_file: Vec<&Module> = self
            .modules
            .iter()
            .filter(|module| !super::line::units_with_file(module, name).is_empty())
            .collect();
        if !with_file.is_empty() {
            return Ok(Where {
                modules: with_file,
                file: Some(name),
            });
        }
        let modules = self.modules.named(name);
        if modules.is_empty() {
            return Err(self.no_file(name));
        }
        Ok(Where {
            modules,
            file: None,
        })
    }
}

/// Each function of the debug information that a pattern names: its entry, its qualified name, and whether it has code of its
/// own.
fn functions_matching(
    module: &Module,
    place: &Where<'_>,
    pattern: &NamePattern,
    take: &mut dyn FnMut(Die, &str, bool),
) {
    let debug = module.debug();
    let index = debug.index();
    let functions = index
        .iter()
        .filter(|name| matches!(name.kind, NameKind::Function | NameKind::AbstractFunction));
    for name in functions.filter(|name| !name.is_empty()) {
        let qualified = index.qualified(debug, &name);
        if !pattern.matches(&qualified) && !rust_matches(module, &name, &qualified, pattern) {
            continue;
        }
        let declared_there = place.file.is_none_or(|file| {
            let (declared, _) = crate::function::declared_at(debug, name.die());
            declared.is_some_and(|declared| names_file(&declared, file))
        });
        if declared_there {
            take(name.die(), &qualified, name.kind == NameKind::Function);
        }
    }
}

/// Whether a symbol is a function that a pattern names.
pub(crate) fn symbol_matches(pattern: &NamePattern, symbol: &ElfSymbol<'_>) -> bool {
    if symbol.label || demangle::is_part(symbol.name) {
        return false;
    }
    let readable = demangle::readable(symbol.name);
    let name = without_parameters(&readable);
    pattern.matches(name)
        || (demangle::is_rust(symbol.name)
            && rust_path(name).is_some_and(|path| pattern.matches(&path)))
}

/// Whether a pattern names a method of Rust by its type. The debug information has the number of the `impl` in its place.
fn rust_matches(module: &Module, name: &Name, qualified: &str, pattern: &NamePattern) -> bool {
    let debug = module.debug();
    let unit = name.die().unit;
    if !qualified.contains("{impl#") || debug.facts(unit).language != Language::Rust {
        return false;
    }
    let readable = debug
        .entry(name.die())
        .and_then(|entry| debug.linkage_name(unit, &entry))
        .and_then(|linkage_name| demangle::demangle(&linkage_name));
    readable.is_some_and(|readable| {
        pattern.matches(&readable)
            || rust_path(&readable).is_some_and(|path| pattern.matches(&path))
    })
}
