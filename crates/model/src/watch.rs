//! Watches: tracepoints on memory, which are hit by every write there.
//!
//! The address of such a tracepoint is that of the memory. A source string of our own (`watch`) marks it, and describes the watched
//! part of the memory. `docs/formats/trace-file-extensions.md` has the form.

use std::fmt;
use std::str::FromStr;

/// The trace state variable that has the bytes from before the write, in a frame of a watch: `$old`.
pub const OLD_VALUE: &str = "old";

/// The longest value whose bytes from before the write are kept, in bytes: a trace state variable has no more.
pub const OLD_VALUE_SIZE: u64 = 8;

/// The object that a tracepoint watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedObject {
    /// How many bytes, from the tracepoint's address on.
    pub length: u64,
    /// Whether it is a signed number, by which `$old` is extended.
    pub is_signed: bool,
    /// The expression, as given.
    pub expression: String,
}

impl WatchedObject {
    /// Whether a frame can have the value from before the write.
    #[must_use]
    pub const fn has_old_value(&self) -> bool {
        self.length <= OLD_VALUE_SIZE
    }
}

/// `LENGTH signed|unsigned EXPRESSION`: `4 signed table.count`.
impl fmt::Display for WatchedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.is_signed {
            true => "signed",
            false => "unsigned",
        };
        write!(f, "{} {sign} {}", self.length, self.expression)
    }
}

/// The text is no watched object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected LENGTH signed|unsigned EXPRESSION")]
pub struct WatchedObjectError;

impl FromStr for WatchedObject {
    type Err = WatchedObjectError;

    fn from_str(text: &str) -> Result<Self, WatchedObjectError> {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().ok_or(WatchedObjectError);
        let length: u64 = word()?.parse().map_err(|_| WatchedObjectError)?;
        let is_signed = match word()? {
            "signed" => true,
            "unsigned" => false,
            _ => return Err(WatchedObjectError),
        };
        let expression = word()?;
        if length == 0 || expression.is_empty() {
            return Err(WatchedObjectError);
        }
        Ok(Self {
            length,
            is_signed,
            expression: expression.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::WatchedObject;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for text in ["4 signed table.count", "8 unsigned *(char **) 0x4040"] {
            let read: WatchedObject = text.parse().expect("a watched object");
            assert_eq!(read.to_string(), text);
        }
        for text in [
            "",
            "4",
            "4 signed",
            "4 signed ",
            "0 signed x",
            "4 maybe x",
            "x signed y",
        ] {
            assert!(text.parse::<WatchedObject>().is_err(), "{text}");
        }
    }
}
