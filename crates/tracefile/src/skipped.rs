//! Hits that made no frame because the run had limits: `skipped` lines of our own in the description.
//!
//! GDB's format has no field for that. `docs/formats/trace-file-extensions.md` has the form.

use tracewire_model::text::TextError;

use crate::by_location::{self, Key};

/// A location of a tracepoint, and how many of its hits were skipped.
pub type SkippedHits = (Key, u64);

/// Reads what follows `skipped `.
///
/// # Errors
/// When it has another form.
pub fn parse(text: &[u8]) -> Result<Vec<SkippedHits>, TextError> {
    by_location::parse(text, |scanner| scanner.hex())
}

/// The lines that tell how many hits were skipped, each of at most `limit` bytes.
pub(crate) fn lines(skipped: &[SkippedHits], limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for ((number, address), hits) in skipped {
        let one = format!("{:x}:{:x}:{hits:x}", number.0, address.0);
        match lines.last_mut() {
            Some(line) if line.len() + 1 + one.len() <= limit => {
                line.push(',');
                line.push_str(&one);
            }
            _ => lines.push(format!("skipped {one}")),
        }
    }
    lines
}
