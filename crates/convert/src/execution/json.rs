//! JSON lines of an execution trace: an object for each instruction, before them one for each value at the start.

use std::io::Write;
use std::ops::Range;

use serde_json::{Map, Value};
use tracewire_exec_analysis::view::Viewer;
use tracewire_exec_trace::recording::Recording;

use super::{each, keep};
use crate::ConvertError;

/// Writes a range of instructions.
///
/// # Errors
/// When the recording's file is damaged, or the result cannot be written.
pub fn write(
    recording: &Recording,
    viewer: &Viewer<'_>,
    range: Range<u64>,
    out: &mut impl Write,
) -> Result<(), ConvertError> {
    let mut put = |object: Map<String, Value>| -> Result<(), ConvertError> {
        Ok(writeln!(out, "{}", Value::Object(object))?)
    };
    if range.start == 0 {
        let mut result = Ok(());
        recording
            .for_each_at_start(&mut |effect| keep(&mut result, put(viewer.start_json(&effect))))?;
        result?;
    }
    each(recording, range, |executed| {
        put(viewer.executed_json(executed))
    })
}
