//! What can go wrong.

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
    /// The endpoint could not be reached, or does not speak HTTP.
    #[error("cannot send to {url}")]
    Send {
        /// Where.
        url: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// The endpoint refuses what is sent.
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
        /// What was given.
        url: String,
        /// What was expected.
        problem: &'static str,
    },
}
