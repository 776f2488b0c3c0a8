//! `qXfer`: objects read and written in windows.

use std::fmt;

use crate::field::{Binary, Field};
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about objects of the target.
    pub enum TransferRequest {
        /// `qXfer:object:read:annex:offset,length`. The reply shows whether it is the end.
        Transfer {
            /// The window and its object.
            window: Transfer,
        } = ["qXfer:" window] => { window.explain() }
    }
}

/// A window of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The object that is read or written.
    pub object: Object,
    /// Which part of it: a file name, a process number, or nothing, as the object has it.
    pub annex: String,
    /// From which byte on.
    pub offset: u64,
    /// Read or write.
    pub operation: Operation,
}

/// The operation on a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read so many bytes, or fewer.
    Read {
        /// How many.
        length: u64,
    },
    /// Write these, or some from the start.
    Write {
        /// The bytes.
        data: Binary,
    },
}

macro_rules! objects {
    ($( $(#[$meta:meta])* $name:ident = $text:literal, )*) => {
        /// An object of the target.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Object {
            $( $(#[$meta])* $name, )*
            /// One that GDB 13 does not have.
            Other(String),
        }

        impl Object {
            /// The name in the packet.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $( Self::$name => $text, )*
                    Self::Other(name) => name,
                }
            }

            fn named(name: &str) -> Self {
                match name {
                    $( $text => Self::$name, )*
                    other => Self::Other(other.to_owned()),
                }
            }

            #[cfg(test)]
            fn known() -> Vec<Self> {
                vec![$( Self::$name ),*]
            }
        }
    };
}

objects! {
    /// The auxiliary vector.
    AuxiliaryVector = "auxv",
    /// Branch trace data.
    BranchTrace = "btrace",
    /// How branches are traced.
    BranchTraceConfiguration = "btrace-conf",
    /// The program's file name; the annex is the process.
    ExecFile = "exec-file",
    /// Load maps of FDPIC programs; the annex is `exec` or `interp`.
    LoadMap = "fdpic",
    /// The target description; the annex is `target.xml` or a file it includes.
    Features = "features",
    /// Shared libraries, on systems without a `struct link_map`.
    Libraries = "libraries",
    /// Shared libraries of System V; the annex holds `start=…;prev=…;` where
    /// `augmented-libraries-svr4-read` was announced.
    LibrariesSvr4 = "libraries-svr4",
    /// The memory map.
    MemoryMap = "memory-map",
    /// Tables of the operating system (`info os`); the annex is the table.
    OsData = "osdata",
    /// The signal's details of the selected thread; can be written.
    SignalInfo = "siginfo",
    /// The data of a static tracepoint's probe, in the selected trace frame (`$_sdata`).
    StaticTraceData = "statictrace",
    /// Threads, with names and cpus.
    Threads = "threads",
    /// The contents of the selected trace frame.
    TraceframeInfo = "traceframe-info",
    /// Unwind information (OpenVMS); the annex is the pc.
    UnwindInformation = "uib",
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Transfer {
    fn explain(&self) -> String {
        let Self {
            object,
            annex,
            offset,
            operation,
        } = self;
        let annex = if annex.is_empty() {
            String::new()
        } else {
            format!(" of `{annex}`")
        };
        match operation {
            Operation::Read { length } => {
                format!("read {object}{annex}: {length} bytes from {offset}")
            }
            Operation::Write { data } => {
                format!("write {object}{annex}: {} bytes at {offset}", data.0.len())
            }
        }
    }
}

fn text(scanner: &mut Scanner<'_>, stop: u8) -> Result<String, Expected> {
    let start = *scanner;
    std::str::from_utf8(scanner.until(|byte| byte == stop))
        .map(str::to_owned)
        .map_err(|_| start.expected("text"))
}

impl Field for Transfer {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let object = Object::named(&text(scanner, b':')?);
        scanner.literal(":")?;
        let start = *scanner;
        let reading = scanner.take("read:");
        if !reading && !scanner.take("write:") {
            return Err(start.expected("read: or write:"));
        }
        let annex = text(scanner, b':')?;
        scanner.literal(":")?;
        let offset = scanner.hex()?;
        let operation = if reading {
            scanner.literal(",")?;
            Operation::Read {
                length: scanner.hex()?,
            }
        } else {
            scanner.literal(":")?;
            Operation::Write {
                data: Field::scan(scanner)?,
            }
        };
        Ok(Self {
            object,
            annex,
            offset,
            operation,
        })
    }

    fn print(&self, out: &mut Vec<u8>) {
        let Self {
            object,
            annex,
            offset,
            operation,
        } = self;
        let head = match operation {
            Operation::Read { length } => format!("{object}:read:{annex}:{offset:x},{length:x}"),
            Operation::Write { .. } => format!("{object}:write:{annex}:{offset:x}:"),
        };
        out.extend_from_slice(head.as_bytes());
        if let Operation::Write { data } = operation {
            data.print(out);
        }
    }
}

/// A part of an object, the reply to a read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// Whether nothing follows (`l`); there may be more after `m`, which must hold at least a byte.
    pub last: bool,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Chunk {
    /// The window of an object for a read, cut so that the reply fits a packet of `room` bytes.
    #[must_use]
    pub fn window(object: &[u8], offset: u64, length: u64, room: usize) -> Self {
        let from = |place: u64| {
            usize::try_from(place)
                .unwrap_or(usize::MAX)
                .min(object.len())
        };
        let rest = &object[from(offset)..];
        let asked = &rest[..from(length).min(rest.len())];
        let fits = crate::escape::escaped_prefix(asked, room.saturating_sub(1));
        Self {
            last: fits == rest.len(),
            data: asked[..fits].to_vec(),
        }
    }
}

impl Field for Chunk {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let last = match scanner.byte() {
            Some(b'l') => true,
            Some(b'm') => false,
            _ => return Err(start.expected("m (there may be more) or l (the last part)")),
        };
        let Binary(data) = Field::scan(scanner)?;
        Ok(Self { last, data })
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.push(if self.last { b'l' } else { b'm' });
        crate::escape::escape(&self.data, out);
    }
}

#[cfg(test)]
mod samples {
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{Chunk, Object, Operation, Transfer};
    use crate::field::{Binary, Sample};

    impl Sample for Transfer {
        fn strategy() -> BoxedStrategy<Self> {
            let object = prop_oneof![
                proptest::sample::select(Object::known()),
                "other-[a-z]{1,8}".prop_map(Object::Other)
            ];
            let operation = prop_oneof![
                any::<u64>().prop_map(|length| Operation::Read { length }),
                Binary::strategy().prop_map(|data| Operation::Write { data }),
            ];
            (object, "[a-z0-9.=;]{0,12}", any::<u64>(), operation)
                .prop_map(|(object, annex, offset, operation)| Self {
                    object,
                    annex,
                    offset,
                    operation,
                })
                .boxed()
        }
    }

    impl Sample for Chunk {
        fn strategy() -> BoxedStrategy<Self> {
            (any::<bool>(), Binary::strategy())
                .prop_map(|(last, Binary(data))| Self { last, data })
                .boxed()
        }
    }
}
