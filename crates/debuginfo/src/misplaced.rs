//! Locations in a compiler's debug information that do not have the variable's value. GDB shows the data there.
//!
//! Three faults of released compilers are known:
//! - GCC gives an argument of an inlined copy its slot on the stack from the start of the copy. The code stores to the slot later,
//!   at the latest before the next call. Until then the slot has the value of another variable.
//! - LLVM computes with the address of the slot that a value was spilled to, instead of the value.
//! - GCC computes with all bits of a register where the code computes with its lower half (see [`crate::narrow`]).

use gimli::{Operation, constants};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    Register,
};
use tracewire_arch::{Architecture, Machine};

use crate::code_place::CodePlace;
use crate::dwarf::block::BlockKind;
use crate::dwarf::location::Finder;
use crate::dwarf::{Die, Entry};
use crate::frame::CfaRule;
use crate::location_expression::{ExpressionOperation, LocationExpression};
use crate::narrow;
use crate::types::{Type, TypeId, Types};
use crate::variables::frame_base;

/// How many bytes of code are decoded to find a store.
const MOST_CODE: u64 = 1024;

/// DWARF's numbers of x86-64's `rbp` and `rsp`.
const RBP: u16 = 6;
const RSP: u16 = 7;

/// A look at the locations of variables at a place.
pub(crate) struct Suspicion<'a> {
    types: Types<'a>,
    place: &'a CodePlace<'a>,
}

impl<'a> Suspicion<'a> {
    pub(crate) const fn new(types: Types<'a>, place: &'a CodePlace<'a>) -> Self {
        Self { types, place }
    }

    /// Whether the location of a variable is known not to have its value.
    pub(crate) fn is_misplaced(
        &self,
        (unit, entry): (usize, &Entry),
        type_id: TypeId,
        location: &LocationExpression,
    ) -> bool {
        let Ok(operations) = location.operations() else {
            return false;
        };
        self.is_number_of_slot_address(type_id, &operations)
            || self.is_computed_too_wide(type_id, location, &operations)
            || is_argument_of_copy(self.place, entry)
                && is_stored_later(self.place, (unit, entry), &operations)
    }

    /// Whether GCC may have computed a number in more bits than the code does, to another result.
    fn is_computed_too_wide(
        &self,
        type_id: TypeId,
        location: &LocationExpression,
        operations: &[(usize, ExpressionOperation)],
    ) -> bool {
        if !is_gcc(self.place) {
            return false;
        }
        let word = u32::from(location.encoding().address_size).saturating_mul(8);
        let size = self.types.stored_size(type_id).unwrap_or(0);
        let bits = u32::try_from(size).unwrap_or(word).saturating_mul(8);
        !narrow::is_sure(operations, word, bits)
    }

    /// Whether GCC's expression for an argument of the place's code may use more bits than the code does, with another result.
    pub(crate) fn is_passed_too_wide(&self, function: Die, value: &LocationExpression) -> bool {
        let Ok(operations) = value.operations() else {
            return false;
        };
        if !is_gcc(self.place) {
            return false;
        }
        let word = u32::from(value.encoding().address_size).saturating_mul(8);
        // It is not known which parameter is passed in which register.
        let debug = self.place.debug();
        let mut sizes = (debug.children(function).into_iter())
            .filter(|child| child.tag() == constants::DW_TAG_formal_parameter)
            .filter_map(|parameter| {
                let types = self.types;
                types.stored_size(types.type_id_of(self.place.module, function.unit, &parameter))
            })
            .filter_map(|size| u32::try_from(size).ok())
            .filter(|&size| size > 0);
        sizes.any(|size| !narrow::is_sure(&operations, word, size.saturating_mul(8)))
    }

    /// Whether a number is computed from the stack pointer, and nothing is loaded.
    fn is_number_of_slot_address(
        &self,
        type_id: TypeId,
        operations: &[(usize, ExpressionOperation)],
    ) -> bool {
        let is_number = matches!(
            &*self.types.strip(type_id),
            Type::Base { .. } | Type::Enumeration { .. }
        );
        let place = self.place;
        let producer = &place.debug().facts(place.unit).producer;
        let is_llvm = ["clang", "LLVM"].iter().any(|name| producer.contains(name));
        if !is_number || !is_llvm {
            return false;
        }
        let architecture = place.module.info.architecture;
        let is_stack_pointer = |register: u16| {
            tracewire_arch::gdb_register(architecture, register)
                == Some(Machine::of(architecture).stack_pointer())
        };
        let starts_with_slot = match operations.first() {
            Some((_, Operation::FrameOffset { .. })) => true,
            Some((_, Operation::RegisterOffset { register, .. })) => is_stack_pointer(register.0),
            _ => false,
        };
        let is_value = (operations.iter()).any(|(_, one)| matches!(one, Operation::StackValue));
        let loads = (operations.iter()).any(|(_, one)| matches!(one, Operation::Deref { .. }));
        starts_with_slot && is_value && !loads
    }
}

/// Whether the code stores to a slot that a location reads, between the place and the end of the location's range, before control
/// goes elsewhere.
fn is_stored_later(
    place: &CodePlace<'_>,
    (unit, entry): (usize, &Entry),
    operations: &[(usize, ExpressionOperation)],
) -> bool {
    if place.module.info.architecture != Architecture::X86_64 {
        return false;
    }
    let slots: Vec<i64> = operations
        .iter()
        .filter_map(|(_, operation)| match operation {
            Operation::FrameOffset { offset } => has_cfa_as_frame_base(place).then_some(*offset),
            Operation::RegisterOffset {
                register, offset, ..
            } => from_cfa(place, place.address, register.0, *offset),
            _ => None,
        })
        .collect();
    if slots.is_empty() {
        return false;
    }
    let Some(end) = range_end(place, unit, entry) else {
        return false;
    };
    let length = end.saturating_sub(place.address).min(MOST_CODE);
    let Some(code) = usize::try_from(length)
        .ok()
        .and_then(|length| place.module.image().bytes_at(place.address, length, true))
    else {
        return false;
    };
    let mut decoder = Decoder::with_ip(64, code, place.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut factory = InstructionInfoFactory::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.code() == Code::INVALID {
            return false;
        }
        let stores = factory
            .info(&instruction)
            .used_memory()
            .iter()
            .filter_map(|memory| {
                let writes = matches!(memory.access(), OpAccess::Write | OpAccess::ReadWrite);
                let register = match memory.base() {
                    Register::RSP => RSP,
                    Register::RBP => RBP,
                    _ => return None,
                };
                let is_slot = writes && memory.index() == Register::None;
                let offset = memory.displacement().cast_signed();
                let start = from_cfa(place, instruction.ip(), register, offset)?;
                let size = memory.memory_size().size() as i64;
                is_slot.then_some((start, start.saturating_add(size)))
            })
            .any(|(start, end)| slots.iter().any(|&slot| start <= slot && slot < end));
        if stores {
            return true;
        }
        if instruction.flow_control() != FlowControl::Next {
            return false;
        }
    }
    false
}

/// Whether the offsets of the function's variables are from the canonical frame address.
fn has_cfa_as_frame_base(place: &CodePlace<'_>) -> bool {
    frame_base(place)
        .and_then(|base| base.operations().ok())
        .is_some_and(|operations| matches!(&operations[..], [(_, Operation::CallFrameCFA)]))
}

fn is_gcc(place: &CodePlace<'_>) -> bool {
    place.debug().facts(place.unit).producer.starts_with("GNU ")
}

/// Whether an entry is a parameter of an inlined copy.
fn is_argument_of_copy(place: &CodePlace<'_>, entry: &Entry) -> bool {
    let is_copy = (place.frame().last()).is_some_and(|block| block.kind == BlockKind::Inlined);
    is_copy && entry.tag() == constants::DW_TAG_formal_parameter
}

/// An address relative to a register, as an offset from the canonical frame address, if the unwind table describes it.
fn from_cfa(place: &CodePlace<'_>, address: u64, register: u16, offset: i64) -> Option<i64> {
    let info = &place.module.info;
    let row = place.module.frames().row(info.id, info.bias, address)?;
    match row.cfa {
        CfaRule::RegisterOffset {
            register: base,
            offset: above,
        } if base == register => offset.checked_sub(above),
        _ => None,
    }
}

/// Where the range of a variable's location ends that is around the place.
fn range_end(place: &CodePlace<'_>, unit: usize, entry: &Entry) -> Option<u64> {
    let debug = place.debug();
    let (unit, value) = debug.attribute_of(unit, entry, constants::DW_AT_location)?;
    let finder = Finder {
        module: place.module,
        size: None,
        pc: Some(place.address),
        at_entry: false,
    };
    let ranges = finder.ranges(debug, unit, &value).ok()?;
    ranges
        .iter()
        .find(|(start, end, _)| *start <= place.address && place.address < *end)
        .map(|(_, end, _)| *end)
}
