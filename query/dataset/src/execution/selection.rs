//! Which rows of an execution are wanted.

use std::collections::BTreeSet;
use std::ops::Range;

use tracewire_exec_trace::recording::Addresses;

/// Which rows are wanted. A reader may give more rows, and never fewer; see [`Reader::exact_columns`](super::Reader::exact_columns).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The instructions, by their numbers.
    pub instructions: Range<u64>,
    /// The addresses of their code.
    pub code: Option<Addresses>,
    /// The first bytes of what was accessed.
    pub memory: Option<Addresses>,
    /// How many bytes of memory are asked for at once.
    pub sizes: Option<Vec<u8>>,
    /// The names of the registers.
    pub registers: Option<BTreeSet<String>>,
}

impl Selection {
    /// All rows.
    pub const ALL: Self = Self {
        instructions: 0..u64::MAX,
        code: None,
        memory: None,
        sizes: None,
        registers: None,
    };

    /// Whether rows of a register are wanted.
    pub(super) fn has_register(&self, name: &str) -> bool {
        (self.registers.as_ref()).is_none_or(|wanted| wanted.contains(name))
    }

    /// Whether the code at an address is wanted.
    pub(super) fn has_code(&self, address: u64) -> bool {
        self.code.as_ref().is_none_or(|wanted| wanted.has(address))
    }

    /// Whether an access at an address is wanted.
    pub(super) fn has_memory(&self, address: u64) -> bool {
        (self.memory.as_ref()).is_none_or(|wanted| wanted.has(address))
    }
}
