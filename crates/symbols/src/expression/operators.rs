//! Conversions, arithmetic, comparison, members, indexing: what operators mean for their operands' types.

use super::error::{ExpressionErrorKind, Span};
use super::node::{Node, NodeKind};
use super::resolve::{Resolver, Result};
use super::scalar::{Scalar, promoted, scalar, wrap};
use super::syntax::{BinaryOperator, Expression, ExpressionKind};
use crate::{Language, Member, Type, TypeId, Variable, VariantPart};

/// How deep structures are searched for a member.
const DEEPEST_MEMBER: u32 = 32;
/// The longest string that is compared with, in bytes.
const LONGEST_STRING: usize = 1024;

/// Where a member was found.
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) type_id: TypeId,
    pub(crate) bits: Option<(u64, u64)>,
}

impl Resolver<'_> {
    /// Goes through a reference.
    pub(super) fn coerce(&self, node: Node) -> Node {
        let Scalar::Reference { target, .. } = self.scalar(&node) else {
            return node;
        };
        let span = node.span;
        let pointer_type = self.symbols.pointer_to(target);
        let pointer = Node::new(NodeKind::Convert(node.into()), pointer_type, span);
        Node::new(NodeKind::Dereference(pointer.into()), target, span)
    }

    /// The operand as a value: references gone through, arrays and functions turned into pointers.
    pub(super) fn value(&self, node: Node) -> Node {
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
    pub(super) fn convert(&self, node: Node, to: TypeId) -> Node {
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
            _ => NodeKind::Convert(node.into()),
        };
        Node::new(kind, to, span)
    }

    /// An operand of `&&`, `||`, `!`, `?:`.
    pub(super) fn condition(&self, expression: &Expression) -> Result<Node> {
        let node = self.expression(expression)?;
        self.testable(self.value(node))
    }

    /// Checks that the value is one that can be true or false.
    pub(super) fn testable(&self, node: Node) -> Result<Node> {
        let shape = self.scalar(&node);
        if shape.as_number().is_some() || matches!(shape, Scalar::Float { .. }) {
            return Ok(node);
        }
        self.type_error(
            "Argument to a logical operation is neither a number nor a pointer.",
            node.span,
        )
    }

    pub(super) fn binary(
        &self,
        operator: BinaryOperator,
        left: Node,
        right: Node,
        span: Span,
    ) -> Result<Node> {
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
        let truth = super::scalar::truth(self.symbols, self.language);
        Ok(Node::new(
            NodeKind::Compare(operator, left.into(), right.into()),
            truth,
            span,
        ))
    }

    fn pointer_add(&self, pointer: Node, index: Node, subtract: bool, span: Span) -> Result<Node> {
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

    pub(super) fn index(&self, array: Node, index: Node, span: Span) -> Result<Node> {
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

    pub(super) fn repeat(&self, first: Node, count: Node, span: Span) -> Result<Node> {
        let first = self.coerce(first);
        if !first.is_object() || matches!(first.kind, NodeKind::Bytes(_) | NodeKind::Repeat(..)) {
            return self.type_error(
                "Only values in memory can be extended with '@'.",
                first.span,
            );
        }
        let count = self.value(count);
        if !self.scalar(&count).is_integral() {
            return self.type_error("The count behind '@' is not an integer.", count.span);
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

    /// `of.name`, through pointers and references.
    pub(super) fn member(&self, of: Node, name: &str, name_span: Span, span: Span) -> Result<Node> {
        let mut of = self.coerce(of);
        for _ in 0..8 {
            let Scalar::Pointer { target, .. } = self.scalar(&of) else {
                break;
            };
            let inner = of.span;
            of = self.coerce(Node::new(NodeKind::Dereference(of.into()), target, inner));
        }
        let found = self.stripped(of.type_id);
        let Type::Structure {
            members,
            variants,
            declaration,
            ..
        } = &*found
        else {
            let message = "Attempt to extract a component of a value that is not a structure.";
            return self.type_error(message, span);
        };
        if *declaration {
            let type_name = crate::type_name(self.symbols, of.type_id);
            return self.type_error(
                format!("incomplete type: {type_name} is only declared here."),
                span,
            );
        }
        let rust_name = format!("__{name}");
        let numbered = name.bytes().all(|byte| byte.is_ascii_digit());
        let wanted = if numbered { rust_name.as_str() } else { name };
        let member = self
            .find_member(members, wanted, DEEPEST_MEMBER)
            .or_else(|| self.find_in_variants(variants.as_deref(), wanted));
        if let Some(Found {
            offset,
            type_id,
            bits,
        }) = member
        {
            if offset == u64::MAX {
                let message = format!(
                    "{name} is in a virtual base class, whose place is known at run time only."
                );
                return self.error(ExpressionErrorKind::Unsupported(message), name_span);
            }
            return Ok(Node::new(
                NodeKind::Field {
                    of: of.into(),
                    offset,
                    bits,
                },
                type_id,
                span,
            ));
        }
        if let Some(variable) = self.find_static(&found, name, DEEPEST_MEMBER) {
            return Ok(self.place(variable, span));
        }
        let near = super::items::near(
            name,
            members.iter().filter_map(|member| member.name.as_deref()),
        );
        self.error(
            ExpressionErrorKind::NoMember {
                name: name.to_owned(),
                near,
            },
            name_span,
        )
    }

    /// A member by name, in anonymous members and base classes too. `Base::member` looks in that base.
    fn find_member(&self, members: &[Member], name: &str, depth: u32) -> Option<Found> {
        let depth = depth.checked_sub(1)?;
        let direct = members
            .iter()
            .find(|member| member.name.as_deref() == Some(name) && !member.base_class);
        if let Some(member) = direct {
            return Some(Found {
                offset: member.offset,
                type_id: member.type_id,
                bits: member.bits,
            });
        }
        for member in members
            .iter()
            .filter(|member| member.name.is_none() || member.base_class)
        {
            let found = self.stripped(member.type_id);
            let Type::Structure {
                name: inner_name,
                members: inner,
                ..
            } = &*found
            else {
                continue;
            };
            let in_base = name.split_once("::").filter(|(base, _)| {
                member.base_class
                    && inner_name
                        .as_deref()
                        .is_some_and(|full| full == *base || full.ends_with(&format!("::{base}")))
            });
            let name = in_base.map_or(name, |(_, rest)| rest);
            if let Some(found) = self.find_member(inner, name, depth) {
                let offset = if member.offset == u64::MAX || found.offset == u64::MAX {
                    u64::MAX
                } else {
                    member.offset.saturating_add(found.offset)
                };
                return Some(Found { offset, ..found });
            }
        }
        None
    }

    /// A static member by name, of the class or of a base class.
    fn find_static(&self, class: &Type, name: &str, depth: u32) -> Option<Variable> {
        let depth = depth.checked_sub(1)?;
        let Type::Structure {
            name: class_name,
            members,
            static_members,
            ..
        } = class
        else {
            return None;
        };
        if static_members.iter().any(|member| member.name == name) {
            let full = format!("{}::{name}", class_name.as_deref()?);
            return self.symbols.lookup_variable(Some(self.pc), &full);
        }
        let mut bases = members.iter().filter(|member| member.base_class);
        bases.find_map(|base| self.find_static(&self.stripped(base.type_id), name, depth))
    }

    /// A field of a Rust enum that only one variant has, or all that have it at the same place.
    fn find_in_variants(&self, variants: Option<&VariantPart>, name: &str) -> Option<Found> {
        let mut found: Option<Found> = None;
        for variant in &variants?.variants {
            let inner = self.stripped(variant.member.type_id);
            let Type::Structure { members, .. } = &*inner else {
                continue;
            };
            let Some(field) = self.find_member(members, name, 2) else {
                continue;
            };
            let field = Found {
                offset: field.offset.saturating_add(variant.member.offset),
                ..field
            };
            let same =
                |other: &Found| (other.offset, other.type_id) == (field.offset, field.type_id);
            if found.as_ref().is_some_and(|other| !same(other)) {
                return None;
            }
            found = Some(field);
        }
        found
    }

    pub(super) fn cast(&self, operand: Node, to: TypeId, span: Span) -> Result<Node> {
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

    /// `$_streq (a, "text")`, GDB's function; others cannot be called.
    pub(super) fn call(
        &self,
        function: &Expression,
        arguments: &[Expression],
        span: Span,
    ) -> Result<Node> {
        let streq = matches!(&function.kind, ExpressionKind::Dollar(name) if name == "_streq");
        if !streq {
            let message = "A tracepoint cannot call functions of the program.";
            return self.error(ExpressionErrorKind::Unsupported(message.to_owned()), span);
        }
        let [left, right] = arguments else {
            return self.type_error("$_streq takes two arguments.", span);
        };
        let (pointer, text) = match (&left.kind, &right.kind) {
            (_, ExpressionKind::Text(text)) => (left, text),
            (ExpressionKind::Text(text), _) => (right, text),
            _ => {
                let message = "One of $_streq's arguments must be a string literal.";
                return self.error(ExpressionErrorKind::Unsupported(message.to_owned()), span);
            }
        };
        if text.len() > LONGEST_STRING {
            let message = format!("the string is longer than {LONGEST_STRING} bytes");
            return self.error(ExpressionErrorKind::TooLarge(message), span);
        }
        let operand = self.coerce(self.expression(pointer)?);
        let rust_string = match &*self.stripped(operand.type_id) {
            Type::Structure { members, .. } => members
                .iter()
                .any(|member| member.name.as_deref() == Some("data_ptr")),
            _ => false,
        };
        let truth = super::scalar::truth(self.symbols, self.language);
        let mut bytes = text.clone();
        let (pointer, length) = if rust_string {
            let length = self.member(operand.clone(), "length", span, span)?;
            (
                self.member(operand, "data_ptr", span, span)?,
                Some(Box::new(length)),
            )
        } else {
            bytes.push(0);
            (self.value(operand), None)
        };
        if !matches!(self.scalar(&pointer), Scalar::Pointer { .. }) {
            return self.type_error(
                "$_streq needs a pointer or an array of characters.",
                pointer.span,
            );
        }
        let kind = NodeKind::StringEqual {
            pointer: pointer.into(),
            length,
            bytes: bytes.into(),
        };
        Ok(Node::new(kind, truth, span))
    }
}
