//! Queries about types.

use std::sync::Arc;

use tracewire_arch::Architecture;

use super::table::{TypeSource, TypeTable};
use super::{Type, TypeId, base};
use crate::dwarf::Die;
use crate::module::Module;
use crate::modules::Modules;

/// An unknown type.
pub(super) fn unknown() -> Type {
    Type::Unknown {
        name: "<unknown type>".to_owned(),
        size: 0,
    }
}

/// How deep types may nest.
const DEEPEST_TYPE: usize = 64;

/// The types of a program: those that are known, and the modules that the others are read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types<'a> {
    modules: &'a Modules,
    table: &'a TypeTable,
}

impl<'a> Types<'a> {
    pub(crate) const fn new(modules: &'a Modules, table: &'a TypeTable) -> Self {
        Self { modules, table }
    }

    /// The modules of the program.
    pub(crate) const fn modules(self) -> &'a Modules {
        self.modules
    }

    /// The types that are already known.
    pub(super) const fn table(self) -> &'a TypeTable {
        self.table
    }

    /// The entry of the debug information that a type is read from, and which dimension of it.
    pub(super) fn dimension_of(self, type_id: TypeId) -> Option<(&'a Module, Die, u32)> {
        let TypeSource::Entry(module, die, dimension) = self.table.source(type_id)? else {
            return None;
        };
        Some((self.modules.any(module)?, die, dimension))
    }

    /// The entry of the debug information that a type is read from.
    pub(crate) fn entry_of(self, type_id: TypeId) -> Option<(&'a Module, Die)> {
        let (module, die, _) = self.dimension_of(type_id)?;
        Some((module, die))
    }

    /// A type. An id of another `Symbols` gives [`Type::Unknown`].
    pub(crate) fn type_of(self, type_id: TypeId) -> Arc<Type> {
        if let Some(found) = self.table.get(type_id) {
            return found;
        }
        let Some(source) = self.table.source(type_id) else {
            return Arc::new(unknown());
        };
        if !self.table.start_reading(type_id) {
            return Arc::new(Type::Unknown {
                name: "<type defined by itself>".to_owned(),
                size: 0,
            });
        }
        let read = Arc::new(self.read_type(source));
        self.table.set(type_id, &read);
        read
    }

    /// A type's size in bytes, as C's `sizeof` gives it, after typedefs and qualifiers; `None` for one that has
    /// none (an incomplete structure, a flexible array). `void` and functions have 1, as in GDB.
    pub(crate) fn size_of(self, type_id: TypeId) -> Option<u64> {
        let mut type_id = type_id;
        let mut count = 1u64;
        // Bounded: damaged types may be defined by themselves.
        for _ in 0..DEEPEST_TYPE {
            let size = match &*self.type_of(type_id) {
                Type::Void | Type::Function { .. } => 1,
                Type::Base { size, .. }
                | Type::Pointer { size, .. }
                | Type::Enumeration { size, .. }
                | Type::MemberPointer { size, .. }
                | Type::Unknown { size, .. } => *size,
                // A reference has the size of its target.
                Type::Reference { target, .. }
                | Type::Typedef { target, .. }
                | Type::Qualified { target, .. } => {
                    type_id = *target;
                    continue;
                }
                Type::Structure {
                    declaration: true, ..
                } => return None,
                Type::Structure { size, .. } => *size,
                Type::Array {
                    element,
                    count: elements,
                    ..
                } => {
                    count = count.checked_mul((*elements)?)?;
                    type_id = *element;
                    continue;
                }
            };
            return count.checked_mul(size);
        }
        None
    }

    /// How many bytes a variable of a type takes: a reference takes those of a pointer.
    pub(crate) fn stored_size(self, type_id: TypeId) -> Option<u64> {
        match *self.strip(type_id) {
            Type::Reference { size, .. } => Some(size),
            _ => self.size_of(type_id),
        }
    }

    /// A type without its typedefs and qualifiers.
    pub(crate) fn strip(self, type_id: TypeId) -> Arc<Type> {
        self.type_of(self.strip_id(type_id))
    }

    /// The number of the type without typedefs and qualifiers.
    pub(crate) fn strip_id(self, type_id: TypeId) -> TypeId {
        let mut type_id = type_id;
        for _ in 0..DEEPEST_TYPE {
            match *self.type_of(type_id) {
                Type::Typedef { target, .. } | Type::Qualified { target, .. } => type_id = target,
                _ => break,
            }
        }
        type_id
    }

    /// The pointer type to a type.
    pub(crate) fn pointer_to(self, target: TypeId) -> TypeId {
        let size = self
            .modules
            .architecture()
            .map_or(8, |architecture| architecture.pointer_size().into());
        self.table.pointer(target, size)
    }

    /// The array type of `count` elements.
    pub(crate) fn array_of(self, element: TypeId, count: u64) -> TypeId {
        self.table.array(element, count)
    }

    /// A type made on the fly.
    pub(crate) fn make_type(self, made: Type) -> TypeId {
        self.table.make(made)
    }

    /// A builtin type with a name, made when it is first requested.
    pub(crate) fn make_named(
        self,
        name: &str,
        made: impl FnOnce() -> Option<Type>,
    ) -> Option<TypeId> {
        self.table.make_named(name, made)
    }

    /// One of C's base types by its name (`int`, `unsigned long`, `char`, `double`, …) with the sizes of the
    /// program's machine, there in programs without debug information too.
    pub(crate) fn base_type(self, name: &str) -> Option<TypeId> {
        let architecture = self.modules.architecture().unwrap_or(Architecture::X86_64);
        let name = base::canonical_c_name(name)?;
        self.make_named(name, || base::c_type(name, architecture))
    }
}
