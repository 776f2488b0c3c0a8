//! The frame index of a large file, kept for the next run. `docs/formats/frame-index.md` has the form.
//!
//! Nothing in an index is trusted: a frame is read from an offset only if one fits there.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, Metadata};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tracewire_mapped_file::MappedFile;

use super::{Ending, FrameIndex, WalkedFrames};
use crate::file::TraceFile;
use crate::private;
use crate::write::create_beside;
use tracewire_model::{ByteOrder, FrameNumber, TracepointNumber};

/// Smaller files are read again in the time that looking for an index takes.
const SMALLEST: u64 = 16 << 20;

/// How much all the indexes in the folder may take before the oldest are removed.
const MOST: u64 = 2 << 30;

/// How many frames share one offset, and one first and last time.
pub(super) const GROUP: usize = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"TWindex3");

/// How many numbers the header has.
const FIELDS: usize = 11;

/// Means an address that is not known, or the one that has this value.
const NO_ADDRESS: u64 = u64::MAX;

/// The first and the last time of a group in which no frame has one.
const NO_TIMES: [u64; 2] = [u64::MAX, 0];

/// A folder in which the frame indexes of large files are kept from run to run.
#[derive(Clone, Debug)]
pub struct IndexCache {
    folder: PathBuf,
}

/// What says whether an index belongs to a file as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    name: String,
    size: u64,
    changed: u64,
}

/// The numbers at the front of the file.
struct Header([u64; FIELDS]);

/// The folder for indexes that cannot be beside their trace files: `tracewire` in `$XDG_CACHE_HOME`, or in `~/.cache`; none where neither is
/// set.
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(caches.join("tracewire"))
}

impl IndexCache {
    /// A cache in this folder, which need not be there.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The user's own: `tracewire` in `$XDG_CACHE_HOME`, or in `~/.cache`; none where neither is set.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        Some(Self::new(user_cache()?))
    }

    /// The folder, which need not be there.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key of a file, when an index for it pays.
    pub(crate) fn key(path: &Path, metadata: &Metadata) -> Option<Key> {
        if metadata.len() < SMALLEST {
            return None;
        }
        let path = fs::canonicalize(path).ok()?;
        let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Key {
            name: format!("{name:.80}-{:016x}.index", hash(&path)),
            size: metadata.len(),
            changed: changed.as_nanos() as u64,
        })
    }

    /// The index of a file, when there is a good one.
    pub(crate) fn load(&self, key: &Key, file: &Unindexed<'_>) -> Option<WalkedFrames> {
        let path = self.folder.join(&key.name);
        let stored = File::open(&path).ok()?;
        if !private::is_own(&stored.metadata().ok()?) {
            return None;
        }
        let map = MappedFile::map(stored, path).ok()?;
        let index = CachedIndex::new(map)?;
        let (header, order, ending) = index.header()?;
        let right = header.0[1] == key.size
            && header.0[2] == key.changed
            && header.0[3] == hash(file.description)
            && header.0[4] == file.frames_start
            && index.ends_as(file.bytes, order, ending);
        let index = FrameIndex::Cached(index);
        right.then_some(WalkedFrames {
            order,
            index,
            ending,
        })
    }

    /// Keeps the index of a file. A folder that cannot be written means no cache, and is no error.
    pub(crate) fn store(&self, key: &Key, file: &TraceFile) {
        let stored = fs::create_dir_all(&self.folder).and_then(|()| {
            let path = self.folder.join(&key.name);
            let (temporary, new) = create_beside(&path, ".part").map_err(io::Error::other)?;
            write(key, file, &new)
                .and_then(|()| fs::rename(&temporary, &path))
                .inspect_err(|_| drop(fs::remove_file(&temporary)))?;
            self.prune(&path)
        });
        drop(stored);
    }

    /// Removes the oldest indexes when all of them take too much; the newest stays.
    fn prune(&self, newest: &Path) -> io::Result<()> {
        let mut indexes = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let path = entry.path();
            let name = entry.file_name();
            // A half-written one, left by a crash, too.
            if name.to_string_lossy().contains(".index") && path != newest {
                indexes.push((metadata.modified()?, metadata.len(), path));
            }
        }
        indexes.sort();
        let mut all: u64 = indexes.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in indexes {
            if all <= MOST {
                break;
            }
            fs::remove_file(path)?;
            all -= size;
        }
        Ok(())
    }
}

/// A file of which everything is known but its frames.
pub(crate) struct Unindexed<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) description: &'a [u8],
    pub(crate) frames_start: u64,
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A part of an index, which is written while other parts are.
struct PartWriter<'f> {
    file: &'f File,
    /// Where the pending bytes belong.
    at: u64,
    /// Where the next part begins.
    end: u64,
    pending: Vec<u8>,
}

impl<'f> PartWriter<'f> {
    /// How many bytes are written at once.
    const CHUNK: usize = 1 << 16;

    /// A part of so many bytes, after those before it.
    fn after(&self, length: u64) -> Self {
        Self::new(self.file, self.end, length)
    }

    fn new(file: &'f File, at: u64, length: u64) -> Self {
        Self {
            file,
            at,
            end: at.saturating_add(length),
            pending: Vec::with_capacity(Self::CHUNK),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        match self.pending.len() >= Self::CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.at)?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// When the part is not as long as it has to be: the file of the frames has changed meanwhile.
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self.at == self.end {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Writes all parts in one pass: most of its time is the wait for the memory of the frames.
fn write(key: &Key, file: &TraceFile, new: &File) -> io::Result<()> {
    let (kind, ending) = encode_ending(file.ending());
    let fields = [
        MAGIC,
        key.size,
        key.changed,
        hash(file.description().as_bytes()),
        file.frames_start(),
        file.frame_count(),
        u64::from(file.byte_order() == ByteOrder::Big),
        kind,
        ending[0],
        ending[1],
        ending[2],
    ];
    let count = file.frame_count();
    let groups = count.div_ceil(GROUP as u64);
    let mut header = PartWriter::new(new, 0, 8 * FIELDS as u64);
    let mut offsets = header.after(8 * groups);
    let mut group_times = offsets.after(16 * groups);
    let mut addresses = group_times.after(8 * count);
    let mut sizes = addresses.after(4 * count);
    let mut tracepoints = sizes.after(2 * count);
    for field in fields {
        header.put(&field.to_le_bytes())?;
    }
    let mut times = NO_TIMES;
    for frame in file.frames() {
        let number = frame.number().0;
        if number.is_multiple_of(GROUP as u64) {
            offsets.put(&frame.offset().to_le_bytes())?;
        }
        if let Some(time) = frame.timestamp() {
            times = [times[0].min(time), times[1].max(time)];
        }
        if (number + 1).is_multiple_of(GROUP as u64) || number + 1 == count {
            group_times.put(&times[0].to_le_bytes())?;
            group_times.put(&times[1].to_le_bytes())?;
            times = NO_TIMES;
        }
        let address = frame
            .program_counter()
            .map_or(NO_ADDRESS, |address| address.0);
        addresses.put(&address.to_le_bytes())?;
        sizes.put(&(frame.data().len() as u32).to_le_bytes())?;
        tracepoints.put(&(frame.tracepoint().0 as u16).to_le_bytes())?;
    }
    for part in [header, offsets, group_times, addresses, sizes, tracepoints] {
        part.finish()?;
    }
    Ok(())
}

fn encode_ending(ending: Ending) -> (u64, [u64; 3]) {
    match ending {
        Ending::Marker {
            offset,
            trailing,
            zero,
        } => (0, [offset, trailing, u64::from(zero)]),
        Ending::Missing { offset } => (1, [offset, 0, 0]),
        Ending::Cut {
            offset,
            present,
            expected,
        } => (2, [offset, present, expected.unwrap_or(0)]),
        Ending::CutInDescription => (3, [0; 3]),
    }
}

fn decode_ending(kind: u64, [offset, second, third]: [u64; 3]) -> Option<Ending> {
    Some(match kind {
        0 => Ending::Marker {
            offset,
            trailing: second,
            zero: third != 0,
        },
        1 => Ending::Missing { offset },
        2 => Ending::Cut {
            offset,
            present: second,
            expected: Some(third).filter(|size| *size > 0),
        },
        3 => Ending::CutInDescription,
        _ => return None,
    })
}

/// An index in the cache, mapped.
#[derive(Debug)]
pub(crate) struct CachedIndex {
    map: MappedFile,
    count: usize,
    /// Whether the addresses and times are those that the file's own description gives.
    is_as_described: bool,
}

impl CachedIndex {
    fn new(map: MappedFile) -> Option<Self> {
        let field = |index: usize| -> Option<u64> {
            Some(u64::from_le_bytes(*map.get(index * 8..)?.first_chunk()?))
        };
        let count = usize::try_from(field(5)?).ok()?;
        let columns = count
            .checked_mul(14)?
            .checked_add(count.div_ceil(GROUP).checked_mul(24)?)?;
        let whole = columns.checked_add(FIELDS * 8)?;
        (field(0)? == MAGIC && map.len() == whole).then_some(Self {
            map,
            count,
            is_as_described: true,
        })
    }

    fn header(&self) -> Option<(Header, ByteOrder, Ending)> {
        let (fields, _) = self.map.get(..FIELDS * 8)?.as_chunks::<8>();
        let fields: &[[u8; 8]; FIELDS] = fields.try_into().ok()?;
        let header = Header(fields.map(u64::from_le_bytes));
        let order = if header.0[6] == 0 {
            ByteOrder::Little
        } else {
            ByteOrder::Big
        };
        let ending = decode_ending(header.0[7], [header.0[8], header.0[9], header.0[10]])?;
        Some((header, order, ending))
    }

    /// Whether the last frame and the end marker are still there.
    fn ends_as(&self, bytes: &[u8], order: ByteOrder, ending: Ending) -> bool {
        let marker = match ending {
            Ending::Marker { offset, .. } => {
                usize::try_from(offset)
                    .ok()
                    .and_then(|offset| order.u16_at(bytes, offset))
                    == Some(0)
            }
            _ => true,
        };
        let last = self.count.checked_sub(1).is_none_or(|last| {
            let found = self.get(FrameNumber(last as u64));
            found.is_some_and(|(offset, number)| {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                order.u16_at(bytes, offset) == Some(number.0 as u16)
                    && order.u32_at(bytes, offset.saturating_add(2)) == self.size(last)
            })
        });
        marker && last
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    fn column<const WIDTH: usize>(&self, start: usize, count: usize) -> &[[u8; WIDTH]] {
        let bytes = self
            .map
            .get(start..start + count * WIDTH)
            .unwrap_or_default();
        bytes.as_chunks().0
    }

    const fn groups(&self) -> usize {
        self.count.div_ceil(GROUP)
    }

    pub(super) const fn forget_contents(&mut self) {
        self.is_as_described = false;
    }

    /// The first and the last time of the frames of each group, in microseconds, where they are good.
    pub(super) fn times(&self) -> Option<impl Fn(usize) -> Option<(u64, u64)>> {
        let times = self.column::<16>(FIELDS * 8 + self.groups() * 8, self.groups());
        self.is_as_described.then_some(move |group: usize| {
            let [first, last] = times.get(group)?.as_chunks::<8>().0 else {
                return None;
            };
            Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last)))
        })
    }

    /// Where the columns of single frames start.
    const fn frames_start(&self) -> usize {
        FIELDS * 8 + self.groups() * 24
    }

    /// The address of each frame, where they are good.
    pub(super) fn addresses(&self) -> Option<&[[u8; 8]]> {
        let start = self.frames_start();
        self.is_as_described.then(|| self.column(start, self.count))
    }

    fn sizes(&self) -> &[[u8; 4]] {
        self.column(self.frames_start() + self.count * 8, self.count)
    }

    /// The tracepoint of each frame.
    pub(super) fn tracepoints(&self) -> &[[u8; 2]] {
        self.column(self.frames_start() + self.count * 12, self.count)
    }

    fn size(&self, frame: usize) -> Option<u32> {
        self.sizes().get(frame).copied().map(u32::from_le_bytes)
    }

    /// The frame's offset in the file and its tracepoint.
    pub(super) fn get(&self, number: FrameNumber) -> Option<(u64, TracepointNumber)> {
        let frame = usize::try_from(number.0).ok()?;
        let group = frame / GROUP;
        let base = self.column::<8>(FIELDS * 8, self.groups()).get(group)?;
        let before = self.sizes().get(group * GROUP..frame)?;
        let skipped: u64 = before
            .iter()
            .map(|size| 6 + u64::from(u32::from_le_bytes(*size)))
            .sum();
        let tracepoint = self.tracepoints().get(frame)?;
        Some((
            u64::from_le_bytes(*base).checked_add(skipped)?,
            TracepointNumber(i32::from(i16::from_le_bytes(*tracepoint))),
        ))
    }
}

/// The address that an entry of the column means.
pub(super) fn address(entry: [u8; 8]) -> Option<u64> {
    Some(u64::from_le_bytes(entry)).filter(|address| *address != NO_ADDRESS)
}
