//! The numbers of modules.

/// A module in a [`crate::Symbols`]: its number in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub u32);
