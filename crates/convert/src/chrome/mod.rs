//! Chrome's JSON trace event format, which Perfetto opens too: hits of a trace file, calls of an execution trace.
//!
//! The source is the "Trace Event Format" of the Chromium project.

mod calls;
mod frames;

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Value, json};

pub use calls::write_calls;
pub use frames::write;

/// The process that all threads belong to; a trace does not tell its number.
const PROCESS: u32 = 1;

/// One JSON object with an array `traceEvents`.
struct Events<'o, W> {
    out: &'o mut W,
    is_empty: bool,
}

impl<'o, W: Write> Events<'o, W> {
    fn begin(out: &'o mut W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self {
            out,
            is_empty: true,
        })
    }

    /// Adds an event, a JSON object.
    fn put(&mut self, event: impl Display) -> io::Result<()> {
        let separator = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        write!(self.out, "{separator}{event}")
    }

    /// Adds the name of a process or of one of its threads.
    fn put_name(&mut self, what: &str, thread: Option<u32>, name: &str) -> io::Result<()> {
        let mut event =
            json!({ "ph": "M", "name": what, "pid": PROCESS, "args": { "name": name } });
        if let Some(thread) = thread {
            event["tid"] = thread.into();
        }
        self.put(event)
    }

    fn finish(self, other: Option<Value>) -> io::Result<()> {
        self.out.write_all(b"\n]")?;
        if let Some(other) = other {
            write!(self.out, ",\"otherData\":{other}")?;
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}
