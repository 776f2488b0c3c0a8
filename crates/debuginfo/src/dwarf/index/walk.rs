//! One pass over all units of a module, which reads names and places and skips all else.

use std::collections::HashMap;

use gimli::{AttributeValue, UnitOffset, constants};

use super::{Growing, NONE, Name, NameKind, hash};
use crate::dwarf::{DebugInformation, Die, Value};

/// An index that grows.
#[derive(Default)]
pub(super) struct Walk {
    index: Growing,
    /// The texts of the index by their hashes.
    known: HashMap<u64, u32>,
    /// Names that are taken from the completed entries.
    incomplete: Vec<(u32, Die)>,
}

/// The state of the walk for the entries around.
#[derive(Clone, Copy)]
struct Around {
    parent: u32,
    local: bool,
    /// Whether names in here are of interest.
    skip: bool,
    /// The enumeration that this is in.
    enumeration: Option<UnitOffset<usize>>,
}

impl Walk {
    /// The index, and what in it has yet to be completed.
    pub(super) fn finish(mut self) -> (Growing, Vec<(u32, Die)>) {
        self.index.names.shrink_to_fit();
        self.index.texts.shrink_to_fit();
        self.index.enumerators.shrink_to_fit();
        (self.index, self.incomplete)
    }

    /// The number of a text.
    fn text(&mut self, text: &str) -> Option<u32> {
        if text.is_empty() {
            return Some(NONE);
        }
        let hash = hash(text);
        if let Some(&known) = self.known.get(&hash)
            && self
                .index
                .texts
                .get(known as usize)
                .is_some_and(|known| **known == *text)
        {
            return Some(known);
        }
        let number = u32::try_from(self.index.texts.len()).ok()?;
        self.index.texts.push(text.into());
        // Of two with one hash the first is found again; the other is kept as often as it comes.
        self.known.entry(hash).or_insert(number);
        Some(number)
    }

    pub(super) fn read_unit(&mut self, debug: &DebugInformation, unit: usize) {
        let Some(found) = debug.header(unit) else {
            return;
        };
        let dwarf = debug.dwarf_of(unit);
        // Not the whole unit: most units are never needed but for their names.
        let Ok(abbreviations) = dwarf.abbreviations(found) else {
            return;
        };
        let Ok(mut entries) = found.entries_raw(&abbreviations, None) else {
            return;
        };
        let mut around: Vec<Around> = Vec::new();
        let outermost = Around {
            parent: NONE,
            local: false,
            skip: false,
            enumeration: None,
        };
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = usize::try_from(entries.next_depth()).unwrap_or(0);
            let abbreviation = match entries.read_abbreviation() {
                Ok(Some(abbreviation)) => abbreviation,
                Ok(None) => continue,
                Err(_) => return,
            };
            around.truncate(depth);
            let here = around.last().copied().unwrap_or(outermost);
            let tag = abbreviation.tag();
            let mut below = here;
            let interest = if here.skip && tag != constants::DW_TAG_inlined_subroutine {
                None
            } else {
                interest(tag)
            };
            match interest {
                None => {
                    if entries.skip_attributes(abbreviation.attributes()).is_err() {
                        return;
                    }
                    // Declarations in a function's braces are found through its blocks.
                    below.skip |= matches!(
                        tag,
                        constants::DW_TAG_subroutine_type
                            | constants::DW_TAG_array_type
                            | constants::DW_TAG_formal_parameter
                    );
                }
                Some(interest) => {
                    let mut facts = Facts::default();
                    for &attribute in abbreviation.attributes() {
                        match entries.read_attribute(attribute) {
                            Ok(attribute) => facts.take(&attribute),
                            Err(_) => return,
                        }
                    }
                    if tag == constants::DW_TAG_inlined_subroutine {
                        let origin = facts
                            .origin
                            .and_then(|origin| debug.reference(unit, &origin));
                        if let Some(origin) = origin {
                            let units = self.index.copies.entry(origin).or_default();
                            if units.last() != Some(&unit) {
                                units.push(unit);
                            }
                        }
                    } else {
                        let name = facts.name.take().and_then(|name| {
                            let name = match name {
                                AttributeValue::DebugStrOffsetsIndex(_) => {
                                    dwarf.attr_string(debug.unit(unit)?, name)
                                }
                                name => dwarf.attr_line_string(name),
                            };
                            let name = name.ok()?;
                            self.text(&gimli::Reader::to_string_lossy(&name).ok()?)
                        });
                        let die = Die { unit, offset };
                        below = self.name(debug, interest, die, name, &facts, here);
                    }
                }
            }
            if abbreviation.has_children() && around.len() < 512 {
                around.push(below);
            }
        }
    }

    /// Takes one name in; what holds for the entries below.
    fn name(
        &mut self,
        debug: &DebugInformation,
        interest: Interest,
        die: Die,
        name: Option<u32>,
        facts: &Facts,
        here: Around,
    ) -> Around {
        let kind = match interest {
            Interest::Name(kind) => kind,
            Interest::Function if facts.has_code && !facts.declaration => NameKind::Function,
            Interest::Function => NameKind::AbstractFunction,
            Interest::Member if facts.declaration || facts.external => NameKind::Variable,
            Interest::Member => return Around { skip: true, ..here },
            Interest::Copy => return here,
        };
        let mut below = here;
        if kind == NameKind::Enumeration {
            below.enumeration = Some(die.offset);
        }
        if let (NameKind::Enumerator, Some(enumeration)) = (kind, here.enumeration) {
            self.index.enumerators.push((die, enumeration));
        }
        // A local variable is its block's business.
        if here.local && kind == NameKind::Variable {
            return here;
        }
        let origin = match (&name, &facts.origin) {
            (None, Some(origin)) => debug.reference(die.unit, origin),
            _ => None,
        };
        let name = match (name, origin) {
            (Some(name), _) => name,
            (None, Some(_)) => NONE,
            (None, None) if kind == NameKind::Namespace => {
                self.text("(anonymous namespace)").unwrap_or(NONE)
            }
            (None, None) => {
                // An anonymous enumeration's names belong to the scope around it.
                if kind == NameKind::Function || kind == NameKind::AbstractFunction {
                    below.local = true;
                }
                // Declarations in an anonymous structure (a lambda's `operator()`) have no qualification (GDB's rule).
                if matches!(kind, NameKind::Structure | NameKind::Union) {
                    below.parent = NONE;
                }
                return below;
            }
        };
        // The enumerators of an unscoped enumeration belong to the scope around it.
        let transparent = kind == NameKind::Enumeration && !facts.scoped;
        let (Ok(number), Ok(unit), Ok(offset)) = (
            u32::try_from(self.index.names.len()),
            u32::try_from(die.unit),
            u32::try_from(die.offset.0),
        ) else {
            return below;
        };
        self.index.names.push(Name {
            text: name,
            unit,
            offset,
            parent: here.parent,
            next: NONE,
            kind,
            declaration: facts.declaration,
            external: facts.external,
            local: here.local,
        });
        if let Some(origin) = origin {
            self.incomplete.push((number, origin));
        }
        if !transparent {
            below.parent = number;
        }
        if matches!(kind, NameKind::Function | NameKind::AbstractFunction) {
            below.local = true;
        }
        below
    }
}

/// The treatment of an entry.
#[derive(Clone, Copy)]
enum Interest {
    Name(NameKind),
    Function,
    /// Of a class: a static one is a variable.
    Member,
    /// An inlined copy.
    Copy,
}

fn interest(tag: constants::DwTag) -> Option<Interest> {
    Some(match tag {
        constants::DW_TAG_subprogram => Interest::Function,
        constants::DW_TAG_inlined_subroutine => Interest::Copy,
        constants::DW_TAG_variable | constants::DW_TAG_constant => {
            Interest::Name(NameKind::Variable)
        }
        constants::DW_TAG_member => Interest::Member,
        constants::DW_TAG_enumerator => Interest::Name(NameKind::Enumerator),
        constants::DW_TAG_structure_type
        | constants::DW_TAG_class_type
        | constants::DW_TAG_interface_type => Interest::Name(NameKind::Structure),
        constants::DW_TAG_union_type => Interest::Name(NameKind::Union),
        constants::DW_TAG_enumeration_type => Interest::Name(NameKind::Enumeration),
        constants::DW_TAG_typedef => Interest::Name(NameKind::Typedef),
        constants::DW_TAG_base_type | constants::DW_TAG_unspecified_type => {
            Interest::Name(NameKind::BaseType)
        }
        constants::DW_TAG_namespace | constants::DW_TAG_module => {
            Interest::Name(NameKind::Namespace)
        }
        _ => return None,
    })
}

/// The attributes that the index looks at.
#[derive(Default)]
struct Facts {
    name: Option<Value>,
    origin: Option<Value>,
    declaration: bool,
    external: bool,
    scoped: bool,
    has_code: bool,
}

impl Facts {
    fn take(&mut self, attribute: &gimli::Attribute<crate::module::Reader>) {
        let set = || matches!(attribute.value(), AttributeValue::Flag(true));
        match attribute.name() {
            constants::DW_AT_name => self.name = Some(attribute.value()),
            constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                self.origin = Some(attribute.value());
            }
            constants::DW_AT_declaration => self.declaration = set(),
            constants::DW_AT_external => self.external = set(),
            constants::DW_AT_enum_class => self.scoped = set(),
            constants::DW_AT_low_pc | constants::DW_AT_ranges => self.has_code = true,
            _ => {}
        }
    }
}
