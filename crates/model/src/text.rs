//! Parsing and printing of the small texts in GDB's tracepoint packets.

use crate::hex;

/// A text that does not follow its grammar.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected} at byte {column} of `{text}`")]
pub struct TextError {
    /// The text, cut to a length that can be shown.
    pub text: String,
    /// Where in the text, from 0.
    pub column: usize,
    /// The expected element of the grammar.
    pub expected: &'static str,
}

/// The text departs from its grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Where in the text, from 0.
    pub column: usize,
    /// The expected element of the grammar.
    pub what: &'static str,
}

impl Expected {
    /// The same with the text, cut to a length that can be shown.
    #[must_use]
    pub fn in_text(self, text: &[u8]) -> TextError {
        TextError {
            text: shown(text),
            column: self.column,
            expected: self.what,
        }
    }
}

/// As much of a text as an error carries; bytes that are no text are replaced.
#[must_use]
pub fn shown(text: &[u8]) -> String {
    const SHOWN: usize = 200;
    String::from_utf8_lossy(text.get(..SHOWN).unwrap_or(text)).into_owned()
}

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

    /// A scanner after the given prefix; `None` if the text starts differently. `whole` means that nothing may follow.
    #[must_use]
    pub fn after(text: &'a [u8], prefix: &str, whole: bool) -> Option<Self> {
        let rest = text.strip_prefix(prefix.as_bytes())?;
        (!whole || rest.is_empty()).then_some(Self {
            text,
            at: prefix.len(),
        })
    }

    /// Where it is in the text, in bytes.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.at
    }

    /// The remaining text.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the remaining text.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.at = self.text.len();
        rest
    }

    /// Whether no text remains.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// The next byte, which is not consumed.
    #[must_use]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Takes the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes these letters if they are next.
    pub fn take(&mut self, letters: &str) -> bool {
        let found = self.rest().starts_with(letters.as_bytes());
        if found {
            self.at += letters.len();
        }
        found
    }

    /// Takes these letters.
    ///
    /// # Errors
    /// When something else is next.
    pub fn literal(&mut self, letters: &'static str) -> Result<(), Expected> {
        self.expect(letters, letters)
    }

    /// Takes these letters, which an error calls `what`.
    ///
    /// # Errors
    /// When something else is next.
    pub fn expect(&mut self, letters: &str, what: &'static str) -> Result<(), Expected> {
        if self.take(letters) {
            Ok(())
        } else {
            Err(self.expected(what))
        }
    }

    /// Takes a colon.
    ///
    /// # Errors
    /// When something else is next.
    pub fn colon(&mut self) -> Result<(), Expected> {
        self.expect(":", "a colon")
    }

    /// Takes the bytes before the first one that the test accepts, or before the end.
    pub fn until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let length = rest.iter().position(|byte| stop(*byte));
        let (before, _) = rest.split_at(length.unwrap_or(rest.len()));
        self.at += before.len();
        before
    }

    /// Takes the hexadecimal digits that come next, none perhaps.
    pub fn digits(&mut self) -> &'a [u8] {
        self.until(|byte| hex::digit(byte) > 15)
    }

    /// Takes a hexadecimal number of any number of digits whose value fits 64 bits.
    ///
    /// # Errors
    /// When no digit is next, or too many.
    pub fn hex(&mut self) -> Result<u64, Expected> {
        let start = *self;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(start.expected("a hexadecimal number"));
        }
        hex::number(digits).ok_or_else(|| start.expected("a hexadecimal number of at most 64 bits"))
    }

    /// Takes a hexadecimal number of at most `largest`, which an error calls `what`.
    ///
    /// # Errors
    /// When no such number is next.
    pub fn hex_up_to(&mut self, largest: u64, what: &'static str) -> Result<u64, Expected> {
        let start = *self;
        let value = self.hex()?;
        if value <= largest {
            Ok(value)
        } else {
            Err(start.expected(what))
        }
    }

    /// Takes exactly `count` bytes, two digits each.
    ///
    /// # Errors
    /// When fewer remain, or they are no digits.
    pub fn hex_bytes(&mut self, count: u64) -> Result<Vec<u8>, Expected> {
        let digits = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(2))
            .and_then(|digits| self.rest().get(..digits))
            .ok_or_else(|| self.expected("as many bytes as the length says, two digits each"))?;
        let bytes =
            hex::decode(digits).ok_or_else(|| self.expected("bytes of two hexadecimal digits"))?;
        self.at += digits.len();
        Ok(bytes)
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// When something is; the error calls the end `what`.
    pub fn end(&self, what: &'static str) -> Result<(), Expected> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.expected(what))
        }
    }

    /// The error that something else was expected here.
    #[must_use]
    pub const fn expected(&self, what: &'static str) -> Expected {
        Expected {
            column: self.at,
            what,
        }
    }
}
