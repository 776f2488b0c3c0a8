//! `show` for people.

use std::fmt::Write;

use super::{FAINT, FEW_REGISTERS, STRONG, WARNING, lines_of, styled, table};
use crate::frame::{FrameView, ValueView};
use crate::words::{bytes, count, printable};

/// `show` of many frames: one row a frame and a line a value. `origin` is the time that times count from.
#[must_use]
pub fn frames(views: &[FrameView], origin: Option<u64>) -> String {
    let timed = views.iter().any(|view| view.time_us.is_some());
    let threaded = views.iter().any(|view| view.thread.is_some());
    let placed = views
        .iter()
        .any(|view| view.marker.is_some() || view.function.is_some() || view.file.is_some());
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
    words.extend(view.marker.as_deref().map(printable));
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
        lines.push(format!("$_sdata = {}", text_or_digits(data)));
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
    if !view.registers.is_empty() || !view.unavailable_registers.is_empty() {
        let _ = writeln!(text, "{}", styled(STRONG, "registers"));
        let names = view.registers.0.iter().map(|(name, _)| name);
        let width = names
            .chain(&view.unavailable_registers)
            .map(String::len)
            .max()
            .unwrap_or(0);
        let many = view.registers.0.len() > FEW_REGISTERS;
        let mut zero = 0_u64;
        for (name, value) in &view.registers.0 {
            if many && value == "0x0" {
                zero += 1;
                continue;
            }
            // A vector has many forms; `--json` has them.
            let told = view.register_values.0.iter().find(|(of, _)| of == name);
            let told = told.filter(|(_, told)| !told.starts_with('{'));
            let told = told.map_or_else(String::new, |(_, told)| format!(" {}", printable(told)));
            let _ = writeln!(text, "  {:<width$} {value}{told}", printable(name));
        }
        for name in &view.unavailable_registers {
            let unavailable = styled(FAINT, "<unavailable>");
            let _ = writeln!(text, "  {:<width$} {unavailable}", printable(name));
        }
        if zero > 0 {
            let _ = writeln!(
                text,
                "  {}",
                styled(FAINT, format_args!("{zero} more are 0"))
            );
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

/// What a marker has said: mostly text.
fn text_or_digits(digits: &str) -> String {
    let bytes: Option<Vec<u8>> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect();
    match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) if !text.chars().any(char::is_control) => format!("\"{text}\""),
        _ => digits.to_owned(),
    }
}
