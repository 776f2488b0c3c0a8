//! Chrome's JSON trace event format, which Perfetto opens too: calls of an execution trace, and the frame of an object that holds events.
//!
//! The source is the "Trace Event Format" of the Chromium project.

mod calls;

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::printable::Printable;

pub use calls::write_calls;

/// One JSON object with an array `traceEvents`, as far as it is written. Control characters are escaped, as a terminal would obey some.
pub struct Events<W> {
    out: Printable<W>,
    is_empty: bool,
}

impl<W: Write> Events<W> {
    /// Begins the object. Times are shown in nanoseconds.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn begin(out: W) -> io::Result<Self> {
        let mut out = Printable::new(out);
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self {
            out,
            is_empty: true,
        })
    }

    /// Adds an event, a JSON object.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn put(&mut self, event: impl Display) -> io::Result<()> {
        let separator = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        write!(self.out, "{separator}{event}")
    }

    /// Adds the name of a process (`process_name`) or of one of its threads (`thread_name`).
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn put_name(
        &mut self,
        what: &str,
        process: u32,
        thread: Option<u32>,
        name: &str,
    ) -> io::Result<()> {
        let mut event =
            json!({ "ph": "M", "name": what, "pid": process, "args": { "name": name } });
        if let Some(thread) = thread {
            event["tid"] = thread.into();
        }
        self.put(event)
    }

    /// Ends the object, with data that belong to no event.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn finish(mut self, other: Option<Value>) -> io::Result<()> {
        self.out.write_all(b"\n]")?;
        if let Some(other) = other {
            write!(self.out, ",\"otherData\":{other}")?;
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()
    }
}
