//! What is asked of types.

use std::sync::Arc;

use tracewire_arch::Architecture;
use tracewire_model::Address;

use super::{Type, TypeId, base};
use crate::symbols::{ArrayBound, Symbols};

/// How deep types may nest.
const DEEPEST_TYPE: usize = 64;

impl Symbols {
    /// A type. An id of another `Symbols` gives [`Type::Unknown`].
    #[must_use]
    pub fn type_of(&self, type_id: TypeId) -> Arc<Type> {
        let (found, source) = {
            let types = self.types.borrow();
            (types.get(type_id), types.source(type_id))
        };
        if let Some(found) = found {
            return found;
        }
        let Some(source) = source else {
            return Arc::new(Type::Unknown {
                name: "<unknown type>".to_owned(),
                size: 0,
            });
        };
        if !self.types.borrow_mut().start_reading(type_id) {
            return Arc::new(Type::Unknown {
                name: "<type defined by itself>".to_owned(),
                size: 0,
            });
        }
        let read = Arc::new(self.read_type(source));
        self.types.borrow_mut().set(type_id, &read);
        read
    }

    /// A type's size in bytes, as C's `sizeof` gives it, after typedefs and qualifiers; `None` for one that has
    /// none (an incomplete structure, a flexible array). `void` and functions have 1, as in GDB.
    #[must_use]
    pub fn size_of(&self, type_id: TypeId) -> Option<u64> {
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
                // A reference is as large as what it refers to.
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
    pub(crate) fn stored_size(&self, type_id: TypeId) -> Option<u64> {
        match *self.strip(type_id) {
            Type::Reference { size, .. } => Some(size),
            _ => self.size_of(type_id),
        }
    }

    /// A type behind its typedefs and qualifiers.
    #[must_use]
    pub fn strip(&self, type_id: TypeId) -> Arc<Type> {
        self.type_of(self.strip_id(type_id))
    }

    /// The number of the type behind typedefs and qualifiers.
    #[must_use]
    pub fn strip_id(&self, type_id: TypeId) -> TypeId {
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
    #[must_use]
    pub fn pointer_to(&self, target: TypeId) -> TypeId {
        let size = self
            .architecture()
            .map_or(8, |architecture| architecture.pointer_size().into());
        self.types.borrow_mut().pointer(target, size)
    }

    /// The array type of `count` elements.
    #[must_use]
    pub fn array_of(&self, element: TypeId, count: u64) -> TypeId {
        self.types.borrow_mut().array(element, count)
    }

    /// A type made on the fly.
    #[must_use]
    pub fn make_type(&self, made: Type) -> TypeId {
        self.types.borrow_mut().make(made)
    }

    /// One of C's base types by its name (`int`, `unsigned long`, `char`, `double`, …) with the sizes of the
    /// program's machine, there in programs without debug information too.
    #[must_use]
    pub fn base_type(&self, name: &str) -> Option<TypeId> {
        let architecture = self.architecture().unwrap_or(Architecture::X86_64);
        let name = base::canonical_c_name(name)?;
        self.types
            .borrow_mut()
            .make_named(name, || base::c_type(name, architecture))
    }

    /// Where the upper bound of a variable-length array (an [`Type::Array`] without count) is found at `pc`: the
    /// variable or expression gives the last index; `None` for a flexible array.
    #[must_use]
    pub fn array_bound(&self, array: TypeId, pc: Address) -> Option<ArrayBound> {
        self.read_array_bound(array, pc)
    }
}
