//! The units of debug information and their entries.

use gimli::{AttributeValue, UnitOffset, constants};

use crate::module::Reader;

pub(crate) type Unit = gimli::Unit<Reader>;
pub(crate) type Entry = gimli::DebuggingInformationEntry<Reader>;
pub(crate) type Value = AttributeValue<Reader>;

/// An entry of a module's debug information.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Die {
    /// Which unit, by its place in [`DebugInformation`](super::DebugInformation).
    pub(crate) unit: usize,
    pub(crate) offset: UnitOffset<usize>,
}

/// Whether a flag is set.
pub(crate) fn flag(entry: &Entry, name: constants::DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}
