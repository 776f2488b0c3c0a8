//! `show` for people.

use std::io;

use super::{FAINT, FEW_REGISTERS, STRONG, WARNING, cell, lines_of, styled, table};
use crate::frame::{Bytes, FrameView, ValueView};
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
        let step = (view.stepping == Some(true)).then_some(" (step)");
        row.push(place_words(view, cell) + step.unwrap_or_default());
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

/// Where a frame is, its words made safe by `shown`.
fn place_words(view: &FrameView, shown: fn(&str) -> String) -> String {
    let mut words = Vec::new();
    words.extend(view.marker.as_deref().map(shown));
    words.extend(view.function.as_deref().map(shown));
    if let Some(file) = &view.file {
        let file = file.strip_prefix("./").unwrap_or(file);
        let line = view
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        words.push(format!("{}{line}", shown(file)));
    }
    if words.is_empty() {
        words.push(view.pc.clone().unwrap_or_else(|| "?".to_owned()));
    }
    words.join(" ")
}

/// An expression and its value, made safe by `shown`.
fn value_line(value: &ValueView, shown: fn(&str) -> String) -> String {
    let (expression, told) = (shown(&value.expression), shown(&value.value));
    match value.error {
        Some(_) => format!("{expression} = {}", styled(WARNING, told)),
        None => format!("{expression} = {told}"),
    }
}

/// What a frame saw, a line each: the values, or what stands in the frame where no symbols are known.
fn value_lines(view: &FrameView) -> Vec<String> {
    if !view.values.is_empty() {
        let line = |value| value_line(value, cell);
        return view.values.iter().map(line).collect();
    }
    let mut words = Vec::new();
    if !view.registers.is_empty() {
        words.push(count(view.registers.0.len() as u64, "register"));
    }
    if !view.memory.is_empty() {
        let total: usize = view.memory.iter().map(|piece| piece.bytes.0.len()).sum();
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
    lines.extend(own.map(|(name, value)| format!("${} = {value}", cell(name))));
    if let Some(data) = &view.static_data {
        lines.push(format!("$_sdata = {}", cell(&text_or_digits(data))));
    }
    if let Some(unknown) = &view.unknown {
        lines.push(format!("{} not understood", bytes(unknown.0.len() as u64)));
    }
    lines
}

/// The variables that have a column of their own.
fn is_builtin(name: &str) -> bool {
    matches!(name, "trace_timestamp" | "trace_thread" | "trace_cpu")
}

/// `show` of one frame: everything in it.
///
/// # Errors
/// When it cannot be written.
pub fn write_frame(
    out: &mut impl io::Write,
    view: &FrameView,
    origin: Option<u64>,
) -> io::Result<()> {
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
    writeln!(out, "{}", styled(STRONG, head.join(", ")))?;
    let place = place_words(view, printable);
    match &view.pc {
        Some(pc) if *pc != place => {
            writeln!(out, "{place} {}", styled(FAINT, pc))?;
        }
        _ => {
            writeln!(out, "{place}")?;
        }
    }
    for value in &view.values {
        let named = value.type_name.as_deref().map_or_else(String::new, |name| {
            format!("{} ", styled(FAINT, format_args!("({})", printable(name))))
        });
        writeln!(out, "  {named}{}", value_line(value, printable))?;
    }
    if !view.variables.is_empty() {
        writeln!(out, "{}", styled(STRONG, "variables"))?;
        for (name, value) in &view.variables.0 {
            writeln!(out, "  ${} = {value}", printable(name))?;
        }
    }
    if !view.registers.is_empty() || !view.unavailable_registers.is_empty() {
        writeln!(out, "{}", styled(STRONG, "registers"))?;
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
            writeln!(out, "  {:<width$} {value}{told}", printable(name))?;
        }
        for name in &view.unavailable_registers {
            let unavailable = styled(FAINT, "<unavailable>");
            writeln!(out, "  {:<width$} {unavailable}", printable(name))?;
        }
        if zero > 0 {
            writeln!(
                out,
                "  {}",
                styled(FAINT, format_args!("{zero} more are 0"))
            )?;
        }
    }
    for piece in &view.memory {
        writeln!(out, "{} {}", styled(STRONG, "memory"), piece.address)?;
        dump(out, &piece.bytes.0)?;
    }
    if let Some(data) = &view.static_data {
        writeln!(out, "{}", styled(STRONG, "static tracepoint data"))?;
        dump(out, &data.0)?;
    }
    if let Some(unknown) = &view.unknown {
        writeln!(out, "{}", styled(WARNING, "not understood"))?;
        dump(out, &unknown.0)?;
    }
    Ok(())
}

/// Pairs of digits, 16 bytes a line, with the characters beside.
fn dump(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    for line in bytes.chunks(16) {
        let (mut pairs, mut characters) = (String::new(), String::new());
        for byte in line {
            let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('?');
            pairs.extend([digit(byte >> 4), digit(byte & 15), ' ']);
            let shown = byte.is_ascii_graphic() || *byte == b' ';
            characters.push(if shown { char::from(*byte) } else { '.' });
        }
        writeln!(out, "  {pairs:<48} {}", styled(FAINT, characters))?;
    }
    Ok(())
}

/// What a marker has said: mostly text.
fn text_or_digits(bytes: &Bytes) -> String {
    match std::str::from_utf8(&bytes.0) {
        Ok(text) if !text.contains(char::is_control) => format!("\"{text}\""),
        _ => bytes.to_string(),
    }
}
