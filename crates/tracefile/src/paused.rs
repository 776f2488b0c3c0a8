//! When tracepoints were out of the program because the run had a budget: `paused` lines of our own in the description.
//!
//! GDB's format has no field for that. `docs/formats/trace-file-extensions.md` has the form.

use tracewire_model::Pause;
use tracewire_model::text::TextError;

use crate::by_location::{self, Key};

/// A location of a tracepoint, and its pauses.
pub type Pauses = (Key, Vec<Pause>);

/// Reads what follows `paused `.
///
/// # Errors
/// When it has another form.
pub fn parse(text: &[u8]) -> Result<Vec<Pauses>, TextError> {
    by_location::parse(text, |scanner| {
        let mut pauses = Vec::new();
        loop {
            let from = scanner.hex()?;
            scanner.colon()?;
            let length = scanner.hex()?;
            pauses.push(Pause { from, length });
            if !scanner.take(".") {
                return Ok(pauses);
            }
        }
    })
}

/// The lines that describe pauses, each of at most `limit` bytes.
pub(crate) fn lines<'p>(
    pauses: impl IntoIterator<Item = (Key, &'p [Pause])>,
    limit: usize,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for ((number, address), pauses) in pauses {
        let key = format!("{:x}:{:x}:", number.0, address.0);
        let mut is_first = true;
        for Pause { from, length } in pauses {
            let one = format!("{from:x}:{length:x}");
            match lines.last_mut() {
                Some(line) if !is_first && line.len() + 1 + one.len() <= limit => {
                    line.push('.');
                    line.push_str(&one);
                }
                Some(line) if is_first && line.len() + 1 + key.len() + one.len() <= limit => {
                    line.push(',');
                    line.push_str(&key);
                    line.push_str(&one);
                }
                _ => lines.push(format!("paused {key}{one}")),
            }
            is_first = false;
        }
    }
    lines
}
