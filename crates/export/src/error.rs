//! Errors of exports.

use std::io;

/// Why a run could not be written in another format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The sink refused what was written.
    #[error("cannot write the result")]
    Write(#[from] io::Error),
    /// No frame of the run has a stack.
    #[error(
        "no frame has a stack: collect it with $stack in a list, or backtrace in a script, and name the program with --elf"
    )]
    NoStacks,
    /// The endpoint could not be reached, or is no HTTP server.
    #[error("cannot send to {url}")]
    Send {
        /// Where.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The endpoint refuses the data.
    #[error("{url} answers with status {status}: {text}")]
    Refused {
        /// Where.
        url: String,
        /// The status of the answer.
        status: u16,
        /// The beginning of the answer's body.
        text: String,
    },
    /// An endpoint that is no `http://` address.
    #[error("{url} is no endpoint that can be used: {problem}")]
    Endpoint {
        /// The address.
        url: String,
        /// The expected form.
        problem: &'static str,
    },
}
