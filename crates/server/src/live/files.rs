//! Files of this machine, read by GDB (`vFile`): the program, its libraries, what `/proc` tells of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use tracewire_packets::family::file::{FileError, FileReply, FileRequest};
use tracewire_packets::{HexBytes, Reply, SignedHex};

use crate::session::PACKET_SIZE;

/// How many files a client may have open.
const MOST_OPEN: usize = 64;

/// The files that the client has open.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: BTreeMap<i64, File>,
}

impl Files {
    pub(super) fn respond(&mut self, request: &FileRequest) -> Reply {
        let (result, data) = match request {
            FileRequest::SetFileSystem { .. } => (Ok(0), None),
            FileRequest::Open { name, flags, .. } => (self.open(name, *flags), None),
            FileRequest::Close { descriptor } => (self.close(*descriptor), None),
            FileRequest::Read {
                descriptor,
                length,
                offset,
            } => split(self.read(*descriptor, *length, *offset)),
            FileRequest::DescriptorStatus { descriptor } => split(
                self.file(*descriptor)
                    .and_then(|file| file.metadata().map_err(|error| code(&error)))
                    .map(|metadata| status(&metadata)),
            ),
            FileRequest::Status { name } => split(
                std::fs::metadata(path(name))
                    .map(|metadata| status(&metadata))
                    .map_err(|error| code(&error)),
            ),
            FileRequest::LinkStatus { name } => split(
                std::fs::symlink_metadata(path(name))
                    .map(|metadata| status(&metadata))
                    .map_err(|error| code(&error)),
            ),
            FileRequest::ReadLink { name } => split(
                std::fs::read_link(path(name))
                    .map(|target| target.into_os_string().as_bytes().to_vec())
                    .map_err(|error| code(&error)),
            ),
            FileRequest::Write { .. } | FileRequest::Remove { .. } => (Err(FileError::ROFS), None),
        };
        Reply::File(FileReply { result, data })
    }

    fn open(&mut self, name: &HexBytes, flags: u32) -> Result<u64, FileError> {
        /// Whatever asks for more than to read: to write, to read and write, to append, create or cut.
        const WRITES: u32 = 0x1 | 0x2 | 0x8 | 0x200 | 0x400;
        if flags & WRITES != 0 {
            return Err(FileError::ROFS);
        }
        if self.open.len() >= MOST_OPEN {
            return Err(FileError::MFILE);
        }
        // A pipe is not waited for.
        let file = File::options()
            .read(true)
            .custom_flags(0o4000)
            .open(path(name))
            .map_err(|error| code(&error))?;
        // Numbers of their own: those below are nobody's business.
        let descriptor = (3..)
            .find(|number| !self.open.contains_key(number))
            .unwrap_or(3);
        self.open.insert(descriptor, file);
        Ok(descriptor.unsigned_abs())
    }

    fn close(&mut self, SignedHex(descriptor): SignedHex) -> Result<u64, FileError> {
        self.open
            .remove(&descriptor)
            .map(|_| 0)
            .ok_or(FileError::BADF)
    }

    fn file(&self, SignedHex(descriptor): SignedHex) -> Result<&File, FileError> {
        self.open.get(&descriptor).ok_or(FileError::BADF)
    }

    fn read(&self, descriptor: SignedHex, length: u64, offset: u64) -> Result<Vec<u8>, FileError> {
        let length = usize::try_from(length)
            .unwrap_or(PACKET_SIZE)
            .min(PACKET_SIZE);
        let mut bytes = vec![0; length];
        let count = self
            .file(descriptor)?
            .read_at(&mut bytes, offset)
            .map_err(|error| code(&error))?;
        bytes.truncate(count);
        // What comes before the data: `F`, a number, `;`.
        let fits = tracewire_packets::escaped_prefix(&bytes, PACKET_SIZE - 16);
        bytes.truncate(fits);
        Ok(bytes)
    }
}

fn split(result: Result<Vec<u8>, FileError>) -> (Result<u64, FileError>, Option<Vec<u8>>) {
    match result {
        Ok(data) => (Ok(data.len() as u64), Some(data)),
        Err(error) => (Err(error), None),
    }
}

fn path(HexBytes(name): &HexBytes) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

fn code(error: &io::Error) -> FileError {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => FileError::NOENT,
        Kind::PermissionDenied => FileError::ACCES,
        Kind::NotADirectory => FileError::NOTDIR,
        Kind::IsADirectory => FileError::ISDIR,
        Kind::InvalidInput => FileError::INVAL,
        Kind::Interrupted => FileError::INTR,
        _ => FileError::IO,
    }
}

/// A `struct stat` of the protocol: big-endian, 64 bytes.
fn status(metadata: &Metadata) -> Vec<u8> {
    let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes();
    let time = |value: i64| word(u64::try_from(value).unwrap_or(0));
    let mut bytes = Vec::with_capacity(64);
    bytes.extend(word(metadata.dev()));
    bytes.extend(word(metadata.ino() & u64::from(u32::MAX)));
    bytes.extend(metadata.mode().to_be_bytes());
    bytes.extend(word(metadata.nlink()));
    bytes.extend(metadata.uid().to_be_bytes());
    bytes.extend(metadata.gid().to_be_bytes());
    bytes.extend(word(metadata.rdev()));
    bytes.extend(metadata.size().to_be_bytes());
    bytes.extend(metadata.blksize().to_be_bytes());
    bytes.extend(metadata.blocks().to_be_bytes());
    bytes.extend(time(metadata.atime()));
    bytes.extend(time(metadata.mtime()));
    bytes.extend(time(metadata.ctime()));
    bytes
}
