//! Trace files for people: aligned text, coloured by the caller's terminal only.
//!
//! The text carries colours always; a caller prints it through a stream that takes them out where nobody can
//! see them.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};

use crate::frame::{FrameView, ValueView};
use crate::info::{Info, StatusInfo, TracepointInfo};
use crate::words::{bytes, count, date, duration, printable};

/// Headings and labels.
const STRONG: Style = Style::new().bold();
/// What is less important than the rest.
const FAINT: Style = Style::new().dimmed();
/// What went wrong.
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Up to how many registers of a frame are shown one by one even where they are 0.
const FEW_REGISTERS: usize = 40;

fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A table without frames, whose lines are never wrapped: what reads it may be a program.
fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .enforce_styling()
        .set_header(
            headings
                .iter()
                .map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)),
        );
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

fn lines_of(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `info`.
#[must_use]
pub fn info(info: &Info, name: &str) -> String {
    let mut text = String::new();
    let machine = info.architecture.as_deref().unwrap_or("unknown machine");
    let _ = writeln!(
        text,
        "{}: GDB trace file, {machine}, {}-endian, {}",
        styled(STRONG, printable(name)),
        info.byte_order,
        count(info.frames, "frame"),
    );
    if let Some(status) = &info.status {
        text.push_str(&status_text(status));
    }
    if let Some(size) = info.register_block_size {
        let registers = info.registers.map_or_else(
            || "no target description".to_owned(),
            |registers| count(registers as u64, "register"),
        );
        let _ = writeln!(
            text,
            "{} {} ({registers})",
            label("registers"),
            bytes(size.into())
        );
    }
    if info.ending == "cut" {
        let place = info.cut_offset.map(|offset| format!(" at offset {offset}"));
        let what = format!(
            "the file is cut off{}; the {} before it are whole",
            place.unwrap_or_default(),
            count(info.frames, "frame")
        );
        let _ = writeln!(text, "{} {}", label("warning"), styled(WARNING, what));
    }
    for problem in &info.problems {
        let what = format!("line {}: {}", problem.line, printable(&problem.message));
        let _ = writeln!(text, "{} {}", label("warning"), styled(WARNING, what));
    }
    tracepoints(&mut text, info);
    if !info.variables.is_empty() {
        let mut rows = table(&["Variable", "Number", "Initial", ""]);
        for variable in &info.variables {
            rows.add_row([
                format!("${}", printable(&variable.name)),
                variable.number.to_string(),
                variable.initial.to_string(),
                if variable.builtin { "builtin" } else { "" }.to_owned(),
            ]);
        }
        let _ = write!(text, "\n{}", lines_of(&rows));
    }
    if !info.modules.is_empty() {
        let mut rows = table(&["Module", "Loaded at", "Build id"]);
        for module in &info.modules {
            rows.add_row([
                printable(&module.path),
                module.start.clone(),
                module.build_id.clone().unwrap_or_default(),
            ]);
        }
        let _ = write!(text, "\n{}", lines_of(&rows));
    }
    for line in &info.unknown_lines {
        let _ = writeln!(text, "{} {}", label("unknown line"), printable(line));
    }
    text
}

fn label(name: &str) -> String {
    styled(FAINT, format_args!("{name:<10}"))
}

fn status_text(status: &StatusInfo) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} {}", label("run"), stop_words(status));
    match (status.start_us, status.stop_us) {
        (Some(start), Some(stop)) if start != 0 => {
            let begun = date(start).map_or_else(String::new, |date| format!("{date}, "));
            let lasted = match stop.checked_sub(start) {
                Some(lasted) => format!("lasted {}", duration(lasted)),
                None => "not ended".to_owned(),
            };
            let _ = writeln!(text, "{} {begun}{lasted}", label("time"));
        }
        _ => {}
    }
    if let (Some(frames), Some(created)) = (status.frames, status.created) {
        let _ = write!(
            text,
            "{} {} kept of {created} made",
            label("frames"),
            frames
        );
        let _ = writeln!(
            text,
            "{}",
            match created.checked_sub(frames) {
                Some(lost) if lost > 0 => format!(" ({lost} discarded)"),
                _ => String::new(),
            }
        );
    }
    if let Some(size) = status.buffer_size {
        let kind = match status.circular {
            Some(true) => ", circular",
            Some(false) => ", linear",
            None => "",
        };
        let free = status.buffer_free.map_or_else(String::new, |free| {
            format!(", {} used", bytes(size.saturating_sub(free)))
        });
        let _ = writeln!(text, "{} {}{kind}{free}", label("buffer"), bytes(size));
    }
    if status.disconnected == Some(true) {
        let _ = writeln!(text, "{} goes on without a debugger", label("detached"));
    }
    for (name, told) in [("user", &status.user), ("notes", &status.notes)] {
        if let Some(told) = told.as_deref().filter(|told| !told.is_empty()) {
            let _ = writeln!(text, "{} {}", label(name), printable(told));
        }
    }
    for other in &status.other {
        let _ = writeln!(text, "{} {}", label("also"), printable(other));
    }
    text
}

/// How a run stands, in words.
#[must_use]
pub fn stop_words(status: &StatusInfo) -> String {
    if status.running {
        return "still running when the file was written".to_owned();
    }
    let at = |number: Option<i32>| {
        number.map_or_else(
            || "a tracepoint".to_owned(),
            |number| format!("tracepoint {number}"),
        )
    };
    let text = status
        .stop_text
        .as_deref()
        .map_or_else(String::new, |text| format!(": {}", printable(text)));
    match status.stop_reason {
        Some("tstop") => format!("stopped by the user{text}"),
        Some("tfull") => format!("stopped because the buffer was full{text}"),
        Some("tdisconnected") => format!("stopped because the debugger went away{text}"),
        Some("tpasscount") => format!(
            "stopped by the pass count of {}{text}",
            at(status.stopping_tracepoint)
        ),
        Some("terror") => format!(
            "stopped by an error in {}{text}",
            at(status.stopping_tracepoint)
        ),
        Some("tnotrun") => format!("never run{text}"),
        _ => format!("stopped for a reason that is not told{text}"),
    }
}

fn tracepoints(text: &mut String, info: &Info) {
    if info.tracepoints.is_empty() {
        return;
    }
    let mut rows = table(&["Tracepoint", "Address", "", "Hits", "Usage", "What"]);
    for tracepoint in &info.tracepoints {
        let told = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
        let mut what = vec![what_line(tracepoint)];
        let mut indent = 1;
        for command in &tracepoint.source.cmds {
            let closes = command.trim() == "end";
            indent -= usize::from(closes && indent > 1);
            what.push(format!("{}{}", "  ".repeat(indent), printable(command)));
            indent += usize::from(opens_block(command));
        }
        let mut first = vec![tracepoint.number.to_string()];
        first.resize(what.len(), String::new());
        rows.add_row([
            first.join("\n"),
            tracepoint.address.clone(),
            if tracepoint.enabled { "" } else { "disabled" }.to_owned(),
            told(tracepoint.hits),
            tracepoint.usage.map_or_else(String::new, bytes),
            what.join("\n"),
        ]);
    }
    let _ = write!(text, "\n{}", lines_of(&rows));
}

fn opens_block(command: &str) -> bool {
    let word = command.split_whitespace().next().unwrap_or_default();
    matches!(word, "ws" | "stepping") || (word.len() >= 5 && "while-stepping".starts_with(word))
}

fn what_line(tracepoint: &TracepointInfo) -> String {
    let mut words = vec![match (&tracepoint.source.at, tracepoint.kind) {
        (Some(at), "trap") => printable(at),
        (Some(at), kind) => format!("{} ({kind})", printable(at)),
        (None, kind) => format!("({kind})"),
    }];
    match (&tracepoint.source.cond, &tracepoint.condition) {
        (Some(condition), _) => words.push(format!("if {}", printable(condition))),
        (None, Some(bytecode)) => words.push(format!("if bytecode {bytecode}")),
        (None, None) => {}
    }
    if tracepoint.pass_count > 0 {
        words.push(format!("passcount {}", tracepoint.pass_count));
    }
    if tracepoint.source.cmds.is_empty() {
        let actions = tracepoint.actions.len();
        if actions > 0 {
            words.push(format!("({})", count(actions as u64, "action")));
        }
        if tracepoint.step_count > 0 {
            words.push(format!("while-stepping {}", tracepoint.step_count));
        }
    }
    words.join(" ")
}

/// `show` of many frames: one row a frame and a line a value. `origin` is the time that times count from.
#[must_use]
pub fn frames(views: &[FrameView], origin: Option<u64>) -> String {
    let timed = views.iter().any(|view| view.time_us.is_some());
    let threaded = views.iter().any(|view| view.thread.is_some());
    let placed = views
        .iter()
        .any(|view| view.function.is_some() || view.file.is_some());
    let mut headings = vec!["Frame", "TP"];
    if timed {
        headings.push("Time");
    }
    if threaded {
        headings.extend(["Thread", "CPU"]);
    }
    headings.extend([if placed { "Where" } else { "PC" }, "What"]);
    let mut rows = table(&headings);
    for view in views {
        let mut row = vec![view.frame.to_string(), view.tracepoint.to_string()];
        if timed {
            row.push(
                view.time_us
                    .map_or_else(String::new, |time| since(time, origin)),
            );
        }
        if threaded {
            row.push(
                view.thread
                    .map_or_else(String::new, |thread| thread.to_string()),
            );
            row.push(view.cpu.map_or_else(String::new, |cpu| cpu.to_string()));
        }
        row.push(place_words(view));
        row.push(value_lines(view).join("\n"));
        rows.add_row(row);
    }
    for (index, heading) in headings.iter().enumerate() {
        if matches!(*heading, "Frame" | "TP" | "Time" | "Thread" | "CPU")
            && let Some(column) = rows.column_mut(index)
        {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    lines_of(&rows)
}

/// A time in microseconds as seconds since `origin`.
fn since(time: u64, origin: Option<u64>) -> String {
    let origin = origin.unwrap_or(0);
    match time.checked_sub(origin) {
        Some(since) => format!("{:.6}", since as f64 / 1e6),
        None => format!("-{:.6}", (origin - time) as f64 / 1e6),
    }
}

fn place_words(view: &FrameView) -> String {
    let mut words = Vec::new();
    if let Some(function) = &view.function {
        words.push(printable(function));
    }
    if let Some(file) = &view.file {
        let file = file.strip_prefix("./").unwrap_or(file);
        let line = view
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        words.push(format!("{}{line}", printable(file)));
    }
    if words.is_empty() {
        words.push(view.pc.clone().unwrap_or_else(|| "?".to_owned()));
    }
    if view.stepping == Some(true) {
        words.push("(step)".to_owned());
    }
    words.join(" ")
}

fn value_line(value: &ValueView) -> String {
    let shown = printable(&value.value);
    match value.error {
        Some(_) => format!(
            "{} = {}",
            printable(&value.expression),
            styled(WARNING, shown)
        ),
        None => format!("{} = {shown}", printable(&value.expression)),
    }
}

/// What a frame saw, a line each: the values, or what stands in the frame where no symbols are known.
fn value_lines(view: &FrameView) -> Vec<String> {
    if !view.values.is_empty() {
        return view.values.iter().map(value_line).collect();
    }
    let mut words = Vec::new();
    if !view.registers.is_empty() {
        words.push(count(view.registers.0.len() as u64, "register"));
    }
    if !view.memory.is_empty() {
        let total: usize = view.memory.iter().map(|piece| piece.bytes.len() / 2).sum();
        words.push(format!("{} of memory", bytes(total as u64)));
    }
    let mut lines = Vec::new();
    if !words.is_empty() {
        lines.push(words.join(", "));
    }
    let own = view
        .variables
        .0
        .iter()
        .filter(|(name, _)| !is_builtin(name));
    lines.extend(own.map(|(name, value)| format!("${} = {value}", printable(name))));
    if let Some(data) = &view.static_data {
        lines.push(format!("$_sdata = {data}"));
    }
    if let Some(unknown) = &view.unknown {
        lines.push(format!(
            "{} not understood",
            bytes(unknown.len() as u64 / 2)
        ));
    }
    lines
}

/// The variables that have a column of their own.
fn is_builtin(name: &str) -> bool {
    matches!(name, "trace_timestamp" | "trace_thread" | "trace_cpu")
}

/// `show` of one frame: everything in it.
#[must_use]
pub fn frame(view: &FrameView, origin: Option<u64>) -> String {
    let mut text = String::new();
    let mut head = vec![
        format!("frame {}", view.frame),
        format!("tracepoint {}", view.tracepoint),
    ];
    if view.stepping == Some(true) {
        head.push("while-stepping".to_owned());
    }
    if let Some(time) = view.time_us {
        head.push(format!("at {} s", since(time, origin)));
    }
    if let Some(thread) = view.thread {
        head.push(format!("thread {thread}"));
    }
    if let Some(cpu) = view.cpu {
        head.push(format!("cpu {cpu}"));
    }
    let _ = writeln!(text, "{}", styled(STRONG, head.join(", ")));
    let place = place_words(&FrameView {
        stepping: None,
        ..view.clone()
    });
    match &view.pc {
        Some(pc) if *pc != place => {
            let _ = writeln!(text, "{place} {}", styled(FAINT, pc));
        }
        _ => {
            let _ = writeln!(text, "{place}");
        }
    }
    for value in &view.values {
        let named = value.type_name.as_deref().map_or_else(String::new, |name| {
            format!("{} ", styled(FAINT, format_args!("({})", printable(name))))
        });
        let _ = writeln!(text, "  {named}{}", value_line(value));
    }
    if !view.variables.is_empty() {
        let _ = writeln!(text, "{}", styled(STRONG, "variables"));
        for (name, value) in &view.variables.0 {
            let _ = writeln!(text, "  ${} = {value}", printable(name));
        }
    }
    if !view.registers.is_empty() {
        let _ = writeln!(text, "{}", styled(STRONG, "registers"));
        let width = view
            .registers
            .0
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        let many = view.registers.0.len() > FEW_REGISTERS;
        let mut zero = 0_u64;
        for (name, value) in &view.registers.0 {
            if many && value == "0x0" {
                zero += 1;
                continue;
            }
            let _ = writeln!(text, "  {:<width$} {value}", printable(name));
        }
        if zero > 0 {
            let _ = writeln!(text, "  {}", styled(FAINT, format_args!("{zero} more are 0")));
        }
    }
    for piece in &view.memory {
        let _ = writeln!(text, "{} {}", styled(STRONG, "memory"), piece.address);
        dump(&mut text, &piece.bytes);
    }
    if let Some(data) = &view.static_data {
        let _ = writeln!(text, "{}", styled(STRONG, "static tracepoint data"));
        dump(&mut text, data);
    }
    if let Some(unknown) = &view.unknown {
        let _ = writeln!(text, "{}", styled(WARNING, "not understood"));
        dump(&mut text, unknown);
    }
    text
}

/// Pairs of digits, 16 bytes a line, with the characters beside.
fn dump(text: &mut String, digits: &str) {
    for line in digits.as_bytes().chunks(32) {
        let mut characters = String::new();
        let mut pairs = String::new();
        for pair in line.chunks(2) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            let byte = u8::from_str_radix(pair, 16).unwrap_or(0);
            let shown = byte.is_ascii_graphic() || byte == b' ';
            characters.push(if shown { char::from(byte) } else { '.' });
            pairs.push_str(pair);
            pairs.push(' ');
        }
        let _ = writeln!(text, "  {pairs:<48} {}", styled(FAINT, characters));
    }
}
