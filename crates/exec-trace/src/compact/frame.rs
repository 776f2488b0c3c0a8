//! Compressed pieces of a file, each with a checksum of its own; see `docs/formats/execution-index.md`.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::bytes::{Damaged, Reader, put};

/// Shorter contents are not compressed: opening a compressed one takes a microsecond or two.
const SHORT: usize = 256;

/// No frame's content is longer.
const LONGEST: usize = 1 << 28;

/// Whether bytes have a checksum. A fuzzer is let through: what is after must bear anything.
pub(crate) fn has_sum(bytes: &[u8], sum: u32) -> bool {
    #[cfg(test)]
    if LETS_THROUGH.get() {
        return true;
    }
    cfg!(fuzzing) || crc32fast::hash(bytes) == sum
}

#[cfg(test)]
thread_local! {
    /// Set by tests of what is after checksums.
    pub(crate) static LETS_THROUGH: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes frames.
pub(crate) struct Packer {
    level: i32,
    /// Made when it is needed: that takes longer than a small trace.
    compressor: Option<Compressor<'static>>,
    /// Room for what is compressed, which may be longer than its frame by much.
    room: Vec<u8>,
}

impl Packer {
    pub(crate) const fn new(level: i32) -> Self {
        Self {
            level,
            compressor: None,
            room: Vec::new(),
        }
    }

    pub(crate) const fn level(&self) -> i32 {
        self.level
    }

    fn compressor(&mut self) -> io::Result<&mut Compressor<'static>> {
        if self.compressor.is_none() {
            let mut compressor = Compressor::new(self.level)?;
            compressor.include_contentsize(false)?;
            compressor.include_checksum(false)?;
            self.compressor = Some(compressor);
        }
        self.compressor
            .as_mut()
            .ok_or_else(|| io::ErrorKind::Other.into())
    }

    pub(crate) fn pack(&mut self, content: &[u8]) -> Vec<u8> {
        if content.is_empty() {
            return Vec::new();
        }
        let mut frame = vec![0; 4];
        if content.len() < SHORT {
            put(&mut frame, 0);
            frame.extend_from_slice(content);
        } else {
            put(&mut frame, content.len() as u64);
            let mut room = std::mem::take(&mut self.room);
            room.clear();
            room.reserve(zstd::zstd_safe::compress_bound(content.len()));
            // The room is always enough; without memory for a compressor the frame stays empty, which is noticed.
            let packed = self
                .compressor()
                .and_then(|compressor| compressor.compress_to_buffer(content, &mut room));
            if packed.is_ok() {
                frame.reserve_exact(room.len());
                frame.extend_from_slice(&room);
            }
            self.room = room;
        }
        let sum = crc32fast::hash(&frame[4..]);
        frame[..4].copy_from_slice(&sum.to_le_bytes());
        frame
    }
}

thread_local! {
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The content of a frame.
pub(crate) fn unpack(frame: &[u8]) -> Result<Vec<u8>, Damaged> {
    if frame.is_empty() {
        return Ok(Vec::new());
    }
    let (sum, rest) = frame.split_first_chunk::<4>().ok_or(Damaged)?;
    if !has_sum(rest, u32::from_le_bytes(*sum)) {
        return Err(Damaged);
    }
    let mut reader = Reader::new(rest);
    let length: usize = reader.small()?;
    if length == 0 {
        return Ok(reader.rest().to_vec());
    }
    if length > LONGEST {
        return Err(Damaged);
    }
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        if decompressor.is_none() {
            *decompressor = Some(Decompressor::new().map_err(|_| Damaged)?);
        }
        let decompressor = decompressor.as_mut().ok_or(Damaged)?;
        let content = decompressor
            .decompress(reader.rest(), length)
            .map_err(|_| Damaged)?;
        if content.len() == length {
            Ok(content)
        } else {
            Err(Damaged)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_or_are_found_damaged() {
        let mut packer = Packer::new(3);
        for content in [&b""[..], b"x", &[7; 300], &[7; 100_000]] {
            let frame = packer.pack(content);
            assert_eq!(unpack(&frame).as_deref(), Ok(content));
            for at in 0..frame.len() {
                let mut bad = frame.clone();
                bad[at] ^= 4;
                assert_eq!(unpack(&bad), Err(Damaged));
            }
        }
    }
}
