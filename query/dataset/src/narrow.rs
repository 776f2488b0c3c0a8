//! The rows of the tables that all runs have.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder as _, ArrayRef, BooleanArray, Int64Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder,
};
use arrow::datatypes::{DataType, Field};
use tracewire_model::{FrameNumber, hex};
use tracewire_tracefile::TraceFile;
use tracewire_views::{Info, Program};

use crate::error::DatasetError;
use crate::table::{RUNS, Table};

/// Nanoseconds of a time in microseconds.
pub(crate) fn nanoseconds(microseconds: u64) -> i64 {
    number(microseconds.saturating_mul(1000))
}

/// A number as SQL has it; the largest where it has none so large.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// An address as SQL has it: with the same bits.
pub(crate) fn address(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

pub(crate) fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

pub(crate) fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    let mut array = StringBuilder::new();
    // Most columns of texts have a text in each row or in none.
    let mut absent = 0;
    for value in values {
        match value {
            Some(text) => {
                if absent > 0 {
                    array.append_nulls(absent);
                    absent = 0;
                }
                array.append_value(text);
            }
            None => absent += 1,
        }
    }
    if array.is_empty() {
        return Arc::new(StringArray::new_null(absent));
    }
    array.append_nulls(absent);
    Arc::new(array.finish())
}

pub(crate) fn truths(values: impl IntoIterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BooleanArray>())
}

pub(crate) fn batch(table: &Table, columns: Vec<ArrayRef>) -> Result<RecordBatch, DatasetError> {
    RecordBatch::try_new(Arc::clone(&table.schema), columns)
        .map_err(DatasetError::arrow(&table.name))
}

pub(crate) fn runs(table: &Table, file: &TraceFile) -> Result<RecordBatch, DatasetError> {
    let info = Info::of(file);
    let status = info.status.as_ref();
    let program = info.modules.first();
    let source = file.path().map(|path| path.to_string_lossy());
    debug_assert_eq!(table.name, RUNS);
    batch(
        table,
        vec![
            texts([source]),
            texts([tracewire_views::architecture_of(file).map(|found| found.to_string())]),
            texts([program.map(|program| &program.path)]),
            texts([program.and_then(|program| program.build_id.as_ref())]),
            numbers([Some(number(info.frames))]),
            numbers([status.and_then(|status| status.created).map(number)]),
            numbers([status.and_then(|status| status.start_us).map(nanoseconds)]),
            numbers([status.and_then(|status| status.stop_us).map(nanoseconds)]),
            texts([status.and_then(|status| status.stop_reason)]),
            texts([status.and_then(|status| status.stop_text.as_ref())]),
            texts([Some(info.ending)]),
            texts([status.and_then(|status| status.notes.as_ref())]),
            texts([status.and_then(|status| status.user.as_ref())]),
        ],
    )
}

pub(crate) fn modules(table: &Table, file: &TraceFile) -> Result<RecordBatch, DatasetError> {
    let modules = file.description().modules();
    let time = |time: u64| (time != 0).then(|| nanoseconds(time));
    batch(
        table,
        vec![
            texts(
                modules
                    .iter()
                    .map(|module| Some(String::from_utf8_lossy(&module.path))),
            ),
            texts(
                modules.iter().map(|module| {
                    (!module.build_id.is_empty()).then(|| hex::text(&module.build_id))
                }),
            ),
            numbers(
                modules
                    .iter()
                    .map(|module| Some(module.start.0.cast_signed())),
            ),
            numbers(
                modules
                    .iter()
                    .map(|module| Some(module.end.0.cast_signed())),
            ),
            numbers(modules.iter().map(|module| Some(module.bias.cast_signed()))),
            numbers(modules.iter().map(|module| time(module.loaded))),
            numbers(modules.iter().map(|module| time(module.unloaded))),
        ],
    )
}

pub(crate) fn probes(table: &Table, file: &TraceFile) -> Result<RecordBatch, DatasetError> {
    let info = Info::of(file);
    let probes = &info.tracepoints;
    let element = Field::new("element", DataType::Utf8, true);
    let mut commands = ListBuilder::new(StringBuilder::new()).with_field(element);
    for probe in probes {
        commands.append_value(probe.source.cmds.iter().map(Some));
    }
    batch(
        table,
        vec![
            numbers(probes.iter().map(|probe| Some(probe.number.into()))),
            numbers(probes.iter().map(|probe| address(&probe.address))),
            texts(probes.iter().map(|probe| Some(probe.kind))),
            truths(probes.iter().map(|probe| Some(probe.enabled))),
            texts(probes.iter().map(|probe| probe.source.at.as_ref())),
            texts(probes.iter().map(|probe| probe.source.cond.as_ref())),
            Arc::new(commands.finish()),
            numbers(probes.iter().map(|probe| Some(number(probe.pass_count)))),
            numbers(probes.iter().map(|probe| probe.hits.map(number))),
        ],
    )
}

pub(crate) fn spans(
    table: &Table,
    file: &TraceFile,
    program: &Program,
) -> Result<RecordBatch, DatasetError> {
    let mut spans: Vec<_> = file.spans().iter().collect();
    spans.sort_by_key(|span| (span.start_ns, span.entry));
    let entry = |number: FrameNumber| file.frame(number);
    let function = |span: &tracewire_tracefile::Span| {
        let time = entry(span.entry)?.timestamp();
        let function = program.symbols(time).function_at(span.function)?;
        Some(function.name)
    };
    batch(
        table,
        vec![
            numbers(spans.iter().map(|span| Some(number(span.frame().0)))),
            numbers(spans.iter().map(|span| span.start_ns.map(number))),
            numbers(spans.iter().map(|span| span.end_ns.map(number))),
            numbers(spans.iter().map(|span| span.duration_ns().map(number))),
            numbers(
                spans
                    .iter()
                    .map(|span| Some(i64::from(entry(span.entry)?.thread()?.0))),
            ),
            numbers(
                spans
                    .iter()
                    .map(|span| Some(i64::from(entry(span.entry)?.tracepoint().0))),
            ),
            texts(spans.iter().map(|span| function(span))),
            numbers(spans.iter().map(|span| Some(span.function.0.cast_signed()))),
            texts(spans.iter().map(|span| Some(span.end.name()))),
            truths(spans.iter().map(|span| Some(span.is_tail_call))),
            numbers(spans.iter().map(|span| {
                let parent = file.spans().at(span.parent?)?;
                Some(number(parent.frame().0))
            })),
            numbers(spans.iter().map(|span| Some(i64::from(span.depth)))),
        ],
    )
}
