//! What is wrong with a packet.

use tracewire_model::TextError;

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
    /// What should have stood there.
    pub expected: &'static str,
    /// The packet, cut to a length that can be shown; bytes that are no text are replaced.
    pub text: String,
}

/// How much of a packet an error carries.
const SHOWN: usize = 200;

/// What a scanner missed, before the packet's name is put to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    pub(crate) column: usize,
    pub(crate) what: &'static str,
}

impl Expected {
    pub(crate) fn of(self, packet: &'static str, text: &[u8]) -> PacketError {
        let shown = text.get(..SHOWN).unwrap_or(text);
        PacketError {
            packet,
            column: self.column,
            expected: self.what,
            text: String::from_utf8_lossy(shown).into_owned(),
        }
    }

    /// The trace file's own parsers name the same place, counted from `start`.
    pub(crate) fn from_text(error: &TextError, start: usize) -> Self {
        Self {
            column: start.saturating_add(error.column),
            what: error.expected,
        }
    }
}
