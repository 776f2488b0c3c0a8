//! How much one hit may collect.

/// The most bytes that the actions of one hit may collect. Hostile or careless actions must not use up all memory.
pub const FRAME_LIMIT: u64 = 16 << 20;

/// How many pieces one hit may collect; a loop in an expression could go on collecting for long.
pub(crate) const PIECE_LIMIT: usize = 4096;
