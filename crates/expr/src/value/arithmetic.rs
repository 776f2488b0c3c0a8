//! Arithmetic on evaluated operands.

use super::contents::{number, order};
use super::evaluate::{Evaluator, Result};
use super::float;
use super::state::read_memory;
use crate::ExpressionErrorKind;
use crate::node::{Node, NodeKind};
use crate::scalar::{Scalar, wrap};
use crate::syntax::BinaryOperator;
use tracewire_debuginfo::Language;

impl Evaluator<'_> {
    /// The node as an integer.
    pub(super) fn number(&self, node: &Node) -> Result<i128> {
        let Some((size, signed)) = self.scalar(node.type_id).as_number() else {
            let message = "A number is needed here, and this is none.".to_owned();
            return self.error(ExpressionErrorKind::Type(message), node);
        };
        let result = match &node.kind {
            NodeKind::Integer(value) => *value,
            NodeKind::AddressOf(of) => i128::from(self.address(of, node)?),
            NodeKind::Convert(from) => return self.converted(from, size, signed, node),
            NodeKind::Negate(of) => self.number(of)?.wrapping_neg(),
            NodeKind::BitNot(of) => !self.number(of)?,
            NodeKind::LogicalNot(of) => i128::from(!self.truth(of)?),
            NodeKind::Conditional(condition, yes, no) => {
                let chosen = if self.truth(condition)? { yes } else { no };
                self.number(chosen)?
            }
            NodeKind::Arithmetic(operator, left, right) => self.integers(
                *operator,
                self.number(left)?,
                self.number(right)?,
                (size, signed),
                node,
            )?,
            NodeKind::Compare(operator, left, right) => {
                i128::from(self.compare(*operator, left, right)?)
            }
            NodeKind::PointerAdd {
                pointer,
                index,
                element,
                subtract,
            } => {
                let bytes = self.number(index)?.wrapping_mul(i128::from(*element));
                let pointer = self.number(pointer)?;
                if *subtract {
                    pointer.wrapping_sub(bytes)
                } else {
                    pointer.wrapping_add(bytes)
                }
            }
            NodeKind::PointerDifference(left, right, element) => {
                let bytes = self.number(left)?.wrapping_sub(self.number(right)?);
                wrap(bytes, 8, true).wrapping_div(i128::from(*element).max(1))
            }
            NodeKind::And(left, right) => i128::from(self.truth(left)? && self.truth(right)?),
            NodeKind::Or(left, right) => i128::from(self.truth(left)? || self.truth(right)?),
            NodeKind::Search(_) | NodeKind::With(..) => i128::from(self.searched(node)?),
            NodeKind::StringEqual {
                pointer,
                length,
                bytes,
            } => {
                if let Some(length) = length
                    && self.number(length)? != bytes.len() as i128
                {
                    return Ok(0);
                }
                i128::from(self.bytes_equal(self.number(pointer)? as u64, bytes, node)?)
            }
            _ => {
                let value = self.value(node)?;
                if self.is_void(&value) {
                    return self.error(ExpressionErrorKind::Unavailable, node);
                }
                let value = self.complete(value, node)?;
                number(&value.contents, signed, order(self.symbols)).unwrap_or(0)
            }
        };
        Ok(wrap(result, size, signed))
    }

    fn converted(&self, from: &Node, size: u64, signed: bool, node: &Node) -> Result<i128> {
        let to_boolean = matches!(self.scalar(node.type_id), Scalar::Boolean { .. });
        if to_boolean {
            return Ok(i128::from(self.truth(from)?));
        }
        if let Scalar::Float { .. } = self.scalar(from.type_id) {
            let value = self.float(from)?;
            // Rust's conversion saturates; C's is undefined there, and GDB's is the machine's.
            let whole = if self.language == Language::Rust || value.abs() < 2_f64.powi(127) {
                value as i128
            } else {
                0
            };
            return Ok(wrap(whole, size, signed));
        }
        Ok(wrap(self.number(from)?, size, signed))
    }

    fn bytes_equal(&self, address: u64, bytes: &[u8], node: &Node) -> Result<bool> {
        let (found, known) = read_memory(self.symbols, self.state, address, bytes.len());
        for ((found, known), wanted) in found.iter().zip(known).zip(bytes) {
            if !known {
                return self.error(ExpressionErrorKind::Unavailable, node);
            }
            if found != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The node as a floating-point number.
    pub(super) fn float(&self, node: &Node) -> Result<f64> {
        let Scalar::Float { size } = self.scalar(node.type_id) else {
            return Ok(self.number(node)? as f64);
        };
        let result = match &node.kind {
            NodeKind::Float(value) => *value,
            NodeKind::Conditional(condition, yes, no) => {
                let chosen = if self.truth(condition)? { yes } else { no };
                self.float(chosen)?
            }
            NodeKind::Convert(from) => self.float(from)?,
            NodeKind::Negate(of) => -self.float(of)?,
            NodeKind::Arithmetic(operator, left, right) => {
                let (a, b) = (self.float(left)?, self.float(right)?);
                match operator {
                    BinaryOperator::Add => a + b,
                    BinaryOperator::Subtract => a - b,
                    BinaryOperator::Multiply => a * b,
                    _ => a / b,
                }
            }
            _ => {
                let value = self.complete(self.value(node)?, node)?;
                match float::from_bytes(self.symbols, &value) {
                    Some(number) => number,
                    None => {
                        let message =
                            "This floating-point format cannot be computed with.".to_owned();
                        return self.error(ExpressionErrorKind::Unsupported(message), node);
                    }
                }
            }
        };
        // The result of float arithmetic is a float again.
        Ok(if size == 4 {
            f64::from(result as f32)
        } else {
            result
        })
    }

    /// Whether the node is not zero.
    pub(super) fn truth(&self, node: &Node) -> Result<bool> {
        match self.scalar(node.type_id) {
            Scalar::Float { .. } => Ok(self.float(node)? != 0.0),
            _ => Ok(self.number(node)? != 0),
        }
    }

    fn compare(&self, operator: BinaryOperator, left: &Node, right: &Node) -> Result<bool> {
        let either_float = matches!(self.scalar(left.type_id), Scalar::Float { .. })
            || matches!(self.scalar(right.type_id), Scalar::Float { .. });
        let order = if either_float {
            self.float(left)?.partial_cmp(&self.float(right)?)
        } else {
            Some(self.number(left)?.cmp(&self.number(right)?))
        };
        Ok(match operator {
            BinaryOperator::Less => order.is_some_and(|order| order.is_lt()),
            BinaryOperator::LessOrEqual => order.is_some_and(|order| order.is_le()),
            BinaryOperator::Greater => order.is_some_and(|order| order.is_gt()),
            BinaryOperator::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
            BinaryOperator::NotEqual => !order.is_some_and(|order| order.is_eq()),
            _ => order.is_some_and(|order| order.is_eq()),
        })
    }

    fn integers(
        &self,
        operator: BinaryOperator,
        a: i128,
        b: i128,
        (size, signed): (u64, bool),
        node: &Node,
    ) -> Result<i128> {
        let bits = size.saturating_mul(8);
        let small = u32::try_from(b)
            .ok()
            .filter(|count| u64::from(*count) < bits);
        Ok(match operator {
            BinaryOperator::Add => a.wrapping_add(b),
            BinaryOperator::Subtract => a.wrapping_sub(b),
            BinaryOperator::Multiply => a.wrapping_mul(b),
            BinaryOperator::Divide | BinaryOperator::Remainder if b == 0 => {
                return self.error(ExpressionErrorKind::DivisionByZero, node);
            }
            BinaryOperator::Divide => a.wrapping_div(b),
            BinaryOperator::Remainder => a.wrapping_rem(b),
            // A count as large as the number shifts everything out, as GDB has it.
            BinaryOperator::ShiftLeft => small.map_or(0, |count| a.wrapping_shl(count)),
            BinaryOperator::ShiftRight => match small {
                Some(count) => a.wrapping_shr(count),
                None if signed && a < 0 => -1,
                None => 0,
            },
            BinaryOperator::And => a & b,
            BinaryOperator::Or => a | b,
            BinaryOperator::ExclusiveOr => a ^ b,
            comparison => i128::from(match comparison {
                BinaryOperator::Less => a < b,
                BinaryOperator::LessOrEqual => a <= b,
                BinaryOperator::Greater => a > b,
                BinaryOperator::GreaterOrEqual => a >= b,
                BinaryOperator::NotEqual => a != b,
                _ => a == b,
            }),
        })
    }
}
