//! `find`: which frames are at a place, time or thread, or have a value.

use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use anyhow::Context as _;
use tracewire_expr::ExpressionError;
use tracewire_model::{Address, FrameNumber, ThreadId};
use tracewire_tracefile::{Frame, Part, Search, TraceFile};
use tracewire_views::{Criteria, JsonWriter, LineCriterion, Program, Viewer, words};

use crate::answer::Answer;
use crate::arguments::{CodePlace, FindArguments, tell_hexadecimal};
use crate::execution::{self, FileKind, Kind, refuse_options};
use crate::frame_output::write_json;
use crate::in_order;
use crate::open;
use crate::progress::Progress;
use crate::several;
use crate::stdout::output_of;

/// `find`.
pub fn find(arguments: &FindArguments) -> anyhow::Result<Answer> {
    if let Some(parts) = several::parts_of(&arguments.file)? {
        return find_in_run(arguments, &parts);
    }
    let path = match execution::kind(&arguments.file)? {
        Kind::Execution(source) => return execution::find::find(source, arguments),
        Kind::TraceFile(path) => path,
    };
    let file = arguments.machine.trace_file(&path, &arguments.elf)?;
    refuse_execution_options(arguments)?;
    let mut criteria = criteria(arguments)?;
    let location = location(arguments);
    let symbols_wanted = arguments.json
        || criteria.line.is_some()
        || criteria.condition.is_some()
        || location.is_some();
    let program = if symbols_wanted || !arguments.elf.is_empty() {
        open::program(&file, &arguments.elf, arguments.debuginfod)?
    } else {
        Program::default()
    };
    if let Some(line) = &criteria.line {
        line.check(&program)?;
    }
    if let Some(location) = location {
        criteria.places = Some(places_of(location, &program)?);
    }
    let mut output = output_of(arguments.json);
    let at_once = std::io::stdout().is_terminal();
    let progress = Progress::over_frames(&arguments.file, &file);
    let mut answer = Answer::No;
    let matcher = criteria.matcher();
    let look = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
        let mut text = Vec::new();
        let mut writer = JsonWriter::new(viewer);
        let frames = (numbers.iter()).filter_map(|number| viewer.file().frame(*number));
        for frame in frames {
            if !matcher.is_match(viewer, frame)? {
                continue;
            }
            if arguments.json {
                writer.write(frame, &mut text);
                text.push(b'\n');
            } else {
                writeln!(text, "{}", frame.number())?;
            }
            if arguments.first {
                break;
            }
        }
        Ok(text)
    };
    let candidates = criteria.candidates(&file, FrameNumber(arguments.from));
    in_order::map(&file, program, candidates, &look, |text: Vec<u8>| {
        if text.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        answer = Answer::Yes;
        let _aside = at_once.then(|| progress.aside());
        output.write_all(&text)?;
        if at_once {
            output.flush()?;
        }
        Ok(match arguments.first {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    output.flush()?;
    drop(progress);
    if answer == Answer::No {
        explain_nothing(&[&file], &criteria, matcher.unknown().as_ref());
        if let Some(CodePlace::Address {
            address,
            as_hexadecimal: Some(meant),
        }) = arguments.pc
            && file
                .find(Search::ProgramCounter(Address(meant)), None)
                .is_some()
        {
            tell_hexadecimal(address, meant);
        }
    }
    Ok(answer)
}

/// Refuses what is for execution traces.
fn refuse_execution_options(arguments: &FindArguments) -> anyhow::Result<()> {
    refuse_options(
        &[
            ("--writes", arguments.writes.is_some()),
            ("--reads", arguments.reads.is_some()),
            ("--register", arguments.register.is_some()),
            ("--before", arguments.before.is_some()),
            ("--after", arguments.after.is_some()),
            ("--last", arguments.last),
        ],
        FileKind::TraceFile,
    )
}

const fn location(arguments: &FindArguments) -> Option<&String> {
    match &arguments.pc {
        Some(CodePlace::Location(location)) => Some(location),
        _ => None,
    }
}

fn places_of(location: &str, program: &Program) -> anyhow::Result<Vec<Address>> {
    if program.is_empty() {
        anyhow::bail!("--pc {location} needs the program's symbols: name it with --elf");
    }
    let places = program.code_places(location);
    places.with_context(|| format!("--pc {location}"))
}

/// `find` in a run of several processes: the process and the frame number of each, by their times.
fn find_in_run(arguments: &FindArguments, parts: &[Part]) -> anyhow::Result<Answer> {
    refuse_execution_options(arguments)?;
    if arguments.from > 0 {
        anyhow::bail!(
            "--from is for the trace file of one process: each has a frame {}",
            arguments.from
        );
    }
    let criteria = criteria(arguments)?;
    let opened = open::run(
        parts,
        &arguments.elf,
        arguments.debuginfod,
        arguments.machine,
    )?;
    let mut has_line = false;
    let mut searches: Vec<(Viewer<'_>, Criteria)> = Vec::with_capacity(opened.len());
    for (process, file, program) in &opened {
        let mut criteria = criteria.clone();
        if let Some(location) = location(arguments) {
            // Programs of a run differ: one without the place has none of its frames.
            criteria.places = Some(places_of(location, program).unwrap_or_default());
        }
        has_line |= (criteria.line.as_ref()).is_none_or(|line| line.check(program).is_ok());
        searches.push((
            Viewer::new(file, program).with_process(Some(*process)),
            criteria,
        ));
    }
    let mut programs = opened.iter().map(|(_, _, program)| program);
    if let (Some(line), false, Some(program)) = (&criteria.line, has_line, programs.next()) {
        line.check(program)?;
    }
    if let Some(location) = location(arguments)
        && searches
            .iter()
            .all(|(_, criteria)| criteria.places.as_ref().is_some_and(Vec::is_empty))
        && let Some((_, _, program)) = opened.first()
    {
        places_of(location, program)?;
    }
    let mut found: Vec<(u64, usize, FrameNumber)> = Vec::new();
    // Why the condition is unknown of all frames of each process.
    let mut unknown = Vec::new();
    for (index, (viewer, criteria)) in searches.iter().enumerate() {
        let mut matches = criteria.find(viewer, FrameNumber(0));
        // A frame without a time comes with the one before it.
        let mut last = 0;
        for frame in matches.by_ref() {
            let frame = frame?;
            last = frame.timestamp().unwrap_or(last).max(last);
            found.push((last, index, frame.number()));
        }
        unknown.extend(matches.unknown());
    }
    found.sort_by_key(|(time, _, _)| *time);
    if arguments.first {
        found.truncate(1);
    }
    let mut output = output_of(arguments.json);
    let mut writers: Vec<_> = searches
        .iter()
        .map(|(viewer, _)| JsonWriter::new(viewer))
        .collect();
    for (_, index, number) in &found {
        let (Some((viewer, _)), Some(writer)) = (searches.get(*index), writers.get_mut(*index))
        else {
            debug_assert!(false, "each frame is of a file that was searched");
            continue;
        };
        match (
            arguments.json,
            viewer.file().frame(*number),
            viewer.process(),
        ) {
            (true, Some(frame), _) => write_json(&mut output, writer, frame)?,
            (_, _, Some(process)) => writeln!(output, "{process} {number}")?,
            _ => debug_assert!(false, "a frame that was found is there, and its process"),
        }
    }
    output.flush()?;
    if !found.is_empty() {
        return Ok(Answer::Yes);
    }
    let reason = (unknown.first()).filter(|_| unknown.len() == searches.len());
    let files: Vec<&TraceFile> = opened.iter().map(|(_, file, _)| file).collect();
    explain_nothing(&files, &criteria, reason);
    Ok(Answer::No)
}

/// Says so where nothing is found because no frame says what is looked for: a time, a thread or a cpu that was not
/// collected; a condition that is `unknown` of all frames looked at, because a name is misspelt or not collected.
fn explain_nothing(files: &[&TraceFile], criteria: &Criteria, unknown: Option<&ExpressionError>) {
    for search in &criteria.searches {
        let (tells, variable): (fn(&Frame<'_>) -> bool, _) = match search {
            Search::Time { .. } => (|frame| frame.timestamp().is_some(), "trace_timestamp"),
            Search::Thread(_) => (|frame| frame.thread().is_some(), "trace_thread"),
            Search::Cpu(_) => (|frame| frame.cpu().is_some(), "trace_cpu"),
            _ => continue,
        };
        let mut frames = files.iter().flat_map(|file| file.frames());
        if !frames.any(|frame| tells(&frame)) {
            message!("tracewire: no frame has its ${variable}: it was not collected");
        }
    }
    if let Some(reason) = unknown {
        let shown = words::printable_lines(&reason.to_string());
        message!(
            "tracewire: --where could be worked out for none of the frames looked at: {shown}"
        );
    }
}

fn criteria(arguments: &FindArguments) -> anyhow::Result<Criteria> {
    let mut criteria = Criteria {
        condition: arguments.condition.clone(),
        ..Criteria::default()
    };
    if let Some(CodePlace::Address { address, .. }) = arguments.pc {
        let search = Search::ProgramCounter(Address(address));
        criteria.searches.push(search);
    }
    for (bounds, outside) in [(&arguments.range, false), (&arguments.outside, true)] {
        if let Some([a, b]) = bounds.as_deref() {
            if a > b {
                let name = if outside { "--outside" } else { "--range" };
                anyhow::bail!("{name} {a:#x} {b:#x}: expected the lower address first");
            }
            criteria.range(*a, *b, outside);
        }
    }
    if let Some(number) = arguments.tracepoint {
        criteria.tracepoint(number);
    }
    if let Some(time) = &arguments.time {
        let (start, end) = (*time.start(), *time.end());
        criteria.searches.push(Search::Time { start, end });
    }
    if let Some(thread) = arguments.thread {
        criteria.searches.push(Search::Thread(ThreadId(thread)));
    }
    if let Some(cpu) = arguments.cpu {
        criteria.searches.push(Search::Cpu(cpu));
    }
    if let Some(line) = &arguments.line {
        criteria.line = Some(LineCriterion::parse(line).context("--line")?);
    }
    Ok(criteria)
}
