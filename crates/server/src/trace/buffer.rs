//! The trace buffer of a session.

use tracewire_experiment::{CircularStore, FrameStore, LinearStore, StoreError};
use tracewire_tracefile::ByteOrder;

/// The size of a trace buffer of which nobody has said anything, in bytes; gdbserver's.
pub(crate) const DEFAULT_SIZE: u64 = 0x50_0000;

/// The largest buffer that is made for a client, in bytes.
const LARGEST: u64 = 4 << 30;

/// A trace buffer in memory.
#[derive(Debug)]
pub(crate) enum Buffer {
    Linear(LinearStore),
    Circular(CircularStore),
}

impl Buffer {
    pub(crate) fn new(size: u64, circular: bool, order: ByteOrder) -> Result<Self, StoreError> {
        if size > LARGEST {
            return Err(StoreError::NoMemory(size));
        }
        Ok(if circular {
            Self::Circular(CircularStore::new(size, order)?)
        } else {
            Self::Linear(LinearStore::new(size)?)
        })
    }

    /// All frames in order, in two parts.
    pub(crate) fn bytes(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Linear(store) => (store.bytes(), &[]),
            Self::Circular(store) => store.bytes(),
        }
    }
}

macro_rules! either {
    ($self:ident, $store:ident => $what:expr) => {
        match $self {
            Buffer::Linear($store) => $what,
            Buffer::Circular($store) => $what,
        }
    };
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        either!(self, store => store.append(frame))
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        either!(self, store => store.clear())
    }

    fn frames(&self) -> u64 {
        either!(self, store => store.frames())
    }

    fn size(&self) -> Option<u64> {
        either!(self, store => store.size())
    }

    fn used(&self) -> u64 {
        either!(self, store => store.used())
    }

    fn is_circular(&self) -> bool {
        either!(self, store => store.is_circular())
    }
}
