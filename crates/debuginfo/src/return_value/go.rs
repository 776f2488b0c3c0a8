//! Where compiled Go functions have their results when they return.
//!
//! x86-64: "Go internal ABI specification" (`cmd/compile/abi-internal.md`). Each result is in registers if all of its parts find some,
//! in the order of the results. The others are on the stack, after the parameters that are there. Before Go 1.17 all of them are.

use gimli::constants;
use tracewire_model::Address;

use super::{DEEPEST, MOST_PARTS, OP_PIECE, OP_REG_XMM0, ReturnValueError, ReturnValues};
use crate::code_place::CodePlace;
use crate::dwarf::{Die, flag};
use crate::goroutine::has_register_convention;
use crate::types::{BaseEncoding, Member, StructureKind, Type, TypeId};

/// The DWARF numbers of the integer registers, in their order: `rax`, `rbx`, `rcx`, `rdi`, `rsi`, `r8` to `r11`.
const INTEGERS: [u8; 9] = [0, 3, 2, 5, 4, 8, 9, 10, 11];

/// How many floating-point registers there are, from `xmm0` on.
const FLOATS: u8 = 15;

/// The stack pointer's DWARF number.
const STACK_POINTER: u8 = 7;

/// The bytes of a word, and of the return address.
const WORD: u64 = 8;

/// A part of a value in a register.
struct Part {
    offset: u64,
    size: u64,
    register: u8,
}

/// Registers and stack that are not taken yet.
struct Free {
    has_registers: bool,
    integers: usize,
    floats: u8,
    /// The offset of the next value on the stack from the caller's stack pointer.
    stack: u64,
}

impl Free {
    fn integer(&mut self) -> Option<u8> {
        let register = INTEGERS.get(self.integers).copied();
        self.integers += 1;
        register.filter(|_| self.has_registers)
    }

    fn float(&mut self) -> Option<u8> {
        let number = self.floats;
        self.floats += 1;
        (self.has_registers && number < FLOATS).then_some(OP_REG_XMM0 + number)
    }
}

/// A parameter or a result.
struct GoValue {
    name: Option<String>,
    type_id: TypeId,
    is_result: bool,
}

impl ReturnValues<'_> {
    /// The type and the place of a function's result, as a DWARF expression. Several results are a structure.
    pub(super) fn go_return(
        &self,
        pc: Address,
        function: &str,
    ) -> Result<(TypeId, Vec<u8>), ReturnValueError> {
        let place = CodePlace::at(self.types.modules(), pc);
        let found = place.as_ref().and_then(|place| {
            let die = place.die(place.function()?);
            Some((self.go_values(place, die), has_register_convention(place)))
        });
        let Some((values, has_registers)) = found else {
            return Err(ReturnValueError::NoType(function.to_owned()));
        };
        let unknown = || ReturnValueError::Type(function.to_owned());
        let mut free = Free {
            has_registers,
            integers: 0,
            floats: 0,
            stack: 0,
        };
        for parameter in values.iter().filter(|value| !value.is_result) {
            self.go_assign(parameter.type_id, &mut free)
                .ok_or_else(unknown)?;
        }
        free.stack = free.stack.next_multiple_of(WORD);
        (free.integers, free.floats) = (0, 0);
        let results: Vec<_> = values.into_iter().filter(|value| value.is_result).collect();
        let mut members = Vec::new();
        let (mut code, mut size, mut most) = (Vec::new(), 0_u64, 1);
        let is_one = results.len() == 1;
        for (index, result) in results.into_iter().enumerate() {
            let (parts, on_stack) = self
                .go_assign(result.type_id, &mut free)
                .ok_or_else(unknown)?;
            let own = self.go_size(result.type_id).ok_or_else(unknown)?;
            if is_one {
                if own == 0 {
                    break;
                }
                return Ok((result.type_id, location(&parts, on_stack, own, true)));
            }
            let align = self.go_align(result.type_id, DEEPEST).ok_or_else(unknown)?;
            most = most.max(align);
            let offset = size.next_multiple_of(align);
            piece(&mut code, offset - size);
            code.extend(location(&parts, on_stack, own, false));
            size = offset.checked_add(own).ok_or_else(unknown)?;
            let name = result.name.filter(|name| !name.starts_with('~'));
            members.push(Member {
                name: Some(name.unwrap_or_else(|| format!("r{index}"))),
                type_id: result.type_id,
                offset,
                bits: None,
                base_class: false,
                artificial: false,
            });
        }
        if size == 0 {
            return Err(ReturnValueError::Nothing(function.to_owned()));
        }
        piece(&mut code, size.next_multiple_of(most) - size);
        let type_id = self.types.make_type(Type::Structure {
            kind: StructureKind::Struct,
            name: None,
            size: size.next_multiple_of(most),
            members,
            static_members: Vec::new(),
            variants: None,
            declaration: false,
        });
        Ok((type_id, code))
    }

    /// The parameters and results of a function.
    fn go_values(&self, place: &CodePlace<'_>, function: Die) -> Vec<GoValue> {
        let debug = place.debug();
        let children = debug.children(function).into_iter();
        let parameters = children.filter(|child| {
            child.tag() == constants::DW_TAG_formal_parameter
                && !flag(child, constants::DW_AT_artificial)
        });
        let value = |child| {
            let result = constants::DW_AT_variable_parameter;
            let is_result = debug.attribute_of(function.unit, &child, result);
            let type_id = self.types.type_id_of(place.module, function.unit, &child);
            // A function's value points to the address of its code, and to what it has captured.
            let is_function = matches!(&*self.types.strip(type_id), Type::Function { .. });
            let code = || self.types.pointer_to(type_id);
            GoValue {
                name: debug.name(function.unit, &child),
                type_id: match is_function {
                    true => self.types.pointer_to(code()),
                    false => type_id,
                },
                is_result: is_result
                    .is_some_and(|(_, value)| value == gimli::AttributeValue::Flag(true)),
            }
        };
        let mut values: Vec<GoValue> = Vec::new();
        for value in parameters.map(value) {
            // The compiler describes a result again that it has copied.
            let is_copy = value.name.as_deref().is_some_and(|name| {
                let is_it =
                    |known: &GoValue| known.is_result && known.name.as_deref() == Some(name);
                value.is_result && name != "_" && values.iter().any(is_it)
            });
            if !is_copy {
                values.push(value);
            }
        }
        values
    }

    /// Takes registers or stack for a value: its parts in registers, or its offset on the stack.
    fn go_assign(&self, type_id: TypeId, free: &mut Free) -> Option<(Vec<Part>, Option<u64>)> {
        let before = (free.integers, free.floats);
        let mut parts = Vec::new();
        let size = self.go_size(type_id)?;
        if size > 0 && self.go_parts(type_id, 0, &mut parts, free, DEEPEST) {
            parts.sort_by_key(|part| part.offset);
            return Some((parts, None));
        }
        (free.integers, free.floats) = before;
        let align = self.go_align(type_id, DEEPEST)?;
        let place = free.stack.checked_next_multiple_of(align)?;
        free.stack = place.checked_add(size)?;
        Some((Vec::new(), Some(place)))
    }

    /// Adds the parts of a value, each in a register. False where there are not enough, or where the value is none for registers.
    fn go_parts(
        &self,
        type_id: TypeId,
        offset: u64,
        parts: &mut Vec<Part>,
        free: &mut Free,
        depth: u32,
    ) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        let mut add = |size: u64, register: Option<u8>| {
            let Some(register) = register.filter(|_| parts.len() < MOST_PARTS) else {
                return false;
            };
            parts.push(Part {
                offset,
                size,
                register,
            });
            true
        };
        match &*self.types.strip(type_id) {
            Type::Base { size, encoding, .. } => match encoding {
                BaseEncoding::Float => add(*size, free.float()),
                BaseEncoding::ComplexFloat => {
                    let half = size / 2;
                    if !add(half, free.float()) {
                        return false;
                    }
                    let register = free.float();
                    let Some(register) = register else {
                        return false;
                    };
                    parts.push(Part {
                        offset: offset.saturating_add(half),
                        size: half,
                        register,
                    });
                    true
                }
                BaseEncoding::Unknown => false,
                _ => add(*size, free.integer()),
            },
            Type::Pointer { size, .. } => add(*size, free.integer()),
            Type::Function { .. } => add(WORD, free.integer()),
            Type::Array { element, count, .. } => match count {
                Some(0) => true,
                Some(1) => self.go_parts(*element, offset, parts, free, depth),
                _ => false,
            },
            Type::Structure { members, .. } => members.iter().all(|member| {
                offset
                    .checked_add(member.offset)
                    .is_some_and(|at| self.go_parts(member.type_id, at, parts, free, depth))
            }),
            _ => false,
        }
    }

    /// How many bytes a value takes. A function's value is a pointer.
    fn go_size(&self, type_id: TypeId) -> Option<u64> {
        match &*self.types.strip(type_id) {
            Type::Function { .. } => Some(WORD),
            _ => self.types.stored_size(type_id),
        }
    }

    /// The alignment of a value; a power of two.
    fn go_align(&self, type_id: TypeId, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let align = match &*self.types.strip(type_id) {
            Type::Base {
                size,
                encoding: BaseEncoding::ComplexFloat,
                ..
            } => size / 2,
            Type::Base { size, .. } | Type::Pointer { size, .. } => *size,
            Type::Array { element, .. } => self.go_align(*element, depth)?,
            Type::Structure { members, .. } => {
                let members = members.iter();
                let aligns: Option<Vec<u64>> = members
                    .map(|member| self.go_align(member.type_id, depth))
                    .collect();
                aligns?.into_iter().max().unwrap_or(1)
            }
            _ => WORD,
        };
        Some(align.clamp(1, WORD).next_power_of_two())
    }
}

/// Where a value of so many bytes is. A value that is alone needs no pieces.
fn location(parts: &[Part], on_stack: Option<u64>, size: u64, is_alone: bool) -> Vec<u8> {
    let mut code = Vec::new();
    if let Some(offset) = on_stack {
        // The return address is below.
        code.push(constants::DW_OP_breg0.0 + STACK_POINTER);
        signed(&mut code, (offset + WORD).cast_signed());
        if !is_alone {
            piece(&mut code, size);
        }
        return code;
    }
    if let ([part], true) = (parts, is_alone)
        && part.size == size
    {
        return vec![register(part)];
    }
    let mut end = 0;
    for part in parts {
        piece(&mut code, part.offset.saturating_sub(end));
        code.push(register(part));
        piece(&mut code, part.size);
        end = part.offset + part.size;
    }
    piece(&mut code, size.saturating_sub(end));
    code
}

/// The operation that names a part's register.
const fn register(part: &Part) -> u8 {
    match part.register {
        // The vector registers are operations already.
        number if number >= OP_REG_XMM0 => number,
        number => constants::DW_OP_reg0.0 + number,
    }
}

/// Ends a piece of so many bytes; what is only padding has no place.
fn piece(code: &mut Vec<u8>, size: u64) {
    if size > 0 {
        code.push(OP_PIECE);
        unsigned(code, size);
    }
}

/// Adds a number as LEB128.
fn unsigned(code: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        code.push(number as u8 | 0x80);
        number >>= 7;
    }
    code.push(number as u8);
}

/// Adds a number as signed LEB128.
fn signed(code: &mut Vec<u8>, mut number: i64) {
    while !(-0x40..0x40).contains(&number) {
        code.push(number as u8 | 0x80);
        number >>= 7;
    }
    code.push(number as u8 & 0x7f);
}
