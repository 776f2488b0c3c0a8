//! A position in a packet.

use crate::error::Expected;
use tracewire_model::hex;

#[derive(Clone, Copy)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Past the letters a packet starts with; none when it starts with others. `whole` says that nothing may follow.
    pub(crate) fn after(text: &'a [u8], prefix: &str, whole: bool) -> Option<Self> {
        let rest = text.strip_prefix(prefix.as_bytes())?;
        (!whole || rest.is_empty()).then_some(Self {
            text,
            at: prefix.len(),
        })
    }

    pub(crate) const fn column(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Everything that is left, which is taken.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.at = self.text.len();
        rest
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Takes the text if it is next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text.as_bytes());
        if found {
            self.at += text.len();
        }
        found
    }

    pub(crate) fn literal(&mut self, text: &'static str) -> Result<(), Expected> {
        if self.take(text) {
            Ok(())
        } else {
            Err(self.expected(text))
        }
    }

    /// What is before the first byte the test accepts, or before the end.
    pub(crate) fn until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let length = rest
            .iter()
            .position(|byte| stop(*byte))
            .unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The hexadecimal digits that stand next, none perhaps.
    pub(crate) fn digits(&mut self) -> &'a [u8] {
        self.until(|byte| hex::digit(byte) > 15)
    }

    /// A hexadecimal number whose value fits 64 bits, of any number of digits.
    pub(crate) fn hex(&mut self) -> Result<u64, Expected> {
        let start = *self;
        let digits = self.digits();
        if digits.is_empty() {
            return Err(start.expected("a hexadecimal number"));
        }
        hex::number(digits).ok_or_else(|| start.expected("a hexadecimal number of at most 64 bits"))
    }

    /// A hexadecimal number of at most `largest`.
    pub(crate) fn hex_up_to(&mut self, largest: u64, what: &'static str) -> Result<u64, Expected> {
        let start = *self;
        let value = self.hex()?;
        if value <= largest {
            Ok(value)
        } else {
            Err(start.expected(what))
        }
    }

    pub(crate) fn end(&self) -> Result<(), Expected> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.expected("the end of the packet"))
        }
    }

    pub(crate) const fn expected(&self, what: &'static str) -> Expected {
        Expected {
            column: self.at,
            what,
        }
    }
}
