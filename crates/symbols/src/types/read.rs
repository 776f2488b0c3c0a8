//! Types read from DWARF entries.

use gimli::{AttributeValue, constants};
use tracewire_tracefile::Address;

use super::table::TypeSource;
use super::{
    BaseEncoding, Enumerator, Member, ReferenceKind, StaticMember, StructureKind, Type, TypeId, Variant,
    VariantPart,
};
use crate::dwarf::index::NameKind;
use crate::dwarf::location::Finder;
use crate::dwarf::{DebugInformation, Die, Entry, Value, flag};
use crate::location_expression::VariableLocation;
use crate::module::Module;
use crate::symbols::{ArrayBound, Symbols};
use crate::types::Language;

impl Symbols {
    /// The number of the type that an entry is.
    pub(crate) fn type_id(&self, module: &Module, die: Die) -> TypeId {
        self.types
            .borrow_mut()
            .id(TypeSource::Entry(module.info.id, die, 0))
    }

    /// The number of the type that an entry has; `void` if it has none.
    pub(crate) fn type_id_of(&self, module: &Module, unit: usize, entry: &Entry) -> TypeId {
        match module.debug().type_of(unit, entry) {
            Some(die) => self.type_id(module, die),
            None => self.void(),
        }
    }

    pub(crate) fn void(&self) -> TypeId {
        self.made("void", Type::Void)
    }

    fn made(&self, key: &str, made: Type) -> TypeId {
        let mut types = self.types.borrow_mut();
        match types.make_named(key, || Some(made)) {
            Some(id) => id,
            None => TypeId(0),
        }
    }

    pub(crate) fn read_type(&self, source: TypeSource) -> Type {
        let unknown = || Type::Unknown {
            name: "<unknown type>".to_owned(),
            size: 0,
        };
        let TypeSource::Entry(module, die, dimension) = source else {
            return unknown();
        };
        let Some(module) = self.any_module(module) else {
            return unknown();
        };
        let debug = module.debug();
        // A declaration that names a type unit stands for the type of that unit.
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
            symbols: self,
            module,
            debug,
            die,
            entry: &entry,
        };
        reader.read(dimension)
    }
}

impl Symbols {
    pub(crate) fn read_array_bound(&self, array: TypeId, pc: Address) -> Option<ArrayBound> {
        let source = self.types.borrow().source(self.strip_id(array))?;
        let TypeSource::Entry(module, die, dimension) = source else {
            return None;
        };
        let module = self.any_module(module)?;
        let debug = module.debug();
        let bounds = debug
            .children(die)
            .into_iter()
            .filter(|child| child.tag() == constants::DW_TAG_subrange_type)
            .nth(dimension as usize)?;
        let found = |name| Some((bounds.attr_value(name)?, name));
        let (value, name) =
            found(constants::DW_AT_count).or_else(|| found(constants::DW_AT_upper_bound))?;
        let counts = name == constants::DW_AT_count;
        if let Some(last) = constant(&value) {
            let last = i64::try_from(last).ok()?;
            return Some(ArrayBound::Last(if counts {
                last.checked_sub(1)?
            } else {
                last
            }));
        }
        let at_entry = self.code_at(pc).is_some_and(|place| place.at_entry());
        let finder = |size| Finder {
            module,
            size,
            pc: Some(module.unbiased(pc)),
            at_entry,
        };
        let (location, type_id) = if let Some(variable) = debug.reference(die.unit, &value) {
            let entry = debug.entry(variable)?;
            let type_id = self.type_id_of(module, variable.unit, &entry);
            let location = finder(self.stored_size(type_id)).find(variable.unit, &entry);
            (location, type_id)
        } else {
            let expression = finder(None).expression(debug, die.unit, &value).ok()??;
            return Some(if counts {
                ArrayBound::CountIs(expression)
            } else {
                ArrayBound::LastIs(expression)
            });
        };
        Some(if counts {
            ArrayBound::CountAt(location, type_id)
        } else {
            ArrayBound::LastAt(location, type_id)
        })
    }
}

struct TypeReader<'a> {
    symbols: &'a Symbols,
    module: &'a Module,
    debug: &'a DebugInformation,
    die: Die,
    entry: &'a Entry,
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
            // What these add does not show in C.
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

    fn target(&self) -> TypeId {
        self.symbols
            .type_id_of(self.module, self.die.unit, self.entry)
    }

    fn size(&self) -> Option<u64> {
        self.debug
            .attribute_of(self.die.unit, self.entry, constants::DW_AT_byte_size)?
            .1
            .udata_value()
    }

    fn address_size(&self) -> u64 {
        self.module.image.address_size().into()
    }

    /// The name with namespaces and classes; C has none.
    fn qualified_name(&self) -> Option<String> {
        let name = self.debug.name(self.die.unit, self.entry)?;
        if self.debug.facts(self.die.unit).language == Language::C {
            return Some(name);
        }
        let index = self.debug.index();
        Some(match index.at(self.die) {
            Some(found) => index.qualified(self.debug, found),
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

    /// Dimensions from the `dimension`th on.
    fn array(&self, dimension: u32) -> Type {
        let bounds: Vec<Entry> = self
            .debug
            .children(self.die)
            .into_iter()
            .filter(|child| {
                matches!(
                    child.tag(),
                    constants::DW_TAG_subrange_type | constants::DW_TAG_enumeration_type
                )
            })
            .collect();
        let here = bounds.get(dimension as usize);
        let next = dimension.saturating_add(1);
        let element = if (next as usize) < bounds.len() {
            self.symbols.types.borrow_mut().id(TypeSource::Entry(
                self.module.info.id,
                self.die,
                next,
            ))
        } else {
            self.target()
        };
        Type::Array {
            element,
            count: here.and_then(element_count),
            vector: flag(self.entry, constants::DW_AT_GNU_vector),
        }
    }

    fn function(&self) -> Type {
        let children = self.debug.children(self.die);
        let parameters: Vec<TypeId> = children
            .iter()
            .filter(|child| child.tag() == constants::DW_TAG_formal_parameter)
            .map(|child| self.symbols.type_id_of(self.module, self.die.unit, child))
            .collect();
        let open = children
            .iter()
            .any(|child| child.tag() == constants::DW_TAG_unspecified_parameters);
        let prototyped = self
            .debug
            .attribute_of(self.die.unit, self.entry, constants::DW_AT_prototyped)
            .is_some();
        let c = self.debug.facts(self.die.unit).language == Language::C;
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
                || self.symbols.void(),
                |die| self.symbols.type_id(self.module, die),
            );
        let function = matches!(*self.symbols.type_of(target), Type::Function { .. });
        Type::MemberPointer {
            class,
            target,
            size: self
                .size()
                .unwrap_or_else(|| self.address_size() * if function { 2 } else { 1 }),
        }
    }

    fn enumeration(&self) -> Type {
        if flag(self.entry, constants::DW_AT_declaration)
            && let Some(definition) = self.definition(&[NameKind::Enumeration])
        {
            return (*self.symbols.type_of(definition)).clone();
        }
        let name = self.qualified_name();
        // What the enumerators' names are qualified with, as GDB shows them.
        let scope = if self.debug.facts(self.die.unit).language == Language::C {
            None
        } else if flag(self.entry, constants::DW_AT_enum_class) {
            name.clone()
        } else {
            let index = self.debug.index();
            index
                .at(self.die)
                .map(|found| index.scopes(found).join("::"))
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
                *self.symbols.strip(self.target()),
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
                    self.symbols.size_of(self.target()).unwrap_or(0)
                } else {
                    0
                }
            }),
            signed,
            enumerators,
        }
    }

    /// The definition of a type that is only declared here, in any unit of any module.
    fn definition(&self, kinds: &[NameKind]) -> Option<TypeId> {
        let wanted = self.qualified_name()?;
        let module_first = std::iter::once(self.module).chain(
            self.symbols
                .loaded()
                .filter(|module| module.info.id != self.module.info.id),
        );
        let plain = crate::dwarf::name::components(&wanted)
            .last()
            .map(|last| crate::dwarf::name::plain(last).to_owned())?;
        for module in module_first {
            let debug = module.debug();
            let index = debug.index();
            let found = index.named(&plain).into_iter().find(|name| {
                kinds.contains(&name.kind)
                    && !name.declaration
                    && !name.local
                    && name.die != self.die
                    && debug
                        .entry(name.die)
                        .is_some_and(|entry| !flag(&entry, constants::DW_AT_declaration))
                    && index.qualified(debug, name) == wanted
            });
            if let Some(found) = found {
                return Some(self.symbols.type_id(module, found.die));
            }
        }
        None
    }

    fn structure(&self, kind: StructureKind) -> Type {
        let declaration = flag(self.entry, constants::DW_AT_declaration);
        if declaration {
            let kinds: &[NameKind] = if kind == StructureKind::Union {
                &[NameKind::Union]
            } else {
                &[NameKind::Structure]
            };
            if let Some(definition) = self.definition(kinds) {
                return (*self.symbols.type_of(definition)).clone();
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
                    let type_id = self.symbols.type_id_of(self.module, self.die.unit, &child);
                    let name = match &*self.symbols.strip(type_id) {
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

    fn member(&self, entry: &Entry) -> Member {
        let type_id = self.symbols.type_id_of(self.module, self.die.unit, entry);
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
                    .or_else(|| self.symbols.size_of(type_id))
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
    fn constant_offset(
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

    fn variants(&self, part: &Entry) -> VariantPart {
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

/// The number of elements of one dimension; none if it is not a constant.
fn element_count(bounds: &Entry) -> Option<u64> {
    if bounds.tag() == constants::DW_TAG_enumeration_type {
        return None;
    }
    if let Some(count) = bounds.attr_value(constants::DW_AT_count) {
        return count.udata_value();
    }
    let upper = constant(&bounds.attr_value(constants::DW_AT_upper_bound)?)?;
    let lower = bounds
        .attr_value(constants::DW_AT_lower_bound)
        .and_then(|value| constant(&value))
        .unwrap_or(0);
    // `int a[0]` has the upper bound -1, which some producers write as the largest number of its form.
    let count = upper.checked_sub(lower)?.checked_add(1)?;
    if matches!(upper, 0xffff_ffff | 0xffff_ffff_ffff_ffff) {
        return Some(0);
    }
    u64::try_from(count).ok()
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
