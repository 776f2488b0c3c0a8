//! `convert` on execution traces.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use tracewire_convert::execution::{Lines, json, trace_file, vcd};
use tracewire_convert::{Format, Source as Converted, chrome};
use tracewire_exec_analysis::view::Viewer;
use tracewire_exec_trace::record::InstructionNumber;
use tracewire_exec_trace::recording::Recording;
use tracewire_views::words;

use super::open::{Opened, Source};
use crate::answer::Answer;
use crate::convert::ConvertArguments;
use crate::output;

pub fn run(source: Source, out: &Path, arguments: &ConvertArguments) -> anyhow::Result<Answer> {
    for (name, is_given) in [
        ("--frame", arguments.frame.is_some()),
        ("--time", arguments.time.is_some()),
        ("--where", arguments.condition.is_some()),
        ("--column", !arguments.column.is_empty()),
        ("--split-by", arguments.split_by.is_some()),
    ] {
        if is_given {
            bail!(
                "{name} is for trace files, and {} is an execution trace",
                source.shown().display()
            );
        }
    }
    let format = match &arguments.to {
        Some(name) => Converted::Execution.format(name)?,
        None => Converted::Execution.format_of(out).with_context(|| {
            format!(
                "{}: the name shows no format; expected an ending such as .twx, .trace, .qemu4v, .tarmac, .jsonl, .vcd, \
                 .chrome.json or .tf, or --to",
                out.display()
            )
        })?,
    };
    if arguments.timestamps && format != Format::Vcd {
        bail!("--timestamps is for vcd, and this is {format}");
    }
    let is_stdout = out.as_os_str() == "-";
    let opened = source.open(&arguments.elf, arguments.machine)?;
    let events = opened.recording.summary().events;
    if events > 0 && !matches!(format, Format::Text | Format::Compact) {
        message!(
            "tracewire: note: {} of exceptions and other events are left out: {format} has no form for them (--to text and \
             twx have all lines)",
            words::count(events, "line")
        );
    }
    if is_stdout {
        let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        write(&opened, format, arguments, &mut stdout)?;
        stdout.flush()?;
        return Ok(Answer::Yes);
    }
    let out = &output::check(out)?;
    match format {
        Format::Compact => opened.recording.save_compact(out)?,
        Format::TraceFile => {
            opened.machine()?;
            let registers = opened.registers.as_ref().context("no machine")?;
            let range = range(&opened.recording, arguments);
            let written = trace_file::write(&opened.recording, registers, range, out)?;
            if written.unknown > 0 {
                message!(
                    "tracewire: note: in {} of {} frames registers are zero that the trace has not reported yet",
                    written.unknown,
                    written.frames
                );
            }
        }
        _ => {
            let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty());
            let mut beside = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
                .with_context(|| format!("cannot write {}", out.display()))?;
            let mut sink = BufWriter::with_capacity(1 << 18, beside.as_file_mut());
            write(&opened, format, arguments, &mut sink)?;
            sink.flush()
                .with_context(|| format!("cannot write {}", out.display()))?;
            drop(sink);
            tracewire_mapped_file::verify()?;
            beside
                .persist(out)
                .with_context(|| format!("cannot write {}", out.display()))?;
        }
    }
    Ok(Answer::Yes)
}

fn range(recording: &Recording, arguments: &ConvertArguments) -> std::ops::Range<u64> {
    let range = arguments.instruction;
    let start = range.map_or(0, |range| range.start).min(recording.len());
    let end = range.and_then(|range| range.end).unwrap_or(u64::MAX);
    start..end.min(recording.len()).max(start)
}

fn write(
    opened: &Opened,
    format: Format,
    arguments: &ConvertArguments,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let recording = &opened.recording;
    let range = range(recording, arguments);
    match format {
        Format::Text if arguments.instruction.is_some() => {
            bail!(
                "--instruction makes new lines of a part: expected --to qemu4v, microtesk or tarmac"
            )
        }
        Format::Text => recording.write_text(out)?,
        Format::Lines(form) => {
            let mut lines = Lines::new(recording, form, InstructionNumber(range.start))?;
            lines.write(range, out)?;
            for ((mode, nearest), count) in &lines.other_modes {
                message!(
                    "tracewire: note: {} in the mode {mode}: {format} has none of that name, {nearest} takes its place",
                    words::count(*count, "instruction")
                );
            }
            if lines.without_form > 0 {
                message!(
                    "tracewire: note: {} records are left out: {format} has no form for what is not known",
                    lines.without_form
                );
            }
        }
        Format::JsonLines => {
            let viewer = Viewer::new(
                recording,
                opened.registers.as_ref(),
                opened.symbols.as_ref(),
            );
            json::write(recording, &viewer, range, out)?;
        }
        Format::Vcd => {
            let axis = match arguments.timestamps {
                true => vcd::TimeAxis::Times,
                false => vcd::TimeAxis::Instructions,
            };
            vcd::write(recording, range, axis, out)?;
        }
        Format::Chrome => {
            chrome::write_calls(
                recording,
                opened.machine()?,
                opened.symbols.as_ref(),
                range,
                out,
            )?;
        }
        Format::Csv
        | Format::Ctf
        | Format::Perfetto
        | Format::Otlp
        | Format::Firefox
        | Format::Folded => {
            bail!("{format} is for trace files, and this is an execution trace")
        }
        Format::Compact | Format::TraceFile => {
            bail!("{format} is written to a file: expected a name, not -")
        }
    }
    Ok(())
}
