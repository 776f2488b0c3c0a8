//! A run of several processes: a directory with a trace file for each, shown as a whole.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tracewire_debuginfo::TypeRules;
use tracewire_tracefile::{Part, RunFolder};
use tracewire_views::{
    AggregateView, Condition, FrameRow, Info, JsonWriter, Viewer, by_time, table,
};

use crate::answer::Answer;
use crate::arguments::{InfoArguments, ShowArguments};
use crate::condition::explain_nothing;
use crate::folded_stacks::FoldedStacks;
use crate::frame_output;
use crate::open;
use crate::stdout;

/// How many rows are laid out together.
const ROWS: usize = 1000;

/// The parts of a run of several processes; `None` for a path that is none.
pub fn parts_of(path: &Path) -> anyhow::Result<Option<Vec<Part>>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let open = || -> std::io::Result<_> {
        let run = RunFolder::open(path)?;
        run.map(|run| run.parts()).transpose()
    };
    let Some(parts) = open().with_context(|| format!("{} cannot be read", path.display()))? else {
        return Ok(None);
    };
    if parts.is_empty() {
        anyhow::bail!("{}: the run has no trace file", path.display());
    }
    Ok(Some(parts))
}

/// `info` of a run.
pub fn info(arguments: &InfoArguments, parts: &[Part]) -> anyhow::Result<Answer> {
    let mut output = stdout::output();
    for (index, part) in parts.iter().enumerate() {
        let file = arguments.machine.trace_file(&part.path, &[])?;
        let info = Info::of(&file);
        if arguments.json {
            let mut object = serde_json::to_value(&info)?;
            object["file"] = part.path.display().to_string().into();
            object["process"] = part.process.0.into();
            if let Some(parent) = part.parent {
                object["parent"] = parent.0.into();
            }
            object["program"] = part.program.display().to_string().into();
            writeln!(output, "{object}")?;
            continue;
        }
        if index > 0 {
            writeln!(output)?;
        }
        let child = match part.parent {
            Some(parent) => format!(", child of {parent}"),
            None => String::new(),
        };
        let name = format!("{} (process {}{child})", part.path.display(), part.process);
        write!(output, "{}", table::info(&info, &name))?;
    }
    output.flush()?;
    Ok(Answer::Yes)
}

/// `show` of a run: the frames of all its processes by time, and their common counts.
pub fn show(arguments: &ShowArguments, parts: &[Part]) -> anyhow::Result<Answer> {
    for (name, given) in [
        ("--frame", arguments.frame.is_some()),
        ("--gdb", arguments.gdb),
    ] {
        if given {
            anyhow::bail!(
                "{name} is for the trace file of one process, such as {}",
                parts
                    .first()
                    .map_or(Path::new(""), |part| &part.path)
                    .display()
            );
        }
    }
    let rules = match arguments.raw {
        true => Arc::new(TypeRules::none()),
        false => arguments.types.rules()?,
    };
    let mut opened = open::run(
        parts,
        &arguments.elf,
        arguments.debuginfod,
        arguments.machine,
    )?;
    for (_, _, program) in &mut opened {
        program.set_type_rules(&rules);
    }
    let wanted = arguments.tracepoint;
    let condition = Condition::new(arguments.condition.as_deref());
    if arguments.folded {
        let mut stacks = FoldedStacks::default();
        for (_, file, program) in opened {
            let frames = file.frames();
            let frames =
                frames.filter(|frame| wanted.is_none_or(|wanted| frame.tracepoint().0 == wanted));
            stacks.add(&file, program, frames, &condition)?;
        }
        stacks.write(&mut stdout::output())?;
        return Ok(stacks.answer(&condition));
    }
    let viewers: Vec<Viewer<'_>> = opened
        .iter()
        .map(|(process, file, program)| Viewer::new(file, program).with_process(Some(*process)))
        .collect();
    let origin = opened
        .iter()
        .filter_map(|(_, file, _)| frame_output::origin(file))
        .min();
    let mut output = stdout::output_of(arguments.json);
    let descriptions = opened.iter().map(|(_, file, _)| file.description());
    let aggregates = AggregateView::of_all(descriptions, arguments.tracepoint);
    if arguments.aggregates {
        frame_output::write_aggregates(&mut output, &aggregates, arguments.json)?;
        output.flush()?;
        return Ok(if aggregates.is_empty() {
            Answer::No
        } else {
            Answer::Yes
        });
    }
    // Some frames are not the run.
    let aggregates = match condition.is_given() {
        true => Vec::new(),
        false => aggregates,
    };
    let mut table = table::FrameTable::new(origin);
    let mut rows: Vec<FrameRow> = Vec::new();
    let mut writers: HashMap<*const Viewer<'_>, JsonWriter<'_, '_>> = HashMap::new();
    let mut shown = 0_u64;
    for (viewer, frame) in by_time(&viewers) {
        if wanted.is_some_and(|wanted| frame.tracepoint().0 != wanted)
            || !condition.fits(viewer, frame)?
        {
            continue;
        }
        shown += 1;
        if arguments.json {
            let writer = writers
                .entry(std::ptr::from_ref(viewer))
                .or_insert_with(|| JsonWriter::new(viewer));
            frame_output::write_json(&mut output, writer, frame)?;
            continue;
        }
        rows.push(viewer.row(frame));
        if rows.len() == ROWS {
            output.write_all(table.rows(&std::mem::take(&mut rows)).as_bytes())?;
        }
    }
    if !rows.is_empty() {
        output.write_all(table.rows(&rows).as_bytes())?;
    }
    if shown > 0 && !aggregates.is_empty() && !arguments.json {
        writeln!(output)?;
    }
    frame_output::write_aggregates(&mut output, &aggregates, arguments.json)?;
    output.flush()?;
    if !arguments.json && !condition.is_given() {
        let all = (opened.iter()).flat_map(|(_, file, _)| file.description().tracepoints());
        frame_output::report_skipped(all, wanted);
    }
    if shown == 0 && condition.is_given() {
        explain_nothing(&condition);
        return Ok(Answer::No);
    }
    if shown == 0 && aggregates.is_empty() {
        message!("tracewire: no frame to show");
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}
