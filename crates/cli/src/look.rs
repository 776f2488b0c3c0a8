//! `info`, `show` and `find`: looking at a trace file.

use std::collections::BTreeMap;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::sync::Arc;

use anyhow::Context;
use tracewire_debuginfo::TypeRules;
use tracewire_expr::ExpressionError;
use tracewire_model::{Address, FrameNumber, ThreadId, Tracepoint};
use tracewire_tracefile::{Frame, GrowingFile, RunFolder, Search, TraceFile};
use tracewire_views::{
    AggregateView, Criteria, ElfInfo, FrameView, Info, LineCriterion, Program, Viewer, folded,
    gdb_commands, paused_tracepoints, skipped_hits, table, words,
};

use crate::Answer;
use crate::arguments::{CodePlace, FindArguments, InfoArguments, ShowArguments, tell_hexadecimal};
use crate::execution::{self, Kind};
use crate::follow::{self, Followed, Form, Style};
use crate::frames::FrameRange;
use crate::in_order;
use crate::open;
use crate::progress::Progress;
use crate::several;

/// Standard output, buffered.
pub type Output = BufWriter<anstream::AutoStream<std::io::StdoutLock<'static>>>;

/// Standard output, with colours where a person sees them.
pub fn output() -> Output {
    let stdout = anstream::stdout().lock();
    BufWriter::with_capacity(1 << 16, stdout)
}

/// As [`output`], or for JSON, which has no colours that would have to be looked for and taken out.
pub fn output_of(json: bool) -> Output {
    if !json {
        return output();
    }
    let stdout = anstream::AutoStream::always_ansi(std::io::stdout().lock());
    BufWriter::with_capacity(1 << 16, stdout)
}

/// Writes lines on, with the control characters in them shown and not sent.
pub struct Shown<'o>(pub &'o mut Output);

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = words::printable_lines(&text);
        self.0.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Refuses arguments that are for execution traces.
fn refuse(given: &[(&str, bool)]) -> anyhow::Result<()> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            anyhow::bail!("{name} is for execution traces, and this is a trace file")
        }
        None => Ok(()),
    }
}

/// `info`.
pub fn info(arguments: &InfoArguments) -> anyhow::Result<Answer> {
    if ElfInfo::is_elf(&arguments.file) {
        let info = ElfInfo::read(&arguments.file)?;
        let mut output = output();
        if arguments.json {
            writeln!(output, "{}", info.json())?;
        } else {
            let name = arguments.file.display().to_string();
            write!(output, "{}", table::elf(&info, &name))?;
        }
        output.flush()?;
        return Ok(Answer::Yes);
    }
    if let Some(parts) = several::parts_of(&arguments.file)? {
        return several::info(arguments, &parts);
    }
    let path = match execution::kind(&arguments.file)? {
        Kind::Execution(source) => return execution::look::info(source, arguments),
        Kind::TraceFile(path) => path,
    };
    // What is no trace file, or is not there, is reported first.
    let file = arguments.machine.trace_file(&path, &[])?;
    refuse(&[("--elf", !arguments.elf.is_empty())])?;
    let mut info = Info::of(&file);
    if let Some(machine) = arguments.machine.architecture {
        info.architecture = Some(machine.name().to_owned());
    }
    let mut output = output();
    if arguments.json {
        writeln!(output, "{}", info.json())?;
    } else {
        write!(
            output,
            "{}",
            table::info(&info, &arguments.file.display().to_string())
        )?;
    }
    output.flush()?;
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
    let shown = follow::follow(followed, &style, Vec::new, &mut output_of(arguments.json))?;
    Ok(Some(if shown > 0 { Answer::Yes } else { Answer::No }))
}

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
        Kind::Execution(source) => return execution::look::show(source, arguments),
        Kind::TraceFile(path) => path,
    };
    let file = arguments.machine.trace_file(&path, &arguments.elf)?;
    refuse(&[
        ("--instruction", arguments.instruction.is_some()),
        ("--time", arguments.time.is_some()),
        ("--cpu", arguments.cpu.is_some()),
        ("--memory", !arguments.memory.is_empty()),
    ])?;
    let mut output = output_of(arguments.json);
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
    // One frame, or some of them, are not the run.
    let aggregates = match arguments.frame {
        None if !arguments.folded => aggregates,
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
    let mut shown = 0_u64;
    let progress = if std::io::stdout().is_terminal() {
        Progress::default()
    } else {
        Progress::over_frames(&arguments.file, &file)
    };
    if arguments.folded {
        shown = write_folded(&mut output, &file, program, chosen)?;
        output.flush()?;
        drop(progress);
        if shown == 0 {
            message!(
                "tracewire: no frame has a stack: collect it with $stack in a list, or backtrace in a script"
            );
            return Ok(Answer::No);
        }
        return Ok(Answer::Yes);
    }
    if arguments.json {
        let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
            let mut text = Vec::with_capacity(numbers.len() << 10);
            for frame in numbers
                .iter()
                .filter_map(|number| viewer.file().frame(*number))
                // One that is asked for by its number is shown, whatever it is to a span.
                .filter(|frame| range.single || viewer.is_listed(*frame))
            {
                write_json(&mut text, &viewer.view(frame))?;
            }
            Ok(text)
        };
        let write = |text: &[u8]| Ok(output.write_all(text)?);
        shown = in_order::render(&file, program, chosen, &render, write)?;
    } else if range.single {
        let viewer = Viewer::new(&file, &program);
        for frame in chosen {
            table::write_frame(&mut output, &viewer.view(frame), origin(&file))?;
            shown += 1;
        }
    } else {
        shown = write_table(&mut output, &file, program, chosen)?;
    }
    if shown > 0 && !aggregates.is_empty() && !arguments.json {
        writeln!(output)?;
    }
    write_aggregates(&mut output, &aggregates, arguments.json)?;
    output.flush()?;
    drop(progress);
    if arguments.frame.is_none() && !arguments.json {
        tell_skipped(file.description().tracepoints(), wanted);
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

/// Says how many hits made no frame, and which tracepoints were out of the program at times: of one tracepoint, or of all.
pub fn tell_skipped<'t>(
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

/// Writes the stacks of frames, each once and how many frames have it, and gives how many stacks there were.
fn write_folded<'a>(
    output: &mut impl Write,
    file: &'a TraceFile,
    program: Program,
    frames: impl Iterator<Item = Frame<'a>>,
) -> anyhow::Result<u64> {
    let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
        let frames = numbers
            .iter()
            .filter_map(|number| viewer.file().frame(*number));
        let stacks = frames.filter_map(|frame| viewer.stack(frame));
        let lines = stacks.map(|stack| folded(&stack) + "\n");
        Ok(lines.collect::<String>().into_bytes())
    };
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    in_order::render(file, program, frames, &render, |text| {
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match counts.get_mut(line) {
                Some(count) => *count += 1,
                None => drop(counts.insert(line.to_vec(), 1)),
            }
        }
        Ok(())
    })?;
    for (line, count) in &counts {
        output.write_all(line)?;
        writeln!(output, " {count}")?;
    }
    Ok(counts.len() as u64)
}

/// Writes frames as tables, and gives how many there were.
pub fn write_table<'a>(
    output: &mut impl Write,
    file: &'a TraceFile,
    program: Program,
    frames: impl Iterator<Item = Frame<'a>>,
) -> anyhow::Result<u64> {
    let origin = origin(file);
    let render = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
        let frames = numbers
            .iter()
            .filter_map(|number| viewer.file().frame(*number));
        let frames = frames.filter(|frame| viewer.is_listed(*frame));
        let rows: Vec<_> = frames.map(|frame| viewer.row(frame)).collect();
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
pub fn write_json(output: &mut impl Write, view: &FrameView) -> std::io::Result<()> {
    serde_json::to_writer(&mut *output, view).map_err(std::io::Error::from)?;
    output.write_all(b"\n")
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

/// What the tables' times count from: the start of the run where the frames' clock is the status line's, else the
/// first frame's time.
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

fn no_such_frame(number: u64, file: &TraceFile) -> anyhow::Error {
    match file.frame_count() {
        0 => anyhow::anyhow!("there is no frame {number}: the file holds none"),
        frames => anyhow::anyhow!(
            "there is no frame {number}: the file holds {frames}, numbered from 0 to {}",
            frames - 1
        ),
    }
}

/// `find`.
pub fn find(arguments: &FindArguments) -> anyhow::Result<Answer> {
    let path = match execution::kind(&arguments.file)? {
        Kind::Execution(source) => return execution::look::find(source, arguments),
        Kind::TraceFile(path) => path,
    };
    let file = arguments.machine.trace_file(&path, &arguments.elf)?;
    refuse(&[
        ("--writes", arguments.writes.is_some()),
        ("--reads", arguments.reads.is_some()),
        ("--register", arguments.register.is_some()),
        ("--before", arguments.before.is_some()),
        ("--after", arguments.after.is_some()),
        ("--last", arguments.last),
    ])?;
    let mut criteria = criteria(arguments)?;
    let location = match &arguments.pc {
        Some(CodePlace::Location(location)) => Some(location),
        _ => None,
    };
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
        if program.is_empty() {
            anyhow::bail!("--pc {location} needs the program's symbols: name it with --elf");
        }
        let places = program.code_places(location);
        criteria.places = Some(places.with_context(|| format!("--pc {location}"))?);
    }
    let viewer = Viewer::new(&file, &program);
    let limit = if arguments.first { 1 } else { usize::MAX };
    let mut output = output_of(arguments.json);
    let at_once = std::io::stdout().is_terminal();
    let progress = Progress::over_frames(&arguments.file, &file);
    let mut answer = Answer::No;
    let mut matches = criteria.find(&viewer, FrameNumber(arguments.from));
    for frame in matches.by_ref().take(limit) {
        let frame = frame?;
        answer = Answer::Yes;
        let _aside = at_once.then(|| progress.aside());
        if arguments.json {
            write_json(&mut output, &viewer.view(frame))?;
        } else {
            writeln!(output, "{}", frame.number())?;
        }
        if at_once {
            output.flush()?;
        }
    }
    output.flush()?;
    drop(progress);
    if answer == Answer::No {
        explain_nothing(&viewer, &criteria, matches.unknown());
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

/// Says so where nothing is found because no frame says what is looked for: a time, a thread or a cpu that was not
/// collected; a condition that is `unknown` of all frames looked at, because a name is misspelt or not collected.
fn explain_nothing(viewer: &Viewer<'_>, criteria: &Criteria, unknown: Option<&ExpressionError>) {
    for search in &criteria.searches {
        let (tells, variable): (fn(&Frame<'_>) -> bool, _) = match search {
            Search::Time { .. } => (|frame| frame.timestamp().is_some(), "trace_timestamp"),
            Search::Thread(_) => (|frame| frame.thread().is_some(), "trace_thread"),
            Search::Cpu(_) => (|frame| frame.cpu().is_some(), "trace_cpu"),
            _ => continue,
        };
        if !viewer.file().frames().any(|frame| tells(&frame)) {
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
