//! How an index is made of a trace.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};

use tracewire_arch::Architecture;
use tracewire_model::ByteOrder;

use super::compressed::{Cut, decompressed};
use super::index_location::IndexLocation;
use super::open::{OpenError, Progress, io_error, unusable};
use crate::index::{BuildError, Bytes, CHUNK, Key, Plan, Scratch, Store, Target, build};
use crate::record::DataOrder;
use crate::text::of_big_endian;

/// How hard the compressor tries.
const LEVEL: i32 = 3;

/// How the index of a trace is made.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) architecture: Option<Architecture>,
    pub(super) data_order: Option<DataOrder>,
    pub(super) key: Key,
    /// Where it may be, the best place first.
    pub(super) places: Vec<PathBuf>,
}

impl Again {
    /// Makes the index again.
    pub(super) fn rebuild(&self, path: &Path) -> Result<Store, OpenError> {
        self.make(path, None)
    }

    pub(super) fn make(
        &self,
        path: &Path,
        progress: Option<&(dyn Fn(Progress) + Sync)>,
    ) -> Result<Store, OpenError> {
        let failed = io_error(path);
        let file = File::open(path).map_err(&failed)?;
        let plan = Planned {
            architecture: self.architecture,
            data_order: self.data_order,
            key: self.key,
            chunk: CHUNK,
            all: Some(file.metadata().map_err(&failed)?.len()),
            progress,
        };
        let temporary = std::env::temp_dir();
        let named = self.places.iter().map(|place| IndexLocation::named(place));
        let locations = named
            .chain(std::iter::once_with(|| IndexLocation::nameless(&temporary)))
            .flatten();
        let mut last = None;
        for location in locations.chain([IndexLocation::MEMORY]) {
            let file = File::open(path).map_err(&failed)?;
            match plan.make(path, file, location) {
                // The disk may be full there, and not elsewhere.
                Err(OpenError::Io { source, .. }) => last = Some(source),
                other => return other,
            }
        }
        Err(failed(last.unwrap_or_else(|| io::ErrorKind::Other.into())))
    }
}

/// How a file is made.
pub(super) struct Planned<'a> {
    pub(super) architecture: Option<Architecture>,
    pub(super) data_order: Option<DataOrder>,
    pub(super) key: Key,
    /// How much text a segment has.
    pub(super) chunk: usize,
    pub(super) all: Option<u64>,
    pub(super) progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

impl Planned<'_> {
    pub(super) fn make(
        &self,
        path: &Path,
        input: impl Read + Send,
        location: IndexLocation,
    ) -> Result<Store, OpenError> {
        let temporary = location
            .names
            .as_ref()
            .map(|(_, temporary)| temporary.clone());
        let made = self.make_in(path, input, location);
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
        location: IndexLocation,
    ) -> Result<Store, OpenError> {
        let failed = io_error(path);
        let cut = Cut::default();
        let (input, is_plain) = decompressed(input, &cut).map_err(&failed)?;
        let is_big = (self.architecture).is_some_and(|of| of.byte_order() == ByteOrder::Big);
        let input: Box<dyn Read + Send + '_> = match is_big {
            true => of_big_endian(input).map_err(&failed)?,
            false => Box::new(input),
        };
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
            data_order: self.data_order,
            key: self.key,
            chunk: self.chunk,
            level: LEVEL,
            cut: &|| cut.why(),
            progress: &tell,
        };
        let target = match location.file {
            Some(file) => Target::File(BufWriter::with_capacity(1 << 20, file)),
            None => Target::Memory(Vec::new()),
        };
        let scratch = match location.scratch {
            Some(file) => Scratch::File(file, 0),
            None => Scratch::Memory(Vec::new()),
        };
        let target = build(input, target, scratch, &plan).map_err(|error| match error {
            BuildError::Io(source) => failed(source),
            BuildError::Unknown(None) => OpenError::NotATrace {
                path: path.to_owned(),
            },
            BuildError::Unknown(Some(refusal)) => OpenError::Refused {
                path: path.to_owned(),
                refusal,
            },
        })?;
        let bytes = match target {
            Target::Memory(bytes) => Bytes::Memory(bytes),
            Target::File(file) => {
                let file = file
                    .into_inner()
                    .map_err(|error| failed(error.into_error()))?;
                let mut place = path;
                if let Some((name, temporary)) = &location.names {
                    fs::rename(temporary, name).map_err(&failed)?;
                    place = name;
                }
                Bytes::map(file, place).map_err(&failed)?
            }
        };
        Store::read(bytes).map_err(|why| unusable(path, why))
    }
}
