//! Values of recorded programs: the contents of columns, compared with the output of `show`, which is parsed separately here, and with
//! what is read back from Parquet files.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray as _, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int64Type};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tracewire_expr::Shape;
use tracewire_recorder::Recorder;
use tracewire_test_support::{Cc, tool};
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, Viewer};

use crate::array::column;
use crate::directory::{AddOptions, add, part_name};
use crate::error::DatasetError;
use crate::run::Run;

const CPP: &str = include_str!("../../../crates/cli/tests/values/values.cpp");
const GO: &str = include_str!("../../../crates/cli/tests/values/values.go");
const RUST: &str = include_str!("../../../crates/cli/tests/values/values.rs");

/// A part of a value without parts: of a column, or of a printed text.
#[derive(Clone, PartialEq, Debug)]
enum Leaf {
    /// Nothing.
    Missing,
    Integer(i128),
    Float(f64),
    /// 32 bits, which are printed with fewer digits.
    Single(f32),
    /// A string or a character.
    String(String),
    /// A duration: in nanoseconds, and in its own unit. Rust's are nanoseconds; C++ has a type for each unit.
    Time(i128, i128),
    /// A word: an enumerator, a truth value, a variant.
    Word(String),
}

impl Leaf {
    fn is(&self, printed: &Self) -> bool {
        match (self, printed) {
            (Self::Missing, Self::Word(word)) => {
                matches!(word.as_str(), "nullptr" | "nullopt" | "None")
            }
            (Self::Missing, Self::Integer(0)) => true,
            (Self::Integer(a), Self::Time(nanoseconds, own)) => a == nanoseconds || a == own,
            (Self::Single(a), Self::Float(b)) => *a == *b as f32 || a.is_nan() && b.is_nan(),
            (Self::Single(a), Self::Integer(b)) => *a == *b as f32,
            (Self::Float(a), Self::Float(b)) => a == b || a.is_nan() && b.is_nan(),
            (Self::Float(a), Self::Integer(b)) => *a == *b as f64,
            (Self::String(a) | Self::Word(a), Self::String(b) | Self::Word(b)) => a == b,
            (Self::Word(a), Self::Integer(b)) => *a == b.to_string(),
            (Self::Word(a), Self::Float(b)) => a.parse().ok() == Some(*b),
            (a, b) => a == b,
        }
    }
}

/// The leaves of a cell.
fn leaves_of(array: &dyn Array, row: usize, leaves: &mut Vec<Leaf>) {
    if array.is_null(row) {
        leaves.push(Leaf::Missing);
        return;
    }
    match array.data_type() {
        DataType::Boolean => {
            leaves.push(Leaf::Word(array.as_boolean().value(row).to_string()));
        }
        DataType::Int64 => {
            leaves.push(Leaf::Integer(
                array.as_primitive::<Int64Type>().value(row).into(),
            ));
        }
        DataType::Decimal128(..) => {
            leaves.push(Leaf::Integer(
                array.as_primitive::<Decimal128Type>().value(row),
            ));
        }
        DataType::Float32 => {
            leaves.push(Leaf::Single(array.as_primitive::<Float32Type>().value(row)))
        }
        DataType::Float64 => {
            leaves.push(Leaf::Float(array.as_primitive::<Float64Type>().value(row)))
        }
        DataType::Utf8 => {
            let text = array.as_string::<i32>().value(row);
            match text {
                "()" | "{}" => {}
                // A value with parts and several types is JSON.
                _ if text.starts_with(['{', '[']) => leaves.extend(printed(text, true)),
                _ => leaves.push(Leaf::Word(text.to_owned())),
            }
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            for item in 0..items.len() {
                leaves_of(&items, item, leaves);
            }
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let variant = parts
                .column_by_name("variant")
                .filter(|_| fields[0].name() == "variant");
            let Some(variant) = variant else {
                for part in parts.columns() {
                    leaves_of(part, row, leaves);
                }
                return;
            };
            let variant = variant.as_string::<i32>().value(row);
            match parts.column_by_name(variant) {
                Some(part) => leaves_of(part, row, leaves),
                None => leaves.push(Leaf::Word(variant.to_owned())),
            }
        }
        other => panic!("a column of {other}"),
    }
}

/// The leaves of a printed value: names of types, members and symbols are left out.
fn printed(text: &str, is_json: bool) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut rest = text;
    // Whether a character may be that of the number before it.
    let mut after_number = false;
    while let Some(first) = rest.chars().next() {
        let was_number = std::mem::replace(&mut after_number, false);
        let next = |rest: &str| rest.trim_start().chars().next();
        if first == '"' || first == '\'' {
            let (string, after) = quoted(rest, first);
            rest = after;
            let is_name = is_json && next(rest) == Some(':');
            if is_name && string == "variant" {
                // The name of a variant with members is written as a name of a type is.
                let (name, after) = quoted(rest.trim_start_matches([':', ' ']), '"');
                if after.starts_with(&format!(", \"{name}\":")) {
                    rest = after;
                }
            }
            let is_unit = is_json && string == "()";
            if !(is_name || is_unit || first == '\'' && was_number) {
                leaves.push(Leaf::String(string));
            }
        } else if first == '<' {
            let end = rest.find('>').map_or(rest.len(), |end| end + 1);
            leaves.push(Leaf::Missing);
            rest = &rest[end..];
        } else if first.is_ascii_digit()
            || first == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit() || c == 'i')
        {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | 'µ');
            let mut end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let mut number = &rest[..end];
            while let Some(short) = number.strip_suffix(['.', '-', '+']) {
                number = short;
                end = number.len();
            }
            rest = &rest[end..];
            if rest.trim_start().starts_with("-> ") {
                rest = rest.trim_start().trim_start_matches("->");
                continue;
            }
            after_number = rest.starts_with(" '");
            if after_number {
                rest = &rest[1..];
            }
            leaves.push(number_of(number));
        } else if first.is_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '&' | '|');
            let mut end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            while rest[..end].ends_with(':') {
                end -= 1;
            }
            let word = &rest[..end];
            rest = &rest[end..];
            let is_name =
                matches!(next(rest), Some('=' | '{' | '(' | ':')) && !rest.starts_with(", ");
            if word == "null" && is_json {
                leaves.push(Leaf::Missing);
            } else if matches!(word, "inf" | "nan" | "NaN") {
                leaves.push(Leaf::Float(word.parse().expect("a number")));
            } else if !is_name {
                leaves.push(Leaf::Word(word.to_owned()));
            }
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    leaves
}

fn number_of(text: &str) -> Leaf {
    if let Some(digits) = text.strip_prefix("0x") {
        return Leaf::Integer(i128::from_str_radix(digits, 16).expect("hexadecimal digits"));
    }
    if let Ok(number) = text.parse::<i128>() {
        return Leaf::Integer(number);
    }
    let units = [
        ("ns", 0),
        ("µs", 3),
        ("us", 3),
        ("ms", 6),
        ("min", 9),
        ("s", 9),
        ("h", 9),
    ];
    for (unit, digits) in units {
        let Some(number) = text.strip_suffix(unit) else {
            continue;
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let nanoseconds = format!("{whole}{part:0<digits$}").parse();
        if let (Ok(nanoseconds), Ok(own)) = (nanoseconds, whole.parse()) {
            return Leaf::Time(nanoseconds, own);
        }
    }
    match text.parse::<f64>() {
        Ok(number) => Leaf::Float(number),
        Err(_) => Leaf::Word(text.to_owned()),
    }
}

/// A text in quotes, and what follows it.
fn quoted(text: &str, quote: char) -> (String, &str) {
    let mut bytes: Vec<u8> = Vec::new();
    let mut push = |c: char| bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
    let mut characters = text[1..].char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == quote {
            let text = &text[at + 2..];
            return (String::from_utf8(bytes).expect("UTF-8"), text);
        }
        if c != '\\' {
            push(c);
            continue;
        }
        let (_, escape) = characters.next().expect("an escape");
        match escape {
            'n' => push('\n'),
            't' => push('\t'),
            'r' => push('\r'),
            'a' => push('\u{7}'),
            'b' => push('\u{8}'),
            'f' => push('\u{c}'),
            'v' => push('\u{b}'),
            'u' => {
                let mut digits = String::new();
                for (_, c) in characters.by_ref() {
                    match c {
                        '{' => {}
                        '}' => break,
                        c => digits.push(c),
                    }
                    if digits.len() == 4 && !text.contains("\\u{") {
                        break;
                    }
                }
                let code = u32::from_str_radix(&digits, 16).expect("digits");
                push(char::from_u32(code).expect("a character"));
            }
            '0'..='7' => {
                let mut code = escape.to_digit(8).expect("a digit");
                while let Some(digit) = characters.peek().and_then(|(_, c)| c.to_digit(8)) {
                    code = code * 8 + digit;
                    characters.next();
                }
                push(char::from_u32(code).expect("a character"));
            }
            c => push(c),
        }
    }
    panic!("no end of {text}");
}

fn record(directory: &Path, program: &Path, tracepoints: &[&str]) -> PathBuf {
    let output = directory.join("run.tf");
    let mut recorder = Recorder::spawn(program, Vec::<String>::new());
    recorder.output(&output);
    for tracepoint in tracepoints {
        recorder.tracepoint(tracepoint).expect("a tracepoint");
    }
    recorder.record(&mut ()).expect("a recording");
    output
}

/// Compares all values of a run; how many leaves they have. Go does not put strings in quotes: of its values, numbers and strings that
/// are the whole value are compared, and all others must fit their columns.
#[track_caller]
fn compare(output: &Path, is_go: bool) -> usize {
    let file = TraceFile::open(output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    let general = Viewer::new(&file, &program).without_plain_values();
    let mut count = 0;
    let mut wrong = Vec::new();
    for frame in file.frames() {
        let shapes = viewer.value_shapes(frame);
        let shown = general.view(frame).values;
        let values = viewer.typed_values(frame);
        assert_eq!(
            shown,
            values
                .iter()
                .map(|value| value.view.clone())
                .collect::<Vec<_>>()
        );
        for value in &values {
            let shape = shapes
                .iter()
                .find(|shape| shape.expression == value.view.expression);
            let shape = shape
                .and_then(|found| found.shape.as_ref())
                .expect("a shape");
            let (array, notes) = column(shape, &[Some(&value.datum)]);
            let notes = notes.into_array();
            let note = notes
                .as_string::<i32>()
                .iter()
                .next()
                .flatten()
                .unwrap_or("");
            let mut found = Vec::new();
            leaves_of(&array, 0, &mut found);
            let is_same = if is_go {
                count += 1;
                match &found[..] {
                    [Leaf::Integer(number)] if *shape == Shape::Integer => {
                        let shown = &value.view.value;
                        shown.ends_with('s') || *shown == number.to_string()
                    }
                    [Leaf::Word(text)] if *shape == Shape::String => {
                        *text == value.view.value.trim_end_matches("...")
                    }
                    _ => true,
                }
            } else {
                let expected = printed(&value.view.value, false);
                count += expected.len();
                let pairs = found.iter().zip(&expected);
                let is_text = matches!(&found[..], [Leaf::Word(text)] if *text == value.view.value);
                is_text || found.len() == expected.len() && pairs.into_iter().all(|(a, b)| a.is(b))
            };
            if !is_same || note.contains("does not fit") {
                wrong.push(format!(
                    "{} = {}\n  {shape:?}\n  {:?}\n  {found:?} ({note})",
                    value.view.type_name.as_deref().unwrap_or(""),
                    value.view.value,
                    value.datum
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    count
}

/// Writes a run as Parquet files and reads them back: each table has the columns that the run's rows in memory have, with their types at
/// every depth, and the same rows, with every null and every bit of every number.
#[track_caller]
fn compare_with_parquet(output: &Path) {
    let file = TraceFile::open(output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let run = Run::new(&file, &program);
    let dataset = output.with_extension("dataset");
    let added = add(&dataset, &run, &AddOptions::default()).expect("added");
    let mut made: BTreeMap<String, Vec<RecordBatch>> = BTreeMap::new();
    let read = run.read(
        |_| true,
        |table, batch| {
            made.entry(table.name.clone()).or_default().push(batch);
            Ok::<(), DatasetError>(())
        },
    );
    read.expect("rows");
    assert_eq!(added.rows.len(), run.tables().len(), "tables");
    let mut count = 0;
    for table in run.tables() {
        let path = (added.path)
            .join(format!("table={}", table.name))
            .join(part_name(0));
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file"))
            .and_then(|builder| builder.build())
            .expect("a reader");
        let batches: Vec<RecordBatch> = reader
            .map(|batch| {
                let batch = batch?;
                // The first column is the name of the run, which a trace file does not have.
                let columns: Vec<usize> = (1..batch.num_columns()).collect();
                batch.project(&columns)
            })
            .collect::<Result<_, ArrowError>>()
            .expect("rows");
        for batch in &batches {
            let fields = batch.schema();
            assert_eq!(fields.fields(), table.schema.fields(), "{}", table.name);
        }
        let whole = |batches: &[RecordBatch]| {
            concat_batches(&table.schema, batches).expect("columns of the table")
        };
        let there = whole(&batches);
        let here = whole(&made.remove(&table.name).unwrap_or_default());
        for (at, field) in table.schema.fields().iter().enumerate() {
            assert_eq!(
                there.column(at),
                here.column(at),
                "{}: {}",
                table.name,
                field.name()
            );
        }
        count += here.num_rows();
    }
    assert!(count > run.tables().len(), "{count} rows");
}

#[test]
fn cpp_values_are_those_that_are_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let cc = Cc::cpp()
        .options(&["-std=c++17", "-O0"])
        .text_as("cpp", CPP);
    let program = cc.build(directory.path(), "program");
    let output = record(directory.path(), &program, &["see_at : value"]);
    let count = compare(&output, false);
    compare_with_parquet(&output);
    assert!(count > 500, "{count}");
}

#[test]
fn rust_values_are_those_that_are_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = Cc::of("rustc")
        .option("-g")
        .text_as("rs", RUST)
        .build(directory.path(), "program");
    let output = record(directory.path(), &program, &["see : value"]);
    let count = compare(&output, false);
    compare_with_parquet(&output);
    assert!(count > 500, "{count}");
}

#[test]
fn go_values_fit_their_columns() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("values.go");
    std::fs::write(&source, GO).expect("written");
    let program = directory.path().join("program");
    let built = tool("go")
        .args(["build", "-gcflags=-N -l", "-o"])
        .args([&program, &source])
        .env("GO111MODULE", "off")
        .output()
        .expect("go runs");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let output = record(directory.path(), &program, &[r"/^main\.see/ : value"]);
    let count = compare(&output, true);
    compare_with_parquet(&output);
    assert!(count > 150, "{count}");
}
