//! The numbers of types, and the types already read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Type, TypeId};
use crate::dwarf::Die;
use crate::module::ModuleId;

/// Where a type comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum TypeSource {
    /// An entry of a module's debug information. The second and later dimensions of an array are counted.
    Entry(ModuleId, Die, u32),
    /// Made on the fly.
    Made,
}

/// The known types of a program, by number. They are read when they are requested.
#[derive(Debug, Default)]
pub(crate) struct TypeTable(RefCell<Known>);

#[derive(Debug, Default)]
struct Known {
    sources: Vec<TypeSource>,
    types: Vec<Option<Arc<Type>>>,
    by_source: HashMap<TypeSource, TypeId>,
    pointers: HashMap<TypeId, TypeId>,
    arrays: HashMap<(TypeId, u64), TypeId>,
    named: HashMap<String, TypeId>,
    /// The types made on request: the same request gives the same type.
    made: HashMap<Arc<Type>, TypeId>,
    /// The types that are just being read, outermost first.
    reading: Vec<TypeId>,
}

/// How many types may be read for the sake of one.
const DEEPEST: usize = 64;

impl TypeTable {
    /// The number of a type of the debug information.
    pub(super) fn id(&self, source: TypeSource) -> TypeId {
        let mut known = self.0.borrow_mut();
        if let Some(&id) = known.by_source.get(&source) {
            return id;
        }
        let id = known.push(source, None);
        known.by_source.insert(source, id);
        id
    }

    pub(super) fn source(&self, id: TypeId) -> Option<TypeSource> {
        self.0.borrow().sources.get(id.0 as usize).copied()
    }

    /// A type already read.
    pub(super) fn get(&self, id: TypeId) -> Option<Arc<Type>> {
        self.0.borrow().types.get(id.0 as usize)?.clone()
    }

    /// Notes that a type is being read. Returns false if it must not be, because the type contains itself or too many others: then
    /// the debug information is damaged.
    pub(super) fn start_reading(&self, id: TypeId) -> bool {
        let reading = &mut self.0.borrow_mut().reading;
        let may = reading.len() < DEEPEST && !reading.contains(&id);
        if may {
            reading.push(id);
        }
        may
    }

    /// The type that was being read is there.
    pub(super) fn set(&self, id: TypeId, found: &Arc<Type>) {
        let mut known = self.0.borrow_mut();
        known.reading.pop();
        if let Some(slot) = known.types.get_mut(id.0 as usize) {
            *slot = Some(Arc::clone(found));
        }
    }

    /// A type made on the fly.
    pub(super) fn make(&self, made: Type) -> TypeId {
        self.0.borrow_mut().make(made)
    }

    /// A builtin type with a name, made once.
    pub(super) fn make_named(
        &self,
        key: &str,
        made: impl FnOnce() -> Option<Type>,
    ) -> Option<TypeId> {
        let mut known = self.0.borrow_mut();
        if let Some(&id) = known.named.get(key) {
            return Some(id);
        }
        let id = known.make(made()?);
        known.named.insert(key.to_owned(), id);
        Some(id)
    }

    pub(super) fn pointer(&self, target: TypeId, size: u64) -> TypeId {
        let mut known = self.0.borrow_mut();
        if let Some(&id) = known.pointers.get(&target) {
            return id;
        }
        let id = known.make(Type::Pointer {
            target,
            size,
            name: None,
        });
        known.pointers.insert(target, id);
        id
    }

    pub(super) fn array(&self, element: TypeId, count: u64) -> TypeId {
        let mut known = self.0.borrow_mut();
        if let Some(&id) = known.arrays.get(&(element, count)) {
            return id;
        }
        let id = known.make(Type::Array {
            element,
            count: Some(count),
            vector: false,
        });
        known.arrays.insert((element, count), id);
        id
    }
}

impl Known {
    fn push(&mut self, source: TypeSource, found: Option<Arc<Type>>) -> TypeId {
        // Each type is an entry of some debug information or requested by name: there are fewer than 2^32.
        let id = TypeId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(source);
        self.types.push(found);
        id
    }

    fn make(&mut self, made: Type) -> TypeId {
        if let Some(&id) = self.made.get(&made) {
            return id;
        }
        let made = Arc::new(made);
        let id = self.push(TypeSource::Made, Some(Arc::clone(&made)));
        self.made.insert(made, id);
        id
    }
}
