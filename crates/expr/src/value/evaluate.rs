//! Evaluation of expressions at a saved state.

use std::rc::Rc;

use tracewire_model::Address;

use super::contents::{Known, Place, Value, order, pack};
use super::float;
use super::prepare::{Objects, PreparedExpression};
use super::state::{State, read_memory};
use crate::location::{Locator, Unlocatable};
use crate::node::{Node, NodeKind, Subject};
use crate::object::{Object, offset_by};
use crate::scalar::{Scalar, builtin, scalar, storage_size, wrap};
use crate::{ExpressionError, ExpressionErrorKind};
use tracewire_debuginfo::{Language, Symbols, Type, TypeId, Variable};

pub(super) type Result<T, E = ExpressionError> = std::result::Result<T, E>;

/// The largest value that is read, GDB's `max-value-size`.
pub(crate) const LARGEST_VALUE: usize = 65_536;

/// Evaluates an expression at a saved state, as GDB's `print` does in the innermost frame.
///
/// A trace state variable that was not saved has the type `void`, as in GDB. A variable or memory that was not
/// saved is a value with unknown bytes; it is an error only to compute with it.
///
/// For many states at the same place, prepare the expression once ([`PreparedExpression`]).
///
/// # Errors
/// When the text is no expression, names something that is not there, or computes with what was not saved.
pub fn evaluate(symbols: &Symbols, state: &dyn State, text: &str) -> Result<Value> {
    PreparedExpression::new(symbols, state.pc(), text)?.evaluate(state)
}

/// Evaluates nodes at one state.
pub(crate) struct Evaluator<'a> {
    pub(super) symbols: &'a Symbols,
    pub(super) state: &'a dyn State,
    pub(super) text: &'a str,
    pub(super) language: Language,
    pub(super) locator: Locator<'a>,
    /// The places of variables that are already computed.
    pub(super) objects: Option<&'a Objects>,
    /// For the expressions of a type rule: what they are about.
    pub(super) subjects: Option<RuleSubjects>,
}

/// The objects of a type rule's expressions.
#[derive(Clone)]
pub(super) struct RuleSubjects {
    pub(super) object: Value,
    pub(super) node: Option<u64>,
    pub(super) index: Option<u64>,
}

impl RuleSubjects {
    pub(super) const fn of(object: Value) -> Self {
        Self {
            object,
            node: None,
            index: None,
        }
    }
}

/// The object that a node designates.
pub(super) enum Designated {
    Memory(u64),
    Value(Value),
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(symbols: &'a Symbols, state: &'a dyn State, text: &'a str) -> Self {
        let pc = state.pc();
        Self {
            symbols,
            state,
            text,
            language: symbols.language_at(Some(pc)),
            locator: Locator {
                symbols,
                pc,
                callers: true,
            },
            objects: None,
            subjects: None,
        }
    }

    pub(super) fn object(&self, variable: &Rc<Variable>) -> Result<Rc<Object>, Unlocatable> {
        let work_out = || self.locator.object(&variable.location);
        match self.objects {
            Some(known) => known.get(variable, work_out),
            None => work_out().map(Rc::new),
        }
    }

    pub(super) fn error<T>(&self, kind: ExpressionErrorKind, node: &Node) -> Result<T> {
        Err(ExpressionError::new(kind, self.text, node.span))
    }

    pub(super) fn scalar(&self, type_id: TypeId) -> Scalar {
        scalar(self.symbols, type_id)
    }

    pub(super) fn make(&self, type_id: TypeId, contents: Vec<u8>) -> Value {
        Value::new(type_id, contents, Place::Nowhere, self.language)
    }

    /// A number as a value of an integer, boolean or pointer type.
    pub(super) fn integer(&self, number: i128, type_id: TypeId) -> Value {
        let (size, signed) = self.scalar(type_id).as_number().unwrap_or((8, true));
        self.make(
            type_id,
            pack(wrap(number, size, signed), size, order(self.symbols)),
        )
    }

    pub(super) fn size(&self, node: &Node) -> Result<usize> {
        let Some(size) = storage_size(self.symbols, node.type_id) else {
            return match self.scalar(node.type_id) {
                Scalar::Array { .. } => Ok(0),
                _ => self.error(
                    ExpressionErrorKind::Type("incomplete type".to_owned()),
                    node,
                ),
            };
        };
        match usize::try_from(size) {
            Ok(size) if size <= LARGEST_VALUE => Ok(size),
            _ => {
                let message =
                    format!("value requires {size} bytes, which is more than max-value-size");
                self.error(ExpressionErrorKind::TooLarge(message), node)
            }
        }
    }

    /// The node's value. The depth of `node` was bounded by the parser.
    pub(crate) fn value(&self, node: &Node) -> Result<Value> {
        match &node.kind {
            NodeKind::Place(_)
            | NodeKind::Register(..)
            | NodeKind::Dereference(_)
            | NodeKind::Function(_)
            | NodeKind::Bytes(_)
            | NodeKind::Subject(_)
            | NodeKind::Field { bits: None, .. } => match self.designated(node)? {
                Designated::Memory(address) => self.fetch(address, node.type_id, self.size(node)?),
                Designated::Value(value) => Ok(value),
            },
            NodeKind::Field {
                of,
                offset,
                bits: Some(bits),
            } => self.bit_field(of, *offset, *bits, node),
            NodeKind::Repeat(first, count) => self.repeat(first, count, node),
            NodeKind::Variable(name, _) => Ok(match self.state.variable(name) {
                Some(number) => self.integer(i128::from(number), node.type_id),
                None => self.make(builtin(self.symbols, "void"), Vec::new()),
            }),
            NodeKind::Comma(first, second) => {
                self.value(first)?;
                self.value(second)
            }
            NodeKind::Conditional(condition, yes, no) => {
                let chosen = if self.truth(condition)? { yes } else { no };
                self.value(chosen)
            }
            NodeKind::Assign(..) => {
                let message = "A saved trace is not changed by looking at it.".to_owned();
                self.error(ExpressionErrorKind::Unsupported(message), node)
            }
            NodeKind::Convert(from) if self.scalar(node.type_id) == Scalar::Void => {
                self.value(from)?;
                Ok(self.make(node.type_id, Vec::new()))
            }
            NodeKind::Convert(from) if self.is_whole_pointer(from, node) => {
                let mut value = self.value(from)?;
                value.type_id = node.type_id;
                Ok(value)
            }
            _ => self.computed(node),
        }
    }

    /// Whether a conversion keeps the bytes unchanged, so that unknown ones may stay unknown.
    fn is_whole_pointer(&self, from: &Node, node: &Node) -> bool {
        let pointer = |shape| match shape {
            Scalar::Pointer { size, .. } | Scalar::Reference { size, .. } => Some(size),
            _ => None,
        };
        let (from, to) = (
            pointer(self.scalar(from.type_id)),
            pointer(self.scalar(node.type_id)),
        );
        from.is_some() && from == to
    }

    fn computed(&self, node: &Node) -> Result<Value> {
        if let Scalar::Float { size } = self.scalar(node.type_id) {
            let number = self.float(node)?;
            return Ok(self.make(node.type_id, float::to_bytes(self.symbols, number, size)));
        }
        let number = self.number(node)?;
        Ok(self.integer(number, node.type_id))
    }

    /// Reads a value from memory.
    pub(crate) fn fetch(&self, address: u64, type_id: TypeId, size: usize) -> Result<Value> {
        let (contents, known) = read_memory(self.symbols, self.state, address, size);
        let why = if self.state.unknown_memory_is_an_error() {
            Known::Missing
        } else {
            Known::Unavailable
        };
        let mut value = Value::new(
            type_id,
            contents,
            Place::Memory(Address(address)),
            self.language,
        );
        for (state, known) in value.known.iter_mut().zip(known) {
            if !known {
                *state = why;
            }
        }
        value.redact(self.symbols);
        if why == Known::Missing
            && let Some(first) = value
                .known
                .iter()
                .position(|known| *known == Known::Missing)
        {
            let missing = Address(address.wrapping_add(first as u64));
            let span = crate::Span {
                start: 0,
                end: self.text.len(),
            };
            return Err(ExpressionError::new(
                ExpressionErrorKind::Memory(missing),
                self.text,
                span,
            ));
        }
        Ok(value)
    }

    pub(super) fn designated(&self, node: &Node) -> Result<Designated> {
        match &node.kind {
            NodeKind::Place(variable) => {
                let object = match self.object(variable) {
                    Ok(object) => object,
                    Err(reason) => {
                        let name = variable.name.clone();
                        return self.error(ExpressionErrorKind::NoLocation { name, reason }, node);
                    }
                };
                self.read(&object, node)
            }
            NodeKind::Register(register, offset) => {
                self.read(&Object::Register(*register, *offset), node)
            }
            NodeKind::Function(entry) => Ok(Designated::Memory(*entry)),
            NodeKind::Subject(subject) => self.subject(*subject, node),
            NodeKind::Bytes(bytes) => {
                Ok(Designated::Value(self.make(node.type_id, bytes.to_vec())))
            }
            NodeKind::Field {
                of,
                offset,
                bits: None,
            } => match self.designated(of)? {
                Designated::Memory(address) => {
                    Ok(Designated::Memory(address.wrapping_add(*offset)))
                }
                Designated::Value(whole) => {
                    let size = self.size(node)?;
                    Ok(Designated::Value(whole.part(
                        node.type_id,
                        *offset,
                        size as u64,
                    )))
                }
            },
            NodeKind::Dereference(pointer) => self.pointee(pointer, node),
            NodeKind::Repeat(first, _) => self.designated(first),
            NodeKind::Conditional(condition, yes, no) => {
                let chosen = if self.truth(condition)? { yes } else { no };
                self.designated(chosen)
            }
            _ => Ok(Designated::Value(self.value(node)?)),
        }
    }

    /// An object of a type rule's expression.
    fn subject(&self, subject: Subject, node: &Node) -> Result<Designated> {
        let Some(subjects) = &self.subjects else {
            return self.error(ExpressionErrorKind::Unavailable, node);
        };
        let number = match subject {
            Subject::Object => {
                return Ok(match subjects.object.place {
                    Place::Memory(address) => Designated::Memory(address.0),
                    _ => Designated::Value(subjects.object.clone()),
                });
            }
            Subject::Node => subjects.node,
            Subject::Index => subjects.index,
            Subject::Known(_) => None,
        };
        match number {
            Some(number) => {
                let value = self.integer(i128::from(number), node.type_id);
                Ok(Designated::Value(value))
            }
            None => self.error(ExpressionErrorKind::Unavailable, node),
        }
    }

    fn pointee(&self, pointer: &Node, node: &Node) -> Result<Designated> {
        let mut inner = pointer;
        while let NodeKind::Convert(below) = &inner.kind {
            inner = below;
        }
        if let NodeKind::Place(variable) = &inner.kind
            && let Ok(object) = self.object(variable)
            && let Object::Synthetic(target) = &*object
        {
            let (_, location, offset) = &**target;
            return match self.locator.object(location) {
                Ok(object) => self.read(&offset_by(object, *offset as u64), node),
                Err(_) => self.error(ExpressionErrorKind::ValueOptimizedOut, node),
            };
        }
        Ok(Designated::Memory(self.number(pointer)? as u64))
    }

    fn bit_field(&self, of: &Node, offset: u64, bits: (u64, u64), node: &Node) -> Result<Value> {
        let Some((size, signed)) = self.scalar(node.type_id).as_number() else {
            return self.error(
                ExpressionErrorKind::Type("not implemented: this bit field's type".into()),
                node,
            );
        };
        let start = offset.saturating_add(bits.0 / 8);
        let length = (bits.0 % 8).saturating_add(bits.1).div_ceil(8);
        let holder = match self.designated(of)? {
            Designated::Memory(address) => {
                let length = usize::try_from(length).unwrap_or(0).min(16);
                self.fetch(address.wrapping_add(start), node.type_id, length)?
            }
            Designated::Value(value) => value.part(node.type_id, start, length),
        };
        Ok(holder.bit_field(
            self.symbols,
            node.type_id,
            0,
            (bits.0 % 8, bits.1),
            size,
            signed,
        ))
    }

    fn repeat(&self, first: &Node, count: &Node, node: &Node) -> Result<Value> {
        let count = self.number(count)?;
        let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
            return self.error(
                ExpressionErrorKind::Type(format!("Invalid number {count} of repetitions.")),
                node,
            );
        };
        let type_id = self.symbols.array_of(first.type_id, count);
        let whole = Node::new(node.kind.clone(), type_id, node.span);
        match self.designated(first)? {
            Designated::Memory(address) => self.fetch(address, type_id, self.size(&whole)?),
            Designated::Value(value) => Ok(value.part(type_id, 0, self.size(&whole)? as u64)),
        }
    }

    /// The address of an object in memory.
    pub(super) fn address(&self, of: &Node, node: &Node) -> Result<u64> {
        match self.designated(of)? {
            Designated::Memory(address) => Ok(address),
            Designated::Value(value) if value.missing() == Some(Known::OptimizedOut) => {
                let NodeKind::Place(variable) = &of.kind else {
                    return self.error(ExpressionErrorKind::ValueOptimizedOut, node);
                };
                let name = &variable.name;
                let message = format!("Can't take address of \"{name}\" which isn't an lvalue.");
                self.error(ExpressionErrorKind::Type(message), node)
            }
            Designated::Value(value)
                if value.missing() == Some(Known::Unavailable) && value.place == Place::Nowhere =>
            {
                self.error(ExpressionErrorKind::Unavailable, node)
            }
            Designated::Value(_) => {
                let message = "Attempt to take address of value not located in memory.".to_owned();
                self.error(ExpressionErrorKind::Type(message), node)
            }
        }
    }

    /// Fails if some of the value is not known.
    pub(super) fn complete(&self, value: Value, node: &Node) -> Result<Value> {
        match value.missing() {
            None => Ok(value),
            Some(Known::OptimizedOut) => self.error(ExpressionErrorKind::ValueOptimizedOut, node),
            Some(Known::Redacted) => self.error(ExpressionErrorKind::Redacted, node),
            Some(_) => self.error(ExpressionErrorKind::Unavailable, node),
        }
    }

    /// Whether the type is the flags of a register.
    pub(super) fn is_void(&self, value: &Value) -> bool {
        matches!(*self.symbols.type_of(value.type_id), Type::Void)
    }
}
