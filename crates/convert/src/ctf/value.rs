//! Values of expressions as fields with types.

use std::fmt::Write as _;

use tracewire_expr::Datum;
use tracewire_model::ByteOrder;

use super::metadata::Names;

/// The most parts of a value with separate fields. A value with more is a text.
const MOST_PARTS: usize = 256;

/// How deep parts may be in each other.
const DEEPEST: usize = 16;

/// The type of a value's field.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ValueType {
    /// A string: of the program, a word, a number of more than 64 bits, or why there is no value.
    Text,
    Boolean,
    Signed,
    Unsigned,
    Address,
    Float,
    Structure(Vec<(String, ValueType)>),
    /// Elements of one type.
    List(Box<ValueType>),
}

impl ValueType {
    /// The type of a value. One that has too many parts, or elements that differ in their types, is a text.
    pub(super) fn of(datum: &Datum) -> Self {
        let found = Self::part(datum, DEEPEST);
        match found.parts() > MOST_PARTS {
            true => Self::Text,
            false => found,
        }
    }

    fn part(datum: &Datum, depth: usize) -> Self {
        match datum {
            Datum::Boolean(_) => Self::Boolean,
            Datum::Integer(value) if i64::try_from(*value).is_ok() => Self::Signed,
            Datum::Integer(value) if u64::try_from(*value).is_ok() => Self::Unsigned,
            Datum::Float(_) => Self::Float,
            Datum::Address(_) => Self::Address,
            Datum::Structure(parts) if depth > 0 => Self::Structure(
                parts
                    .iter()
                    .map(|(name, part)| (name.clone(), Self::part(part, depth - 1)))
                    .collect(),
            ),
            Datum::List { items, .. } if depth > 0 => {
                let types = items.iter().map(|item| Self::part(item, depth - 1));
                Self::elements(types)
            }
            Datum::Map { entries, .. } if depth > 1 => {
                let types = entries.iter().map(|(key, value)| {
                    Self::Structure(vec![
                        ("key".to_owned(), Self::part(key, depth - 2)),
                        ("value".to_owned(), Self::part(value, depth - 2)),
                    ])
                });
                Self::elements(types)
            }
            _ => Self::Text,
        }
    }

    fn elements(mut types: impl Iterator<Item = Self>) -> Self {
        let first = types.next().unwrap_or(Self::Text);
        match types.all(|other| other == first) {
            true => Self::List(Box::new(first)),
            false => Self::Text,
        }
    }

    /// How many fields it is, itself included.
    pub(super) fn parts(&self) -> usize {
        1 + match self {
            Self::Structure(parts) => parts.iter().map(|(_, part)| part.parts()).sum(),
            Self::List(element) => element.parts(),
            _ => 0,
        }
    }

    /// Adds the field's declaration, indented by its depth in tabs.
    pub(super) fn declare(&self, text: &mut String, name: &str, depth: usize) -> std::fmt::Result {
        let tabs = "\t".repeat(depth);
        match self {
            Self::Text => writeln!(text, "{tabs}string {{ encoding = UTF8; }} {name};"),
            Self::Boolean => writeln!(text, "{tabs}uint8_t {name};"),
            Self::Signed => writeln!(text, "{tabs}int64_t {name};"),
            Self::Unsigned => writeln!(text, "{tabs}uint64_t {name};"),
            Self::Address => writeln!(text, "{tabs}hex64_t {name};"),
            Self::Float => writeln!(
                text,
                "{tabs}floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} {name};"
            ),
            Self::Structure(parts) => {
                writeln!(text, "{tabs}struct {{")?;
                let mut names = Names::default();
                for (part_name, part) in parts {
                    part.declare(text, &names.field(part_name), depth + 1)?;
                }
                writeln!(text, "{tabs}}} {name};")
            }
            Self::List(element) => {
                writeln!(text, "{tabs}struct {{\n{tabs}\tuint32_t _length;")?;
                element.declare(text, "_items[_length]", depth + 1)?;
                writeln!(text, "{tabs}}} {name};")
            }
        }
    }

    /// Adds a value of this type, or as a text where it is of another one.
    pub(super) fn encode(&self, datum: &Datum, order: ByteOrder, out: &mut Vec<u8>) {
        match (self, datum) {
            (Self::Boolean, Datum::Boolean(value)) => out.push(u8::from(*value)),
            (Self::Signed, Datum::Integer(value)) => {
                debug_assert!(i64::try_from(*value).is_ok(), "its type was chosen by it");
                out.extend(order.u64_bytes(*value as u64));
            }
            (Self::Unsigned, Datum::Integer(value)) => {
                debug_assert!(u64::try_from(*value).is_ok(), "its type was chosen by it");
                out.extend(order.u64_bytes(*value as u64));
            }
            (Self::Address, Datum::Address(value)) => out.extend(order.u64_bytes(*value)),
            (Self::Float, Datum::Float(value)) => out.extend(order.u64_bytes(value.to_bits())),
            (Self::Structure(types), Datum::Structure(parts)) => {
                for ((_, part_type), (_, part)) in types.iter().zip(parts) {
                    part_type.encode(part, order, out);
                }
            }
            (Self::List(element), Datum::List { items, .. }) => {
                out.extend(order.u32_bytes(items.len() as u32));
                for item in items {
                    element.encode(item, order, out);
                }
            }
            (Self::List(element), Datum::Map { entries, .. }) => {
                out.extend(order.u32_bytes(entries.len() as u32));
                let Self::Structure(types) = &**element else {
                    debug_assert!(entries.is_empty(), "an entry has two parts");
                    return;
                };
                for (key, value) in entries {
                    for ((_, part_type), part) in types.iter().zip([key, value]) {
                        part_type.encode(part, order, out);
                    }
                }
            }
            (kind, _) => {
                debug_assert!(*kind == Self::Text, "its type was chosen by it");
                let text = match datum {
                    Datum::Missing(reason) if !reason.is_empty() => reason.into(),
                    other => other.text(),
                };
                // A zero ends a string.
                out.extend(text.replace('\0', "\u{fffd}").into_bytes());
                out.push(0);
            }
        }
    }
}
