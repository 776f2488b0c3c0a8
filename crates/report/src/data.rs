//! The hits as columns, which the page has as a block of JSON.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde::Serialize;
use tracewire_expr::Datum;
use tracewire_views::TypedValue;

/// Integers up to this are exact in JavaScript.
const LARGEST_EXACT: i64 = (1 << 53) - 1;

/// The block of a page. A column of rows is left out where no row has it.
#[derive(Debug, Default, Serialize)]
pub struct Data {
    /// Of the block's form.
    pub version: u32,
    /// Hits of the run, those without a row included.
    pub hits: u64,
    /// The origin of the column `time`, in nanoseconds; in digits.
    pub time_origin_ns: String,
    /// How long after the start of the run that is, in nanoseconds.
    pub time_start_ns: u64,
    /// All texts that columns have by number.
    pub texts: Texts,
    /// The tracepoints that have rows.
    pub tracepoints: Vec<DataTracepoint>,
    /// The places that the column `place` has by number.
    pub places: Vec<DataPlace>,
    /// The stacks that the column `stack` has by number: texts, the innermost function first.
    pub stacks: Vec<Vec<u32>>,
    /// The columns that all rows have.
    pub rows: BTreeMap<&'static str, Vec<Option<i64>>>,
    /// The columns of collected expressions.
    pub columns: Vec<Column>,
}

/// A tracepoint.
#[derive(Debug, Serialize)]
pub struct DataTracepoint {
    /// Its number.
    pub number: i32,
    /// Where it is, in words.
    pub name: String,
}

/// Where hits were.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct DataPlace {
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pc: Option<String>,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Texts, each once.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Texts {
    list: Vec<String>,
    #[serde(skip)]
    index: HashMap<String, u32>,
}

impl Texts {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.index.get(text) {
            return *number;
        }
        let number = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.index.insert(text.to_owned(), number);
        number
    }
}

/// A collected expression of a tracepoint: a cell for each of the tracepoint's rows, in their order.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The tracepoint.
    pub tracepoint: i32,
    /// The expression.
    pub expression: String,
    /// The types that its values have.
    pub types: Vec<String>,
    /// The values.
    #[serde(flatten)]
    pub cells: Cells,
    /// Rows without a value: the index of the tracepoint's row, and the number of the text with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<(usize, u32)>,
}

/// Values of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cells {
    /// Integers that are shown as their digits; null where a row does not have the expression.
    Integers(Vec<Option<i64>>),
    /// Numbers of texts.
    Texts(Vec<Option<u32>>),
}

/// The columns of one tracepoint, while its rows are added.
#[derive(Debug, Default)]
pub struct Columns {
    columns: Vec<Column>,
    index: HashMap<(String, usize), usize>,
    rows: usize,
}

impl Columns {
    /// Adds the values of a row.
    pub fn add(&mut self, tracepoint: i32, values: &[TypedValue], texts: &mut Texts) {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for value in values {
            let name = value.view.expression.as_str();
            let before = seen.entry(name).or_default();
            let key = (name.to_owned(), *before);
            *before += 1;
            let next = self.columns.len();
            let at = *self.index.entry(key).or_insert(next);
            if at == next {
                self.columns.push(Column {
                    tracepoint,
                    expression: name.to_owned(),
                    types: Vec::new(),
                    cells: Cells::Integers(Vec::new()),
                    errors: Vec::new(),
                });
            }
            if let Some(column) = self.columns.get_mut(at) {
                column.add(self.rows, value, texts);
            }
        }
        self.rows += 1;
    }

    /// The columns, each with a cell for every row.
    pub fn finish(mut self) -> Vec<Column> {
        for column in &mut self.columns {
            column.cells.fill(self.rows);
        }
        self.columns
    }
}

impl Column {
    fn add(&mut self, row: usize, value: &TypedValue, texts: &mut Texts) {
        self.cells.fill(row);
        if let Some(name) = &value.view.type_name
            && !self.types.contains(name)
        {
            self.types.push(name.clone());
        }
        if let Some(error) = &value.view.error {
            self.errors.push((row, texts.number(error)));
        }
        let integer = match value.datum {
            Datum::Integer(number) => i64::try_from(number).ok(),
            _ => None,
        };
        let integer = integer
            .filter(|number| number.unsigned_abs() <= LARGEST_EXACT as u64)
            .filter(|number| number.to_string() == value.view.value);
        match (&mut self.cells, integer) {
            (Cells::Integers(cells), Some(integer)) => cells.push(Some(integer)),
            (Cells::Integers(cells), None) => {
                let all = std::mem::take(cells).into_iter();
                let mut all: Vec<_> = all
                    .map(|cell| cell.map(|integer| texts.number(&integer.to_string())))
                    .collect();
                all.push(Some(texts.number(&value.view.value)));
                self.cells = Cells::Texts(all);
            }
            (Cells::Texts(cells), _) => cells.push(Some(texts.number(&value.view.value))),
        }
    }
}

impl Cells {
    fn fill(&mut self, rows: usize) {
        match self {
            Self::Integers(cells) => cells.resize(rows, None),
            Self::Texts(cells) => cells.resize(rows, None),
        }
    }
}

impl Data {
    /// Writes the block so that no text in it ends the element that it is in: `<` is only ever in a string of JSON.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        serde_json::to_writer(WithoutTags(out), self).map_err(io::Error::from)
    }
}

struct WithoutTags<W>(W);

impl<W: Write> Write for WithoutTags<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pieces = bytes.split(|byte| *byte == b'<');
        self.0.write_all(pieces.next().unwrap_or_default())?;
        for piece in pieces {
            self.0.write_all(b"\\u003c")?;
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracewire_views::ValueView;

    fn value(expression: &str, datum: Datum, text: &str) -> TypedValue {
        TypedValue {
            view: ValueView {
                expression: expression.to_owned(),
                type_name: Some("int".to_owned()),
                value: text.to_owned(),
                error: None,
            },
            datum,
        }
    }

    #[test]
    fn a_column_of_integers_becomes_one_of_texts_where_a_value_is_none() {
        let (mut columns, mut texts) = (Columns::default(), Texts::default());
        columns.add(1, &[value("a", Datum::Integer(7), "7")], &mut texts);
        columns.add(1, &[], &mut texts);
        let mut missing = value("a", Datum::Missing("<unavailable>".into()), "<unavailable>");
        missing.view.error = Some("why".to_owned());
        columns.add(
            1,
            &[missing, value("b", Datum::Integer(1), "1")],
            &mut texts,
        );
        let columns = serde_json::to_value(columns.finish()).unwrap();
        assert_eq!(columns[0]["texts"], serde_json::json!([1, null, 2]));
        assert_eq!(columns[0]["errors"], serde_json::json!([[2, 0]]));
        assert_eq!(columns[1]["integers"], serde_json::json!([null, null, 1]));
        assert_eq!(texts.list, ["why", "7", "<unavailable>"]);
    }

    #[test]
    fn a_text_cannot_end_the_block() {
        let mut data = Data::default();
        data.texts.number("</script><script>alert(1)</script><!--");
        let mut block = Vec::new();
        data.write(&mut block).unwrap();
        assert!(!block.contains(&b'<'));
        let read: serde_json::Value = serde_json::from_slice(&block).unwrap();
        assert_eq!(read["texts"][0], "</script><script>alert(1)</script><!--");
    }
}
