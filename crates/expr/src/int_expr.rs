//! Integer computations of 64 bits: the result of lowering a location or an expression. They are folded when they are built, and
//! then either emitted as agent expression bytecode or evaluated on a saved state.

use std::cmp::Ordering;
use std::rc::Rc;

use tracewire_agent_expr::Opcode;
use tracewire_model::{RegisterNumber, VariableNumber};

use crate::float_expr::{FloatExpr, Format};
use crate::search::Search;
use crate::soft_float::{compare, to_integer};

/// The most operations of one computation. Debug information may make a computation double itself at every step.
pub(crate) const LARGEST: u32 = 1024;

/// A computation that leaves one 64-bit number.
#[derive(Clone, Debug)]
pub(crate) struct IntExpr(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    operation: Operation,
    /// How many operations there are, counting shared ones as often as they are used.
    size: u32,
    /// Whether only a saved state has the value: agent expressions cannot compute it.
    state_only: bool,
    /// Whether the caller's frame is needed.
    needs_caller: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Constant(u64),
    Register(RegisterNumber),
    /// The bytes of a register from its ninth on. Never compiled.
    RegisterHigh(RegisterNumber),
    /// The value of a register (DWARF's number) at the function's entry. Never compiled.
    Entry(u16),
    /// An operation on floating-point numbers. Never compiled.
    Float(OfFloats, FloatExpr),
    Variable(VariableNumber),
    /// A cell of the stack, counted from its bottom. Only in compiled code.
    Cell(u16),
    /// A number that a search gives a name.
    Bound(u32),
    /// Where something is that a search finds, or 0.
    Search(Rc<Search>),
    /// The second computation, in which the first is bound to this name.
    With(u32, IntExpr, IntExpr),
    /// Zero-extended number of 1, 2, 4 or 8 bytes at an address.
    Load(IntExpr, u8),
    SignExtend(IntExpr, u8),
    ZeroExtend(IntExpr, u8),
    BitNot(IntExpr),
    /// 1 for zero, 0 for other values.
    IsZero(IntExpr),
    Binary(Binary, IntExpr, IntExpr),
    /// If the first is not zero the second, else the third; only one of the two is computed.
    Choose(IntExpr, IntExpr, IntExpr),
    /// The first for its effect, then the second.
    Then(IntExpr, IntExpr),
    SetVariable(VariableNumber, IntExpr),
    /// A number that orders as the IEEE number does whose bits, sign-extended, these are; both zeros give 0.
    FloatOrder(IntExpr, u8),
    /// Whether the bytes at the address are these; none is read after the first that differs.
    BytesEqual(IntExpr, Rc<[u8]>),
}

/// The bits of a computation with floating-point numbers.
#[derive(Clone, Debug)]
pub(crate) enum OfFloats {
    /// The low 64 bits of the number.
    Low,
    /// The rest.
    High,
    /// The integer next to it on the way to zero; whether that is signed.
    Integer(bool),
    /// Whether it is less than this.
    Less(FloatExpr),
    Equal(FloatExpr),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    DivideSigned,
    DivideUnsigned,
    RemainderSigned,
    RemainderUnsigned,
    ShiftLeft,
    ShiftRightSigned,
    ShiftRightUnsigned,
    And,
    Or,
    ExclusiveOr,
    Equal,
    LessSigned,
    LessUnsigned,
}

impl Binary {
    pub(crate) fn opcode(self) -> Opcode {
        match self {
            Self::Add => Opcode::Add,
            Self::Subtract => Opcode::Sub,
            Self::Multiply => Opcode::Mul,
            Self::DivideSigned => Opcode::DivSigned,
            Self::DivideUnsigned => Opcode::DivUnsigned,
            Self::RemainderSigned => Opcode::RemSigned,
            Self::RemainderUnsigned => Opcode::RemUnsigned,
            Self::ShiftLeft => Opcode::Lsh,
            Self::ShiftRightSigned => Opcode::RshSigned,
            Self::ShiftRightUnsigned => Opcode::RshUnsigned,
            Self::And => Opcode::BitAnd,
            Self::Or => Opcode::BitOr,
            Self::ExclusiveOr => Opcode::BitXor,
            Self::Equal => Opcode::Equal,
            Self::LessSigned => Opcode::LessSigned,
            Self::LessUnsigned => Opcode::LessUnsigned,
        }
    }

    /// The result, as the bytecode defines it; `None` for a division by zero.
    pub(crate) fn apply(self, a: u64, b: u64) -> Option<u64> {
        let (signed_a, signed_b) = (a as i64, b as i64);
        let small = u32::try_from(b).ok().filter(|count| *count < 64);
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::DivideSigned if b == 0 => return None,
            Self::DivideSigned => signed_a.wrapping_div(signed_b) as u64,
            Self::DivideUnsigned => a.checked_div(b)?,
            Self::RemainderSigned if b == 0 => return None,
            Self::RemainderSigned => signed_a.wrapping_rem(signed_b) as u64,
            Self::RemainderUnsigned => a.checked_rem(b)?,
            Self::ShiftLeft => small.map_or(0, |count| a << count),
            Self::ShiftRightSigned => (signed_a >> small.unwrap_or(63)) as u64,
            Self::ShiftRightUnsigned => small.map_or(0, |count| a >> count),
            Self::And => a & b,
            Self::Or => a | b,
            Self::ExclusiveOr => a ^ b,
            Self::Equal => u64::from(a == b),
            Self::LessSigned => u64::from(signed_a < signed_b),
            Self::LessUnsigned => u64::from(a < b),
        })
    }
}

/// Sign-extends from so many bits.
pub(crate) fn sign_extend(number: u64, bits: u8) -> u64 {
    match 64_u32.checked_sub(u32::from(bits)) {
        None | Some(0 | 64) => number,
        Some(rest) => (((number << rest) as i64) >> rest) as u64,
    }
}

/// Zero-extends from so many bits.
pub(crate) fn zero_extend(number: u64, bits: u8) -> u64 {
    match 64_u32.checked_sub(u32::from(bits)) {
        None | Some(0) => number,
        Some(64) => 0,
        Some(rest) => number << rest >> rest,
    }
}

/// [`Operation::FloatOrder`] of a known number.
pub(crate) fn float_order(bits: u64, width: u8) -> u64 {
    let sign = ((sign_extend(bits, width) as i64) >> 63) as u64;
    (zero_extend(bits, width.saturating_sub(1)) ^ sign).wrapping_sub(sign)
}

impl IntExpr {
    fn make(operation: Operation, below: &[&IntExpr]) -> Self {
        let own = match &operation {
            Operation::Float(OfFloats::Less(other) | OfFloats::Equal(other), float) => {
                float.size().saturating_add(other.size())
            }
            Operation::Float(_, float) => float.size(),
            _ => 1,
        };
        let size = (below.iter()).fold(own, |size, expr| size.saturating_add(expr.0.size));
        let of_state = matches!(
            operation,
            Operation::Entry(_) | Operation::RegisterHigh(_) | Operation::Float(..)
        );
        let needs_caller = matches!(operation, Operation::Entry(_));
        Self(Rc::new(Inner {
            operation,
            size,
            state_only: of_state || below.iter().any(|expr| expr.0.state_only),
            needs_caller: needs_caller || below.iter().any(|expr| expr.0.needs_caller),
        }))
    }

    pub(crate) fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// How many operations there are.
    pub(crate) fn size(&self) -> u32 {
        self.0.size
    }

    /// Whether the computation is too large to be used.
    pub(crate) fn too_large(&self) -> bool {
        self.0.size > LARGEST
    }

    /// Whether only a saved state has the value: it cannot be compiled.
    pub(crate) fn is_state_only(&self) -> bool {
        self.0.state_only
    }

    /// Whether memory is read for it.
    pub(crate) fn loads(&self) -> bool {
        match self.operation() {
            Operation::Load(..) | Operation::BytesEqual(..) | Operation::Search(_) => true,
            Operation::Constant(_)
            | Operation::Register(_)
            | Operation::RegisterHigh(_)
            | Operation::Entry(_)
            | Operation::Variable(_)
            | Operation::Cell(_)
            | Operation::Bound(_) => false,
            Operation::SignExtend(inner, _)
            | Operation::ZeroExtend(inner, _)
            | Operation::BitNot(inner)
            | Operation::IsZero(inner)
            | Operation::SetVariable(_, inner)
            | Operation::FloatOrder(inner, _) => inner.loads(),
            Operation::Binary(_, left, right)
            | Operation::Then(left, right)
            | Operation::With(_, left, right) => left.loads() || right.loads(),
            Operation::Choose(condition, yes, no) => condition.loads() || yes.loads() || no.loads(),
            Operation::Float(what, number) => {
                let mut loads = false;
                number.visit(&mut |expr| loads |= expr.loads());
                if let OfFloats::Less(other) | OfFloats::Equal(other) = what {
                    other.visit(&mut |expr| loads |= expr.loads());
                }
                loads
            }
        }
    }

    /// How far it is from another computation, where that is a constant.
    pub(crate) fn distance_from(&self, other: &Self) -> Option<u64> {
        fn parts(expr: &IntExpr) -> (&IntExpr, u64) {
            if let Operation::Binary(Binary::Add, inner, offset) = expr.operation()
                && let Some(offset) = offset.as_constant()
            {
                return (inner, offset);
            }
            (expr, 0)
        }
        let ((a, from_a), (b, from_b)) = (parts(self), parts(other));
        let same = match (a.operation(), b.operation()) {
            (Operation::Cell(a), Operation::Cell(b)) => a == b,
            (Operation::Bound(a), Operation::Bound(b)) => a == b,
            (Operation::Register(a), Operation::Register(b)) => a == b,
            (Operation::Constant(a), Operation::Constant(b)) => return Some(a.wrapping_sub(*b)),
            _ => Rc::ptr_eq(&a.0, &b.0),
        };
        same.then(|| from_a.wrapping_sub(from_b))
    }

    /// Whether it uses a value that the caller passed, except within floating-point computations.
    pub(crate) fn needs_caller(&self) -> bool {
        self.0.needs_caller
    }

    pub(crate) fn constant(number: u64) -> Self {
        Self::make(Operation::Constant(number), &[])
    }

    pub(crate) fn as_constant(&self) -> Option<u64> {
        match self.operation() {
            Operation::Constant(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn register(register: RegisterNumber) -> Self {
        Self::make(Operation::Register(register), &[])
    }

    pub(crate) fn register_high(register: RegisterNumber) -> Self {
        Self::make(Operation::RegisterHigh(register), &[])
    }

    pub(crate) fn of_floats(what: OfFloats, float: FloatExpr) -> Self {
        match (what, float.as_bits()) {
            (OfFloats::Low, Some(bits)) => bits.clone(),
            (what, _) => Self::make(Operation::Float(what, float), &[]),
        }
    }

    pub(crate) fn entry(register: u16) -> Self {
        Self::make(Operation::Entry(register), &[])
    }

    pub(crate) fn cell(cell: u16) -> Self {
        Self::make(Operation::Cell(cell), &[])
    }

    pub(crate) fn bound(name: u32) -> Self {
        Self::make(Operation::Bound(name), &[])
    }

    pub(crate) fn with(name: u32, first: Self, second: Self) -> Self {
        Self::make(
            Operation::With(name, first.clone(), second.clone()),
            &[&first, &second],
        )
    }

    pub(crate) fn search(search: Search) -> Self {
        let search = Rc::new(search);
        Self::make(Operation::Search(Rc::clone(&search)), &search.parts())
    }

    pub(crate) fn variable(variable: VariableNumber) -> Self {
        Self::make(Operation::Variable(variable), &[])
    }

    pub(crate) fn load(address: Self, size: u8) -> Self {
        Self::make(Operation::Load(address.clone(), size), &[&address])
    }

    pub(crate) fn sign_extend(self, bits: u8) -> Self {
        if bits >= 64 {
            return self;
        }
        match self.operation() {
            Operation::Constant(number) => Self::constant(sign_extend(*number, bits)),
            // A value that is already extended stays; bits that are cut off later need no extension before.
            Operation::SignExtend(_, inner) if *inner <= bits => self,
            Operation::SignExtend(inner, wider) | Operation::ZeroExtend(inner, wider)
                if *wider >= bits =>
            {
                inner.clone().sign_extend(bits)
            }
            _ if self.at_most_bits() < u32::from(bits) => self,
            _ => Self::make(Operation::SignExtend(self.clone(), bits), &[&self]),
        }
    }

    pub(crate) fn zero_extend(self, bits: u8) -> Self {
        if bits >= 64 {
            return self;
        }
        match self.operation() {
            Operation::Constant(number) => Self::constant(zero_extend(*number, bits)),
            Operation::SignExtend(inner, wider) | Operation::ZeroExtend(inner, wider)
                if *wider >= bits =>
            {
                inner.clone().zero_extend(bits)
            }
            _ if self.at_most_bits() <= u32::from(bits) => self,
            _ => Self::make(Operation::ZeroExtend(self.clone(), bits), &[&self]),
        }
    }

    /// How many of the low bits may be set, where that is plain to see.
    fn at_most_bits(&self) -> u32 {
        match self.operation() {
            Operation::Constant(number) => 64 - number.leading_zeros(),
            Operation::Load(_, size) => u32::from(*size) * 8,
            Operation::ZeroExtend(_, bits) => u32::from(*bits),
            Operation::Float(OfFloats::Low, float) if float.format() == Format::Single => 32,
            Operation::IsZero(_)
            | Operation::BytesEqual(..)
            | Operation::Float(OfFloats::Less(_) | OfFloats::Equal(_), _)
            | Operation::Binary(Binary::Equal | Binary::LessSigned | Binary::LessUnsigned, ..) => 1,
            _ => 64,
        }
    }

    pub(crate) fn bit_not(self) -> Self {
        match self.as_constant() {
            Some(number) => Self::constant(!number),
            None => Self::make(Operation::BitNot(self.clone()), &[&self]),
        }
    }

    pub(crate) fn into_is_zero(self) -> Self {
        match self.as_constant() {
            Some(number) => Self::constant(u64::from(number == 0)),
            None => Self::make(Operation::IsZero(self.clone()), &[&self]),
        }
    }

    /// 1 for any value except zero.
    pub(crate) fn into_truth(self) -> Self {
        if self.at_most_bits() <= 1 {
            self
        } else {
            self.into_is_zero().into_is_zero()
        }
    }

    pub(crate) fn binary(operator: Binary, left: Self, right: Self) -> Self {
        if let (Some(a), Some(b)) = (left.as_constant(), right.as_constant())
            && let Some(result) = operator.apply(a, b)
        {
            return Self::constant(result);
        }
        let zero = right.as_constant() == Some(0);
        match (operator, left.operation(), right.as_constant()) {
            (
                Binary::Add
                | Binary::Subtract
                | Binary::Or
                | Binary::ExclusiveOr
                | Binary::ShiftLeft
                | Binary::ShiftRightSigned
                | Binary::ShiftRightUnsigned,
                ..,
            ) if zero => left,
            (Binary::Multiply | Binary::DivideSigned | Binary::DivideUnsigned, _, Some(1)) => left,
            (Binary::Subtract, _, Some(number)) => Self::binary(
                Binary::Add,
                left.clone(),
                Self::constant(number.wrapping_neg()),
            ),
            // (x + a) + b is x + (a + b)
            (Binary::Add, Operation::Binary(Binary::Add, inner, offset), Some(number))
                if offset.as_constant().is_some() =>
            {
                let sum = offset.as_constant().unwrap_or(0).wrapping_add(number);
                Self::binary(Binary::Add, inner.clone(), Self::constant(sum))
            }
            (Binary::Add | Binary::Multiply, Operation::Constant(_), None) => {
                Self::binary(operator, right, left)
            }
            _ => Self::make(
                Operation::Binary(operator, left.clone(), right.clone()),
                &[&left, &right],
            ),
        }
    }

    pub(crate) fn add(self, number: u64) -> Self {
        Self::binary(Binary::Add, self, Self::constant(number))
    }

    pub(crate) fn choose(condition: Self, yes: Self, no: Self) -> Self {
        match condition.as_constant() {
            Some(0) => no,
            Some(_) => yes,
            None => Self::make(
                Operation::Choose(condition.clone(), yes.clone(), no.clone()),
                &[&condition, &yes, &no],
            ),
        }
    }

    /// `left && right`.
    pub(crate) fn both(left: Self, right: Self) -> Self {
        Self::choose(left, right.into_truth(), Self::constant(0))
    }

    /// `left || right`.
    pub(crate) fn either(left: Self, right: Self) -> Self {
        Self::choose(left, Self::constant(1), right.into_truth())
    }

    pub(crate) fn then(first: Self, second: Self) -> Self {
        match first.as_constant() {
            Some(_) => second,
            None => Self::make(
                Operation::Then(first.clone(), second.clone()),
                &[&first, &second],
            ),
        }
    }

    pub(crate) fn set_variable(variable: VariableNumber, number: Self) -> Self {
        Self::make(Operation::SetVariable(variable, number.clone()), &[&number])
    }

    pub(crate) fn float_order(self, width: u8) -> Self {
        match self.as_constant() {
            Some(bits) => Self::constant(float_order(bits, width)),
            None => {
                let bits = self.sign_extend(width);
                Self::make(Operation::FloatOrder(bits.clone(), width), &[&bits])
            }
        }
    }

    pub(crate) fn bytes_equal(address: Self, bytes: Rc<[u8]>) -> Self {
        Self::make(Operation::BytesEqual(address.clone(), bytes), &[&address])
    }
}

/// Where a computation is worked out.
pub(crate) trait Source {
    type Error;
    /// Eight bytes of a register from one of them on; 0 beyond its end.
    fn register(&self, register: RegisterNumber, from: usize) -> Result<u64, Self::Error>;
    fn load(&self, address: u64, size: u8) -> Result<u64, Self::Error>;
    /// The value of a register (DWARF's number) at the function's entry.
    fn entry(&self, register: u16) -> Result<u64, Self::Error>;
    fn division_by_zero(&self) -> Self::Error;
    /// Notes a number that a search gives a name, where there are searches.
    fn bind(&self, _name: u32, _number: u64) {}
    fn bound(&self, _name: u32) -> u64 {
        0
    }
}

impl IntExpr {
    /// Works a location out. Variables do not occur in one and are 0.
    pub(crate) fn work_out<S: Source>(&self, source: &S) -> Result<u64, S::Error> {
        Ok(match self.operation() {
            Operation::Constant(number) => *number,
            Operation::Register(register) => source.register(*register, 0)?,
            Operation::RegisterHigh(register) => source.register(*register, 8)?,
            Operation::Entry(register) => source.entry(*register)?,
            Operation::Float(what, float) => {
                let (bits, format) = (float.work_out(source)?, float.format());
                match what {
                    OfFloats::Low => bits as u64,
                    OfFloats::High => (bits >> 64) as u64,
                    OfFloats::Integer(signed) => to_integer(bits, format, *signed),
                    OfFloats::Less(other) => {
                        let order = compare(bits, other.work_out(source)?, format);
                        u64::from(order.is_some_and(Ordering::is_lt))
                    }
                    OfFloats::Equal(other) => {
                        let order = compare(bits, other.work_out(source)?, format);
                        u64::from(order.is_some_and(Ordering::is_eq))
                    }
                }
            }
            Operation::Variable(_) | Operation::Cell(_) => 0,
            Operation::Bound(name) => source.bound(*name),
            Operation::Search(search) => search.work_out(source)?,
            Operation::With(name, first, second) => {
                source.bind(*name, first.work_out(source)?);
                second.work_out(source)?
            }
            Operation::Load(address, size) => source.load(address.work_out(source)?, *size)?,
            Operation::SignExtend(inner, bits) => sign_extend(inner.work_out(source)?, *bits),
            Operation::ZeroExtend(inner, bits) => zero_extend(inner.work_out(source)?, *bits),
            Operation::BitNot(inner) => !inner.work_out(source)?,
            Operation::IsZero(inner) => u64::from(inner.work_out(source)? == 0),
            Operation::Binary(operator, left, right) => {
                let (a, b) = (left.work_out(source)?, right.work_out(source)?);
                operator
                    .apply(a, b)
                    .ok_or_else(|| source.division_by_zero())?
            }
            Operation::Choose(condition, yes, no) => match condition.work_out(source)? {
                0 => no.work_out(source)?,
                _ => yes.work_out(source)?,
            },
            Operation::Then(first, second) => {
                first.work_out(source)?;
                second.work_out(source)?
            }
            Operation::SetVariable(_, number) => number.work_out(source)?,
            Operation::FloatOrder(bits, width) => float_order(bits.work_out(source)?, *width),
            Operation::BytesEqual(address, bytes) => {
                let start = address.work_out(source)?;
                for (offset, byte) in (0_u64..).zip(bytes.iter()) {
                    if source.load(start.wrapping_add(offset), 1)? != u64::from(*byte) {
                        return Ok(0);
                    }
                }
                1
            }
        })
    }
}
