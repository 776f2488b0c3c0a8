//! Replies that say that a request failed.

use std::fmt;

use crate::field::Field;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// The contents of an `E` reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// `Enn`: a number without meaning to anyone.
    Number(u8),
    /// `E.text`: a text for the user, bytes as they are. GDB shows it for some packets, tracepoint ones among them.
    Text(Vec<u8>),
}

impl Failure {
    /// A failure with a text. Characters that framing uses are replaced, except for the `$` of a name (`$foo`), which is left out.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut safe = String::with_capacity(text.len());
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match (c, rest.peek()) {
                ('$', Some(next)) if next.is_alphabetic() || *next == '_' => {}
                ('#' | '$' | '}' | '*', _) => safe.push('?'),
                (c, _) if c.is_control() => safe.push('?'),
                (c, _) => safe.push(c),
            }
        }
        Self::Text(safe.into_bytes())
    }

    /// Exactly two digits, or a text: other replies that start with `E` are no failures (GDB's own test).
    pub(super) fn is(text: &[u8]) -> bool {
        match text {
            [b'E', b'.', ..] => true,
            [b'E', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
            _ => false,
        }
    }
}

impl Field for Failure {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if scanner.take(".") {
            return Ok(Self::Text(scanner.take_rest().to_vec()));
        }
        Field::scan(scanner).map(Self::Number)
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => hex::encode(&[*number], out),
            Self::Text(text) => {
                out.push(b'.');
                out.extend_from_slice(text);
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "error {number}"),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}
