//! Variables by name.

use gimli::constants;
use tracewire_model::Address;

use crate::dwarf::block::{Block, BlockKind};
use crate::dwarf::index::NameKind;
use crate::dwarf::name::Pattern;
use crate::dwarf::{Die, Entry};
use crate::function::block_name;
use crate::location_expression::VariableLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::scope::{Scope, Variable, VariableKind};
use crate::symbols::Symbols;
use crate::variables::{CodePlace, declared, is_mere_declaration};

use super::{Candidate, VARIABLES, elf_symbols_named, file_prefix};

impl Symbols {
    /// Finds a variable as an expression at `scope` sees it: innermost block outwards to the function, then the
    /// file, the namespaces of the function, the module's globals, the other modules', symbols without debug
    /// information. Also `'file.c'::name`, `ns::name`, and `function::name`: a variable of any frame at `scope`'s address,
    /// or a static one of any function. Without `scope`, globals only.
    #[must_use]
    pub fn lookup_variable(&self, scope: Option<Scope>, name: &str) -> Option<Variable> {
        let place = scope.and_then(|scope| self.code_in(scope));
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
            .or_else(|| self.find_in_frame(scope?.pc, name))
            .or_else(|| self.find_static_of_function(name))
            .or_else(|| self.find_elf_variable(place.as_ref(), &pattern))
            // Declared, and nowhere to be found.
            .or_else(|| {
                let candidate = candidates.first()?;
                self.unit_variable(
                    candidate.module,
                    candidate.name.die(),
                    candidate.qualified.clone(),
                    VariableKind::Global,
                )
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
        let bytes = if module.image().endian == gimli::RunTimeEndian::Little {
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

    /// The variable of a candidate; none if it is only declared there.
    fn candidate_variable(&self, candidate: &Candidate<'_>) -> Option<Variable> {
        let debug = candidate.module.debug();
        let die = candidate.name.die();
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
        let unit = candidate.name.die().unit;
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
            ..self.symbol_variable(module, &symbol)
        })
    }

    fn symbol_variable(&self, module: &Module, symbol: &ElfSymbol<'_>) -> Variable {
        Variable {
            name: demangle::readable(symbol.name),
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
            let symbol = elf_symbols_named(module, pattern)
                .into_iter()
                .find(|symbol| {
                    matches!(
                        symbol.kind,
                        ElfSymbolKind::Data | ElfSymbolKind::ThreadLocal
                    )
                })?;
            Some(self.symbol_variable(module, &symbol))
        })
    }

    /// `'file.c'::name`.
    fn find_in_file(&self, file: &str, name: &str) -> Option<Variable> {
        let pattern = Pattern::new(name);
        for module in self.loaded() {
            for found in module.named(pattern.base()) {
                let debug = module.debug();
                if !VARIABLES.contains(&found.kind) || found.local {
                    continue;
                }
                let qualified = debug.index().qualified(debug, &found);
                let facts = debug.facts(found.die().unit);
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

    /// `function::name`: a variable of the innermost frame at an address that is of the function or of a copy of it.
    fn find_in_frame(&self, pc: Address, name: &str) -> Option<Variable> {
        let (function, wanted) = name.rsplit_once("::")?;
        let function = Pattern::new(function);
        let mut place = self.code_at(pc)?;
        let innermost = place.block?;
        let mut level = 0;
        loop {
            place.block = Some(place.tree.frame_block(innermost, level)?);
            let is_it = |block: &Block| {
                block.kind != BlockKind::Lexical
                    && block_name(place.debug(), place.unit, block)
                        .is_some_and(|name| function.matches(&name))
            };
            if place.frame().into_iter().any(is_it)
                && let Some(found) = self.find_local(&place, wanted)
            {
                return Some(Variable {
                    name: name.to_owned(),
                    ..found
                });
            }
            level += 1;
        }
    }

    /// `function::name`: a static variable of a function.
    fn find_static_of_function(&self, name: &str) -> Option<Variable> {
        let (function, wanted) = name.rsplit_once("::")?;
        let pattern = Pattern::new(function);
        for module in self.loaded() {
            for function in module.named(pattern.base()) {
                let debug = module.debug();
                if function.kind != NameKind::Function
                    || !pattern.matches(&debug.index().qualified(debug, &function))
                {
                    continue;
                }
                let tree = debug.blocks(function.die().unit);
                let Some(start) = tree
                    .blocks
                    .iter()
                    .position(|block| block.offset == function.die().offset)
                else {
                    continue;
                };
                let within = |index: usize| tree.outwards(index).any(|outer| outer == start);
                for block in (start..tree.blocks.len()).filter(|&index| within(index)) {
                    let Some(block) = tree.block(block) else {
                        continue;
                    };
                    for (unit, entry) in declared(debug, function.die().unit, block) {
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
}
