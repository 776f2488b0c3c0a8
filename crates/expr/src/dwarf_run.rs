//! A run of a DWARF expression: its operations as computations.

use std::rc::Rc;

use gimli::Reader;

use crate::dwarf_numbers::{Entry, Kind, binary, integral};
use crate::int_expr::IntExpr;
use crate::location::{Locator, Unlocatable};
use crate::object::{Object, little_number, object_number, offset_by};
use tracewire_debuginfo::{ExpressionOperation, LocationExpression};

/// How many branches one path may have whose outcome shows at run time only.
const MOST_BRANCHES: u32 = 8;

/// One run of one expression.
pub(crate) struct Run<'a> {
    pub(crate) locator: &'a Locator<'a>,
    pub(crate) expression: &'a LocationExpression,
    pub(crate) operations: &'a [(usize, ExpressionOperation)],
    pub(crate) depth: u32,
    /// How many more operations may be run.
    pub(crate) left: u32,
}

impl Run<'_> {
    /// Runs from the operation `index` on, after this many branches. Jumps go forward only, so every path ends.
    pub(crate) fn run(
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
            if stack.last().is_some_and(|top| top.expr.too_large()) || stack.len() > 256 {
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
                    let object = match (done.take(), stack.pop()) {
                        (Some(object), _) => object,
                        (None, Some(top)) => Object::Memory(self.address(top)?),
                        (None, None) => Object::OptimizedOut,
                    };
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
                    done = Some(stack.pop().ok_or_else(damaged)?.into_value());
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
                    if self.entry_register(expression).is_some()
                        && (self.locator.callers || self.locator.at_entry()) =>
                {
                    let (register, kind) = self
                        .entry_register(expression)
                        .unwrap_or((0, Kind::Generic));
                    // At the entry the register has the value.
                    stack.push(if self.locator.at_entry() {
                        let register = self.locator.register_number(register)?;
                        match kind {
                            Kind::Generic => self.canonical(IntExpr::register(register), kind),
                            kind => self.typed_register(register, kind),
                        }
                    } else {
                        self.canonical(IntExpr::entry(register), kind)
                    });
                }
                ExpressionOperation::EntryValue { .. }
                | ExpressionOperation::ParameterRef { .. } => {
                    // Only the caller knows, and the caller is known only at run time.
                    if pieces.is_empty() && !self.has_pieces(index) {
                        return Ok(Object::OptimizedOut);
                    }
                    done = Some(Object::OptimizedOut);
                    index = self.next_piece(index);
                }
                ExpressionOperation::Skip { target } => index = self.target(index, *target)?,
                ExpressionOperation::Bra { target } => {
                    let condition = integral(stack.pop().ok_or_else(damaged)?)?;
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
            // A value that a caller passed is no address.
            (None, Some(top)) if matches!(top.kind, Kind::Float { .. }) => top.into_value(),
            (None, Some(top)) => Object::Memory(self.address(top)?),
            (None, None) => Object::OptimizedOut,
        })
    }

    /// The register whose value at the function's entry is needed.
    fn entry_register(&self, bytes: &tracewire_debuginfo::ExpressionBytes) -> Option<(u16, Kind)> {
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
            ] if base_type.0 != 0 => {
                let kind = self.kind(*base_type).ok()?;
                (kind != Kind::Float { bits: 80 }).then_some((register.0, kind))
            }
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

    /// The target of a jump of the operation before `index`.
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

    fn step(
        &mut self,
        operation: &ExpressionOperation,
        stack: &mut Vec<Entry>,
    ) -> Result<(), Unlocatable> {
        use ExpressionOperation as Op;
        let damaged = || "its location is damaged: the stack is empty".to_owned();
        let generic = |expr| Entry {
            expr,
            kind: Kind::Generic,
        };
        let pop = |stack: &mut Vec<Entry>| stack.pop().ok_or_else(damaged);
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
                let address = self.address(pop(stack)?)?;
                self.load(address, *size, self.kind(*base_type)?)?
            }
            Op::UnsignedConstant { value } => generic(IntExpr::constant(*value)),
            Op::SignedConstant { value } => {
                self.canonical(IntExpr::constant(*value as u64), Kind::Generic)
            }
            Op::Address { address } => generic(IntExpr::constant(*address)),
            Op::RegisterOffset {
                register,
                offset,
                base_type,
            } => {
                let number = self.locator.register_number(register.0)?;
                match self.kind(*base_type)? {
                    Kind::Generic => {
                        let value = IntExpr::register(number).add(*offset as u64);
                        self.canonical(value, Kind::Generic)
                    }
                    kind => self.typed_register(number, kind),
                }
            }
            Op::FrameOffset { offset } => {
                let base = self.locator.frame_base(self.depth)?;
                self.canonical(base.add(*offset as u64), Kind::Generic)
            }
            Op::CallFrameCFA => generic(self.locator.frame_address_at_depth(self.depth)?),
            Op::PlusConstant { value } => {
                let top = pop(stack)?;
                let kind = top.kind;
                self.canonical(integral(top)?.add(*value), kind)
            }
            Op::Neg => self.negative(&pop(stack)?)?,
            Op::Not => {
                let top = pop(stack)?;
                let kind = top.kind;
                self.canonical(integral(top)?.bit_not(), kind)
            }
            Op::Abs => self.absolute(&pop(stack)?)?,
            Op::Convert { base_type } => {
                let kind = self.kind(*base_type)?;
                self.convert(pop(stack)?, kind)?
            }
            Op::Reinterpret { base_type } => {
                let kind = self.kind(*base_type)?;
                self.reinterpret(pop(stack)?, kind)?
            }
            Op::TypedLiteral { base_type, value } => {
                let bytes = value.to_slice().map_err(|error| error.to_string())?;
                let low = IntExpr::constant(little_number(&bytes));
                let high = IntExpr::constant(little_number(bytes.get(8..).unwrap_or(&[])));
                self.typed(low, high, self.kind(*base_type)?)
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
                    self.binary(other, &left, &right)?
                }
                None => return Err("its location has an operation that is not known".to_owned()),
            },
        };
        stack.push(entry);
        Ok(())
    }
}

fn choose(condition: IntExpr, yes: Object, no: Object) -> Result<Object, Unlocatable> {
    match (yes, no) {
        (Object::Memory(yes), Object::Memory(no)) => {
            Ok(Object::Memory(IntExpr::choose(condition, yes, no)))
        }
        (Object::Value(yes), Object::Value(no)) => {
            Ok(Object::Value(IntExpr::choose(condition, yes, no)))
        }
        (Object::OptimizedOut, _) | (_, Object::OptimizedOut) => Ok(Object::OptimizedOut),
        _ => Err("its location has branches of no known kind".to_owned()),
    }
}
