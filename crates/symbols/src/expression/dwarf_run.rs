//! A run of a DWARF expression: its operations as computations.

use std::rc::Rc;

use gimli::Reader;

use super::cell::{Binary, Cell};
use super::location::{Locator, Unlocatable};
use super::object::{Object, little_number, object_number, offset_by};
use crate::{BaseEncoding, BaseTypeOffset, ExpressionOperation, LocationExpression, Type};

/// How many branches one path may have whose outcome shows at run time only.
const MOST_BRANCHES: u32 = 8;

/// The type of a stack entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address or an offset: as wide as an address, signedness by operation.
    Generic,
    /// The bits of a floating-point number: they can be passed on, not computed with.
    Float {
        bits: u8,
    },
    Integer {
        bits: u8,
        signed: bool,
    },
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) cell: Cell,
    pub(super) kind: Kind,
}

/// One run of one expression.
pub(super) struct Run<'a> {
    pub(super) locator: &'a Locator<'a>,
    pub(super) expression: &'a LocationExpression,
    pub(super) operations: &'a [(usize, ExpressionOperation)],
    pub(super) depth: u32,
    /// How many operations may still be run.
    pub(super) left: u32,
}

impl Run<'_> {
    /// Runs from the operation `index` on, behind so many branches. Jumps go forward only, so every path ends.
    pub(super) fn run(
        &mut self,
        mut index: usize,
        mut stack: Vec<Entry>,
        branches: u32,
    ) -> Result<Object, Unlocatable> {
        let mut pieces: Vec<(Object, u64)> = Vec::new();
        // A location that is complete, and waits for its piece or the end.
        let mut done: Option<Object> = None;
        let damaged = || "its location is damaged: the stack is empty".to_owned();
        while let Some((_, operation)) = self.operations.get(index) {
            self.left = self
                .left
                .checked_sub(1)
                .ok_or("its location is too long to be worked out")?;
            index += 1;
            if stack.last().is_some_and(|top| top.cell.too_large()) || stack.len() > 256 {
                return Err("its location is too long to be worked out".to_owned());
            }
            match operation {
                ExpressionOperation::Piece {
                    size_in_bits,
                    bit_offset,
                } => {
                    let bits = *size_in_bits;
                    if bits % 8 != 0 || bit_offset.is_some_and(|offset| offset % 8 != 0) {
                        return Err("it is in pieces that are not whole bytes".to_owned());
                    }
                    let whole = done
                        .take()
                        .or_else(|| stack.pop().map(|top| Object::Memory(top.cell)));
                    let object = whole.unwrap_or(Object::OptimizedOut);
                    let object = offset_by(object, bit_offset.unwrap_or(0) / 8);
                    stack.clear();
                    pieces.push((object, bits / 8));
                }
                ExpressionOperation::Register { register } => {
                    done = Some(Object::Register(
                        self.locator.register_number(register.0)?,
                        0,
                    ));
                }
                ExpressionOperation::ImplicitValue { data } => {
                    let bytes = data.to_slice().map_err(|error| error.to_string())?;
                    done = Some(Object::Bytes(Rc::from(&bytes[..])));
                }
                ExpressionOperation::StackValue => {
                    done = Some(Object::Value(stack.pop().ok_or_else(damaged)?.cell));
                }
                ExpressionOperation::ImplicitPointer { value, byte_offset } => {
                    let (symbols, pc) = (self.locator.symbols, self.locator.pc);
                    done = Some(
                        match symbols.implicit_pointer_target(self.expression, *value, pc) {
                            Some((type_id, location)) => {
                                Object::Synthetic(Box::new((type_id, location, *byte_offset)))
                            }
                            None => Object::OptimizedOut,
                        },
                    );
                }
                ExpressionOperation::EntryValue { expression }
                    if self.locator.callers && self.entry_register(expression).is_some() =>
                {
                    let (register, kind) = self
                        .entry_register(expression)
                        .unwrap_or((0, Kind::Generic));
                    stack.push(self.canonical(Cell::entry(register), kind));
                }
                ExpressionOperation::EntryValue { .. }
                | ExpressionOperation::ParameterRef { .. } => {
                    // Only the caller knows, and which caller it is shows at run time.
                    if pieces.is_empty() && !self.has_pieces(index) {
                        return Ok(Object::OptimizedOut);
                    }
                    done = Some(Object::OptimizedOut);
                    index = self.next_piece(index);
                }
                ExpressionOperation::Skip { target } => index = self.target(index, *target)?,
                ExpressionOperation::Bra { target } => {
                    let condition = stack.pop().ok_or_else(damaged)?.cell;
                    let taken = self.target(index, *target)?;
                    match condition.as_constant() {
                        Some(0) => {}
                        Some(_) => index = taken,
                        None => {
                            if !pieces.is_empty() || branches >= MOST_BRANCHES {
                                return Err("its location has branches of no known kind".to_owned());
                            }
                            let yes = self.run(taken, stack.clone(), branches + 1)?;
                            let no = self.run(index, stack, branches + 1)?;
                            return choose(condition, yes, no);
                        }
                    }
                }
                other => self.step(other, &mut stack)?,
            }
        }
        if !pieces.is_empty() {
            return Ok(Object::Pieces(pieces));
        }
        Ok(match (done, stack.pop()) {
            (Some(object), _) => object,
            (None, Some(top)) => Object::Memory(top.cell),
            (None, None) => Object::OptimizedOut,
        })
    }

    /// The register whose value at the function's entry is asked for.
    fn entry_register(&self, bytes: &crate::ExpressionBytes) -> Option<(u16, Kind)> {
        match self.expression.nested_operations(bytes).ok()?.as_slice() {
            [(_, ExpressionOperation::Register { register })] => Some((register.0, Kind::Generic)),
            [
                (
                    _,
                    ExpressionOperation::RegisterOffset {
                        register,
                        offset: 0,
                        base_type,
                    },
                ),
            ] if base_type.0 != 0 => Some((register.0, self.kind(*base_type).ok()?)),
            _ => None,
        }
    }

    fn has_pieces(&self, from: usize) -> bool {
        let rest = self.operations.get(from..).unwrap_or(&[]);
        rest.iter()
            .any(|(_, operation)| matches!(operation, ExpressionOperation::Piece { .. }))
    }

    fn next_piece(&self, from: usize) -> usize {
        let rest = self.operations.get(from..).unwrap_or(&[]);
        let distance = rest
            .iter()
            .position(|(_, operation)| matches!(operation, ExpressionOperation::Piece { .. }));
        from + distance.unwrap_or(rest.len())
    }

    /// The operation that a jump of the operation before `index` goes to.
    fn target(&self, index: usize, distance: i16) -> Result<usize, Unlocatable> {
        let bad = || "its location jumps backwards or out of itself".to_owned();
        if distance < 0 {
            return Err(bad());
        }
        let Some((next, _)) = self.operations.get(index) else {
            return if distance == 0 { Ok(index) } else { Err(bad()) };
        };
        let offset = next + usize::from(distance.unsigned_abs());
        match self
            .operations
            .binary_search_by_key(&offset, |(offset, _)| *offset)
        {
            Ok(found) => Ok(found),
            // The end of the expression.
            Err(found) if found == self.operations.len() => Ok(found),
            Err(_) => Err(bad()),
        }
    }

    fn address_bits(&self) -> u8 {
        self.expression.encoding().address_size.saturating_mul(8)
    }

    /// The entry's canonical number: extended from its width by its signedness.
    fn canonical(&self, cell: Cell, kind: Kind) -> Entry {
        let cell = match kind {
            Kind::Generic => cell.zero_extend(self.address_bits()),
            Kind::Float { bits } => cell.zero_extend(bits),
            Kind::Integer { bits, signed: true } => cell.sign_extend(bits),
            Kind::Integer {
                bits,
                signed: false,
            } => cell.zero_extend(bits),
        };
        Entry { cell, kind }
    }

    fn kind(&self, base_type: BaseTypeOffset) -> Result<Kind, Unlocatable> {
        if base_type.0 == 0 {
            return Ok(Kind::Generic);
        }
        let symbols = self.locator.symbols;
        let type_id = (symbols.base_type_at(self.expression, base_type))
            .ok_or("its location names a type that is not there")?;
        match &*symbols.type_of(type_id) {
            Type::Base { size, encoding, .. } if *size <= 8 => {
                if *encoding == BaseEncoding::Float {
                    let bits = (*size * 8) as u8;
                    return Ok(Kind::Float { bits });
                }
                Ok(Kind::Integer {
                    bits: (*size * 8) as u8,
                    signed: matches!(encoding, BaseEncoding::Signed | BaseEncoding::SignedChar),
                })
            }
            _ => Err(
                "its location computes with a type that agent expressions do not have".to_owned(),
            ),
        }
    }

    fn load(&self, address: Cell, size: u8, kind: Kind) -> Result<Entry, Unlocatable> {
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(format!("its location loads {size} bytes"));
        }
        Ok(self.canonical(Cell::load(address, size), kind))
    }

    fn step(
        &mut self,
        operation: &ExpressionOperation,
        stack: &mut Vec<Entry>,
    ) -> Result<(), Unlocatable> {
        use ExpressionOperation as Op;
        let damaged = || "its location is damaged: the stack is empty".to_owned();
        let generic = |cell| Entry {
            cell,
            kind: Kind::Generic,
        };
        let pop = |stack: &mut Vec<Entry>| stack.pop().ok_or_else(damaged);
        let moves = matches!(
            operation,
            Op::Nop | Op::Drop | Op::Pick { .. } | Op::Swap | Op::Rot | Op::Reinterpret { .. }
        );
        if !moves
            && stack
                .last()
                .is_some_and(|top| matches!(top.kind, Kind::Float { .. }))
        {
            return Err("its location computes with floating-point numbers".to_owned());
        }
        let entry = match operation {
            Op::Nop | Op::Uninitialized => return Ok(()),
            Op::Drop => {
                pop(stack)?;
                return Ok(());
            }
            Op::Pick { index } => {
                let place = stack.len().checked_sub(1 + usize::from(*index));
                place
                    .and_then(|place| stack.get(place))
                    .ok_or_else(damaged)?
                    .clone()
            }
            Op::Swap => {
                let (top, below) = (pop(stack)?, pop(stack)?);
                stack.push(top);
                below
            }
            Op::Rot => {
                let (top, second, third) = (pop(stack)?, pop(stack)?, pop(stack)?);
                stack.extend([top, third]);
                second
            }
            Op::Deref {
                base_type,
                size,
                space,
            } => {
                if *space {
                    return Err("its location names an address space".to_owned());
                }
                let address = pop(stack)?.cell;
                self.load(address, *size, self.kind(*base_type)?)?
            }
            Op::UnsignedConstant { value } => generic(Cell::constant(*value)),
            Op::SignedConstant { value } => {
                self.canonical(Cell::constant(*value as u64), Kind::Generic)
            }
            Op::Address { address } => generic(Cell::constant(*address)),
            Op::RegisterOffset {
                register,
                offset,
                base_type,
            } => {
                let value = self.locator.register(register.0)?;
                match self.kind(*base_type)? {
                    Kind::Generic => self.canonical(value.add(*offset as u64), Kind::Generic),
                    kind => self.canonical(value, kind),
                }
            }
            Op::FrameOffset { offset } => {
                let base = self.locator.frame_base(self.depth)?;
                self.canonical(base.add(*offset as u64), Kind::Generic)
            }
            Op::CallFrameCFA => generic(self.locator.frame_address_at_depth(self.depth)?),
            Op::PlusConstant { value } => {
                let top = pop(stack)?;
                self.canonical(top.cell.add(*value), top.kind)
            }
            Op::Neg => {
                let top = pop(stack)?;
                let zero = Cell::constant(0);
                self.canonical(Cell::binary(Binary::Subtract, zero, top.cell), top.kind)
            }
            Op::Not => {
                let top = pop(stack)?;
                self.canonical(top.cell.bit_not(), top.kind)
            }
            Op::Abs => {
                let top = pop(stack)?;
                let number = self.signed(&top);
                let negative = Cell::binary(Binary::LessSigned, number.clone(), Cell::constant(0));
                let minus = Cell::binary(Binary::Subtract, Cell::constant(0), number.clone());
                self.canonical(Cell::choose(negative, minus, number), top.kind)
            }
            Op::Convert { base_type } => {
                let kind = self.kind(*base_type)?;
                self.canonical(pop(stack)?.cell, kind)
            }
            Op::Reinterpret { base_type } => {
                let kind = self.kind(*base_type)?;
                self.canonical(pop(stack)?.cell, kind)
            }
            Op::TypedLiteral { base_type, value } => {
                let bytes = value.to_slice().map_err(|error| error.to_string())?;
                let number = little_number(&bytes);
                self.canonical(Cell::constant(number), self.kind(*base_type)?)
            }
            Op::VariableValue { offset } => {
                let (symbols, pc) = (self.locator.symbols, self.locator.pc);
                let (type_id, location) =
                    (symbols.implicit_pointer_target(self.expression, *offset, pc))
                        .ok_or("its location names a variable that is not there")?;
                let object = self.locator.object_at_depth(&location, self.depth + 1)?;
                let size = symbols.size_of(type_id).unwrap_or(0);
                generic(
                    object_number(&object, size)
                        .ok_or("its location needs a variable that is lost")?,
                )
            }
            other => match binary(other) {
                Some(_) => {
                    let (right, left) = (pop(stack)?, pop(stack)?);
                    self.binary(other, &left, &right)
                }
                None => return Err("its location has an operation that is not known".to_owned()),
            },
        };
        stack.push(entry);
        Ok(())
    }

    fn signed(&self, entry: &Entry) -> Cell {
        match entry.kind {
            Kind::Generic => entry.cell.clone().sign_extend(self.address_bits()),
            Kind::Integer { .. } | Kind::Float { .. } => entry.cell.clone(),
        }
    }

    fn binary(&self, operation: &ExpressionOperation, left: &Entry, right: &Entry) -> Entry {
        use ExpressionOperation as Op;
        let kind = left.kind;
        let unsigned_type = matches!(kind, Kind::Integer { signed: false, .. });
        let operator = match (operation, unsigned_type) {
            (Op::Div, true) => Binary::DivideUnsigned,
            (Op::Div, false) => Binary::DivideSigned,
            (Op::Mod, _) if matches!(kind, Kind::Integer { signed: true, .. }) => {
                Binary::RemainderSigned
            }
            (other, _) => binary(other).unwrap_or(Binary::Add),
        };
        let comparison = |swap: bool, not: bool| {
            let (a, b) = (self.signed(left), self.signed(right));
            let (a, b) = if swap { (b, a) } else { (a, b) };
            let less = if unsigned_type {
                Binary::LessUnsigned
            } else {
                Binary::LessSigned
            };
            let result = Cell::binary(less, a, b);
            let cell = if not { result.into_is_zero() } else { result };
            Entry {
                cell,
                kind: Kind::Generic,
            }
        };
        match operation {
            Op::Lt => comparison(false, false),
            Op::Gt => comparison(true, false),
            Op::Ge => comparison(false, true),
            Op::Le => comparison(true, true),
            Op::Ne => {
                let equal = Cell::binary(Binary::Equal, left.cell.clone(), right.cell.clone());
                Entry {
                    cell: equal.into_is_zero(),
                    kind: Kind::Generic,
                }
            }
            Op::Div | Op::Shra if kind == Kind::Generic => {
                let result = Cell::binary(operator, self.signed(left), self.signed(right));
                self.canonical(result, kind)
            }
            _ => self.canonical(
                Cell::binary(operator, left.cell.clone(), right.cell.clone()),
                kind,
            ),
        }
    }
}

fn binary(operation: &ExpressionOperation) -> Option<Binary> {
    use ExpressionOperation as Op;
    Some(match operation {
        Op::And => Binary::And,
        Op::Or => Binary::Or,
        Op::Xor => Binary::ExclusiveOr,
        Op::Plus => Binary::Add,
        Op::Minus => Binary::Subtract,
        Op::Mul => Binary::Multiply,
        Op::Div => Binary::DivideSigned,
        Op::Mod => Binary::RemainderUnsigned,
        Op::Shl => Binary::ShiftLeft,
        Op::Shr => Binary::ShiftRightUnsigned,
        Op::Shra => Binary::ShiftRightSigned,
        Op::Eq | Op::Ne => Binary::Equal,
        Op::Lt | Op::Gt | Op::Le | Op::Ge => Binary::LessSigned,
        _ => return None,
    })
}

fn choose(condition: Cell, yes: Object, no: Object) -> Result<Object, Unlocatable> {
    match (yes, no) {
        (Object::Memory(yes), Object::Memory(no)) => {
            Ok(Object::Memory(Cell::choose(condition, yes, no)))
        }
        (Object::Value(yes), Object::Value(no)) => {
            Ok(Object::Value(Cell::choose(condition, yes, no)))
        }
        (Object::OptimizedOut, _) | (_, Object::OptimizedOut) => Ok(Object::OptimizedOut),
        _ => Err("its location has branches of no known kind".to_owned()),
    }
}
