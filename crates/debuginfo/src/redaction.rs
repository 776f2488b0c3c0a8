//! Which bytes of values are not recorded, by the names of variables, members and types.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tracewire_model::Redactions;

use crate::types::{Member, Type, TypeId, Types, VariantPart};

/// How deep types are looked into; a damaged type may contain itself.
const DEEPEST: u32 = 64;

/// The most ranges of an array; one with more is redacted as a whole.
const MOST_RANGES: u64 = 4096;

/// Bytes of a value: the first one and how many.
pub type ByteRange = (u64, u64);

/// The patterns, and a cache of their results for types.
#[derive(Debug, Default)]
pub(crate) struct Redacted {
    patterns: Arc<Redactions>,
    ranges: RefCell<HashMap<TypeId, Arc<[ByteRange]>>>,
}

impl Redacted {
    pub(crate) fn new(patterns: Arc<Redactions>) -> Self {
        Self {
            patterns,
            ranges: RefCell::default(),
        }
    }

    pub(crate) const fn patterns(&self) -> &Arc<Redactions> {
        &self.patterns
    }

    /// Whether a variable, a member or a function of this name is redacted.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.patterns.pattern_of(name).is_some()
    }

    /// With the types of the program.
    pub(crate) const fn of_types<'a>(&'a self, types: Types<'a>) -> RedactedTypes<'a> {
        RedactedTypes {
            redacted: self,
            types,
        }
    }
}

/// The redacted parts of a program's types.
pub(crate) struct RedactedTypes<'a> {
    redacted: &'a Redacted,
    types: Types<'a>,
}

impl RedactedTypes<'_> {
    /// Whether values of a type are redacted by one of its names, or by one of its target or its elements. A pointer is no value of
    /// its target.
    pub(crate) fn redacts(&self, type_id: TypeId) -> bool {
        if self.redacted.patterns.is_empty() {
            return false;
        }
        let mut at = type_id;
        for _ in 0..DEEPEST {
            let found = self.types.type_of(at);
            let (name, below) = match &*found {
                Type::Typedef { name, target } => (Some(name), Some(*target)),
                Type::Qualified { target, .. } | Type::Reference { target, .. } => {
                    (None, Some(*target))
                }
                Type::Array { element, .. } => (None, Some(*element)),
                Type::Structure { name, .. } | Type::Enumeration { name, .. } => {
                    (name.as_ref(), None)
                }
                _ => (None, None),
            };
            if name.is_some_and(|name| self.redacted.has_name(name)) {
                return true;
            }
            match below {
                Some(below) => at = below,
                None => return false,
            }
        }
        true
    }

    /// The redacted bytes of a value of the type, in order and apart from each other. They may reach beyond the value.
    pub(crate) fn ranges(&self, type_id: TypeId) -> Arc<[ByteRange]> {
        self.ranges_within(type_id, DEEPEST)
    }

    fn ranges_within(&self, type_id: TypeId, depth: u32) -> Arc<[ByteRange]> {
        if self.redacted.patterns.is_empty() {
            return Arc::default();
        }
        if let Some(known) = self.redacted.ranges.borrow().get(&type_id) {
            return Arc::clone(known);
        }
        let mut found = Vec::new();
        self.add_ranges(type_id, depth, &mut found);
        let ranges: Arc<[ByteRange]> = merged(found).into();
        let mut known = self.redacted.ranges.borrow_mut();
        known.insert(type_id, Arc::clone(&ranges));
        ranges
    }

    fn add_ranges(&self, type_id: TypeId, depth: u32, found: &mut Vec<ByteRange>) {
        let Some(depth) = depth.checked_sub(1) else {
            return found.push((0, u64::MAX));
        };
        if self.redacts(type_id) {
            return found.push((0, u64::MAX));
        }
        match &*self.types.type_of(type_id) {
            Type::Typedef { target, .. } | Type::Qualified { target, .. } => {
                found.extend(self.ranges_within(*target, depth).iter());
            }
            Type::Structure {
                members, variants, ..
            } => {
                for member in members {
                    self.add_member(member, depth, found);
                }
                if let Some(part) = variants {
                    self.add_variants(part, depth, found);
                }
            }
            Type::Array {
                element,
                count: Some(count),
                ..
            } => {
                let inner = self.ranges_within(*element, depth);
                let size = self.types.size_of(*element).unwrap_or(0);
                if inner.is_empty() {
                } else if count.saturating_mul(inner.len() as u64) > MOST_RANGES || size == 0 {
                    found.push((0, u64::MAX));
                } else {
                    for index in 0..*count {
                        let inside = inner.iter().map(|(start, length)| {
                            let length = (*length).min(size.saturating_sub(*start));
                            (index.saturating_mul(size).saturating_add(*start), length)
                        });
                        found.extend(inside);
                    }
                }
            }
            _ => {}
        }
    }

    fn add_member(&self, member: &Member, depth: u32, found: &mut Vec<ByteRange>) {
        let name = member.name.as_deref().filter(|_| !member.base_class);
        let is_redacted = name.is_some_and(|name| self.redacted.has_name(name));
        let (start, size) = match member.bits {
            Some((first, width)) => {
                let size = (first % 8).saturating_add(width).div_ceil(8);
                (member.offset.saturating_add(first / 8), size)
            }
            None => (member.offset, self.storage_size(member.type_id)),
        };
        let inner = match is_redacted {
            true => Arc::from([(0, size)]),
            false => self.ranges_within(member.type_id, depth),
        };
        if inner.is_empty() {
            return;
        }
        // The place of a virtual base class is not known.
        if member.offset == u64::MAX {
            return found.push((0, u64::MAX));
        }
        let inside = inner.iter().map(|(at, length)| {
            let length = (*length).min(size.saturating_sub(*at));
            (start.saturating_add(*at), length)
        });
        found.extend(inside.filter(|(_, length)| *length > 0));
    }

    fn add_variants(&self, part: &VariantPart, depth: u32, found: &mut Vec<ByteRange>) {
        for variant in &part.variants {
            let name = variant.member.name.as_deref();
            let content = self.types.type_of(variant.member.type_id);
            let (true, Type::Structure { members, .. }) = (
                name.is_some_and(|name| self.redacted.has_name(name)),
                &*content,
            ) else {
                // The variant's own type has its name.
                if let Type::Structure { members, .. } = &*content {
                    for member in members {
                        self.add_member(&shifted(member, variant.member.offset), depth, found);
                    }
                }
                continue;
            };
            for member in members {
                let start = variant.member.offset.saturating_add(member.offset);
                found.push((start, self.storage_size(member.type_id)));
            }
        }
    }

    /// How many bytes a member of the type takes.
    fn storage_size(&self, type_id: TypeId) -> u64 {
        let mut at = type_id;
        for _ in 0..DEEPEST {
            match &*self.types.type_of(at) {
                Type::Typedef { target, .. } | Type::Qualified { target, .. } => at = *target,
                Type::Reference { size, .. } => return *size,
                Type::Array { count: None, .. } => return u64::MAX,
                _ => break,
            }
        }
        self.types.size_of(at).unwrap_or(u64::MAX)
    }
}

fn shifted(member: &Member, by: u64) -> Member {
    Member {
        offset: member.offset.saturating_add(by),
        ..member.clone()
    }
}

/// The ranges in order, with those together that touch.
fn merged(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_unstable();
    let mut merged: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for (start, length) in ranges {
        match merged.last_mut() {
            Some((last, so_far)) if start <= last.saturating_add(*so_far) => {
                let end = start.saturating_add(length);
                *so_far = (*so_far).max(end - *last);
            }
            _ => merged.push((start, length)),
        }
    }
    merged
}
