//! Structures, unions, Rust's enums, and enumerations.

use gimli::{AttributeValue, constants};

use super::read::{TypeReader, constant};
use super::{
    BaseEncoding, Enumerator, Member, StaticMember, StructureKind, Type, TypeId, Variant,
    VariantPart,
};
use crate::dwarf::index::NameKind;
use crate::dwarf::{Die, Entry, flag};

impl TypeReader<'_> {
    pub(super) fn enumeration(&self) -> Type {
        if flag(self.entry, constants::DW_AT_declaration)
            && let Some(definition) = self.definition(&[NameKind::Enumeration])
        {
            return (*self.types.type_of(definition)).clone();
        }
        let name = self.qualified_name();
        // The qualification of the enumerators' names, as GDB shows them.
        let scope = if self.debug.facts(self.die.unit).language.is_like_c() {
            None
        } else if flag(self.entry, constants::DW_AT_enum_class) {
            name.clone()
        } else {
            let index = self.debug.index();
            index
                .at(self.die)
                .map(|found| index.scopes(&found).join("::"))
                .filter(|scope| !scope.is_empty())
        };
        let enumerators: Vec<Enumerator> = self
            .debug
            .children(self.die)
            .iter()
            .filter(|child| child.tag() == constants::DW_TAG_enumerator)
            .filter_map(|child| {
                let name = self.debug.name(self.die.unit, child)?;
                Some(Enumerator {
                    name: match &scope {
                        Some(scope) => format!("{scope}::{name}"),
                        None => name,
                    },
                    value: constant(&child.attr_value(constants::DW_AT_const_value)?)?,
                })
            })
            .collect();
        let underlying_unsigned = self.entry.has_attr(constants::DW_AT_type)
            && matches!(
                *self.types.strip(self.target()),
                Type::Base {
                    encoding: BaseEncoding::Unsigned
                        | BaseEncoding::UnsignedChar
                        | BaseEncoding::Boolean
                        | BaseEncoding::Utf,
                    ..
                }
            );
        let signed = !underlying_unsigned && enumerators.iter().any(|item| item.value < 0);
        Type::Enumeration {
            name,
            size: self.size().unwrap_or_else(|| {
                if self.entry.has_attr(constants::DW_AT_type) {
                    self.types.size_of(self.target()).unwrap_or(0)
                } else {
                    0
                }
            }),
            signed,
            enumerators,
        }
    }

    /// The definition of a type that is only declared here, in any unit of any module.
    pub(super) fn definition(&self, kinds: &[NameKind]) -> Option<TypeId> {
        let wanted = self.qualified_name()?;
        let module_first = std::iter::once(self.module).chain(
            self.types
                .modules()
                .iter()
                .filter(|module| module.info.id != self.module.info.id),
        );
        let plain = crate::dwarf::name::components(&wanted)
            .last()
            .map(|last| crate::dwarf::name::plain(last).to_owned())?;
        for module in module_first {
            let debug = module.debug();
            let found = debug.named(&plain).into_iter().find(|name| {
                kinds.contains(&name.kind)
                    && !name.declaration
                    && !name.local
                    && name.die() != self.die
                    && debug
                        .entry(name.die())
                        .is_some_and(|entry| !flag(&entry, constants::DW_AT_declaration))
                    && debug.index().qualified(debug, name) == wanted
            });
            if let Some(found) = found {
                return Some(self.types.type_id(module, found.die()));
            }
        }
        None
    }

    pub(super) fn structure(&self, kind: StructureKind) -> Type {
        let declaration = flag(self.entry, constants::DW_AT_declaration);
        if declaration {
            let kinds: &[NameKind] = if kind == StructureKind::Union {
                &[NameKind::Union]
            } else {
                &[NameKind::Structure]
            };
            if let Some(definition) = self.definition(kinds) {
                return (*self.types.type_of(definition)).clone();
            }
        }
        let mut members = Vec::new();
        let mut static_members = Vec::new();
        let mut variants = None;
        for child in self.debug.children(self.die) {
            match child.tag() {
                constants::DW_TAG_member | constants::DW_TAG_variable
                    if child.tag() == constants::DW_TAG_variable
                        || flag(&child, constants::DW_AT_declaration)
                        || flag(&child, constants::DW_AT_external) =>
                {
                    let position = members.len();
                    let name = self.debug.name(self.die.unit, &child);
                    static_members.extend(name.map(|name| StaticMember { name, position }));
                }
                constants::DW_TAG_member => members.push(self.member(&child)),
                constants::DW_TAG_inheritance => {
                    let type_id = self.types.type_id_of(self.module, self.die.unit, &child);
                    let name = match &*self.types.strip(type_id) {
                        Type::Structure { name, .. } => name.clone(),
                        _ => None,
                    };
                    members.push(Member {
                        name,
                        base_class: true,
                        ..self.member(&child)
                    });
                }
                constants::DW_TAG_variant_part => variants = Some(Box::new(self.variants(&child))),
                _ => {}
            }
        }
        Type::Structure {
            kind,
            name: self.qualified_name(),
            size: self.size().unwrap_or(0),
            members,
            static_members,
            variants,
            declaration,
        }
    }

    pub(super) fn member(&self, entry: &Entry) -> Member {
        let type_id = self.types.type_id_of(self.module, self.die.unit, entry);
        let location = entry.attr_value(constants::DW_AT_data_member_location);
        let offset = match &location {
            None => Some(0),
            Some(AttributeValue::Exprloc(expression)) => self.constant_offset(expression),
            Some(other) => other.udata_value(),
        };
        let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let mut offset = offset.unwrap_or(u64::MAX);
        let bits = number(constants::DW_AT_bit_size).map(|width| {
            let (byte, first) = if let Some(bit) = number(constants::DW_AT_data_bit_offset) {
                (bit / 8, bit % 8)
            } else if let Some(from_top) = number(constants::DW_AT_bit_offset) {
                // Counted from the most significant bit of the storage.
                let storage = number(constants::DW_AT_byte_size)
                    .or_else(|| self.types.size_of(type_id))
                    .unwrap_or(4);
                let bit = storage
                    .saturating_mul(8)
                    .saturating_sub(from_top)
                    .saturating_sub(width);
                (bit / 8, bit % 8)
            } else {
                (0, 0)
            };
            offset = offset.saturating_add(byte);
            (first, width)
        });
        Member {
            name: self.debug.name(self.die.unit, entry),
            type_id,
            offset,
            bits,
            base_class: false,
            artificial: flag(entry, constants::DW_AT_artificial),
        }
    }

    /// The offset of an expression that only adds a constant; the offset of a virtual base is not like that.
    pub(super) fn constant_offset(
        &self,
        expression: &gimli::Expression<crate::module::Reader>,
    ) -> Option<u64> {
        let unit = self.debug.unit(self.die.unit)?;
        let mut operations = expression.clone().operations(unit.encoding());
        let value = match operations.next().ok()?? {
            gimli::Operation::PlusConstant { value }
            | gimli::Operation::UnsignedConstant { value } => value,
            _ => return None,
        };
        match operations.next() {
            Ok(None) => Some(value),
            Ok(Some(gimli::Operation::Plus)) if matches!(operations.next(), Ok(None)) => {
                Some(value)
            }
            _ => None,
        }
    }

    pub(super) fn variants(&self, part: &Entry) -> VariantPart {
        let here = Die {
            unit: self.die.unit,
            offset: part.offset(),
        };
        let discriminant = part
            .attr_value(constants::DW_AT_discr)
            .and_then(|value| self.debug.reference(self.die.unit, &value))
            .and_then(|die| self.debug.entry(die))
            .map(|entry| self.member(&entry));
        let variants = self
            .debug
            .children(here)
            .iter()
            .filter(|child| child.tag() == constants::DW_TAG_variant)
            .filter_map(|variant| {
                let die = Die {
                    unit: self.die.unit,
                    offset: variant.offset(),
                };
                let member = self
                    .debug
                    .children(die)
                    .iter()
                    .find(|child| child.tag() == constants::DW_TAG_member)
                    .map(|child| self.member(child))?;
                let value = variant
                    .attr_value(constants::DW_AT_discr_value)
                    .and_then(|value| constant(&value));
                Some(Variant { value, member })
            })
            .collect();
        VariantPart {
            discriminant,
            variants,
        }
    }
}
