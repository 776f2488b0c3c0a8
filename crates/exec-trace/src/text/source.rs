//! The bytes of a trace: a file that is mapped, or what a pipe or a compressed file gives, in a temporary file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use tracewire_mapped_file::MappedFile;
use tracewire_tracefile::private;

use super::transcriber::Transcriber;
use super::{Format, Lines, execlog, perf, qemu_log, refusal};

/// How a file is compressed, known from its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip (RFC 1952), perhaps several members.
    Gzip,
    /// Zstandard (RFC 8878), perhaps several frames.
    Zstandard,
}

impl Compression {
    /// Known from the first bytes of a file.
    #[must_use]
    pub fn detect(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            // A frame, or a frame to be skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstandard,
            _ => Self::None,
        }
    }
}

/// Why the bytes of a trace cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file; `-` is standard input.
        path: PathBuf,
        /// The system's reason, or what is wrong with the compressed data.
        source: io::Error,
    },
    /// There is no room for what a pipe or a compressed file gives.
    #[error("cannot keep the text of {} in a temporary file in {}", path.display(), folder.display())]
    Keep {
        /// Which file; `-` is standard input.
        path: PathBuf,
        /// Where it was to be kept.
        folder: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The text of a trace, all of it addressable.
///
/// A plain file is mapped. What comes from a pipe or out of a compressed file is put into a temporary file that has no
/// name, and that is mapped: memory stays free whatever the size.
#[derive(Debug)]
pub struct TraceText {
    bytes: Bytes,
    compression: Compression,
    is_file: bool,
    cut: Option<io::Error>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(MappedFile),
    Owned(Vec<u8>),
}

impl TraceText {
    /// Opens a file; `-` is standard input.
    ///
    /// Compressed data that are damaged or cut give the text before the damage; [`Self::cut`] says.
    ///
    /// # Errors
    /// When the file cannot be read, or what it gives cannot be kept.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let error = |source| OpenError::Read {
            path: path.to_owned(),
            source,
        };
        if path.as_os_str() == "-" {
            return Self::keep(BufReader::with_capacity(1 << 16, io::stdin()), path);
        }
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        if metadata.is_dir() {
            return Err(error(io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            return Self::keep(BufReader::with_capacity(1 << 16, file), path);
        }
        let map = MappedFile::map(file, path).map_err(error)?;
        match Compression::detect(&map) {
            Compression::None if transcript(&map).is_none() => Ok(Self {
                bytes: Bytes::Mapped(map),
                compression: Compression::None,
                is_file: true,
                cut: None,
            }),
            _ => Ok(Self {
                is_file: true,
                ..Self::keep(&map[..], path)?
            }),
        }
    }

    /// A text that is in memory, as it is.
    #[must_use]
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::Owned(bytes),
            compression: Compression::None,
            is_file: false,
            cut: None,
        }
    }

    /// Keeps what a reader gives, decompressed.
    fn keep(mut reader: impl BufRead + Send, path: &Path) -> Result<Self, OpenError> {
        let read_error = |source| OpenError::Read {
            path: path.to_owned(),
            source,
        };
        let folder = std::env::temp_dir();
        let keep_error = |source| OpenError::Keep {
            path: path.to_owned(),
            folder: folder.clone(),
            source,
        };
        let compression = Compression::detect(reader.fill_buf().map_err(read_error)?);
        let mut kept = unnamed_file(&folder).map_err(keep_error)?;
        let copied = match compression {
            Compression::None => keep(reader, &mut kept),
            Compression::Gzip => keep(flate2::bufread::MultiGzDecoder::new(reader), &mut kept),
            Compression::Zstandard => match zstd::Decoder::with_buffer(reader) {
                Ok(decoder) => keep(decoder, &mut kept),
                Err(error) => Err(CopyError::Read(error)),
            },
        };
        let cut = match copied {
            Ok(()) => None,
            Err(CopyError::Write(error)) => return Err(keep_error(error)),
            // Half a trace is worth having; a pipe that fails is not half a trace.
            Err(CopyError::Read(error)) if compression != Compression::None => Some(error),
            Err(CopyError::Read(error)) => return Err(read_error(error)),
        };
        let map = MappedFile::map(kept, path).map_err(keep_error)?;
        if map.is_empty()
            && let Some(error) = cut
        {
            return Err(read_error(error));
        }
        Ok(Self {
            bytes: Bytes::Mapped(map),
            compression,
            is_file: false,
            cut,
        })
    }

    /// How the file is compressed.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether it came from an ordinary file, which is there the next time.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        self.is_file
    }

    /// Why the text ends before the compressed data do.
    #[must_use]
    pub const fn cut(&self) -> Option<&io::Error> {
        self.cut.as_ref()
    }
}

impl Deref for TraceText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

/// How much of a text is looked at to know whether it is a log that is transcribed.
const LOOK: u64 = 64 << 10;

/// What the first line of each transcript begins with.
const TRANSCRIPT: &[u8] = b"# transcript of ";

/// How a text is transcribed.
enum Transcript {
    QemuLog,
    Perf(Box<perf::Branches>),
}

/// How a text with this beginning is transcribed; `None` where it needs no transcription.
fn transcript(text: &[u8]) -> Option<Transcript> {
    let text = &text[..text.len().min(LOOK as usize)];
    if text.starts_with(TRANSCRIPT) {
        return None;
    }
    if qemu_log::is_log(text) {
        return refusal(text).is_none().then_some(Transcript::QemuLog);
    }
    // The last line may be cut.
    let end = memchr::memrchr(b'\n', text).map_or(text.len(), |end| end + 1);
    let lines = || Lines::new(text, 0, end).map(|(_, line)| line);
    perf::transcript(lines).map(|branches| Transcript::Perf(Box::new(branches)))
}

/// A text that is to be read: the transcript of what cannot be read in pieces, else the text itself; and whether it is a
/// transcript. An error that comes after the first bytes comes again when the text is read down to there.
///
/// # Errors
/// When not even the first bytes can be read.
pub fn transcribed<'a>(
    mut input: impl Read + Send + 'a,
) -> io::Result<(Box<dyn Read + Send + 'a>, bool)> {
    let mut first = Vec::new();
    let failed = (&mut input).take(LOOK).read_to_end(&mut first).err();
    if let Some(error) = failed.as_ref()
        && first.is_empty()
    {
        return Err(io::Error::new(error.kind(), error.to_string()));
    }
    let transcript = transcript(&first);
    let input = io::Cursor::new(first).chain(Failing(failed)).chain(input);
    Ok(match transcript {
        Some(Transcript::QemuLog) => {
            let log = qemu_log::Log::default();
            (Box::new(Transcriber::new(input, log)), true)
        }
        Some(Transcript::Perf(branches)) => (Box::new(Transcriber::new(input, *branches)), true),
        None => (Box::new(input), false),
    })
}

/// The text of a big-endian machine: that of `execlog` with the bytes of registers as they are, any other as it is.
///
/// # Errors
/// When not even the first bytes can be read.
pub(crate) fn of_big_endian<'a>(
    mut input: impl Read + Send + 'a,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut first = Vec::new();
    (&mut input).take(LOOK).read_to_end(&mut first)?;
    let is_execlog =
        Format::detect(&first) == Some(Format::Execlog) && !execlog::is_reversed(&first);
    let input = io::Cursor::new(first).chain(input);
    Ok(match is_execlog {
        true => Box::new(Transcriber::new(input, execlog::Reversed::default())),
        false => Box::new(input),
    })
}

/// An error that was met early, in its place.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The first bytes of a file's text, decompressed and transcribed: up to `length`. Compressed data that are damaged give what is
/// before the damage.
///
/// # Errors
/// When the file cannot be read.
pub fn beginning(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
    let compression = Compression::detect(reader.fill_buf()?);
    let mut text = Vec::new();
    let limit = length as u64;
    let mut read = |input: &mut dyn Read| input.take(limit).read_to_end(&mut text);
    // What is wrong further on is reported when all of it is read.
    let _ = match compression {
        Compression::None => {
            read(&mut transcribed(reader)?.0)?;
            return Ok(text);
        }
        Compression::Gzip => {
            let input = flate2::bufread::MultiGzDecoder::new(reader);
            transcribed(input).and_then(|(mut input, _)| read(&mut input))
        }
        Compression::Zstandard => transcribed(zstd::Decoder::with_buffer(reader)?)
            .and_then(|(mut input, _)| read(&mut input)),
    };
    Ok(text)
}

/// Keeps what a reader gives, transcribed.
fn keep(from: impl Read + Send, to: &mut File) -> Result<(), CopyError> {
    let (from, _) = transcribed(from).map_err(CopyError::Read)?;
    copy(from, to)
}

/// A file in a folder, without a name: it ends when it is closed.
fn unnamed_file(folder: &Path) -> io::Result<File> {
    let mut number = std::process::id();
    loop {
        let path = folder.join(format!(".tracewire-text-{number}"));
        let made = private::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match made {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number = number.wrapping_add(0x1_0001);
            }
            Err(error) => return Err(error),
        }
    }
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies all, and tells the two kinds of failure apart.
fn copy(mut from: impl Read, to: &mut File) -> Result<(), CopyError> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to
                .write_all(buffer.get(..count).unwrap_or_default())
                .map_err(CopyError::Write)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}
