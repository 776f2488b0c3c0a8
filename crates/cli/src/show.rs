//! `show`: frames as tables, JSON lines or GDB commands.

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use tracewire_debuginfo::TypeRules;
use tracewire_model::FrameNumber;
use tracewire_tracefile::{GrowingFile, RunFolder, TraceFile};
use tracewire_views::{AggregateView, Condition, JsonWriter, Viewer, gdb_commands, table};

use crate::answer::Answer;
use crate::arguments::ShowArguments;
use crate::condition::explain_nothing;
use crate::execution::{self, FileKind, Kind, refuse_options};
use crate::folded_stacks::FoldedStacks;
use crate::follow::{self, Followed, Form, Style};
use crate::frame_output::{origin, report_skipped, write_aggregates, write_table};
use crate::frames::FrameRange;
use crate::in_order;
use crate::open;
use crate::progress::Progress;
use crate::several;
use crate::stdout::output_of;

/// `show`.
pub fn show(arguments: &ShowArguments) -> anyhow::Result<Answer> {
    if arguments.follow
        && let Some(answer) = show_as_they_come(arguments)?
    {
        return Ok(answer);
    }
    if let Some(parts) = several::parts_of(&arguments.file)? {
        return several::show(arguments, &parts);
    }
    let path = match execution::kind(&arguments.file)? {
        Kind::Execution(source) => return execution::show::show(source, arguments),
        Kind::TraceFile(path) => path,
    };
    let file = arguments.machine.trace_file(&path, &arguments.elf)?;
    refuse_options(
        &[
            ("--instruction", arguments.instruction.is_some()),
            ("--time", arguments.time.is_some()),
            ("--cpu", arguments.cpu.is_some()),
            ("--memory", !arguments.memory.is_empty()),
        ],
        FileKind::TraceFile,
    )?;
    let mut output = output_of(arguments.json);
    if arguments.gdb && file.lean().is_some() {
        anyhow::bail!(
            "GDB opens no lean recording: `tracewire convert {} OUT.tf` makes a trace file of it",
            arguments.file.display()
        );
    }
    if arguments.gdb {
        let path = std::path::absolute(&arguments.file)?;
        let named: Result<Vec<_>, _> = arguments.elf.iter().map(std::path::absolute).collect();
        write!(output, "{}", gdb_commands(&file, &path, &named?)?)?;
        output.flush()?;
        return Ok(Answer::Yes);
    }
    let range = arguments.frame.unwrap_or(FrameRange {
        start: 0,
        end: None,
        single: false,
    });
    let frames = file.frame_count();
    if range.single && range.start >= frames {
        return Err(no_such_frame(range.start, &file));
    }
    let aggregates = AggregateView::of(file.description(), arguments.tracepoint);
    if arguments.aggregates {
        write_aggregates(&mut output, &aggregates, arguments.json)?;
        output.flush()?;
        return Ok(if aggregates.is_empty() {
            Answer::No
        } else {
            Answer::Yes
        });
    }
    let condition = Condition::new(arguments.condition.as_deref());
    // One frame, or some of them, are not the run.
    let aggregates = match arguments.frame {
        None if !arguments.folded && !condition.is_given() => aggregates,
        _ => Vec::new(),
    };
    let mut program = open::program(&file, &arguments.elf, arguments.debuginfod)?;
    program.set_type_rules(&match arguments.raw {
        true => Arc::new(TypeRules::none()),
        false => arguments.types.rules()?,
    });
    let wanted = arguments.tracepoint;
    let chosen = (range.start..range.end.unwrap_or(frames).min(frames))
        .filter_map(|number| file.frame(FrameNumber(number)))
        .filter(|frame| wanted.is_none_or(|wanted| frame.tracepoint().0 == wanted));
    // A frame that is requested by its number is shown, with any role in a span.
    let is_single = range.single && !condition.is_given();
    let progress = if std::io::stdout().is_terminal() {
        Progress::default()
    } else {
        Progress::over_frames(&arguments.file, &file)
    };
    if arguments.folded {
        let mut stacks = FoldedStacks::default();
        stacks.add(&file, program, chosen, &condition)?;
        stacks.write(&mut output)?;
        drop(progress);
        return Ok(stacks.answer(&condition));
    }
    let mut shown = 0_u64;
    if arguments.json {
        let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
            let mut text = Vec::with_capacity(numbers.len() << 11);
            let mut writer = JsonWriter::new(viewer);
            for frame in numbers
                .iter()
                .filter_map(|number| viewer.file().frame(*number))
            {
                if is_single || condition.fits(viewer, frame)? {
                    writer.write(frame, &mut text);
                    text.push(b'\n');
                }
            }
            Ok(text)
        };
        let write = |text: &[u8]| Ok(output.write_all(text)?);
        shown = in_order::render(&file, program, chosen, &render, write)?;
    } else if is_single {
        let viewer = Viewer::new(&file, &program);
        for frame in chosen {
            table::write_frame(&mut output, &viewer.view(frame), origin(&file))?;
            shown += 1;
        }
    } else {
        shown = write_table(&mut output, &file, program, chosen, &condition)?;
    }
    if shown > 0 && !aggregates.is_empty() && !arguments.json {
        writeln!(output)?;
    }
    write_aggregates(&mut output, &aggregates, arguments.json)?;
    output.flush()?;
    drop(progress);
    if arguments.frame.is_none() && !condition.is_given() && !arguments.json {
        report_skipped(file.description().tracepoints(), wanted);
    }
    let has_looked = !is_single && shown > 0 && aggregates.is_empty();
    if condition.fitting() == 0 && (condition.is_given() || has_looked) {
        explain_nothing(&condition);
        return Ok(Answer::No);
    }
    if shown == 0 && aggregates.is_empty() {
        message!("tracewire: no frame to show: the file holds {frames}");
        return Ok(if frames == 0 && range.start == 0 && wanted.is_none() {
            Answer::Yes
        } else {
            Answer::No
        });
    }
    Ok(Answer::Yes)
}

/// `show --follow`; `None` where no recorder writes the file.
fn show_as_they_come(arguments: &ShowArguments) -> anyhow::Result<Option<Answer>> {
    let followed = match RunFolder::open(&arguments.file)? {
        Some(run) if run.is_written()? => Followed::Run(run),
        Some(_) => return Ok(None),
        None => match GrowingFile::open(&arguments.file)? {
            Some(growing) => Followed::File(Box::new(growing)),
            None => return Ok(None),
        },
    };
    let rules = match arguments.raw {
        true => Arc::new(TypeRules::none()),
        false => arguments.types.rules()?,
    };
    let form = if arguments.json {
        Form::Json
    } else {
        Form::Table
    };
    let style = Style {
        form,
        rules,
        elf: arguments.elf.clone(),
        tracepoint: arguments.tracepoint,
    };
    let condition = Condition::new(arguments.condition.as_deref());
    let output = &mut output_of(arguments.json);
    let shown = follow::follow(followed, &style, &condition, Vec::new, output)?;
    if shown == 0 && condition.is_given() {
        explain_nothing(&condition);
    }
    Ok(Some(if shown > 0 { Answer::Yes } else { Answer::No }))
}

fn no_such_frame(number: u64, file: &TraceFile) -> anyhow::Error {
    match file.frame_count() {
        0 => anyhow::anyhow!("there is no frame {number}: the file holds none"),
        frames => anyhow::anyhow!(
            "there is no frame {number}: the file holds {frames}, numbered from 0 to {}",
            frames - 1
        ),
    }
}
