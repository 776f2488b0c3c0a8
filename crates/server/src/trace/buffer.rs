//! The trace buffer of a session.

use tracewire_experiment::{CircularStore, FrameStore, LinearStore, StoreError};
use tracewire_packets::Reply;
use tracewire_tracefile::{ByteOrder, Spool};

use super::Trace;
use crate::session::PACKET_SIZE;

/// The size of a trace buffer of which nobody has said anything, in bytes; gdbserver's.
pub(crate) const DEFAULT_SIZE: u64 = 0x50_0000;

/// The largest buffer that is made for a client, in bytes.
const LARGEST: u64 = 4 << 30;

/// A trace buffer in memory.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// With a copy of the frames in a file without a name, where a client may have them saved.
    Linear(LinearStore, Option<Spool>),
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
            Self::Linear(LinearStore::new(size)?, None)
        })
    }

    /// All frames in order, in two parts.
    pub(crate) fn bytes(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Linear(store, _) => (store.bytes(), &[]),
            Self::Circular(store) => store.bytes(),
        }
    }

    /// Has the frames to come copied into a file as well. It is given up when it cannot be written, and when the buffer is
    /// of the kind whose frames do not stay.
    pub(crate) fn copy_to(&mut self, file: Spool) {
        if let Self::Linear(store, copy) = self
            && store.frames() == 0
        {
            *copy = Some(file);
        }
    }

    /// Becomes circular, or linear, with the frames that there are. Those of a circular buffer are not copied into a file.
    pub(crate) fn make_circular(&mut self, on: bool, order: ByteOrder) {
        let nothing = Self::Linear(LinearStore::growing(Vec::new(), 0), None);
        *self = match std::mem::replace(self, nothing) {
            Self::Linear(store, _) if on => Self::Circular(store.into_circular(order)),
            Self::Circular(store) if !on => Self::Linear(store.into_linear(), None),
            same => same,
        };
    }

    /// The file with all the frames, which no more frames are copied to.
    pub(crate) fn take_copy(&mut self) -> Option<Spool> {
        match self {
            Self::Linear(_, copy) => copy.take(),
            Self::Circular(_) => None,
        }
    }
}

macro_rules! either {
    ($self:ident, $store:ident => $what:expr) => {
        match $self {
            Buffer::Linear($store, _) => $what,
            Buffer::Circular($store) => $what,
        }
    };
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        either!(self, store => store.append(frame))?;
        if let Self::Linear(_, copy) = self {
            copy.take_if(|copy| copy.append(frame).is_err());
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        if let Self::Linear(store, copy) = self
            && store.frames() > 0
        {
            *copy = None;
        }
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

impl Trace {
    /// `QTBuffer`: a part of the frames, as they would stand in a file.
    pub(crate) fn buffer(&mut self, offset: u64, length: u64) -> Reply {
        let (first, second) = self.experiment.store().bytes();
        let total = first.len() + second.len();
        let Some(start) = usize::try_from(offset).ok().filter(|start| *start < total) else {
            return Reply::End;
        };
        let most = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(PACKET_SIZE / 2);
        let part = match first.get(start..).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest,
            None => second.get(start - first.len()..).unwrap_or_default(),
        };
        Reply::TraceBuffer(part.get(..most).unwrap_or(part).to_vec())
    }
}
