//! The trace buffer: where frames are stored, and what happens when it is full.

use crate::run_end::RunEnd;
use std::collections::VecDeque;

use tracewire_model::{ByteOrder, StopReason, TracepointNumber};
use tracewire_tracefile::RegisterSets;
#[cfg(target_os = "linux")]
use tracewire_tracefile::{Spool, WriteError, lean::LeanSpool};

/// Tracepoint number and size, before a frame's blocks.
const FRAME_HEADER: usize = 6;

/// A store for frames. Each is added whole, in trace-file form: tracepoint number, size, blocks, in target byte order. It is kept
/// whole or not at all.
pub trait FrameStore {
    /// Keeps a frame. A circular store drops whole frames to make space, oldest first.
    ///
    /// # Errors
    /// When there is no space or the file cannot be written; the frame is then not kept, all others are.
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError>;

    /// Forgets every frame.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn clear(&mut self) -> Result<(), StoreError>;

    /// How many frames there are.
    fn frames(&self) -> u64;

    /// The offset of the next frame in a file that outlives this process, in a lean recording its number; `None` if frames are in
    /// memory.
    fn file_end(&self) -> Option<u64> {
        None
    }

    /// The capacity in bytes; `None` where the disk is the limit.
    fn size(&self) -> Option<u64>;

    /// How many bytes the frames take.
    fn used(&self) -> u64;

    /// Whether the oldest frames are overwritten by new ones.
    fn is_circular(&self) -> bool;

    /// Says which registers the sets have that the next frames keep instead of register blocks. Only a store that outlives the
    /// experiment needs them.
    fn note_sets(&mut self, sets: &RegisterSets) {
        let _ = sets;
    }

    /// Whether each frame is to come soon after its hit, and none is to make room before it has come here: the frames decide when the
    /// run ends.
    fn is_watched(&self) -> bool {
        false
    }
}

/// Why a frame was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space is left. A circular store returns it only for a frame that is larger than itself.
    #[error("the trace buffer is full")]
    Full,
    /// The run has made the requested number of frames.
    #[error("the run has made {0} frames, as many as were asked for")]
    Enough(u64),
    /// Writing the file failed, a full disk included.
    #[error("the trace buffer cannot be written: {0}")]
    File(#[from] WriteError),
    /// A hit was to end the run, and so many frames more.
    #[error("tracepoint {tracepoint} was hit{}", frames_more(*.after))]
    Triggered {
        /// The tracepoint that was hit.
        tracepoint: TracepointNumber,
        /// How many frames were to come after its own.
        after: u64,
    },
    /// The store is a file, and a run has been written to it.
    #[error("the trace file holds another run already")]
    OneRun,
    /// This much memory cannot be allocated.
    #[error("there is no memory for a trace buffer of {0} bytes")]
    NoMemory(u64),
}

impl StoreError {
    /// The end of a run whose frame was not kept for this reason.
    pub(crate) fn run_end(&self) -> RunEnd {
        let reason = match self {
            Self::Full => return RunEnd::new(StopReason::Full, None),
            Self::Enough(_) | Self::Triggered { .. } => StopReason::Command,
            _ => StopReason::Error,
        };
        RunEnd {
            text: Some(self.to_string()),
            ..RunEnd::new(reason, None)
        }
    }
}

/// The end of a message about a hit that so many frames followed.
fn frames_more(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => ", and 1 frame more was made".to_owned(),
        _ => format!(", and {count} frames more were made"),
    }
}

/// How many bytes of a size can be addressed here.
fn addressable(size: u64) -> Result<usize, StoreError> {
    usize::try_from(size).map_err(|_| StoreError::NoMemory(size))
}

/// A store in memory that does not overwrite. The memory is reserved at once and used as frames come.
#[derive(Debug)]
pub struct LinearStore {
    bytes: Vec<u8>,
    size: usize,
    frames: u64,
}

impl LinearStore {
    /// A store of exactly `size` bytes.
    ///
    /// # Errors
    /// When there is not as much memory.
    pub fn new(size: u64) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(addressable(size)?)
            .map_err(|_| StoreError::NoMemory(size))?;
        Ok(Self {
            bytes,
            size: addressable(size)?,
            frames: 0,
        })
    }

    /// A store of at most `size` bytes whose memory grows as frames come, from that of `buffer` on.
    #[must_use]
    pub fn growing(mut buffer: Vec<u8>, size: u64) -> Self {
        buffer.clear();
        Self {
            bytes: buffer,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            frames: 0,
        }
    }

    /// All frames in order, in trace-file form.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory with all frames in order.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A circular store of the same size, with the same frames.
    #[must_use]
    pub fn into_circular(self, order: ByteOrder) -> CircularStore {
        CircularStore {
            bytes: self.bytes.into(),
            size: self.size,
            frames: self.frames,
            order,
        }
    }
}

impl FrameStore for LinearStore {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        if frame.len() > self.size - self.bytes.len() {
            return Err(StoreError::Full);
        }
        self.bytes.extend_from_slice(frame);
        self.frames += 1;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.bytes.clear();
        self.frames = 0;
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.frames
    }

    fn size(&self) -> Option<u64> {
        Some(self.size as u64)
    }

    fn used(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_circular(&self) -> bool {
        false
    }
}

/// A store in memory that keeps the newest frames. A frame may wrap around the end of the memory, so that none of it is lost to
/// padding: as many frames are kept as fit in `size` bytes, to the byte.
#[derive(Debug)]
pub struct CircularStore {
    bytes: VecDeque<u8>,
    size: usize,
    frames: u64,
    order: ByteOrder,
}

impl CircularStore {
    /// A store of exactly `size` bytes for frames in this byte order.
    ///
    /// # Errors
    /// When there is not as much memory.
    pub fn new(size: u64, order: ByteOrder) -> Result<Self, StoreError> {
        let mut bytes = VecDeque::new();
        bytes
            .try_reserve_exact(addressable(size)?)
            .map_err(|_| StoreError::NoMemory(size))?;
        Ok(Self {
            bytes,
            size: addressable(size)?,
            frames: 0,
            order,
        })
    }

    /// All frames in order, in trace-file form: the first part, then the second.
    #[must_use]
    pub fn bytes(&self) -> (&[u8], &[u8]) {
        self.bytes.as_slices()
    }

    /// The memory with all frames in order.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into()
    }

    /// A linear store of the same size, with the frames that there are.
    #[must_use]
    pub fn into_linear(self) -> LinearStore {
        LinearStore {
            bytes: self.bytes.into(),
            size: self.size,
            frames: self.frames,
        }
    }

    /// Drops the oldest frame, whose length is in its header.
    fn drop_oldest(&mut self) {
        let mut field = [0; 4];
        for (byte, kept) in field.iter_mut().zip(self.bytes.range(2..FRAME_HEADER)) {
            *byte = *kept;
        }
        let size = match self.order {
            ByteOrder::Little => u32::from_le_bytes(field),
            ByteOrder::Big => u32::from_be_bytes(field),
        };
        let length = (FRAME_HEADER + size as usize).min(self.bytes.len());
        self.bytes.drain(..length);
        self.frames -= 1;
    }
}

impl FrameStore for CircularStore {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        if frame.len() > self.size {
            return Err(StoreError::Full);
        }
        while self.frames > 0 && frame.len() > self.size - self.bytes.len() {
            self.drop_oldest();
        }
        self.bytes.extend(frame);
        self.frames += 1;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.bytes.clear();
        self.frames = 0;
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.frames
    }

    fn size(&self) -> Option<u64> {
        Some(self.size as u64)
    }

    fn used(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_circular(&self) -> bool {
        true
    }
}

/// A store in a file that is a valid trace file at every moment.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct SpoolStore {
    spool: Spool,
    frames: u64,
    limit: Option<u64>,
}

#[cfg(target_os = "linux")]
impl SpoolStore {
    /// A store that is full with `limit` bytes of frames, or when the disk is.
    #[must_use]
    pub const fn new(spool: Spool, limit: Option<u64>) -> Self {
        Self {
            spool,
            frames: 0,
            limit,
        }
    }

    /// The file, to describe it again.
    pub fn spool(&mut self) -> &mut Spool {
        &mut self.spool
    }

    /// The file, to finish it.
    #[must_use]
    pub fn into_spool(self) -> Spool {
        self.spool
    }
}

/// A store in a file that has values in compressed columns, and no register blocks.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct LeanStore {
    spool: LeanSpool,
    limit: Option<u64>,
}

#[cfg(target_os = "linux")]
impl LeanStore {
    /// A store that is full when the file has `limit` bytes, or when the disk is full. The last block may go beyond it.
    #[must_use]
    pub const fn new(spool: LeanSpool, limit: Option<u64>) -> Self {
        Self { spool, limit }
    }

    /// The file, to describe it again.
    pub fn spool(&mut self) -> &mut LeanSpool {
        &mut self.spool
    }

    /// The file, to finish it.
    #[must_use]
    pub fn into_spool(self) -> LeanSpool {
        self.spool
    }
}

#[cfg(target_os = "linux")]
impl FrameStore for LeanStore {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        if self.limit.is_some_and(|limit| self.used() >= limit) {
            return Err(StoreError::Full);
        }
        self.spool.append(frame)?;
        Ok(())
    }

    /// A file is for one run: frames in it stay.
    fn clear(&mut self) -> Result<(), StoreError> {
        if self.frames() > 0 {
            return Err(StoreError::OneRun);
        }
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.spool.frames()
    }

    /// The number of the next frame: its place is known when its block is written.
    fn file_end(&self) -> Option<u64> {
        Some(self.frames())
    }

    fn note_sets(&mut self, sets: &RegisterSets) {
        self.spool.note_sets(sets);
    }

    fn size(&self) -> Option<u64> {
        self.limit
    }

    fn used(&self) -> u64 {
        self.spool.bytes()
    }

    fn is_circular(&self) -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
impl FrameStore for SpoolStore {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        let used = self.used() + frame.len() as u64;
        if self.limit.is_some_and(|limit| used > limit) {
            return Err(StoreError::Full);
        }
        self.spool.append(frame)?;
        self.frames += 1;
        Ok(())
    }

    /// A file is for one run: frames in it stay.
    fn clear(&mut self) -> Result<(), StoreError> {
        if self.frames > 0 {
            return Err(StoreError::OneRun);
        }
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.frames
    }

    fn file_end(&self) -> Option<u64> {
        Some(self.spool.frames_end())
    }

    fn size(&self) -> Option<u64> {
        self.limit
    }

    fn used(&self) -> u64 {
        self.spool.frame_bytes()
    }

    fn is_circular(&self) -> bool {
        false
    }
}
