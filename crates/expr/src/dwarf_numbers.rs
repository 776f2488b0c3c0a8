//! The numbers on the stack of a DWARF expression, and computing with them.

use tracewire_arch::Architecture;
use tracewire_model::RegisterNumber;

use crate::dwarf_run::Run;
use crate::float_expr::{FloatExpr, Format};
use crate::int_expr::{Binary, IntExpr, OfFloats, Operation};
use crate::location::Unlocatable;
use crate::object::Object;
use crate::register_names::is_x87;
use tracewire_debuginfo::{BaseEncoding, BaseTypeOffset, ExpressionOperation, Type};

/// The type of a stack entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An address or an offset: as wide as an address, signedness by operation.
    Generic,
    /// A floating-point number with this many bits. The expression has its low 64.
    Float {
        bits: u8,
    },
    Integer {
        bits: u8,
        signed: bool,
    },
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) expr: IntExpr,
    pub(crate) kind: Kind,
}

impl Entry {
    /// The value of `DW_OP_stack_value`.
    pub(crate) fn into_value(self) -> Object {
        match (self.kind, float_of(&self)) {
            (Kind::Float { bits: 80 }, Ok(number)) => {
                let high = IntExpr::of_floats(OfFloats::High, number);
                Object::Pieces(vec![
                    (Object::Value(self.expr), 8),
                    (Object::Value(high), 8),
                ])
            }
            _ => Object::Value(self.expr),
        }
    }
}

/// The number of an entry that is no floating-point number.
pub(crate) fn integral(entry: Entry) -> Result<IntExpr, Unlocatable> {
    match entry.kind {
        Kind::Float { .. } => {
            Err("its location takes a floating-point number for an integer".to_owned())
        }
        _ => Ok(entry.expr),
    }
}

/// The floating-point number of an entry.
fn float_of(entry: &Entry) -> Result<FloatExpr, Unlocatable> {
    let Kind::Float { bits } = entry.kind else {
        return Err("its location takes an integer for a floating-point number".to_owned());
    };
    if let Operation::Float(OfFloats::Low, number) = entry.expr.operation()
        && number.format().bits() == bits
    {
        return Ok(number.clone());
    }
    match Format::with_bits(bits) {
        Some(format @ (Format::Single | Format::Double)) => Ok(FloatExpr::from_bits(
            entry.expr.clone(),
            IntExpr::constant(0),
            format,
        )),
        _ => Err(format!(
            "its location computes with floating-point numbers of {bits} bits"
        )),
    }
}

fn float_entry(number: FloatExpr) -> Entry {
    let bits = number.format().bits();
    Entry {
        expr: IntExpr::of_floats(OfFloats::Low, number),
        kind: Kind::Float { bits },
    }
}

fn truth(expr: IntExpr) -> Entry {
    Entry {
        expr,
        kind: Kind::Generic,
    }
}

impl Run<'_> {
    fn address_bits(&self) -> u8 {
        self.expression.encoding().address_size.saturating_mul(8)
    }

    /// The address that an entry is.
    pub(crate) fn address(&self, entry: Entry) -> Result<IntExpr, Unlocatable> {
        let expr = integral(entry)?;
        // Memory at that address could not be collected.
        if !self.locator.callers && expr.is_state_only() {
            return Err("its address is computed with floating-point numbers".to_owned());
        }
        Ok(expr)
    }

    /// The entry's canonical number: extended from its width by its signedness.
    pub(crate) fn canonical(&self, expr: IntExpr, kind: Kind) -> Entry {
        let expr = match kind {
            Kind::Generic => expr.zero_extend(self.address_bits()),
            Kind::Float { bits } => expr.zero_extend(bits),
            Kind::Integer { bits, signed: true } => expr.sign_extend(bits),
            Kind::Integer {
                bits,
                signed: false,
            } => expr.zero_extend(bits),
        };
        Entry { expr, kind }
    }

    pub(crate) fn kind(&self, base_type: BaseTypeOffset) -> Result<Kind, Unlocatable> {
        if base_type.0 == 0 {
            return Ok(Kind::Generic);
        }
        let symbols = self.locator.symbols;
        let type_id = (symbols.base_type_at(self.expression, base_type))
            .ok_or("its location names a type that is not there")?;
        let x87 = matches!(
            self.locator.architecture(),
            Architecture::X86_64 | Architecture::I386
        );
        match &*symbols.type_of(type_id) {
            Type::Base { size, encoding, .. } if *size <= 8 => {
                let bits = (*size * 8) as u8;
                if *encoding == BaseEncoding::Float {
                    return Ok(Kind::Float { bits });
                }
                Ok(Kind::Integer {
                    bits,
                    signed: matches!(encoding, BaseEncoding::Signed | BaseEncoding::SignedChar),
                })
            }
            Type::Base {
                size: 12 | 16,
                encoding: BaseEncoding::Float,
                name,
                ..
            } if x87 && !name.contains("128") => Ok(Kind::Float { bits: 80 }),
            _ => Err(
                "its location computes with a type that agent expressions do not have".to_owned(),
            ),
        }
    }

    /// An entry whose bits two expressions have: the low 64, and the rest.
    pub(crate) fn typed(&self, low: IntExpr, high: IntExpr, kind: Kind) -> Entry {
        match kind {
            Kind::Float { bits: 80 } => {
                float_entry(FloatExpr::from_bits(low, high, Format::Extended))
            }
            _ => self.canonical(low, kind),
        }
    }

    /// A register read as a type. The x87 registers hold 80-bit numbers, for any type.
    pub(crate) fn typed_register(&self, register: RegisterNumber, kind: Kind) -> Entry {
        let (low, high) = (
            IntExpr::register(register),
            IntExpr::register_high(register),
        );
        let x87 = is_x87(self.locator.architecture(), register);
        match kind {
            Kind::Float { bits } if x87 => {
                let number = FloatExpr::from_bits(low, high, Format::Extended);
                match Format::with_bits(bits) {
                    Some(format) => float_entry(number.convert(format)),
                    None => self.canonical(IntExpr::of_floats(OfFloats::Low, number), kind),
                }
            }
            _ => self.typed(low, high, kind),
        }
    }

    pub(crate) fn load(
        &self,
        address: IntExpr,
        size: u8,
        kind: Kind,
    ) -> Result<Entry, Unlocatable> {
        match (size, kind) {
            (1 | 2 | 4 | 8, _) if kind != (Kind::Float { bits: 80 }) => {
                Ok(self.canonical(IntExpr::load(address, size), kind))
            }
            (12 | 16, Kind::Float { bits: 80 }) => {
                let high = IntExpr::load(address.clone().add(8), size - 8);
                Ok(self.typed(IntExpr::load(address, 8), high, kind))
            }
            _ => Err(format!("its location loads {size} bytes")),
        }
    }

    pub(crate) fn convert(&self, entry: Entry, kind: Kind) -> Result<Entry, Unlocatable> {
        let format = |bits| {
            Format::with_bits(bits).ok_or_else(|| {
                format!("its location computes with floating-point numbers of {bits} bits")
            })
        };
        Ok(match (entry.kind, kind) {
            (from, to) if from == to => entry,
            (Kind::Float { .. }, Kind::Float { bits }) => {
                float_entry(float_of(&entry)?.convert(format(bits)?))
            }
            (Kind::Float { .. }, _) => {
                let signed = !matches!(kind, Kind::Integer { signed: false, .. });
                let number = IntExpr::of_floats(OfFloats::Integer(signed), float_of(&entry)?);
                self.canonical(number, kind)
            }
            (from, Kind::Float { bits }) => {
                let signed = !matches!(from, Kind::Integer { signed: false, .. });
                let number = self.signed(&entry);
                float_entry(FloatExpr::from_integer(number, signed, format(bits)?))
            }
            _ => self.canonical(entry.expr, kind),
        })
    }

    pub(crate) fn reinterpret(&self, entry: Entry, kind: Kind) -> Result<Entry, Unlocatable> {
        let wide = Kind::Float { bits: 80 };
        if entry.kind != kind && (entry.kind == wide || kind == wide) {
            return Err("its location takes a number for one of another size".to_owned());
        }
        Ok(self.canonical(entry.expr, kind))
    }

    pub(crate) fn negative(&self, entry: &Entry) -> Result<Entry, Unlocatable> {
        if let Kind::Float { .. } = entry.kind {
            let number = float_of(entry)?;
            // As in GDB: a subtraction from 0 never gives -0.
            let zero = FloatExpr::zero(number.format());
            return Ok(float_entry(FloatExpr::binary(
                Binary::Subtract,
                zero,
                number,
            )));
        }
        let zero = IntExpr::constant(0);
        let result = IntExpr::binary(Binary::Subtract, zero, entry.expr.clone());
        Ok(self.canonical(result, entry.kind))
    }

    pub(crate) fn absolute(&self, entry: &Entry) -> Result<Entry, Unlocatable> {
        if let Kind::Float { .. } = entry.kind {
            let number = float_of(entry)?;
            let minus = float_of(&self.negative(entry)?)?;
            let below = IntExpr::of_floats(
                OfFloats::Less(FloatExpr::zero(number.format())),
                number.clone(),
            );
            let part = |what: OfFloats| {
                let (minus, plus) = (minus.clone(), number.clone());
                let minus = IntExpr::of_floats(what.clone(), minus);
                IntExpr::choose(below.clone(), minus, IntExpr::of_floats(what, plus))
            };
            return Ok(self.typed(part(OfFloats::Low), part(OfFloats::High), entry.kind));
        }
        let number = self.signed(entry);
        let negative = IntExpr::binary(Binary::LessSigned, number.clone(), IntExpr::constant(0));
        let minus = IntExpr::binary(Binary::Subtract, IntExpr::constant(0), number.clone());
        Ok(self.canonical(IntExpr::choose(negative, minus, number), entry.kind))
    }

    fn signed(&self, entry: &Entry) -> IntExpr {
        match entry.kind {
            Kind::Generic => entry.expr.clone().sign_extend(self.address_bits()),
            Kind::Integer { .. } | Kind::Float { .. } => entry.expr.clone(),
        }
    }

    pub(crate) fn binary(
        &self,
        operation: &ExpressionOperation,
        left: &Entry,
        right: &Entry,
    ) -> Result<Entry, Unlocatable> {
        use ExpressionOperation as Op;
        let kind = left.kind;
        let float = |entry: &Entry| matches!(entry.kind, Kind::Float { .. });
        if float(left) || float(right) {
            return float_operation(operation, left, right);
        }
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
            let result = IntExpr::binary(less, a, b);
            truth(if not { result.into_is_zero() } else { result })
        };
        Ok(match operation {
            Op::Lt => comparison(false, false),
            Op::Gt => comparison(true, false),
            Op::Ge => comparison(false, true),
            Op::Le => comparison(true, true),
            Op::Ne => {
                let equal = IntExpr::binary(Binary::Equal, left.expr.clone(), right.expr.clone());
                truth(equal.into_is_zero())
            }
            Op::Shl | Op::Shr | Op::Shra if kind == Kind::Generic => {
                let left = match operation {
                    Op::Shra => self.signed(left),
                    _ => left.expr.clone(),
                };
                // GCC names all of a register whose lower half has the count. No count needs more bits.
                let count = right.expr.clone().zero_extend(32);
                self.canonical(IntExpr::binary(operator, left, count), kind)
            }
            Op::Div if kind == Kind::Generic => {
                let result = IntExpr::binary(operator, self.signed(left), self.signed(right));
                self.canonical(result, kind)
            }
            _ => self.canonical(
                IntExpr::binary(operator, left.expr.clone(), right.expr.clone()),
                kind,
            ),
        })
    }
}

/// An operation on two floating-point numbers of one format.
fn float_operation(
    operation: &ExpressionOperation,
    left: &Entry,
    right: &Entry,
) -> Result<Entry, Unlocatable> {
    use ExpressionOperation as Op;
    if left.kind != right.kind {
        return Err("its location computes with numbers of different types".to_owned());
    }
    let (a, b) = (float_of(left)?, float_of(right)?);
    let less = |a: FloatExpr, b: FloatExpr| IntExpr::of_floats(OfFloats::Less(b), a);
    let equal = |a: FloatExpr, b: FloatExpr| IntExpr::of_floats(OfFloats::Equal(b), a);
    Ok(match operation {
        Op::Plus => float_entry(FloatExpr::binary(Binary::Add, a, b)),
        Op::Minus => float_entry(FloatExpr::binary(Binary::Subtract, a, b)),
        Op::Mul => float_entry(FloatExpr::binary(Binary::Multiply, a, b)),
        Op::Div => float_entry(FloatExpr::binary(Binary::DivideSigned, a, b)),
        // As in GDB: a NaN is neither less nor greater, and thus "less or equal" as well.
        Op::Lt => truth(less(a, b)),
        Op::Gt => truth(less(b, a)),
        Op::Ge => truth(less(a, b).into_is_zero()),
        Op::Le => truth(less(b, a).into_is_zero()),
        Op::Eq => truth(equal(a, b)),
        Op::Ne => truth(equal(a, b).into_is_zero()),
        _ => return Err("its location takes a floating-point number for an integer".to_owned()),
    })
}

/// The operation on integers.
pub(crate) fn binary(operation: &ExpressionOperation) -> Option<Binary> {
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
