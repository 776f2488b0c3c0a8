//! A trace file, opened for reading.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::architecture::ByteOrder;
use crate::description::{Description, HEADER};
use crate::frame::{Frame, FrameShape, blocks_fit};
use crate::index::{Ending, FrameIndex, WalkedFrames};
use crate::number::{Address, FrameNumber, TracepointNumber, VariableNumber};
use crate::registers::RegisterLayout;

/// The longest description that is read, in bytes.
const MAX_DESCRIPTION: usize = 32 << 20;

/// How many frames are looked at to settle whether the `R` line is decimal or hexadecimal.
const FRAMES_TO_SETTLE: usize = 1000;

/// A trace file that can be read: its description, and its frames in any order.
#[derive(Debug)]
pub struct TraceFile {
    bytes: Bytes,
    path: Option<PathBuf>,
    description: Description,
    layout: Option<RegisterLayout>,
    layout_error: Option<crate::registers::LayoutError>,
    shape: FrameShape,
    index: FrameIndex,
    frames_start: u64,
    ending: Ending,
    /// The address of each tracepoint that has one; none for those that have several.
    addresses: HashMap<TracepointNumber, Option<Address>>,
    clock: StandardVariables,
}

/// The numbers of the variables that tell when and where a frame was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandardVariables {
    pub(crate) timestamp: Option<VariableNumber>,
    pub(crate) thread: Option<VariableNumber>,
    pub(crate) cpu: Option<VariableNumber>,
}

/// A file that cannot be read as a trace file at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened or mapped.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The header is another one.
    #[error("not a trace file: expected the bytes 7f `TRACE0` and a newline at the start")]
    Header,
    /// No empty line ends the description where one must.
    #[error("no end of the description in the first {} MiB: expected an empty line", MAX_DESCRIPTION >> 20)]
    Description,
    /// More than the index can hold.
    #[error("a file of {size} bytes is too large: at most 256 TiB are read")]
    TooLarge {
        /// The file's size in bytes.
        size: u64,
    },
}

#[derive(Debug)]
enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl TraceFile {
    /// Opens a file by mapping it into memory, and finds its frames in one pass.
    ///
    /// A file that is being written by a [`crate::Spool`] can be opened; the frames finished by then are seen.
    ///
    /// # Errors
    /// When the file cannot be read, or is no trace file. Damage behind the header is no error: see
    /// [`Self::ending`] and [`Description::problems`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let error = |source| OpenError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(error)?;
        let bytes = if file.metadata().map_err(error)?.is_file() {
            // SAFETY: the map is only read. Bytes that another process changes meanwhile change what is read,
            // and every use checks them anew; a file that another process cuts short ends this one with
            // SIGBUS, as for every program that maps files.
            Bytes::Mapped(unsafe { memmap2::Mmap::map(&file) }.map_err(error)?)
        } else {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut &file, &mut bytes).map_err(error)?;
            Bytes::Owned(bytes)
        };
        let mut opened = Self::read(bytes)?;
        opened.path = Some(path.to_owned());
        Ok(opened)
    }

    /// Reads a trace file that is in memory.
    ///
    /// # Errors
    /// When it is no trace file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, OpenError> {
        Self::read(Bytes::Owned(bytes))
    }

    fn read(bytes: Bytes) -> Result<Self, OpenError> {
        if bytes.len() as u64 >= 1 << 48 {
            return Err(OpenError::TooLarge {
                size: bytes.len() as u64,
            });
        }
        let body = bytes.strip_prefix(HEADER).ok_or(OpenError::Header)?;
        let searched = &body[..body.len().min(MAX_DESCRIPTION)];
        let closed = if searched.first() == Some(&b'\n') {
            Some(0)
        } else {
            memchr::memmem::find(searched, b"\n\n").map(|at| at + 1)
        };
        let length = match closed {
            Some(length) => length,
            None if searched.len() == body.len() => body.len(),
            None => return Err(OpenError::Description),
        };
        let description = Description::parse(body[..length].to_vec());
        let frames_start = HEADER.len() + length + usize::from(closed.is_some());

        let (layout, layout_error) = match description.target_xml().map(RegisterLayout::parse) {
            None => (None, None),
            Some(Ok(layout)) => (Some(layout), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let mut addresses = HashMap::new();
        for tracepoint in description.tracepoints() {
            let definition = &tracepoint.definition;
            addresses
                .entry(definition.number)
                .and_modify(|address| *address = None)
                .or_insert(Some(definition.address));
        }
        let WalkedFrames {
            order,
            index,
            ending,
        } = if closed.is_some() {
            FrameIndex::build(&bytes, frames_start, layout.as_ref(), &addresses)
        } else {
            WalkedFrames::none(layout.as_ref())
        };
        let variable = |name: &str| {
            let named = description
                .variables()
                .iter()
                .find(|variable| variable.name == name);
            named.map(|variable| variable.number)
        };
        let clock = StandardVariables {
            timestamp: variable("trace_timestamp"),
            thread: variable("trace_thread"),
            cpu: variable("trace_cpu"),
        };
        let mut file = Self {
            shape: FrameShape {
                order,
                register_block: None,
            },
            bytes,
            path: None,
            description,
            layout,
            layout_error,
            index,
            frames_start: frames_start as u64,
            ending,
            addresses,
            clock,
        };
        file.shape.register_block = file.settle_register_block();
        Ok(file)
    }

    /// The size of the register blocks: the reading of the `R` line with which more frames parse. Where both
    /// do equally well it is the one that the target description has, else the hexadecimal one, as for GDB.
    fn settle_register_block(&self) -> Option<u32> {
        let described = self.layout.as_ref().map(RegisterLayout::size);
        let Some(line) = self.description.register_block() else {
            return described;
        };
        let Some(decimal) = line.decimal.filter(|decimal| *decimal != line.hexadecimal) else {
            return Some(line.hexadecimal);
        };
        let fitting = |size| {
            let shape = FrameShape {
                register_block: Some(size),
                ..self.shape
            };
            let frames = self.frames().take(FRAMES_TO_SETTLE);
            frames
                .filter(|frame| blocks_fit(frame.data(), shape))
                .count()
        };
        let (with_hexadecimal, with_decimal) = (fitting(line.hexadecimal), fitting(decimal));
        let decimal_wins = with_decimal > with_hexadecimal
            || with_decimal == with_hexadecimal && described == Some(decimal);
        Some(if decimal_wins {
            decimal
        } else {
            line.hexadecimal
        })
    }

    /// Where the file is, when it was opened by name.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The description.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The byte order of the target, and so of the frames.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.shape.order
    }

    /// The size of every register block in bytes, decimal or hexadecimal settled; none when nothing tells.
    #[must_use]
    pub const fn register_block_size(&self) -> Option<u32> {
        self.shape.register_block
    }

    /// Which register stands where in a register block; none without a (good) target description.
    #[must_use]
    pub const fn layout(&self) -> Option<&RegisterLayout> {
        self.layout.as_ref()
    }

    /// Why the target description gives no layout, when there is one but it cannot be used.
    #[must_use]
    pub const fn layout_error(&self) -> Option<&crate::registers::LayoutError> {
        self.layout_error.as_ref()
    }

    /// Sets the layout of the register blocks, for a file whose description does not tell.
    pub fn set_layout(&mut self, layout: RegisterLayout) {
        self.layout = Some(layout);
        self.layout_error = None;
        self.shape.register_block = self.settle_register_block();
    }

    /// How many complete frames there are.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        self.index.len() as u64
    }

    /// A frame by its number, from 0.
    #[must_use]
    pub fn frame(&self, number: FrameNumber) -> Option<Frame<'_>> {
        let (offset, tracepoint) = self.index.get(number)?;
        let header = usize::try_from(offset).ok()?;
        let size = self.shape.order.u32_at(&self.bytes, header + 2)?;
        let data = self
            .bytes
            .get(header + 6..)?
            .get(..usize::try_from(size).ok()?)?;
        Some(Frame::new(self, number, tracepoint, offset, data))
    }

    /// Every complete frame, in the file's order.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = Frame<'_>> {
        (0..self.frame_count()).filter_map(|number| self.frame(FrameNumber(number)))
    }

    /// How the frames end.
    #[must_use]
    pub const fn ending(&self) -> Ending {
        self.ending
    }

    /// Where in the file the frames start.
    #[must_use]
    pub const fn frames_start(&self) -> u64 {
        self.frames_start
    }

    /// The whole file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of the tracepoint in the index, without touching the frame.
    pub(crate) const fn index(&self) -> &FrameIndex {
        &self.index
    }

    pub(crate) const fn shape(&self) -> FrameShape {
        self.shape
    }

    pub(crate) const fn clock(&self) -> StandardVariables {
        self.clock
    }

    /// The tracepoint's address, when it has just one.
    #[must_use]
    pub fn tracepoint_address(&self, number: TracepointNumber) -> Option<Address> {
        self.addresses.get(&number).copied().flatten()
    }
}
