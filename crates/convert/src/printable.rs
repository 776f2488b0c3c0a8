//! JSON whose strings have no control character.

use std::io::{self, Write};

/// Escapes the control characters that JSON allows in a string, and that a terminal would obey: U+007F to U+009F.
pub(crate) struct Printable<W> {
    out: W,
    /// The first byte of U+0080 to U+00BF has come, and is not written yet.
    led: bool,
}

/// The first byte of U+0080 to U+00BF in UTF-8.
const LEAD: u8 = 0xc2;

impl<W: Write> Printable<W> {
    pub(crate) const fn new(out: W) -> Self {
        Self { out, led: false }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((first, behind)) = rest.split_first() {
            if std::mem::take(&mut self.led) {
                if (0x80..0xa0).contains(first) {
                    write!(self.out, "\\u{first:04x}")?;
                    rest = behind;
                    continue;
                }
                self.out.write_all(&[LEAD])?;
            }
            let plain = rest
                .iter()
                .position(|byte| matches!(*byte, 0x7f | LEAD))
                .unwrap_or(rest.len());
            let (plain, special) = rest.split_at(plain);
            self.out.write_all(plain)?;
            rest = special;
            if let Some((special, behind)) = special.split_first() {
                if *special == LEAD {
                    self.led = true;
                } else {
                    self.out.write_all(b"\\u007f")?;
                }
                rest = behind;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_wherever_a_write_ends() {
        let text = "\"a\u{7f}\u{80}\u{9b}31m\u{a0}\u{bf}é中\u{c2}\"";
        let escaped = "\"a\\u007f\\u0080\\u009b31m\u{a0}\u{bf}é中\u{c2}\"";
        for length in 1..=text.len() {
            let mut out = Printable::new(Vec::new());
            for piece in text.as_bytes().chunks(length) {
                out.write_all(piece).unwrap();
            }
            assert_eq!(std::str::from_utf8(&out.out), Ok(escaped), "{length}");
        }
        let back: String = serde_json::from_str(escaped).unwrap();
        assert_eq!(format!("\"{back}\""), text);
    }
}
