//! A trace file, opened for reading.

mod locations;
mod open;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::checksum::Checksum;
use crate::description::Description;
use crate::encode::FRAME_HEADER;
use crate::frame::{Frame, FrameShape};
use crate::index::{Ending, FrameIndex, Selection, are_whole};
use crate::lean::LeanDamage;
use crate::span::Spans;
use tracewire_arch::{Architecture, RegisterLayout, StandardRegisters};
use tracewire_model::{Address, ByteOrder, FrameNumber, TracepointNumber, VariableNumber};

pub use locations::Locations;
pub use open::{ExpandedBytes, FileBytes, read_file};
pub use open::{MAX_DESCRIPTION, OpenError};

/// A trace file that can be read: its description, and its frames in any order.
#[derive(Debug)]
pub struct TraceFile {
    bytes: FileBytes,
    path: Option<PathBuf>,
    /// What is wrong with the lean recording that it was read from; none where it was a trace file.
    lean: Option<Vec<LeanDamage>>,
    description: Description,
    layout: Option<RegisterLayout>,
    named_architecture: Option<String>,
    layout_error: Option<tracewire_arch::LayoutError>,
    shape: FrameShape,
    index: FrameIndex,
    frames_start: u64,
    ending: Ending,
    locations: BTreeMap<TracepointNumber, Locations>,
    clock: StandardVariables,
    latest: Arc<AtomicU64>,
    spans: OnceLock<Spans>,
}

/// How many bytes are copied at a time to be written.
const COPIED_AT_ONCE: usize = 1 << 18;

/// The numbers of the variables that tell when and where a frame was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandardVariables {
    pub(crate) timestamp: Option<VariableNumber>,
    pub(crate) thread: Option<VariableNumber>,
    pub(crate) cpu: Option<VariableNumber>,
}

impl TraceFile {
    /// Where the file is, when it was opened by name.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What is wrong with the [lean recording](crate::lean) that this was read from; none where it is a trace file. The bytes and the
    /// offsets are those of the trace file that the recording stands for.
    #[must_use]
    pub fn lean(&self) -> Option<&[LeanDamage]> {
        self.lean.as_deref()
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

    /// The size of every register block in bytes, decimal or hexadecimal settled; none when nothing says.
    #[must_use]
    pub const fn register_block_size(&self) -> Option<u32> {
        self.shape.register_block
    }

    /// Which register is where in a register block: as the target description says, or, where that only names a
    /// machine, as the standard register set of this size has them. None without a (good) target description.
    #[must_use]
    pub const fn layout(&self) -> Option<&RegisterLayout> {
        self.layout.as_ref()
    }

    /// BFD's name of the machine, where the target description names it and does not tell its registers. GDB takes the
    /// machine's standard ones.
    #[must_use]
    pub fn named_architecture(&self) -> Option<&str> {
        self.named_architecture.as_deref()
    }

    /// Why the target description gives no layout, when there is one but it cannot be used.
    #[must_use]
    pub const fn layout_error(&self) -> Option<&tracewire_arch::LayoutError> {
        self.layout_error.as_ref()
    }

    /// Sets the layout of the register blocks, for a file whose description does not tell.
    pub fn set_layout(&mut self, layout: RegisterLayout) {
        self.layout = Some(layout);
        self.layout_error = None;
        self.index.forget_contents();
        self.spans = OnceLock::new();
        self.shape.register_block = self.settle_register_block();
    }

    /// The byte order that the frames show: the one in which they can be read, where they cannot be in the other.
    #[must_use]
    pub fn byte_order_of_frames(&self) -> Option<ByteOrder> {
        if self.ending == Ending::CutInDescription {
            return None;
        }
        let start = usize::try_from(self.frames_start).unwrap_or(usize::MAX);
        let (this, other) = (self.shape.order, self.shape.order.other());
        let is_this = are_whole(self.ending, self.index.len());
        // Read in the wrong order, frames seem to end soon.
        let frames = FrameIndex::build_in(&self.bytes, start, other);
        let is_other = are_whole(frames.ending, frames.index.len());
        match (is_this, is_other) {
            (true, false) => Some(this),
            (false, true) => Some(other),
            _ => None,
        }
    }

    /// Says which machine the file is of. The frames settle the byte order where they show one, else the machine; the
    /// layout is that of its standard register set that fits the size of the register blocks, where the description does
    /// not tell one. Gives whether there is a layout now.
    pub fn set_architecture(&mut self, architecture: Architecture) -> bool {
        let named = architecture.byte_order();
        let order = if named == self.shape.order {
            named
        } else {
            self.byte_order_of_frames().unwrap_or(named)
        };
        if order != self.shape.order && self.ending != Ending::CutInDescription {
            let start = usize::try_from(self.frames_start).unwrap_or(usize::MAX);
            let frames = FrameIndex::build_in(&self.bytes, start, order);
            self.index = frames.index;
            self.ending = frames.ending;
        }
        self.shape.order = order;
        self.shape.register_block = self.settle_register_block();
        if self.layout.is_none() {
            let size = self.register_block_size();
            let standard = size.and_then(|size| StandardRegisters::fitting(architecture, size));
            standard
                .into_iter()
                .for_each(|set| self.set_layout(set.layout()));
        }
        self.layout.is_some()
    }

    /// The spans: entries and returns of functions, matched. They are worked out when they are first asked for.
    #[must_use]
    pub fn spans(&self) -> &Spans {
        self.spans.get_or_init(|| Spans::of(self))
    }

    /// Sets the spans of a file that has some of another one's frames.
    pub(crate) fn with_spans(mut self, spans: Spans) -> Self {
        self.spans = OnceLock::from(spans);
        self
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
        self.latest.store(number.0, Ordering::Relaxed);
        let header = usize::try_from(offset).ok()?;
        let size = self.shape.order.u32_at(&self.bytes, header + 2)?;
        let length = usize::try_from(size).ok()?.checked_add(FRAME_HEADER)?;
        let bytes = self.bytes.get(header..)?.get(..length)?;
        Some(Frame::new(self, number, tracepoint, offset, bytes))
    }

    /// A frame that is elsewhere, and means what it would mean in this file; none where the bytes are not one whole
    /// frame. It has the number that is given, and is where that says.
    #[must_use]
    pub fn frame_elsewhere<'a>(
        &'a self,
        number: FrameNumber,
        offset: u64,
        bytes: &'a [u8],
    ) -> Option<Frame<'a>> {
        let order = self.shape.order;
        let tracepoint = i32::from(order.u16_at(bytes, 0)?.cast_signed());
        let size = usize::try_from(order.u32_at(bytes, 2)?).ok()?;
        let whole = size.checked_add(FRAME_HEADER) == Some(bytes.len());
        whole.then(|| Frame::new(self, number, TracepointNumber(tracepoint), offset, bytes))
    }

    /// Where the number of the frame that was asked for last can be read, by a thread that shows how far long work is.
    #[must_use]
    pub fn latest_frame(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.latest)
    }

    /// Every complete frame, in the file's order.
    pub fn frames(&self) -> impl DoubleEndedIterator<Item = Frame<'_>> {
        (0..self.frame_count()).filter_map(|number| self.frame(FrameNumber(number)))
    }

    /// The frames from `start` to before `end` that may be selected, in the file's order, by what the index knows: of a large
    /// file, of which [`Self::open_cached`] found the index, without reading its frames.
    #[must_use]
    pub fn selected(
        &self,
        start: FrameNumber,
        end: FrameNumber,
        selection: &impl Selection,
    ) -> Vec<FrameNumber> {
        self.index.selected(start.0, end.0, selection)
    }

    /// One frame of each tracepoint at each program counter, without reading the frames; frames whose program counter the index
    /// does not know are all there. None where the index has no program counters.
    #[must_use]
    pub fn representatives(&self) -> Option<Vec<FrameNumber>> {
        self.index.representatives()
    }

    /// Checks that the file still has what was read of it: to be asked before a result is called good.
    ///
    /// # Errors
    /// When another process has cut the file since it was opened.
    pub fn verify(&self) -> Result<(), tracewire_mapped_file::Cut> {
        self.bytes.verify()
    }

    /// How the frames end.
    #[must_use]
    pub const fn ending(&self) -> Ending {
        self.ending
    }

    /// The checksum that the file gives after its end marker; none in files of others, and in those that a crash
    /// left.
    #[must_use]
    pub fn checksum(&self) -> Option<Checksum> {
        Checksum::split(&self.bytes).map(|(_, declared)| declared)
    }

    /// The checksum that the file should have: of all bytes before it. Reads the whole file.
    #[must_use]
    pub fn found_checksum(&self) -> Checksum {
        let before = Checksum::split(&self.bytes).map_or(&self.bytes[..], |(before, _)| before);
        Checksum::of(before)
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

    /// Writes the whole file. Its bytes are copied before, for those of a lean recording may not be there yet when a system call
    /// reads them ([`tracewire_demand_paging`]).
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn write_to(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut copied = Vec::new();
        for bytes in self.bytes.chunks(COPIED_AT_ONCE) {
            copied.clear();
            copied.extend_from_slice(bytes);
            out.write_all(&copied)?;
        }
        Ok(())
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

    /// The tracepoint's address in the code, when it has just one.
    #[must_use]
    pub fn tracepoint_address(&self, number: TracepointNumber) -> Option<Address> {
        self.locations(number)?.only_address()
    }

    /// Where the tracepoint is; none for one that is not defined.
    #[must_use]
    pub fn locations(&self, number: TracepointNumber) -> Option<&Locations> {
        self.locations.get(&number)
    }

    /// Which bits of an address count: all 64, but 32 on a machine whose program counter has that many. GDB extends
    /// MIPS's with their sign, and what an expression computes may have more.
    pub(crate) fn address_mask(&self) -> u64 {
        let counter = self.layout().and_then(RegisterLayout::program_counter);
        match counter {
            Some(counter) if counter.bits == 32 => u64::from(u32::MAX),
            _ => u64::MAX,
        }
    }
}
