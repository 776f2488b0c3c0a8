//! Values of types that have a rule: strings, containers, pointers with an owner.

use std::cmp::Ordering;
use std::collections::HashSet;

use tracewire_model::Address;

use super::go::{SortKey, go_duration};
use super::{BYTES_OF_A_WALK, Context, Printer};
use crate::ExpressionErrorKind;
use crate::location::Locator;
use crate::node::Node;
use crate::scalar::{Scalar, scalar, strip};
use crate::value::contents::{Place, Value};
use crate::value::datum::{Datum, Parts, Recorder};
use crate::value::evaluate::{Evaluator, LARGEST_VALUE, RuleSubjects};
use crate::value::state::{State, read_memory};
use crate::walk::{BTree, Buckets, Extent, Interface, Items, Tree, Walk};
use tracewire_debuginfo::{Language, Type, TypeId};

/// How many nodes of a tree are stepped over for the elements that are shown.
const MOST_STEPS: u64 = 4096;

/// Why a value cannot be walked.
enum Stop {
    /// Something on the way is not known: the words for it.
    Missing(&'static str),
    /// The rule does not fit this value.
    Unfit,
}

type Walked<T> = Result<T, Stop>;

/// The text where no more values are walked.
const TOO_MANY: &str = "...";

const UNAVAILABLE: Stop = Stop::Missing("<unavailable>");

/// Follows what another element is shown in.
const CHANGED: &str = " <changed while it was collected>";

impl Printer<'_> {
    /// Writes a value by its type's rule, if it has one that fits.
    pub(super) fn walked(&mut self, value: &Value, context: Context) -> bool {
        let Some(walk) = self.walks.and_then(|walks| walks.walk(value.type_id)) else {
            return false;
        };
        if self.take_walks(1).is_err() {
            self.put_missing(TOO_MANY);
            return true;
        }
        let before = self.out.len();
        let subjects = RuleSubjects::of(value.clone());
        let around = self.state.replace_differs(false);
        let is_changed = self.was_changed(&subjects);
        let walked = self.walk(&walk, subjects, context);
        let is_changed = self.state.replace_differs(around) || is_changed;
        match walked {
            Ok(()) => {
                if is_changed {
                    self.put(CHANGED);
                }
                true
            }
            Err(Stop::Missing(why)) => {
                self.out.truncate(before);
                self.record(Recorder::take_back);
                self.put_missing(why);
                true
            }
            Err(Stop::Unfit) => {
                self.out.truncate(before);
                self.record(Recorder::take_back);
                false
            }
        }
    }

    /// Counts walks, of which a value has a limited number.
    fn take_walks(&self, count: usize) -> Walked<()> {
        let left = self.walks_left.get().checked_sub(count);
        self.walks_left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(Stop::Missing(TOO_MANY))
    }

    fn evaluator(&self, subjects: &RuleSubjects) -> Evaluator<'_> {
        Evaluator {
            symbols: self.symbols,
            state: &self.state,
            text: "",
            language: self.language,
            locator: Locator {
                symbols: self.symbols,
                pc: self.state.pc(),
                callers: false,
            },
            objects: None,
            subjects: Some(subjects.clone()),
        }
    }

    fn number(&self, subjects: &RuleSubjects, node: &Node) -> Walked<i128> {
        self.evaluator(subjects).number(node).map_err(stop)
    }

    fn pointer(&self, subjects: &RuleSubjects, node: &Node) -> Walked<u64> {
        Ok(self.number(subjects, node)? as u64)
    }

    fn evaluated(&self, subjects: &RuleSubjects, node: &Node) -> Walked<Value> {
        let value = self.evaluator(subjects).value(node).map_err(stop)?;
        self.take_walks(value.contents.len() / BYTES_OF_A_WALK)?;
        Ok(value)
    }

    /// A value of a type from memory, unknown bytes and all.
    fn read(&self, address: u64, type_id: TypeId) -> Walked<Value> {
        let size = self.symbols.size_of(type_id).ok_or(Stop::Unfit)?;
        let size = usize::try_from(size).map_err(|_| Stop::Unfit)?;
        if size > LARGEST_VALUE {
            return Err(Stop::Unfit);
        }
        self.take_walks(size / BYTES_OF_A_WALK)?;
        let nothing = Value::new(type_id, Vec::new(), Place::Nowhere, self.language);
        let subjects = RuleSubjects::of(nothing);
        self.evaluator(&subjects)
            .fetch(address, type_id, size)
            .map_err(stop)
    }

    fn walk(&mut self, walk: &Walk, subjects: RuleSubjects, context: Context) -> Walked<()> {
        match walk {
            Walk::String {
                data,
                extent,
                width,
            } => self.string(&subjects, data, extent, *width),
            Walk::Sequence {
                first,
                extent,
                element,
                size,
            } => {
                let first = self.pointer(&subjects, first)?;
                let count = self.count(&subjects, extent, first, *size)?;
                let place = |index: u64| Ok(first.wrapping_add(index.wrapping_mul(*size)));
                self.sequence(count, *element, &place, context)
            }
            Walk::Ring {
                first,
                capacity,
                start,
                length,
                element,
                size,
            } => {
                let first = self.pointer(&subjects, first)?;
                let capacity = self.pointer(&subjects, capacity)?;
                let start = self.pointer(&subjects, start)?;
                let count = self.length(&subjects, length)?;
                let place = |index: u64| {
                    let index = start.wrapping_add(index);
                    let index = index.checked_sub(capacity).unwrap_or(index);
                    Ok(first.wrapping_add(index.wrapping_mul(*size)))
                };
                self.sequence(count, *element, &place, context)
            }
            Walk::Blocks {
                blocks,
                block_length,
                start,
                length,
                element,
                size,
            } => {
                let blocks = self.pointer(&subjects, blocks)?;
                let block_length = self.pointer(&subjects, block_length)?.max(1);
                let start = self.pointer(&subjects, start)?;
                let count = self.length(&subjects, length)?;
                let word = self.symbols.pointer_to(*element);
                let word_size = self.symbols.size_of(word).unwrap_or(8);
                let blocks = (blocks, word, word_size);
                let block = |printer: &Self, number: u64| {
                    let (blocks, word, word_size) = blocks;
                    let place = blocks.wrapping_add(number.wrapping_mul(word_size));
                    let pointer = printer.read(place, word)?;
                    let pointer = pointer.as_integer(printer.symbols).ok_or(UNAVAILABLE)?;
                    Ok::<u64, Stop>(pointer as u64)
                };
                let mut places = Vec::new();
                for index in 0..count.min(self.options.elements) {
                    let index = start.wrapping_add(index);
                    match block(self, index / block_length) {
                        Ok(block) => places
                            .push(block.wrapping_add((index % block_length).wrapping_mul(*size))),
                        Err(_) => break,
                    }
                }
                let place = |index: u64| places.get(index as usize).copied().ok_or(UNAVAILABLE);
                self.sequence(count, *element, &place, context)
            }
            Walk::List {
                first,
                next,
                end,
                length,
                items,
            } => {
                let start = self.pointer(&subjects, first)?;
                let length = match length {
                    Some(length) => Some(self.length(&subjects, length)?),
                    None => None,
                };
                let mut node = start;
                let mut taken = 0;
                let mut after = subjects.clone();
                let step = |printer: &Self| {
                    if length == Some(taken) {
                        return Ok(None);
                    }
                    if taken > 0 {
                        after.node = Some(node);
                        node = printer.pointer(&after, next)?;
                    }
                    after.node = Some(node);
                    let is_end = match end {
                        Some(end) => printer.pointer(&after, end)? == node,
                        None => false,
                    };
                    taken += 1;
                    Ok(Some((node, 0)).filter(|_| node != 0 && !is_end))
                };
                let brackets = brackets(items, false);
                self.items(&subjects, items, step, length, brackets, context)
            }
            Walk::Tree(tree) => self.tree(&subjects, tree, context),
            Walk::Optional { present, value } => {
                if self.number(&subjects, present)? == 0 {
                    self.put_missing("nullopt");
                    return Ok(());
                }
                let value = self.evaluated(&subjects, value)?;
                self.value(&value, context.element());
                Ok(())
            }
            Walk::Variant {
                index,
                storage,
                alternatives,
            } => {
                let index = self.number(&subjects, index)?;
                let alternative = usize::try_from(index)
                    .ok()
                    .and_then(|i| alternatives.get(i));
                let Some(alternative) = alternative else {
                    self.put_missing("<valueless>");
                    return Ok(());
                };
                let address = self.pointer(&subjects, storage)?;
                let value = self.read(address, *alternative)?;
                self.value(&value, context.element());
                Ok(())
            }
            Walk::Pointer { pointer, target } => {
                let address = self.pointer(&subjects, pointer)?;
                self.owned(address, *target, context)
            }
            Walk::Newtype(value) => {
                if self.is_null(&subjects.object) {
                    self.go_address(0);
                    return Ok(());
                }
                let value = self.evaluated(&subjects, value)?;
                self.value(&value, context.inner());
                Ok(())
            }
            Walk::Table {
                control,
                entries,
                mask,
                length,
                size,
                items,
            } => {
                let control = self.pointer(&subjects, control)?;
                let entries = self.pointer(&subjects, entries)?;
                let buckets = self.length(&subjects, mask)?.saturating_add(1);
                let length = self.length(&subjects, length)?;
                let mut bucket = 0;
                let mut taken = 0;
                let step = |printer: &Self| {
                    while taken < length && bucket < buckets {
                        let place = control.wrapping_add(bucket);
                        bucket += 1;
                        let (byte, known) = read_memory(printer.symbols, &printer.state, place, 1);
                        match (&byte[..], &known[..]) {
                            ([byte], [true]) if byte & 0x80 == 0 => {
                                taken += 1;
                                let before = bucket.wrapping_mul(*size);
                                return Ok(Some((entries.wrapping_sub(before), 0)));
                            }
                            (_, [true]) => {}
                            _ => return Err(UNAVAILABLE),
                        }
                    }
                    Ok(None)
                };
                self.items(&subjects, items, step, Some(length), ("{", "}"), context)
            }
            Walk::BTree(tree) => self.btree(&subjects, tree, context),
            Walk::Buckets(buckets) => self.buckets(&subjects, buckets, context),
            Walk::Bits {
                first,
                start,
                length,
            } => self.bits(&subjects, [first, start, length]),
            Walk::Interface(interface) => self.interface(&subjects, interface, context),
            Walk::Reference { pointer, target } => {
                let address = self.pointer(&subjects, pointer)?;
                self.reference_to(address, *target, context)
            }
            Walk::Function {
                symbol,
                argument,
                pointer,
            } => self.function(&subjects, symbol, *argument, pointer.as_ref()),
            Walk::Quantity { value, unit } => {
                let value = self.evaluated(&subjects, value)?;
                self.value(&value, context.inner());
                self.put(unit);
                Ok(())
            }
            Walk::Duration {
                seconds,
                nanoseconds,
            } => {
                let seconds = self.number(&subjects, seconds)?;
                let nanoseconds = self.number(&subjects, nanoseconds)?;
                if self.language == Language::Go {
                    let whole = seconds.saturating_mul(1_000_000_000);
                    let whole = whole.saturating_add(nanoseconds);
                    self.put(&go_duration(whole));
                    self.record(|recorder| recorder.set(Datum::Integer(whole)));
                    return Ok(());
                }
                let seconds = u64::try_from(seconds).map_err(|_| Stop::Unfit)?;
                let nanoseconds = u32::try_from(nanoseconds).map_err(|_| Stop::Unfit)?;
                if nanoseconds >= 1_000_000_000 {
                    return Err(Stop::Unfit);
                }
                let duration = std::time::Duration::new(seconds, nanoseconds);
                if let Ok(nanoseconds) = i128::try_from(duration.as_nanos()) {
                    self.record(|recorder| recorder.set(Datum::Integer(nanoseconds)));
                }
                self.put(&format!("{duration:?}"));
                Ok(())
            }
            Walk::Structure(parts, has_more) => self.parts(&subjects, parts, *has_more, context),
            Walk::Tuple(parts) => {
                self.put("(");
                self.begin_parts(Parts::Structure);
                for (index, part) in parts.iter().enumerate() {
                    self.put(if index > 0 { ", " } else { "" });
                    let value = self.evaluated(&subjects, part)?;
                    self.value(&value, context.element());
                }
                let is_single = parts.len() == 1 && self.language == Language::Rust;
                self.put(if is_single { ",)" } else { ")" });
                Ok(())
            }
        }
    }

    /// The number of elements; an impossible number means that the value is not valid for its type.
    fn length(&self, subjects: &RuleSubjects, node: &Node) -> Walked<u64> {
        u64::try_from(self.number(subjects, node)?).map_err(|_| UNAVAILABLE)
    }

    fn count(
        &self,
        subjects: &RuleSubjects,
        extent: &Extent,
        first: u64,
        size: u64,
    ) -> Walked<u64> {
        match extent {
            Extent::Length(length) => self.length(subjects, length),
            Extent::End(end) => {
                let bytes = self.pointer(subjects, end)?.checked_sub(first);
                Ok(bytes.ok_or(UNAVAILABLE)? / size.max(1))
            }
        }
    }

    /// Whether the object was collected twice, with different contents.
    fn was_changed(&self, subjects: &RuleSubjects) -> bool {
        match subjects.object.place {
            Place::Memory(address) => {
                let length = subjects.object.contents.len();
                self.state.memory_differs(address, length)
            }
            _ => false,
        }
    }

    fn string(
        &mut self,
        subjects: &RuleSubjects,
        data: &Node,
        extent: &Extent,
        width: u64,
    ) -> Walked<()> {
        let address = self.pointer(subjects, data)?;
        let length = self.count(subjects, extent, address, width)?;
        let most = length.min(self.options.elements);
        let width = width as usize;
        let (mut bytes, known) =
            read_memory(self.symbols, &self.state, address, most as usize * width);
        let good = known.iter().position(|known| !known).unwrap_or(known.len());
        bytes.truncate(good / width * width);
        if bytes.is_empty() && length > 0 {
            return Err(UNAVAILABLE);
        }
        let is_cut = ((bytes.len() / width) as u64) < length;
        if self.language == Language::Go {
            self.go_string(&bytes, is_cut);
        } else {
            self.plain_string(&bytes, width, is_cut);
        }
        Ok(())
    }

    /// Elements with one place each.
    fn sequence(
        &mut self,
        count: u64,
        element: TypeId,
        place: &dyn Fn(u64) -> Walked<u64>,
        context: Context,
    ) -> Walked<()> {
        self.put("[");
        self.begin_parts(Parts::List);
        for index in 0..count {
            let value = match place(index).and_then(|place| self.read(place, element)) {
                Ok(value) if !is_unknown(&value) && index < self.options.elements => value,
                Err(Stop::Unfit) => return Err(Stop::Unfit),
                _ if index == 0 => return Err(UNAVAILABLE),
                _ => {
                    self.put("...");
                    self.record(Recorder::cut);
                    break;
                }
            };
            self.put(if index > 0 { self.separator() } else { "" });
            self.value(&value, context.element());
        }
        self.put("]");
        Ok(())
    }

    /// The items of the nodes that `step` comes to.
    fn items(
        &mut self,
        subjects: &RuleSubjects,
        items: &Items,
        mut step: impl FnMut(&Self) -> Walked<Option<(u64, u64)>>,
        length: Option<u64>,
        (open, close): (&str, &str),
        context: Context,
    ) -> Walked<()> {
        self.put(open);
        self.begin_parts(match items {
            Items::Element(_) => Parts::List,
            Items::Pair(..) => Parts::Map,
        });
        let mut index = 0;
        let mut seen = HashSet::new();
        loop {
            let (node, number) = match step(self) {
                // There are fewer nodes than the container's count.
                Ok(None) if length.is_some_and(|length| index < length) => {
                    self.state.note_difference();
                    self.record(Recorder::cut);
                    break;
                }
                // A node that a thread moved while the others were collected.
                Ok(Some(item)) if !seen.insert(item) => {
                    self.state.note_difference();
                    self.record(Recorder::cut);
                    break;
                }
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(Stop::Unfit) => return Err(Stop::Unfit),
                Err(Stop::Missing(why)) if index == 0 => return Err(Stop::Missing(why)),
                Err(Stop::Missing(_)) => {
                    self.put("...");
                    self.record(Recorder::cut);
                    break;
                }
            };
            let at_node = RuleSubjects {
                node: Some(node),
                index: Some(number),
                ..subjects.clone()
            };
            let values: Vec<Value> = items
                .nodes()
                .map(|item| self.evaluated(&at_node, item))
                .collect::<Walked<_>>()?;
            if values.iter().all(is_unknown) || index >= self.options.elements {
                if index == 0 {
                    return Err(UNAVAILABLE);
                }
                self.put("...");
                self.record(Recorder::cut);
                break;
            }
            self.put(if index > 0 { ", " } else { "" });
            for (part, value) in values.iter().enumerate() {
                self.put(if part > 0 { ": " } else { "" });
                self.value(value, context.element());
            }
            index += 1;
        }
        self.put(close);
        Ok(())
    }

    /// A tree's items, in its order.
    fn tree(&mut self, subjects: &RuleSubjects, tree: &Tree, context: Context) -> Walked<()> {
        let length = self.length(subjects, &tree.length)?;
        let root = self.pointer(subjects, &tree.root)?;
        let mut at = subjects.clone();
        let mut node = 0;
        let mut taken = 0;
        let mut steps = MOST_STEPS;
        let next = |printer: &Self| {
            if taken == length {
                return Ok(None);
            }
            let mut follow = |from: u64, node: &Node| {
                steps = steps.checked_sub(1).ok_or(UNAVAILABLE)?;
                at.node = Some(from);
                printer.pointer(&at, node)
            };
            let mut down = if taken == 0 {
                root
            } else {
                follow(node, &tree.right)?
            };
            taken += 1;
            if down != 0 {
                loop {
                    match follow(down, &tree.left)? {
                        0 => break,
                        left => down = left,
                    }
                }
                node = down;
            } else {
                loop {
                    let above = follow(node, &tree.parent)?;
                    if above == 0 {
                        return Ok(None);
                    }
                    let was_right = follow(above, &tree.right)? == node;
                    node = above;
                    if !was_right {
                        break;
                    }
                }
            }
            // The parent of the root is in the container itself: there are fewer nodes than its count.
            Ok(Some((node, 0)).filter(|_| !subjects.object.is_over(Address(node))))
        };
        let brackets = brackets(&tree.items, self.language == Language::Rust);
        self.items(subjects, &tree.items, next, Some(length), brackets, context)
    }

    /// The elements of a tree whose nodes have several.
    fn btree(&mut self, subjects: &RuleSubjects, tree: &BTree, context: Context) -> Walked<()> {
        let length = self.length(subjects, &tree.length)?;
        let word = self.symbols.pointer_to(tree.root.type_id);
        let word_size = self.symbols.size_of(word).unwrap_or(8);
        let (mut node, mut height) = match length {
            0 => (0, 0),
            _ => (
                self.pointer(subjects, &tree.root)?,
                self.length(subjects, &tree.height)?,
            ),
        };
        let mut index = 0;
        let mut taken = 0;
        let mut at = subjects.clone();
        let mut is_new = true;
        let next = |printer: &Self| {
            if taken == length {
                return Ok(None);
            }
            for _ in 0..MOST_STEPS {
                at.node = Some(node);
                at.index = Some(index);
                if is_new && height > 0 {
                    // Down to the leaf before the next element.
                    let edges = printer.pointer(&at, &tree.edges)?;
                    let place = edges.wrapping_add(index.wrapping_mul(word_size));
                    let child = printer.read(place, word)?;
                    node = child.as_integer(printer.symbols).ok_or(UNAVAILABLE)? as u64;
                    height -= 1;
                    index = 0;
                    continue;
                }
                if index < printer.pointer(&at, &tree.size)? {
                    let found = (node, index);
                    index += 1;
                    taken += 1;
                    is_new = true;
                    return Ok(Some(found));
                }
                let parent = printer.pointer(&at, &tree.parent)?;
                if parent == 0 {
                    return Ok(None);
                }
                index = printer.pointer(&at, &tree.parent_index)?;
                node = parent;
                height += 1;
                is_new = false;
            }
            Err(UNAVAILABLE)
        };
        self.items(
            subjects,
            &tree.items,
            next,
            Some(length),
            ("{", "}"),
            context,
        )
    }

    /// The elements of a hash table of buckets; a map of Go's is written in the order of its keys.
    fn buckets(
        &mut self,
        subjects: &RuleSubjects,
        table: &Buckets,
        context: Context,
    ) -> Walked<()> {
        let length = self.length(subjects, &table.length)?;
        let first = self.pointer(subjects, &table.first)?;
        let count = self.length(subjects, &table.count)?;
        let old = self.pointer(subjects, &table.old)?;
        let old_count = self.length(subjects, &table.old_count)?;
        let mut at = subjects.clone();
        let mut places: Vec<(u64, u64)> = Vec::new();
        let mut number = 0;
        let mut bucket = None;
        let mut is_cut = false;
        for _ in 0..MOST_STEPS {
            let wanted = length.min(self.options.elements);
            if places.len() as u64 >= wanted
                || (bucket.is_none() && number >= old_count.saturating_add(count))
            {
                break;
            }
            let place = bucket.unwrap_or_else(|| {
                let (start, index) = match number.checked_sub(old_count) {
                    Some(index) => (first, index),
                    None => (old, number),
                };
                start.wrapping_add(index.wrapping_mul(table.size))
            });
            at.node = Some(place);
            let full = (0..8).map(|index| {
                at.index = Some(index);
                Ok((index, self.number(&at, &table.full)? != 0))
            });
            let Ok(full) = full.collect::<Walked<Vec<(u64, bool)>>>() else {
                is_cut = true;
                break;
            };
            let full = full.into_iter().filter(|(_, is_full)| *is_full);
            places.extend(full.map(|(index, _)| (place, index)));
            bucket = match self.pointer(&at, &table.overflow) {
                Ok(0) => {
                    number += 1;
                    None
                }
                Ok(next) => Some(next),
                Err(_) => {
                    is_cut = true;
                    break;
                }
            };
        }
        let mut items = Vec::new();
        for (place, index) in places {
            at.node = Some(place);
            at.index = Some(index);
            let values = (table.items.nodes())
                .map(|item| self.evaluated(&at, item))
                .collect::<Walked<Vec<Value>>>()?;
            if values.iter().all(is_unknown) {
                is_cut = true;
                break;
            }
            // The bucket is there, and the target of a key in it is not.
            if values.first().is_some_and(|key| self.is_lost_text(key)) {
                is_cut = true;
                continue;
            }
            items.push(values);
        }
        if items.is_empty() && length > 0 {
            return Err(UNAVAILABLE);
        }
        if self.language == Language::Go {
            let mut keyed: Vec<(Option<SortKey>, Vec<Value>)> = items
                .into_iter()
                .map(|values| {
                    let key = values.first().and_then(|key| self.sort_key(key));
                    (key, values)
                })
                .collect();
            keyed.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            items = keyed.into_iter().map(|(_, values)| values).collect();
        }
        let shown = items
            .len()
            .min(usize::try_from(self.options.elements).unwrap_or(usize::MAX));
        is_cut |= (shown as u64) < length;
        let (open, close, colon) = match self.language {
            Language::Go => ("map[", "]", ":"),
            _ => ("{", "}", ": "),
        };
        self.put(open);
        self.begin_parts(match table.items {
            Items::Element(_) => Parts::List,
            Items::Pair(..) => Parts::Map,
        });
        if is_cut {
            self.record(Recorder::cut);
        }
        for (index, values) in items.iter().take(shown).enumerate() {
            self.put(if index > 0 { self.separator() } else { "" });
            for (part, value) in values.iter().enumerate() {
                self.put(if part > 0 { colon } else { "" });
                self.value(value, context.element());
            }
        }
        self.put(if is_cut { "..." } else { "" });
        self.put(close);
        Ok(())
    }

    /// Truth values, a bit each.
    fn bits(&mut self, subjects: &RuleSubjects, [first, start, length]: [&Node; 3]) -> Walked<()> {
        let first = self.pointer(subjects, first)?;
        let start = self.length(subjects, start)?;
        let length = self.length(subjects, length)?;
        let shown = length.min(self.options.elements);
        let bytes = start.saturating_add(shown).div_ceil(8);
        let bytes = usize::try_from(bytes).map_err(|_| UNAVAILABLE)?;
        if bytes > LARGEST_VALUE {
            return Err(UNAVAILABLE);
        }
        let (bytes, known) = read_memory(self.symbols, &self.state, first, bytes);
        let bit = |index: u64| {
            let index = start + index;
            let byte = usize::try_from(index / 8).ok()?;
            known.get(byte).filter(|known| **known)?;
            Some(bytes.get(byte)? >> (index % 8) & 1 != 0)
        };
        let bits: Vec<bool> = (0..shown).map_while(bit).collect();
        if length > 0 && bits.is_empty() {
            return Err(UNAVAILABLE);
        }
        self.put("[");
        for (index, bit) in bits.iter().enumerate() {
            self.put(if index > 0 { self.separator() } else { "" });
            self.put(if *bit { "true" } else { "false" });
        }
        let is_cut = (bits.len() as u64) < length;
        self.record(|recorder| {
            let items = bits.iter().map(|bit| Datum::Boolean(*bit)).collect();
            recorder.set(Datum::List { items, is_cut });
        });
        self.put(if is_cut { "...]" } else { "]" });
        Ok(())
    }

    /// A value of a type that is known at run time.
    fn interface(
        &mut self,
        subjects: &RuleSubjects,
        interface: &Interface,
        context: Context,
    ) -> Walked<()> {
        let descriptor = self.pointer(subjects, &interface.descriptor)?;
        if descriptor == 0 {
            self.go_address(0);
            return Ok(());
        }
        let data = self.pointer(subjects, &interface.data)?;
        let Some(type_id) = self.symbols.dynamic_type(Address(descriptor)) else {
            self.put(&format!("<a type without debug information> {data:#x}"));
            return Ok(());
        };
        let is_pointer = matches!(scalar(self.symbols, type_id), Scalar::Pointer { .. });
        let value = if interface.direct.is_some() && is_pointer {
            let evaluator = self.evaluator(subjects);
            evaluator.integer(i128::from(data), type_id)
        } else {
            self.read(data, type_id)?
        };
        self.value(&value, context.inner());
        Ok(())
    }

    /// Whether a reference to a type is written with its target.
    pub(super) fn is_shown_behind_reference(&self, target: TypeId) -> bool {
        matches!(
            &*strip(self.symbols, target).1,
            Type::Structure { .. } | Type::Array { .. }
        ) && !matches!(
            self.walks.and_then(|walks| walks.walk(target)).as_deref(),
            Some(Walk::String { .. } | Walk::Interface(_))
        )
    }

    /// A pointer, and its target if it is the whole value.
    fn reference_to(&mut self, address: u64, target: TypeId, context: Context) -> Walked<()> {
        let is_shown = self.is_shown_behind_reference(target);
        if address == 0 || context.depth > 0 || !is_shown {
            self.go_address(address);
            return Ok(());
        }
        self.put("&");
        self.target(address, target, context)
    }

    /// What a pointer leads to.
    fn target(&mut self, address: u64, target: TypeId, context: Context) -> Walked<()> {
        match self.read(address, target) {
            Ok(value) if !is_unknown(&value) => self.value(&value, context.element()),
            Err(Stop::Unfit) => return Err(Stop::Unfit),
            Err(Stop::Missing(why)) => self.put_missing(why),
            Ok(_) => self.put_missing("<unavailable>"),
        }
        Ok(())
    }

    /// A function object: the type of its target, or the function that this is.
    fn function(
        &mut self,
        subjects: &RuleSubjects,
        symbol: &Node,
        argument: usize,
        pointer: Option<&Node>,
    ) -> Walked<()> {
        let symbol = self.pointer(subjects, symbol)?;
        if symbol == 0 {
            self.put_missing("nullptr");
            return Ok(());
        }
        let name = self
            .symbols
            .symbol_at(Address(symbol))
            .map(|(name, _)| name);
        let target = name
            .as_deref()
            .and_then(|name| template_argument(name, argument));
        let Some(target) = target else {
            self.address(symbol);
            return Ok(());
        };
        match pointer.filter(|_| target.contains("(*)")) {
            Some(pointer) => {
                let address = self.pointer(subjects, pointer)?;
                self.address(address);
            }
            None => self.put(target),
        }
        Ok(())
    }

    /// Whether a value is a pointer that points to nothing.
    fn is_null(&self, value: &Value) -> bool {
        matches!(scalar(self.symbols, value.type_id), Scalar::Pointer { .. })
            && value.as_integer(self.symbols) == Some(0)
    }

    /// Whether a value is a text without any known byte.
    fn is_lost_text(&self, value: &Value) -> bool {
        let walk = self.walks.and_then(|walks| walks.walk(value.type_id));
        let Some(Walk::String { data, extent, .. }) = walk.as_deref() else {
            return false;
        };
        let Some((address, length)) = self.string_place(value, data, extent) else {
            return true;
        };
        let (_, known) = read_memory(self.symbols, &self.state, address, length.min(1));
        known.contains(&false)
    }

    /// Where the characters of a string are, and how many.
    pub(super) fn string_place(
        &self,
        value: &Value,
        data: &Node,
        extent: &Extent,
    ) -> Option<(u64, usize)> {
        let subjects = RuleSubjects::of(value.clone());
        let address = self.pointer(&subjects, data).ok()?;
        let length = self.count(&subjects, extent, address, 1).ok()?;
        let length = usize::try_from(length).ok()?;
        (length <= LARGEST_VALUE).then_some((address, length))
    }

    /// An owning pointer, and its target.
    fn owned(&mut self, address: u64, target: TypeId, context: Context) -> Walked<()> {
        let is_rust = self.language == Language::Rust;
        if address == 0 {
            self.put_missing(if is_rust { "0x0" } else { "nullptr" });
            return Ok(());
        }
        let is_data = !matches!(
            &*strip(self.symbols, target).1,
            Type::Void | Type::Function { .. }
        );
        if !is_rust || !is_data {
            self.put(&format!("{address:#x}"));
            if !is_data {
                self.record(|recorder| recorder.set(Datum::Address(address)));
                return Ok(());
            }
            self.put(" -> ");
        }
        self.target(address, target, context)
    }

    /// The parts that a rule names.
    fn parts(
        &mut self,
        subjects: &RuleSubjects,
        parts: &[(String, Node)],
        has_more: bool,
        context: Context,
    ) -> Walked<()> {
        let is_rust = self.language == Language::Rust;
        if is_rust {
            let name = self.short_name(subjects.object.type_id);
            self.put(&format!("{name} "));
        }
        self.put(if is_rust { "{ " } else { "{" });
        self.begin_parts(Parts::Structure);
        for (index, (name, part)) in parts.iter().enumerate() {
            self.put(if index > 0 { ", " } else { "" });
            self.put(name);
            self.record(|recorder| recorder.name(name));
            self.put(if is_rust { ": " } else { " = " });
            let value = self.evaluated(subjects, part)?;
            self.value(&value, context.member());
        }
        if has_more {
            self.put(if is_rust { ", .." } else { ", ..." });
        }
        self.put(if is_rust { " }" } else { "}" });
        Ok(())
    }
}

/// A template argument of a symbol's name, counted from 0.
fn template_argument(name: &str, number: usize) -> Option<&str> {
    let (_, arguments) = name.split_once('<')?;
    let mut depth = 0_u32;
    let mut start = 0;
    let mut found = 0;
    let bytes = arguments.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_arrow = *byte == b'>' && at > 0 && bytes.get(at - 1) == Some(&b'-');
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b'>' if depth > 0 && !is_arrow => depth -= 1,
            b',' | b'>' if depth == 0 && !is_arrow => {
                if found == number {
                    return arguments.get(start..at).map(str::trim);
                }
                if *byte == b'>' {
                    return None;
                }
                found += 1;
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Rust writes sets with the brackets of maps.
const fn brackets(items: &Items, is_rust_set: bool) -> (&'static str, &'static str) {
    match items {
        Items::Element(_) if !is_rust_set => ("[", "]"),
        _ => ("{", "}"),
    }
}

fn is_unknown(value: &Value) -> bool {
    value.is_unavailable() || value.is_optimized_out() && !value.synthetic
}

/// The effect of an expression's error on the value.
fn stop(error: crate::ExpressionError) -> Stop {
    match error.kind() {
        ExpressionErrorKind::Unavailable => UNAVAILABLE,
        ExpressionErrorKind::Redacted => Stop::Missing(super::REDACTED),
        ExpressionErrorKind::OptimizedOut(_) | ExpressionErrorKind::ValueOptimizedOut => {
            Stop::Missing("<optimized out>")
        }
        ExpressionErrorKind::Memory(_) => Stop::Missing("<unreadable>"),
        _ => Stop::Unfit,
    }
}
