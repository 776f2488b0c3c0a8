//! What served the tracepoints: `served` lines of our own in the description.
//!
//! The same tracepoint costs a hundred nanoseconds as a jump and microseconds as a trap, and a slowed program may behave in another way.
//! GDB's format has no field for that. `docs/formats/trace-file-extensions.md` has the form.

use crate::description::MAX_LINE;
use tracewire_model::hex::Hex;
use tracewire_model::text::{Expected, Scanner, TextError};
use tracewire_model::{Address, Served, TracepointNumber};

/// The longest mechanism or reason, in bytes: a line has room for both, as digits, and for tracepoints. What is longer is
/// cut, since every tracepoint has its own copy.
const LONGEST_TEXT: usize = MAX_LINE / 8;

/// The tracepoints that a line is about.
pub type Keys = Vec<(TracepointNumber, Address)>;

/// Reads what follows `served `.
///
/// # Errors
/// When it has another form.
pub fn parse(text: &[u8]) -> Result<(Served, Keys), TextError> {
    scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
}

fn scan(scanner: &mut Scanner<'_>) -> Result<(Served, Keys), Expected> {
    let mut words = || {
        let digits = Scanner::new(scanner.rest()).digits().len();
        let bytes = scanner.hex_bytes(digits as u64 / 2)?;
        scanner.colon()?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(cut(&text).to_owned())
    };
    let (mechanism, reason) = (words()?, words()?);
    let mut keys = Vec::new();
    loop {
        let number = scanner.hex_up_to(i32::MAX as u64, "the number of a tracepoint")?;
        scanner.colon()?;
        keys.push((TracepointNumber(number as i32), Address(scanner.hex()?)));
        if !scanner.take(",") {
            break;
        }
    }
    scanner.end("the end")?;
    let served = Served {
        mechanism,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
    };
    Ok((served, keys))
}

/// The lines that tell what served these tracepoints, each of at most `limit` bytes.
pub(crate) fn lines(
    served: &Served,
    keys: &[(TracepointNumber, Address)],
    limit: usize,
) -> Vec<String> {
    let head = format!(
        "served {}:{}:",
        Hex(cut(&served.mechanism).as_bytes()),
        Hex(cut(served.reason.as_deref().unwrap_or_default()).as_bytes())
    );
    let mut lines: Vec<String> = Vec::new();
    for (number, address) in keys {
        let key = format!("{:x}:{:x}", number.0, address.0);
        match lines.last_mut() {
            Some(line) if line.len() + 1 + key.len() <= limit => {
                line.push(',');
                line.push_str(&key);
            }
            _ => lines.push(format!("{head}{key}")),
        }
    }
    lines
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT))
        .unwrap_or_default()
}
