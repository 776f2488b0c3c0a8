//! `F`: system calls that the target's program requests from GDB (File-I/O Remote Protocol Extension).
//!
//! The stub sends the call instead of a stop reply. GDB reads and writes target memory for it and answers with an `F` request, and
//! the program goes on.

use crate::field::{Field, SignedHex, Word};
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// GDB's answer to a system call.
    pub enum FileIoRequest {
        /// `F`: the call is done.
        Done {
            /// The result.
            answer: FileIoAnswer,
        } = ["F" answer] => { match answer.error {
            Some(error) => format!("the system call failed with error {error}"),
            None => format!("the system call returned {}", answer.result),
        } }
    }
}

/// The result of a system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileIoAnswer {
    /// The return value.
    pub result: SignedHex,
    /// The protocol's error number.
    pub error: Option<u32>,
    /// Whether the user pressed Ctrl-C; the program is to stop then. GDB sends it after an error number, 0 perhaps.
    pub interrupted: bool,
    /// Data, for calls that have some.
    pub attachment: Option<Vec<u8>>,
}

impl Field for FileIoAnswer {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let result = Field::scan(scanner)?;
        let mut answer = Self {
            result,
            error: None,
            interrupted: false,
            attachment: None,
        };
        if scanner.take(",") {
            answer.error = Some(Field::scan(scanner)?);
            answer.interrupted = scanner.take(",C");
        }
        if scanner.take(";") {
            let start = *scanner;
            answer.attachment = Some(
                crate::escape::unescape(scanner.take_rest())
                    .ok_or_else(|| start.expected("binary data that does not end in an escape"))?,
            );
        }
        Ok(answer)
    }

    fn print(&self, out: &mut Vec<u8>) {
        self.result.print(out);
        if self.error.is_some() || self.interrupted {
            out.push(b',');
            self.error.unwrap_or(0).print(out);
        }
        if self.interrupted {
            out.extend_from_slice(b",C");
        }
        if let Some(data) = &self.attachment {
            out.push(b';');
            crate::escape::escape(data, out);
        }
    }
}

/// A requested system call: a name, and arguments that are numbers or `address/length` of a string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileIoCall {
    /// `open`, `close`, `read`, `write`, `lseek`, `rename`, `unlink`, `stat`, `fstat`, `gettimeofday`, `isatty`, `system`.
    pub name: String,
    /// Its arguments, in order.
    pub arguments: Vec<FileIoArgument>,
}

/// An argument of a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileIoArgument {
    /// A number, or the address of a buffer.
    Number(SignedHex),
    /// A string in the program's memory.
    String {
        /// Its address.
        address: u64,
        /// Its length, with its NUL.
        length: u64,
    },
}

impl Field for FileIoCall {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let Word(name) = Field::scan(scanner)?;
        let mut arguments = Vec::new();
        while scanner.take(",") {
            let start = *scanner;
            if scanner.peek() == Some(b'-') {
                arguments.push(FileIoArgument::Number(Field::scan(scanner)?));
                continue;
            }
            let number = scanner.hex()?;
            arguments.push(if scanner.take("/") {
                FileIoArgument::String {
                    address: number,
                    length: scanner.hex()?,
                }
            } else {
                let number = i64::try_from(number)
                    .map_err(|_| start.expected("a number of at most 63 bits"))?;
                FileIoArgument::Number(SignedHex(number))
            });
        }
        Ok(Self { name, arguments })
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_bytes());
        for argument in &self.arguments {
            out.push(b',');
            match argument {
                FileIoArgument::Number(number) => number.print(out),
                FileIoArgument::String { address, length } => {
                    address.print(out);
                    out.push(b'/');
                    length.print(out);
                }
            }
        }
    }
}

#[cfg(test)]
mod samples {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{FileIoAnswer, FileIoArgument, FileIoCall};
    use crate::field::{Sample, SignedHex};

    impl Sample for FileIoAnswer {
        fn strategy() -> BoxedStrategy<Self> {
            (
                any::<i64>(),
                proptest::option::of(any::<u32>()),
                any::<bool>(),
                proptest::option::of(vec(any::<u8>(), 0..20)),
            )
                .prop_map(|(result, error, interrupted, attachment)| Self {
                    result: SignedHex(result),
                    // Ctrl-C cannot be sent without an error number.
                    error: error.or(interrupted.then_some(0)),
                    interrupted,
                    attachment,
                })
                .boxed()
        }
    }

    impl Sample for FileIoCall {
        fn strategy() -> BoxedStrategy<Self> {
            let argument = prop_oneof![
                any::<i64>().prop_map(|number| FileIoArgument::Number(SignedHex(number))),
                any::<(u64, u64)>()
                    .prop_map(|(address, length)| FileIoArgument::String { address, length }),
            ];
            ("[a-z]{1,12}", vec(argument, 0..5))
                .prop_map(|(name, arguments)| Self { name, arguments })
                .boxed()
        }
    }
}
