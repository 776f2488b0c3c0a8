//! Lean recordings: what was collected and nothing else, in compressed columns.
//!
//! A trace file has a whole register block in each frame. A lean recording (`.twr`) has the registers that are needed to find the
//! collected values again, and the values. It is a sequence of blocks. Each has its own checksum and needs no other one: a
//! recording that is killed loses the frames that were in no block yet. [`crate::TraceFile`] reads it as the trace file that it
//! stands for. `docs/formats/lean-recording.md` has the form.

mod column;
mod encode;
mod expansion;
mod frame_block;
mod kept;
mod read;
mod shape;
#[cfg(target_os = "linux")]
mod spool;
mod stage;

pub use encode::BlockEncoder;
pub(crate) use expansion::{Expansion, Outline};
pub use kept::{kept_lines, kept_sets};
pub use read::{LeanDamage, LeanError, LeanFile};
#[cfg(target_os = "linux")]
pub use spool::LeanSpool;

/// The first bytes of a lean recording. They are as many as those of a trace file.
pub const LEAN_HEADER: &[u8; 8] = b"\x7fTWREC0\n";

/// The first bytes of a block.
const MAGIC: [u8; 4] = *b"\x7fTWB";

/// The bytes before a block's content: magic number, kind, size as stored, size uncompressed, number of frames, checksum.
const BLOCK_HEADER: usize = 24;

/// How many bytes of its header the checksum covers.
const SUMMED: usize = 20;

/// The most bytes that a block's content and its frames have, uncompressed. Those of a writer are far smaller, except for one very
/// long frame.
const MAX_CONTENT: usize = 1 << 25;

/// The most frames of a block.
const MAX_FRAMES: usize = 1 << 13;

/// The most numbers in the columns of a block, so that few bytes do not stand for any amount of memory.
const MAX_CELLS: usize = 1 << 21;

/// The most bytes of a frame: it fills a block alone. The actions of a hit collect 16 MiB at most, in at most 4096 pieces.
const MAX_FRAME: usize = 17 << 20;

/// Pieces of memory of one length are columns up to this many bytes.
const LONGEST_COLUMNS: u64 = 64;

/// What a block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockKind {
    /// The lines of the description; the last such block counts.
    Description,
    Frames,
    /// The recording was finished; there is nothing after it.
    End,
}

impl BlockKind {
    const fn code(self) -> u32 {
        match self {
            Self::Description => u32::from_le_bytes(*b"desc"),
            Self::Frames => u32::from_le_bytes(*b"fram"),
            Self::End => u32::from_le_bytes(*b"ends"),
        }
    }

    fn of(code: u32) -> Option<Self> {
        [Self::Description, Self::Frames, Self::End]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Whether bytes begin as a lean recording does.
#[must_use]
pub fn is_lean(bytes: &[u8]) -> bool {
    bytes.starts_with(LEAN_HEADER)
}
