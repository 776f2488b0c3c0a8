//! Characters and strings.

use super::Printer;
use crate::scalar::strip;
use crate::value::contents::{number, order};
use crate::value::datum::Datum;
use crate::value::state::read_memory;
use tracewire_debuginfo::{BaseEncoding, Type, TypeId};

/// One character of a string, as far as it could be decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Unit {
    Character(char),
    /// Bytes that are no character.
    Invalid,
    /// The string ends in the middle of a character.
    Incomplete,
}

/// A run of equal characters.
struct Run<'a> {
    unit: Unit,
    /// The bytes of one of them.
    bytes: &'a [u8],
    count: u64,
}

/// How the bytes of a string are to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charset {
    Ascii,
    Utf8,
    Utf16,
    Utf32,
}

impl Printer<'_> {
    /// Whether elements of the type are shown as a string.
    pub(super) fn is_textual(&self, type_id: TypeId) -> bool {
        if self.wide_prefix(type_id).is_some() {
            return true;
        }
        match &*strip(self.symbols, type_id).1 {
            Type::Base {
                encoding: BaseEncoding::Utf,
                ..
            } => true,
            // The registers' `int8_t` is not for text.
            Type::Base {
                size: 1,
                name,
                encoding,
            } => {
                !matches!(name.as_str(), "int8_t" | "uint8_t")
                    && !matches!(
                        encoding,
                        BaseEncoding::Boolean | BaseEncoding::Float | BaseEncoding::Unknown
                    )
            }
            _ => false,
        }
    }

    /// `L`, `u` or `U` for characters of more than one byte.
    fn wide_prefix(&self, mut type_id: TypeId) -> Option<&'static str> {
        for _ in 0..16 {
            let found = self.symbols.type_of(type_id);
            let (name, target) = match &*found {
                Type::Qualified { target, .. } => (None, Some(*target)),
                Type::Typedef { name, target } => (Some(name.as_str()), Some(*target)),
                Type::Base { name, .. } => (Some(name.as_str()), None),
                _ => return None,
            };
            match name {
                Some("wchar_t") => return Some("L"),
                Some("char16_t") => return Some("u"),
                Some("char32_t") => return Some("U"),
                _ => type_id = target?,
            }
        }
        None
    }

    /// A character in single quotes.
    pub(super) fn character(&mut self, value: i128, type_id: TypeId) {
        if self.language == tracewire_debuginfo::Language::Rust {
            self.rust_character(value);
            return;
        }
        let size = self.symbols.size_of(type_id).unwrap_or(1).clamp(1, 4);
        let width = size as usize;
        let bytes = crate::value::contents::pack(value, size, order(self.symbols));
        let runs = self.decode(&bytes, width, None);
        let mut text = String::new();
        let mut escape = false;
        for run in &runs {
            self.write(&mut text, &run.unit, run.bytes, width, '\'', &mut escape);
        }
        let prefix = self.wide_prefix(type_id).unwrap_or("");
        self.put(&format!("{prefix}'{text}'"));
    }

    fn rust_character(&mut self, value: i128) {
        let text = match u32::try_from(value).unwrap_or(0) {
            0x5c => "\\\\".to_owned(),
            0x27 => "\\'".to_owned(),
            10 => "\\n".to_owned(),
            13 => "\\r".to_owned(),
            9 => "\\t".to_owned(),
            0 => "\\0".to_owned(),
            code @ 32..=126 => char::from_u32(code).unwrap_or('?').to_string(),
            code @ ..=255 => format!("\\x{code:02x}"),
            code => format!("\\u{{{code:06x}}}"),
        };
        self.put(&format!("'{text}'"));
    }

    /// An array of characters, as a string.
    pub(super) fn characters(&mut self, bytes: &[u8], element: TypeId, more: bool) {
        let width = self.symbols.size_of(element).unwrap_or(1).clamp(1, 4) as usize;
        let prefix = self.wide_prefix(element).unwrap_or("");
        self.put(prefix);
        let mut length = bytes.len() / width * width;
        // The NUL at the end is not shown, unless more follows.
        let last = length
            .checked_sub(width)
            .and_then(|start| bytes.get(start..length));
        if !more && last.is_some_and(|last| last.iter().all(|byte| *byte == 0)) {
            length -= width;
        }
        let bytes = bytes.get(..length).unwrap_or(&[]);
        self.record_string(bytes, width, more);
        self.quoted(bytes, width, None, more);
    }

    /// The string at an address: to its NUL, or of `length` characters.
    pub(super) fn string_at(&mut self, address: u64, length: Option<u64>, element: TypeId) {
        let width = self.symbols.size_of(element).unwrap_or(1).clamp(1, 4) as usize;
        let most = length
            .unwrap_or(u64::MAX)
            .min(self.options.elements)
            .min(65_536);
        let most = usize::try_from(most).unwrap_or(0);
        let (mut bytes, known) = read_memory(self.symbols, &self.state, address, most * width);
        let good = known.iter().position(|known| !known).unwrap_or(known.len()) / width * width;
        let failed = good < most * width;
        bytes.truncate(good);
        let zero = |unit: &[u8]| unit.iter().all(|byte| *byte == 0);
        let nul = bytes
            .chunks(width)
            .position(zero)
            .filter(|_| length.is_none());
        if let Some(nul) = nul {
            bytes.truncate((nul + 1) * width);
        }
        let failed = failed && nul.is_none();
        let more = match length {
            None if nul.is_none() && !failed => {
                let after = address.wrapping_add(bytes.len() as u64);
                let (next, known) = read_memory(self.symbols, &self.state, after, width);
                known.iter().all(|known| *known) && !zero(&next)
            }
            None => false,
            Some(length) => failed || length > (bytes.len() / width) as u64,
        };
        if !failed || !bytes.is_empty() {
            match length {
                None => self.characters(&bytes, element, more),
                Some(_) => {
                    self.record_string(&bytes, width, more);
                    self.quoted(&bytes, width, Some(Charset::Utf8), more);
                }
            }
        }
        if failed {
            let missing = address.wrapping_add(bytes.len() as u64);
            let error = format!("<error: Cannot access memory at address {missing:#x}>");
            if bytes.is_empty() {
                self.put_missing(&error);
            } else {
                self.record_string(&bytes, width, true);
                self.put(&error);
            }
        }
    }

    /// A string as data.
    pub(super) fn record_string(&mut self, bytes: &[u8], width: usize, is_cut: bool) {
        if self.recorder.is_some() {
            let datum = self.string_datum(bytes, width, is_cut);
            self.record(|recorder| recorder.set(datum));
        }
    }

    /// A string as data, without the NULs at its end.
    pub(super) fn string_datum(&self, bytes: &[u8], width: usize, is_cut: bool) -> Datum {
        let order = order(self.symbols);
        let units = || {
            bytes
                .chunks(width)
                .map(|unit| number(unit, false, order).unwrap_or(0))
        };
        let mut bytes = match width {
            1 => bytes.to_vec(),
            2 => {
                let units: Vec<u16> = units().map(|unit| unit as u16).collect();
                String::from_utf16_lossy(&units).into_bytes()
            }
            _ => units()
                .map(|unit| char::from_u32(unit as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect::<String>()
                .into_bytes(),
        };
        let length = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        bytes.truncate(length);
        if is_cut
            && let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            // The cut is within a character.
            bytes.truncate(error.valid_up_to());
        }
        Datum::String { bytes, is_cut }
    }

    /// A byte string of so many bytes.
    pub(super) fn byte_string_at(&mut self, address: u64, length: u64, element: TypeId) {
        self.put("b");
        self.string_at(address, Some(length), element);
    }

    /// Splits a string into runs of equal characters.
    fn decode<'b>(&self, bytes: &'b [u8], width: usize, charset: Option<Charset>) -> Vec<Run<'b>> {
        let charset = charset.unwrap_or(match width {
            1 if self.options.utf8 => Charset::Utf8,
            1 => Charset::Ascii,
            2 => Charset::Utf16,
            _ => Charset::Utf32,
        });
        let order = order(self.symbols);
        let unit = |bytes: &[u8]| number(bytes, false, order).unwrap_or(0) as u32;
        let mut runs: Vec<Run<'b>> = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (decoded, length) = match charset {
                Charset::Ascii => match rest.first() {
                    Some(byte) if byte.is_ascii() => (Unit::Character(char::from(*byte)), 1),
                    _ => (Unit::Invalid, 1),
                },
                Charset::Utf8 => decode_utf8(rest),
                Charset::Utf32 => match rest.get(..4) {
                    None => (Unit::Incomplete, rest.len()),
                    Some(four) => (
                        char::from_u32(unit(four)).map_or(Unit::Invalid, Unit::Character),
                        4,
                    ),
                },
                Charset::Utf16 => match (rest.get(..2), rest.get(2..4)) {
                    (None, _) => (Unit::Incomplete, rest.len()),
                    (Some(high), low) => {
                        let units = [unit(high) as u16, low.map_or(0, |low| unit(low) as u16)];
                        let first = char::decode_utf16(units).next();
                        match first {
                            Some(Ok(c)) => (Unit::Character(c), c.len_utf16() * 2),
                            _ => (Unit::Invalid, 2),
                        }
                    }
                },
            };
            let (taken, left) = rest.split_at(length.clamp(1, rest.len()));
            rest = left;
            match runs.last_mut() {
                Some(run) if run.unit == decoded && run.bytes == taken => run.count += 1,
                _ => runs.push(Run {
                    unit: decoded,
                    bytes: taken,
                    count: 1,
                }),
            }
        }
        runs
    }

    /// A string in double quotes, long runs written once, and cut after so many characters.
    fn quoted(&mut self, bytes: &[u8], width: usize, charset: Option<Charset>, more: bool) {
        if bytes.is_empty() {
            self.put(if more { "\"\"..." } else { "\"\"" });
            return;
        }
        let runs = self.decode(bytes, width, charset);
        let mut text = String::new();
        let mut inside = false;
        let mut escape = false;
        let mut shown = 0_u64;
        let mut finished = true;
        for (index, run) in runs.iter().enumerate() {
            if shown >= self.options.elements {
                finished = false;
                break;
            }
            shown = shown.saturating_add(run.count);
            let separator = if index > 0 { ", " } else { "" };
            if run.unit == Unit::Incomplete {
                text.push_str(if inside { "\"" } else { "" });
                text.push_str(separator);
                text.push_str("<incomplete sequence ");
                self.write(&mut text, &run.unit, run.bytes, width, '"', &mut escape);
                text.push('>');
                inside = false;
            } else if run.count > self.options.repeats {
                text.push_str(if inside { "\"" } else { "" });
                text.push_str(separator);
                text.push('\'');
                self.write(&mut text, &run.unit, run.bytes, width, '"', &mut escape);
                text.push_str(&format!("' <repeats {} times>", run.count));
                inside = false;
            } else {
                if !inside {
                    text.push_str(separator);
                    text.push('"');
                    inside = true;
                }
                for _ in 0..run.count {
                    self.write(&mut text, &run.unit, run.bytes, width, '"', &mut escape);
                }
            }
        }
        text.push_str(if inside { "\"" } else { "" });
        if more || !finished {
            text.push_str("...");
        }
        self.put(&text);
    }

    /// One character, escaped if necessary. `escape` is whether a hexadecimal escape is right before it: a digit would then seem
    /// to belong to that.
    fn write(
        &self,
        text: &mut String,
        unit: &Unit,
        bytes: &[u8],
        width: usize,
        quote: char,
        escape: &mut bool,
    ) {
        let escaped = std::mem::replace(escape, false);
        if let Unit::Character(c) = *unit {
            let named = match c {
                '\u{7}' => "\\a",
                '\u{8}' => "\\b",
                '\u{c}' => "\\f",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                '\u{b}' => "\\v",
                _ => "",
            };
            if !named.is_empty() {
                text.push_str(named);
                return;
            }
            if self.is_printable(c) && !(escaped && c.is_ascii_hexdigit()) {
                if c == quote || c == '\\' {
                    text.push('\\');
                }
                text.push(c);
                return;
            }
        }
        let order = order(self.symbols);
        for unit in bytes.chunks(width) {
            let value = number(unit, false, order).unwrap_or(0);
            if unit.len() == width && value > 0o777 {
                text.push_str(&format!("\\x{value:x}"));
                *escape = true;
            } else {
                text.push_str(&format!("\\{value:03o}"));
                *escape = false;
            }
        }
    }

    fn is_printable(&self, c: char) -> bool {
        if c.is_ascii() {
            return !c.is_ascii_control();
        }
        // A terminal can show what Rust does not escape in a debug text.
        self.options.utf8 && (c.escape_debug().count() == 1 || c.is_alphanumeric())
    }
}

/// The first character of some bytes, and how many bytes it takes.
fn decode_utf8(bytes: &[u8]) -> (Unit, usize) {
    let window = bytes.get(..bytes.len().min(4)).unwrap_or(bytes);
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => {
            if error.valid_up_to() == 0 {
                return match error.error_len() {
                    // The string ends within a character.
                    None if bytes.len() < 4 => (Unit::Incomplete, bytes.len()),
                    _ => (Unit::Invalid, 1),
                };
            }
            let valid = window.get(..error.valid_up_to()).unwrap_or(&[]);
            std::str::from_utf8(valid).unwrap_or("")
        }
    };
    match valid.chars().next() {
        Some(c) => (Unit::Character(c), c.len_utf8()),
        None => (Unit::Invalid, 1),
    }
}
