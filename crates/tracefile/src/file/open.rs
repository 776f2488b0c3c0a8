//! Opening: from bytes to a description, a byte order and the places of the frames.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracewire_demand_paging::PagedMemory;
use tracewire_mapped_file::{Cut, MappedFile};

use super::{Ending, Locations, StandardVariables, TraceFile};
use crate::description::{Description, HEADER};
use crate::frame::{FrameShape, blocks_fit};
use crate::index::{FrameIndex, IndexCache, Key, Unindexed, WalkedFrames};
use crate::lean::{Expansion, LeanDamage, LeanError, LeanFile, Outline, is_lean};
use crate::write::END_MARKER;
use tracewire_arch::{RegisterLayout, StandardRegisters, TargetDescription};
use tracewire_model::ByteOrder;

/// The longest description that is read, in bytes.
pub const MAX_DESCRIPTION: usize = 32 << 20;

/// How many frames are looked at to settle whether the `R` line is decimal or hexadecimal.
const FRAMES_TO_SETTLE: usize = 1000;

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
    /// The header is that of another version of the format.
    #[error(
        "a trace file of version `{found}`, which is not known: only version 0 of the format is (`7f TRACE0` at the start)"
    )]
    Version {
        /// What is in place of the version, as far as it was read.
        found: String,
    },
    /// No empty line ends the description where one must.
    #[error("no end of the description in the first {} MiB: expected an empty line", MAX_DESCRIPTION >> 20)]
    Description,
    /// A lean recording of which nothing can be read.
    #[error(transparent)]
    Lean(#[from] LeanError),
    /// The trace file that a lean recording stands for cannot be written to a temporary file.
    #[error("cannot write the frames of {} to a temporary file in {}", path.display(), folder.display())]
    Expand {
        /// Which recording.
        path: PathBuf,
        /// Where the file was to be made.
        folder: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// More than the index can hold.
    #[error("a file of {size} bytes is too large: at most 256 TiB are read")]
    TooLarge {
        /// The file's size in bytes.
        size: u64,
    },
}

/// The bytes of a file.
#[derive(Debug)]
pub enum FileBytes {
    /// Mapped.
    Mapped(MappedFile),
    /// Read.
    Owned(Vec<u8>),
    /// The trace file that a long lean recording stands for.
    Expanded(ExpandedBytes),
}

/// The trace file that a lean recording stands for, whose frames are read from the recording when they are looked at.
#[derive(Debug)]
pub struct ExpandedBytes {
    memory: PagedMemory,
    recording: Arc<FileBytes>,
}

impl FileBytes {
    /// Checks that the file still has what was read of it.
    ///
    /// # Errors
    /// When another process has cut it.
    pub fn verify(&self) -> Result<(), Cut> {
        match self {
            Self::Mapped(mapped) => mapped.cut().map_or(Ok(()), Err),
            Self::Owned(_) => Ok(()),
            Self::Expanded(expanded) => expanded.recording.verify(),
        }
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
            Self::Expanded(expanded) => &expanded.memory,
        }
    }
}

/// The bytes of a file: mapped, or read where it is a pipe. A pipe is read to its end only where it starts with
/// these bytes.
///
/// # Errors
/// When the file cannot be read, or is a pipe that starts with other bytes.
pub fn read_file(path: &Path, header: &[u8]) -> Result<(FileBytes, Metadata), OpenError> {
    let error = |source| OpenError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    if metadata.is_file() {
        let mapped = MappedFile::map(file, path).map_err(error)?;
        return Ok((FileBytes::Mapped(mapped), metadata));
    }
    if metadata.file_type().is_char_device() {
        let device = "it is a device: expected a file or a pipe";
        return Err(error(io::Error::new(io::ErrorKind::InvalidInput, device)));
    }
    let mut bytes = Vec::new();
    let mut start = io::Read::take(&file, header.len() as u64);
    io::Read::read_to_end(&mut start, &mut bytes).map_err(error)?;
    if bytes != header && !(header == HEADER && is_lean(&bytes)) {
        return Err(other_header(&bytes));
    }
    io::Read::read_to_end(&mut &file, &mut bytes).map_err(error)?;
    Ok((FileBytes::Owned(bytes), metadata))
}

/// What is wrong with a header that is not [`HEADER`].
fn other_header(bytes: &[u8]) -> OpenError {
    /// The most bytes of a version that are shown.
    const SHOWN: usize = 8;
    match bytes.strip_prefix(b"\x7fTRACE") {
        None | Some([]) => OpenError::Header,
        Some(rest) => {
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let found = line.get(..SHOWN).unwrap_or(line);
            if found == b"0" {
                // Cut before its newline, or followed by something else.
                return OpenError::Header;
            }
            OpenError::Version {
                found: found.escape_ascii().to_string(),
            }
        }
    }
}

/// How many bytes of the trace file that a lean recording stands for are kept in memory. Of a longer one, frames are read when they are looked
/// at.
const IN_MEMORY: usize = 256 << 20;

/// The trace file that a lean recording stands for.
struct Expanded {
    bytes: FileBytes,
    /// What is wrong with the recording.
    damage: Vec<LeanDamage>,
    /// Its frames, if they were found already. A recording has little-endian ones.
    frames: Option<WalkedFrames>,
}

/// Reads a lean recording. A trace file of up to `most` bytes is made in memory.
fn expand(recording: FileBytes, path: Option<&Path>, most: usize) -> Result<Expanded, OpenError> {
    let mut outline = Outline::of(&recording, most)?;
    let length = outline.length();
    check_size(length)?;
    let damage = outline.take_damage();
    if let Some(whole) = outline.take_whole() {
        return Ok(Expanded {
            bytes: FileBytes::Owned(whole),
            damage,
            frames: None,
        });
    }
    let recording = Arc::new(recording);
    let (index, frames_end) = outline.take_index();
    let expansion = Expansion::new(Arc::<FileBytes>::clone(&recording), outline);
    match PagedMemory::new(length, expansion) {
        Ok(memory) => Ok(Expanded {
            bytes: FileBytes::Expanded(ExpandedBytes { memory, recording }),
            damage,
            frames: Some(WalkedFrames::of_recording(index, frames_end)),
        }),
        // The kernel reports no page faults to this user, or there is no such system call here.
        Err(_) => Ok(Expanded {
            bytes: write_out(&recording, path)?,
            damage,
            frames: None,
        }),
    }
}

/// Checks that the index can hold the places of a file.
const fn check_size(bytes: usize) -> Result<(), OpenError> {
    let size = bytes as u64;
    match size < 1 << 48 {
        true => Ok(()),
        false => Err(OpenError::TooLarge { size }),
    }
}

/// Writes the trace file that a lean recording stands for to a file without a name.
fn write_out(recording: &[u8], path: Option<&Path>) -> Result<FileBytes, OpenError> {
    let folder = std::env::temp_dir();
    let lean = LeanFile::parse(recording)?;
    let written = temporary(&folder).and_then(|file| {
        let mut out = io::BufWriter::with_capacity(1 << 20, &file);
        lean.expand(&mut out)?;
        drop(out);
        MappedFile::map(file, &folder)
    });
    match written {
        Ok(mapped) => Ok(FileBytes::Mapped(mapped)),
        Err(source) => Err(OpenError::Expand {
            path: path.unwrap_or(Path::new("-")).to_owned(),
            folder,
            source,
        }),
    }
}

/// A new file without a name, for its owner alone.
fn temporary(folder: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if let Ok(file) = crate::unnamed::unnamed(folder) {
        return Ok(file);
    }
    let name = folder.join(format!("tracewire-{}.part", std::process::id()));
    let mut options = crate::private::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&name)?;
    std::fs::remove_file(&name)?;
    Ok(file)
}

impl TraceFile {
    /// Opens a file by mapping it into memory, and finds its frames in one pass. A [lean recording](crate::lean) is read as the trace
    /// file that it stands for. A long one is read in parts.
    ///
    /// A file that is being written by a [`crate::Spool`] can be opened; the frames finished by then are seen.
    ///
    /// # Errors
    /// When the file cannot be read, or is no trace file. Damage after the header is no error: see
    /// [`Self::ending`] and [`Description::problems`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_keeping(path, IN_MEMORY)
    }

    /// As [`Self::open`], where the trace file that a lean recording stands for is made in memory up to a length in bytes. Of a longer one,
    /// frames are read from the recording each time that they are looked at.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_keeping(path: impl AsRef<Path>, most: usize) -> Result<Self, OpenError> {
        let path = path.as_ref();
        Self::read(read_file(path, HEADER)?.0, Some(path), most, None)
    }

    /// Opens a file as [`Self::open`] does. The index of a large file is taken from the cache, or is put there
    /// for the next time; searches by address are faster with it.
    ///
    /// # Errors
    /// As for [`Self::open`]. A cache that cannot be read or written is none.
    pub fn open_cached(path: impl AsRef<Path>, cache: &IndexCache) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let (bytes, metadata) = read_file(path, HEADER)?;
        let key = IndexCache::key(path, &metadata);
        let cached = key.as_ref().map(|key| (cache, key));
        let file = Self::read(bytes, Some(path), IN_MEMORY, cached)?;
        if let (Some(key), FrameIndex::Built(_), None) = (&key, &file.index, &file.lean) {
            cache.store(key, &file);
        }
        Ok(file)
    }

    /// Reads a trace file that is in memory.
    ///
    /// # Errors
    /// When it is no trace file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, OpenError> {
        Self::read(FileBytes::Owned(bytes), None, IN_MEMORY, None)
    }

    /// A trace file of a description and frames, as [`crate::FrameEncoder`] writes them, in memory. A frame may begin
    /// in one part and end in the next.
    ///
    /// # Errors
    /// When it would be too large.
    pub fn in_memory(description: &Description, frames: &[&[u8]]) -> Result<Self, OpenError> {
        let mut bytes = HEADER.to_vec();
        bytes.extend_from_slice(description.as_bytes());
        bytes.push(b'\n');
        for part in frames {
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(&END_MARKER);
        Self::from_bytes(bytes)
    }

    /// What a description says of frames that are elsewhere ([`Self::frame_elsewhere`]): a file without frames. What
    /// settles the byte order of others are often their frames.
    ///
    /// # Errors
    /// When it would be too large.
    pub fn of_frames_elsewhere(
        description: &Description,
        order: ByteOrder,
    ) -> Result<Self, OpenError> {
        let mut file = Self::in_memory(description, &[])?;
        file.shape.order = order;
        Ok(file)
    }

    fn read(
        bytes: FileBytes,
        path: Option<&Path>,
        most_expanded: usize,
        cache: Option<(&IndexCache, &Key)>,
    ) -> Result<Self, OpenError> {
        let (bytes, lean, found, cache) = match is_lean(&bytes) {
            true => {
                let expanded = expand(bytes, path, most_expanded)?;
                // The index would be that of another file.
                (expanded.bytes, Some(expanded.damage), expanded.frames, None)
            }
            false => (bytes, None, None, cache),
        };
        check_size(bytes.len())?;
        let body = bytes
            .strip_prefix(HEADER)
            .ok_or_else(|| other_header(&bytes))?;
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

        let (mut layout, mut named_architecture, mut layout_error) = (None, None, None);
        match description.target_xml().map(TargetDescription::parse) {
            None => {}
            Some(Ok(TargetDescription::Registers(declared))) => layout = Some(declared),
            Some(Ok(TargetDescription::Architecture(name))) => named_architecture = Some(name),
            Some(Err(error)) => layout_error = Some(error),
        }
        let architecture = named_architecture
            .as_deref()
            .or_else(|| layout.as_ref()?.architecture());
        let locations = Locations::of(description.tracepoints());
        let cached = cache.and_then(|(cache, key)| {
            let unindexed = Unindexed {
                bytes: &bytes,
                description: description.as_bytes(),
                frames_start: frames_start as u64,
            };
            cache.load(key, &unindexed)
        });
        let declared = architecture.and_then(tracewire_arch::bfd_byte_order);
        let found = found.filter(|found| declared.is_none_or(|declared| declared == found.order));
        let WalkedFrames {
            order,
            index,
            ending,
        } = match cached.or(found) {
            Some(frames) => frames,
            None if closed.is_none() => WalkedFrames::none(architecture),
            None => {
                let known = locations
                    .iter()
                    .map(|(number, locations)| (*number, locations.only_address()))
                    .collect();
                FrameIndex::build(&bytes, frames_start, architecture, &known)
            }
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
            path: path.map(Path::to_owned),
            lean,
            description,
            layout,
            named_architecture,
            layout_error,
            index,
            frames_start: frames_start as u64,
            ending,
            locations,
            clock,
            latest: Arc::default(),
            spans: std::sync::OnceLock::new(),
        };
        file.shape.register_block = file.settle_register_block();
        if let FileBytes::Mapped(mapped) = &file.bytes {
            mapped.need(match file.ending {
                // The marker's number is all that is read of it.
                Ending::Marker { offset, .. } => offset + 2,
                Ending::Missing { .. } | Ending::Cut { .. } | Ending::CutInDescription => {
                    mapped.len() as u64
                }
            });
        }
        if let (Some(name), Some(size)) = (&file.named_architecture, file.shape.register_block) {
            let set = StandardRegisters::named(name, file.shape.order, size);
            file.layout = set.map(|set| set.layout());
        }
        Ok(file)
    }

    /// The size of the register blocks: the reading of the `R` line with which more frames parse. Where both
    /// do equally well it is the one that the target description has, else the hexadecimal one, as for GDB.
    pub(super) fn settle_register_block(&self) -> Option<u32> {
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
}
