//! Frames and aggregates as tables and as lines of JSON, of all commands that show them.

use std::io::Write;

use tracewire_model::{FrameNumber, Tracepoint};
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{
    AggregateView, Condition, JsonWriter, Program, Viewer, paused_tracepoints, skipped_hits, table,
};

use crate::in_order;

/// How long a line of JSON usually is, in bytes.
const USUAL_LINE: usize = 2048;

/// Writes the frames of a list for which a condition is true as tables. Returns how many frames were looked at.
pub fn write_table<'a>(
    output: &mut impl Write,
    file: &'a TraceFile,
    program: Program,
    frames: impl Iterator<Item = Frame<'a>>,
    condition: &Condition<'_>,
) -> anyhow::Result<u64> {
    let origin = origin(file);
    let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
        let mut rows = Vec::with_capacity(numbers.len());
        for frame in numbers
            .iter()
            .filter_map(|number| viewer.file().frame(*number))
        {
            if condition.fits(viewer, frame)? {
                rows.push(viewer.row(frame));
            }
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        Ok(table::frames(&rows, origin).into_bytes())
    };
    in_order::render(file, program, frames, &render, |text| {
        Ok(output.write_all(text)?)
    })
}

/// Writes a frame as a JSON object, in a line.
pub fn write_json<'a>(
    output: &mut impl Write,
    writer: &mut JsonWriter<'_, 'a>,
    frame: Frame<'a>,
) -> std::io::Result<()> {
    output.write_all(&json_line(writer, frame))
}

/// A frame as a JSON object, with the end of the line.
pub fn json_line<'a>(writer: &mut JsonWriter<'_, 'a>, frame: Frame<'a>) -> Vec<u8> {
    let mut line = Vec::with_capacity(USUAL_LINE);
    writer.write(frame, &mut line);
    line.push(b'\n');
    line
}

/// Writes aggregates, as tables or as a line a row.
pub fn write_aggregates(
    output: &mut impl Write,
    views: &[AggregateView],
    json: bool,
) -> std::io::Result<()> {
    if !json {
        return write!(output, "{}", table::aggregates(views));
    }
    for row in views.iter().flat_map(AggregateView::json) {
        serde_json::to_writer(&mut *output, &row).map_err(std::io::Error::from)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

/// The origin of the tables' times: the start of the run if the status line has the frames' clock, else the first frame's time.
pub fn origin(file: &TraceFile) -> Option<u64> {
    let first = file.frames().find_map(|frame| frame.timestamp())?;
    let start = file
        .description()
        .status()
        .and_then(|status| status.fields.start_time);
    // More than a year apart means another clock.
    let same_clock = |start: &u64| first.abs_diff(*start) < 366 * 86_400 * 1_000_000;
    start.filter(same_clock).or(Some(first))
}

/// Says how many hits made no frame, and which tracepoints were out of the program at times: of one tracepoint, or of all.
pub fn report_skipped<'t>(
    tracepoints: impl IntoIterator<Item = &'t Tracepoint>,
    wanted: Option<i32>,
) {
    let tracepoints: Vec<&Tracepoint> = (tracepoints.into_iter())
        .filter(|one| wanted.is_none_or(|wanted| one.definition.number.0 == wanted))
        .collect();
    for one in skipped_hits(tracepoints.iter().copied()) {
        message!("tracewire: {one}");
    }
    for one in paused_tracepoints(tracepoints) {
        message!("tracewire: {one}");
    }
}
