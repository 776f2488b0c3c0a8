//! The file that a lean recording is written to while it runs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracewire_fail_point::fail_point;
use zstd::bulk::Compressor;

use super::encode::BlockEncoder;
use super::{BLOCK_HEADER, BlockKind, LEAN_HEADER, MAGIC};
use crate::description::Description;
use crate::follow::GROWING;
use crate::register_set::RegisterSets;
use crate::unnamed::begin_beside;
use crate::write::{WriteError, put_in_place};

/// The level of the compression. The columns are small already: a higher one takes longer than it saves.
const LEVEL: i32 = 1;

/// For how long a frame stays out of the file at most, where [`LeanSpool::flush_old`] is called.
const OLDEST: Duration = Duration::from_secs(1);

/// A lean recording that grows while a run goes on. It can be read at every moment up to its last whole block.
pub struct LeanSpool {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    /// Where the next block goes.
    end: u64,
    encoder: BlockEncoder,
    /// When the oldest frame that is in no block came in.
    since: Option<Instant>,
    frames: u64,
    compressor: Option<Compressor<'static>>,
    content: Vec<u8>,
    block: Vec<u8>,
    described: Vec<u8>,
    finished: bool,
}

impl std::fmt::Debug for LeanSpool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeanSpool")
            .field("temporary", &self.temporary)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

impl LeanSpool {
    /// Begins a file beside `path` (`PATH.recording`), which takes its place at [`Self::finish`].
    ///
    /// # Errors
    /// When no file can be made in the folder, or the disk is full.
    pub fn create(path: impl AsRef<Path>, description: &Description) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let begin = |file: File| {
            let _ = file.try_lock();
            let written = file.write_all_at(LEAN_HEADER, 0);
            written.map_err(WriteError::system("write", path))?;
            let mut spool = Self {
                file,
                temporary: path.to_owned(),
                path: path.to_owned(),
                end: LEAN_HEADER.len() as u64,
                encoder: BlockEncoder::default(),
                since: None,
                frames: 0,
                // Without a compressor blocks are as they are.
                compressor: Compressor::new(LEVEL).ok(),
                content: Vec::new(),
                block: Vec::new(),
                described: Vec::new(),
                finished: false,
            };
            spool.describe(description)?;
            Ok(spool)
        };
        let (name, mut spool) = begin_beside(path, GROWING, begin, |spool| &spool.file)?;
        spool.temporary = name;
        fail_point!("lean/begun");
        Ok(spool)
    }

    /// Where the file is while it grows.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// How many frames there are, those that are in no block yet among them.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// How many bytes the file has, the header and the descriptions among them.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Says which registers the sets of the next frames have.
    pub fn note_sets(&mut self, sets: &RegisterSets) {
        self.encoder.note_sets(sets);
    }

    /// Adds a frame, which may keep the registers of a set.
    ///
    /// # Errors
    /// When the disk is full ([`WriteError::is_full`]): the frames of the last block are not in the file then. When the bytes are no frame.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), WriteError> {
        self.encoder.push(frame)?;
        self.frames += 1;
        if self.encoder.is_full() {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the frames that came in a second ago or earlier. To be called now and then.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn flush_old(&mut self) -> Result<(), WriteError> {
        if self.encoder.frames() == 0 {
            self.since = None;
            return Ok(());
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        match now.duration_since(since) >= OLDEST {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes all frames that came in.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let frames = self.encoder.frames();
        self.since = None;
        if frames == 0 {
            return Ok(());
        }
        let mut content = std::mem::take(&mut self.content);
        self.encoder.encode(&mut content);
        fail_point!("lean/encoded");
        let written = self.write(BlockKind::Frames, &content, frames);
        self.content = content;
        if written.is_err() {
            self.frames -= frames as u64;
        }
        fail_point!("lean/block-written");
        written
    }

    /// Writes the description again, if it is another one.
    ///
    /// # Errors
    /// When the system refuses to write.
    pub fn describe(&mut self, description: &Description) -> Result<(), WriteError> {
        if self.described == description.as_bytes() {
            return Ok(());
        }
        self.write(BlockKind::Description, description.as_bytes(), 0)?;
        self.described = description.as_bytes().to_vec();
        Ok(())
    }

    fn write(&mut self, kind: BlockKind, content: &[u8], frames: usize) -> Result<(), WriteError> {
        let block = &mut self.block;
        block.clear();
        block.resize(
            BLOCK_HEADER + zstd::zstd_safe::compress_bound(content.len()),
            0,
        );
        let compressed = self.compressor.as_mut().and_then(|compressor| {
            let place = block.get_mut(BLOCK_HEADER..)?;
            compressor.compress_to_buffer(content, place).ok()
        });
        match compressed.filter(|length| *length < content.len()) {
            Some(length) => block.truncate(BLOCK_HEADER + length),
            None => {
                block.truncate(BLOCK_HEADER);
                block.extend_from_slice(content);
            }
        }
        seal(block, kind, content.len(), frames);
        if let Err(error) = self.file.write_all_at(block, self.end) {
            // The next block, a shorter one, may find room there.
            let _ = self.file.set_len(self.end);
            return Err(WriteError::system("write", &self.temporary)(error));
        }
        self.end += block.len() as u64;
        Ok(())
    }

    /// Writes what is left and the final description, and puts the file in its place.
    ///
    /// # Errors
    /// When it cannot be written or renamed. What was written is then still in [`Self::temporary_path`].
    pub fn finish(mut self, description: &Description) -> Result<(), WriteError> {
        self.flush()?;
        self.describe(description)?;
        fail_point!("lean/finish");
        let frames = self.frames.to_le_bytes();
        self.write(BlockKind::End, &frames, 0)?;
        put_in_place(&self.temporary, &self.path)
            .map_err(WriteError::system("write", &self.path))?;
        fail_point!("lean/in-place");
        self.finished = true;
        Ok(())
    }

    /// Leaves no file.
    pub fn discard(mut self) {
        self.finished = true;
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Fills in the header of a block that is whole otherwise.
fn seal(block: &mut [u8], kind: BlockKind, size: usize, frames: usize) {
    let stored = block.len() - BLOCK_HEADER;
    let words = [
        u32::from_le_bytes(MAGIC),
        kind.code(),
        stored as u32,
        size as u32,
        frames as u32,
    ];
    let mut sum = crc32fast::Hasher::new();
    let (header, content) = block.split_at_mut(BLOCK_HEADER);
    let (fields, _) = header.as_chunks_mut::<4>();
    for (field, word) in fields.iter_mut().zip(words) {
        *field = word.to_le_bytes();
        sum.update(&*field);
    }
    sum.update(content);
    if let Some(field) = fields.last_mut() {
        *field = sum.finalize().to_le_bytes();
    }
}

/// A recording that is not finished keeps its frames.
impl Drop for LeanSpool {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.flush();
        }
    }
}
