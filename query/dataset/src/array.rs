//! Data to Arrow arrays.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
    ListArray, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use tracewire_expr::{Datum, Shape};

use crate::column::{MOST_DIGITS, data_type};
use crate::narrow::texts;

/// The longest note about one incomplete value, in bytes.
const LONGEST_NOTE: usize = 500;

/// The parts of values that a column's type cannot hold: a text for each row that needs one.
#[derive(Debug)]
pub(crate) struct Notes {
    /// How many rows there are.
    rows: usize,
    texts: BTreeMap<usize, String>,
}

impl Notes {
    const fn new(rows: usize) -> Self {
        Self {
            rows,
            texts: BTreeMap::new(),
        }
    }

    fn add(&mut self, row: usize, path: &str, text: &str) {
        debug_assert!(row < self.rows, "row {row} of {}", self.rows);
        let note = self.texts.entry(row).or_default();
        if note.len() > LONGEST_NOTE {
            return;
        }
        if !note.is_empty() {
            note.push_str("; ");
        }
        if !path.is_empty() {
            note.push_str(path);
            note.push_str(": ");
        }
        note.push_str(text);
    }

    pub(crate) fn into_array(self) -> ArrayRef {
        texts((0..self.rows).map(|row| self.texts.get(&row)))
    }
}

/// A value of a column, and the row that it is in.
type Cell<'d> = (usize, Option<&'d Datum>);

/// A column of this many rows; the notes, and the bytes of strings that are not UTF-8.
pub(crate) fn column(shape: &Shape, data: &[Option<&Datum>]) -> (ArrayRef, Notes) {
    let mut notes = Notes::new(data.len());
    let cells: Vec<Cell<'_>> = data.iter().copied().enumerate().collect();
    let array = array(shape, &cells, "", &mut notes);
    (array, notes)
}

/// The bytes of the strings that are not UTF-8.
pub(crate) fn invalid_strings(data: &[Option<&Datum>]) -> ArrayRef {
    let bytes = data.iter().map(|datum| match datum {
        Some(Datum::String { bytes, .. }) if std::str::from_utf8(bytes).is_err() => {
            Some(bytes.as_slice())
        }
        _ => None,
    });
    Arc::new(bytes.collect::<BinaryArray>())
}

/// Why there is no value, without the brackets that say in a text that there is none.
fn reason(why: &str) -> &str {
    why.strip_prefix('<')
        .and_then(|why| why.strip_suffix('>'))
        .unwrap_or(why)
}

fn array(shape: &Shape, cells: &[Cell<'_>], path: &str, notes: &mut Notes) -> ArrayRef {
    // A missing value gets a note here; all others are processed by their shape.
    let mut known = Vec::with_capacity(cells.len());
    for (row, datum) in cells {
        if let Some(Datum::Missing(why)) = datum {
            if !why.is_empty() {
                notes.add(*row, path, reason(why));
            }
            known.push((*row, None));
        } else {
            known.push((*row, *datum));
        }
    }
    let cells = known;
    let mut leaf = Leaf {
        cells: &cells,
        path,
        notes,
    };
    match shape {
        Shape::Boolean => Arc::new(
            leaf.values(|datum| match datum {
                Datum::Boolean(value) => Some(*value),
                _ => None,
            })
            .collect::<BooleanArray>(),
        ),
        Shape::Integer => Arc::new(
            leaf.values(|datum| match datum {
                Datum::Integer(value) => i64::try_from(*value).ok(),
                _ => None,
            })
            .collect::<Int64Array>(),
        ),
        Shape::Address => Arc::new(
            leaf.values(|datum| match datum {
                Datum::Address(value) => Some(value.cast_signed()),
                _ => None,
            })
            .collect::<Int64Array>(),
        ),
        Shape::Unsigned64 | Shape::Integer128 => {
            let most = 10_i128.pow(u32::from(MOST_DIGITS)) - 1;
            let values = leaf.values(|datum| match datum {
                Datum::Integer(value) => {
                    Some(*value).filter(|value| (-most..=most).contains(value))
                }
                _ => None,
            });
            let array: Decimal128Array = values.collect();
            Arc::new(array.with_data_type(data_type(shape)))
        }
        Shape::Float32 => Arc::new(
            leaf.values(|datum| match datum {
                // It was made from 32 bits.
                Datum::Float(value) => Some(*value as f32),
                _ => None,
            })
            .collect::<Float32Array>(),
        ),
        Shape::Float64 => Arc::new(
            leaf.values(|datum| match datum {
                Datum::Float(value) => Some(*value),
                _ => None,
            })
            .collect::<Float64Array>(),
        ),
        Shape::Structure(parts) => structure(parts, &cells, path, notes),
        Shape::List(element) => {
            let elements = |datum: &Datum| match datum {
                Datum::List { items, is_cut } => Some((items.len(), *is_cut)),
                _ => None,
            };
            let (offsets, nulls, taken) = leaf.lists(elements);
            let flat: Vec<Cell<'_>> = (taken.iter())
                .flat_map(|(row, datum)| {
                    match datum {
                        Datum::List { items, .. } => items.as_slice(),
                        _ => &[],
                    }
                    .iter()
                    .map(|item| (*row, Some(item)))
                })
                .collect();
            let inner = array(element, &flat, &format!("{path}[]"), notes);
            list(data_type(element), offsets, inner, nulls)
        }
        Shape::Map(key, value) => {
            let entries = |datum: &Datum| match datum {
                Datum::Map { entries, is_cut } => Some((entries.len(), *is_cut)),
                _ => None,
            };
            let (offsets, nulls, taken) = leaf.lists(entries);
            let mut keys: Vec<Cell<'_>> = Vec::new();
            let mut values: Vec<Cell<'_>> = Vec::new();
            for (row, datum) in &taken {
                if let Datum::Map { entries, .. } = datum {
                    keys.extend(entries.iter().map(|(key, _)| (*row, Some(key))));
                    values.extend(entries.iter().map(|(_, value)| (*row, Some(value))));
                }
            }
            let DataType::List(field) = data_type(shape) else {
                return Arc::new(StringArray::new_null(cells.len()));
            };
            let DataType::Struct(fields) = field.data_type() else {
                return Arc::new(StringArray::new_null(cells.len()));
            };
            let arrays = vec![
                array(key, &keys, &format!("{path}[].key"), notes),
                array(value, &values, &format!("{path}[].value"), notes),
            ];
            let inner = StructArray::new(fields.clone(), arrays, None);
            list(field.data_type().clone(), offsets, Arc::new(inner), nulls)
        }
        _ => {
            let is_string = matches!(shape, Shape::String);
            let mut shown: Vec<Option<Cow<'_, str>>> = Vec::with_capacity(cells.len());
            for (row, datum) in &cells {
                if let Some(Datum::String { bytes, is_cut }) = datum {
                    if *is_cut {
                        notes.add(*row, path, "cut");
                    }
                    if std::str::from_utf8(bytes).is_err() {
                        notes.add(*row, path, "not UTF-8");
                    }
                } else if is_string && let Some(datum) = datum {
                    notes.add(*row, path, &does_not_fit(datum));
                    shown.push(None);
                    continue;
                }
                shown.push(datum.map(Datum::text));
            }
            texts(shown)
        }
    }
}

fn does_not_fit(datum: &Datum) -> String {
    let mut text = datum.text().into_owned();
    if text.len() > 100 {
        let end = (0..=100).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    format!("does not fit: {text}")
}

fn structure(
    parts: &[(String, Shape)],
    cells: &[Cell<'_>],
    path: &str,
    notes: &mut Notes,
) -> ArrayRef {
    let DataType::Struct(fields) = data_type(&Shape::Structure(parts.to_vec())) else {
        return Arc::new(StringArray::new_null(cells.len()));
    };
    let mut valid = Vec::with_capacity(cells.len());
    for (row, datum) in cells {
        if let Some(datum) = datum
            && !matches!(datum, Datum::Structure(_))
        {
            notes.add(*row, path, &does_not_fit(datum));
        }
        valid.push(matches!(datum, Some(Datum::Structure(_))));
    }
    // Parts with the same name are found in their order.
    let mut arrays = Vec::with_capacity(parts.len());
    for (index, (name, shape)) in parts.iter().enumerate() {
        let same_before = parts
            .iter()
            .take(index)
            .filter(|(known, _)| known == name)
            .count();
        let inner: Vec<Cell<'_>> = (cells.iter())
            .map(|(row, datum)| {
                let Some(Datum::Structure(known)) = datum else {
                    return (*row, None);
                };
                // They are at the same place mostly.
                let at = known
                    .get(index)
                    .filter(|(known, _)| known == name && same_before == 0);
                let part = at.or_else(|| {
                    known
                        .iter()
                        .filter(|(known, _)| known == name)
                        .nth(same_before)
                });
                (*row, part.map(|(_, datum)| datum))
            })
            .collect();
        let path = match path.is_empty() {
            true => name.clone(),
            false => format!("{path}.{name}"),
        };
        arrays.push(array(shape, &inner, &path, notes));
    }
    Arc::new(StructArray::new(
        fields,
        arrays,
        Some(NullBuffer::from(valid)),
    ))
}

fn list(element: DataType, offsets: Vec<usize>, inner: ArrayRef, nulls: Vec<bool>) -> ArrayRef {
    let field = Arc::new(Field::new("element", element, true));
    let offsets = OffsetBuffer::from_lengths(offsets);
    Arc::new(ListArray::new(
        field,
        offsets,
        inner,
        Some(NullBuffer::from(nulls)),
    ))
}

struct Leaf<'l, 'd> {
    cells: &'l [Cell<'d>],
    path: &'l str,
    notes: &'l mut Notes,
}

impl<'l, 'd> Leaf<'l, 'd> {
    fn values<T>(&mut self, take: impl Fn(&Datum) -> Option<T>) -> impl Iterator<Item = Option<T>> {
        let (path, notes) = (self.path, &mut *self.notes);
        let take = move |(row, datum): &Cell<'d>| {
            let datum = (*datum)?;
            let value = take(datum);
            if value.is_none() {
                notes.add(*row, path, &does_not_fit(datum));
            }
            value
        };
        self.cells.iter().map(take)
    }

    /// The lengths of lists, which of them are there, and those.
    fn lists(
        &mut self,
        length: impl Fn(&Datum) -> Option<(usize, bool)>,
    ) -> (Vec<usize>, Vec<bool>, Vec<(usize, &'d Datum)>) {
        let mut lengths = Vec::with_capacity(self.cells.len());
        let mut valid = Vec::with_capacity(self.cells.len());
        let mut taken = Vec::new();
        for (row, datum) in self.cells {
            let found = datum.and_then(|datum| Some((datum, length(datum)?)));
            match (found, datum) {
                (Some((datum, (length, is_cut))), _) => {
                    lengths.push(length);
                    taken.push((*row, datum));
                    if is_cut {
                        self.notes.add(*row, self.path, "cut");
                    }
                }
                (None, datum) => {
                    lengths.push(0);
                    if let Some(datum) = datum {
                        self.notes.add(*row, self.path, &does_not_fit(datum));
                    }
                }
            }
            valid.push(found.is_some());
        }
        (lengths, valid, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::{column, invalid_strings};
    use arrow::array::{Array as _, AsArray as _};
    use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type};
    use tracewire_expr::{Datum, Shape};

    fn notes(shape: &Shape, data: &[Option<&Datum>]) -> Vec<Option<String>> {
        let array = column(shape, data).1.into_array();
        let notes = array.as_string::<i32>();
        notes.iter().map(|note| note.map(str::to_owned)).collect()
    }

    #[test]
    fn integers_of_all_widths() {
        let largest = Datum::Integer(i128::from(u64::MAX));
        let (array, _) = column(&Shape::Unsigned64, &[Some(&largest), None]);
        assert_eq!(
            array.as_primitive::<Decimal128Type>().value_as_string(0),
            "18446744073709551615"
        );
        assert!(array.is_null(1));
        assert_eq!(
            notes(&Shape::Integer, &[Some(&largest)]),
            [Some("does not fit: 18446744073709551615".to_owned())]
        );
        // 39 digits are more than a decimal number of 128 bits has.
        let wide = Datum::LargeInteger(u128::MAX);
        let (array, _) = column(
            &Shape::Integer128,
            &[Some(&wide), Some(&Datum::Integer(-5))],
        );
        assert!(array.is_null(0));
        assert_eq!(
            array.as_primitive::<Decimal128Type>().value_as_string(1),
            "-5"
        );
        assert_eq!(
            notes(&Shape::Integer128, &[Some(&wide)]),
            [Some(format!("does not fit: {}", u128::MAX))]
        );
        let address = Datum::Address(0xffff_ffff_8000_0000);
        let (array, _) = column(&Shape::Address, &[Some(&address)]);
        assert_eq!(array.as_primitive::<Int64Type>().value(0), -0x8000_0000);
    }

    #[test]
    fn what_is_no_number_is_a_value() {
        let (array, notes) = column(
            &Shape::Float64,
            &[
                Some(&Datum::Float(f64::NAN)),
                Some(&Datum::Float(f64::INFINITY)),
            ],
        );
        assert!(array.as_primitive::<Float64Type>().value(0).is_nan());
        assert_eq!(array.as_primitive::<Float64Type>().value(1), f64::INFINITY);
        assert_eq!(array.null_count(), 0);
        assert_eq!(notes.into_array().null_count(), 2);
    }

    #[test]
    fn strings_that_are_not_utf_8_keep_their_bytes() {
        let good = Datum::String {
            bytes: "grün".as_bytes().to_vec(),
            is_cut: false,
        };
        let bad = Datum::String {
            bytes: vec![b'a', 0xff],
            is_cut: true,
        };
        let data = [Some(&good), Some(&bad), None];
        let (array, notes) = column(&Shape::String, &data);
        let texts = array.as_string::<i32>();
        assert_eq!((texts.value(0), texts.value(1)), ("grün", "a\u{fffd}"));
        let notes = notes.into_array();
        assert_eq!(notes.as_string::<i32>().value(1), "cut; not UTF-8");
        let bytes = invalid_strings(&data);
        assert!(bytes.is_null(0) && bytes.is_null(2));
        assert_eq!(bytes.as_binary::<i32>().value(1), [b'a', 0xff]);
    }

    #[test]
    fn what_is_missing_within_a_value_is_named() {
        let shape = Shape::Structure(vec![
            ("id".to_owned(), Shape::Integer),
            ("items".to_owned(), Shape::List(Box::new(Shape::Integer))),
        ]);
        let items = vec![
            Datum::Integer(1),
            Datum::Missing("<unavailable>".to_owned()),
        ];
        let datum = Datum::Structure(vec![
            (
                "id".to_owned(),
                Datum::Missing("<optimized out>".to_owned()),
            ),
            (
                "items".to_owned(),
                Datum::List {
                    items,
                    is_cut: true,
                },
            ),
        ]);
        let gone = Datum::Missing("<unavailable>".to_owned());
        let (array, _) = column(&shape, &[Some(&datum), Some(&gone)]);
        assert!(array.is_valid(0) && array.is_null(1));
        assert_eq!(
            notes(&shape, &[Some(&datum), Some(&gone)]),
            [
                Some("id: optimized out; items: cut; items[]: unavailable".to_owned()),
                Some("unavailable".to_owned())
            ]
        );
    }
}
