//! The targets of a value: the memory that its type's rule walks, collected within limits.
//!
//! The code of a walk leaves the stack unchanged. Each loop counts down from a limited number. So a container that another thread
//! changes, or that is not initialized, ends no later than a valid one.

mod interface;
mod table;
mod tree;

use tracewire_agent_expr::{Label, Opcode};

use crate::collect::Collection;
use crate::int_expr::{Binary, IntExpr, Operation};
use crate::lower::Subjects;
use crate::node::Node;
use crate::object::{Object, object_number, offset_by};
use crate::redaction::{is_named_redacted, redacted_in};
use crate::scalar::{Scalar, scalar, strip};
use crate::walk::{Extent, Items, Walk};
use tracewire_debuginfo::{ByteRange, Type, TypeId, VariantPart};

/// How much is collected of a value's targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollectLimits {
    /// The most bytes of a string.
    pub string: u64,
    /// The most elements of a container.
    pub elements: u64,
    /// How many pointers are followed from a value on.
    pub depth: u32,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self {
            string: 200,
            elements: 32,
            depth: 4,
        }
    }
}

impl CollectLimits {
    /// Only the values themselves.
    pub const NONE: Self = Self {
        string: 0,
        elements: 0,
        depth: 0,
    };
}

/// The most bytes that are collected of one container's elements.
const LARGEST_PIECE: u64 = 16 << 10;
/// The depth to which parts are followed that are not behind pointers.
const DEEPEST_PART: u32 = 32;
/// The most bytes of one pointer's target.
const LARGEST_POINTEE: u64 = 4096;
/// How many buckets of a hash table are looked at for each element.
const BUCKETS_OF_ELEMENT: u64 = 8;
/// How many nodes of a tree are stepped over for each element, at most: the depth of a tree of any size.
const STEPS_OF_TREE: u64 = 4;

impl Collection<'_> {
    /// Collects the targets of an object of the type. Its own bytes are already collected.
    pub(crate) fn follow(&mut self, object: &Object, type_id: TypeId) {
        let depth = self.limits.depth;
        let walk = self.walks.walk(type_id).filter(|_| depth > 0);
        let reference = match walk.as_deref() {
            Some(Walk::Reference { pointer, target }) => Some((pointer, *target)),
            _ => None,
        };
        if reference.is_none() && !self.walks.leads(type_id, depth) {
            return;
        }
        let outside = self.code.depth();
        let object = self.with_plain_address(object);
        match reference {
            Some((pointer, target)) => {
                self.pointer(&Subjects::of(object), pointer, target, depth);
            }
            None => self.part(&object, type_id, depth, DEEPEST_PART),
        }
        if self.code.depth() > outside {
            self.code.op(Opcode::Pop);
        }
        debug_assert_eq!(self.code.depth(), outside);
    }

    /// The object, with an address that is at most a register: another address is computed onto the stack.
    fn with_plain_address(&mut self, object: &Object) -> Object {
        let Object::Memory(address) = object else {
            return object.clone();
        };
        let is_plain = |expr: &IntExpr| {
            matches!(
                expr.operation(),
                Operation::Constant(_) | Operation::Register(_) | Operation::Cell(_)
            )
        };
        let plain = match address.operation() {
            Operation::Binary(Binary::Add, inner, offset) => {
                is_plain(inner) && offset.as_constant().is_some()
            }
            _ => is_plain(address),
        };
        if plain {
            return object.clone();
        }
        let cell = self.code.push(address);
        Object::Memory(cell)
    }

    /// Repeats `body`, with the remaining count and its current value on the stack, until the count is 0 or it jumps to the given
    /// label. Removes both from the stack.
    fn countdown(&mut self, most: u64, body: impl FnOnce(&mut Self, Label)) {
        let [again, done] = self.code.labels();
        self.code.place(again);
        self.repeated(most, |this| {
            let left = IntExpr::cell((this.code.depth() - 2) as u16);
            this.code.push(&left.into_is_zero());
            this.code.if_goto(done);
            body(this, done);
            this.code.one_less_below();
            this.code.goto(again);
        });
        self.code.place(done);
        self.code.op(Opcode::Pop);
        self.code.op(Opcode::Pop);
    }

    /// Runs `body` as something that happens so many times at most.
    fn repeated(&mut self, times: u64, body: impl FnOnce(&mut Self)) {
        let before = self.code.times();
        self.code.set_times(before.saturating_mul(times.max(1)));
        body(self);
        self.code.set_times(before);
    }

    /// How many elements of a container are collected, here.
    fn elements(&self, size: u64) -> u64 {
        let elements = if self.code.times() > 1 {
            self.limits.elements.min(self.inner_elements)
        } else {
            self.limits.elements
        };
        elements.min(LARGEST_PIECE / size.max(1))
    }

    // Rules' expressions.

    fn value_of(&mut self, subjects: &Subjects, node: &Node) -> Option<IntExpr> {
        self.lower.subjects = Some(subjects.clone());
        let value = self.lower.value(node).ok();
        self.lower.subjects = None;
        value
    }

    fn object_of(&mut self, subjects: &Subjects, node: &Node) -> Option<Object> {
        self.lower.subjects = Some(subjects.clone());
        let object = self.lower.object(node).ok();
        self.lower.subjects = None;
        object
    }

    // Values.

    /// A part of a value: the value itself, or a member.
    fn part(&mut self, object: &Object, type_id: TypeId, depth: u32, parts: u32) {
        let Some(parts) = parts.checked_sub(1) else {
            return;
        };
        if self.code.is_full() || !self.walks.leads(type_id, depth) {
            return;
        }
        if self.lower.symbols().redacts_type(type_id) {
            return;
        }
        if let Some(walk) = self.walks.walk(type_id) {
            self.walk(object, type_id, &walk, depth, parts);
            return;
        }
        match &*strip(self.lower.symbols(), type_id).1 {
            Type::Structure {
                variants: Some(variants),
                ..
            } => self.variants(object, variants, depth, parts),
            Type::Structure { members, .. } => {
                for member in members {
                    // The place of a virtual base class is not known.
                    let name = member.name.as_deref().filter(|_| !member.base_class);
                    let is_redacted = is_named_redacted(self.lower.symbols(), name);
                    if member.bits.is_none() && member.offset != u64::MAX && !is_redacted {
                        let inner = offset_by(object.clone(), member.offset);
                        self.part(&inner, member.type_id, depth, parts);
                    }
                }
            }
            Type::Array {
                element,
                count: Some(count),
                ..
            } => self.array(object, *element, *count, depth),
            _ => {}
        }
    }

    /// The elements of an array that is part of a value.
    fn array(&mut self, object: &Object, element: TypeId, count: u64, depth: u32) {
        let (Object::Memory(address), Some(size)) = (object, self.lower.symbols().size_of(element))
        else {
            return;
        };
        let count = count.min(self.elements(size));
        self.code.push(address);
        self.code.constant(count);
        self.each((element, size), &[], count, depth);
        self.code.op(Opcode::Pop);
        self.code.op(Opcode::Pop);
    }

    /// Follows elements: the address of the first and how many are on the stack.
    /// They are collected too where parts of each are redacted.
    fn each(
        &mut self,
        (element, size): (TypeId, u64),
        redacted: &[ByteRange],
        most: u64,
        depth: u32,
    ) {
        let address = IntExpr::cell((self.code.depth() - 2) as u16);
        let [next, done] = self.code.labels();
        self.code.place(next);
        self.repeated(most, |this| {
            this.code.op(Opcode::Dup);
            this.code.op(Opcode::LogNot);
            this.code.if_goto(done);
            if !redacted.is_empty() {
                this.code.push(&address);
                this.code.trace_around(redacted, size, size);
                this.code.op(Opcode::Pop);
            }
            this.part(&Object::Memory(address), element, depth, DEEPEST_PART);
            this.code.constant(1);
            this.code.op(Opcode::Sub);
            this.code.add_below(size);
            this.code.goto(next);
        });
        self.code.place(done);
    }

    /// The variant of an enum that holds.
    fn variants(&mut self, object: &Object, part: &VariantPart, depth: u32, parts: u32) {
        let inner = |variant: &tracewire_debuginfo::Variant| {
            (
                offset_by(object.clone(), variant.member.offset),
                variant.member.type_id,
            )
        };
        let Some(discriminant) = &part.discriminant else {
            if let [only] = &part.variants[..] {
                let (object, type_id) = inner(only);
                self.part(&object, type_id, depth, parts);
            }
            return;
        };
        let Some(size @ 1..=8) = self.lower.symbols().size_of(discriminant.type_id) else {
            return;
        };
        let tag = offset_by(object.clone(), discriminant.offset);
        let Some(tag) = crate::object::object_number(&tag, size) else {
            return;
        };
        if tag.is_state_only() {
            return;
        }
        let tag = self.code.push(&tag);
        let cut = |value: i128| crate::scalar::wrap(value, size, false) as u64;
        let end = self.code.label();
        let known: Vec<u64> = part
            .variants
            .iter()
            .filter_map(|variant| variant.value.map(cut))
            .collect();
        let mut alternatives = self.code.alternatives();
        for variant in &part.variants {
            let (object, type_id) = inner(variant);
            let name = variant.member.name.as_deref();
            if !self.walks.leads(type_id, depth) || is_named_redacted(self.lower.symbols(), name) {
                continue;
            }
            self.code.next_of(&mut alternatives);
            let next = self.code.label();
            match variant.value {
                Some(value) => {
                    let other =
                        IntExpr::binary(Binary::Equal, tag.clone(), IntExpr::constant(cut(value)));
                    self.code.push(&other.into_is_zero());
                    self.code.if_goto(next);
                }
                // The one for all other values.
                None => {
                    for value in known.iter().take(64) {
                        let same =
                            IntExpr::binary(Binary::Equal, tag.clone(), IntExpr::constant(*value));
                        self.code.push(&same);
                        self.code.if_goto(next);
                    }
                }
            }
            self.part(&object, type_id, depth, parts);
            self.code.goto(end);
            self.code.place(next);
        }
        self.code.end_of(&alternatives);
        self.code.place(end);
        self.code.op(Opcode::Pop);
    }

    fn walk(&mut self, object: &Object, type_id: TypeId, walk: &Walk, depth: u32, parts: u32) {
        // The target of a pointer that a rule uses has not been collected yet.
        if let Scalar::Pointer { target, size } = scalar(self.lower.symbols(), type_id)
            && !matches!(
                walk,
                Walk::Pointer { .. } | Walk::Reference { .. } | Walk::Interface(_)
            )
        {
            let target_size = self.lower.symbols().size_of(target).unwrap_or(0);
            let Some(pointer) = object_number(object, size) else {
                return;
            };
            let redacted = self.lower.symbols().redacted_ranges(target);
            let cell = self.code.push(&pointer);
            let null = self.code.label();
            self.code.push(&cell.clone().into_is_zero());
            self.code.if_goto(null);
            let target_size = target_size.min(LARGEST_POINTEE);
            self.code.trace_around(&redacted, target_size, target_size);
            self.walk_into(&Object::Value(cell), type_id, walk, depth, parts);
            self.code.place(null);
            self.code.op(Opcode::Pop);
            return;
        }
        self.walk_into(object, type_id, walk, depth, parts);
    }

    fn walk_into(&mut self, object: &Object, type_id: TypeId, walk: &Walk, depth: u32, parts: u32) {
        let symbols = self.lower.symbols();
        let size = symbols.size_of(type_id).unwrap_or(0);
        let subjects = Subjects::of(object.clone());
        // Of a container that holds redacted bytes itself, the walk is not followed; of one whose elements hold them, where the
        // elements are found by computing.
        let is_of_parts = matches!(
            walk,
            Walk::Structure(..)
                | Walk::Tuple(_)
                | Walk::Newtype(_)
                | Walk::Optional { .. }
                | Walk::Variant { .. }
        );
        if !is_of_parts && !symbols.redacted_ranges(type_id).is_empty() {
            return;
        }
        let holds_redacted = |type_id: &TypeId| !symbols.redacted_ranges(*type_id).is_empty();
        let mut items: Vec<TypeId> = match walk {
            Walk::Table { items, .. } => items.nodes().map(|node| node.type_id).collect(),
            Walk::BTree(tree) => tree.items.nodes().map(|node| node.type_id).collect(),
            Walk::Buckets(table) => table.items.nodes().map(|node| node.type_id).collect(),
            Walk::Interface(interface) => {
                let candidates = interface.candidates.iter();
                candidates.map(|(_, type_id)| *type_id).collect()
            }
            _ => Vec::new(),
        };
        items.retain(holds_redacted);
        if !items.is_empty() {
            return;
        }
        // An expression that has no meaning for this object's place leads nowhere; the object itself is collected.
        let _: Option<()> = match walk {
            Walk::String {
                data,
                extent,
                width,
            } => self.bytes(&subjects, size, data, extent, *width),
            Walk::Sequence {
                first,
                extent,
                element,
                size: of_element,
            } => {
                if *of_element == 0 {
                    None
                } else if self.walks.leads(*element, depth - 1) || holds_redacted(element) {
                    let element = (*element, *of_element);
                    self.sequence(&subjects, size, first, extent, element, depth)
                } else {
                    let limit = self.elements(*of_element).saturating_mul(*of_element);
                    self.bytes_within(&subjects, size, first, extent, *of_element, limit)
                }
            }
            Walk::Ring {
                first,
                capacity,
                start,
                length,
                element,
                size,
            } => self.ring(
                &subjects,
                [first, capacity, start, length],
                (*element, *size),
                depth,
            ),
            Walk::Blocks {
                blocks,
                block_length,
                start,
                length,
                element,
                size,
            } => self.blocks(
                &subjects,
                [blocks, block_length, start, length],
                (*element, *size),
                depth,
            ),
            Walk::List {
                first,
                next,
                end,
                length,
                items,
            } => self.list(
                &subjects,
                [first, next],
                [end.as_ref(), length.as_ref()],
                items,
                depth,
            ),
            Walk::Tree(tree) => self.tree(&subjects, tree, depth),
            Walk::Table {
                control,
                entries,
                mask,
                length,
                size,
                items,
            } => self.table(
                &subjects,
                [control, entries, mask, length],
                *size,
                items,
                depth,
            ),
            Walk::BTree(tree) => self.btree(&subjects, tree, depth),
            Walk::Buckets(buckets) => self.buckets(&subjects, buckets, depth),
            Walk::Bits {
                first,
                start,
                length,
            } => self.bits(&subjects, size, [first, start, length]),
            Walk::Interface(interface) => self.interface(&subjects, interface, depth),
            Walk::Optional { present, value } => {
                self.optional(&subjects, present, value, depth, parts)
            }
            Walk::Variant {
                index,
                storage,
                alternatives,
            } => self.variant(&subjects, index, storage, alternatives, (depth, parts)),
            Walk::Pointer { pointer, target } => self.pointer(&subjects, pointer, *target, depth),
            Walk::Newtype(value) => self.inner(&subjects, value, depth, parts),
            Walk::Function { symbol, .. } => self.value_of(&subjects, symbol).map(|symbol| {
                // The data needed to find the symbol is collected on the way.
                self.code.push(&symbol);
                self.code.op(Opcode::Pop);
            }),
            Walk::Duration { .. } | Walk::Quantity { .. } | Walk::Reference { .. } => None,
            Walk::Structure(values, _) => {
                for (_, value) in values {
                    self.inner(&subjects, value, depth, parts);
                }
                Some(())
            }
            Walk::Tuple(values) => {
                for value in values {
                    self.inner(&subjects, value, depth, parts);
                }
                Some(())
            }
        };
    }

    /// A part that an expression gives.
    fn inner(&mut self, subjects: &Subjects, node: &Node, depth: u32, parts: u32) -> Option<()> {
        let size = self.lower.symbols().size_of(node.type_id).unwrap_or(0);
        let redacted = redacted_in(self.lower.symbols(), node, size);
        if matches!(&redacted[..], [(0, length)] if *length >= size) {
            return None;
        }
        let object = self.object_of(subjects, node)?;
        self.part(&object, node.type_id, depth, parts);
        Some(())
    }

    /// A string.
    fn bytes(
        &mut self,
        subjects: &Subjects,
        size: u64,
        data: &Node,
        extent: &Extent,
        width: u64,
    ) -> Option<()> {
        let limit = self.limits.string / width * width;
        self.bytes_within(subjects, size, data, extent, width, limit)
    }

    /// Elements that lead nowhere: their bytes, up to this many.
    fn bytes_within(
        &mut self,
        subjects: &Subjects,
        size: u64,
        data: &Node,
        extent: &Extent,
        width: u64,
        limit: u64,
    ) -> Option<()> {
        let start = self.value_of(subjects, data)?;
        let count = self.extent(subjects, extent)?;
        if self.is_inside(&subjects.object, size, &start) {
            return Some(());
        }
        let cell = self.code.push(&start);
        let collected = self.code.label();
        self.unless_inside(&subjects.object, size, &cell, collected);
        self.code.op(Opcode::Dup);
        match &count {
            Count::Length(length) => {
                self.code.push(length);
                self.code.clamp(limit / width);
                self.code.multiply(width);
            }
            Count::End(end) => {
                self.code.push(&IntExpr::binary(
                    Binary::Subtract,
                    end.clone(),
                    cell.clone(),
                ));
                self.code.clamp(limit);
            }
        }
        self.code.trace(limit);
        self.collect_again(subjects, size, data, &cell);
        self.code.place(collected);
        self.code.op(Opcode::Pop);
        Some(())
    }

    /// Whether an address is in the object itself, as far as that is plain to see.
    fn is_inside(&self, object: &Object, size: u64, address: &IntExpr) -> bool {
        let Object::Memory(start) = object else {
            return false;
        };
        address
            .distance_from(start)
            .is_some_and(|distance| distance < size)
    }

    /// Jumps to `label` if the address in a cell is in the object itself, whose bytes are collected: short strings are.
    fn unless_inside(&mut self, object: &Object, size: u64, cell: &IntExpr, label: Label) {
        if let Object::Memory(start) = object {
            let distance = IntExpr::binary(Binary::Subtract, cell.clone(), start.clone());
            let is_inside =
                IntExpr::binary(Binary::LessUnsigned, distance, IntExpr::constant(size));
            self.code.push(&is_inside);
            self.code.if_goto(label);
        }
    }

    /// Collects the followed pointer once more. The object is collected before the pointer is read, and another thread may write
    /// it before, between and after. If both copies are the same, that pointer led to the collected data.
    fn collect_again(&mut self, subjects: &Subjects, size: u64, pointer: &Node, cell: &IntExpr) {
        let Object::Memory(start) = &subjects.object else {
            return;
        };
        let place = match self.object_of(subjects, pointer) {
            Some(Object::Memory(place)) => Some(place),
            _ => None,
        };
        let place = place.filter(|place| {
            place
                .distance_from(start)
                .is_some_and(|distance| distance < size)
        });
        if let Some(place) = place {
            let word = u64::from(self.lower.locator.architecture().pointer_size());
            self.code.push(&place);
            self.code.constant(word);
            self.code.trace(word);
            return;
        }
        // A computed pointer, or one read from another object: collects the whole object, where the pointer may have changed.
        let Some(now) = self.value_of(subjects, pointer) else {
            return;
        };
        self.code.push(start);
        let same = IntExpr::binary(Binary::Equal, now, cell.clone());
        self.code.push(&same.into_is_zero());
        // No bytes where it is the same: that costs no block.
        self.code.multiply(size);
        self.code.trace(0);
    }

    fn extent(&mut self, subjects: &Subjects, extent: &Extent) -> Option<Count> {
        Some(match extent {
            Extent::Length(length) => Count::Length(self.value_of(subjects, length)?),
            Extent::End(end) => Count::End(self.value_of(subjects, end)?),
        })
    }

    /// Elements that lead further.
    fn sequence(
        &mut self,
        subjects: &Subjects,
        size: u64,
        first: &Node,
        extent: &Extent,
        (element, of_element): (TypeId, u64),
        depth: u32,
    ) -> Option<()> {
        let start = self.value_of(subjects, first)?;
        let count = self.extent(subjects, extent)?;
        let most = self.elements(of_element);
        let cell = self.code.push(&start);
        match &count {
            Count::Length(length) => {
                self.code.push(length);
                self.code.clamp(most);
            }
            Count::End(end) => {
                self.code.push(&IntExpr::binary(
                    Binary::Subtract,
                    end.clone(),
                    cell.clone(),
                ));
                self.code.clamp(most.saturating_mul(of_element));
                self.code.constant(of_element);
                self.code.op(Opcode::DivUnsigned);
            }
        }
        let number = IntExpr::cell((self.code.depth() - 1) as u16);
        let redacted = self.lower.symbols().redacted_ranges(element);
        if redacted.is_empty() && !self.is_inside(&subjects.object, size, &start) {
            let collected = self.code.label();
            self.unless_inside(&subjects.object, size, &cell, collected);
            self.code.push(&cell);
            self.code.push(&number);
            self.code.multiply(of_element);
            self.code.trace(most.saturating_mul(of_element));
            self.collect_again(subjects, size, first, &cell);
            self.code.place(collected);
        }
        self.each((element, of_element), &redacted, most, depth - 1);
        self.code.op(Opcode::Pop);
        self.code.op(Opcode::Pop);
        Some(())
    }

    /// Elements in a ring.
    fn ring(
        &mut self,
        subjects: &Subjects,
        [first, capacity, start, length]: [&Node; 4],
        (element, size): (TypeId, u64),
        depth: u32,
    ) -> Option<()> {
        let first = self.value_of(subjects, first)?;
        let capacity = self.value_of(subjects, capacity)?;
        let start = self.value_of(subjects, start)?;
        let length = self.value_of(subjects, length)?;
        if size == 0 {
            return None;
        }
        let most = self.elements(size);
        // The remaining count, and the number of the next.
        self.code.push(&length);
        self.code.clamp(most);
        let index = self.code.push(&start);
        self.countdown(most, |this, _| {
            let offset = IntExpr::binary(Binary::Multiply, index.clone(), IntExpr::constant(size));
            this.element_at(
                &IntExpr::binary(Binary::Add, first.clone(), offset),
                element,
                size,
                depth,
            );
            // The next one, at the start of the ring again where it ends.
            let after = index.clone().add(1);
            let wraps = IntExpr::binary(Binary::LessUnsigned, after.clone(), capacity.clone());
            this.code
                .push(&IntExpr::choose(wraps, after, IntExpr::constant(0)));
            this.code.drop_below();
        });
        Some(())
    }

    /// Elements in blocks.
    fn blocks(
        &mut self,
        subjects: &Subjects,
        [blocks, block_length, start, length]: [&Node; 4],
        (element, size): (TypeId, u64),
        depth: u32,
    ) -> Option<()> {
        let blocks = self.value_of(subjects, blocks)?;
        let block_length = self.value_of(subjects, block_length)?;
        let start = self.value_of(subjects, start)?;
        let length = self.value_of(subjects, length)?;
        let word = self.lower.locator.architecture().pointer_size();
        // A length that is no constant might be zero.
        if block_length.as_constant().is_none_or(|length| length == 0) {
            return None;
        }
        let most = self.elements(size);
        self.code.push(&length);
        self.code.clamp(most);
        let index = self.code.push(&start);
        self.countdown(most, |this, _| {
            let number =
                IntExpr::binary(Binary::DivideUnsigned, index.clone(), block_length.clone());
            let place = IntExpr::binary(
                Binary::Add,
                blocks.clone(),
                IntExpr::binary(Binary::Multiply, number, IntExpr::constant(word.into())),
            );
            let place = this.code.push(&place);
            this.code.trace_quick(u16::from(word));
            let inside = IntExpr::binary(Binary::RemainderUnsigned, index.clone(), block_length);
            let offset = IntExpr::binary(Binary::Multiply, inside, IntExpr::constant(size));
            let address = IntExpr::binary(Binary::Add, IntExpr::load(place, word), offset);
            this.element_at(&address, element, size, depth);
            this.code.op(Opcode::Pop);
            this.code.constant(1);
            this.code.op(Opcode::Add);
        });
        Some(())
    }

    /// A single element.
    fn element_at(&mut self, address: &IntExpr, element: TypeId, size: u64, depth: u32) {
        let redacted = self.lower.symbols().redacted_ranges(element);
        let cell = self.code.push(address);
        self.code.trace_around(&redacted, size, size);
        self.part(&Object::Memory(cell), element, depth - 1, DEEPEST_PART);
        self.code.op(Opcode::Pop);
    }

    /// How many bytes of a node are collected: the node by its type, and the items after it.
    fn node_size(&mut self, subjects: &Subjects, pointer: TypeId, items: &Items) -> u64 {
        let symbols = self.lower.symbols();
        let own = match scalar(symbols, pointer) {
            Scalar::Pointer { target, .. } => symbols.size_of(target),
            _ => None,
        };
        let mut size = own.unwrap_or(0);
        let Some(node) = subjects.node.clone() else {
            return size;
        };
        for item in items.nodes() {
            let object = self.object_of(subjects, item);
            if let Some(Object::Memory(address)) = object
                && let Some(distance) = address.distance_from(&node)
                && let Some(length) = self.lower.symbols().size_of(item.type_id)
            {
                size = size.max(distance.saturating_add(length));
            }
        }
        size.min(LARGEST_POINTEE)
    }

    /// The redacted bytes of a node of so many bytes; none where it is not known where its items are.
    fn redacted_in_node(
        &mut self,
        subjects: &Subjects,
        pointer: TypeId,
        items: &Items,
    ) -> Option<Vec<ByteRange>> {
        let symbols = self.lower.symbols();
        let mut found = match scalar(symbols, pointer) {
            Scalar::Pointer { target, .. } => symbols.redacted_ranges(target).to_vec(),
            _ => Vec::new(),
        };
        for item in items.nodes() {
            let ranges = symbols.redacted_ranges(item.type_id);
            if ranges.is_empty() {
                continue;
            }
            let Some(Object::Memory(address)) = self.object_of(subjects, item) else {
                return None;
            };
            let distance = address.distance_from(subjects.node.as_ref()?)?;
            let size = symbols.size_of(item.type_id)?;
            let inside = ranges.iter().map(|(start, length)| {
                let length = (*length).min(size.saturating_sub(*start));
                (distance.saturating_add(*start), length)
            });
            found.extend(inside);
        }
        found.sort_unstable();
        Some(found)
    }

    /// Linked nodes.
    fn list(
        &mut self,
        subjects: &Subjects,
        [first, next]: [&Node; 2],
        [end, length]: [Option<&Node>; 2],
        items: &Items,
        depth: u32,
    ) -> Option<()> {
        let start = self.value_of(subjects, first)?;
        let count = match length {
            Some(length) => Some(self.value_of(subjects, length)?),
            None => None,
        };
        // The remaining count, and the node.
        let cell = IntExpr::cell((self.code.depth() + 1) as u16);
        let at_node = Subjects {
            node: Some(cell.clone()),
            ..subjects.clone()
        };
        let next = self.value_of(&at_node, next)?;
        let end = match end {
            Some(end) => Some(self.value_of(&at_node, end)?),
            None => None,
        };
        let size = self.node_size(&at_node, first.type_id, items);
        let redacted = self.redacted_in_node(&at_node, first.type_id, items)?;
        let most = self.elements(size);
        match count {
            Some(count) => {
                self.code.push(&count);
                self.code.clamp(most);
            }
            None => self.code.constant(most),
        }
        self.code.push(&start);
        self.countdown(most, |this, done| {
            this.code.push(&cell.clone().into_is_zero());
            this.code.if_goto(done);
            if let Some(end) = end {
                this.code
                    .push(&IntExpr::binary(Binary::Equal, cell.clone(), end));
                this.code.if_goto(done);
            }
            this.code.trace_around(&redacted, size, size);
            for item in items.nodes() {
                this.inner(&at_node, item, depth - 1, DEEPEST_PART);
            }
            this.code.push(&next);
            this.code.drop_below();
        });
        Some(())
    }

    fn optional(
        &mut self,
        subjects: &Subjects,
        present: &Node,
        value: &Node,
        depth: u32,
        parts: u32,
    ) -> Option<()> {
        let present = self.value_of(subjects, present)?;
        let object = self.object_of(subjects, value)?;
        let absent = self.code.label();
        self.code.push(&present.into_is_zero());
        self.code.if_goto(absent);
        self.part(&object, value.type_id, depth, parts);
        self.code.place(absent);
        Some(())
    }

    fn variant(
        &mut self,
        subjects: &Subjects,
        index: &Node,
        storage: &Node,
        alternatives: &[TypeId],
        (depth, parts): (u32, u32),
    ) -> Option<()> {
        let index = self.value_of(subjects, index)?;
        let object = Object::Memory(self.value_of(subjects, storage)?);
        let mut costs = self.code.alternatives();
        for (number, alternative) in (0..).zip(alternatives) {
            if !self.walks.leads(*alternative, depth) {
                continue;
            }
            self.code.next_of(&mut costs);
            let next = self.code.label();
            let is_this = IntExpr::binary(Binary::Equal, index.clone(), IntExpr::constant(number));
            self.code.push(&is_this.into_is_zero());
            self.code.if_goto(next);
            self.part(&object, *alternative, depth, parts);
            self.code.place(next);
        }
        self.code.end_of(&costs);
        Some(())
    }

    fn pointer(
        &mut self,
        subjects: &Subjects,
        pointer: &Node,
        target: TypeId,
        depth: u32,
    ) -> Option<()> {
        let pointer = self.value_of(subjects, pointer)?;
        let size = self.lower.symbols().size_of(target)?.min(LARGEST_POINTEE);
        if matches!(
            &*strip(self.lower.symbols(), target).1,
            Type::Void | Type::Function { .. }
        ) {
            return None;
        }
        let redacted = self.lower.symbols().redacted_ranges(target);
        let cell = self.code.push(&pointer);
        let null = self.code.label();
        self.code.push(&cell.clone().into_is_zero());
        self.code.if_goto(null);
        self.code.trace_around(&redacted, size, size);
        self.part(&Object::Memory(cell), target, depth - 1, DEEPEST_PART);
        self.code.place(null);
        self.code.op(Opcode::Pop);
        Some(())
    }
}

/// How many elements there are, as a computation.
enum Count {
    Length(IntExpr),
    End(IntExpr),
}
