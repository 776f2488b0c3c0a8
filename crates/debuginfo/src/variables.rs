//! The variables of frames and of units.

use std::collections::HashSet;

use gimli::constants;
use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::block::Block;
use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry, flag};
use crate::location_expression::{LocationExpression, VariableLocation};
use crate::misplaced::Suspicion;
use crate::module::Module;
use crate::scope::{ScopeVariables, Variable, VariableKind};
use crate::types::{TypeId, Types};

/// The variables of a frame, at a place in its code.
pub(crate) struct FrameVariables<'a> {
    types: Types<'a>,
    place: &'a CodePlace<'a>,
}

impl<'a> FrameVariables<'a> {
    pub(crate) const fn new(types: Types<'a>, place: &'a CodePlace<'a>) -> Self {
        Self { types, place }
    }

    /// All of them, innermost block first.
    pub(crate) fn all(&self) -> ScopeVariables {
        let mut found = ScopeVariables::default();
        let place = self.place;
        let mut seen = HashSet::new();
        for (depth, block) in place.frame().into_iter().enumerate() {
            let mut here = Vec::new();
            for (unit, entry) in declared(place.debug(), place.unit, block) {
                let kind = kind_of(&entry);
                if kind != VariableKind::Argument
                    && !matches!(
                        entry.tag(),
                        constants::DW_TAG_variable | constants::DW_TAG_constant
                    )
                {
                    continue;
                }
                // `extern int x;` in a block does not give the place of x.
                if is_mere_declaration(place.debug(), unit, &entry) {
                    continue;
                }
                let Some(mut variable) = self.variable(unit, &entry, kind, depth) else {
                    continue;
                };
                variable.shadowed = seen.contains(&variable.name);
                here.push(variable.name.clone());
                if kind == VariableKind::Argument {
                    found.arguments.push(variable);
                } else {
                    found.locals.push(variable);
                }
            }
            seen.extend(here);
        }
        found
    }

    /// The innermost variable of a name, or enumerator of an enumeration that is declared in the frame.
    pub(crate) fn named(&self, name: &str) -> Option<Variable> {
        let place = self.place;
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
                        return self.variable(unit, &entry, kind_of(&entry), depth);
                    }
                    constants::DW_TAG_enumeration_type => {
                        let die = Die {
                            unit,
                            offset: entry.offset(),
                        };
                        let units = UnitVariables::new(self.types, place.module);
                        if let Some(found) = units.enumerator_named(die, name) {
                            return Some(found);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// A variable of a block at a place.
    fn variable(
        &self,
        unit: usize,
        entry: &Entry,
        kind: VariableKind,
        depth: usize,
    ) -> Option<Variable> {
        let place = self.place;
        let name = place.debug().name(unit, entry)?;
        let type_id = self.types.type_id_of(place.module, unit, entry);
        let finder = Finder {
            module: place.module,
            size: self.types.stored_size(type_id),
            pc: Some(place.address),
            at_entry: place.at_entry(),
        };
        let mut location = finder.find(unit, entry);
        if let VariableLocation::Expression(expression) = &location
            && Suspicion::new(self.types, place).is_misplaced((unit, entry), type_id, expression)
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
}

fn kind_of(entry: &Entry) -> VariableKind {
    match entry.tag() {
        constants::DW_TAG_formal_parameter => VariableKind::Argument,
        _ => VariableKind::Local,
    }
}

/// The variables of a module that are outside of functions: of units, namespaces and classes.
pub(crate) struct UnitVariables<'a> {
    types: Types<'a>,
    module: &'a Module,
}

impl<'a> UnitVariables<'a> {
    pub(crate) const fn new(types: Types<'a>, module: &'a Module) -> Self {
        Self { types, module }
    }

    /// The variable of an entry.
    pub(crate) fn at(&self, die: Die, name: String, kind: VariableKind) -> Option<Variable> {
        let entry = self.module.debug().entry(die)?;
        let type_id = self.types.type_id_of(self.module, die.unit, &entry);
        let finder = Finder {
            module: self.module,
            size: self.types.stored_size(type_id),
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

    fn enumerator_named(&self, enumeration: Die, name: &str) -> Option<Variable> {
        let debug = self.module.debug();
        let child: Entry = debug.children(enumeration).into_iter().find(|child| {
            child.tag() == constants::DW_TAG_enumerator
                && debug.name(enumeration.unit, child).as_deref() == Some(name)
        })?;
        self.enumerator(enumeration, &child, name.to_owned())
    }

    /// An enumerator as a constant of its enumeration's type.
    pub(crate) fn enumerator(
        &self,
        enumeration: Die,
        entry: &Entry,
        name: String,
    ) -> Option<Variable> {
        let type_id = self.types.type_id(self.module, enumeration);
        let value = entry.attr_value(constants::DW_AT_const_value)?;
        let value = crate::types::read::constant(&value)?;
        let size = usize::try_from(self.types.size_of(type_id)?).ok()?.min(16);
        let bytes = if self.module.image().endian == gimli::RunTimeEndian::Little {
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
}

/// The expression that gives the frame base at a place.
pub(crate) fn frame_base(place: &CodePlace<'_>) -> Option<LocationExpression> {
    let debug = place.debug();
    // The innermost function with a frame base: for an inlined copy it is its function's.
    let function = place.function()?;
    let entry = debug.entry(place.die(function))?;
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
pub(crate) fn referred(
    types: Types<'_>,
    expression: &LocationExpression,
    target: gimli::DebugInfoOffset<usize>,
    pc: Address,
) -> Option<(TypeId, VariableLocation)> {
    let module = types.modules().any(expression.module)?;
    let debug = module.debug();
    let die = debug.die_at(target.0, false)?;
    let entry = debug.entry(die)?;
    let type_id = types.type_id_of(module, die.unit, &entry);
    let at_entry = CodePlace::at(types.modules(), pc).is_some_and(|place| place.at_entry());
    let finder = Finder {
        module,
        size: types.stored_size(type_id),
        pc: Some(module.unbiased(pc)),
        at_entry,
    };
    Some((type_id, finder.find(die.unit, &entry)))
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

/// The declarations of a block: its own entries in order, then those that only the entry it completes has. The latter were left out
/// of this copy, and are optimized out.
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
