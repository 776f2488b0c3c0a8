//! Conversions, arithmetic, comparison, members, indexing: what operators mean for their operands' types.

use crate::error::Span;
use crate::node::{Node, NodeKind};
use crate::resolve::{Resolver, Result};
use crate::scalar::{Scalar, promoted, scalar, wrap};
use crate::syntax::{BinaryOperator, Expression};
use tracewire_debuginfo::{Language, Type, TypeId};

impl Resolver<'_> {
    /// Goes through a reference.
    pub(crate) fn coerce(&self, node: Node) -> Node {
        let Scalar::Reference { target, .. } = self.scalar(&node) else {
            return node;
        };
        let span = node.span;
        let pointer_type = self.symbols.pointer_to(target);
        let pointer = Node::new(NodeKind::Convert(node.into()), pointer_type, span);
        Node::new(NodeKind::Dereference(pointer.into()), target, span)
    }

    /// The operand as a value: references are followed, arrays and functions become pointers.
    pub(crate) fn value(&self, node: Node) -> Node {
        let node = self.coerce(node);
        let target = match self.scalar(&node) {
            Scalar::Array { element, .. } => element,
            Scalar::Function => node.type_id,
            _ => return node,
        };
        let (span, type_id) = (node.span, self.symbols.pointer_to(target));
        Node::new(NodeKind::AddressOf(node.into()), type_id, span)
    }

    /// Converts a value to a type; constants at once.
    pub(crate) fn convert(&self, node: Node, to: TypeId) -> Node {
        if node.type_id == to {
            return node;
        }
        let span = node.span;
        let kind = match (&node.kind, scalar(self.symbols, to)) {
            (NodeKind::Integer(value), Scalar::Integer { size, signed }) => {
                NodeKind::Integer(wrap(*value, size, signed))
            }
            (NodeKind::Integer(value), Scalar::Float { size: 8 }) => NodeKind::Float(*value as f64),
            (NodeKind::Integer(value), Scalar::Float { size: 4 }) => {
                NodeKind::Float(f64::from(*value as f32))
            }
            (NodeKind::Float(value), Scalar::Float { size: 4 }) => {
                NodeKind::Float(f64::from(*value as f32))
            }
            (NodeKind::Float(value), Scalar::Float { .. }) => NodeKind::Float(*value),
            (NodeKind::Float(value), Scalar::Integer { size, signed }) => {
                NodeKind::Integer(wrap(*value as i128, size, signed))
            }
            _ => NodeKind::Convert(node.into()),
        };
        Node::new(kind, to, span)
    }

    /// An operand of `&&`, `||`, `!`, `?:`.
    pub(crate) fn condition(&self, expression: &Expression) -> Result<Node> {
        let node = self.expression(expression)?;
        self.testable(self.value(node))
    }

    /// Checks that the value is one that can be true or false.
    pub(crate) fn testable(&self, node: Node) -> Result<Node> {
        let shape = self.scalar(&node);
        if shape.as_number().is_some() || matches!(shape, Scalar::Float { .. }) {
            return Ok(node);
        }
        self.type_error(
            "Argument to a logical operation is neither a number nor a pointer.",
            node.span,
        )
    }

    pub(crate) fn binary(
        &self,
        operator: BinaryOperator,
        left: Node,
        right: Node,
        span: Span,
    ) -> Result<Node> {
        if matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual)
            && let Some(comparison) = self.text_comparison(operator, &left, &right, span)
        {
            return comparison;
        }
        let (left, right) = (self.value(left), self.value(right));
        let (left_shape, right_shape) = (self.scalar(&left), self.scalar(&right));
        if operator.is_comparison() {
            return self.compare(operator, left, right, span);
        }
        match (operator, left_shape, right_shape) {
            (BinaryOperator::Add, Scalar::Pointer { .. }, other) if other.is_integral() => {
                return self.pointer_add(left, right, false, span);
            }
            (BinaryOperator::Add, other, Scalar::Pointer { .. }) if other.is_integral() => {
                return self.pointer_add(right, left, false, span);
            }
            (BinaryOperator::Subtract, Scalar::Pointer { .. }, other) if other.is_integral() => {
                return self.pointer_add(left, right, true, span);
            }
            (BinaryOperator::Subtract, Scalar::Pointer { target, .. }, Scalar::Pointer { .. }) => {
                let element = self
                    .symbols
                    .size_of(target)
                    .filter(|size| *size > 0)
                    .unwrap_or(1);
                let kind = NodeKind::PointerDifference(left.into(), right.into(), element);
                return Ok(Node::new(kind, self.builtin("long"), span));
            }
            _ => {}
        }
        let Some(type_id) = promoted(self.symbols, self.language, left_shape, right_shape) else {
            return self.type_error(
                "Argument to arithmetic operation not a number or boolean.",
                span,
            );
        };
        let shift = matches!(
            operator,
            BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight
        );
        let type_id = if shift && self.language == Language::Rust {
            left.type_id
        } else {
            type_id
        };
        let float = matches!(scalar(self.symbols, type_id), Scalar::Float { .. });
        let integers_only = !matches!(
            operator,
            BinaryOperator::Add
                | BinaryOperator::Subtract
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
        );
        if float && integers_only {
            return self.type_error("Integer operation on a floating-point number.", span);
        }
        let (left, right) = (self.convert(left, type_id), self.convert(right, type_id));
        Ok(Node::new(
            NodeKind::Arithmetic(operator, left.into(), right.into()),
            type_id,
            span,
        ))
    }

    fn compare(
        &self,
        operator: BinaryOperator,
        left: Node,
        right: Node,
        span: Span,
    ) -> Result<Node> {
        let (left_shape, right_shape) = (self.scalar(&left), self.scalar(&right));
        let is_pointer = |shape| matches!(shape, Scalar::Pointer { .. });
        let text = |node: &Node| matches!(&node.kind, NodeKind::AddressOf(of) if matches!(of.kind, NodeKind::Bytes(_)));
        if text(&left) || text(&right) {
            let message =
                "A string is compared by $_streq (pointer, \"text\"), not by its address.";
            return self.type_error(message, span);
        }
        let type_id = if is_pointer(left_shape)
            && (is_pointer(right_shape) || right_shape.is_integral())
            || is_pointer(right_shape) && left_shape.is_integral()
        {
            Some(self.builtin("unsigned long"))
        } else {
            promoted(self.symbols, self.language, left_shape, right_shape)
        };
        let Some(type_id) = type_id else {
            return self.type_error("These operands cannot be compared.", span);
        };
        let (left, right) = (self.convert(left, type_id), self.convert(right, type_id));
        let truth = crate::scalar::truth(self.symbols, self.language);
        Ok(Node::new(
            NodeKind::Compare(operator, left.into(), right.into()),
            truth,
            span,
        ))
    }

    pub(crate) fn pointer_add(
        &self,
        pointer: Node,
        index: Node,
        subtract: bool,
        span: Span,
    ) -> Result<Node> {
        let Scalar::Pointer { target, .. } = self.scalar(&pointer) else {
            return self.type_error("not implemented: this is no pointer", span);
        };
        let Some(element) = self.symbols.size_of(target) else {
            return self.type_error("The size of what the pointer points to is not known.", span);
        };
        let (type_id, index) = (pointer.type_id, self.convert(index, self.builtin("long")));
        let kind = NodeKind::PointerAdd {
            pointer: pointer.into(),
            index: index.into(),
            element,
            subtract,
        };
        Ok(Node::new(kind, type_id, span))
    }

    pub(crate) fn index(&self, array: Node, index: Node, span: Span) -> Result<Node> {
        if let Some(element) = self.element(&array, &index, span) {
            return element;
        }
        let array = self.coerce(array);
        let index = self.value(index);
        let integral = self.scalar(&index).is_integral();
        // A Rust slice: its data and its length.
        if self.language == Language::Rust
            && let Type::Structure { members, .. } = &*self.stripped(array.type_id)
            && members
                .iter()
                .any(|member| member.name.as_deref() == Some("data_ptr"))
        {
            let data = self.member(array, "data_ptr", span, span)?;
            return self.index(data, index, span);
        }
        if let (Scalar::Array { element, .. }, NodeKind::Integer(number)) =
            (self.scalar(&array), &index.kind)
            && let (Ok(number), Some(size)) =
                (u64::try_from(*number), self.symbols.size_of(element))
            && let Some(offset) = number.checked_mul(size)
        {
            let kind = NodeKind::Field {
                of: array.into(),
                offset,
                bits: None,
            };
            return Ok(Node::new(kind, element, span));
        }
        let pointer = self.value(array);
        let Scalar::Pointer { target, .. } = self.scalar(&pointer) else {
            let name = crate::type_name(self.symbols, pointer.type_id);
            return self.type_error(format!("cannot subscript something of type `{name}'"), span);
        };
        if !integral {
            return self.type_error("Array subscript is not an integer.", index.span);
        }
        let element = self.pointer_add(pointer, index, false, span)?;
        Ok(Node::new(
            NodeKind::Dereference(element.into()),
            target,
            span,
        ))
    }

    pub(crate) fn repeat(&self, first: Node, count: Node, span: Span) -> Result<Node> {
        let first = self.coerce(first);
        if !first.is_object() || matches!(first.kind, NodeKind::Bytes(_) | NodeKind::Repeat(..)) {
            return self.type_error(
                "Only values in memory can be extended with '@'.",
                first.span,
            );
        }
        let count = self.value(count);
        if !self.scalar(&count).is_integral() {
            return self.type_error("The count after '@' is not an integer.", count.span);
        }
        if let NodeKind::Integer(number) = count.kind {
            let Some(repetitions) = u64::try_from(number).ok().filter(|number| *number > 0) else {
                return self.type_error(
                    format!("Invalid number {number} of repetitions."),
                    count.span,
                );
            };
            let type_id = self.symbols.array_of(first.type_id, repetitions);
            let kind = NodeKind::Field {
                of: first.into(),
                offset: 0,
                bits: None,
            };
            return Ok(Node::new(kind, type_id, span));
        }
        let count = self.convert(count, self.builtin("long"));
        let type_id = self.symbols.make_type(Type::Array {
            element: first.type_id,
            count: None,
            vector: false,
        });
        Ok(Node::new(
            NodeKind::Repeat(first.into(), count.into()),
            type_id,
            span,
        ))
    }

    pub(crate) fn cast(&self, operand: Node, to: TypeId, span: Span) -> Result<Node> {
        let target = scalar(self.symbols, to);
        if let Scalar::Reference { target, .. } = target {
            let operand = self.coerce(operand);
            let kind = NodeKind::Field {
                of: operand.into(),
                offset: 0,
                bits: None,
            };
            return Ok(Node::new(kind, target, span));
        }
        let operand = self.coerce(operand);
        let size = |type_id| self.symbols.size_of(type_id);
        match (target, self.scalar(&operand)) {
            (Scalar::Structure | Scalar::Array { .. }, _)
                if operand.is_object() && size(to) == size(operand.type_id) =>
            {
                let kind = NodeKind::Field {
                    of: operand.into(),
                    offset: 0,
                    bits: None,
                };
                return Ok(Node::new(kind, to, span));
            }
            (Scalar::Void, _) => return Ok(Node::new(NodeKind::Convert(operand.into()), to, span)),
            _ => {}
        }
        let operand = self.value(operand);
        let from = self.scalar(&operand);
        let number =
            |shape: Scalar| shape.as_number().is_some() || matches!(shape, Scalar::Float { .. });
        if !number(target) || !number(from) {
            return self.type_error("Invalid cast.", span);
        }
        let float_pointer = matches!(
            (target, from),
            (Scalar::Pointer { .. }, Scalar::Float { .. })
        );
        if float_pointer {
            return self.type_error("Invalid cast.", span);
        }
        let mut node = self.base_pointer(operand, to);
        node = match node.kind {
            NodeKind::Integer(_) | NodeKind::Float(_) => self.convert(node, to),
            // A cast is no object even where nothing is converted.
            _ => Node::new(NodeKind::Convert(node.into()), to, span),
        };
        node.span = span;
        Ok(node)
    }

    /// A pointer to a class, cast to a pointer to one of its bases, moves to the base.
    fn base_pointer(&self, operand: Node, to: TypeId) -> Node {
        let (Scalar::Pointer { target: from, .. }, Scalar::Pointer { target: base, .. }) =
            (self.scalar(&operand), scalar(self.symbols, to))
        else {
            return operand;
        };
        let (from, base) = (self.stripped(from), self.stripped(base));
        let (
            Type::Structure { members, .. },
            Type::Structure {
                name: Some(base), ..
            },
        ) = (&*from, &*base)
        else {
            return operand;
        };
        let offset = members
            .iter()
            .filter(|member| member.base_class)
            .find_map(|member| {
                let Type::Structure {
                    name: Some(name), ..
                } = &*self.stripped(member.type_id)
                else {
                    return None;
                };
                (name == base && member.offset != u64::MAX).then_some(member.offset)
            });
        match offset {
            None | Some(0) => operand,
            Some(offset) => {
                let (span, type_id) = (operand.span, operand.type_id);
                let index = Node::new(
                    NodeKind::Integer(i128::from(offset)),
                    self.builtin("long"),
                    span,
                );
                let kind = NodeKind::PointerAdd {
                    pointer: operand.into(),
                    index: index.into(),
                    element: 1,
                    subtract: false,
                };
                Node::new(kind, type_id, span)
            }
        }
    }
}
