//! The trace buffer of a session.

use tracewire_experiment::{CircularStore, FrameStore, LinearStore, StoreError};
use tracewire_model::ByteOrder;
use tracewire_packets::{Failure, Reply};
use tracewire_tracefile::{RegisterSets, Spool};

use super::Trace;
use super::kept::KeptFrames;
use crate::session::PACKET_SIZE;

/// The default size of a trace buffer in bytes; gdbserver's.
pub(crate) const DEFAULT_SIZE: u64 = 0x50_0000;

/// The largest buffer that is made for a client, in bytes.
const LARGEST: u64 = 4 << 30;

/// A trace buffer in memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    store: Store,
    /// How many frames have been appended, including removed ones.
    appended: u64,
    copy: Option<Copy>,
}

#[derive(Debug)]
enum Store {
    Linear(LinearStore),
    Circular(CircularStore),
}

/// A copy of the frames in an unnamed file, if a client may save them.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) file: Spool,
    /// The size of the register blocks in the file.
    pub(super) block_size: usize,
    pub(super) order: ByteOrder,
    /// The register sets of new frames.
    pub(super) sets: RegisterSets,
    expanded: Vec<u8>,
}

impl Copy {
    pub(super) const fn new(file: Spool, block_size: usize, order: ByteOrder) -> Self {
        Self {
            file,
            block_size,
            order,
            sets: RegisterSets::EMPTY,
            expanded: Vec::new(),
        }
    }

    /// Whether the frame is in the file.
    fn append(&mut self, frame: &[u8]) -> bool {
        self.expanded.clear();
        let (order, size) = (self.order, self.block_size);
        self.sets.expand(frame, order, size, &mut self.expanded);
        self.file.append(&self.expanded).is_ok()
    }
}

impl Buffer {
    pub(crate) fn new(size: u64, circular: bool, order: ByteOrder) -> Result<Self, StoreError> {
        if size > LARGEST {
            return Err(StoreError::NoMemory(size));
        }
        Ok(Self {
            store: if circular {
                Store::Circular(CircularStore::new(size, order)?)
            } else {
                Store::Linear(LinearStore::new(size)?)
            },
            appended: 0,
            copy: None,
        })
    }

    /// All frames in order, in two parts.
    pub(crate) fn bytes(&self) -> (&[u8], &[u8]) {
        match &self.store {
            Store::Linear(store) => (store.bytes(), &[]),
            Store::Circular(store) => store.bytes(),
        }
    }

    /// How many frames have been appended, including removed ones.
    pub(super) const fn appended(&self) -> u64 {
        self.appended
    }

    /// Copies later frames into a file as well. The copy is dropped when it cannot be written, and when the buffer is
    /// circular.
    pub(super) fn copy_to(&mut self, copy: Copy) {
        if matches!(self.store, Store::Linear(_)) && self.appended == 0 {
            self.copy = Some(copy);
        }
    }

    /// Whether the frames are copied into a file.
    pub(super) const fn is_copied(&self) -> bool {
        self.copy.is_some()
    }

    /// Sets the registers that frames keep from now on for the copy. It is dropped if the blocks of its file end before
    /// one of them.
    pub(super) fn set_register_sets(&mut self, sets: &RegisterSets) {
        self.copy.take_if(|copy| copy.block_size < sets.end());
        if let Some(copy) = &mut self.copy {
            copy.sets.clone_from(sets);
        }
    }

    /// Makes the buffer circular or linear, and keeps its frames. Those of a circular buffer are not copied into a file.
    pub(crate) fn make_circular(&mut self, on: bool, order: ByteOrder) {
        let nothing = Store::Linear(LinearStore::growing(Vec::new(), 0));
        self.store = match std::mem::replace(&mut self.store, nothing) {
            Store::Linear(store) if on => {
                self.copy = None;
                Store::Circular(store.into_circular(order))
            }
            Store::Circular(store) if !on => Store::Linear(store.into_linear()),
            same => same,
        };
    }

    /// Takes the file with all the frames; later frames are not copied to it.
    pub(super) fn take_copy(&mut self) -> Option<Copy> {
        self.copy.take()
    }
}

macro_rules! either {
    ($either:expr, $store:ident => $what:expr) => {
        match $either {
            Store::Linear($store) => $what,
            Store::Circular($store) => $what,
        }
    };
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        either!(&mut self.store, store => store.append(frame))?;
        self.appended += 1;
        self.copy.take_if(|copy| !copy.append(frame));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        if self.appended > 0 {
            self.copy = None;
        }
        self.appended = 0;
        either!(&mut self.store, store => store.clear())
    }

    fn frames(&self) -> u64 {
        either!(&self.store, store => store.frames())
    }

    fn size(&self) -> Option<u64> {
        either!(&self.store, store => store.size())
    }

    fn used(&self) -> u64 {
        either!(&self.store, store => store.used())
    }

    fn is_circular(&self) -> bool {
        either!(&self.store, store => store.is_circular())
    }
}

/// The answer to a request for no bytes: an empty one would mean that the packet is not supported, and `l` that there are none.
pub(crate) fn nothing_asked_for() -> Reply {
    Reply::Error(Failure::text("no bytes of the trace buffer are asked for"))
}

impl Trace {
    /// `qTBuffer`: a part of the frames, in the format of a file.
    pub(crate) fn buffer(&mut self, offset: u64, length: u64) -> Reply {
        if length == 0 {
            return nothing_asked_for();
        }
        let frames = KeptFrames::new(
            &self.experiment,
            self.machine.byte_order,
            self.machine.layout.size() as usize,
        );
        self.places.follow(frames);
        if offset >= self.places.expanded_length() {
            return Reply::End;
        }
        let most = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(PACKET_SIZE / 2);
        Reply::TraceBuffer(self.places.part(offset, most, frames))
    }
}
