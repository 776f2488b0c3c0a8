//! Where the bytes of something are, and parts of it.

use std::rc::Rc;

use tracewire_model::RegisterNumber;

use crate::int_expr::{Binary, IntExpr};
use tracewire_debuginfo::{TypeId, VariableLocation};

/// Where the bytes of something are.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// In memory, at this address.
    Memory(IntExpr),
    /// In a register, from this byte on.
    Register(RegisterNumber, u64),
    /// Known: it has no address, but the debug information has its bytes.
    Bytes(Rc<[u8]>),
    /// The bytes of a computed number, least significant first on every machine that matters here.
    Value(IntExpr),
    /// In several places: each with how many bytes.
    Pieces(Vec<(Object, u64)>),
    /// A pointer to an object without an address: its target, and the offset in it.
    Synthetic(Box<(TypeId, VariableLocation, i64)>),
    /// It has no place.
    OptimizedOut,
}

impl Object {
    /// Whether some of it is in memory at an address that only a saved state has, so that a hit cannot collect it.
    pub(crate) fn is_at_unknown_address(&self) -> bool {
        match self {
            Self::Memory(address) => address.is_state_only(),
            Self::Pieces(pieces) => pieces
                .iter()
                .any(|(piece, _)| piece.is_at_unknown_address()),
            _ => false,
        }
    }
}

/// The first eight bytes as a number.
pub(crate) fn little_number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    for (to, from) in number.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(number)
}

/// The part of an object from a byte on.
pub(crate) fn offset_by(object: Object, offset: u64) -> Object {
    if offset == 0 {
        return object;
    }
    match object {
        Object::Memory(address) => Object::Memory(address.add(offset)),
        Object::Register(register, from) => Object::Register(register, from.saturating_add(offset)),
        Object::Bytes(bytes) => {
            let start = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            Object::Bytes(Rc::from(bytes.get(start..).unwrap_or(&[])))
        }
        Object::Value(expr) => {
            let bits = IntExpr::constant(offset.saturating_mul(8));
            Object::Value(IntExpr::binary(Binary::ShiftRightUnsigned, expr, bits))
        }
        Object::Pieces(pieces) => {
            let mut skip = offset;
            let mut rest = Vec::new();
            for (piece, size) in pieces {
                if skip >= size {
                    skip -= size;
                } else {
                    rest.push((offset_by(piece, skip), size - skip));
                    skip = 0;
                }
            }
            match rest.len() {
                0 => Object::OptimizedOut,
                _ => Object::Pieces(rest),
            }
        }
        Object::Synthetic(_) | Object::OptimizedOut => Object::OptimizedOut,
    }
}

/// The number of `size` bytes (at most 8) that an object holds, zero-extended; `None` if some of it is lost.
pub(crate) fn object_number(object: &Object, size: u64) -> Option<IntExpr> {
    let bits = u8::try_from(size.min(8) * 8).ok()?;
    match object {
        Object::Memory(address) => load(address, size),
        Object::Register(register, offset) => {
            let shift = IntExpr::constant(offset.checked_mul(8).filter(|bits| *bits < 64)?);
            let whole = IntExpr::binary(
                Binary::ShiftRightUnsigned,
                IntExpr::register(*register),
                shift,
            );
            Some(whole.zero_extend(bits))
        }
        Object::Bytes(bytes) => {
            let size = usize::try_from(size).ok()?;
            Some(IntExpr::constant(little_number(bytes.get(..size.min(8))?)))
        }
        Object::Value(expr) => Some(expr.clone().zero_extend(bits)),
        Object::Pieces(pieces) => {
            let (mut number, mut at) = (IntExpr::constant(0), 0_u64);
            for (piece, piece_size) in pieces {
                let take = (*piece_size).min(size.checked_sub(at)?);
                if take == 0 {
                    break;
                }
                let part = object_number(piece, take)?;
                let moved = IntExpr::binary(Binary::ShiftLeft, part, IntExpr::constant(at * 8));
                number = IntExpr::binary(Binary::Or, moved, number);
                at += take;
            }
            (at == size).then_some(number)
        }
        Object::Synthetic(_) | Object::OptimizedOut => None,
    }
}

/// Loads a number of 1 to 8 bytes; odd sizes in parts.
fn load(address: &IntExpr, size: u64) -> Option<IntExpr> {
    Some(match size {
        1 | 2 | 4 | 8 => IntExpr::load(address.clone(), size as u8),
        3 | 5 | 6 | 7 => {
            let first = if size > 4 { 4 } else { 2 };
            let low = IntExpr::load(address.clone(), first as u8);
            let high = load(&address.clone().add(first), size - first)?;
            let high = IntExpr::binary(Binary::ShiftLeft, high, IntExpr::constant(first * 8));
            IntExpr::binary(Binary::Or, low, high)
        }
        _ => return None,
    })
}
