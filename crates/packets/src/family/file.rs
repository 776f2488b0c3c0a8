//! `vFile`: files of the target's system (Host I/O Packets).

use std::fmt;

use crate::field::{Binary, Field, HexBytes, SignedHex};
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about files. All numbers, file descriptors too, are hexadecimal.
    pub enum FileRequest {
        /// `vFile:setfs`: whose file system names mean from now on.
        SetFileSystem {
            /// The process; 0 for the stub's own.
            process: u32,
        } = ["vFile:setfs:" process] => { match process {
            0 => "use the stub's own file system".to_owned(),
            process => format!("use the file system of process {process}"),
        } }

        /// `vFile:open`.
        Open {
            /// The file's name.
            name: HexBytes,
            /// Flags, those of the protocol (Open Flags), not the host's.
            flags: u32,
            /// Permissions of a new file, those of the protocol (mode_t Values).
            mode: u32,
        } = ["vFile:open:" name "," flags "," mode] => "open the file {name}"

        /// `vFile:close`.
        Close {
            /// Which.
            descriptor: SignedHex,
        } = ["vFile:close:" descriptor] => "close file {descriptor}"

        /// `vFile:pread`.
        Read {
            /// From which.
            descriptor: SignedHex,
            /// How many bytes at most.
            length: u64,
            /// From which byte on.
            offset: u64,
        } = ["vFile:pread:" descriptor "," length "," offset]
            => "read {length} bytes of file {descriptor} from {offset}"

        /// `vFile:pwrite`.
        Write {
            /// The file descriptor.
            descriptor: SignedHex,
            /// From which byte on.
            offset: u64,
            /// What.
            data: Binary,
        } = ["vFile:pwrite:" descriptor "," offset "," data]
            => { format!("write {} bytes to file {descriptor} at {offset}", data.0.len()) }

        /// `vFile:fstat`. The reply's data is a `struct stat` of the protocol's (64 bytes, big-endian).
        DescriptorStatus {
            /// The file descriptor.
            descriptor: SignedHex,
        } = ["vFile:fstat:" descriptor] => "describe file {descriptor}"

        /// `vFile:stat` (GDB 16).
        Status {
            /// The file's name.
            name: HexBytes,
        } = ["vFile:stat:" name] => "describe the file {name}"

        /// `vFile:lstat` (GDB 17): like `stat`, of a symbolic link itself.
        LinkStatus {
            /// The file's name.
            name: HexBytes,
        } = ["vFile:lstat:" name] => "describe the file or link {name}"

        /// `vFile:unlink`.
        Remove {
            /// The file's name.
            name: HexBytes,
        } = ["vFile:unlink:" name] => "remove the file {name}"

        /// `vFile:readlink`.
        ReadLink {
            /// The link's name.
            name: HexBytes,
        } = ["vFile:readlink:" name] => "read the symbolic link {name}"
    }
}

/// The result of a request: `F result[,errno][;data]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileReply {
    /// The system call's result, or the protocol's error number.
    pub result: Result<u64, FileError>,
    /// Data that came with it, plain.
    pub data: Option<Vec<u8>>,
}

/// An error number of the protocol (Errno Values), not the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileError(pub u32);

macro_rules! file_errors {
    ($( $name:ident = $number:literal, $text:literal; )*) => {
        impl FileError {
            $(
                #[doc = concat!("E", stringify!($name), ": ", $text, ".")]
                pub const $name: Self = Self($number);
            )*
        }

        impl fmt::Display for FileError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $( $number => f.write_str($text), )*
                    number => write!(f, "error {number}"),
                }
            }
        }
    };
}

file_errors! {
    PERM = 1, "operation not permitted";
    NOENT = 2, "no such file";
    INTR = 4, "interrupted";
    IO = 5, "input/output error";
    BADF = 9, "bad file descriptor";
    ACCES = 13, "permission denied";
    FAULT = 14, "bad address";
    BUSY = 16, "busy";
    EXIST = 17, "file exists";
    NODEV = 19, "no such device";
    NOTDIR = 20, "not a directory";
    ISDIR = 21, "is a directory";
    INVAL = 22, "invalid argument";
    NFILE = 23, "too many open files in the system";
    MFILE = 24, "too many open files";
    FBIG = 27, "file too large";
    NOSPC = 28, "no space left";
    SPIPE = 29, "illegal seek";
    ROFS = 30, "read-only file system";
    NOSYS = 88, "not supported";
    NAMETOOLONG = 91, "file name too long";
    UNKNOWN = 9999, "unknown error";
}

impl Field for FileReply {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let SignedHex(number) = Field::scan(scanner)?;
        let error = if scanner.take(",") {
            Some(FileError(Field::scan(scanner)?))
        } else {
            None
        };
        let data = if scanner.take(";") {
            let Binary(data) = Field::scan(scanner)?;
            Some(data)
        } else {
            None
        };
        let result = match (u64::try_from(number), error) {
            (Ok(result), None) => Ok(result),
            (Err(_), error) => Err(error.unwrap_or(FileError::UNKNOWN)),
            (Ok(_), Some(_)) => return Err(start.expected("-1 before an error number")),
        };
        Ok(Self { result, data })
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self.result {
            Ok(result) => result.print(out),
            Err(FileError(number)) => {
                out.extend_from_slice(b"-1,");
                number.print(out);
            }
        }
        if let Some(data) = &self.data {
            out.push(b';');
            crate::escape::escape(data, out);
        }
    }
}

impl FileReply {
    pub(crate) fn explain(&self) -> String {
        match (&self.result, &self.data) {
            (Err(error), _) => format!("failed: {error}"),
            (Ok(_), Some(data)) => format!("{} bytes", data.len()),
            (Ok(result), None) => format!("done: {result}"),
        }
    }
}

#[cfg(test)]
impl crate::field::Sample for FileReply {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::prelude::*;
        let result = prop_oneof![
            (0..=i64::MAX as u64).prop_map(Ok),
            any::<u32>().prop_map(|number| Err(FileError(number)))
        ];
        let data = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..30));
        (result, data)
            .prop_map(|(result, data)| Self { result, data })
            .boxed()
    }
}
