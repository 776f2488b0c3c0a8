//! From the typed tree to computations of agent expressions; other operations are errors.

use std::cell::Cell;
use std::rc::Rc;

use tracewire_arch::Architecture;

use crate::error::{ExpressionError, ExpressionErrorKind};
use crate::int_expr::{Binary, IntExpr};
use crate::location::Locator;
use crate::node::{Known, Node, NodeKind, Subject};
use crate::object::{Object, object_number, offset_by};
use crate::register_names::{is_low_vector, is_wide};
use crate::resolve::Result;
use crate::scalar::{Scalar, scalar};
use crate::syntax::BinaryOperator;
use tracewire_debuginfo::{Symbols, TypeId};

/// Turns nodes into computations at one pc.
#[derive(Clone)]
pub(crate) struct Lower<'a> {
    pub(crate) locator: Locator<'a>,
    pub(crate) text: &'a str,
    /// For the expressions of a type rule: what they are about.
    pub(crate) subjects: Option<Subjects>,
    /// How many numbers have names.
    pub(crate) names: Rc<Cell<u32>>,
    /// The names of values that are computed once.
    pub(crate) known: Vec<(Known, u32)>,
}

/// The objects of a type rule's expressions.
#[derive(Clone, Debug)]
pub(crate) struct Subjects {
    pub(crate) object: Object,
    pub(crate) node: Option<IntExpr>,
    pub(crate) index: Option<IntExpr>,
}

impl Subjects {
    pub(crate) const fn of(object: Object) -> Self {
        Self {
            object,
            node: None,
            index: None,
        }
    }

    fn get(&self, subject: Subject) -> Object {
        let number = match subject {
            Subject::Object => return self.object.clone(),
            Subject::Node => &self.node,
            Subject::Index => &self.index,
            Subject::Known(_) => &None,
        };
        let number = number.clone().map(Object::Value);
        number.unwrap_or(Object::OptimizedOut)
    }
}

impl<'a> Lower<'a> {
    pub(crate) fn symbols(&self) -> &'a Symbols {
        self.locator.symbols
    }

    /// Names for the numbers of a search.
    pub(crate) fn new_names(&self) -> [u32; 3] {
        let first = self.names.get();
        self.names.set(first.saturating_add(3));
        [first, first.saturating_add(1), first.saturating_add(2)]
    }

    pub(crate) fn error<T>(&self, kind: ExpressionErrorKind, node: &Node) -> Result<T> {
        Err(ExpressionError::new(kind, self.text, node.span))
    }

    pub(crate) fn unsupported<T>(&self, message: &str, node: &Node) -> Result<T> {
        self.error(ExpressionErrorKind::Unsupported(message.to_owned()), node)
    }

    pub(crate) fn scalar(&self, type_id: TypeId) -> Scalar {
        scalar(self.symbols(), type_id)
    }

    fn checked(&self, expr: IntExpr, node: &Node) -> Result<IntExpr> {
        if expr.too_large() {
            let message = "the expression is too complicated".to_owned();
            return self.error(ExpressionErrorKind::TooLarge(message), node);
        }
        Ok(expr)
    }

    fn compilable(&self, expr: IntExpr, node: &Node) -> Result<IntExpr> {
        if expr.needs_caller() {
            return self.unsupported(
                "This is what the caller passed, which is worked out from what was collected; agent expressions cannot \
                 compute with it.",
                node,
            );
        }
        if expr.is_state_only() {
            return self.unsupported(
                "This is computed with floating-point numbers here, which agent expressions cannot do; it can be \
                 collected.",
                node,
            );
        }
        Ok(expr)
    }

    /// Where the bytes of a node are.
    pub(crate) fn object(&self, node: &Node) -> Result<Object> {
        match &node.kind {
            NodeKind::Place(variable) => match self.locator.object(&variable.location) {
                Ok(object) if object.is_at_unknown_address() => self.lost(node),
                Ok(object) => Ok(object),
                Err(reason) => {
                    let name = variable.name.clone();
                    self.error(ExpressionErrorKind::NoLocation { name, reason }, node)
                }
            },
            NodeKind::Register(register, offset) => Ok(Object::Register(*register, *offset)),
            NodeKind::Function(entry) => Ok(Object::Memory(IntExpr::constant(*entry))),
            NodeKind::Subject(Subject::Known(known)) => {
                // The innermost of several.
                let mut names = self.known.iter().rev();
                let found = names.find(|(of, _)| of == known);
                debug_assert!(found.is_some());
                Ok(found.map_or(Object::OptimizedOut, |(_, name)| {
                    Object::Value(IntExpr::bound(*name))
                }))
            }
            NodeKind::Subject(subject) => {
                let subjects = self.subjects.as_ref();
                // A rule's expression is lowered only while a value is walked, which sets the subjects.
                debug_assert!(subjects.is_some());
                Ok(subjects.map_or(Object::OptimizedOut, |subjects| subjects.get(*subject)))
            }
            NodeKind::Bytes(bytes) => Ok(Object::Bytes(bytes.clone())),
            NodeKind::Repeat(first, _) => self.object(first),
            NodeKind::Field { of, offset, .. } => Ok(offset_by(self.object(of)?, *offset)),
            NodeKind::Dereference(pointer) => self.pointee(pointer),
            NodeKind::Conditional(condition, yes, no)
                if self.scalar(node.type_id).as_number().is_none() =>
            {
                match (self.object(yes)?, self.object(no)?) {
                    (Object::Memory(yes), Object::Memory(no)) => {
                        let condition = self.truth(condition)?;
                        Ok(Object::Memory(
                            self.checked(IntExpr::choose(condition, yes, no), node)?,
                        ))
                    }
                    _ => self.unsupported("Both sides of `?:` must be in memory here.", node),
                }
            }
            _ => Ok(Object::Value(self.value(node)?)),
        }
    }

    /// The target of a pointer. A pointer that the compiler removed still has its target object.
    fn pointee(&self, pointer: &Node) -> Result<Object> {
        let mut inner = pointer;
        while let NodeKind::Convert(below) = &inner.kind {
            inner = below;
        }
        if matches!(inner.kind, NodeKind::Place(_) | NodeKind::Field { .. })
            && let Object::Synthetic(target) = self.object(inner)?
        {
            let (_, location, offset) = &*target;
            return match self.locator.object(location) {
                Ok(object) if object.is_at_unknown_address() => self.lost(pointer),
                Ok(object) => Ok(offset_by(object, *offset as u64)),
                Err(reason) => {
                    let name = "*pointer".to_owned();
                    self.error(ExpressionErrorKind::NoLocation { name, reason }, pointer)
                }
            };
        }
        Ok(Object::Memory(self.value(pointer)?))
    }

    /// Extends a number from its type's width.
    fn canonical(&self, expr: IntExpr, type_id: TypeId, node: &Node) -> Result<IntExpr> {
        match self.scalar(type_id).as_number() {
            Some((size @ ..=8, true)) => Ok(expr.sign_extend((size * 8) as u8)),
            Some((size @ ..=8, false)) => Ok(expr.zero_extend((size * 8) as u8)),
            Some(_) => self.unsupported(
                "Agent expressions have no integers of more than 64 bits.",
                node,
            ),
            None => Ok(expr),
        }
    }

    /// The number that a node gives, extended by its type.
    pub(crate) fn value(&self, node: &Node) -> Result<IntExpr> {
        let expr = self.unchecked_value(node)?;
        self.checked(expr, node)
    }

    fn unchecked_value(&self, node: &Node) -> Result<IntExpr> {
        let type_id = node.type_id;
        match &node.kind {
            NodeKind::Integer(number) => {
                self.canonical(IntExpr::constant(*number as u64), type_id, node)
            }
            NodeKind::Variable(_, Some(number)) => Ok(IntExpr::variable(*number)),
            NodeKind::Variable(..) | NodeKind::Assign(None, _) => {
                self.unsupported("This trace state variable has no number.", node)
            }
            NodeKind::Float(_) | NodeKind::Bytes(_) | NodeKind::Repeat(..) => self.no_number(node),
            NodeKind::Place(_)
            | NodeKind::Register(..)
            | NodeKind::Dereference(_)
            | NodeKind::Field { .. }
            | NodeKind::Subject(_)
            | NodeKind::Function(_) => self.load(node),
            NodeKind::AddressOf(of) => match self.object(of)? {
                Object::Memory(address) => Ok(address),
                Object::OptimizedOut => self.lost(of),
                _ => self.error(
                    ExpressionErrorKind::Type(
                        "Attempt to take address of value not located in memory.".into(),
                    ),
                    node,
                ),
            },
            NodeKind::Convert(from) => self.convert(from, node),
            NodeKind::Negate(of) => {
                let number = self.value(of)?;
                let negative = IntExpr::binary(Binary::Subtract, IntExpr::constant(0), number);
                self.canonical(negative, type_id, node)
            }
            NodeKind::BitNot(of) => self.canonical(self.value(of)?.bit_not(), type_id, node),
            NodeKind::LogicalNot(of) => Ok(self.truth(of)?.into_is_zero()),
            NodeKind::Arithmetic(operator, left, right) => {
                self.arithmetic(*operator, left, right, node)
            }
            NodeKind::Compare(operator, left, right) => match self.scalar(left.type_id) {
                Scalar::Float { .. } => self.compare_floats(*operator, left, right, node),
                shape => {
                    let signed = shape.as_number().is_some_and(|(_, signed)| signed);
                    Ok(compare(
                        *operator,
                        self.value(left)?,
                        self.value(right)?,
                        signed,
                    ))
                }
            },
            NodeKind::PointerAdd {
                pointer,
                index,
                element,
                subtract,
            } => {
                let bytes = IntExpr::binary(
                    Binary::Multiply,
                    self.value(index)?,
                    IntExpr::constant(*element),
                );
                let operator = if *subtract {
                    Binary::Subtract
                } else {
                    Binary::Add
                };
                let sum = IntExpr::binary(operator, self.value(pointer)?, bytes);
                self.canonical(sum, type_id, node)
            }
            NodeKind::PointerDifference(left, right, element) => {
                let bytes =
                    IntExpr::binary(Binary::Subtract, self.value(left)?, self.value(right)?);
                let bytes = self.canonical(bytes, type_id, node)?;
                Ok(IntExpr::binary(
                    Binary::DivideSigned,
                    bytes,
                    IntExpr::constant(*element),
                ))
            }
            NodeKind::And(left, right) => Ok(IntExpr::both(self.truth(left)?, self.truth(right)?)),
            NodeKind::Or(left, right) => Ok(IntExpr::either(self.truth(left)?, self.truth(right)?)),
            NodeKind::Conditional(condition, yes, no) => {
                let condition = self.truth(condition)?;
                let yes = self.canonical(self.value(yes)?, type_id, node)?;
                let no = self.canonical(self.value(no)?, type_id, node)?;
                Ok(IntExpr::choose(condition, yes, no))
            }
            NodeKind::Comma(first, second) => {
                Ok(IntExpr::then(self.value(first)?, self.value(second)?))
            }
            NodeKind::Assign(Some(variable), value) => {
                Ok(IntExpr::set_variable(*variable, self.value(value)?))
            }
            NodeKind::Search(search) => self.search(search, node),
            NodeKind::With(known, first, second) => {
                let first = self.value(first)?;
                let [name, ..] = self.new_names();
                let mut inner = self.clone();
                inner.known.push((*known, name));
                Ok(IntExpr::with(name, first, inner.value(second)?))
            }
            NodeKind::StringEqual {
                pointer,
                length,
                bytes,
            } => {
                let equal = IntExpr::bytes_equal(self.value(pointer)?, bytes.clone());
                let Some(length) = length else {
                    return Ok(equal);
                };
                let wanted = IntExpr::constant(bytes.len() as u64);
                let same = IntExpr::binary(Binary::Equal, self.value(length)?, wanted);
                Ok(IntExpr::both(same, equal))
            }
        }
    }

    fn no_number<T>(&self, node: &Node) -> Result<T> {
        match self.scalar(node.type_id) {
            Scalar::Float { .. } => self.unsupported(
                "Agent expressions have no floating-point arithmetic; a floating-point number can be collected, \
                 and compared with a constant or with one of its own type.",
                node,
            ),
            _ => self.error(
                ExpressionErrorKind::Type("A number is needed here, and this is none.".to_owned()),
                node,
            ),
        }
    }

    pub(crate) fn lost<T>(&self, node: &Node) -> Result<T> {
        let mut inner = node;
        let name = loop {
            match &inner.kind {
                NodeKind::Place(variable) => break variable.name.clone(),
                NodeKind::Field { of, .. } | NodeKind::AddressOf(of) => inner = of,
                _ => {
                    break self
                        .text
                        .get(node.span.start..node.span.end)
                        .unwrap_or("value")
                        .to_owned();
                }
            }
        };
        self.error(ExpressionErrorKind::OptimizedOut(name), node)
    }

    /// The bits of an object of at most 8 bytes, zero-extended.
    pub(crate) fn bits(&self, node: &Node, size: u64) -> Result<IntExpr> {
        let object = self.object(node)?;
        let architecture = self
            .symbols()
            .architecture()
            .unwrap_or(Architecture::X86_64);
        // Of a vector register they read the lowest 64 bits, where a floating-point number is.
        let in_reach = |register, offset: u64| {
            is_low_vector(architecture, register)
                && offset.checked_add(size).is_some_and(|end| end <= 8)
        };
        if let Object::Register(register, offset) = object
            && is_wide(architecture, register)
            && !in_reach(register, offset)
        {
            return self.unsupported(
                "This is in a register of more than 64 bits here, which agent expressions cannot read; it can be \
                 collected.",
                node,
            );
        }
        match object_number(&object, size) {
            Some(number) => self.compilable(number, node),
            None if size > 8 || size == 0 => self.no_number(node),
            None => match object {
                Object::Synthetic(_) => self.unsupported(
                    "This pointer was optimized out; what it points to can be used.",
                    node,
                ),
                _ => self.lost(node),
            },
        }
    }

    /// The number in an object.
    fn load(&self, node: &Node) -> Result<IntExpr> {
        let Some((size, signed)) = self.scalar(node.type_id).as_number() else {
            return self.no_number(node);
        };
        if size > 8 {
            return self.unsupported(
                "Agent expressions have no integers of more than 64 bits.",
                node,
            );
        }
        let NodeKind::Field {
            of,
            offset,
            bits: Some((first, width)),
        } = &node.kind
        else {
            let number = self.bits(node, size)?;
            return self.canonical(number, node.type_id, node);
        };
        // A bit field: the bytes that hold it, shifted down.
        let start = offset.saturating_add(first / 8);
        let holder = offset_by(self.object(of)?, start);
        let bytes = (first % 8).saturating_add(*width).div_ceil(8);
        let (Some(number), Ok(width)) = (object_number(&holder, bytes), u8::try_from(*width))
        else {
            if bytes > 8 {
                return self
                    .unsupported("A bit field in nine bytes cannot be computed with.", node);
            }
            return self.lost(node);
        };
        let number = IntExpr::binary(
            Binary::ShiftRightUnsigned,
            self.compilable(number, node)?,
            IntExpr::constant(first % 8),
        );
        Ok(if signed {
            number.sign_extend(width)
        } else {
            number.zero_extend(width)
        })
    }

    fn convert(&self, from: &Node, node: &Node) -> Result<IntExpr> {
        match (self.scalar(from.type_id), self.scalar(node.type_id)) {
            (Scalar::Float { .. }, Scalar::Void)
            | (_, Scalar::Float { .. })
            | (Scalar::Float { .. }, _) => {
                self.no_number(if matches!(from.kind, NodeKind::Integer(_)) {
                    node
                } else {
                    from
                })
            }
            (_, Scalar::Boolean { .. }) => Ok(self.truth(from)?.into_truth()),
            _ => self.canonical(self.value(from)?, node.type_id, node),
        }
    }

    fn arithmetic(
        &self,
        operator: BinaryOperator,
        left: &Node,
        right: &Node,
        node: &Node,
    ) -> Result<IntExpr> {
        let signed = match self.scalar(node.type_id) {
            Scalar::Float { .. } => return self.no_number(node),
            shape => shape.as_number().is_some_and(|(_, signed)| signed),
        };
        let operator = match (operator, signed) {
            (BinaryOperator::Add, _) => Binary::Add,
            (BinaryOperator::Subtract, _) => Binary::Subtract,
            (BinaryOperator::Multiply, _) => Binary::Multiply,
            (BinaryOperator::Divide, true) => Binary::DivideSigned,
            (BinaryOperator::Divide, false) => Binary::DivideUnsigned,
            (BinaryOperator::Remainder, true) => Binary::RemainderSigned,
            (BinaryOperator::Remainder, false) => Binary::RemainderUnsigned,
            (BinaryOperator::ShiftLeft, _) => Binary::ShiftLeft,
            (BinaryOperator::ShiftRight, true) => Binary::ShiftRightSigned,
            (BinaryOperator::ShiftRight, false) => Binary::ShiftRightUnsigned,
            (BinaryOperator::And, _) => Binary::And,
            (BinaryOperator::Or, _) => Binary::Or,
            (BinaryOperator::ExclusiveOr, _) => Binary::ExclusiveOr,
            (comparison, signed) => {
                return Ok(compare(
                    comparison,
                    self.value(left)?,
                    self.value(right)?,
                    signed,
                ));
            }
        };
        let result = IntExpr::binary(operator, self.value(left)?, self.value(right)?);
        self.canonical(result, node.type_id, node)
    }

    /// A number that is zero where the node is false, and not zero where it is true.
    pub(crate) fn truth(&self, node: &Node) -> Result<IntExpr> {
        match self.scalar(node.type_id) {
            Scalar::Float { .. } => self.float_truth(node),
            _ => self.value(node),
        }
    }
}

/// 1 where the comparison holds, 0 where it does not.
pub(crate) fn compare(
    operator: BinaryOperator,
    left: IntExpr,
    right: IntExpr,
    signed: bool,
) -> IntExpr {
    let less = if signed {
        Binary::LessSigned
    } else {
        Binary::LessUnsigned
    };
    match operator {
        BinaryOperator::Less => IntExpr::binary(less, left, right),
        BinaryOperator::Greater => IntExpr::binary(less, right, left),
        BinaryOperator::LessOrEqual => IntExpr::binary(less, right, left).into_is_zero(),
        BinaryOperator::GreaterOrEqual => IntExpr::binary(less, left, right).into_is_zero(),
        BinaryOperator::NotEqual => IntExpr::binary(Binary::Equal, left, right).into_is_zero(),
        _ => IntExpr::binary(Binary::Equal, left, right),
    }
}
