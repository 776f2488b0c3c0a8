//! Why a run has ended.

use tracewire_model::{StopReason, TracepointNumber};

/// Why a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunEnd {
    /// The reason.
    pub reason: StopReason,
    /// The error, or the note of the user who ended it.
    pub text: Option<String>,
    /// The tracepoint whose pass count or error it was.
    pub tracepoint: Option<TracepointNumber>,
}

impl RunEnd {
    /// An end without a text.
    #[must_use]
    pub const fn new(reason: StopReason, tracepoint: Option<TracepointNumber>) -> Self {
        Self {
            reason,
            text: None,
            tracepoint,
        }
    }
}
