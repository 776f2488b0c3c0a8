//! How a recording is opened: which file, with which index, made where.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use tracewire_tracefile::{Architecture, ByteOrder};

use super::compressed::{Cut, decompressed};
use super::{Image, Recording, Summary};
use crate::index::{
    BuildError, Bytes, CHUNK, Key, MAGIC, Plan, Scratch, Store, Target, Unusable, VERSION, build,
};
use crate::record::CpuNumber;
use crate::text::Format;

/// How a trace is opened.
#[derive(Default)]
pub struct OpenOptions<'a> {
    /// The machine, where it is known better than from the content.
    pub architecture: Option<Architecture>,
    /// What memory held before the trace, such as the program's file says.
    pub image: Image,
    /// A folder for indexes that cannot stand beside their traces, and for those of pipes.
    pub cache: Option<PathBuf>,
    /// Is told how far the making of an index is.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

/// How far the making of an index is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes of text that were read.
    pub done: u64,
    /// Bytes of text that there are, where that is known.
    pub all: Option<u64>,
}

/// Why a trace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read, or the index not written.
    #[error("`{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no execution trace.
    #[error(
        "`{}` is no execution trace: no line is one of QEMU4V, MicroTESK, Tarmac or Nios II simulation",
        path.display()
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// The compact form was cut or changed.
    #[error("`{}` is cut or damaged: convert the trace again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The compact form was written by another version.
    #[error(
        "`{}` is a compact trace of version {found}, and this program reads version {}: convert the trace again",
        path.display(), VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// How hard the compressor tries.
const LEVEL: i32 = 3;

/// How the index of a trace is made.
#[derive(Debug)]
pub(super) struct Again {
    architecture: Option<Architecture>,
    key: Key,
    /// Where it may stand, the best place first.
    places: Vec<PathBuf>,
}

pub(super) fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Recording, OpenError> {
    let failed = io_error(path);
    let is_input = path == Path::new("-");
    if !is_input {
        let metadata = fs::metadata(path).map_err(&failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if metadata.is_file() {
            return open_file(path, options);
        }
    }
    // Text from a pipe is there once only.
    let mut input: Box<dyn Read + Send> = if is_input {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(&failed)?)
    };
    let mut first = Vec::new();
    (&mut input)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut first)
        .map_err(&failed)?;
    let is_compact = Recording::is_compact(&first);
    let mut input = io::Cursor::new(first).chain(input);
    if is_compact {
        let mut all = Vec::new();
        input.read_to_end(&mut all).map_err(&failed)?;
        let store = Store::read(Bytes::Memory(all)).map_err(|why| unusable(path, why))?;
        return recording(path, store, None, options);
    }
    let plan = Planned {
        architecture: options.architecture,
        key: Key::default(),
        chunk: CHUNK,
        all: None,
        progress: options.progress,
    };
    let folders = [options.cache.clone(), Some(std::env::temp_dir())];
    let place = folders
        .into_iter()
        .flatten()
        .find_map(|folder| {
            fs::create_dir_all(&folder).ok()?;
            Room::nameless(&folder)
        })
        .unwrap_or(Room::MEMORY);
    let store = plan.make(path, input, place)?;
    recording(path, store, None, options)
}

fn open_file(path: &Path, options: &OpenOptions<'_>) -> Result<Recording, OpenError> {
    let failed = io_error(path);
    let file = File::open(path).map_err(&failed)?;
    let mut first = Vec::new();
    (&file)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut first)
        .map_err(&failed)?;
    if Recording::is_compact(&first) {
        let store = Store::open(path).map_err(|why| unusable(path, why))?;
        return recording(path, store, None, options);
    }
    let metadata = file.metadata().map_err(&failed)?;
    let order = options.architecture.map(Architecture::byte_order);
    let key = Key::of(&file, &metadata)
        .map_err(&failed)?
        .with_byte_order(match order {
            None => 0,
            Some(ByteOrder::Little) => 1,
            Some(ByteOrder::Big) => 2,
        });
    let again = Again {
        architecture: options.architecture,
        key,
        places: places(path, options.cache.as_deref()),
    };
    let found = again.places.iter().find_map(|place| {
        let store = Store::open(place).ok()?;
        (store.facts.key == key).then_some(store)
    });
    let store = match found {
        Some(store) => store,
        None => again.make(path, options.progress)?,
    };
    recording(path, store, Some(again), options)
}

/// Text in memory, indexed in memory in segments of this size.
pub(super) fn open_text(
    text: &[u8],
    chunk: usize,
    options: &OpenOptions<'_>,
) -> Result<Recording, OpenError> {
    let plan = Planned {
        architecture: options.architecture,
        key: Key::default(),
        chunk,
        all: Some(text.len() as u64),
        progress: options.progress,
    };
    let path = Path::new("-");
    recording(path, plan.make(path, text, Room::MEMORY)?, None, options)
}

/// A compact form in memory.
pub(super) fn open_compact(
    bytes: Vec<u8>,
    options: &OpenOptions<'_>,
) -> Result<Recording, OpenError> {
    let path = Path::new("-");
    let store = Store::read(Bytes::Memory(bytes)).map_err(|why| unusable(path, why))?;
    recording(path, store, None, options)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

fn unusable(path: &Path, why: Unusable) -> OpenError {
    let path = path.to_owned();
    match why {
        Unusable::Version(found) => OpenError::Version { path, found },
        Unusable::Damaged | Unusable::Other => OpenError::Damaged { path },
    }
}

/// Where the index of a trace may stand: beside it, and in the cache.
fn places(path: &Path, cache: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(name) = path.file_name() {
        let mut beside = name.to_owned();
        beside.push(".twindex");
        places.push(path.with_file_name(beside));
        if let (Some(cache), Ok(whole)) = (cache, fs::canonicalize(path)) {
            let mut hasher = std::hash::DefaultHasher::new();
            whole.hash(&mut hasher);
            let name = name.to_string_lossy();
            let name = format!("{name:.80}-{:016x}.twindex", hasher.finish());
            places.push(cache.join(name));
        }
    }
    places
}

/// Where a file is written.
struct Room {
    /// The name that it gets once it is whole, and the one it has until then.
    names: Option<(PathBuf, PathBuf)>,
    file: Option<File>,
    scratch: Option<File>,
}

impl Room {
    const MEMORY: Self = Self {
        names: None,
        file: None,
        scratch: None,
    };

    /// A file that gets this name.
    fn named(place: &Path) -> Option<Self> {
        let folder = match place.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder).ok()?;
        let (name, file) = create(folder)?;
        Some(Self {
            names: Some((place.to_owned(), name)),
            file: Some(file),
            scratch: nameless(folder),
        })
    }

    /// A file without a name.
    fn nameless(folder: &Path) -> Option<Self> {
        Some(Self {
            names: None,
            file: Some(nameless(folder)?),
            scratch: nameless(folder),
        })
    }
}

/// A new file with a name that no other has.
fn create(folder: &Path) -> Option<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = folder.join(format!(".tracewire-{}-{count}.part", std::process::id()));
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(&name).or_else(|error| {
        // What an earlier process of this number left behind.
        if error.kind() == io::ErrorKind::AlreadyExists {
            fs::remove_file(&name)?;
            return options.open(&name);
        }
        Err(error)
    });
    Some((name, file.ok()?))
}

fn nameless(folder: &Path) -> Option<File> {
    let (name, file) = create(folder)?;
    fs::remove_file(name).ok()?;
    Some(file)
}

impl Again {
    /// Makes the index anew.
    pub(super) fn rebuild(&self, path: &Path) -> Result<Store, OpenError> {
        self.make(path, None)
    }

    fn make(
        &self,
        path: &Path,
        progress: Option<&(dyn Fn(Progress) + Sync)>,
    ) -> Result<Store, OpenError> {
        let failed = io_error(path);
        let file = File::open(path).map_err(&failed)?;
        let plan = Planned {
            architecture: self.architecture,
            key: self.key,
            chunk: CHUNK,
            all: Some(file.metadata().map_err(&failed)?.len()),
            progress,
        };
        let temporary = std::env::temp_dir();
        let named = self.places.iter().map(|place| Room::named(place));
        let rooms = named
            .chain(std::iter::once_with(|| Room::nameless(&temporary)))
            .flatten();
        let mut last = None;
        for room in rooms.chain([Room::MEMORY]) {
            let file = File::open(path).map_err(&failed)?;
            match plan.make(path, file, room) {
                // The disk may be full there, and not elsewhere.
                Err(OpenError::Io { source, .. }) => last = Some(source),
                other => return other,
            }
        }
        Err(failed(last.unwrap_or_else(|| io::ErrorKind::Other.into())))
    }
}

/// How a file is made.
struct Planned<'a> {
    architecture: Option<Architecture>,
    key: Key,
    /// How much text a segment has.
    chunk: usize,
    all: Option<u64>,
    progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

impl Planned<'_> {
    fn make(&self, path: &Path, input: impl Read + Send, room: Room) -> Result<Store, OpenError> {
        let temporary = room.names.as_ref().map(|(_, temporary)| temporary.clone());
        let made = self.make_in(path, input, room);
        if let (Err(_), Some(temporary)) = (&made, temporary) {
            // There may be nothing to remove.
            drop(fs::remove_file(temporary));
        }
        made
    }

    fn make_in(
        &self,
        path: &Path,
        input: impl Read + Send,
        room: Room,
    ) -> Result<Store, OpenError> {
        let failed = io_error(path);
        let cut = Cut::default();
        let (input, is_plain) = decompressed(input, &cut).map_err(&failed)?;
        let tell = |done| {
            if let Some(progress) = self.progress {
                progress(Progress {
                    done,
                    all: self.all.filter(|_| is_plain),
                });
            }
        };
        let plan = Plan {
            architecture: self.architecture,
            key: self.key,
            chunk: self.chunk,
            level: LEVEL,
            cut: &|| cut.why(),
            progress: &tell,
        };
        let target = match room.file {
            Some(file) => Target::File(BufWriter::with_capacity(1 << 20, file)),
            None => Target::Memory(Vec::new()),
        };
        let scratch = match room.scratch {
            Some(file) => Scratch::File(file, 0),
            None => Scratch::Memory(Vec::new()),
        };
        let target = build(input, target, scratch, &plan).map_err(|error| match error {
            BuildError::Io(source) => failed(source),
            BuildError::Unknown => OpenError::NotATrace {
                path: path.to_owned(),
            },
        })?;
        let bytes = match target {
            Target::Memory(bytes) => Bytes::Memory(bytes),
            Target::File(file) => {
                let file = file
                    .into_inner()
                    .map_err(|error| failed(error.into_error()))?;
                if let Some((name, temporary)) = &room.names {
                    fs::rename(temporary, name).map_err(&failed)?;
                }
                Bytes::map(&file).map_err(&failed)?
            }
        };
        Store::read(bytes).map_err(|why| unusable(path, why))
    }
}

fn recording(
    path: &Path,
    store: Store,
    again: Option<Again>,
    options: &OpenOptions<'_>,
) -> Result<Recording, OpenError> {
    let facts = &store.facts;
    let format = Format::ALL
        .into_iter()
        .find(|format| format.name() == facts.format)
        .ok_or_else(|| OpenError::Damaged {
            path: path.to_owned(),
        })?;
    let summary = Summary {
        instructions: facts.instructions,
        memory_accesses: facts.accesses,
        register_writes: facts.register_writes,
        cpus: facts.cpus.iter().map(|cpu| CpuNumber(*cpu)).collect(),
        first_time: facts.first_time,
        last_time: facts.last_time,
        lines: facts.lines,
        unparsed_lines: facts.unparsed,
        cut: (!facts.cut.is_empty()).then(|| facts.cut.clone()),
        text_size: facts.text,
        index_size: store.bytes().len() as u64,
        search_size: facts.search,
    };
    let names = facts
        .registers
        .iter()
        .map(|name| String::from_utf8_lossy(name).into())
        .collect();
    let order = if facts.is_big {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let architecture = options
        .architecture
        .or_else(|| facts.architecture.parse().ok());
    Ok(Recording {
        path: path.to_owned(),
        order,
        architecture,
        format,
        summary,
        names,
        image: options.image.clone(),
        store: RwLock::new(Arc::new(store)),
        again,
    })
}
