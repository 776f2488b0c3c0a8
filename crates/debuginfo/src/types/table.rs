//! The numbers of types, and the types already read.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Type, TypeId};
use crate::dwarf::Die;
use crate::module::ModuleId;

/// Where a type comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TypeSource {
    /// An entry of a module's debug information. The second and later dimensions of an array are counted.
    Entry(ModuleId, Die, u32),
    /// Made on the fly.
    Made,
}

/// The types of a program; see [`crate::Symbols::type_of`].
#[derive(Debug, Default)]
pub(crate) struct TypeTable {
    sources: Vec<TypeSource>,
    types: Vec<Option<Arc<Type>>>,
    by_source: HashMap<TypeSource, TypeId>,
    pointers: HashMap<TypeId, TypeId>,
    arrays: HashMap<(TypeId, u64), TypeId>,
    named: HashMap<String, TypeId>,
    /// The types made on the fly: asked for again, they are the same.
    made: HashMap<Arc<Type>, TypeId>,
    /// The types that are just being read, outermost first.
    reading: Vec<TypeId>,
}

/// How many types may be read for the sake of one.
const DEEPEST: usize = 64;

impl TypeTable {
    /// The number of a type of the debug information.
    pub(crate) fn id(&mut self, source: TypeSource) -> TypeId {
        if let Some(&id) = self.by_source.get(&source) {
            return id;
        }
        let id = self.push(source, None);
        self.by_source.insert(source, id);
        id
    }

    fn push(&mut self, source: TypeSource, found: Option<Arc<Type>>) -> TypeId {
        // Each type is an entry of some debug information or asked for by name: they do not come to 2^32.
        let id = TypeId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(source);
        self.types.push(found);
        id
    }

    pub(crate) fn source(&self, id: TypeId) -> Option<TypeSource> {
        self.sources.get(id.0 as usize).copied()
    }

    /// A type already read.
    pub(crate) fn get(&self, id: TypeId) -> Option<Arc<Type>> {
        self.types.get(id.0 as usize)?.clone()
    }

    /// Notes that a type is being read; false if that must not be, because the type needs itself or too many
    /// others: the debug information is damaged then.
    pub(crate) fn start_reading(&mut self, id: TypeId) -> bool {
        let may = self.reading.len() < DEEPEST && !self.reading.contains(&id);
        if may {
            self.reading.push(id);
        }
        may
    }

    /// The type that was being read is there.
    pub(crate) fn set(&mut self, id: TypeId, found: &Arc<Type>) {
        self.reading.pop();
        if let Some(slot) = self.types.get_mut(id.0 as usize) {
            *slot = Some(Arc::clone(found));
        }
    }

    /// A type made on the fly.
    pub(crate) fn make(&mut self, made: Type) -> TypeId {
        if let Some(&id) = self.made.get(&made) {
            return id;
        }
        let made = Arc::new(made);
        let id = self.push(TypeSource::Made, Some(Arc::clone(&made)));
        self.made.insert(made, id);
        id
    }

    /// A type with a name of its own, made once.
    pub(crate) fn make_named(
        &mut self,
        key: &str,
        made: impl FnOnce() -> Option<Type>,
    ) -> Option<TypeId> {
        if let Some(&id) = self.named.get(key) {
            return Some(id);
        }
        let id = self.make(made()?);
        self.named.insert(key.to_owned(), id);
        Some(id)
    }

    pub(crate) fn pointer(&mut self, target: TypeId, size: u64) -> TypeId {
        if let Some(&id) = self.pointers.get(&target) {
            return id;
        }
        let id = self.make(Type::Pointer {
            target,
            size,
            name: None,
        });
        self.pointers.insert(target, id);
        id
    }

    pub(crate) fn array(&mut self, element: TypeId, count: u64) -> TypeId {
        if let Some(&id) = self.arrays.get(&(element, count)) {
            return id;
        }
        let id = self.make(Type::Array {
            element,
            count: Some(count),
            vector: false,
        });
        self.arrays.insert((element, count), id);
        id
    }
}
