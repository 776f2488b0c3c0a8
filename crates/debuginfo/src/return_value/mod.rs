//! The place of a function's return value when the function returns, by the calling convention.
//!
//! x86-64: the System V ABI, "The Classification of Parameters and Returning of Values". Rust's own convention is not specified;
//! this is the behaviour of rustc. A value of one number is in the register of its kind, one of two numbers in two of them. An
//! aggregate of at most eight bytes is in `rax`, and one of more than sixteen is in memory, whose address is in `rax`. Sizes in
//! between are unknown. Go has a convention of its own, with up to nine integer registers (`go.rs`).

mod go;

use gimli::{Encoding, EndianReader, Format, RunTimeEndian, constants};
use tracewire_arch::Architecture;
use tracewire_mapped_file::SharedBytes;
use tracewire_model::Address;

use crate::dwarf::{Die, Entry, flag};
use crate::function::Functions;
use crate::location_expression::{LocationExpression, VariableLocation};
use crate::module::ModuleId;
use crate::types::{BaseEncoding, Language, Member, StructureKind, Type, TypeId, Types};

/// Why it is not known where a return value is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReturnValueError {
    /// The address is in no function.
    #[error("no function is known at {0}")]
    NoFunction(Address),
    /// The function has no debug information.
    #[error("{0} has no debug information that says what it returns")]
    NoType(String),
    /// It returns nothing.
    #[error("{0} returns nothing")]
    Nothing(String),
    /// The machine's convention is not known here.
    #[error("where {0} returns values is not known here")]
    Machine(Architecture),
    /// The convention does not settle the type.
    #[error(
        "where {0} has its return value is not known: its type is in no form that the convention settles"
    )]
    Type(String),
}

/// The parts of eight bytes that a value is classified by.
const EIGHTBYTE: u64 = 8;

/// How deep a type is looked into.
const DEEPEST: u32 = 16;

/// How many parts of a type are looked at.
const MOST_PARTS: usize = 64;

/// Which registers a part of a value is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    None,
    Integer,
    Sse,
    X87,
    Memory,
}

impl Class {
    /// The class of a part that two members share.
    const fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, class) | (class, Self::None) => class,
            (Self::Memory, _) | (_, Self::Memory) => Self::Memory,
            (Self::Integer, _) | (_, Self::Integer) => Self::Integer,
            (Self::X87, _) | (_, Self::X87) => Self::Memory,
            (Self::Sse, Self::Sse) => Self::Sse,
        }
    }
}

/// Where values of types are when a function returns them.
pub(crate) struct ReturnValues<'a> {
    types: Types<'a>,
}

impl<'a> ReturnValues<'a> {
    pub(crate) const fn new(types: Types<'a>) -> Self {
        Self { types }
    }

    /// The return type of the function around an address, and the place of the value when it returns.
    pub(crate) fn at(&self, pc: Address) -> Result<(TypeId, VariableLocation), ReturnValueError> {
        let function = Functions::new(self.types).at(pc);
        let function = function.ok_or(ReturnValueError::NoFunction(pc))?;
        let Some(type_id) = function.returns else {
            return Err(ReturnValueError::NoType(function.name));
        };
        let modules = self.types.modules();
        match modules.architecture() {
            Some(Architecture::X86_64) => {}
            Some(other) => return Err(ReturnValueError::Machine(other)),
            None => return Err(ReturnValueError::NoType(function.name)),
        }
        let language = modules.language_at(Some(pc));
        if language == Language::Go {
            let (type_id, code) = self.go_return(pc, &function.name)?;
            let expression = of_bytes(function.module, code);
            return Ok((type_id, VariableLocation::Expression(expression)));
        }
        if matches!(&*self.types.strip(type_id), Type::Void) {
            return Err(ReturnValueError::Nothing(function.name));
        }
        let unknown = || ReturnValueError::Type(function.name.clone());
        let size = self.types.stored_size(type_id).ok_or_else(unknown)?;
        if size == 0 {
            return Err(ReturnValueError::Nothing(function.name));
        }
        let code = match language {
            Language::Rust => self.rust_return(type_id, size),
            _ => Some(self.system_v_return(type_id, size)),
        };
        let code = code.ok_or_else(unknown)?;
        let location = VariableLocation::Expression(expression(function.module, code));
        Ok((type_id, location))
    }

    /// The location of a value by the System V ABI, as a DWARF expression.
    fn system_v_return(&self, type_id: TypeId, size: u64) -> Vec<u8> {
        let mut classes = [Class::None; 2];
        let is_complex_x87 = matches!(&*self.types.strip(type_id),
            Type::Base { encoding: BaseEncoding::ComplexFloat, size, .. } if *size > 16);
        let is_vector = matches!(
            &*self.types.strip(type_id),
            Type::Array { vector: true, .. }
        );
        if is_complex_x87 {
            let zeros = [OP_ZERO, OP_STACK_VALUE, OP_PIECE, 6];
            let parts = [OP_REG_ST0, OP_REG_ST1].map(|part| vec![part, OP_PIECE, 10]);
            return (parts.into_iter())
                .flat_map(|part| part.into_iter().chain(zeros))
                .collect();
        }
        if is_vector && matches!(size, 16 | 32 | 64) {
            // One register: xmm0, ymm0 or zmm0; the part beyond xmm0 has no DWARF number.
            return vec![OP_REG_XMM0, OP_PIECE, 16, OP_PIECE, (size - 16) as u8];
        }
        let mut parts = 0;
        if size > 2 * EIGHTBYTE
            || self.is_passed_by_reference(type_id, DEEPEST)
            || !self.classify(type_id, 0, &mut classes, DEEPEST, &mut parts)
        {
            return vec![OP_BREG_RAX, 0];
        }
        match classes {
            [Class::X87, Class::None | Class::X87] => {
                // Ten bytes, and what fills the type up.
                let filler = size.saturating_sub(10) as u8;
                return vec![
                    OP_REG_ST0,
                    OP_PIECE,
                    10,
                    OP_ZERO,
                    OP_STACK_VALUE,
                    OP_PIECE,
                    filler,
                ];
            }
            [Class::Memory | Class::X87, _] | [_, Class::Memory | Class::X87] => {
                return vec![OP_BREG_RAX, 0];
            }
            _ => {}
        }
        let (mut integers, mut vectors) = (0, 0);
        let mut code = Vec::new();
        let count = size.div_ceil(EIGHTBYTE);
        for (index, class) in (0..count).zip(classes) {
            let piece = (size - index * EIGHTBYTE).min(EIGHTBYTE) as u8;
            match class {
                Class::Sse => {
                    code.push(OP_REG_XMM0 + vectors);
                    vectors += 1;
                }
                Class::Integer => {
                    code.push([OP_REG_RAX, OP_REG_RDX][integers]);
                    integers += 1;
                }
                // Padding: the value has no bytes there.
                _ => {}
            }
            if count > 1 || class == Class::None {
                code.extend([OP_PIECE, piece]);
            }
        }
        code
    }

    /// Adds the classes of a type that starts so many bytes into a value. False where the value is in memory.
    fn classify(
        &self,
        type_id: TypeId,
        offset: u64,
        classes: &mut [Class; 2],
        depth: u32,
        parts: &mut usize,
    ) -> bool {
        *parts += 1;
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        if *parts > MOST_PARTS {
            return false;
        }
        let mut add = |class: Class, size: u64| {
            let first = offset / EIGHTBYTE;
            let last = (offset + size.max(1) - 1) / EIGHTBYTE;
            for part in first..=last {
                match usize::try_from(part)
                    .ok()
                    .and_then(|part| classes.get_mut(part))
                {
                    Some(known) => *known = known.with(class),
                    None => return false,
                }
            }
            true
        };
        match &*self.types.strip(type_id) {
            Type::Base { size, encoding, .. } => match encoding {
                BaseEncoding::Float if *size > 8 && *size <= 16 && self.is_x87(type_id) => {
                    add(Class::X87, *size)
                }
                BaseEncoding::Float | BaseEncoding::ComplexFloat => add(Class::Sse, *size),
                BaseEncoding::Unknown => false,
                _ => add(Class::Integer, *size),
            },
            Type::Pointer { size, .. }
            | Type::Reference { size, .. }
            | Type::Enumeration { size, .. }
            | Type::MemberPointer { size, .. } => add(Class::Integer, *size),
            Type::Array {
                element,
                count,
                vector,
            } => {
                let Some(size) = self.types.stored_size(*element) else {
                    return false;
                };
                if *vector {
                    return add(Class::Sse, size.saturating_mul(count.unwrap_or(0)));
                }
                (0..count.unwrap_or(0)).all(|index| {
                    let Some(at) = size
                        .checked_mul(index)
                        .and_then(|at| at.checked_add(offset))
                    else {
                        return false;
                    };
                    self.classify(*element, at, classes, depth, parts)
                })
            }
            Type::Structure { members, .. } => members.iter().all(|member| {
                if let Some((first, width)) = member.bits {
                    let start = offset
                        .saturating_add(member.offset)
                        .saturating_add(first / 8);
                    let last = (first % 8 + width.max(1) - 1) / 8;
                    let mut add = |at: u64| {
                        let part = usize::try_from(at / EIGHTBYTE).ok();
                        match part.and_then(|part| classes.get_mut(part)) {
                            Some(known) => {
                                *known = known.with(Class::Integer);
                                true
                            }
                            None => false,
                        }
                    };
                    return add(start) && add(start.saturating_add(last));
                }
                match offset.checked_add(member.offset) {
                    // An empty base class or member has no bytes.
                    _ if self.is_empty_class(member.type_id) => true,
                    Some(at) => self.classify(member.type_id, at, classes, depth, parts),
                    None => false,
                }
            }),
            _ => false,
        }
    }

    /// Whether a floating-point type is that of the x87: `__float128` is not.
    fn is_x87(&self, type_id: TypeId) -> bool {
        match &*self.types.strip(type_id) {
            Type::Base { name, .. } => !name.contains("128"),
            _ => false,
        }
    }

    fn is_empty_class(&self, type_id: TypeId) -> bool {
        matches!(&*self.types.strip(type_id),
            Type::Structure { members, kind, .. }
                if *kind != StructureKind::Union && members.iter().all(|member| self.is_empty_member(member)))
    }

    fn is_empty_member(&self, member: &Member) -> bool {
        member.base_class
            && matches!(&*self.types.strip(member.type_id), Type::Structure { members, .. } if members.is_empty())
    }

    /// Whether values of a type are passed in memory at any size, as those of C++ classes with a destructor or a copy constructor
    /// of their own are.
    fn is_passed_by_reference(&self, type_id: TypeId, depth: u32) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return true;
        };
        let stripped = self.types.strip_id(type_id);
        if let Some((module, die)) = self.types.entry_of(stripped)
            && let Some((_, value)) =
                (module.debug()).attribute(die, constants::DW_AT_calling_convention)
        {
            let by_reference = u64::from(constants::DW_CC_pass_by_reference.0);
            let said = match value {
                gimli::AttributeValue::CallingConvention(convention) => {
                    Some(u64::from(convention.0))
                }
                other => other.udata_value(),
            };
            return said == Some(by_reference);
        }
        match &*self.types.type_of(stripped) {
            Type::Structure { members, .. } => {
                self.has_own_copy(stripped)
                    || members
                        .iter()
                        .any(|member| self.is_passed_by_reference(member.type_id, depth))
            }
            Type::Array { element, .. } => self.is_passed_by_reference(*element, depth),
            _ => false,
        }
    }

    /// Whether a class has a destructor, a copy or a move constructor of its own, or virtual functions. It decides how a class is
    /// passed if the compiler's debug information does not.
    fn has_own_copy(&self, class: TypeId) -> bool {
        let Some((module, die)) = self.types.entry_of(class) else {
            return false;
        };
        let debug = module.debug();
        let is_virtual = |entry: &Entry| {
            let value = entry.attr_value(constants::DW_AT_virtuality);
            value.is_some_and(|value| {
                value != gimli::AttributeValue::Virtuality(constants::DW_VIRTUALITY_none)
            })
        };
        let is_defaulted = |entry: &Entry| {
            let value = entry.attr_value(constants::DW_AT_defaulted);
            let in_class = u64::from(constants::DW_DEFAULTED_in_class.0);
            value.and_then(|value| value.udata_value()) == Some(in_class)
        };
        let own_name = debug
            .entry(die)
            .and_then(|entry| debug.name(die.unit, &entry));
        let own_name = own_name.unwrap_or_default();
        let own_name = own_name.split('<').next().unwrap_or_default();
        debug.children(die).into_iter().any(|child| {
            if is_virtual(&child) {
                return true;
            }
            if child.tag() != constants::DW_TAG_subprogram
                || flag(&child, constants::DW_AT_artificial)
                || flag(&child, constants::DW_AT_deleted)
                || is_defaulted(&child)
            {
                return false;
            }
            let name = debug.name(die.unit, &child).unwrap_or_default();
            if name.starts_with('~') {
                return true;
            }
            if name != own_name {
                return false;
            }
            // A constructor with one parameter, a reference to its class.
            let of_child = Die {
                unit: die.unit,
                offset: child.offset(),
            };
            let parameters = debug.children(of_child).into_iter().filter(|parameter| {
                parameter.tag() == constants::DW_TAG_formal_parameter
                    && !flag(parameter, constants::DW_AT_artificial)
            });
            let types: Vec<TypeId> = parameters
                .map(|parameter| self.types.type_id_of(module, die.unit, &parameter))
                .collect();
            let [one] = types[..] else {
                return false;
            };
            matches!(&*self.types.strip(one),
                Type::Reference { target, .. } if self.types.strip_id(*target) == class)
        })
    }

    /// The location of a value by what rustc does; none where that is not known.
    fn rust_return(&self, type_id: TypeId, size: u64) -> Option<Vec<u8>> {
        if size > 2 * EIGHTBYTE {
            return Some(vec![OP_BREG_RAX, 0]);
        }
        let mut scalars = Vec::new();
        if !self.scalars(type_id, 0, &mut scalars, DEEPEST) {
            scalars.clear();
        }
        scalars.sort_unstable();
        match *scalars.as_slice() {
            [(0, length, class)] if length == size => Some(match (class, size) {
                (Class::Sse, _) => vec![OP_REG_XMM0],
                (_, 0..=8) => vec![OP_REG_RAX],
                _ => vec![OP_REG_RAX, OP_PIECE, 8, OP_REG_RDX, OP_PIECE, 8],
            }),
            [(0, first, one), (at, second, other)] if first <= 8 && second <= 8 => {
                let (mut integers, mut vectors) = (0, 0);
                let mut register = |class: Class| match class {
                    Class::Sse => {
                        vectors += 1;
                        OP_REG_XMM0 + vectors - 1
                    }
                    _ => {
                        integers += 1;
                        [OP_REG_RAX, OP_REG_RDX][integers - 1]
                    }
                };
                let mut code = vec![register(one), OP_PIECE, first as u8];
                let gap = at.checked_sub(first)?;
                if gap > 0 {
                    code.extend([OP_PIECE, gap as u8]);
                }
                code.extend([register(other), OP_PIECE, second as u8]);
                let rest = size.checked_sub(at + second)?;
                if rest > 0 {
                    code.extend([OP_PIECE, rest as u8]);
                }
                Some(code)
            }
            _ if size <= EIGHTBYTE => Some(vec![OP_REG_RAX]),
            _ => None,
        }
    }

    /// The numbers that a value of Rust has: (offset, size, class). Those of the variants of an enum are one where they are at the
    /// same place and alike. False where this is not known.
    fn scalars(
        &self,
        type_id: TypeId,
        offset: u64,
        found: &mut Vec<(u64, u64, Class)>,
        depth: u32,
    ) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let mut add = |size: u64, class: Class| {
            if size > 0 && !found.contains(&(offset, size, class)) {
                let overlaps = |(at, length, _): &(u64, u64, Class)| {
                    *at < offset + size && offset < at + length
                };
                if found.len() >= 3 || found.iter().any(overlaps) {
                    return false;
                }
                found.push((offset, size, class));
            }
            true
        };
        match &*self.types.strip(type_id) {
            Type::Void => true,
            Type::Base { size, encoding, .. } => match encoding {
                BaseEncoding::Float => add(*size, Class::Sse),
                BaseEncoding::Unknown | BaseEncoding::ComplexFloat => false,
                _ => add(*size, Class::Integer),
            },
            Type::Pointer { size, .. }
            | Type::Reference { size, .. }
            | Type::Enumeration { size, .. } => add(*size, Class::Integer),
            Type::Structure {
                kind: StructureKind::Union,
                ..
            } => false,
            Type::Structure {
                members, variants, ..
            } => {
                let of = |member: &Member, found: &mut Vec<_>| {
                    offset
                        .checked_add(member.offset)
                        .is_some_and(|at| self.scalars(member.type_id, at, found, depth))
                };
                if !members.iter().all(|member| of(member, found)) {
                    return false;
                }
                let Some(part) = variants else {
                    return true;
                };
                // The tag of an enum may be in the same bytes as its variants' values (a niche).
                let is_niche = part.discriminant.is_some()
                    && part.variants.iter().any(|variant| variant.value.is_none());
                if let Some(tag) = part.discriminant.as_ref().filter(|_| !is_niche)
                    && !of(tag, found)
                {
                    return false;
                }
                part.variants
                    .iter()
                    .all(|variant| of(&variant.member, found))
            }
            _ => false,
        }
    }
}

const OP_REG_RAX: u8 = constants::DW_OP_reg0.0;
const OP_REG_RDX: u8 = constants::DW_OP_reg1.0;
const OP_REG_XMM0: u8 = constants::DW_OP_reg17.0;
/// `DW_OP_regx 33` and 34 do not fit one byte: they are spelled out by [`expression`].
const OP_REG_ST0: u8 = 0xff;
const OP_REG_ST1: u8 = 0xfe;
const OP_BREG_RAX: u8 = constants::DW_OP_breg0.0;
const OP_ZERO: u8 = constants::DW_OP_lit0.0;
const OP_STACK_VALUE: u8 = constants::DW_OP_stack_value.0;
const OP_PIECE: u8 = constants::DW_OP_piece.0;

/// An expression of the machine's registers.
fn expression(module: ModuleId, code: Vec<u8>) -> LocationExpression {
    let bytes = code.into_iter().flat_map(|byte| match byte {
        OP_REG_ST0 => vec![constants::DW_OP_regx.0, 33],
        OP_REG_ST1 => vec![constants::DW_OP_regx.0, 34],
        byte => vec![byte],
    });
    of_bytes(module, bytes.collect())
}

/// An expression of these bytes.
fn of_bytes(module: ModuleId, bytes: Vec<u8>) -> LocationExpression {
    LocationExpression {
        bytes: EndianReader::new(SharedBytes::from(bytes), RunTimeEndian::Little),
        encoding: Encoding {
            address_size: 8,
            format: Format::Dwarf32,
            version: 5,
        },
        module,
        unit: None,
        bias: 0,
        addresses: None,
    }
}
