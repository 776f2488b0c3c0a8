//! A checksum for a file that another program wrote.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;

use tracewire_tracefile::{Checksum, Ending, TraceFile, WriteError};

/// A file that gets no checksum.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It was not opened by name.
    #[error("a trace file in memory has no end that a checksum could be added to")]
    InMemory,
    /// It has one already.
    #[error("the file ends with `{0}` already")]
    Sealed(Checksum),
    /// It had one, and is damaged or unfinished.
    #[error(
        "the checksum that should end the file is missing: it was not finished, or what ends it is damaged"
    )]
    Lost,
    /// It does not end with an end marker and zeros: frames may be missing, or the file unfinished.
    #[error("the file does not end with an end marker")]
    Unfinished,
    /// Another program has written to it since it was opened.
    #[error("{} has {found} bytes now and had {size}: it is still being written", path.display())]
    Changed {
        /// Which file.
        path: PathBuf,
        /// Its size when it was opened, in bytes.
        size: u64,
        /// Its size now.
        found: u64,
    },
    /// The system refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Adds a checksum to the end of the file on the disk, where GDB does not read, so that any later change can be recognized. No
/// other byte is changed. Use [`crate::check()`] before to see whether the file is good.
///
/// `trace` is unchanged.
///
/// # Errors
/// When the file is not finished, has a checksum, has changed since it was opened, or cannot be written. It is unchanged then.
pub fn seal(trace: &TraceFile) -> Result<Checksum, SealError> {
    let path = trace.path().ok_or(SealError::InMemory)?;
    if let Some(declared) = trace.checksum() {
        return Err(SealError::Sealed(declared));
    }
    let status = trace.description().status();
    if status.is_some_and(|status| status.fields.sealed) {
        return Err(SealError::Lost);
    }
    if !matches!(trace.ending(), Ending::Marker { zero: true, .. }) {
        return Err(SealError::Unfinished);
    }
    let size = trace.as_bytes().len() as u64;
    let checksum = trace.found_checksum();
    let write = WriteError::system("write", path);
    let append = || -> io::Result<u64> {
        let mut file = OpenOptions::new().append(true).open(path)?;
        let found = file.metadata()?.len();
        if found == size {
            // Half a line would make a finished file a damaged one.
            file.write_all(format!("{checksum}\n").as_bytes())
                .or_else(|error| file.set_len(size).and(Err(error)))?;
        }
        Ok(found)
    };
    let found = append().map_err(write)?;
    if found != size {
        let path = path.to_owned();
        return Err(SealError::Changed { path, size, found });
    }
    Ok(checksum)
}
