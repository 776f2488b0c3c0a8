//! ELF and DWARF for tracepoints. (Front page to be written with a running example.)
#![deny(missing_docs)]

mod types;

pub use types::{
    BaseEncoding, Enumerator, Language, Member, ReferenceKind, StructureKind, Type, TypeId, Variant,
    VariantPart,
};
