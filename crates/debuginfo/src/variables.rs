//! The variables that are seen from a pc.

use std::collections::HashSet;
use std::sync::Arc;

use gimli::constants;
use tracewire_model::Address;

use crate::dwarf::block::{Block, BlockTree};
use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry, flag};
use crate::location_expression::{LocationExpression, VariableLocation};
use crate::module::Module;
use crate::scope::{Scope, ScopeVariables, Variable, VariableKind};
use crate::symbols::Symbols;

/// A place in code that has debug information.
pub(crate) struct CodePlace<'a> {
    pub(crate) module: &'a Module,
    pub(crate) unit: usize,
    pub(crate) tree: Arc<BlockTree>,
    /// The innermost block; none if the unit has no function there.
    pub(crate) block: Option<usize>,
    /// The link-time address.
    pub(crate) address: u64,
}

impl<'a> CodePlace<'a> {
    pub(crate) fn debug(&self) -> &'a DebugInformation {
        self.module.debug()
    }

    /// The (not inlined) function.
    pub(crate) fn function(&self) -> Option<&Block> {
        self.tree.block(self.tree.function_at(self.address)?)
    }

    pub(crate) fn at_entry(&self) -> bool {
        self.function()
            .is_some_and(|function| function.entry() == self.address)
    }

    /// The blocks whose variables are the frame's, innermost first.
    pub(crate) fn frame(&self) -> Vec<&Block> {
        self.block.map_or_else(Vec::new, |block| {
            self.tree
                .frame(block)
                .into_iter()
                .filter_map(|block| self.tree.block(block))
                .collect()
        })
    }
}

impl Symbols {
    pub(crate) fn code_at(&self, pc: Address) -> Option<CodePlace<'_>> {
        let module = self.module_with(pc)?;
        let address = module.unbiased(pc);
        let debug = module.debug();
        let unit = debug.unit_at(address)?;
        let tree = debug.blocks(unit);
        let block = tree.block_at(address);
        Some(CodePlace {
            module,
            unit,
            tree,
            block,
            address,
        })
    }

    /// The place of a frame: the block is the innermost of that frame's.
    pub(crate) fn code_in(&self, scope: Scope) -> Option<CodePlace<'_>> {
        let mut place = self.code_at(scope.pc)?;
        place.block = place
            .block
            .and_then(|block| place.tree.frame_block(block, scope.level));
        Some(place)
    }

    /// Why nothing is known of a frame's variables; none where they are known.
    #[must_use]
    pub fn no_variables(&self, scope: Scope) -> Option<String> {
        match self.code_at(scope.pc) {
            Some(place) if place.block.is_some() => (scope.level == Scope::OUTSIDE)
                .then(|| "the address is outside of the function's own code".to_owned()),
            _ => Some("no debug information says which there are".to_owned()),
        }
    }

    pub(crate) fn read_variables(&self, scope: Scope) -> ScopeVariables {
        let mut found = ScopeVariables::default();
        let Some(place) = self.code_in(scope) else {
            return found;
        };
        let mut seen = HashSet::new();
        for (depth, block) in place.frame().into_iter().enumerate() {
            let mut here = Vec::new();
            for (unit, entry) in declared(place.debug(), place.unit, block) {
                let argument = entry.tag() == constants::DW_TAG_formal_parameter;
                if !argument
                    && !matches!(
                        entry.tag(),
                        constants::DW_TAG_variable | constants::DW_TAG_constant
                    )
                {
                    continue;
                }
                // `extern int x;` in a block says nothing of where x is.
                if is_mere_declaration(place.debug(), unit, &entry) {
                    continue;
                }
                let kind = if argument {
                    VariableKind::Argument
                } else {
                    VariableKind::Local
                };
                let Some(mut variable) = self.local(&place, unit, &entry, kind, depth) else {
                    continue;
                };
                variable.shadowed = seen.contains(&variable.name);
                here.push(variable.name.clone());
                if argument {
                    found.arguments.push(variable);
                } else {
                    found.locals.push(variable);
                }
            }
            seen.extend(here);
        }
        found
    }

    /// A variable of a block at a place.
    pub(crate) fn local(
        &self,
        place: &CodePlace<'_>,
        unit: usize,
        entry: &Entry,
        kind: VariableKind,
        depth: usize,
    ) -> Option<Variable> {
        let name = place.debug().name(unit, entry)?;
        let type_id = self.type_id_of(place.module, unit, entry);
        let finder = Finder {
            module: place.module,
            size: self.stored_size(type_id),
            pc: Some(place.address),
            at_entry: place.at_entry(),
        };
        let mut location = finder.find(unit, entry);
        if let VariableLocation::Expression(expression) = &location
            && self.is_misplaced(place, (unit, entry), type_id, expression)
        {
            location = VariableLocation::OptimizedOut;
        }
        Some(Variable {
            name,
            type_id,
            kind,
            location,
            artificial: place
                .debug()
                .attribute_of(unit, entry, constants::DW_AT_artificial)
                .is_some(),
            shadowed: false,
            depth,
        })
    }

    /// A variable of a unit, a namespace or a class, seen from a place or from nowhere.
    pub(crate) fn unit_variable(
        &self,
        module: &Module,
        die: Die,
        name: String,
        kind: VariableKind,
    ) -> Option<Variable> {
        let debug = module.debug();
        let entry = debug.entry(die)?;
        let type_id = self.type_id_of(module, die.unit, &entry);
        let finder = Finder {
            module,
            size: self.stored_size(type_id),
            pc: None,
            at_entry: false,
        };
        Some(Variable {
            name,
            type_id,
            kind,
            location: finder.find(die.unit, &entry),
            artificial: false,
            shadowed: false,
            depth: 0,
        })
    }

    pub(crate) fn read_frame_base(&self, pc: Address) -> Option<LocationExpression> {
        let place = self.code_at(pc)?;
        let debug = place.debug();
        // The innermost function that says what its frame base is: that of an inlined copy is its function's.
        let function = place.function()?;
        let entry = debug.entry(Die {
            unit: place.unit,
            offset: function.offset,
        })?;
        let (unit, value) = debug.attribute_of(place.unit, &entry, constants::DW_AT_frame_base)?;
        let finder = Finder {
            module: place.module,
            size: None,
            pc: Some(place.address),
            at_entry: place.at_entry(),
        };
        finder.expression(debug, unit, &value).ok().flatten()
    }

    /// The variable or the expression that another expression refers to.
    pub(crate) fn read_referred(
        &self,
        expression: &LocationExpression,
        target: gimli::DebugInfoOffset<usize>,
        pc: Address,
    ) -> Option<(crate::TypeId, VariableLocation)> {
        let module = self.any_module(expression.module)?;
        let debug = module.debug();
        let die = debug.die_at(target.0, false)?;
        let entry = debug.entry(die)?;
        let type_id = self.type_id_of(module, die.unit, &entry);
        let at_entry = self.code_at(pc).is_some_and(|place| place.at_entry());
        let finder = Finder {
            module,
            size: self.stored_size(type_id),
            pc: Some(module.unbiased(pc)),
            at_entry,
        };
        Some((type_id, finder.find(die.unit, &entry)))
    }
}

/// Whether an entry only declares a variable that is defined elsewhere.
pub(crate) fn is_mere_declaration(debug: &DebugInformation, unit: usize, entry: &Entry) -> bool {
    flag(entry, constants::DW_AT_declaration)
        || (flag(entry, constants::DW_AT_external)
            && debug
                .attribute_of(unit, entry, constants::DW_AT_location)
                .is_none()
            && debug
                .attribute_of(unit, entry, constants::DW_AT_const_value)
                .is_none())
}

/// What a block declares: its own entries in order, then what only the entry it completes has; those were left
/// out of this copy, and are optimized out.
pub(crate) fn declared(
    debug: &DebugInformation,
    unit: usize,
    block: &Block,
) -> Vec<(usize, Entry)> {
    let entry = |offset| debug.entry(Die { unit, offset }).map(|entry| (unit, entry));
    let mut found: Vec<(usize, Entry)> = block.names.iter().copied().filter_map(entry).collect();
    let Some(origin) = block.origin else {
        return found;
    };
    // A definition outside its class completes a mere declaration, whose parameters are not variables.
    let completes = debug.entry(Die {
        unit,
        offset: block.offset,
    });
    if !completes.is_some_and(|entry| entry.has_attr(constants::DW_AT_abstract_origin)) {
        return found;
    }
    let copied: HashSet<Die> = debug
        .children(Die {
            unit,
            offset: block.offset,
        })
        .iter()
        .filter_map(|child| debug.origin(unit, child))
        .collect();
    inherit(debug, origin, &copied, &mut found, 0);
    found
}

fn inherit(
    debug: &DebugInformation,
    origin: Die,
    copied: &HashSet<Die>,
    found: &mut Vec<(usize, Entry)>,
    depth: usize,
) {
    for child in debug.children(origin) {
        let die = Die {
            unit: origin.unit,
            offset: child.offset(),
        };
        if copied.contains(&die) {
            continue;
        }
        match child.tag() {
            constants::DW_TAG_formal_parameter
            | constants::DW_TAG_variable
            | constants::DW_TAG_constant => found.push((origin.unit, child)),
            constants::DW_TAG_lexical_block if depth < 32 => {
                inherit(debug, die, &HashSet::new(), found, depth + 1);
            }
            _ => {}
        }
    }
}
