//! Columns: the Arrow type for a shape, one type for two shapes, and names that do not collide.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use tracewire_expr::Shape;

/// The digits of the largest number of 64 bits without a sign.
const UNSIGNED_64_DIGITS: u8 = 20;

/// The most digits of a decimal number that Parquet, Spark and Trino agree on.
pub(crate) const MOST_DIGITS: u8 = 38;

/// The Arrow type of a shape. None has an unsigned integer in it: Spark and Trino do not read those.
pub(crate) fn data_type(shape: &Shape) -> DataType {
    match shape {
        Shape::Boolean => DataType::Boolean,
        Shape::Integer | Shape::Address => DataType::Int64,
        Shape::Unsigned64 => DataType::Decimal128(UNSIGNED_64_DIGITS, 0),
        Shape::Integer128 => DataType::Decimal128(MOST_DIGITS, 0),
        Shape::Float32 => DataType::Float32,
        Shape::Float64 => DataType::Float64,
        Shape::Structure(parts) => {
            let mut names = Names::default();
            let fields = parts
                .iter()
                .map(|(name, part)| Field::new(names.unique(name), data_type(part), true));
            DataType::Struct(fields.collect())
        }
        Shape::List(element) => list_of(data_type(element)),
        Shape::Map(key, value) => list_of(DataType::Struct(Fields::from(vec![
            Field::new("key", data_type(key), true),
            Field::new("value", data_type(value), true),
        ]))),
        // Any other shape is shown as text.
        _ => DataType::Utf8,
    }
}

pub(crate) fn list_of(element: DataType) -> DataType {
    // Parquet's own name for it.
    DataType::List(Arc::new(Field::new("element", element, true)))
}

/// A shape for the values of both: where they differ in more than the width of numbers or in their parts, it is text.
pub(crate) fn unified(a: &Shape, b: &Shape) -> Shape {
    use Shape::{Float32, Float64, Integer, Integer128, List, Map, Structure, Unsigned64};
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (Integer | Unsigned64, Integer | Unsigned64) => Unsigned64,
        (Integer | Unsigned64 | Integer128, Integer | Unsigned64 | Integer128) => Integer128,
        (Float32 | Float64, Float32 | Float64) => Float64,
        (List(a), List(b)) => List(Box::new(unified(a, b))),
        (Map(a_key, a_value), Map(b_key, b_value)) => Map(
            Box::new(unified(a_key, b_key)),
            Box::new(unified(a_value, b_value)),
        ),
        (Structure(a), Structure(b)) => {
            let mut parts = a.clone();
            for (name, shape) in b {
                match parts.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = unified(known, shape),
                    None => parts.push((name.clone(), shape.clone())),
                }
            }
            Structure(parts)
        }
        _ => Shape::Text,
    }
}

/// Names of columns, each once. SQL ignores case.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// The name, with a number after it where it is taken.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "_" } else { name };
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.0.insert(unique.to_lowercase()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, unified};
    use tracewire_expr::Shape;

    #[test]
    fn names_that_differ_in_capitals_only_collide() {
        let mut names = Names::default();
        let given = ["id", "ID", "id_2", "größe", "GRÖSSE", "GRÖßE", ""];
        let unique: Vec<String> = given.iter().map(|name| names.unique(name)).collect();
        assert_eq!(
            unique,
            ["id", "ID_2", "id_2_2", "größe", "GRÖSSE", "GRÖßE_2", "_"]
        );
    }

    #[test]
    fn numbers_widen_and_the_rest_is_text() {
        let structure = |parts: &[(&str, Shape)]| {
            let parts = parts
                .iter()
                .map(|(name, shape)| ((*name).to_owned(), shape.clone()));
            Shape::Structure(parts.collect())
        };
        for (a, b, both) in [
            (Shape::Integer, Shape::Integer, Shape::Integer),
            (Shape::Integer, Shape::Unsigned64, Shape::Unsigned64),
            (Shape::Integer128, Shape::Integer, Shape::Integer128),
            (Shape::Float32, Shape::Float64, Shape::Float64),
            (Shape::Integer, Shape::Float64, Shape::Text),
            (Shape::String, Shape::Integer, Shape::Text),
            (
                structure(&[("a", Shape::Integer), ("b", Shape::String)]),
                structure(&[("a", Shape::Unsigned64), ("c", Shape::Boolean)]),
                structure(&[
                    ("a", Shape::Unsigned64),
                    ("b", Shape::String),
                    ("c", Shape::Boolean),
                ]),
            ),
        ] {
            assert_eq!(unified(&a, &b), both);
            if !matches!(both, Shape::Structure(_)) {
                assert_eq!(unified(&b, &a), both);
            }
        }
    }
}
