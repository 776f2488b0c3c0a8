//! Errors in a packet.

use tracewire_model::text::{Expected, shown};

/// A packet that is known by its name but does not follow its grammar.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{}: expected {expected} at byte {column} of `{text}`",
    .packet.trim_end_matches([':', ';', ',', '-'])
)]
pub struct PacketError {
    /// The packet, by the letters it starts with, or by the request it answers.
    pub packet: &'static str,
    /// Where in the packet, in bytes from 0, after run-length expansion and before unescaping.
    pub column: usize,
    /// The expected element.
    pub expected: &'static str,
    /// The packet, cut to a length that can be shown; bytes that are no text are replaced.
    pub text: String,
}

impl PacketError {
    pub(crate) fn new(expected: Expected, packet: &'static str, text: &[u8]) -> Self {
        Self {
            packet,
            column: expected.column,
            expected: expected.what,
            text: shown(text),
        }
    }
}
