//! Repairs a cut or damaged file.
//!
//! Every whole part is kept, byte for byte; other parts are left out and reported. Lines are taken one by one, so that damage to
//! one costs only that one. Frames are followed by their sizes. If the chain breaks, the next whole frame is searched: its blocks
//! end where its size says, and another frame follows.

mod frames;
mod known;
mod lines;
mod search;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::structure::MOST_ZEROS;
use search::WholeFrames;
use tracewire_arch::{RegisterLayout, StandardRegisters, TargetDescription, likely_byte_order};
use tracewire_model::{ByteOrder, Status, StatusFields, StopReason, TracepointNumber};
use tracewire_tracefile::raw::{FRAME_HEADER, FileBytes, read_file, write_as_it_is};
use tracewire_tracefile::{
    Checksum, Description, HEADER, MAX_LINE, OpenError, TraceFile, TraceFileWriter, WriteError,
};

/// The changes to a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repair {
    /// How many frames the new file has.
    pub frames: u64,
    /// The parts that were dropped or made up: lines first, by their numbers, and bytes last, by their offsets.
    pub changes: Vec<Change>,
}

/// One difference between a damaged file and the repaired one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// The header was damaged.
    Header,
    /// A line that cannot be understood was left out.
    LineLost {
        /// Which line, from 1; the header is line 1.
        line: usize,
        /// How many bytes it has.
        length: u64,
        /// Its text, cut to a length that can be shown.
        text: String,
    },
    /// The empty line that ends the description was missing.
    EmptyLine,
    /// The target description cannot be used, and was left out.
    TargetXmlLost(String),
    /// The size of the register blocks was not given, or wrong; it is this, in bytes.
    RegisterBlockSize(u32),
    /// A tracepoint that frames or other lines name had no definition; one was made up.
    TracepointMadeUp(TracepointNumber),
    /// The status line was missing, or had another number of frames or other contradictions.
    Status,
    /// FileBytes that are no whole frame were left out.
    BytesLost {
        /// Where they are in the damaged file.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// The end marker was missing.
    EndMarker,
    /// The checksum was missing, or did not match: the change may be in a collected value, which cannot be recognized. The new file
    /// has a new checksum.
    Checksum,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header was damaged"),
            Self::LineLost { line, text, .. } => write!(f, "line {line} is left out: `{text}`"),
            Self::EmptyLine => {
                f.write_str("the empty line that ends the description was missing")
            }
            Self::TargetXmlLost(reason) => {
                write!(f, "the target description is left out: {reason}")
            }
            Self::RegisterBlockSize(size) => {
                write!(
                    f,
                    "the size of a register block is found to be {size} bytes"
                )
            }
            Self::TracepointMadeUp(number) => {
                write!(
                    f,
                    "tracepoint {number} had no definition; an empty one is made up"
                )
            }
            Self::Status => f.write_str("the status line is set right"),
            Self::BytesLost { offset, length } => {
                write!(
                    f,
                    "{length} bytes at offset {offset} are no whole frame, and left out"
                )
            }
            Self::EndMarker => f.write_str("the end marker was missing"),
            Self::Checksum => f.write_str(
                "the checksum is missing or wrong: something else may have changed, perhaps a collected value",
            ),
        }
    }
}

/// A file that may be damaged anywhere, its header too.
#[derive(Debug)]
pub struct DamagedFile(FileBytes);

impl DamagedFile {
    /// Maps a file into memory, or reads a pipe to its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self(read_file(path.as_ref(), b"")?.0))
    }

    /// All of it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Writes to `path` every whole line and every whole frame of a trace file that may be damaged anywhere. The
/// bytes are the whole file; `path` is replaced when all is written, so it may be the file they came from.
///
/// # Errors
/// When the new file cannot be written.
pub fn repair(bytes: &[u8], path: impl AsRef<Path>) -> Result<Repair, WriteError> {
    let salvage = Salvage::of(bytes);
    salvage.write(path)?;
    Ok(Repair {
        frames: salvage.frames.len() as u64,
        changes: salvage.changes,
    })
}

/// The whole parts of a file that may be damaged anywhere, before they are written.
#[derive(Debug)]
pub struct Salvage<'a> {
    /// The whole file.
    bytes: &'a [u8],
    description: Description,
    declared_frames: Option<u64>,
    /// How many zeros are after the last frame.
    end_zeros: u64,
    frames: Vec<Range<usize>>,
    /// The byte order that they are whole in.
    order: ByteOrder,
    changes: Vec<Change>,
}

impl<'a> Salvage<'a> {
    /// Looks through a whole file, and leaves out lines with bytecode that cannot be evaluated.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        // A frame's collected data may look like lines.
        let plain = Self::in_order_of_readers(bytes, lines::End::FirstEmpty);
        if plain.lost() == 0 {
            return plain;
        }
        let searched = Self::in_order_of_readers(bytes, lines::End::LastKnown);
        if searched.lost() < plain.lost() {
            searched
        } else {
            plain
        }
    }

    /// The whole parts, in the byte order of the new file's readers: few frames may be whole in both orders.
    fn in_order_of_readers(bytes: &'a [u8], end: lines::End) -> Self {
        let found = Self::look_through(bytes, end, None);
        match found.order_of_readers() {
            Some(order) if order != found.order => Self::look_through(bytes, end, Some(order)),
            _ => found,
        }
    }

    /// The byte order that a reader of the new file finds, where it may be another one.
    fn order_of_readers(&self) -> Option<ByteOrder> {
        if !self.may_be_whole_in(self.order.other()) {
            return None;
        }
        let mut file = HEADER.to_vec();
        file.extend_from_slice(self.description.as_bytes());
        file.push(b'\n');
        file.extend(self.frames().flatten());
        file.extend([0, 0]);
        let file = TraceFile::from_bytes(file).ok()?;
        Some(file.byte_order())
    }

    /// Whether the frames, one after the other, may be a whole number of frames in this byte order.
    fn may_be_whole_in(&self, order: ByteOrder) -> bool {
        // The rest of the current frame.
        let mut left = 0;
        for mut rest in self.frames() {
            while !rest.is_empty() {
                if left == 0 {
                    // A header in two frames: a reader decides.
                    let Some(size) = order.u32_at(rest, 2) else {
                        return true;
                    };
                    left = (size as usize).saturating_add(FRAME_HEADER);
                }
                let passed = left.min(rest.len());
                rest = &rest[passed..];
                left -= passed;
            }
        }
        left == 0
    }

    /// How many bytes of the file are not kept.
    fn lost(&self) -> u64 {
        let lost = self.changes.iter().map(|change| match change {
            Change::BytesLost { length, .. } | Change::LineLost { length, .. } => *length,
            _ => 0,
        });
        lost.sum()
    }

    fn look_through(bytes: &'a [u8], end: lines::End, order: Option<ByteOrder>) -> Self {
        let declared = Checksum::split(bytes);
        let whole = bytes;
        let bytes = Checksum::strip(whole);
        let mut changes = Vec::new();
        if !bytes.starts_with(HEADER) {
            changes.push(Change::Header);
        }
        let salvaged = lines::salvage(bytes, end, &mut changes);
        let mut lines = salvaged.lines;
        let layout = usable_layout(&mut lines, &mut changes);
        let description = parse(&lines);
        let frames = frames::salvage(
            bytes,
            salvaged.frames_start,
            &description,
            layout.as_ref(),
            order,
        );
        let size = frames.shape.register_block;
        set_register_block(&mut lines, &description, size, &mut changes);
        define_tracepoints(&mut lines, bytes, &frames, layout.as_ref(), &mut changes);
        set_status(
            &mut lines,
            &description,
            frames.kept.len() as u64,
            &mut changes,
        );
        changes.extend(
            frames
                .lost
                .iter()
                .map(|Range { start, end }| Change::BytesLost {
                    offset: *start as u64,
                    length: (end - start) as u64,
                }),
        );
        if !frames.end_marker {
            changes.push(Change::EndMarker);
        }
        let promised = description
            .status()
            .is_some_and(|status| status.fields.sealed);
        let last = frames.kept.last();
        let frames_end = last.map_or(salvaged.frames_start, |last| last.end);
        let none_expected = !promised && bytes.len() == whole.len();
        let right = declared.map_or(none_expected, |(before, declared)| {
            declared == Checksum::of(before)
        });
        if !right {
            changes.push(Change::Checksum);
        }
        Self {
            bytes: whole,
            end_zeros: bytes.len().saturating_sub(frames_end) as u64,
            declared_frames: description.status().and_then(|status| status.fields.frames),
            description: parse(&lines),
            order: frames.shape.order,
            frames: frames.kept,
            changes,
        }
    }

    /// The description: whole lines, and those made up.
    #[must_use]
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The number of frames in the file's status line.
    #[must_use]
    pub const fn declared_frames(&self) -> Option<u64> {
        self.declared_frames
    }

    /// The whole frames, each with its header, in the file's order.
    pub fn frames(&self) -> impl Iterator<Item = &'a [u8]> {
        self.frames
            .iter()
            .filter_map(|frame| self.bytes.get(frame.clone()))
    }

    /// Writes a repaired file, which replaces `path` when all is written. A file without faults is copied unchanged, except for
    /// endless zeros after its end marker; any other gets a checksum.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), WriteError> {
        // The marker itself has two.
        if self.changes.is_empty() && self.end_zeros <= 2 + MOST_ZEROS {
            return write_as_it_is(path.as_ref(), self.bytes);
        }
        let mut writer = TraceFileWriter::create(&path, &self.description)?;
        for frame in self.frames() {
            writer.append(frame)?;
        }
        tracewire_mapped_file::verify_bytes(self.bytes)
            .map_err(|cut| io::Error::new(io::ErrorKind::UnexpectedEof, cut))
            .map_err(WriteError::system("make", path.as_ref()))?;
        writer.finish()
    }

    /// The parts that were dropped or made up: lines first, by their numbers, and bytes last, by their offsets.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}

fn parse(lines: &[Vec<u8>]) -> Description {
    Description::parse(
        lines
            .iter()
            .flat_map(|line| [line, &b"\n"[..]].concat())
            .collect(),
    )
}

fn is_kind(line: &[u8], kind: &str) -> bool {
    line.strip_prefix(kind.as_bytes())
        .is_some_and(|rest| rest.starts_with(b" "))
}

/// The layout that the target description gives, or the machine that it names; a description that gives neither is taken
/// out.
fn usable_layout(lines: &mut Vec<Vec<u8>>, changes: &mut Vec<Change>) -> Option<RegisterLayout> {
    let description = parse(lines);
    match TargetDescription::parse(description.target_xml()?) {
        Ok(TargetDescription::Registers(layout)) => Some(layout),
        Ok(TargetDescription::Architecture(name)) => {
            let line = description.register_block()?;
            let sizes = [Some(line.hexadecimal), line.decimal];
            let order = likely_byte_order(&name);
            let mut sets = sizes
                .into_iter()
                .filter_map(|size| StandardRegisters::named(&name, order, size?));
            sets.next().map(|set| set.layout())
        }
        Err(error) => {
            lines.retain(|line| !is_kind(line, "tdesc"));
            changes.push(Change::TargetXmlLost(error.to_string()));
            None
        }
    }
}

/// Sets the size in the `R` line, in hexadecimal, to that with which frames parse. GDB refuses a file with size 0.
fn set_register_block(
    lines: &mut Vec<Vec<u8>>,
    description: &Description,
    size: Option<u32>,
    changes: &mut Vec<Change>,
) {
    let declared = description.register_block().map(|line| line.hexadecimal);
    let size = size.or(declared).filter(|size| *size > 0).unwrap_or(1);
    let count = lines.iter().filter(|line| is_kind(line, "R")).count();
    if declared != Some(size) || count != 1 {
        changes.push(Change::RegisterBlockSize(size));
        lines.retain(|line| !is_kind(line, "R"));
        lines.insert(0, format!("R {size:x}").into_bytes());
    }
}

/// Makes up a definition for every tracepoint that has frames and none.
fn define_tracepoints(
    lines: &mut Vec<Vec<u8>>,
    bytes: &[u8],
    frames: &WholeFrames,
    layout: Option<&RegisterLayout>,
    changes: &mut Vec<Change>,
) {
    let description = parse(lines);
    let tracepoints = description.tracepoints().iter();
    let mut defined: HashSet<_> = tracepoints.map(|one| one.definition.number).collect();
    for frame in &frames.kept {
        let number = frames.tracepoint(bytes, frame);
        if defined.insert(number) {
            let address = frames
                .program_counter(bytes, frame, layout)
                .unwrap_or_default();
            changes.push(Change::TracepointMadeUp(number));
            lines.push(lines::made_up(number, address));
        }
    }
}

/// Sets the number of frames in the status line, and limits the free space to the buffer's size.
fn set_status(
    lines: &mut Vec<Vec<u8>>,
    description: &Description,
    frames: u64,
    changes: &mut Vec<Change>,
) {
    let old = description.status();
    let overfull = |fields: &StatusFields| {
        let (free, size) = (fields.buffer_free, fields.buffer_size);
        matches!((free, size), (Some(free), Some(size)) if free > size)
    };
    // A known field is among the others only if its value is invalid.
    let is_damaged = |(name, value): &(String, String)| value.is_empty() || Status::is_known(name);
    let declared = |fields: &StatusFields| fields.frames.is_none_or(|declared| declared == frames);
    let good = |status: &Status| {
        declared(&status.fields)
            && !overfull(&status.fields)
            && !status.fields.other.iter().any(is_damaged)
    };
    // GDB reads all status lines.
    let is_refused = |line: &Vec<u8>| {
        let read = line.strip_prefix(b"status ").map(Status::parse_line);
        read.is_some_and(|read| read.is_ok_and(|status| !status.refused_fields().is_empty()))
    };
    if old.is_some_and(good) && !lines.iter().any(is_refused) {
        return;
    }
    let unknown = || StatusFields {
        stop_reason: Some(StopReason::Unknown),
        frames_created: Some(frames),
        ..StatusFields::default()
    };
    let mut fields = old.map_or_else(unknown, |status| status.fields.clone());
    if overfull(&fields) {
        fields.buffer_free = None;
    }
    fields.frames = Some(frames);
    // A field that was damaged is none.
    fields.other.retain(|field| !is_damaged(field));
    // A new line that GDB would refuse is no repair, either.
    let printed = Status::from(fields.clone()).to_string();
    if Status::parse_line(printed.as_bytes())
        .is_ok_and(|status| !status.refused_fields().is_empty())
    {
        fields.other.clear();
    }
    fields.frames_created = fields.frames_created.map(|created| created.max(frames));
    let line = format!("status {}", Status::from(fields)).into_bytes();
    changes.push(Change::Status);
    let place = lines.iter().position(|line| is_kind(line, "status"));
    lines.retain(|line| !is_kind(line, "status"));
    if line.len() <= MAX_LINE {
        lines.insert(place.unwrap_or(1).min(lines.len()), line);
    }
}
