//! Notes about values for formats that cannot hold them: why one is missing, that it is cut, bytes that are no text.

use tracewire_expr::Datum;
use tracewire_model::hex;

use crate::event::EventValue;

/// The most notes of one event.
const MOST: usize = 1000;

/// The notes of an event's values. A path is `job.items[2].key`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notes {
    /// The paths of values that are missing, each with the reason as `show` has it.
    pub(crate) missing: Vec<(String, String)>,
    /// The paths of strings and containers that have more than is here.
    pub(crate) cut: Vec<String>,
    /// The paths of strings that are not UTF-8, each with its bytes in hexadecimal.
    pub(crate) bytes: Vec<(String, String)>,
}

impl Notes {
    pub(crate) fn of(values: &[EventValue]) -> Self {
        let mut notes = Self::default();
        for value in values {
            notes.add(&value.name, &value.datum);
        }
        notes
    }

    fn add(&mut self, path: &str, datum: &Datum) {
        if self.missing.len() + self.cut.len() + self.bytes.len() >= MOST {
            return;
        }
        match datum {
            // An optional value that is none has no reason.
            Datum::Missing(reason) if reason.is_empty() => {}
            Datum::Missing(reason) => self.missing.push((path.to_owned(), reason.clone())),
            Datum::String { bytes, is_cut } => {
                if *is_cut {
                    self.cut.push(path.to_owned());
                }
                if std::str::from_utf8(bytes).is_err() {
                    self.bytes.push((path.to_owned(), hex::text(bytes)));
                }
            }
            Datum::Structure(parts) => {
                for (name, part) in parts {
                    self.add(&format!("{path}.{name}"), part);
                }
            }
            Datum::List { items, is_cut } => {
                if *is_cut {
                    self.cut.push(path.to_owned());
                }
                for (index, item) in items.iter().enumerate() {
                    self.add(&format!("{path}[{index}]"), item);
                }
            }
            Datum::Map { entries, is_cut } => {
                if *is_cut {
                    self.cut.push(path.to_owned());
                }
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.add(&format!("{path}[{index}].key"), key);
                    self.add(&format!("{path}[{index}].value"), value);
                }
            }
            Datum::Boolean(_)
            | Datum::Integer(_)
            | Datum::LargeInteger(_)
            | Datum::Float(_)
            | Datum::Text(_)
            | Datum::Address(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_where_they_are_of() {
        let string = |bytes: &[u8], is_cut| Datum::String {
            bytes: bytes.to_vec(),
            is_cut,
        };
        let list = Datum::List {
            items: vec![
                Datum::Missing("<unavailable>".to_owned()),
                string(b"\xff", true),
            ],
            is_cut: true,
        };
        let map = Datum::Map {
            entries: vec![(Datum::Integer(1), Datum::Missing("<redacted>".to_owned()))],
            is_cut: false,
        };
        let datum = Datum::Structure(vec![("l".to_owned(), list), ("m".to_owned(), map)]);
        let value = EventValue {
            name: "s".to_owned(),
            datum,
            text: String::new(),
        };
        let text = |text: &str| text.to_owned();
        assert_eq!(
            Notes::of(&[value]),
            Notes {
                missing: vec![
                    (text("s.l[0]"), text("<unavailable>")),
                    (text("s.m[0].value"), text("<redacted>")),
                ],
                cut: vec![text("s.l"), text("s.l[1]")],
                bytes: vec![(text("s.l[1]"), text("ff"))],
            }
        );
    }
}
