//! Comparing floating-point numbers with integer instructions: agent expressions have no others. The bits of an IEEE
//! number, read as sign and magnitude, order as the numbers do; NaN compares false with everything.

use crate::int_expr::{Binary, IntExpr, float_order};
use crate::lower::{Lower, compare};
use crate::node::{Node, NodeKind};
use crate::resolve::Result;
use crate::scalar::Scalar;
use crate::syntax::BinaryOperator;

/// An operand of a comparison.
enum Operand {
    Constant(f64),
    /// The bits of a number of this many bytes, 4 or 8.
    Bits(IntExpr, u8),
    Integer(IntExpr, bool),
}

impl Lower<'_> {
    pub(crate) fn float_truth(&self, node: &Node) -> Result<IntExpr> {
        Ok(match self.operand(node)? {
            Operand::Constant(number) => IntExpr::constant(u64::from(number != 0.0)),
            // Both zeros are false.
            Operand::Bits(bits, size) => bits.zero_extend(size * 8 - 1),
            Operand::Integer(number, _) => number,
        })
    }

    fn operand(&self, node: &Node) -> Result<Operand> {
        let Scalar::Float { size } = self.scalar(node.type_id) else {
            let signed = self
                .scalar(node.type_id)
                .as_number()
                .is_some_and(|(_, signed)| signed);
            return Ok(Operand::Integer(self.value(node)?, signed));
        };
        match &node.kind {
            NodeKind::Float(number) => Ok(Operand::Constant(*number)),
            NodeKind::Convert(from) => match (self.operand(from)?, size) {
                (Operand::Bits(_, 8), 4) => {
                    self.unsupported("A double cannot be rounded to a float.", node)
                }
                (Operand::Constant(number), 4) => Ok(Operand::Constant(f64::from(number as f32))),
                (operand, _) => Ok(operand),
            },
            NodeKind::Negate(of) => match self.operand(of)? {
                Operand::Constant(number) => Ok(Operand::Constant(-number)),
                Operand::Bits(bits, size) => {
                    let sign = IntExpr::constant(1 << (u32::from(size) * 8 - 1));
                    Ok(Operand::Bits(
                        IntExpr::binary(Binary::ExclusiveOr, bits, sign),
                        size,
                    ))
                }
                Operand::Integer(number, _) => Ok(Operand::Integer(
                    IntExpr::binary(Binary::Subtract, IntExpr::constant(0), number),
                    true,
                )),
            },
            NodeKind::Arithmetic(operator, left, right) => {
                match (self.operand(left)?, self.operand(right)?) {
                    (Operand::Constant(a), Operand::Constant(b)) => Ok(Operand::Constant(match operator {
                        BinaryOperator::Add => a + b,
                        BinaryOperator::Subtract => a - b,
                        BinaryOperator::Multiply => a * b,
                        _ => a / b,
                    })),
                    _ => self.unsupported(
                        "Agent expressions have no floating-point arithmetic; a floating-point number can be \
                         collected, and compared with a constant or with one of its own type.",
                        node,
                    ),
                }
            }
            _ if node.is_object() && matches!(size, 4 | 8) => {
                Ok(Operand::Bits(self.bits(node, size)?, size as u8))
            }
            _ => self.unsupported(
                "A number of this floating-point type cannot be compared.",
                node,
            ),
        }
    }

    pub(crate) fn compare_floats(
        &self,
        operator: BinaryOperator,
        left: &Node,
        right: &Node,
        node: &Node,
    ) -> Result<IntExpr> {
        let mixed = "Agent expressions compare floating-point numbers with constants and with their own type only.";
        Ok(match (self.operand(left)?, self.operand(right)?) {
            (Operand::Constant(a), Operand::Constant(b)) => {
                IntExpr::constant(u64::from(holds(operator, a, b)))
            }
            (Operand::Bits(a, size), Operand::Bits(b, other)) if size == other => {
                let width = size * 8;
                let (a_order, b_order) =
                    (a.clone().float_order(width), b.clone().float_order(width));
                let result = compare(operator, a_order, b_order, true);
                let (a_real, b_real) = (is_number(a, size), is_number(b, size));
                guard(operator, result, IntExpr::both(a_real, b_real))
            }
            (Operand::Bits(bits, size), Operand::Constant(number)) => {
                compare_with_constant(operator, bits, size, number)
            }
            (Operand::Constant(number), Operand::Bits(bits, size)) => {
                compare_with_constant(mirrored(operator), bits, size, number)
            }
            (Operand::Integer(integer, signed), Operand::Constant(number)) => {
                compare_integer(operator, integer, signed, number)
            }
            (Operand::Constant(number), Operand::Integer(integer, signed)) => {
                compare_integer(mirrored(operator), integer, signed, number)
            }
            _ => return self.unsupported(mixed, node),
        })
    }
}

fn holds(operator: BinaryOperator, a: f64, b: f64) -> bool {
    match operator {
        BinaryOperator::Less => a < b,
        BinaryOperator::LessOrEqual => a <= b,
        BinaryOperator::Greater => a > b,
        BinaryOperator::GreaterOrEqual => a >= b,
        BinaryOperator::NotEqual => a != b,
        _ => a == b,
    }
}

/// The operator for swapped operands.
fn mirrored(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessOrEqual => BinaryOperator::GreaterOrEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterOrEqual => BinaryOperator::LessOrEqual,
        other => other,
    }
}

/// Whether the bits are not those of a NaN.
fn is_number(bits: IntExpr, size: u8) -> IntExpr {
    let infinity = if size == 4 {
        u64::from(f32::INFINITY.to_bits())
    } else {
        f64::INFINITY.to_bits()
    };
    let magnitude = bits.zero_extend(size * 8 - 1);
    IntExpr::binary(
        Binary::LessUnsigned,
        magnitude,
        IntExpr::constant(infinity + 1),
    )
}

/// The result if both are numbers; else the result for a NaN.
fn guard(operator: BinaryOperator, result: IntExpr, numbers: IntExpr) -> IntExpr {
    match operator {
        BinaryOperator::NotEqual => IntExpr::either(result, numbers.into_is_zero()),
        _ => IntExpr::both(result, numbers),
    }
}

fn compare_with_constant(
    operator: BinaryOperator,
    bits: IntExpr,
    size: u8,
    number: f64,
) -> IntExpr {
    let width = size * 8;
    if number.is_nan() {
        return IntExpr::constant(u64::from(operator == BinaryOperator::NotEqual));
    }
    let order = bits.clone().float_order(width);
    let (operator, bound) = if size == 8 {
        (operator, number.to_bits())
    } else {
        let rounded = number as f32;
        let (below, above) = match f64::from(rounded).total_cmp(&number) {
            std::cmp::Ordering::Less => (rounded, rounded.next_up()),
            std::cmp::Ordering::Greater => (rounded.next_down(), rounded),
            std::cmp::Ordering::Equal => (rounded, rounded),
        };
        let exact = f64::from(rounded) == number;
        let (operator, bound) = match operator {
            _ if exact => (operator, rounded),
            // No float is equal to the constant; its neighbours show on which side one is.
            BinaryOperator::Equal => return IntExpr::constant(0),
            BinaryOperator::NotEqual => return IntExpr::constant(1),
            BinaryOperator::Less | BinaryOperator::LessOrEqual => {
                (BinaryOperator::LessOrEqual, below)
            }
            _ => (BinaryOperator::GreaterOrEqual, above),
        };
        (operator, u64::from(bound.to_bits()))
    };
    let bound = IntExpr::constant(float_order(bound, width));
    let result = compare(operator, order, bound, true);
    match operator {
        // No NaN orders like a number.
        BinaryOperator::Equal | BinaryOperator::NotEqual => result,
        _ => guard(operator, result, is_number(bits, size)),
    }
}

/// An integer with a floating-point constant: with the integers next to it.
fn compare_integer(
    operator: BinaryOperator,
    integer: IntExpr,
    signed: bool,
    number: f64,
) -> IntExpr {
    let truth = |holds: bool| IntExpr::constant(u64::from(holds));
    if number.is_nan() {
        return truth(operator == BinaryOperator::NotEqual);
    }
    let (lowest, highest) = if signed {
        (-(2_f64.powi(63)), 2_f64.powi(63))
    } else {
        (0.0, 2_f64.powi(64))
    };
    let less = matches!(operator, BinaryOperator::Less | BinaryOperator::LessOrEqual);
    let greater = matches!(
        operator,
        BinaryOperator::Greater | BinaryOperator::GreaterOrEqual
    );
    if number >= highest {
        return truth(less || operator == BinaryOperator::NotEqual);
    }
    if number < lowest {
        return truth(greater || operator == BinaryOperator::NotEqual);
    }
    let exact = number.fract() == 0.0;
    if !exact && !less && !greater {
        return truth(operator == BinaryOperator::NotEqual);
    }
    let (operator, bound) = match operator {
        operator if exact => (operator, number),
        _ if less => (BinaryOperator::LessOrEqual, number.floor()),
        _ => (BinaryOperator::Greater, number.floor()),
    };
    let bound = if signed {
        bound as i64 as u64
    } else {
        bound.max(0.0) as u64
    };
    compare(operator, integer, IntExpr::constant(bound), signed)
}
