//! Names looked up as an expression at a pc sees them.

use gimli::constants;
use tracewire_tracefile::{Address, Architecture};

use crate::TypeId;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{Pattern, components};
use crate::dwarf::{Die, Entry};
use crate::location_expression::VariableLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::scope::{Variable, VariableKind};
use crate::symbols::Symbols;
use crate::types::{Language, Type, base};
use crate::variables::{CodePlace, declared, is_mere_declaration};

const VARIABLES: &[NameKind] = &[NameKind::Variable, NameKind::Enumerator];

/// A name of some module that fits what was asked for.
struct Candidate<'a> {
    module: &'a Module,
    name: &'a Name,
    qualified: String,
}

impl Symbols {
    pub(crate) fn find_variable(&self, pc: Option<Address>, name: &str) -> Option<Variable> {
        let place = pc.and_then(|pc| self.code_at(pc));
        if let Some((file, rest)) = file_prefix(name) {
            return self.find_in_file(file, rest);
        }
        let pattern = self.pattern(place.as_ref(), name);
        if pattern.is_word()
            && !name.trim_start().starts_with("::")
            && let Some(place) = &place
            && let Some(found) = self.find_local(place, pattern.base())
        {
            return Some(found);
        }
        let candidates = self.candidates(place.as_ref(), &pattern, VARIABLES);
        candidates
            .iter()
            .find_map(|candidate| self.candidate_variable(candidate))
            .or_else(|| self.find_static_of_function(name))
            .or_else(|| self.find_elf_variable(place.as_ref(), &pattern))
            // Declared, and nowhere to be found.
            .or_else(|| {
                let candidate = candidates.first()?;
                self.unit_variable(
                    candidate.module,
                    candidate.name.die,
                    candidate.qualified.clone(),
                    VariableKind::Global,
                )
            })
    }

    /// The pattern of a name, Rust's `crate`, `self` and `super` replaced by what they stand for.
    fn pattern(&self, place: Option<&CodePlace<'_>>, name: &str) -> Pattern {
        let scope = place.map_or_else(Vec::new, |place| self.scope_of(place));
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
        Pattern::new(&replaced.into_iter().chain(rest).collect::<Vec<_>>().join("::"))
    }

    /// The namespaces and classes around the function of a place, outermost first.
    fn scope_of(&self, place: &CodePlace<'_>) -> Vec<String> {
        let debug = place.debug();
        let frame = place.frame();
        let Some(function) = frame.last() else {
            return Vec::new();
        };
        let die = function.origin.unwrap_or(Die {
            unit: place.unit,
            offset: function.offset,
        });
        let index = debug.index();
        index.at(die).map_or_else(Vec::new, |name| {
            index
                .scopes(name)
                .into_iter()
                .filter(|scope| *scope != ANONYMOUS)
                .map(str::to_owned)
                .collect()
        })
    }

    /// A variable of the blocks around a place.
    fn find_local(&self, place: &CodePlace<'_>, name: &str) -> Option<Variable> {
        let debug = place.debug();
        for (depth, block) in place.frame().into_iter().enumerate() {
            for (unit, entry) in declared(debug, place.unit, block) {
                match entry.tag() {
                    constants::DW_TAG_variable
                    | constants::DW_TAG_formal_parameter
                    | constants::DW_TAG_constant => {
                        if debug.name(unit, &entry).as_deref() != Some(name) {
                            continue;
                        }
                        if is_mere_declaration(debug, unit, &entry) {
                            return None;
                        }
                        let kind = if entry.tag() == constants::DW_TAG_formal_parameter {
                            VariableKind::Argument
                        } else {
                            VariableKind::Local
                        };
                        return self.local(place, unit, &entry, kind, depth);
                    }
                    constants::DW_TAG_enumeration_type => {
                        let die = Die {
                            unit,
                            offset: entry.offset(),
                        };
                        if let Some(found) = self.find_enumerator(place.module, die, name) {
                            return Some(found);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }

    fn find_enumerator(&self, module: &Module, enumeration: Die, name: &str) -> Option<Variable> {
        let debug = module.debug();
        let child: Entry = debug.children(enumeration).into_iter().find(|child| {
            child.tag() == constants::DW_TAG_enumerator
                && debug.name(enumeration.unit, child).as_deref() == Some(name)
        })?;
        self.enumerator(module, enumeration, &child, name.to_owned())
    }

    /// An enumerator as a constant of its enumeration's type.
    fn enumerator(
        &self,
        module: &Module,
        enumeration: Die,
        entry: &Entry,
        name: String,
    ) -> Option<Variable> {
        let type_id = self.type_id(module, enumeration);
        let value = entry.attr_value(constants::DW_AT_const_value)?;
        let value = crate::types::read::constant(&value)?;
        let size = usize::try_from(self.size_of(type_id)?).ok()?.min(16);
        let bytes = if module.image.endian == gimli::RunTimeEndian::Little {
            value.to_le_bytes().get(..size)?.to_vec()
        } else {
            value.to_be_bytes().get(16 - size..)?.to_vec()
        };
        Some(Variable {
            name,
            type_id,
            kind: VariableKind::Global,
            location: VariableLocation::Constant(bytes.into()),
            artificial: false,
            shadowed: false,
            depth: 0,
        })
    }

    /// The names that fit, best first: those of the innermost scope before those further out, those of the
    /// place's own unit before others, definitions before declarations, what all units see before statics.
    fn candidates(
        &self,
        place: Option<&CodePlace<'_>>,
        pattern: &Pattern,
        kinds: &[NameKind],
    ) -> Vec<Candidate<'_>> {
        let scope = place.map_or_else(Vec::new, |place| self.scope_of(place));
        let home = place.map(|place| (place.module.info.id, place.unit));
        let mut found = Vec::new();
        for module in self.loaded() {
            let debug = module.debug();
            let index = debug.index();
            for name in index.named(pattern.base()) {
                if !kinds.contains(&name.kind) || name.local {
                    continue;
                }
                let qualified = index.qualified(debug, name);
                let Some(level) = fit(pattern, &qualified, &scope) else {
                    continue;
                };
                let same_module = home.is_some_and(|(id, _)| id == module.info.id);
                let same_unit = same_module && home.is_some_and(|(_, unit)| unit == name.die.unit);
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

    /// The variable of a candidate; none if it is only declared there.
    fn candidate_variable(&self, candidate: &Candidate<'_>) -> Option<Variable> {
        let debug = candidate.module.debug();
        let die = candidate.name.die;
        let entry = debug.entry(die)?;
        if candidate.name.kind == NameKind::Enumerator {
            let enumeration = debug.enumeration_of(die)?;
            return self.enumerator(
                candidate.module,
                enumeration,
                &entry,
                candidate.qualified.clone(),
            );
        }
        if is_mere_declaration(debug, die.unit, &entry)
            && !entry.has_attr(constants::DW_AT_const_value)
        {
            return self.declared_elsewhere(candidate, &entry);
        }
        let kind = if candidate.name.external {
            VariableKind::Global
        } else {
            VariableKind::FileStatic
        };
        self.unit_variable(candidate.module, die, candidate.qualified.clone(), kind)
    }

    /// A variable that is declared with debug information and defined without: its place is its symbol's.
    fn declared_elsewhere(&self, candidate: &Candidate<'_>, entry: &Entry) -> Option<Variable> {
        let debug = candidate.module.debug();
        let unit = candidate.name.die.unit;
        let symbol_name = debug
            .linkage_name(unit, entry)
            .or_else(|| debug.name(unit, entry))?;
        let (module, symbol) = self.loaded().find_map(|module| {
            let symbol = module
                .elf_symbols()
                .named(&symbol_name)
                .find(|symbol| !symbol.local && symbol.kind != ElfSymbolKind::Function)?;
            Some((module, symbol))
        })?;
        Some(Variable {
            type_id: self.type_id_of(candidate.module, unit, entry),
            name: candidate.qualified.clone(),
            kind: VariableKind::Global,
            ..self.symbol_variable(module, symbol)
        })
    }

    fn symbol_variable(&self, module: &Module, symbol: &ElfSymbol) -> Variable {
        Variable {
            name: demangle::readable(&symbol.name),
            type_id: self.base_type("int").unwrap_or_else(|| self.void()),
            kind: VariableKind::Symbol,
            location: if symbol.kind == ElfSymbolKind::ThreadLocal {
                VariableLocation::ThreadLocal(crate::dwarf::location::thread_local_offset(
                    module,
                    symbol.address,
                ))
            } else {
                VariableLocation::Static(module.biased(symbol.address))
            },
            artificial: false,
            shadowed: false,
            depth: 0,
        }
    }

    fn find_elf_variable(
        &self,
        place: Option<&CodePlace<'_>>,
        pattern: &Pattern,
    ) -> Option<Variable> {
        let home = place.map(|place| place.module);
        home.into_iter().chain(self.loaded()).find_map(|module| {
            let symbol = elf_symbols_named(module, pattern).into_iter().find(|symbol| {
                matches!(
                    symbol.kind,
                    ElfSymbolKind::Data | ElfSymbolKind::ThreadLocal
                )
            })?;
            Some(self.symbol_variable(module, symbol))
        })
    }

    /// `'file.c'::name`.
    fn find_in_file(&self, file: &str, name: &str) -> Option<Variable> {
        let pattern = Pattern::new(name);
        for module in self.loaded() {
            let debug = module.debug();
            let index = debug.index();
            for found in index.named(pattern.base()) {
                if !VARIABLES.contains(&found.kind) || found.local {
                    continue;
                }
                let qualified = index.qualified(debug, found);
                let facts = debug.facts(found.die.unit);
                let of_file = facts
                    .name
                    .as_deref()
                    .is_some_and(|unit| crate::resolve::line::names_file(unit, file));
                if of_file && pattern.matches(&qualified) {
                    let candidate = Candidate {
                        module,
                        name: found,
                        qualified,
                    };
                    if let Some(variable) = self.candidate_variable(&candidate) {
                        return Some(variable);
                    }
                }
            }
        }
        None
    }

    /// `function::name`: a static variable of a function.
    fn find_static_of_function(&self, name: &str) -> Option<Variable> {
        let (function, wanted) = name.rsplit_once("::")?;
        let pattern = Pattern::new(function);
        for module in self.loaded() {
            let debug = module.debug();
            let index = debug.index();
            for function in index.named(pattern.base()) {
                if function.kind != NameKind::Function
                    || !pattern.matches(&index.qualified(debug, function))
                {
                    continue;
                }
                let tree = debug.blocks(function.die.unit);
                let Some(start) = tree
                    .blocks
                    .iter()
                    .position(|block| block.offset == function.die.offset)
                else {
                    continue;
                };
                let within = |index: usize| tree.outwards(index).any(|outer| outer == start);
                for block in (start..tree.blocks.len()).filter(|&index| within(index)) {
                    let Some(block) = tree.block(block) else {
                        continue;
                    };
                    for (unit, entry) in declared(debug, function.die.unit, block) {
                        if entry.tag() != constants::DW_TAG_variable
                            || debug.name(unit, &entry).as_deref() != Some(wanted)
                        {
                            continue;
                        }
                        let die = Die {
                            unit,
                            offset: entry.offset(),
                        };
                        let found = self.unit_variable(
                            module,
                            die,
                            name.to_owned(),
                            VariableKind::FileStatic,
                        )?;
                        if matches!(
                            found.location,
                            VariableLocation::Static(_) | VariableLocation::ThreadLocal(_)
                        ) {
                            return Some(found);
                        }
                    }
                }
            }
        }
        None
    }

    pub(crate) fn find_function(
        &self,
        pc: Option<Address>,
        name: &str,
    ) -> Option<(Address, TypeId)> {
        let place = pc.and_then(|pc| self.code_at(pc));
        let pattern = self.pattern(place.as_ref(), name);
        let candidates = self.candidates(place.as_ref(), &pattern, &[NameKind::Function]);
        for candidate in candidates {
            let debug = candidate.module.debug();
            let die = candidate.name.die;
            let Some(entry) = debug.entry(die) else {
                continue;
            };
            if let Some(&(start, _)) = debug.ranges(die.unit, &entry).first() {
                return Some((
                    candidate.module.biased(start),
                    self.type_id(candidate.module, die),
                ));
            }
        }
        let home = place.as_ref().map(|place| place.module);
        home.into_iter().chain(self.loaded()).find_map(|module| {
            let symbol = elf_symbols_named(module, &pattern)
                .into_iter()
                .find(|symbol| {
                    matches!(
                        symbol.kind,
                        ElfSymbolKind::Function | ElfSymbolKind::IndirectFunction
                    )
                })?;
            let made = Type::Function {
                returns: self.base_type("int").unwrap_or_else(|| self.void()),
                parameters: Vec::new(),
                variadic: true,
            };
            let type_id = self
                .types
                .borrow_mut()
                .make_named("<text variable, no debug info>", || Some(made))?;
            Some((module.biased(symbol.address), type_id))
        })
    }

    pub(crate) fn find_type(&self, pc: Option<Address>, name: &str) -> Option<TypeId> {
        let name = name.trim();
        let (kinds, rest): (&[NameKind], &str) = match name.split_once(char::is_whitespace) {
            Some(("struct" | "class", rest)) => (&[NameKind::Structure], rest),
            Some(("union", rest)) => (&[NameKind::Union], rest),
            Some(("enum", rest)) => (&[NameKind::Enumeration], rest),
            _ => (
                &[
                    NameKind::Typedef,
                    NameKind::BaseType,
                    NameKind::Structure,
                    NameKind::Union,
                    NameKind::Enumeration,
                ],
                name,
            ),
        };
        let language = self.language_at(pc);
        let canonical = base::canonical_c_name(rest).filter(|_| language != Language::Rust);
        let keyword = !matches!(
            canonical,
            None | Some("bool" | "wchar_t" | "char8_t" | "char16_t" | "char32_t" | "_Float128")
        );
        if keyword {
            return self.base_type(rest);
        }
        let place = pc.and_then(|pc| self.code_at(pc));
        let pattern = self.pattern(place.as_ref(), rest);
        if let Some(place) = &place
            && let Some(found) = self.find_local_type(place, &pattern, kinds)
        {
            return Some(found);
        }
        let candidates = self.candidates(place.as_ref(), &pattern, kinds);
        let order = |candidate: &&Candidate<'_>| {
            kinds
                .iter()
                .position(|kind| *kind == candidate.name.kind)
                .map(|position| usize::from(position > 1))
        };
        // In C a tag is no type name: a typedef goes first.
        let best = if language == Language::C {
            candidates
                .iter()
                .find(|candidate| order(candidate) == Some(0))
                .or_else(|| candidates.first())
        } else {
            candidates.first()
        };
        if let Some(best) = best {
            return Some(self.type_id(best.module, best.name.die));
        }
        if canonical.is_some() {
            return self.base_type(rest);
        }
        if language == Language::Rust {
            let architecture = self.architecture().unwrap_or(Architecture::X86_64);
            return self
                .types
                .borrow_mut()
                .make_named(rest, || base::rust_type(rest, architecture));
        }
        None
    }

    /// A type declared in the blocks around a place.
    fn find_local_type(
        &self,
        place: &CodePlace<'_>,
        pattern: &Pattern,
        kinds: &[NameKind],
    ) -> Option<TypeId> {
        if !pattern.is_word() {
            return None;
        }
        let debug = place.debug();
        place.frame().into_iter().find_map(|block| {
            block.names.iter().find_map(|&offset| {
                let die = Die {
                    unit: place.unit,
                    offset,
                };
                let entry = debug.entry(die)?;
                let kind = match entry.tag() {
                    constants::DW_TAG_structure_type | constants::DW_TAG_class_type => {
                        NameKind::Structure
                    }
                    constants::DW_TAG_union_type => NameKind::Union,
                    constants::DW_TAG_enumeration_type => NameKind::Enumeration,
                    constants::DW_TAG_typedef => NameKind::Typedef,
                    _ => return None,
                };
                let name = debug.name(place.unit, &entry)?;
                (kinds.contains(&kind) && name == pattern.base())
                    .then(|| self.type_id(place.module, die))
            })
        })
    }
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
    Some(if in_scope { scope.len() - outer } else { usize::MAX })
}

/// `'file.c'::name`, taken apart.
fn file_prefix(name: &str) -> Option<(&str, &str)> {
    let rest = name.trim().strip_prefix('\'')?;
    let (file, rest) = rest.split_once('\'')?;
    Some((file, rest.trim_start().strip_prefix("::")?))
}

/// The ELF symbols that a pattern names, by the linker's name or by the readable one.
pub(crate) fn elf_symbols_named<'a>(module: &'a Module, pattern: &Pattern) -> Vec<&'a ElfSymbol> {
    let base = pattern.base().to_owned();
    let symbols = module.elf_symbols();
    if pattern.is_word() && pattern.parameters().is_empty() {
        let exact: Vec<&ElfSymbol> = symbols
            .iter()
            .filter(|symbol| *symbol.name == *base)
            .collect();
        if !exact.is_empty() {
            return exact;
        }
    }
    // A mangled name has the plain one in it: only those that do are demangled.
    symbols
        .iter()
        .filter(|symbol| {
            (symbol.name.starts_with("_Z") || symbol.name.starts_with("_R"))
                && symbol.name.contains(&base)
        })
        .filter(|symbol| {
            demangle::demangle(&symbol.name).is_some_and(|name| {
                let plain = crate::dwarf::name::without_parameters(&name);
                let parameters = components(&name)
                    .last()
                    .map_or(String::new(), |last| {
                        crate::dwarf::name::squeezed(crate::dwarf::name::parameters(last))
                    });
                pattern.matches(plain)
                    && (pattern.parameters().is_empty() || pattern.parameters() == parameters)
            })
        })
        .collect()
}
