//! Frames, written as the trace file has them.

use crate::register_set::{RegisterSet, SET_LETTER};
use tracewire_model::{Address, ByteOrder, TracepointNumber, VariableNumber};

/// The largest tracepoint number that the format's signed 16-bit field can say.
pub const MAX_TRACEPOINT_NUMBER: i32 = i16::MAX as i32;

/// What every frame of one file has in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameFormat {
    /// The byte order of the target.
    pub byte_order: ByteOrder,
    /// The size of a register block, as the `R` line says it, in bytes.
    pub register_block_size: u32,
}

/// Something that a frame cannot say.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A number that the 16-bit field cannot say, or that means the end.
    #[error("tracepoint {0} cannot be written to a trace file: its number must be from 1 to 32767")]
    TracepointNumber(TracepointNumber),
    /// A register block of another size than the file's.
    #[error("a register block of {actual} bytes, in a file whose blocks have {expected}")]
    RegisterBlock {
        /// The file's size, in bytes.
        expected: u32,
        /// The block's size, in bytes.
        actual: usize,
    },
    /// Static tracepoint data is one block, whose length has 16 bits.
    #[error("static tracepoint data of {0} bytes: at most 65535 fit into a block")]
    StaticData(usize),
    /// A frame whose size 32 bits cannot say.
    #[error("a frame of {0} bytes: at most 4294967295 fit")]
    FrameSize(usize),
}

/// Writes one frame at the end of a buffer. A frame that is dropped without [`Self::finish`] is taken back.
#[derive(Debug)]
pub struct FrameEncoder<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    format: FrameFormat,
    followed: Option<VariableNumber>,
    place: Option<usize>,
    finished: bool,
}

/// A frame's tracepoint number and size, before its blocks.
pub const FRAME_HEADER: usize = 6;

impl<'a> FrameEncoder<'a> {
    /// Begins a frame.
    ///
    /// # Errors
    /// When the format cannot say the tracepoint number.
    pub fn begin(
        buffer: &'a mut Vec<u8>,
        format: FrameFormat,
        tracepoint: TracepointNumber,
    ) -> Result<Self, EncodeError> {
        let number = u16::try_from(tracepoint.0)
            .ok()
            .filter(|number| (1..=MAX_TRACEPOINT_NUMBER).contains(&i32::from(*number)))
            .ok_or(EncodeError::TracepointNumber(tracepoint))?;
        let start = buffer.len();
        buffer.extend_from_slice(&format.byte_order.u16_bytes(number));
        buffer.extend_from_slice(&[0; 4]);
        Ok(Self {
            buffer,
            start,
            format,
            followed: None,
            place: None,
            finished: false,
        })
    }

    /// Has [`place`](Self::place) say where the last value of a variable is, of those that are added from now on.
    pub const fn follow(&mut self, number: VariableNumber) {
        self.followed = Some(number);
    }

    /// Where the last value of the variable that is followed is, in bytes from the start of the frame.
    #[must_use]
    pub const fn place(&self) -> Option<usize> {
        self.place
    }

    /// How many bytes the frame has so far, its header among them.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Adds a register block: the bytes of a `g` packet.
    ///
    /// # Errors
    /// When it has not the size of the file's blocks.
    pub fn registers(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        if usize::try_from(self.format.register_block_size) != Ok(bytes.len()) {
            return Err(EncodeError::RegisterBlock {
                expected: self.format.register_block_size,
                actual: bytes.len(),
            });
        }
        self.buffer.push(b'R');
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds the registers of a set, of a whole register block, as a frame in a buffer keeps them
    /// ([`crate::RegisterSets`]). Nothing may be before them.
    ///
    /// # Errors
    /// When the block is not of the size of the target's blocks.
    pub fn register_set(
        &mut self,
        number: u32,
        set: &RegisterSet,
        block: &[u8],
    ) -> Result<(), EncodeError> {
        if usize::try_from(self.format.register_block_size) != Ok(block.len()) {
            return Err(EncodeError::RegisterBlock {
                expected: self.format.register_block_size,
                actual: block.len(),
            });
        }
        self.buffer.push(SET_LETTER);
        self.buffer
            .extend_from_slice(&self.format.byte_order.u32_bytes(number));
        for bytes in set.gather(block) {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Adds a piece of memory, in several blocks where it is longer than one can be. No bytes are no block.
    pub fn memory(&mut self, address: Address, bytes: &[u8]) {
        let order = self.format.byte_order;
        let mut at = address.0;
        for part in bytes.chunks(usize::from(u16::MAX)) {
            let length = part.len() as u16;
            self.buffer.push(b'M');
            self.buffer.extend_from_slice(&order.u64_bytes(at));
            self.buffer.extend_from_slice(&order.u16_bytes(length));
            self.buffer.extend_from_slice(part);
            at = at.wrapping_add(u64::from(length));
        }
    }

    /// Adds the value of a trace state variable.
    pub fn variable(&mut self, number: VariableNumber, value: i64) {
        let order = self.format.byte_order;
        self.buffer.push(b'V');
        self.buffer
            .extend_from_slice(&order.u32_bytes(number.0.cast_unsigned()));
        if self.followed == Some(number) {
            self.place = Some(self.size());
        }
        self.buffer
            .extend_from_slice(&order.u64_bytes(value.cast_unsigned()));
    }

    /// Says which registers of the block are not known, wholly or in part: a bit for each, in the order in which they
    /// are in the block, the lowest bit of the first mask for the first one. Nothing is added for a mask of zeros.
    pub fn unknown_registers(&mut self, masks: &[u64]) {
        for (place, mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            if let Some(number) = crate::unknown::mask_variable(place) {
                self.variable(number, mask.cast_signed());
            }
        }
    }

    /// Says that the frame is of a step of `while-stepping`, where that led back to an address of its tracepoint: it
    /// would be taken for one of a hit.
    pub fn step(&mut self) {
        self.variable(crate::step::STEP, 1);
    }

    /// Adds data of a static tracepoint. (GDB 13's reader of files stops at such a frame.)
    ///
    /// # Errors
    /// When it does not fit into one block.
    pub fn static_data(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let length =
            u16::try_from(bytes.len()).map_err(|_| EncodeError::StaticData(bytes.len()))?;
        self.buffer.push(b'S');
        self.buffer
            .extend_from_slice(&self.format.byte_order.u16_bytes(length));
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the frame, and gives its size in bytes, header included.
    ///
    /// # Errors
    /// When 32 bits cannot say its size; it is taken back then.
    pub fn finish(mut self) -> Result<usize, EncodeError> {
        let whole = self.size();
        let size =
            u32::try_from(whole - FRAME_HEADER).map_err(|_| EncodeError::FrameSize(whole))?;
        let field = self.start + 2..self.start + FRAME_HEADER;
        if let Some(field) = self.buffer.get_mut(field) {
            field.copy_from_slice(&self.format.byte_order.u32_bytes(size));
        }
        self.finished = true;
        Ok(whole)
    }
}

impl Drop for FrameEncoder<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.buffer.truncate(self.start);
        }
    }
}
