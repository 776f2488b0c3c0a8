//! Names looked up as an expression at a pc sees them.

mod types;
mod variables;

use std::cell::OnceCell;

use tracewire_model::Address;

use crate::TypeId;
use crate::code_place::CodePlace;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{Pattern, components};
use crate::dwarf::parameters::{no_names, same_parameters};
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::modules::Modules;
use crate::scope::Scope;
use crate::types::{Type, Types};

const VARIABLES: &[NameKind] = &[NameKind::Variable, NameKind::Enumerator];

/// A matching name of a module.
pub(crate) struct Candidate<'a> {
    module: &'a Module,
    name: Name,
    qualified: String,
}

/// The names of a program as an expression at a place sees them.
pub(crate) struct Lookup<'a> {
    types: Types<'a>,
    modules: &'a Modules,
    /// Where the names are seen from.
    scope: Option<Scope>,
    /// Its place, once it is computed.
    place: OnceCell<Option<CodePlace<'a>>>,
    /// The scopes around it, once they are computed.
    around: OnceCell<Vec<String>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(types: Types<'a>, scope: Option<Scope>) -> Self {
        Self {
            types,
            modules: types.modules(),
            scope,
            place: OnceCell::new(),
            around: OnceCell::new(),
        }
    }

    /// The place that names are seen from; none where no debug information has it.
    fn place(&self) -> Option<&CodePlace<'a>> {
        let found = || CodePlace::of_frame(self.modules, self.scope?);
        self.place.get_or_init(found).as_ref()
    }

    /// The namespaces and classes around the function of the place, outermost first.
    fn around(&self) -> &[String] {
        let found = || self.place().map_or_else(Vec::new, scopes_around);
        self.around.get_or_init(found)
    }

    /// The pattern of a name, with Rust's `crate`, `self` and `super` expanded.
    fn pattern(&self, name: &str) -> Pattern {
        let scope = self.around();
        let parts = components(name);
        let replaced: Vec<&str> = match parts.first().copied() {
            Some("crate") => scope.first().map(String::as_str).into_iter().collect(),
            Some("self") if parts.len() > 1 => scope.iter().map(String::as_str).collect(),
            Some("super") => {
                let outer = scope.len().saturating_sub(1);
                scope.iter().take(outer).map(String::as_str).collect()
            }
            _ => return Pattern::new(name),
        };
        let rest = parts.iter().skip(1).copied();
        Pattern::new(
            &replaced
                .into_iter()
                .chain(rest)
                .collect::<Vec<_>>()
                .join("::"),
        )
    }

    /// The names that fit, best first: those of the innermost scope before those further out, those of the
    /// place's own unit before others, definitions before declarations, what all units see before statics.
    fn candidates(&self, pattern: &Pattern, kinds: &[NameKind]) -> Vec<Candidate<'a>> {
        let scope = self.around();
        let home = self.place().map(|place| (place.module.info.id, place.unit));
        let mut found = Vec::new();
        for module in self.modules.iter() {
            for name in module.named(pattern.base()) {
                let debug = module.debug();
                if !kinds.contains(&name.kind) || name.local {
                    continue;
                }
                let qualified = debug.index().qualified(debug, &name);
                let Some(level) = fit(pattern, &qualified, scope) else {
                    continue;
                };
                let same_module = home.is_some_and(|(id, _)| id == module.info.id);
                let same_unit =
                    same_module && home.is_some_and(|(_, unit)| unit == name.die().unit);
                let rank = (
                    level,
                    !same_unit,
                    name.declaration,
                    !(name.external || name.kind.is_type() || name.kind == NameKind::Enumerator),
                    !same_module,
                );
                found.push((
                    rank,
                    Candidate {
                        module,
                        name,
                        qualified,
                    },
                ));
            }
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// The type of what has no debug information.
    fn int(&self) -> TypeId {
        let int = self.types.base_type("int");
        int.unwrap_or_else(|| self.types.void())
    }

    /// The modules, that of the place first.
    fn modules_from_home(&self) -> impl Iterator<Item = &'a Module> {
        let home = self.place().map(|place| place.module);
        home.into_iter().chain(self.modules.iter())
    }

    /// A function: its entry and its type.
    pub(crate) fn function(&self, name: &str) -> Option<(Address, TypeId)> {
        let pattern = self.pattern(name);
        let candidates = self.candidates(&pattern, &[NameKind::Function]);
        for candidate in candidates {
            let debug = candidate.module.debug();
            let die = candidate.name.die();
            let Some(entry) = debug.entry(die) else {
                continue;
            };
            if let Some(&(start, _)) = debug.ranges(die.unit, &entry).first() {
                return Some((
                    candidate.module.biased(start),
                    self.types.type_id(candidate.module, die),
                ));
            }
        }
        self.modules_from_home().find_map(|module| {
            let symbol = elf_symbols_named(module, &pattern)
                .into_iter()
                .find(|symbol| {
                    matches!(
                        symbol.kind,
                        ElfSymbolKind::Function | ElfSymbolKind::IndirectFunction
                    )
                })?;
            let made = Type::Function {
                returns: self.int(),
                parameters: Vec::new(),
                variadic: true,
            };
            let type_id = self
                .types
                .make_named("<text variable, no debug info>", || Some(made))?;
            Some((module.biased(symbol.address), type_id))
        })
    }
}

/// The namespaces and classes around the function of a place, outermost first.
fn scopes_around(place: &CodePlace<'_>) -> Vec<String> {
    let debug = place.debug();
    let frame = place.frame();
    let Some(function) = frame.last() else {
        return Vec::new();
    };
    let die = function.origin.unwrap_or_else(|| place.die(function));
    let index = debug.index();
    index.at(die).map_or_else(Vec::new, |name| {
        index
            .scopes(&name)
            .into_iter()
            .filter(|scope| *scope != ANONYMOUS)
            .map(str::to_owned)
            .collect()
    })
}

const ANONYMOUS: &str = "(anonymous namespace)";

/// How well a qualified name fits a pattern seen from a scope: 0 is best, for a name of the innermost scope; a
/// name of another scope altogether, which C++ would find only through a `using`, comes last.
fn fit(pattern: &Pattern, qualified: &str, scope: &[String]) -> Option<usize> {
    let parts: Vec<&str> = components(qualified)
        .into_iter()
        .filter(|part| *part != ANONYMOUS)
        .collect();
    if !pattern.matches(&parts.join("::")) {
        return None;
    }
    let outer = parts.len().checked_sub(pattern.length())?;
    let in_scope = outer <= scope.len()
        && parts
            .iter()
            .take(outer)
            .zip(scope)
            .all(|(part, around)| part == around);
    Some(if in_scope {
        scope.len() - outer
    } else {
        usize::MAX
    })
}

/// `'file.c'::name`, taken apart.
fn file_prefix(name: &str) -> Option<(&str, &str)> {
    let rest = name.trim().strip_prefix('\'')?;
    let (file, rest) = rest.split_once('\'')?;
    Some((file, rest.trim_start().strip_prefix("::")?))
}

/// The ELF symbols that a pattern names, by the linker's name or by the readable one. A part of a function (`f.cold`)
/// has the function's readable name and is not meant by it; its linker's name names it.
pub(crate) fn elf_symbols_named<'a>(module: &'a Module, pattern: &Pattern) -> Vec<ElfSymbol<'a>> {
    let symbols = module.elf_symbols();
    if pattern.is_word() && pattern.parameters().is_empty() {
        let exact: Vec<ElfSymbol<'_>> = symbols.named(pattern.base()).collect();
        if !exact.is_empty() {
            return exact;
        }
    }
    // A mangled name has the plain one in it: only those that do are demangled.
    let word = pattern.word().map(memchr::memmem::Finder::new);
    let has_word = |name: &str| {
        word.as_ref()
            .is_none_or(|word| word.find(name.as_bytes()).is_some())
    };
    symbols
        .mangled()
        .filter(|symbol| {
            has_word(symbol.name)
                && !demangle::is_part(symbol.name)
                && !demangle::is_thunk(symbol.name)
        })
        .filter(|symbol| {
            demangle::demangle(symbol.name).is_some_and(|name| {
                if demangle::is_rust(symbol.name) {
                    return pattern.matches_rust(&name);
                }
                let plain = crate::dwarf::name::without_parameters(&name);
                let own = components(&name)
                    .last()
                    .map_or("", |last| crate::dwarf::name::parameters(last));
                pattern.matches(plain)
                    && (pattern.parameters().is_empty()
                        || same_parameters(own, pattern.parameters(), &no_names))
            })
        })
        .collect()
}
