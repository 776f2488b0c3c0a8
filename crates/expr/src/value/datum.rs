//! Values as data: numbers, texts, structures and lists, for programs that compute with them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A value as data. It is made while the value is printed, so both say the same.
#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    /// There is no value: why, as the text has it.
    Missing(String),
    /// A truth value.
    Boolean(bool),
    /// An integer or a character.
    Integer(i128),
    /// An integer over the largest of 128 bits with a sign.
    LargeInteger(u128),
    /// A floating-point number of at most 64 bits.
    Float(f64),
    /// A word or another short text: an enumerator, a member pointer, an 80-bit number.
    Text(String),
    /// A string of the program. Its bytes need not be UTF-8.
    String {
        /// The string in UTF-8, where the program has it in valid characters.
        bytes: Vec<u8>,
        /// Whether the string is longer.
        is_cut: bool,
    },
    /// The value of a pointer.
    Address(u64),
    /// Parts with names.
    Structure(Vec<(String, Datum)>),
    /// Elements.
    List {
        /// The elements.
        items: Vec<Datum>,
        /// Whether there are more.
        is_cut: bool,
    },
    /// Keys and values.
    Map {
        /// The entries.
        entries: Vec<(Datum, Datum)>,
        /// Whether there are more.
        is_cut: bool,
    },
}

/// The kind of data of a type's values.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Shape {
    /// [`Datum::Boolean`].
    Boolean,
    /// [`Datum::Integer`] that 64 bits with a sign hold.
    Integer,
    /// [`Datum::Integer`] of 64 bits without a sign.
    Unsigned64,
    /// [`Datum::Integer`] or [`Datum::LargeInteger`] of 128 bits.
    Integer128,
    /// [`Datum::Float`] of 32 bits.
    Float32,
    /// [`Datum::Float`].
    Float64,
    /// [`Datum::Text`], and everything else.
    Text,
    /// [`Datum::String`].
    String,
    /// [`Datum::Address`].
    Address,
    /// [`Datum::Structure`]; at least one part.
    Structure(Vec<(String, Shape)>),
    /// [`Datum::List`].
    List(Box<Shape>),
    /// [`Datum::Map`].
    Map(Box<Shape>, Box<Shape>),
}

impl Datum {
    /// The datum as text, as JSON where it has parts. A value that is missing is `null`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::String { bytes, .. } => String::from_utf8_lossy(bytes),
            _ => {
                let mut out = String::new();
                self.write_json(&mut out);
                out.into()
            }
        }
    }

    fn write_json(&self, out: &mut String) {
        let quoted = |out: &mut String, text: &str| {
            out.push('"');
            for c in text.chars() {
                match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    c if c < ' ' => {
                        // Writing to a string does not fail.
                        let _ = write!(out, "\\u{:04x}", u32::from(c));
                    }
                    c => out.push(c),
                }
            }
            out.push('"');
        };
        match self {
            Self::Missing(_) => out.push_str("null"),
            Self::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Integer(value) => out.push_str(&value.to_string()),
            Self::LargeInteger(value) => out.push_str(&value.to_string()),
            Self::Float(value) if value.is_finite() => out.push_str(&format!("{value:?}")),
            Self::Float(value) => quoted(out, &value.to_string()),
            Self::Text(text) => quoted(out, text),
            Self::String { bytes, .. } => quoted(out, &String::from_utf8_lossy(bytes)),
            Self::Address(address) => quoted(out, &format!("{address:#x}")),
            Self::Structure(parts) => {
                out.push('{');
                for (index, (name, part)) in parts.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    quoted(out, name);
                    out.push_str(": ");
                    part.write_json(out);
                }
                out.push('}');
            }
            Self::List { items, .. } => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    item.write_json(out);
                }
                out.push(']');
            }
            Self::Map { entries, .. } => {
                out.push('[');
                for (index, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if index > 0 { ", [" } else { "[" });
                    key.write_json(out);
                    out.push_str(", ");
                    value.write_json(out);
                    out.push(']');
                }
                out.push(']');
            }
        }
    }

    /// How many data it consists of, itself included.
    fn count(&self) -> usize {
        1 + match self {
            Self::Structure(parts) => parts.iter().map(|(_, part)| part.count()).sum(),
            Self::List { items, .. } => items.iter().map(Self::count).sum::<usize>(),
            Self::Map { entries, .. } => entries
                .iter()
                .map(|(key, value)| key.count() + value.count())
                .sum(),
            _ => 0,
        }
    }
}

/// The most data of one value that result from repeated equal elements.
const MOST_REPEATED: usize = 1 << 16;

/// The kind of a value with parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parts {
    Structure,
    List,
    Map,
}

/// Makes data of values while they are printed.
#[derive(Debug)]
pub(super) struct Recorder {
    /// The values that are being printed, the outermost first; the first of them is none, and has the whole as its part.
    open: Vec<Open>,
    repeats_left: usize,
}

/// A value that is being printed.
#[derive(Debug, Default)]
struct Open {
    parts: Option<Parts>,
    /// The name of the next part.
    name: Option<String>,
    children: Vec<(Option<String>, Datum)>,
    datum: Option<Datum>,
    is_cut: bool,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            open: vec![Open::default()],
            repeats_left: MOST_REPEATED,
        }
    }

    fn last(&mut self) -> &mut Open {
        if self.open.is_empty() {
            self.open.push(Open::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// A value begins.
    pub(super) fn begin(&mut self) {
        self.open.push(Open::default());
    }

    /// A value ends, which was printed as `text`.
    pub(super) fn end(&mut self, text: &str) {
        let Some(done) = self.open.pop() else { return };
        let datum = done.datum(text);
        let parent = self.last();
        let name = parent.name.take();
        parent.children.push((name, datum));
    }

    /// Sets the datum of the value, instead of its parts.
    pub(super) fn set(&mut self, datum: Datum) {
        self.last().datum = Some(datum);
    }

    /// The value has parts.
    pub(super) fn parts(&mut self, parts: Parts) {
        self.last().parts = Some(parts);
    }

    /// The name of the part that comes next.
    pub(super) fn name(&mut self, name: &str) {
        self.last().name = Some(name.to_owned());
    }

    /// There are more parts than are printed.
    pub(super) fn cut(&mut self) {
        self.last().is_cut = true;
    }

    /// The last part is there so many times.
    pub(super) fn repeat(&mut self, count: u64) {
        let left = self.repeats_left;
        let last = self.last();
        let Some((name, datum)) = last.children.last().cloned() else {
            return;
        };
        let fit = left / datum.count();
        let more = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
        last.is_cut |= more > fit;
        let more = more.min(fit);
        last.children
            .extend(std::iter::repeat_n((name, datum.clone()), more));
        self.repeats_left = left - more * datum.count();
    }

    /// The value is its only part.
    pub(super) fn pass_part(&mut self) {
        let last = self.last();
        if last.children.len() == 1 {
            last.parts = None;
        }
    }

    /// Drops the data of the value that is being printed.
    pub(super) fn take_back(&mut self) {
        *self.last() = Open::default();
    }

    /// The whole, which was printed as `text`.
    pub(super) fn finish(mut self, text: &str) -> Datum {
        std::mem::take(self.last()).datum(text)
    }
}

impl Open {
    fn datum(self, text: &str) -> Datum {
        if let Some(datum) = self.datum {
            return datum;
        }
        let is_cut = self.is_cut;
        let mut children = self.children;
        match self.parts {
            Some(Parts::Structure) => Datum::Structure(
                (children.into_iter().zip(0..))
                    .map(|((name, datum), index)| (name.unwrap_or_else(|| unnamed(index)), datum))
                    .collect(),
            ),
            Some(Parts::List) => Datum::List {
                items: children.into_iter().map(|(_, datum)| datum).collect(),
                is_cut,
            },
            Some(Parts::Map) => {
                let mut entries = Vec::with_capacity(children.len() / 2);
                let mut children = children.into_iter().map(|(_, datum)| datum);
                while let (Some(key), Some(value)) = (children.next(), children.next()) {
                    entries.push((key, value));
                }
                Datum::Map { entries, is_cut }
            }
            // A value that only prints another value is that value.
            None if children.len() == 1 => children.remove(0).1,
            None => Datum::Text(text.to_owned()),
        }
    }
}

/// The name of a part that has none, by its number.
pub(super) fn unnamed(index: usize) -> String {
    format!("_{index}")
}
