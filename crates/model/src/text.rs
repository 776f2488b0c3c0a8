//! Reading and writing the small texts that GDB's tracepoint packets are made of.

use crate::hex::{decode, number};

/// A text that does not follow its grammar.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected} at byte {column} of `{text}`")]
pub struct TextError {
    /// The text, cut to a length that can be shown.
    pub text: String,
    /// Where in the text, from 0.
    pub column: usize,
    /// What should have stood there.
    pub expected: &'static str,
}

/// How much of a text an error carries.
const SHOWN: usize = 200;

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The start of a text.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// The next byte, which stays.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Takes the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes the byte if it is next.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes this byte.
    ///
    /// # Errors
    /// When another one is next, or none.
    pub fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), TextError> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.error(expected))
        }
    }

    /// Takes a colon.
    ///
    /// # Errors
    /// When something else is next.
    pub fn colon(&mut self) -> Result<(), TextError> {
        self.expect(b':', "a colon")
    }

    /// Everything up to the byte or the end; the byte itself is not taken.
    pub fn until(&mut self, byte: u8) -> &'a [u8] {
        let rest = self.rest();
        let length = memchr::memchr(byte, rest).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The hexadecimal digits that stand next, none perhaps.
    pub fn digits(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = rest
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        self.at += length;
        &rest[..length]
    }

    /// A hexadecimal number of any number of digits whose value fits 64 bits.
    ///
    /// # Errors
    /// When no digit is next, or too many.
    pub fn hex(&mut self) -> Result<u64, TextError> {
        let start = *self;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(start.error("a hexadecimal number"));
        }
        number(digits).ok_or_else(|| start.error("a hexadecimal number of at most 64 bits"))
    }

    /// Exactly `count` bytes, two digits each.
    ///
    /// # Errors
    /// When fewer are left, or what is left are no digits.
    pub fn hex_bytes(&mut self, count: u64) -> Result<Vec<u8>, TextError> {
        let digits = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(2))
            .and_then(|digits| self.rest().get(..digits))
            .ok_or_else(|| self.error("as many bytes as the length says, two digits each"))?;
        let bytes = decode(digits).ok_or_else(|| self.error("bytes of two hexadecimal digits"))?;
        self.at += digits.len();
        Ok(bytes)
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&self) -> Result<(), TextError> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.error("the end"))
        }
    }

    /// The error that something else was expected here.
    #[must_use]
    pub fn error(&self, expected: &'static str) -> TextError {
        let shown = self.text.get(..SHOWN).unwrap_or(self.text);
        TextError {
            text: String::from_utf8_lossy(shown).into_owned(),
            column: self.at,
            expected,
        }
    }
}
