//! Faults of the description: its single lines, and their facts about the file.

use std::collections::HashSet;

use crate::finding::{Fault, Place};
use tracewire_arch::RegisterLayout;
use tracewire_model::{Address, Status, TracepointNumber};
use tracewire_tracefile::raw::{parse_paused, parse_served, parse_skipped};
use tracewire_tracefile::{MAX_LINE, Module, RegisterBlockLine, TraceFile};

pub(super) fn check(file: &TraceFile, report: &mut dyn FnMut(Place, Fault)) {
    let description = file.description();
    for problem in description.problems() {
        report(Place::Line(problem.line), Fault::Line(problem.kind.clone()));
    }
    for line in description
        .lines()
        .filter(|line| line.text.len() > MAX_LINE)
    {
        report(Place::Line(line.number), Fault::LongLine(line.text.len()));
    }
    for line in description.unknown_lines() {
        let word = line.text.split(|byte| *byte == b' ').next();
        report(
            Place::Line(line.number),
            Fault::UnknownLine(shown(word.unwrap_or_default())),
        );
    }
    match (description.register_block(), file.register_block_size()) {
        (None, _) | (Some(RegisterBlockLine { hexadecimal: 0, .. }), _) => {
            report(Place::File, Fault::NoRegisterBlockSize)
        }
        (Some(line), Some(decimal)) if line.hexadecimal != decimal => {
            let hexadecimal = line.hexadecimal;
            report(
                Place::File,
                Fault::DecimalSize {
                    decimal,
                    hexadecimal,
                },
            );
        }
        _ => {}
    }
    if let Some(error) = file.layout_error() {
        report(Place::File, Fault::Layout(error.clone()));
    }
    // A block may end before the last registers: those are unavailable.
    let is_end = |layout: &RegisterLayout, block: u32| {
        let mut registers = layout.registers().iter();
        layout.size() == block || registers.any(|register| register.offset == block)
    };
    if let (Some(layout), Some(block)) = (file.layout(), file.register_block_size())
        && !is_end(layout, block)
    {
        report(
            Place::File,
            Fault::LayoutSize {
                layout: layout.size(),
                block,
            },
        );
    }
    let tracepoints = description.tracepoints().iter();
    let defined: HashSet<_> = tracepoints.map(|one| one.definition.key()).collect();
    for line in description.lines() {
        check_line(line.text, &defined, &mut |fault| {
            report(Place::Line(line.number), fault);
        });
    }
    let Some(status) = description.status().map(|status| &status.fields) else {
        report(Place::File, Fault::NoStatus);
        return;
    };
    let found = file.frame_count();
    if let Some(declared) = status.frames.filter(|declared| *declared != found) {
        report(Place::File, Fault::FrameCount { declared, found });
    }
    if let (Some(frames), Some(created)) = (status.frames, status.frames_created)
        && frames > created
    {
        report(Place::File, Fault::FramesCreated { frames, created });
    }
}

/// Checks a line that can be parsed for warnings.
fn check_line(
    text: &[u8],
    defined: &HashSet<(TracepointNumber, Address)>,
    report: &mut dyn FnMut(Fault),
) {
    let Some(space) = memchr::memchr(b' ', text) else {
        return;
    };
    let rest = &text[space + 1..];
    match &text[..space] {
        b"status" => {
            if let Ok(status) = Status::parse_line(rest) {
                check_status_fields(&status, report);
            }
        }
        b"served" => {
            let (_, keys) = parse_served(rest).unwrap_or_default();
            let unknown = keys.into_iter().filter(|key| !defined.contains(key));
            unknown
                .for_each(|(number, address)| report(Fault::ServedUndefined { number, address }));
        }
        b"skipped" => {
            let all = parse_skipped(rest).unwrap_or_default();
            let unknown = all.into_iter().filter(|(key, _)| !defined.contains(key));
            unknown.for_each(|((number, address), _)| {
                report(Fault::SkippedUndefined { number, address });
            });
        }
        b"paused" => {
            let all = parse_paused(rest).unwrap_or_default();
            let unknown = all.into_iter().filter(|(key, _)| !defined.contains(key));
            unknown.for_each(|((number, address), _)| {
                report(Fault::PausedUndefined { number, address });
            });
        }
        b"module" => {
            if let Ok(Module { start, end, .. }) = Module::parse(rest)
                && end < start
            {
                report(Fault::ModuleEnd { start, end });
            }
        }
        _ => {}
    }
}

fn check_status_fields(status: &Status, report: &mut dyn FnMut(Fault)) {
    if let Some(field) = status.unread_by_gdb() {
        report(Fault::StatusReply(shown(field.as_bytes())));
    }
    let refused = status.refused_fields();
    for field in &refused {
        match field.split_once(':') {
            Some((name, _)) => report(Fault::StatusRefused(shown(name.as_bytes()))),
            None => report(Fault::StatusField(shown(field.as_bytes()))),
        }
    }
    for (name, value) in &status.fields.other {
        if refused
            .iter()
            .any(|field| **field == *name || **field == format!("{name}:{value}"))
        {
            continue;
        }
        let fault = match Status::is_known(name) {
            true => Fault::StatusValue,
            false => Fault::UnknownStatusField,
        };
        report(fault(shown(name.as_bytes())));
    }
}

/// A word of the file in printable form, cut to a limit.
fn shown(word: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = word.get(..LONGEST).unwrap_or(word).escape_ascii();
    let rest = if word.len() > LONGEST { "…" } else { "" };
    format!("{text}{rest}")
}
