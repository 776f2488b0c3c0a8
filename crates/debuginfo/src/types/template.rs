//! The template arguments of a type: C++'s, and the parameters of Rust's generic types.

use gimli::constants;

use super::TypeId;
use super::access::Types;
use super::read::{TypeReader, constant};
use crate::dwarf::index::NameKind;
use crate::dwarf::{Die, Entry, flag};

/// How many arguments are looked at.
const MOST_ARGUMENTS: usize = 256;

impl Types<'_> {
    /// The types among a type's template arguments, in order. A parameter pack is replaced by its arguments. Arguments that are
    /// values are left out.
    pub(crate) fn template_arguments(self, type_id: TypeId) -> Vec<TypeId> {
        self.template_of(type_id).0
    }

    /// The values among a type's template arguments, in order.
    pub(crate) fn template_values(self, type_id: TypeId) -> Vec<i128> {
        self.template_of(type_id).1
    }

    fn template_of(self, type_id: TypeId) -> (Vec<TypeId>, Vec<i128>) {
        let stripped = self.strip_id(type_id);
        let Some((module, die)) = self.entry_of(stripped) else {
            return Default::default();
        };
        let debug = module.debug();
        let Some(entry) = debug.entry(die) else {
            return Default::default();
        };
        let reader = TypeReader {
            types: self,
            module,
            debug,
            die,
            entry: &entry,
        };
        let mut found = Default::default();
        reader.add_template_arguments(die, &mut found, true);
        if found.0.is_empty()
            && flag(&entry, constants::DW_AT_declaration)
            && let Some(definition) = reader.definition(&[NameKind::Structure])
            && definition != stripped
        {
            return self.template_of(definition);
        }
        found
    }
}

impl TypeReader<'_> {
    fn add_template_arguments(&self, of: Die, found: &mut (Vec<TypeId>, Vec<i128>), packs: bool) {
        for child in self.debug.children(of) {
            if found.0.len() + found.1.len() >= MOST_ARGUMENTS {
                return;
            }
            match child.tag() {
                constants::DW_TAG_template_type_parameter => {
                    let type_id = self.types.type_id_of(self.module, of.unit, &child);
                    found.0.push(type_id);
                }
                constants::DW_TAG_template_value_parameter => {
                    let value = child.attr_value(constants::DW_AT_const_value);
                    found.1.extend(value.and_then(|value| constant(&value)));
                }
                constants::DW_TAG_GNU_template_parameter_pack if packs => {
                    let pack = die_of(of, &child);
                    self.add_template_arguments(pack, found, false);
                }
                _ => {}
            }
        }
    }
}

fn die_of(parent: Die, entry: &Entry) -> Die {
    Die {
        unit: parent.unit,
        offset: entry.offset(),
    }
}
