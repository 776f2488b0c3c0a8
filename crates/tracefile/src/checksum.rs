//! The checksum: a line of our own after the end marker.
//!
//! Nothing in GDB's format distinguishes a collected value from a damaged one. `docs/formats/checksum.md` has the form.

use std::fmt;
use std::io::{self, Write};

use crc32fast::Hasher;

use crate::write::END_MARKER;

/// What the line starts with.
const WORDS: &[u8; 15] = b"checksum crc32 ";

/// The CRC of the bytes of a trace file, up to and with its end marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum(pub u32);

impl Checksum {
    /// How many bytes the line has, its newline included.
    pub(crate) const LINE: usize = WORDS.len() + 8 + 1;

    /// Computed from the bytes before the line.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(crc32fast::hash(bytes))
    }

    /// Parts the line from the bytes that end with it; none when they do not.
    #[must_use]
    pub fn split(bytes: &[u8]) -> Option<(&[u8], Self)> {
        let (before, line) = bytes.split_at_checked(bytes.len().checked_sub(Self::LINE)?)?;
        let digits = line.strip_prefix(WORDS)?.strip_suffix(b"\n")?;
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let text = std::str::from_utf8(digits).ok()?;
        let value = digits.iter().all(lower).then_some(text)?;
        let value = u32::from_str_radix(value, 16).ok()?;
        Some((before, Self(value)))
    }

    /// The bytes without the line, or without what a cut has left of it after the end marker.
    #[must_use]
    pub fn strip(bytes: &[u8]) -> &[u8] {
        if let Some((before, _)) = Self::split(bytes) {
            return before;
        }
        let cut = (1..Self::LINE).find_map(|length| {
            let (before, line) = bytes.split_at_checked(bytes.len().checked_sub(length)?)?;
            let words = line.get(..length.min(WORDS.len()))?;
            (WORDS.starts_with(words) && before.ends_with(&END_MARKER)).then_some(before)
        });
        cut.unwrap_or(bytes)
    }
}

/// The line, without its newline.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checksum crc32 {:08x}", self.0)
    }
}

/// Passes the bytes of a trace file on, and ends them with the end marker and the checksum.
#[derive(Debug)]
pub struct SealingWriter<W> {
    out: W,
    sum: Hasher,
}

impl<W: Write> SealingWriter<W> {
    /// Nothing of the file may have been written before.
    pub fn new(out: W) -> Self {
        Self {
            out,
            sum: Hasher::new(),
        }
    }

    /// Writes GDB's end marker and the checksum of everything before, and flushes the sink.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_all(&END_MARKER)?;
        writeln!(self.out, "{}", Checksum(self.sum.finalize()))?;
        self.out.flush()
    }

    /// Writes GDB's end marker alone, as GDB does, and flushes the sink.
    ///
    /// # Errors
    /// When the sink refuses.
    pub fn finish_unsealed(mut self) -> io::Result<()> {
        self.write_all(&END_MARKER)?;
        self.flush()
    }
}

impl<W: Write> Write for SealingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_ends_with_its_checksum() {
        let mut bytes = Vec::new();
        let mut writer = SealingWriter::new(&mut bytes);
        writer.write_all(b"bytes").unwrap();
        writer.finish().unwrap();
        let (before, declared) = Checksum::split(&bytes).unwrap();
        assert_eq!(before, b"bytes\0\0\0\0");
        assert_eq!(declared, Checksum::of(before));
        assert_eq!(bytes.len(), before.len() + Checksum::LINE);
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            &b"checksum crc32 0123456"[..],
            b"checksum crc32 0123456G\n",
            b"checksum crc32 0123ABCD\n",
            b"checksum crc32 +1234567\n",
            b"Checksum crc32 01234567\n",
        ] {
            assert_eq!(Checksum::split(line), None);
        }
        assert!(Checksum::split(b"checksum crc32 01234567\n").is_some());
    }
}
