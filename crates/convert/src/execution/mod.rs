//! Execution traces in other formats: text, JSON lines, value change dumps, GDB's trace file.

pub mod json;
mod lines;
pub mod trace_file;
pub mod vcd;

use std::ops::{ControlFlow, Range};

use tracewire_exec_trace::recording::{Executed, Recording};

use crate::ConvertError;

pub use lines::{Lines, TextForm};

/// Visits instructions in order, until one cannot be written.
fn each(
    recording: &Recording,
    range: Range<u64>,
    mut visit: impl FnMut(&Executed) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let mut result = Ok(());
    recording.instructions(range, &mut |executed| keep(&mut result, visit(&executed)))?;
    result
}

/// Keeps the first error, which ends the visit.
pub(crate) fn keep(
    result: &mut Result<(), ConvertError>,
    one: Result<(), ConvertError>,
) -> ControlFlow<()> {
    *result = one;
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}
