//! A run that another program carries out, for an experiment that keeps its frames.
//!
//! The plugin in QEMU runs the tracepoints of a debugger in front of QEMU's stub. The debugger's side hands the definitions over
//! ([`Request::Begin`]), asks for what has come of them ([`Request::Progress`]), and takes it into its own experiment
//! ([`Experiment::adopt`](crate::Experiment::adopt)). Frames are found, saved and counted there as if they had been made there.
//!
//! Both sides read from a stream socket. A line starts each message; some are followed by as many bytes as the line says.

mod adopt;
mod message;
mod progress;

pub use adopt::{AdoptError, Adopted};
pub use message::{Answer, Greeting, MessageError, Request};
pub use progress::{LocationCounts, Progress, ProgressError};
