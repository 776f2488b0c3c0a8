//! What lines of our own say of the locations of tracepoints: `NUMBER:ADDRESS:VALUE,…`.

use tracewire_model::text::{Expected, Scanner, TextError};
use tracewire_model::{Address, TracepointNumber};

/// A location of a tracepoint.
pub(crate) type Key = (TracepointNumber, Address);

/// Reads a list of locations, each with what `value` reads.
///
/// # Errors
/// When the text has another form.
pub(crate) fn parse<T>(
    text: &[u8],
    value: impl Fn(&mut Scanner<'_>) -> Result<T, Expected>,
) -> Result<Vec<(Key, T)>, TextError> {
    scan(&mut Scanner::new(text), value).map_err(|expected| expected.in_text(text))
}

fn scan<T>(
    scanner: &mut Scanner<'_>,
    value: impl Fn(&mut Scanner<'_>) -> Result<T, Expected>,
) -> Result<Vec<(Key, T)>, Expected> {
    let mut all = Vec::new();
    loop {
        let number = scanner.hex_up_to(i32::MAX as u64, "the number of a tracepoint")?;
        scanner.colon()?;
        let key = (TracepointNumber(number as i32), Address(scanner.hex()?));
        scanner.colon()?;
        all.push((key, value(scanner)?));
        if !scanner.take(",") {
            break;
        }
    }
    scanner.end("the end")?;
    Ok(all)
}
