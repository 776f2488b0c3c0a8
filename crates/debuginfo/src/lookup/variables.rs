//! Variables by name.

use gimli::constants;
use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::block::{Block, BlockKind};
use crate::dwarf::index::NameKind;
use crate::dwarf::line::names_file;
use crate::dwarf::name::Pattern;
use crate::dwarf::{Die, Entry};
use crate::function::block_name;
use crate::location_expression::VariableLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::scope::{Variable, VariableKind};
use crate::variables::{FrameVariables, UnitVariables, declared, is_mere_declaration};

use super::{Candidate, Lookup, VARIABLES, elf_symbols_named, file_prefix};

impl Lookup<'_> {
    /// A variable: innermost block outwards to the function, then the
    /// file, the namespaces of the function, the module's globals, the other modules', symbols without debug
    /// information. Also `'file.c'::name`, `ns::name`, and `function::name`: a variable of any frame at the place's address,
    /// or a static one of any function. Without a place, globals only.
    pub(crate) fn variable(&self, name: &str) -> Option<Variable> {
        if let Some((file, rest)) = file_prefix(name) {
            return self.find_in_file(file, rest);
        }
        let pattern = self.pattern(name);
        if pattern.is_word()
            && !name.trim_start().starts_with("::")
            && let Some(place) = self.place()
            && let Some(found) = FrameVariables::new(self.types, place).named(pattern.base())
        {
            return Some(found);
        }
        let candidates = self.candidates(&pattern, VARIABLES);
        candidates
            .iter()
            .find_map(|candidate| self.candidate_variable(candidate))
            .or_else(|| self.find_in_frame(self.scope?.pc, name))
            .or_else(|| self.find_static_of_function(name))
            .or_else(|| self.find_elf_variable(&pattern))
            // Declared, and defined nowhere.
            .or_else(|| {
                let candidate = candidates.first()?;
                UnitVariables::new(self.types, candidate.module).at(
                    candidate.name.die(),
                    candidate.qualified.clone(),
                    VariableKind::Global,
                )
            })
    }

    /// The variable of a candidate; none if it is only declared there.
    fn candidate_variable(&self, candidate: &Candidate<'_>) -> Option<Variable> {
        let debug = candidate.module.debug();
        let die = candidate.name.die();
        let entry = debug.entry(die)?;
        let variables = UnitVariables::new(self.types, candidate.module);
        if candidate.name.kind == NameKind::Enumerator {
            let enumeration = debug.enumeration_of(die)?;
            return variables.enumerator(enumeration, &entry, candidate.qualified.clone());
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
        variables.at(die, candidate.qualified.clone(), kind)
    }

    /// A variable that is declared with debug information and defined without: its place is its symbol's.
    fn declared_elsewhere(&self, candidate: &Candidate<'_>, entry: &Entry) -> Option<Variable> {
        let debug = candidate.module.debug();
        let unit = candidate.name.die().unit;
        let symbol_name = debug
            .linkage_name(unit, entry)
            .or_else(|| debug.name(unit, entry))?;
        let (module, symbol) = self.modules.iter().find_map(|module| {
            let symbol = module
                .elf_symbols()
                .named(&symbol_name)
                .find(|symbol| !symbol.local && symbol.kind != ElfSymbolKind::Function)?;
            Some((module, symbol))
        })?;
        Some(Variable {
            type_id: self.types.type_id_of(candidate.module, unit, entry),
            name: candidate.qualified.clone(),
            kind: VariableKind::Global,
            ..self.symbol_variable(module, &symbol)
        })
    }

    fn symbol_variable(&self, module: &Module, symbol: &ElfSymbol<'_>) -> Variable {
        Variable {
            name: demangle::readable(symbol.name),
            type_id: self.int(),
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

    fn find_elf_variable(&self, pattern: &Pattern) -> Option<Variable> {
        self.modules_from_home().find_map(|module| {
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
        for module in self.modules.iter() {
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
                    .is_some_and(|unit| names_file(unit, file));
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
        let mut place = CodePlace::at(self.modules, pc)?;
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
                && let Some(found) = FrameVariables::new(self.types, &place).named(wanted)
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
        for module in self.modules.iter() {
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
                        let found = UnitVariables::new(self.types, module).at(
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
