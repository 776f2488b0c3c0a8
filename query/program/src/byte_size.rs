//! Sizes in bytes, as a person writes them.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    /// In the largest unit that it is a whole number of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = |(shift, _): &&(u32, &str)| self.0 != 0 && self.0.trailing_zeros() >= *shift;
        match units.iter().find(whole) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Reads a size such as `512MiB`, `2g` or `1048576`. All units are powers of 1024.
pub fn byte_size(text: &str) -> Result<ByteSize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("expected a number of bytes, or one with KiB, MiB, GiB or TiB".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected a size such as 512MiB".to_owned())?;
    let size = number.checked_mul(1 << unit).ok_or("too large")?;
    Ok(ByteSize(size))
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, byte_size};

    #[test]
    fn sizes_are_read_and_written() {
        for (text, size) in [
            ("512MiB", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            ("33554432", Some(32 << 20)),
            ("64 MB", Some(64 << 20)),
            ("0", Some(0)),
            ("", None),
            ("MiB", None),
            ("9€", None),
            ("99999999999999999T", None),
        ] {
            assert_eq!(byte_size(text).ok(), size.map(ByteSize), "{text}");
        }
        for (size, text) in [
            (0, "0"),
            (1, "1"),
            (1536 << 20, "1536MiB"),
            (1 << 40, "1TiB"),
        ] {
            assert_eq!(ByteSize(size).to_string(), text);
        }
    }
}
