//! Elements of containers that are found by a key, or by their number in a list: `m["key"]`, `l[2]`.
//!
//! A search is a loop over two numbers: the current place, and a count or another number. The rule for the container's type gives
//! the steps. Each search ends: the depth of trees is bounded, and so is the number of places for the others.

use std::rc::Rc;

use tracewire_agent_expr::Opcode;

use crate::emit::Emitter;
use crate::error::{ExpressionErrorKind, Span};
use crate::int_expr::{Binary, IntExpr, Source};
use crate::lower::{Lower, Subjects};
use crate::node::{Known, Node, NodeKind, Subject};
use crate::object::Object;
use crate::resolve::{Resolver, Result};
use crate::scalar::Scalar;
use crate::syntax::BinaryOperator;
use crate::walk::{Items, Walk};
use tracewire_debuginfo::Type;

/// How many places are looked at.
const MOST_PLACES: u64 = 1000;
/// The longest way from the root of a tree to a leaf.
const DEEPEST_TREE: u64 = 128;
/// The highest B-tree.
const HIGHEST_TREE: u64 = 31;
/// The longest text that is searched for in a tree, whose order must be known.
const LONGEST_ORDERED: usize = 40;

/// A search, as a part of a typed tree.
#[derive(Clone, Debug)]
pub(crate) struct SearchNode {
    /// The container.
    pub(crate) object: Box<Node>,
    pub(crate) walk: Rc<Walk>,
    /// Whether the item that the search has come to is the one, and whether its key is less than the one that is searched for;
    /// about the rule's subjects. Without, the item's number is known.
    pub(crate) key: Option<(Box<Node>, Box<Node>)>,
    pub(crate) number: Option<Box<Node>>,
    /// The found object.
    pub(crate) found: Box<Node>,
}

/// A search, as a computation: the address of the found object, or 0.
#[derive(Debug)]
pub(crate) struct Search {
    /// The numbers that the computations of the loop refer to: [`IntExpr::bound`].
    object: u32,
    place: u32,
    count: u32,
    /// Where the container is.
    address: IntExpr,
    start: (IntExpr, IntExpr),
    /// Whether there are no more places.
    is_end: IntExpr,
    /// Whether this is one place too many: the object may exist or not.
    is_enough: IntExpr,
    /// Whether the object is at this place.
    is_found: IntExpr,
    next: (IntExpr, IntExpr),
    found: IntExpr,
}

impl Search {
    /// All computations.
    pub(crate) fn parts(&self) -> [&IntExpr; 9] {
        [
            &self.address,
            &self.start.0,
            &self.start.1,
            &self.is_end,
            &self.is_enough,
            &self.is_found,
            &self.next.0,
            &self.next.1,
            &self.found,
        ]
    }

    /// The search in a saved state.
    pub(crate) fn work_out<S: Source>(&self, source: &S) -> Result<u64, S::Error> {
        source.bind(self.object, self.address.work_out(source)?);
        let mut place = self.start.0.work_out(source)?;
        let mut count = self.start.1.work_out(source)?;
        loop {
            source.bind(self.place, place);
            source.bind(self.count, count);
            if self.is_end.work_out(source)? != 0 {
                return Ok(0);
            }
            if self.is_enough.work_out(source)? != 0 {
                return source.load(0, 1);
            }
            if self.is_found.work_out(source)? != 0 {
                return self.found.work_out(source);
            }
            let next = self.next.0.work_out(source)?;
            count = self.next.1.work_out(source)?;
            place = next;
        }
    }
}

impl Emitter<'_> {
    /// Emits a search, which leaves one number on the stack.
    pub(crate) fn search(&mut self, search: &Search) {
        let base = self.depth;
        let bind = |this: &mut Self, name: u32, expr: &IntExpr| {
            let cell = this.depth;
            this.expr(expr);
            this.bound.insert(name, cell);
        };
        bind(self, search.object, &search.address);
        bind(self, search.place, &search.start.0);
        bind(self, search.count, &search.start.1);
        let (again, absent, enough, found, done) = (
            self.builder.label(),
            self.builder.label(),
            self.builder.label(),
            self.builder.label(),
            self.builder.label(),
        );
        let inside = self.depth;
        let go_if = |this: &mut Self, expr: &IntExpr, label| {
            this.expr(expr);
            this.builder.if_goto(label);
            this.depth = inside;
        };
        self.builder.place(again);
        go_if(self, &search.is_end, absent);
        go_if(self, &search.is_enough, enough);
        go_if(self, &search.is_found, found);
        self.expr(&search.next.0);
        self.expr(&search.next.1);
        // place count next next → next next
        for _ in 0..2 {
            self.builder
                .op(Opcode::Rot)
                .op(Opcode::Swap)
                .op(Opcode::Pop);
        }
        self.depth = inside;
        self.builder.goto(again);
        // Neither found nor absent: as memory that cannot be read.
        self.builder.place(enough);
        self.builder.constant(0).load(1).goto(done);
        self.builder.place(absent);
        self.builder.constant(0).goto(done);
        self.builder.place(found);
        self.expr(&search.found);
        self.builder.place(done);
        for _ in 0..3 {
            self.builder.op(Opcode::Swap).op(Opcode::Pop);
        }
        for name in [search.object, search.place, search.count] {
            self.bound.remove(&name);
        }
        self.depth = base + 1;
    }
}

impl Lower<'_> {
    /// The address that a search finds.
    pub(crate) fn search(&self, search: &SearchNode, node: &Node) -> Result<IntExpr> {
        let object = self.object(&search.object)?;
        let names = self.new_names();
        let [object_name, place_name, count_name] = names;
        let (address, object) = match object {
            Object::Memory(address) => (address, Object::Memory(IntExpr::bound(object_name))),
            // A register, or a value computed from registers.
            other => (IntExpr::constant(0), other),
        };
        let (place, count) = (IntExpr::bound(place_name), IntExpr::bound(count_name));
        let mut inner = self.clone();
        let at = |node: IntExpr, index: IntExpr| Subjects {
            object: object.clone(),
            node: Some(node),
            index: Some(index),
        };
        let constant = IntExpr::constant;
        let (add, subtract, and) = (
            |a, b| IntExpr::binary(Binary::Add, a, b),
            |a, b| IntExpr::binary(Binary::Subtract, a, b),
            |a, b| IntExpr::binary(Binary::And, a, b),
        );
        let less = |a, b| IntExpr::binary(Binary::LessUnsigned, a, b);
        let times = |a, b: u64| IntExpr::binary(Binary::Multiply, a, constant(b));
        let is_beyond = |count: IntExpr, most: u64| less(constant(most), count);
        // The item of most containers is at the place itself.
        inner.subjects = Some(at(place.clone(), count.clone()));
        let key = |lower: &Self| match &search.key {
            Some((equal, smaller)) => Ok((lower.truth(equal)?, lower.truth(smaller)?)),
            None => Ok((constant(0), constant(0))),
        };
        let address_of = |lower: &Self| match lower.object(&search.found)? {
            Object::Memory(address) => Ok(address),
            _ => lower.unsupported("This element is not in memory.", node),
        };
        let made = match &*search.walk {
            Walk::List {
                first, next, end, ..
            } => {
                let is_end = match end {
                    Some(end) => IntExpr::either(
                        place.clone().into_is_zero(),
                        IntExpr::binary(Binary::Equal, place.clone(), inner.value(end)?),
                    ),
                    None => place.clone().into_is_zero(),
                };
                let is_found = match &search.number {
                    Some(number) => {
                        let number = self.value(number)?;
                        IntExpr::binary(Binary::Equal, count.clone(), number)
                    }
                    None => key(&inner)?.0,
                };
                Search {
                    start: (inner.value(first)?, constant(0)),
                    is_end,
                    is_enough: is_beyond(count.clone(), MOST_PLACES),
                    is_found,
                    next: (inner.value(next)?, count.add(1)),
                    found: address_of(&inner)?,
                    object: object_name,
                    place: place_name,
                    count: count_name,
                    address,
                }
            }
            Walk::Tree(tree) => {
                let (equal, smaller) = key(&inner)?;
                let (left, right) = (inner.value(&tree.left)?, inner.value(&tree.right)?);
                Search {
                    start: (inner.value(&tree.root)?, constant(0)),
                    is_end: place.into_is_zero(),
                    is_enough: is_beyond(count.clone(), DEEPEST_TREE),
                    is_found: equal,
                    next: (IntExpr::choose(smaller, right, left), count.add(1)),
                    found: address_of(&inner)?,
                    object: object_name,
                    place: place_name,
                    count: count_name,
                    address,
                }
            }
            Walk::Table {
                control,
                entries,
                mask,
                size,
                ..
            } => {
                let control = inner.value(control)?;
                let entries = inner.value(entries)?;
                let mask = inner.value(mask)?;
                let (equal, _) = key(&inner)?;
                let byte = IntExpr::load(add(control, count.clone()), 1);
                let is_full = and(byte, constant(0x80)).into_is_zero();
                let first = subtract(entries, constant(*size));
                Search {
                    start: (first, constant(0)),
                    is_end: less(mask, count.clone()),
                    is_enough: is_beyond(count.clone(), MOST_PLACES),
                    is_found: IntExpr::both(is_full, equal),
                    next: (subtract(place, constant(*size)), count.add(1)),
                    found: address_of(&inner)?,
                    object: object_name,
                    place: place_name,
                    count: count_name,
                    address,
                }
            }
            Walk::BTree(tree) => {
                // The count is the height of the node in the high bits, and the number of an element in the low four.
                let number = and(count.clone(), constant(15));
                let height =
                    IntExpr::binary(Binary::ShiftRightUnsigned, count.clone(), constant(4));
                inner.subjects = Some(at(place.clone(), number.clone()));
                let (equal, smaller) = key(&inner)?;
                let word = self.locator.architecture().pointer_size();
                let is_item = IntExpr::both(
                    less(number.clone(), inner.value(&tree.size)?),
                    less(number.clone(), constant(12)),
                );
                let is_before = IntExpr::both(is_item.clone(), smaller);
                let edges = inner.value(&tree.edges)?;
                let child = IntExpr::load(add(edges, times(number, word.into())), word);
                let below = IntExpr::choose(height.clone(), child, constant(0));
                let lower = IntExpr::binary(
                    Binary::ShiftLeft,
                    height.add(1_u64.wrapping_neg()),
                    constant(4),
                );
                let all = less(constant(HIGHEST_TREE << 4 | 15), count.clone());
                // An empty one has neither.
                let is_empty = inner.value(&tree.length)?.into_is_zero();
                let root = IntExpr::choose(is_empty, constant(0), inner.value(&tree.root)?);
                Search {
                    start: (
                        root,
                        IntExpr::binary(Binary::ShiftLeft, inner.value(&tree.height)?, constant(4)),
                    ),
                    is_end: place.clone().into_is_zero(),
                    is_enough: all,
                    is_found: IntExpr::both(is_item, equal),
                    next: (
                        IntExpr::choose(is_before.clone(), place, below),
                        IntExpr::choose(is_before, count.add(1), lower),
                    ),
                    found: address_of(&inner)?,
                    object: object_name,
                    place: place_name,
                    count: count_name,
                    address,
                }
            }
            Walk::Buckets(table) => {
                // The place is the bucket, with the number of its place in the lowest three bits; the count is the number of the
                // bucket, and from bit 32 on how many were looked at.
                let (bucket, slot) = (
                    and(place.clone(), constant(!7)),
                    and(place.clone(), constant(7)),
                );
                inner.subjects = Some(at(bucket, slot.clone()));
                let (equal, _) = key(&inner)?;
                let full = inner.value(&table.full)?;
                let overflow = inner.value(&table.overflow)?;
                let old_count = inner.value(&table.old_count)?;
                let (first, old) = (inner.value(&table.first)?, inner.value(&table.old)?);
                let number = and(count.clone(), constant(0xffff_ffff));
                let in_array = |number: IntExpr| {
                    IntExpr::choose(
                        less(number.clone(), old_count.clone()),
                        add(old.clone(), times(number.clone(), table.size)),
                        add(
                            first.clone(),
                            times(subtract(number, old_count.clone()), table.size),
                        ),
                    )
                };
                let all = add(old_count.clone(), inner.value(&table.count)?);
                let visited =
                    IntExpr::binary(Binary::ShiftRightUnsigned, count.clone(), constant(32));
                let is_last = IntExpr::binary(Binary::Equal, slot, constant(7));
                let follows = IntExpr::choose(
                    overflow.clone(),
                    overflow.clone(),
                    in_array(number.clone().add(1)),
                );
                let counted = IntExpr::choose(
                    overflow,
                    count.clone().add(1 << 32),
                    count.clone().add((1 << 32) + 1),
                );
                let is_empty = inner.value(&table.length)?.into_is_zero();
                Search {
                    start: (in_array(constant(0)), constant(0)),
                    is_end: IntExpr::either(is_empty, less(number, all).into_is_zero()),
                    is_enough: is_beyond(visited, MOST_PLACES / 8),
                    is_found: IntExpr::both(full, equal),
                    next: (
                        IntExpr::choose(is_last.clone(), follows, place.add(1)),
                        IntExpr::choose(is_last, counted, count),
                    ),
                    found: address_of(&inner)?,
                    object: object_name,
                    place: place_name,
                    count: count_name,
                    address,
                }
            }
            _ => return self.unsupported("This container has no keys.", node),
        };
        Ok(IntExpr::search(made))
    }
}

impl Resolver<'_> {
    /// Where the value is that a container has for a key, or the element of a list with this number: a pointer, null if there is
    /// none. No search where the container has no such elements.
    pub(crate) fn search(
        &self,
        object: &Node,
        walk: &Rc<Walk>,
        wanted: &Node,
        span: Span,
    ) -> Option<Result<Node>> {
        let items = match &**walk {
            Walk::List { items, .. } | Walk::Table { items, .. } => items,
            Walk::Tree(tree) => &tree.items,
            Walk::BTree(tree) => &tree.items,
            Walk::Buckets(table) => &table.items,
            _ => return None,
        };
        let is_integral = self.scalar(&self.value(wanted.clone())).is_integral();
        let made = match (items, &**walk) {
            (Items::Element(element), Walk::List { .. }) if is_integral => {
                let wanted =
                    self.convert(self.value(wanted.clone()), self.builtin("unsigned long"));
                Ok((None, Some(wanted), element))
            }
            (Items::Element(key), _) => self
                .key_tests(object, walk, key, wanted, span)
                .map(|tests| (Some(tests), None, key)),
            (Items::Pair(key, value), _) => self
                .key_tests(object, walk, key, wanted, span)
                .map(|tests| (Some(tests), None, value)),
        };
        Some(made.map(|(key, number, found)| {
            let search = SearchNode {
                object: object.clone().into(),
                walk: Rc::clone(walk),
                key: key.map(|(equal, less)| (equal.into(), less.into())),
                number: number.map(Box::new),
                found: found.clone().into(),
            };
            let pointer_type = self.symbols.pointer_to(found.type_id);
            Node::new(NodeKind::Search(Rc::new(search)), pointer_type, span)
        }))
    }

    /// Whether the key of a search's current item is the wanted one, and whether it is less.
    fn key_tests(
        &self,
        object: &Node,
        walk: &Walk,
        key: &Node,
        wanted: &Node,
        span: Span,
    ) -> Result<(Node, Node)> {
        let is_ordered = matches!(walk, Walk::Tree(_) | Walk::BTree(_));
        if let Walk::Tree(_) = walk
            && let Type::Structure {
                name: Some(name), ..
            } = &*self.stripped(object.type_id)
            && !name.contains("std::less<")
            && !name.contains("std::__1::less<")
        {
            let message =
                "The elements of this container have an order of their own, which is not known.";
            return self.error(ExpressionErrorKind::Unsupported(message.to_owned()), span);
        }
        let unordered = Node::new(NodeKind::Integer(0), self.truth_type(), span);
        if let NodeKind::Bytes(bytes) = &wanted.kind {
            // Without the NUL of the literal.
            let bytes = bytes.get(..bytes.len().saturating_sub(1)).unwrap_or(&[]);
            let Some(equal) = self.begins_with(key, bytes, true, span) else {
                return self.type_error("The keys of this container are no strings.", span);
            };
            let less = match is_ordered {
                false => unordered,
                true if bytes.len() > LONGEST_ORDERED => {
                    let message = format!("the key is longer than {LONGEST_ORDERED} bytes");
                    return self.error(ExpressionErrorKind::TooLarge(message), span);
                }
                true => match self.text_less(key, bytes, span) {
                    Some(less) => less,
                    None => {
                        return self.type_error("The keys of this container are no strings.", span);
                    }
                },
            };
            return Ok((equal?, less));
        }
        let key = self.value(key.clone());
        let is_number = |shape| matches!(shape, Scalar::Integer { .. } | Scalar::Boolean { .. });
        let wanted = self.value(wanted.clone());
        if !is_number(self.scalar(&key)) || self.scalar(&wanted).as_number().is_none() {
            return self.type_error(
                "An element is searched for by a string literal or by a number.",
                span,
            );
        }
        let wanted = self.convert(wanted, key.type_id);
        let compared = |operator| {
            let kind = NodeKind::Compare(operator, key.clone().into(), wanted.clone().into());
            Node::new(kind, self.truth_type(), span)
        };
        let less = match is_ordered {
            true => compared(BinaryOperator::Less),
            false => unordered,
        };
        Ok((compared(BinaryOperator::Equal), less))
    }

    /// Whether a text comes before these bytes.
    fn text_less(&self, text: &Node, bytes: &[u8], span: Span) -> Option<Node> {
        let (start, extent) = self.text_parts(text)?;
        let known = |what, of: &Node| {
            let kind = NodeKind::Subject(Subject::Known(what));
            Node::new(kind, of.type_id, span)
        };
        let (data, length) = (known(Known::Data, &start), known(Known::Length, &extent));
        let long = length.type_id;
        let truth = self.truth_type();
        let byte_type = self.builtin("unsigned char");
        let node = |kind, type_id| Node::new(kind, type_id, span);
        let integer = |number: usize, type_id| node(NodeKind::Integer(number as i128), type_id);
        // From the last byte on: a key of the same length that is equal so far is not less.
        let mut rest = integer(0, truth);
        for (index, byte) in bytes.iter().enumerate().rev() {
            let pointer = NodeKind::PointerAdd {
                pointer: data.clone().into(),
                index: integer(index, long).into(),
                element: 1,
                subtract: false,
            };
            let pointer = node(pointer, self.symbols.pointer_to(byte_type));
            let found = node(NodeKind::Dereference(pointer.into()), byte_type);
            let wanted = integer(usize::from(*byte), byte_type);
            let compare = |operator, a: &Node, b: &Node| {
                node(
                    NodeKind::Compare(operator, a.clone().into(), b.clone().into()),
                    truth,
                )
            };
            let same = compare(BinaryOperator::Equal, &found, &wanted);
            let less = compare(BinaryOperator::Less, &found, &wanted);
            let ends = compare(BinaryOperator::LessOrEqual, &length, &integer(index, long));
            let differs = node(
                NodeKind::Conditional(same.into(), rest.into(), less.into()),
                truth,
            );
            rest = node(
                NodeKind::Conditional(ends.into(), integer(1, truth).into(), differs.into()),
                truth,
            );
        }
        let rest = NodeKind::With(Known::Length, extent.into(), rest.into());
        let rest = node(rest, truth);
        let rest = NodeKind::With(Known::Data, start.into(), rest.into());
        Some(node(rest, truth))
    }
}
