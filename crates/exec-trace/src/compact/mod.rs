//! The compact form: a trace's records in columns, from which its text is made again byte for byte.
//!
//! One form of file serves as the index of a trace (`NAME.twindex`, beside it) and in place of it (`NAME.twx`).
//! `docs/formats/execution-index.md` describes it: segments, blocks, templates, groups and slots.

pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod column;
pub(crate) mod effect;
pub(crate) mod encode;
pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod grouping;
pub(crate) mod map;
pub(crate) mod numbers;
pub(crate) mod part;
pub(crate) mod segment;
pub(crate) mod template;
pub(crate) mod templates;
pub(crate) mod token;
pub(crate) mod value;

/// How many groups a block has at most.
pub(crate) const BLOCK: usize = 4096;
/// How many groups are known after a place where a block ends.
pub(crate) const AHEAD: usize = 72;

pub use value::RegisterValue;
