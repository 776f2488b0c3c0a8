//! Where GDB stops reading a status line, and refuses the whole file.
//!
//! GDB 13 does not split the line at its semicolons. It reads a field's value as far as it understands it, and skips any one byte.
//! It takes the rest up to the next colon for the name of the next field. So an invalid number has no effect before other fields, and
//! in the last field it ends the reading.

/// How GDB reads the value of a field.
enum Value {
    /// Reads a number.
    Number,
    /// Reads a text, if there is one before the next colon of the field, and a number.
    TextAndNumber,
    /// Reads a text, which ends at the next colon, and a number.
    NeededTextAndNumber,
    /// Reads a text, which ends at the semicolon.
    Text,
}

/// In the order of GDB's comparisons. GDB takes the beginning of a name for the name.
const FIELDS: [(&str, Value); 16] = [
    ("tfull", Value::Number),
    ("tnotrun", Value::Number),
    ("tpasscount", Value::Number),
    ("tdisconnected", Value::Number),
    ("tstop", Value::TextAndNumber),
    ("terror", Value::NeededTextAndNumber),
    ("tframes", Value::Number),
    ("tcreated", Value::Number),
    ("tfree", Value::Number),
    ("tsize", Value::Number),
    ("circular", Value::Number),
    ("disconn", Value::Number),
    ("starttime", Value::Number),
    ("stoptime", Value::Number),
    ("username", Value::Text),
    ("notes", Value::Text),
];

/// The fields at which GDB gives up, were each of them the first one.
pub(super) fn refused_fields(line: &str) -> Vec<&str> {
    let bytes = line.as_bytes();
    let mut refused = Vec::new();
    let mut at = 1;
    while at < bytes.len() {
        // One byte is skipped: the semicolon, where all is well.
        at += 1;
        if let Some(next) = end_of_field(bytes, at) {
            at = next;
            continue;
        }
        let start = memchr::memrchr(b';', &bytes[..at]).map_or(0, |semicolon| semicolon + 1);
        let end = find(bytes, start, b';').unwrap_or(bytes.len());
        refused.extend(line.get(start..end));
        at = end.max(at);
    }
    refused
}

/// Where GDB stops in the field that it finds here; none where it gives up.
fn end_of_field(bytes: &[u8], start: usize) -> Option<usize> {
    let colon = find(bytes, start, b':')?;
    let semicolon = find(bytes, start, b';').unwrap_or(bytes.len());
    let (name, value) = (&bytes[start..colon], colon + 1);
    let known = FIELDS
        .iter()
        .find(|(known, _)| known.as_bytes().starts_with(name));
    Some(match known.map(|(_, value)| value) {
        Some(Value::Number) => end_of_number(bytes, value),
        Some(Value::TextAndNumber) => match find(bytes, value, b':') {
            Some(end) if end <= semicolon => {
                text(bytes, value, end)?;
                end_of_number(bytes, end + 1)
            }
            // The first digit is not looked at.
            _ if value < bytes.len() => end_of_number(bytes, value + 1),
            _ => return None,
        },
        Some(Value::NeededTextAndNumber) => {
            let end = find(bytes, value, b':')?;
            text(bytes, value, end)?;
            end_of_number(bytes, end + 1)
        }
        Some(Value::Text) => {
            text(bytes, value, semicolon)?;
            semicolon
        }
        None => find(bytes, value, b';').unwrap_or(bytes.len()),
    })
}

fn find(bytes: &[u8], start: usize, byte: u8) -> Option<usize> {
    memchr::memchr(byte, bytes.get(start..)?).map(|at| start + at)
}

fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let digits = bytes.get(start..).unwrap_or_default().iter();
    start + digits.take_while(|byte| byte.is_ascii_hexdigit()).count()
}

/// `None` where a pair contains no digit. A single last digit is skipped.
fn text(bytes: &[u8], start: usize, end: usize) -> Option<()> {
    let digits = bytes.get(start..end).unwrap_or_default();
    let mut pairs = digits.chunks_exact(2).flatten();
    pairs.all(u8::is_ascii_hexdigit).then_some(())
}

#[cfg(test)]
mod tests {
    use super::refused_fields;

    #[test]
    fn every_field_is_named() {
        assert_eq!(refused_fields("0;tstop::0;tframes:1"), [""; 0]);
        assert_eq!(
            refused_fields("0;tstop:zz:0;tframes:1;username:zz;foo"),
            ["tstop:zz:0", "username:zz", "foo"]
        );
        assert_eq!(
            refused_fields("0;terror:0;tframes:zz"),
            ["terror:0", "tframes:zz"]
        );
        assert_eq!(refused_fields("0;"), [""]);
        assert_eq!(refused_fields("0é:"), [""; 0]);
    }
}
