pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod column;
pub(crate) mod encode;
pub(crate) mod form;
pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod part;
pub(crate) mod segment;
pub(crate) mod token;
pub(crate) mod value;

/// How many groups a block has at most.
pub(crate) const BLOCK: usize = 4096;
/// How many groups are known behind a place where a block ends.
pub(crate) const AHEAD: usize = 72;

pub use value::RegisterValue;
