//! Types read from DWARF entries.

use gimli::{AttributeValue, constants};

use super::access::{Types, unknown};
use super::table::TypeSource;
use super::{BaseEncoding, ReferenceKind, StructureKind, Type, TypeId};
use crate::dwarf::{DebugInformation, Die, Entry, Value};
use crate::module::Module;

/// The name of a type that an entry refers to in a file that is not read.
pub(crate) const UNREAD: &str = "<type in debug information that cannot be read>";

fn unread() -> Type {
    Type::Unknown {
        name: UNREAD.to_owned(),
        size: 0,
    }
}

impl Types<'_> {
    /// The number of the type that an entry is.
    pub(crate) fn type_id(self, module: &Module, die: Die) -> TypeId {
        self.table().id(TypeSource::Entry(module.info.id, die, 0))
    }

    /// The number of the type that an entry has; `void` if it has none.
    pub(crate) fn type_id_of(self, module: &Module, unit: usize, entry: &Entry) -> TypeId {
        match module.debug().type_of(unit, entry) {
            Some(die) => self.type_id(module, die),
            None if module.debug().has_type(unit, entry) => self.made(UNREAD, unread()),
            None => self.void(),
        }
    }

    pub(crate) fn void(self) -> TypeId {
        self.made("void", Type::Void)
    }

    fn made(self, key: &str, made: Type) -> TypeId {
        let made = self.make_named(key, || Some(made));
        made.unwrap_or(TypeId(0))
    }

    pub(super) fn read_type(self, source: TypeSource) -> Type {
        let TypeSource::Entry(module, die, dimension) = source else {
            return unknown();
        };
        let Some(module) = self.modules().any(module) else {
            return unknown();
        };
        let debug = module.debug();
        // A declaration that refers to a type unit is replaced by the type of that unit.
        let mut die = die;
        let Some(mut entry) = debug.entry(die) else {
            return unknown();
        };
        if let Some(signature) = entry.attr_value(constants::DW_AT_signature)
            && let Some(target) = debug.reference(die.unit, &signature)
            && let Some(definition) = debug.entry(target)
        {
            (die, entry) = (target, definition);
        }
        let reader = TypeReader {
            types: self,
            module,
            debug,
            die,
            entry: &entry,
        };
        reader.read(dimension)
    }
}

pub(super) struct TypeReader<'a> {
    pub(super) types: Types<'a>,
    pub(super) module: &'a Module,
    pub(super) debug: &'a DebugInformation,
    pub(super) die: Die,
    pub(super) entry: &'a Entry,
}

impl TypeReader<'_> {
    fn read(&self, dimension: u32) -> Type {
        match self.entry.tag() {
            constants::DW_TAG_base_type => self.base(),
            constants::DW_TAG_pointer_type => Type::Pointer {
                target: self.target(),
                size: self.size().unwrap_or_else(|| self.address_size()),
                name: self.debug.name(self.die.unit, self.entry),
            },
            constants::DW_TAG_reference_type => self.reference(ReferenceKind::LValue),
            constants::DW_TAG_rvalue_reference_type => self.reference(ReferenceKind::RValue),
            constants::DW_TAG_array_type => self.array(dimension),
            constants::DW_TAG_structure_type | constants::DW_TAG_interface_type => {
                self.structure(StructureKind::Struct)
            }
            constants::DW_TAG_class_type => self.structure(StructureKind::Class),
            constants::DW_TAG_union_type => self.structure(StructureKind::Union),
            constants::DW_TAG_enumeration_type => self.enumeration(),
            constants::DW_TAG_typedef | constants::DW_TAG_template_alias => Type::Typedef {
                name: self.qualified_name().unwrap_or_default(),
                target: self.target(),
            },
            constants::DW_TAG_const_type => self.qualified("const"),
            constants::DW_TAG_volatile_type => self.qualified("volatile"),
            constants::DW_TAG_restrict_type => self.qualified("restrict"),
            constants::DW_TAG_atomic_type => self.qualified("_Atomic"),
            // These qualifiers do not show in C.
            constants::DW_TAG_packed_type
            | constants::DW_TAG_shared_type
            | constants::DW_TAG_immutable_type => Type::Typedef {
                name: self
                    .debug
                    .name(self.die.unit, self.entry)
                    .unwrap_or_default(),
                target: self.target(),
            },
            constants::DW_TAG_subroutine_type | constants::DW_TAG_subprogram => self.function(),
            constants::DW_TAG_ptr_to_member_type => self.member_pointer(),
            _ => Type::Unknown {
                name: self
                    .qualified_name()
                    .unwrap_or_else(|| format!("<{}>", self.entry.tag())),
                size: self.size().unwrap_or(0),
            },
        }
    }

    pub(super) fn target(&self) -> TypeId {
        self.types
            .type_id_of(self.module, self.die.unit, self.entry)
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.debug
            .attribute_of(self.die.unit, self.entry, constants::DW_AT_byte_size)?
            .1
            .udata_value()
    }

    pub(super) fn address_size(&self) -> u64 {
        self.module.image().address_size().into()
    }

    /// The name with namespaces and classes; C has none.
    pub(super) fn qualified_name(&self) -> Option<String> {
        let name = self.debug.name(self.die.unit, self.entry)?;
        if self.debug.facts(self.die.unit).language.is_like_c() {
            return Some(name);
        }
        let index = self.debug.index();
        Some(match index.at(self.die) {
            Some(found) => index.qualified(self.debug, &found),
            None => name,
        })
    }

    fn qualified(&self, qualifier: &'static str) -> Type {
        Type::Qualified {
            qualifier,
            target: self.target(),
        }
    }

    fn reference(&self, kind: ReferenceKind) -> Type {
        Type::Reference {
            target: self.target(),
            size: self.size().unwrap_or_else(|| self.address_size()),
            kind,
        }
    }

    fn base(&self) -> Type {
        let name = self.debug.name(self.die.unit, self.entry);
        let encoding = match self.entry.attr_value(constants::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => match encoding {
                constants::DW_ATE_boolean => BaseEncoding::Boolean,
                constants::DW_ATE_float => BaseEncoding::Float,
                constants::DW_ATE_complex_float => BaseEncoding::ComplexFloat,
                constants::DW_ATE_signed => BaseEncoding::Signed,
                constants::DW_ATE_signed_char => BaseEncoding::SignedChar,
                constants::DW_ATE_unsigned | constants::DW_ATE_address => BaseEncoding::Unsigned,
                constants::DW_ATE_unsigned_char => BaseEncoding::UnsignedChar,
                constants::DW_ATE_UTF | constants::DW_ATE_ASCII => BaseEncoding::Utf,
                _ => BaseEncoding::Unknown,
            },
            _ => BaseEncoding::Unknown,
        };
        Type::Base {
            name: name.unwrap_or_default(),
            size: self.size().unwrap_or(0),
            encoding,
        }
    }

    fn function(&self) -> Type {
        let children = self.debug.children(self.die);
        let parameters: Vec<TypeId> = children
            .iter()
            .filter(|child| child.tag() == constants::DW_TAG_formal_parameter)
            .map(|child| self.types.type_id_of(self.module, self.die.unit, child))
            .collect();
        let open = children
            .iter()
            .any(|child| child.tag() == constants::DW_TAG_unspecified_parameters);
        let prototyped = self
            .debug
            .attribute_of(self.die.unit, self.entry, constants::DW_AT_prototyped)
            .is_some();
        let c = self.debug.facts(self.die.unit).language.is_like_c();
        Type::Function {
            returns: self.target(),
            variadic: open || (c && !prototyped && parameters.is_empty()),
            parameters,
        }
    }

    fn member_pointer(&self) -> Type {
        let target = self.target();
        let class = self
            .entry
            .attr_value(constants::DW_AT_containing_type)
            .and_then(|value| self.debug.reference(self.die.unit, &value))
            .map_or_else(
                || self.types.void(),
                |die| self.types.type_id(self.module, die),
            );
        let function = matches!(*self.types.type_of(target), Type::Function { .. });
        Type::MemberPointer {
            class,
            target,
            size: self
                .size()
                .unwrap_or_else(|| self.address_size() * if function { 2 } else { 1 }),
        }
    }
}

/// The number of a constant attribute: signed where its form is, otherwise not.
pub(crate) fn constant(value: &Value) -> Option<i128> {
    match *value {
        AttributeValue::Sdata(value) => Some(value.into()),
        AttributeValue::Block(ref bytes) => {
            // Rust's 128-bit discriminants.
            let slice = gimli::Reader::to_slice(bytes).ok()?;
            if slice.len() > 16 {
                return None;
            }
            let little = gimli::Reader::endian(bytes) == gimli::RunTimeEndian::Little;
            let number = |number: i128, byte: &u8| (number << 8) | i128::from(*byte);
            Some(if little {
                slice.iter().rev().fold(0, number)
            } else {
                slice.iter().fold(0, number)
            })
        }
        ref other => other.udata_value().map(i128::from),
    }
}
