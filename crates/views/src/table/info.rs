//! `info` for people.

use std::fmt::Write;

use super::{FAINT, STRONG, WARNING, cell, lines_of, styled, table};
use tracewire_model::SpanRole;

use crate::info::{Info, StatusInfo, TracepointInfo};
use crate::words::{bytes, count, date, duration, printable};

/// `info`.
#[must_use]
pub fn info(info: &Info, name: &str) -> String {
    let mut text = String::new();
    let machine = info.architecture.as_deref().unwrap_or("unknown machine");
    let _ = writeln!(
        text,
        "{}: {}, {machine}, {}-endian, {}",
        styled(STRONG, printable(name)),
        match info.kind {
            "lean-recording" => "lean recording",
            _ => "GDB trace file",
        },
        info.byte_order,
        count(info.frames, "frame"),
    );
    if let Some(status) = &info.status {
        text.push_str(&status_text(status, info.frames));
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
                format!("${}", cell(&variable.name)),
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
                cell(&module.path),
                module.start.clone(),
                cell(module.build_id.as_deref().unwrap_or_default()),
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

/// The lines about the run of a file with so many frames.
fn status_text(status: &StatusInfo, found: u64) -> String {
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
    if let Some((frames, created)) = status.kept_and_made(found) {
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
    for (name, words) in [("user", &status.user), ("notes", &status.notes)] {
        if let Some(words) = words.as_deref().filter(|words| !words.is_empty()) {
            let _ = writeln!(text, "{} {}", label(name), printable(words));
        }
    }
    for other in &status.other {
        let _ = writeln!(text, "{} {}", label("also"), printable(other));
    }
    text
}

/// The state of a run, in words.
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
        Some("tstop") if !text.is_empty() => format!("stopped{text}"),
        Some("tstop") => "stopped by the user".to_owned(),
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
        _ => format!("stopped for an unknown reason{text}"),
    }
}

fn tracepoints(text: &mut String, info: &Info) {
    if info.tracepoints.is_empty() {
        return;
    }
    let mut rows = table(&["Tracepoint", "Address", "", "Hits", "Usage", "What"]);
    let mut by_number: Vec<_> = info.tracepoints.iter().collect();
    by_number.sort_by_key(|tracepoint| tracepoint.number);
    for tracepoint in by_number {
        let printed = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
        let mut what = vec![what_line(tracepoint)];
        // A block of `while-stepping` has no other one in it.
        let mut is_inside = false;
        for command in &tracepoint.source.cmds {
            is_inside &= command.trim() != "end";
            let indent = if is_inside { "    " } else { "  " };
            what.push(format!("{indent}{}", cell(command)));
            is_inside |= opens_block(command);
        }
        if let Some(mechanism) = &tracepoint.mechanism {
            let why = tracepoint
                .mechanism_reason
                .as_ref()
                .map_or_else(String::new, |why| format!(": {}", cell(why)));
            what.push(format!("by {}{why}", cell(mechanism)));
        }
        if let Some(skipped) = tracepoint.skipped {
            let hits = count(skipped, "hit");
            let why = match &tracepoint.source.pick {
                Some(_) => "not picked, or the run limited its frames",
                None => "the run limited its frames",
            };
            what.push(format!("{hits} skipped: {why}"));
        }
        if !tracepoint.pauses.is_empty() {
            let times = count(tracepoint.pauses.len() as u64, "time");
            let length = tracepoint.pauses.iter();
            let length = length.map(|pause| pause.to_us.saturating_sub(pause.from_us));
            what.push(format!(
                "out of the program {times}, {} in all, for its budget; hits were not counted then",
                duration(length.fold(0, u64::saturating_add))
            ));
        }
        let mut first = vec![tracepoint.number.to_string()];
        first.resize(what.len(), String::new());
        rows.add_row([
            first.join("\n"),
            tracepoint.address.clone(),
            if tracepoint.enabled { "" } else { "disabled" }.to_owned(),
            printed(tracepoint.hits),
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

/// What happens at a place of a span. What may leave any function has a place that nobody has named.
fn role_words(tracepoint: &TracepointInfo, role: SpanRole) -> String {
    let name = role.name().replace('-', " ");
    if role.is_departure() {
        return format!("{name}, which may end spans");
    }
    let at = tracepoint.source.at.as_deref().map(cell);
    let condition = tracepoint.source.cond.as_deref().map(cell);
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    let pick = tracepoint.source.pick.as_deref().map(cell);
    let pick = pick.map_or_else(String::new, |pick| format!(" {pick}"));
    format!("{}{condition}{pick} ({name})", at.unwrap_or_default())
}

fn what_line(tracepoint: &TracepointInfo) -> String {
    if let Some(role) = tracepoint.span_role {
        return role_words(tracepoint, role);
    }
    let mut words = vec![match (&tracepoint.source.at, tracepoint.kind) {
        (Some(at), "trap") => cell(at),
        (Some(at), kind) => format!("{} ({kind})", cell(at)),
        (None, kind) => format!("({kind})"),
    }];
    match (&tracepoint.source.cond, &tracepoint.condition) {
        (Some(condition), _) => words.push(format!("if {}", cell(condition))),
        (None, Some(bytecode)) => words.push(format!("if bytecode {}", cell(bytecode))),
        (None, None) => {}
    }
    words.extend(tracepoint.source.pick.as_deref().map(cell));
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
