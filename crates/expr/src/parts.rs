//! Parts of values whose types have a rule: `v[0]`, `m["key"]`, `s.size()`, `s == "text"`, `*p`, `o.value`.
//!
//! They are reduced to the expressions of the rule, so that they work in conditions and on saved states.

use std::rc::Rc;

use crate::error::{ExpressionErrorKind, Span};
use crate::node::{Known, Node, NodeKind, Subject};
use crate::resolve::{Resolver, Result};
use crate::scalar::Scalar;
use crate::syntax::{BinaryOperator, Expression, ExpressionKind};
use crate::token::Literal;
use crate::walk::{Extent, TypeWalks, Walk};
use tracewire_debuginfo::{Language, Type};

/// How many wrappers a value is in at most.
const DEEPEST_WRAPPER: u32 = 8;
/// The longest text that is compared with, in bytes.
const LONGEST_TEXT: usize = 1024;

/// A value and the rule for it.
struct Ruled {
    object: Node,
    walk: Rc<Walk>,
}

impl Ruled {
    /// One of the rule's expressions, about this value.
    fn part(&self, expression: &Node) -> Node {
        expression.about(&self.object)
    }
}

impl Resolver<'_> {
    /// The rule for a value, without the wrappers around it.
    fn ruled(&self, node: &Node) -> Option<Ruled> {
        // The expressions of rules use only members.
        if self.rule.is_some() {
            return None;
        }
        let walks = TypeWalks::new(self.symbols);
        let mut object = self.coerce(node.clone());
        for _ in 0..DEEPEST_WRAPPER {
            if let Scalar::Pointer { target, .. } = self.scalar(&object) {
                // Go's maps are pointers.
                let walk = (walks.walk(object.type_id)).filter(|_| self.language == Language::Go);
                if let Some(walk) = walk.filter(|walk| matches!(**walk, Walk::Buckets(_))) {
                    self.has_parts.set(true);
                    return Some(Ruled { object, walk });
                }
                // Rust's methods and indices go through references.
                if !matches!(self.language, Language::Rust | Language::Go) {
                    return None;
                }
                let span = object.span;
                object = Node::new(NodeKind::Dereference(object.into()), target, span);
                continue;
            }
            let walk = walks.walk(object.type_id)?;
            match &*walk {
                Walk::Newtype(value) => object = self.coerce(value.about(&object)),
                _ => {
                    self.has_parts.set(true);
                    return Some(Ruled { object, walk });
                }
            }
        }
        None
    }

    fn unsigned(&self, node: Node) -> Node {
        let to = self.builtin("unsigned long");
        self.convert(self.value(node), to)
    }

    /// How many elements a container has.
    fn length(&self, ruled: &Ruled) -> Option<Node> {
        let extent = match &*ruled.walk {
            Walk::String {
                data,
                extent,
                width,
            } => Some((data, extent, *width)),
            Walk::Sequence {
                first,
                extent,
                size,
                ..
            } => Some((first, extent, *size)),
            _ => None,
        };
        let length = match (extent, &*ruled.walk) {
            (Some((_, Extent::Length(length), _)), _) => ruled.part(length),
            (Some((first, Extent::End(end), size)), _) => {
                let (first, end) = (ruled.part(first), ruled.part(end));
                let span = first.span;
                let kind = NodeKind::PointerDifference(end.into(), first.into(), size.max(1));
                Node::new(kind, self.builtin("long"), span)
            }
            (
                None,
                Walk::Ring { length, .. }
                | Walk::Bits { length, .. }
                | Walk::Blocks { length, .. }
                | Walk::Table { length, .. }
                | Walk::List {
                    length: Some(length),
                    ..
                },
            ) => ruled.part(length),
            (None, Walk::Tree(tree)) => ruled.part(&tree.length),
            (None, Walk::BTree(tree)) => ruled.part(&tree.length),
            (None, Walk::Buckets(table)) => ruled.part(&table.length),
            _ => return None,
        };
        Some(self.unsigned(length))
    }

    /// `v[index]`, or `m["key"]`. An index beyond the end, or a missing key, leads to no memory.
    pub(crate) fn element(&self, array: &Node, index: &Node, span: Span) -> Option<Result<Node>> {
        let ruled = self.ruled(array)?;
        if let Some(search) = self.search(&ruled.object, &ruled.walk, index, span) {
            return Some(search.map(|pointer| {
                let target = match self.scalar(&pointer) {
                    Scalar::Pointer { target, .. } => target,
                    _ => pointer.type_id,
                };
                Node::new(NodeKind::Dereference(pointer.into()), target, span)
            }));
        }
        let long = self.builtin("unsigned long");
        let node = |kind, type_id| Node::new(kind, type_id, span);
        let index = self.unsigned(index.clone());
        let length = self.length(&ruled)?;
        let is_there = NodeKind::Compare(BinaryOperator::Less, index.clone().into(), length.into());
        let is_there = node(is_there, self.truth_type());
        let computed = |operator, left: Node, right: Node| {
            node(
                NodeKind::Arithmetic(operator, left.into(), right.into()),
                long,
            )
        };
        let at = |pointer: Node, index: Node, size: u64, type_id| {
            let kind = NodeKind::PointerAdd {
                pointer: pointer.into(),
                index: index.into(),
                element: size,
                subtract: false,
            };
            node(kind, self.symbols.pointer_to(type_id))
        };
        let number = |part: &Node| self.unsigned(ruled.part(part));
        let (pointer, element) = match &*ruled.walk {
            Walk::Sequence {
                first,
                element,
                size,
                ..
            } => (at(ruled.part(first), index, *size, *element), *element),
            Walk::String { data, width, .. } => {
                let Scalar::Pointer { target, .. } = self.scalar(data) else {
                    return None;
                };
                (at(ruled.part(data), index, *width, target), target)
            }
            Walk::Ring {
                first,
                capacity,
                start,
                element,
                size,
                ..
            } => {
                let capacity = number(capacity);
                let index = computed(BinaryOperator::Add, number(start), index);
                let is_within = NodeKind::Compare(
                    BinaryOperator::Less,
                    index.clone().into(),
                    capacity.clone().into(),
                );
                let is_within = node(is_within, self.truth_type());
                let wrapped = computed(BinaryOperator::Subtract, index.clone(), capacity);
                let index = NodeKind::Conditional(is_within.into(), index.into(), wrapped.into());
                let index = node(index, long);
                (at(ruled.part(first), index, *size, *element), *element)
            }
            Walk::Blocks {
                blocks,
                block_length,
                start,
                element,
                size,
                ..
            } => {
                let block_length = number(block_length);
                let index = computed(BinaryOperator::Add, number(start), index);
                let block = computed(BinaryOperator::Divide, index.clone(), block_length.clone());
                let inside = computed(BinaryOperator::Remainder, index, block_length);
                let block_type = self.symbols.pointer_to(*element);
                let word = self.symbols.size_of(block_type)?;
                let place = at(ruled.part(blocks), block, word, block_type);
                let block = node(NodeKind::Dereference(place.into()), block_type);
                (at(block, inside, *size, *element), *element)
            }
            Walk::Bits { first, start, .. } => {
                let byte_type = self.builtin("unsigned char");
                let index = computed(BinaryOperator::Add, number(start), index);
                let eight = || node(NodeKind::Integer(8), long);
                let byte = computed(BinaryOperator::Divide, index.clone(), eight());
                let bit = computed(BinaryOperator::Remainder, index, eight());
                let place = at(ruled.part(first), byte, 1, byte_type);
                let place = self.nowhere_unless(is_there, place, span);
                let byte = node(NodeKind::Dereference(place.into()), byte_type);
                let shifted = computed(BinaryOperator::ShiftRight, self.convert(byte, long), bit);
                let one = node(NodeKind::Integer(1), long);
                let bit = computed(BinaryOperator::And, shifted, one);
                return Some(Ok(self.convert(bit, self.builtin("bool"))));
            }
            _ => return None,
        };
        let pointer = self.nowhere_unless(is_there, pointer, span);
        Some(Ok(node(NodeKind::Dereference(pointer.into()), element)))
    }

    /// A pointer, or null if the condition does not hold.
    fn nowhere_unless(&self, condition: Node, pointer: Node, span: Span) -> Node {
        let type_id = pointer.type_id;
        let nowhere = Node::new(NodeKind::Integer(0), type_id, span);
        let kind = NodeKind::Conditional(condition.into(), pointer.into(), nowhere.into());
        Node::new(kind, type_id, span)
    }

    /// Where the characters of a text are, and how many; none where it is no text of bytes.
    pub(crate) fn text_parts(&self, text: &Node) -> Option<(Node, Node)> {
        let ruled = self.ruled(text)?;
        let Walk::String { data, width: 1, .. } = &*ruled.walk else {
            return None;
        };
        Some((ruled.part(data), self.length(&ruled)?))
    }

    /// The target of an owning pointer, or the content of an optional value.
    pub(crate) fn owned(&self, pointer: &Node, span: Span) -> Option<Node> {
        if matches!(self.scalar(pointer), Scalar::Pointer { .. }) {
            return None;
        }
        let ruled = self.ruled(pointer)?;
        match &*ruled.walk {
            Walk::Pointer { pointer, target } => {
                let kind = NodeKind::Dereference(ruled.part(pointer).into());
                Some(Node::new(kind, *target, span))
            }
            Walk::Optional { value, .. } => Some(ruled.part(value)),
            _ => None,
        }
    }

    /// `o.value`.
    pub(crate) fn part(&self, of: &Node, name: &str) -> Option<Node> {
        let ruled = self.ruled(of)?;
        match (&*ruled.walk, name) {
            (Walk::Optional { value, .. }, "value") => Some(ruled.part(value)),
            (Walk::Optional { present, .. }, "has_value") => Some(ruled.part(present)),
            (Walk::Structure(parts, _), name) => {
                let found = parts.iter().find(|(known, _)| known == name);
                found.map(|(_, part)| ruled.part(part))
            }
            _ => None,
        }
    }

    /// `text == "literal"`: none where neither side is such a text.
    pub(crate) fn text_comparison(
        &self,
        operator: BinaryOperator,
        left: &Node,
        right: &Node,
        span: Span,
    ) -> Option<Result<Node>> {
        let (text, bytes) = match (&left.kind, &right.kind) {
            (_, NodeKind::Bytes(bytes)) => (left, bytes),
            (NodeKind::Bytes(bytes), _) => (right, bytes),
            _ => return None,
        };
        // Without the NUL of the literal.
        let bytes = bytes.get(..bytes.len().saturating_sub(1))?;
        let equal = match self.begins_with(text, bytes, true, span)? {
            Ok(equal) => equal,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(match operator {
            BinaryOperator::NotEqual => {
                Node::new(NodeKind::LogicalNot(equal.into()), self.truth_type(), span)
            }
            _ => equal,
        }))
    }

    /// The characters of a text that carries its length: a pointer to the first, and how many.
    pub(crate) fn characters(&self, text: &Node) -> Option<(Node, Node)> {
        let ruled = self.ruled(text)?;
        let Walk::String { data, width: 1, .. } = &*ruled.walk else {
            return None;
        };
        Some((ruled.part(data), self.length(&ruled)?))
    }

    /// Whether a text begins with these bytes, and has no more if `whole`.
    pub(crate) fn begins_with(
        &self,
        text: &Node,
        bytes: &[u8],
        whole: bool,
        span: Span,
    ) -> Option<Result<Node>> {
        let NodeKind::Dereference(pointer) = &text.kind else {
            return self.text_begins_with(text, bytes, whole, span);
        };
        if !matches!(pointer.kind, NodeKind::Search(_)) {
            return self.text_begins_with(text, bytes, whole, span);
        }
        // The text is looked at several times, and searched for once.
        let found = NodeKind::Subject(Subject::Known(Known::Found));
        let found = Node::new(found, pointer.type_id, span);
        let found = Node::new(NodeKind::Dereference(found.into()), text.type_id, span);
        let truth = self.text_begins_with(&found, bytes, whole, span)?;
        Some(truth.map(|truth| {
            let type_id = truth.type_id;
            let kind = NodeKind::With(Known::Found, pointer.clone(), truth.into());
            Node::new(kind, type_id, span)
        }))
    }

    fn text_begins_with(
        &self,
        text: &Node,
        bytes: &[u8],
        whole: bool,
        span: Span,
    ) -> Option<Result<Node>> {
        let (data, length) = self.text_parts(text)?;
        if bytes.len() > LONGEST_TEXT {
            let message = format!("the text is longer than {LONGEST_TEXT} bytes");
            return Some(self.error(ExpressionErrorKind::TooLarge(message), span));
        }
        let truth = self.truth_type();
        let equal = NodeKind::StringEqual {
            pointer: data.into(),
            length: whole.then(|| length.clone().into()),
            bytes: bytes.into(),
        };
        let equal = Node::new(equal, truth, span);
        if whole {
            return Some(Ok(equal));
        }
        let wanted = Node::new(NodeKind::Integer(bytes.len() as i128), length.type_id, span);
        let is_long =
            NodeKind::Compare(BinaryOperator::GreaterOrEqual, length.into(), wanted.into());
        let is_long = Node::new(is_long, truth, span);
        Some(Ok(Node::new(
            NodeKind::And(is_long.into(), equal.into()),
            truth,
            span,
        )))
    }

    /// `of.name(arguments)`, of what can be had without running the program.
    pub(crate) fn method(
        &self,
        of: &Expression,
        name: &str,
        arguments: &[Expression],
        span: Span,
    ) -> Result<Option<Node>> {
        let of = self.expression(of)?;
        // A pointer to a container will do.
        let of = match self.scalar(&self.coerce(of.clone())) {
            Scalar::Pointer { target, .. } if self.ruled(&of).is_none() => {
                let pointer = self.value(of);
                Node::new(NodeKind::Dereference(pointer.into()), target, span)
            }
            _ => of,
        };
        if let ([], Some(found)) = (arguments, self.option_state(&of, name, span)) {
            return Ok(Some(found));
        }
        let Some(ruled) = self.ruled(&of) else {
            return Ok(None);
        };
        let zero = || Node::new(NodeKind::Integer(0), self.builtin("unsigned long"), span);
        let compared = |operator, left: Node, right: Node| {
            let kind = NodeKind::Compare(operator, left.into(), right.into());
            Node::new(kind, self.truth_type(), span)
        };
        Ok(match (name, arguments) {
            ("size" | "length" | "len", []) => self.length(&ruled),
            ("empty" | "is_empty", []) => self
                .length(&ruled)
                .map(|length| compared(BinaryOperator::Equal, length, zero())),
            ("c_str" | "data" | "as_ptr" | "get", []) => match &*ruled.walk {
                Walk::String { data, .. } => Some(ruled.part(data)),
                Walk::Sequence { first, .. } => Some(ruled.part(first)),
                Walk::Pointer { pointer, .. } => Some(ruled.part(pointer)),
                _ => None,
            },
            ("front" | "first", []) => self.element(&of, &zero(), span).transpose()?,
            ("at" | "get", [index]) => {
                let index = self.expression(index)?;
                self.element(&of, &index, span).transpose()?
            }
            ("contains" | "count" | "contains_key", [key]) => {
                let key = self.expression(key)?;
                let found = self
                    .search(&ruled.object, &ruled.walk, &key, span)
                    .transpose()?;
                found.map(|found| {
                    let kind = NodeKind::LogicalNot(found.into());
                    let absent = Node::new(kind, self.truth_type(), span);
                    Node::new(NodeKind::LogicalNot(absent.into()), self.truth_type(), span)
                })
            }
            ("has_value", []) => self.part(&of, "has_value"),
            ("value", []) => self.part(&of, "value"),
            ("starts_with", [text]) => {
                let ExpressionKind::Literal(Literal::Text(bytes)) = &text.kind else {
                    return self.type_error("starts_with takes a string literal.", text.span);
                };
                self.begins_with(&of, bytes, false, span).transpose()?
            }
            _ => None,
        })
    }

    /// Whether a Rust enum holds a variant: `is_some()`, `is_none()`, `is_ok()`, `is_err()`.
    fn option_state(&self, of: &Node, name: &str, span: Span) -> Option<Node> {
        let wanted = name.strip_prefix("is_")?;
        let of = self.coerce(of.clone());
        let stripped = self.stripped(of.type_id);
        let Type::Structure {
            variants: Some(part),
            ..
        } = &*stripped
        else {
            return None;
        };
        let is_wanted = |variant: &&tracewire_debuginfo::Variant| {
            let name = variant.member.name.as_deref().unwrap_or("");
            name.eq_ignore_ascii_case(wanted)
        };
        let variant = part.variants.iter().find(is_wanted)?;
        let tag = part.discriminant.as_ref()?;
        let size = self
            .symbols
            .size_of(tag.type_id)
            .filter(|size| *size <= 8)?;
        self.has_parts.set(true);
        let field = NodeKind::Field {
            of: of.into(),
            offset: tag.offset,
            bits: None,
        };
        let field = Node::new(field, tag.type_id, span);
        let equals = |value: i128, operator| {
            let (_, signed) = self.scalar(&field).as_number()?;
            let value = crate::scalar::wrap(value, size, signed);
            let value = Node::new(NodeKind::Integer(value), tag.type_id, span);
            let kind = NodeKind::Compare(operator, field.clone().into(), value.into());
            Some(Node::new(kind, self.truth_type(), span))
        };
        match variant.value {
            Some(value) => equals(value, BinaryOperator::Equal),
            // The one for all other values, of two variants.
            None => {
                let [other] = &part
                    .variants
                    .iter()
                    .filter_map(|variant| variant.value)
                    .collect::<Vec<_>>()[..]
                else {
                    return None;
                };
                equals(*other, BinaryOperator::NotEqual)
            }
        }
    }
}

impl Node {
    /// A rule's expression, about a value.
    pub(crate) fn about(&self, object: &Self) -> Self {
        if let NodeKind::Subject(Subject::Object) = self.kind {
            return object.clone();
        }
        let mut node = self.clone();
        node.span = object.span;
        for operand in node.operands_mut() {
            *operand = operand.about(object);
        }
        node
    }
}
