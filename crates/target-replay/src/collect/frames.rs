//! Frames of a row, in memory.

use tracewire_experiment::{FrameStore, StoreError};
use tracewire_tracefile::FrameFormat;

/// Frames in memory that grows with them.
pub(super) struct Frames {
    pub(super) bytes: Vec<u8>,
    pub(super) frames: u64,
    limit: u64,
    circular: bool,
    format: FrameFormat,
}

impl Frames {
    pub(super) fn new(
        mut buffer: Vec<u8>,
        limit: u64,
        circular: bool,
        format: FrameFormat,
    ) -> Self {
        buffer.clear();
        Self {
            bytes: buffer,
            frames: 0,
            limit,
            circular,
            format,
        }
    }

    /// Gives up the oldest frames until so many bytes are free.
    fn make_room(&mut self, wanted: u64) {
        /// Tracepoint number and size.
        const HEADER: usize = 6;
        let mut at = 0;
        while (self.bytes.len() - at) as u64 + wanted > self.limit {
            let size = self.bytes.get(at + 2..at + HEADER);
            let size = size.and_then(|size| self.format.byte_order.unsigned(size));
            let Some(size) = size else { break };
            at = (at + HEADER + size as usize).min(self.bytes.len());
            self.frames = self.frames.saturating_sub(1);
        }
        self.bytes.drain(..at);
    }
}

impl FrameStore for Frames {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        let length = frame.len() as u64;
        if self.used() + length > self.limit {
            if !self.circular || length > self.limit {
                return Err(StoreError::Full);
            }
            // Much at once, so that not every frame moves all others.
            self.make_room(length.max(self.limit / 8).min(self.limit));
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
        Some(self.limit)
    }

    fn used(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_circular(&self) -> bool {
        self.circular
    }
}
