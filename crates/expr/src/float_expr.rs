//! Computations with floating-point numbers, as locations of optimised code have them. They are worked out at a saved
//! state; agent expressions have none.

use std::rc::Rc;

use crate::int_expr::{Binary, IntExpr, Source, zero_extend};
use crate::soft_float::{arithmetic, convert, from_integer};

/// The format of a floating-point number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// IEEE's of 32 bits.
    Single,
    /// IEEE's of 64 bits.
    Double,
    /// The x87's of 80 bits: 64 of mantissa, and above them the exponent and the sign.
    Extended,
}

impl Format {
    pub(crate) fn with_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            32 => Self::Single,
            64 => Self::Double,
            80 => Self::Extended,
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u8 {
        match self {
            Self::Single => 32,
            Self::Double => 64,
            Self::Extended => 80,
        }
    }
}

/// A computation that leaves a floating-point number.
#[derive(Clone, Debug)]
pub(crate) struct FloatExpr(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    operation: Operation,
    format: Format,
    size: u32,
}

#[derive(Debug)]
enum Operation {
    /// The bits of a number of 32 or 64 bits.
    Bits(IntExpr),
    /// The mantissa, and the exponent with the sign, of a number of 80 bits.
    Extended(IntExpr, IntExpr),
    /// An integer, and whether it is signed.
    Integer(IntExpr, bool),
    Convert(FloatExpr),
    Binary(Binary, FloatExpr, FloatExpr),
}

impl FloatExpr {
    fn make(operation: Operation, format: Format, below: [u32; 2]) -> Self {
        let size = below
            .iter()
            .fold(1_u32, |size, of| size.saturating_add(*of));
        Self(Rc::new(Inner {
            operation,
            format,
            size,
        }))
    }

    /// The number whose bits an expression gives; for [`Format::Extended`] its mantissa, with the rest in `high`.
    pub(crate) fn from_bits(low: IntExpr, high: IntExpr, format: Format) -> Self {
        let sizes = [low.size(), high.size()];
        match format {
            Format::Extended => Self::make(Operation::Extended(low, high), format, sizes),
            _ => Self::make(Operation::Bits(low), format, [sizes[0], 0]),
        }
    }

    pub(crate) fn zero(format: Format) -> Self {
        Self::from_bits(IntExpr::constant(0), IntExpr::constant(0), format)
    }

    pub(crate) fn from_integer(number: IntExpr, signed: bool, format: Format) -> Self {
        let size = number.size();
        Self::make(Operation::Integer(number, signed), format, [size, 0])
    }

    pub(crate) fn convert(self, format: Format) -> Self {
        if self.0.format == format {
            return self;
        }
        let size = self.size();
        Self::make(Operation::Convert(self), format, [size, 0])
    }

    /// A sum, difference, product or quotient of two numbers of one format.
    pub(crate) fn binary(operator: Binary, left: Self, right: Self) -> Self {
        let (format, sizes) = (left.0.format, [left.size(), right.size()]);
        Self::make(Operation::Binary(operator, left, right), format, sizes)
    }

    pub(crate) fn format(&self) -> Format {
        self.0.format
    }

    /// How many operations there are.
    pub(crate) fn size(&self) -> u32 {
        self.0.size
    }

    /// The expression whose bits these are, if nothing is computed.
    pub(crate) fn as_bits(&self) -> Option<&IntExpr> {
        match &self.0.operation {
            Operation::Bits(expr) => Some(expr),
            _ => None,
        }
    }

    /// Visits the expressions that the number is computed from.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&IntExpr)) {
        match &self.0.operation {
            Operation::Bits(expr) | Operation::Integer(expr, _) => visit(expr),
            Operation::Extended(low, high) => {
                visit(low);
                visit(high);
            }
            Operation::Convert(of) => of.visit(visit),
            Operation::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
        }
    }

    /// Its bits.
    pub(crate) fn work_out<S: Source>(&self, source: &S) -> Result<u128, S::Error> {
        let format = self.0.format;
        Ok(match &self.0.operation {
            Operation::Bits(expr) => u128::from(zero_extend(expr.work_out(source)?, format.bits())),
            Operation::Extended(low, high) => {
                let (low, high) = (low.work_out(source)?, high.work_out(source)?);
                u128::from(zero_extend(high, 16)) << 64 | u128::from(low)
            }
            Operation::Integer(expr, signed) => {
                from_integer(expr.work_out(source)?, *signed, format)
            }
            Operation::Convert(of) => convert(of.work_out(source)?, of.0.format, format),
            Operation::Binary(operator, left, right) => {
                let (left, right) = (left.work_out(source)?, right.work_out(source)?);
                arithmetic(*operator, left, right, format)
            }
        })
    }
}
