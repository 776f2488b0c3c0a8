//! How a recording is opened: which file, with which index.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use tracewire_arch::Architecture;
use tracewire_model::ByteOrder;

use super::index_location::{IndexLocation, places};
use super::make::{Again, Planned};
use super::{Image, Recording, ReportedWrites, Summary};
use crate::index::{Bytes, CHUNK, Key, MAGIC, Store, Unusable, VERSION};
use crate::record::{CpuNumber, DataOrder};
use crate::text::{Format, Refusal};

/// How a trace is opened.
#[derive(Default)]
pub struct OpenOptions<'a> {
    /// The machine, where it is known better than from the content.
    pub architecture: Option<Architecture>,
    /// How the data of accesses are written that may be a number or bytes, where it is known better than from the content:
    /// [`DataOrder::Number`] or [`DataOrder::LowestAddressFirst`].
    pub data_order: Option<DataOrder>,
    /// What memory held before the trace, such as the program's file says.
    pub image: Image,
    /// A folder for indexes that cannot be beside their traces, and for those of pipes.
    pub cache: Option<PathBuf>,
    /// Receives how far the making of an index is.
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
        "`{}` is no execution trace: no line is one of {}",
        path.display(),
        Format::titles()
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// The file is of a known producer, and no trace can be made of it.
    #[error("`{}` is no execution trace: {refusal}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, and what to run instead.
        refusal: Refusal,
    },
    /// The compact form has the data in another order than is asked for.
    #[error(
        "`{}` was made of text whose data were read {}: convert the text again", path.display(), words(*.made)
    )]
    DataOrder {
        /// The file.
        path: PathBuf,
        /// The order that it was made with; none for what the lines say.
        made: Option<DataOrder>,
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

fn words(order: Option<DataOrder>) -> &'static str {
    match order {
        None | Some(DataOrder::HighestAddressFirst) => "as its lines say",
        Some(DataOrder::Number) => "as numbers",
        Some(DataOrder::LowestAddressFirst) => "as bytes in the order of memory",
    }
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
        data_order: options.data_order,
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
            IndexLocation::nameless(&folder)
        })
        .unwrap_or(IndexLocation::MEMORY);
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
        .with_byte_order(order)
        .with_data_order(options.data_order);
    let again = Again {
        architecture: options.architecture,
        data_order: options.data_order,
        key,
        places: places(path, options.cache.as_deref()),
    };
    let found = again.places.iter().find_map(|place| {
        let store = Store::open_index(place).ok()?;
        // It may have found by itself what is asked for.
        let facts = &store.facts;
        let fits_order = facts.format != Format::Execlog.name()
            && order.is_some_and(|order| facts.is_big == (order == ByteOrder::Big));
        let fits_data = options.data_order.is_some() && facts.data_order == options.data_order;
        [order, None]
            .into_iter()
            .take(if fits_order { 2 } else { 1 })
            .any(|order| {
                let key = key.with_byte_order(order);
                facts.key == key || fits_data && facts.key == key.with_data_order(None)
            })
            .then_some(store)
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
        data_order: options.data_order,
        key: Key::default(),
        chunk,
        all: Some(text.len() as u64),
        progress: options.progress,
    };
    let path = Path::new("-");
    recording(
        path,
        plan.make(path, text, IndexLocation::MEMORY)?,
        None,
        options,
    )
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

pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError + '_ {
    |source| OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

pub(super) fn unusable(path: &Path, why: Unusable) -> OpenError {
    let path = path.to_owned();
    match why {
        Unusable::Version(found) => OpenError::Version { path, found },
        Unusable::Damaged | Unusable::Other => OpenError::Damaged { path },
    }
}

fn recording(
    path: &Path,
    store: Store,
    again: Option<Again>,
    options: &OpenOptions<'_>,
) -> Result<Recording, OpenError> {
    let facts = &store.facts;
    if options.data_order.is_some() && options.data_order != facts.data_order {
        return Err(OpenError::DataOrder {
            path: path.to_owned(),
            made: facts.data_order,
        });
    }
    let format = Format::ALL
        .into_iter()
        .find(|format| format.name() == facts.format)
        .ok_or_else(|| OpenError::Damaged {
            path: path.to_owned(),
        })?;
    let summary = Summary {
        instructions: facts.instructions,
        memory_accesses: facts.accesses,
        memory_writes: facts.writes,
        stores: facts.stores,
        possible_stores: facts.perhaps_stores,
        register_writes: facts.register_writes,
        events: facts.events,
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
        data_order: facts.data_order,
        data_evidence: facts.data_evidence,
        format,
        reported: ReportedWrites::of(format, &summary),
        summary,
        names,
        image: options.image.clone(),
        store: RwLock::new(Arc::new(store)),
        again,
    })
}
