//! Runs as one table: types that hold the values of all, and casts to them.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, ListArray, StringBuilder, StructArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The most digits that a decimal number has.
const MOST_DIGITS: u8 = 38;

/// The digits of the numbers of a column with 64 bits and a sign.
const DIGITS_64: u8 = 19;

/// The columns of several tables by their names, those of the first table first.
pub(crate) fn united_schema<'s>(schemas: impl IntoIterator<Item = &'s Schema>) -> Schema {
    let mut fields: Vec<Field> = Vec::new();
    for field in schemas.into_iter().flat_map(Schema::fields) {
        match fields.iter_mut().find(|known| known.name() == field.name()) {
            None => fields.push(field.as_ref().clone().with_nullable(true)),
            Some(known) => {
                let both = united(known.data_type(), field.data_type());
                known.set_data_type(both);
            }
        }
    }
    Schema::new(fields)
}

/// A type for the values of both: numbers widen, structures have the parts of both, and all else is text.
fn united(a: &DataType, b: &DataType) -> DataType {
    use DataType::{
        Binary, BinaryView, Decimal128, Float32, Float64, Int64, List, Struct, Utf8, Utf8View,
    };
    let digits = |number: &DataType| match number {
        Int64 => Some(DIGITS_64),
        Decimal128(digits, 0) => Some(*digits),
        _ => None,
    };
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (List(a), List(b)) => {
            let element = united(a.data_type(), b.data_type());
            List(Arc::new(a.as_ref().clone().with_data_type(element)))
        }
        (Struct(a), Struct(b)) => {
            let schemas = [Schema::new(a.clone()), Schema::new(b.clone())];
            Struct(united_schema(&schemas).fields)
        }
        (Float32 | Float64, Float32 | Float64) => Float64,
        (Utf8, Utf8View) | (Utf8View, Utf8) => Utf8View,
        (Binary, BinaryView) | (BinaryView, Binary) => BinaryView,
        (a, b) => match (digits(a), digits(b)) {
            (Some(a), Some(b)) => Decimal128(a.max(b).min(MOST_DIGITS), 0),
            (Some(_), None) if matches!(b, Float32 | Float64) => Float64,
            (None, Some(_)) if matches!(a, Float32 | Float64) => Float64,
            _ => Utf8,
        },
    }
}

/// Values as those of another type, which [`united_schema`] has found.
fn converted(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    match (values.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let parts = values.as_struct();
            let converted: Result<Vec<ArrayRef>> = (fields.iter())
                .map(|field| match parts.column_by_name(field.name()) {
                    Some(part) => converted(part, field.data_type()),
                    None => Ok(new_null_array(field.data_type(), values.len())),
                })
                .collect();
            let (fields, nulls) = (Fields::clone(fields), parts.nulls().cloned());
            let length = values.len();
            let whole = StructArray::try_new_with_length(fields, converted?, nulls, length)?;
            Ok(Arc::new(whole))
        }
        (DataType::List(_), DataType::List(field)) => {
            let lists = values.as_list::<i32>();
            let elements = converted(lists.values(), field.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let whole = ListArray::try_new(Arc::clone(field), offsets, elements, nulls)?;
            Ok(Arc::new(whole))
        }
        (_, DataType::Utf8) => text(values),
        _ => Ok(cast(values, to)?),
    }
}

/// Values of any type as text.
fn text(values: &ArrayRef) -> Result<ArrayRef> {
    let formatter = ArrayFormatter::try_new(values, &FormatOptions::default())?;
    let mut texts = StringBuilder::new();
    for row in 0..values.len() {
        match values.is_null(row) {
            true => texts.append_null(),
            false => texts.append_value(formatter.value(row).try_to_string()?),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// Whether the engine casts between these itself, so that it can optimize through the cast.
pub(crate) fn is_plain_cast(from: &DataType, to: &DataType) -> bool {
    // As text, bytes are shown as digits here.
    let is_shown = matches!(from, DataType::Binary | DataType::BinaryView)
        && !matches!(to, DataType::BinaryView);
    !from.is_nested() && !to.is_nested() && !is_shown
}

/// The function that converts nested values, and values to text.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct Convert {
    to: DataType,
    signature: Signature,
}

impl Convert {
    pub(crate) fn new(to: DataType) -> Self {
        Self {
            to,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &'static str {
        "as_in_all_runs"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let values = arrays.into_iter().next();
        let values = values.unwrap_or_else(|| new_null_array(&self.to, arguments.number_rows));
        Ok(ColumnarValue::Array(converted(&values, &self.to)?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array as _, ArrayRef, AsArray as _, BinaryArray, Float64Array, Int64Array, ListArray,
        StructArray,
    };
    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::{converted, is_plain_cast, united};

    fn structure(parts: &[(&str, DataType)]) -> DataType {
        let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), true);
        DataType::Struct(parts.iter().map(field).collect())
    }

    #[test]
    fn types_of_two_builds_become_one() {
        use DataType::{
            Binary, BinaryView, Boolean, Decimal128, Float32, Float64, Int64, Utf8, Utf8View,
        };
        for (a, b, both) in [
            (Int64, Int64, Int64),
            (Int64, Decimal128(20, 0), Decimal128(20, 0)),
            (Decimal128(20, 0), Decimal128(38, 0), Decimal128(38, 0)),
            (Float32, Float64, Float64),
            (Int64, Float32, Float64),
            (Decimal128(20, 0), Float64, Float64),
            (Int64, Utf8, Utf8),
            (Boolean, Int64, Utf8),
            (Utf8, Utf8View, Utf8View),
            (BinaryView, Binary, BinaryView),
            (BinaryView, Utf8View, Utf8),
            (Utf8View, Int64, Utf8),
            (
                structure(&[("a", Int64), ("b", Utf8)]),
                structure(&[("a", Float64), ("c", Boolean)]),
                structure(&[("a", Float64), ("b", Utf8), ("c", Boolean)]),
            ),
            (structure(&[("a", Int64)]), Int64, Utf8),
        ] {
            assert_eq!(united(&a, &b), both, "{a} and {b}");
        }
    }

    #[test]
    fn bytes_are_shown_as_digits_whether_they_are_views_or_not() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"a\xff"[..]), None]));
        let views = arrow::compute::cast(&bytes, &DataType::BinaryView).expect("views");
        for bytes in [bytes, views] {
            assert!(!is_plain_cast(bytes.data_type(), &DataType::Utf8));
            let text = converted(&bytes, &DataType::Utf8).expect("text");
            let text: Vec<Option<&str>> = text.as_string::<i32>().iter().collect();
            assert_eq!(text, [Some("61ff"), None]);
        }
        assert!(is_plain_cast(&DataType::Binary, &DataType::BinaryView));
    }

    #[test]
    fn nested_values_are_converted_by_name() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let field = Arc::new(Field::new("a", DataType::Int64, true));
        let values: ArrayRef = Arc::new(StructArray::from(vec![(field, numbers)]));
        let wide = structure(&[("b", DataType::Utf8), ("a", DataType::Float64)]);
        let made = converted(&values, &wide).expect("converted");
        let made = made.as_struct();
        assert_eq!(made.column(0).null_count(), 2);
        let expected: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
        assert_eq!(made.column(1), &expected);
        let text = converted(&values, &DataType::Utf8).expect("text");
        assert_eq!(text.as_string::<i32>().value(0), "{a: 1}");
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), Some(2)]), None]);
        let lists: ArrayRef = Arc::new(lists);
        let to = DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)));
        let made = converted(&lists, &to).expect("converted");
        assert_eq!(
            made.as_list::<i32>().value(0).as_string::<i32>().value(1),
            "2"
        );
        assert!(made.is_null(1));
    }
}
