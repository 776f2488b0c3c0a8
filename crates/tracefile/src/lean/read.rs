//! A lean recording, read.

use std::io::{self, Write};
use std::ops::Range;

use tracewire_arch::{RegisterLayout, TargetDescription};

use super::{
    BLOCK_HEADER, BlockKind, LEAN_HEADER, MAGIC, MAX_CONTENT, SUMMED, frame_block, is_lean,
};
use crate::checksum::SealingWriter;
use crate::description::{Description, HEADER};

/// Bytes that cannot be read as a lean recording at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeanError {
    /// The first bytes are others.
    #[error("not a lean recording: expected the bytes 7f `TWREC0` and a newline at the start")]
    Header,
    /// No description of it is whole.
    #[error("a lean recording of which no description is whole: its frames cannot be read")]
    Description,
}

/// What is wrong with a lean recording.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeanDamage {
    /// Bytes that are no whole block, before others that are.
    Lost(Range<u64>),
    /// It was not finished: these last bytes, maybe none, are no whole block.
    Unfinished(Range<u64>),
    /// Bytes after its end.
    Behind(Range<u64>),
}

/// A block that is whole.
struct Block {
    kind: BlockKind,
    frames: usize,
    /// The size of its content, uncompressed.
    size: usize,
    stored: Range<usize>,
}

/// A lean recording: its description, and its frames as a trace file has them.
pub struct LeanFile<'b> {
    bytes: &'b [u8],
    blocks: Vec<Block>,
    description: Description,
    damage: Vec<LeanDamage>,
}

/// How the frames of a recording are read.
#[derive(Clone)]
pub(super) struct FrameReader {
    layout: Option<RegisterLayout>,
    /// The size of a register block.
    block_size: usize,
}

/// A block of frames that is whole, and where it is in the recording.
#[derive(Clone)]
pub(super) struct FrameBlock {
    frames: usize,
    size: usize,
    stored: Range<usize>,
}

impl FrameReader {
    fn new(description: &Description) -> Self {
        let layout = match description.target_xml().map(TargetDescription::parse) {
            Some(Ok(TargetDescription::Registers(layout))) => Some(layout),
            _ => None,
        };
        let declared = description.register_block().map(|line| line.hexadecimal);
        let block_size = match (declared, &layout) {
            (Some(size), _) => size as usize,
            (None, Some(layout)) => layout.size() as usize,
            (None, None) => 0,
        };
        // A block cannot be larger than the registers of its machine.
        let most = layout.as_ref().map_or(0, RegisterLayout::size) as usize;
        Self {
            block_size: block_size.min(most),
            layout,
        }
    }

    /// Appends the frames of a block, as a trace file has them. Nothing where its content is none.
    pub(super) fn read(
        &self,
        recording: &[u8],
        block: &FrameBlock,
        frames: &mut Vec<u8>,
    ) -> Option<()> {
        let content = content(recording, &block.stored, block.size)?;
        let layout = self.layout.as_ref();
        frame_block::read(&content, block.frames, layout, self.block_size, frames)
    }
}

impl<'b> LeanFile<'b> {
    /// Finds the whole blocks.
    ///
    /// # Errors
    /// When it is no lean recording, or has no description.
    pub fn parse(bytes: &'b [u8]) -> Result<Self, LeanError> {
        if !is_lean(bytes) {
            return Err(LeanError::Header);
        }
        let (mut blocks, mut damage) = (Vec::new(), Vec::new());
        let mut at = LEAN_HEADER.len();
        let mut lost = at;
        let mut is_finished = false;
        while at < bytes.len() {
            let Some(block) = block_at(bytes, at) else {
                let next = bytes.get(at + 1..).unwrap_or_default();
                at = memchr::memmem::find(next, &MAGIC).map_or(bytes.len(), |next| at + 1 + next);
                continue;
            };
            if lost < at {
                damage.push(LeanDamage::Lost(lost as u64..at as u64));
            }
            at = block.stored.end;
            lost = at;
            if block.kind == BlockKind::End {
                is_finished = true;
                break;
            }
            blocks.push(block);
        }
        let rest = lost as u64..bytes.len() as u64;
        if !is_finished {
            damage.push(LeanDamage::Unfinished(rest));
        } else if !rest.is_empty() {
            damage.push(LeanDamage::Behind(rest));
        }
        let mut descriptions = blocks
            .iter()
            .rev()
            .filter(|block| block.kind == BlockKind::Description);
        let description = descriptions.find_map(|block| content(bytes, &block.stored, block.size));
        let description = Description::parse(description.ok_or(LeanError::Description)?);
        Ok(Self {
            bytes,
            blocks,
            description,
            damage,
        })
    }

    /// The description, as it was written last.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// What is wrong with it, in the order of the file.
    #[must_use]
    pub fn damage(&self) -> &[LeanDamage] {
        &self.damage
    }

    /// How many frames the whole blocks have.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.blocks.iter().map(|block| block.frames as u64).sum()
    }

    /// Writes the trace file that it stands for. A block with a good checksum whose content is none is left out, and is
    /// damage too. Gives all damage.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn expand(self, into: &mut impl Write) -> io::Result<Vec<LeanDamage>> {
        let mut into = SealingWriter::new(into);
        into.write_all(HEADER)?;
        into.write_all(self.description.as_bytes())?;
        into.write_all(b"\n")?;
        let reader = self.frame_reader();
        let (mut frames, mut lost) = (Vec::new(), Vec::new());
        for block in self.frame_blocks() {
            frames.clear();
            match reader.read(self.bytes, &block, &mut frames) {
                Some(()) => into.write_all(&frames)?,
                None => lost.push(block),
            }
        }
        into.finish()?;
        Ok(self.damage_with(&lost))
    }

    /// What reads its blocks of frames.
    pub(super) fn frame_reader(&self) -> FrameReader {
        FrameReader::new(&self.description)
    }

    /// Its blocks of frames.
    pub(super) fn frame_blocks(&self) -> impl Iterator<Item = FrameBlock> {
        let frames = (self.blocks.iter()).filter(|block| block.kind == BlockKind::Frames);
        frames.map(|block| FrameBlock {
            frames: block.frames,
            size: block.size,
            stored: block.stored.clone(),
        })
    }

    /// All damage: its own, and blocks whose content is none.
    pub(super) fn damage_with(mut self, lost: &[FrameBlock]) -> Vec<LeanDamage> {
        self.damage.extend(lost.iter().map(|block| {
            let start = block.stored.start - BLOCK_HEADER;
            LeanDamage::Lost(start as u64..block.stored.end as u64)
        }));
        self.damage.sort_by_key(|damage| match damage {
            LeanDamage::Lost(range) | LeanDamage::Unfinished(range) | LeanDamage::Behind(range) => {
                range.start
            }
        });
        self.damage
    }
}

/// The block that begins there, if it is whole.
fn block_at(bytes: &[u8], at: usize) -> Option<Block> {
    let header = bytes.get(at..)?.first_chunk::<BLOCK_HEADER>()?;
    let (summed, sum) = header.split_at_checked(SUMMED)?;
    let mut content = Content(summed.strip_prefix(&MAGIC)?);
    let kind = BlockKind::of(content.u32()?)?;
    let length = usize::try_from(content.u32()?).ok()?;
    let size = usize::try_from(content.u32()?).ok()?;
    let frames = usize::try_from(content.u32()?).ok()?;
    let start = at + BLOCK_HEADER;
    let stored = start..start.checked_add(length)?;
    if size > MAX_CONTENT {
        return None;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(summed);
    hasher.update(bytes.get(stored.clone())?);
    (hasher.finalize().to_le_bytes() == *sum).then_some(Block {
        kind,
        frames,
        size,
        stored,
    })
}

/// The content of a block, uncompressed.
fn content(bytes: &[u8], stored: &Range<usize>, size: usize) -> Option<Vec<u8>> {
    let stored = bytes.get(stored.clone())?;
    if stored.len() == size {
        return Some(stored.to_vec());
    }
    let content = zstd::bulk::decompress(stored, size).ok()?;
    (content.len() == size).then_some(content)
}

/// What is left to read of a block's content.
pub(super) struct Content<'b>(pub(super) &'b [u8]);

impl<'b> Content<'b> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }
}
