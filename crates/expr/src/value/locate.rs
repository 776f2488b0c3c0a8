//! Objects worked out at a saved state: where they are in memory, or their bytes.

use std::rc::Rc;

use tracewire_model::{Address, ByteOrder};

use super::contents::{Known, Place, Value, order, pack};
use super::evaluate::{Designated, Evaluator, Result};
use super::source::{NoPlace, StateSource};
use crate::ExpressionErrorKind;
use crate::int_expr::IntExpr;
use crate::lower::Lower;
use crate::node::Node;
use crate::object::{Object, offset_by};
use crate::scalar::Scalar;
use tracewire_debuginfo::{TypeId, VariableLocation};

impl Evaluator<'_> {
    /// Works an object out: where it is in memory, or its bytes.
    pub(super) fn read(&self, object: &Object, node: &Node) -> Result<Designated> {
        let size = self.size(node)?;
        if let Object::Memory(expr) = object {
            return match self.work_out(expr, node)? {
                Ok(address) => Ok(Designated::Memory(address)),
                Err(why) => Ok(Designated::Value(self.unknown(node.type_id, size, why))),
            };
        }
        let mut value = self.bytes(object, size, node)?;
        value.type_id = node.type_id;
        value.redact(self.symbols);
        Ok(Designated::Value(value))
    }

    pub(super) fn unknown(&self, type_id: TypeId, size: usize, why: Known) -> Value {
        Value::unknown(type_id, size, why, self.language)
    }

    /// The number, or why it is not known.
    fn work_out(&self, expr: &IntExpr, node: &Node) -> Result<Result<u64, Known>> {
        match expr.work_out(&StateSource::new(self.symbols, self.state)) {
            Ok(number) => Ok(Ok(number)),
            Err(NoPlace::Unavailable) => Ok(Err(Known::Unavailable)),
            Err(NoPlace::OptimizedOut) => Ok(Err(Known::OptimizedOut)),
            Err(NoPlace::NoMemory(address)) => {
                self.error(ExpressionErrorKind::Memory(Address(address)), node)
            }
            Err(NoPlace::DivisionByZero) => self.error(ExpressionErrorKind::DivisionByZero, node),
        }
    }

    /// A number that a search takes.
    pub(super) fn searched(&self, node: &Node) -> Result<u64> {
        let lower = Lower {
            locator: self.locator,
            text: self.text,
            subjects: None,
            names: Rc::default(),
            known: Vec::new(),
        };
        match self.work_out(&lower.value(node)?, node)? {
            Ok(number) => Ok(number),
            Err(Known::OptimizedOut) => self.error(ExpressionErrorKind::ValueOptimizedOut, node),
            Err(_) => self.error(ExpressionErrorKind::Unavailable, node),
        }
    }

    /// The bytes of an object that is not simply in memory.
    fn bytes(&self, object: &Object, size: usize, node: &Node) -> Result<Value> {
        let type_id = node.type_id;
        Ok(match object {
            Object::Memory(expr) => match self.work_out(expr, node)? {
                Ok(address) => self.fetch(address, type_id, size)?,
                Err(why) => self.unknown(type_id, size, why),
            },
            Object::Register(register, offset) => {
                let mut value = match self.state.register(*register) {
                    None => self.unknown(type_id, size, Known::Unavailable),
                    Some(bytes) => {
                        let bytes = self.make(type_id, bytes);
                        let mut part = bytes.part(type_id, *offset, size as u64);
                        // The rest of a value that is wider than its register is in the next one, which only pieces describe.
                        part.place = Place::Nowhere;
                        part
                    }
                };
                value.place = Place::Register(*register);
                value
            }
            Object::Bytes(bytes) => {
                let mut contents = bytes.to_vec();
                contents.resize(size, 0);
                self.make(type_id, contents)
            }
            Object::Value(expr) => match self.work_out(expr, node)? {
                Ok(number) => {
                    let mut contents = pack(i128::from(number), 8, order(self.symbols));
                    if order(self.symbols) == ByteOrder::Big && size < 8 {
                        contents.drain(..8 - size);
                    }
                    contents.resize(size, 0);
                    self.make(type_id, contents)
                }
                Err(why) => self.unknown(type_id, size, why),
            },
            Object::Pieces(pieces) => {
                let mut whole = self.make(type_id, Vec::new());
                for (piece, piece_size) in pieces {
                    let left = size - whole.contents.len();
                    let take = usize::try_from(*piece_size).unwrap_or(left).min(left);
                    let part = self.bytes(piece, take, node)?;
                    whole.contents.extend(part.contents);
                    whole.known.extend(part.known);
                }
                whole.contents.resize(size, 0);
                whole.known.resize(size, Known::OptimizedOut);
                whole
            }
            Object::Synthetic(target) => {
                let mut value = self.unknown(type_id, size, Known::OptimizedOut);
                value.synthetic = true;
                if let Scalar::Reference {
                    target: type_id, ..
                } = self.scalar(type_id)
                {
                    value.referent = self.referent(target, type_id, node).map(Box::new);
                }
                value
            }
            Object::OptimizedOut => self.unknown(type_id, size, Known::OptimizedOut),
        })
    }

    /// The target of a reference that the compiler removed.
    fn referent(
        &self,
        target: &(TypeId, VariableLocation, i64),
        type_id: TypeId,
        node: &Node,
    ) -> Option<Value> {
        let (_, location, offset) = target;
        let object = offset_by(self.locator.object(location).ok()?, *offset as u64);
        if matches!(object, Object::Synthetic(_)) {
            return None;
        }
        let whole = Node::new(node.kind.clone(), type_id, node.span);
        match self.read(&object, &whole).ok()? {
            Designated::Memory(address) => {
                self.fetch(address, type_id, self.size(&whole).ok()?).ok()
            }
            Designated::Value(value) => Some(value),
        }
    }

    /// The value of the node's type at `offset` bytes from a frame's address.
    pub(super) fn frame_slot(&self, frame: &IntExpr, offset: i64, node: &Node) -> Result<Value> {
        let object = Object::Memory(frame.clone().add(offset as u64));
        match self.read(&object, node)? {
            Designated::Memory(address) => self.fetch(address, node.type_id, self.size(node)?),
            Designated::Value(value) => Ok(value),
        }
    }
}
