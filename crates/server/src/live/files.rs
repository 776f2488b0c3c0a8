//! Files of this machine, for GDB (`vFile`): the program, its libraries, its files in `/proc`; and files that GDB writes, if the
//! server has a directory for them.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use tracewire_packets::family::file::{FileError, FileReply, FileRequest};
use tracewire_packets::{HexBytes, Reply, SignedHex};

use super::file_system::FileSystem;
use crate::session::PACKET_SIZE;

/// How many files a client may have open.
const MOST_OPEN: usize = 64;

/// The protocol's flags for opening a file.
mod open_flags {
    pub(super) const WRITE: u32 = 0x1;
    pub(super) const READ_WRITE: u32 = 0x2;
    pub(super) const APPEND: u32 = 0x8;
    pub(super) const CREATE: u32 = 0x200;
    pub(super) const TRUNCATE: u32 = 0x400;
    pub(super) const EXCLUSIVE: u32 = 0x800;
}

/// The files that the client has open.
#[derive(Debug, Default)]
pub(super) struct Files {
    system: FileSystem,
    open: BTreeMap<i64, File>,
}

impl Files {
    /// No open files, and no writes except below a directory.
    pub(super) fn new(writable: Option<&Path>) -> Self {
        Self {
            system: FileSystem::new(writable),
            open: BTreeMap::new(),
        }
    }

    pub(super) fn respond(&mut self, request: &FileRequest) -> Reply {
        let (result, data) = match request {
            FileRequest::SetFileSystem { process } => {
                (self.system.select(*process).map(|()| 0), None)
            }
            FileRequest::Open { name, flags, mode } => (self.open(name, *flags, *mode), None),
            FileRequest::Close { descriptor } => (self.close(*descriptor), None),
            FileRequest::Read {
                descriptor,
                length,
                offset,
            } => split(self.read(*descriptor, *length, *offset)),
            FileRequest::Write {
                descriptor,
                offset,
                data,
            } => (
                self.file(*descriptor)
                    .and_then(|file| file.write_at(&data.0, *offset))
                    .map(|count| count as u64),
                None,
            ),
            FileRequest::DescriptorStatus { descriptor } => split(
                self.file(*descriptor)
                    .and_then(File::metadata)
                    .map(|metadata| status(&metadata)),
            ),
            FileRequest::Status { name } => split(self.status(name, false)),
            FileRequest::LinkStatus { name } => split(self.status(name, true)),
            FileRequest::ReadLink { name } => split(self.read_link(name)),
            FileRequest::Remove { name } => (
                self.system
                    .writable(&name.0)
                    .and_then(std::fs::remove_file)
                    .map(|()| 0),
                None,
            ),
        };
        Reply::File(FileReply {
            result: result.map_err(|error| code(&error)),
            data,
        })
    }

    fn open(&mut self, HexBytes(name): &HexBytes, flags: u32, mode: u32) -> io::Result<u64> {
        use open_flags as flag;
        /// The flags that need more than read access.
        const WRITES: u32 =
            flag::WRITE | flag::READ_WRITE | flag::APPEND | flag::CREATE | flag::TRUNCATE;
        if self.open.len() >= MOST_OPEN {
            return Err(Errno::EMFILE.into());
        }
        let asks = |bit| flags & bit != 0;
        let file = if asks(WRITES) {
            let create = asks(flag::CREATE);
            let both = asks(flag::READ_WRITE);
            // A link in the directory may lead out of it.
            let mut extra = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
            extra.set(OFlag::O_APPEND, asks(flag::APPEND));
            extra.set(OFlag::O_CREAT, create);
            extra.set(OFlag::O_EXCL, create && asks(flag::EXCLUSIVE));
            extra.set(OFlag::O_TRUNC, asks(flag::TRUNCATE));
            File::options()
                .read(both)
                .write(true)
                .mode(mode & 0o777)
                .custom_flags(extra.bits())
                .open(self.system.writable(name)?)?
        } else {
            self.system.open(name)?
        };
        // Separate numbers: those below 3 are the standard streams.
        let descriptor = (3..)
            .find(|number| !self.open.contains_key(number))
            .unwrap_or(3);
        self.open.insert(descriptor, file);
        Ok(descriptor.unsigned_abs())
    }

    fn close(&mut self, SignedHex(descriptor): SignedHex) -> io::Result<u64> {
        self.open
            .remove(&descriptor)
            .map(|_| 0)
            .ok_or_else(|| Errno::EBADF.into())
    }

    fn file(&self, SignedHex(descriptor): SignedHex) -> io::Result<&File> {
        self.open
            .get(&descriptor)
            .ok_or_else(|| Errno::EBADF.into())
    }

    fn read(&self, descriptor: SignedHex, length: u64, offset: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(length)
            .unwrap_or(PACKET_SIZE)
            .min(PACKET_SIZE);
        let mut bytes = vec![0; length];
        let count = self.file(descriptor)?.read_at(&mut bytes, offset)?;
        bytes.truncate(count);
        // The part before the data: `F`, a number, `;`.
        let fits = tracewire_packets::escaped_prefix(&bytes, PACKET_SIZE - 16);
        bytes.truncate(fits);
        Ok(bytes)
    }

    fn status(&self, HexBytes(name): &HexBytes, link: bool) -> io::Result<Vec<u8>> {
        let file = self.system.look_at(name, link)?;
        Ok(status(&file.metadata()?))
    }

    fn read_link(&self, HexBytes(name): &HexBytes) -> io::Result<Vec<u8>> {
        self.system.read_link(name)
    }
}

fn split(result: io::Result<Vec<u8>>) -> (io::Result<u64>, Option<Vec<u8>>) {
    match result {
        Ok(data) => (Ok(data.len() as u64), Some(data)),
        Err(error) => (Err(error), None),
    }
}

/// The protocol's number of an error: mostly that of Linux, where the protocol has it.
fn code(error: &io::Error) -> FileError {
    let Some(number) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => FileError::ROFS,
            io::ErrorKind::InvalidInput => FileError::INVAL,
            _ => FileError::UNKNOWN,
        };
    };
    match Errno::from_raw(number) {
        Errno::EPERM => FileError::PERM,
        Errno::ENOENT => FileError::NOENT,
        Errno::EINTR => FileError::INTR,
        Errno::EIO => FileError::IO,
        Errno::EBADF => FileError::BADF,
        Errno::EACCES => FileError::ACCES,
        Errno::EFAULT => FileError::FAULT,
        Errno::EBUSY => FileError::BUSY,
        Errno::EEXIST => FileError::EXIST,
        Errno::ENODEV => FileError::NODEV,
        Errno::ENOTDIR => FileError::NOTDIR,
        Errno::EISDIR => FileError::ISDIR,
        Errno::EINVAL => FileError::INVAL,
        Errno::ENFILE => FileError::NFILE,
        Errno::EMFILE => FileError::MFILE,
        Errno::EFBIG => FileError::FBIG,
        Errno::ENOSPC => FileError::NOSPC,
        Errno::ESPIPE => FileError::SPIPE,
        Errno::EROFS => FileError::ROFS,
        Errno::ENOSYS => FileError::NOSYS,
        Errno::ENAMETOOLONG => FileError::NAMETOOLONG,
        _ => FileError::UNKNOWN,
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
