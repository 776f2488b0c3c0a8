//! The lines of a damaged description that are still whole.

use std::collections::HashSet;

use super::{Change, is_kind};
use tracewire_agent_expr::verify;
use tracewire_model::{
    Action, Address, DefinitionContent, DefinitionRecord, SourceKind, TracepointKind,
    TracepointNumber,
};
use tracewire_tracefile::{Description, HEADER, MAX_LINE};

/// The words that lines of a description start with.
const KINDS: [&str; 12] = [
    "R", "status", "tp", "tsv", "tdesc", "module", "module+", "served", "skipped", "paused",
    "count", "redact",
];

/// How much of a lost line is shown.
const SHOWN: usize = 60;

/// The longest damage, in bytes, after which lines are still searched.
const DAMAGE: usize = 512;

/// The rest of a description.
pub(super) struct SalvagedLines {
    pub(super) lines: Vec<Vec<u8>>,
    /// Where frames may start, at the earliest.
    pub(super) frames_start: usize,
}

/// Where lines are taken to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At the first empty line, as in a good file, with any content after it.
    FirstEmpty,
    /// Where no more lines of text with a known word follow: the empty line that ends them may be damage, and may be
    /// damaged.
    LastKnown,
}

/// Takes the lines one by one.
pub(super) fn salvage(bytes: &[u8], end: End, changes: &mut Vec<Change>) -> SalvagedLines {
    let mut lines: Vec<(usize, Vec<u8>)> = Vec::new();
    // The newline of the header may be damaged, and another byte of it become one.
    let mut at = HEADER.len().min(bytes.len());
    let mut number = 2;
    let mut frames_start = at;
    let mut ended = false;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let (line, next) = split_line(rest);
        let text = is_text(line);
        if line.is_empty() || !text {
            // Damage to the line, or the end of all lines.
            let is_end = end == End::FirstEmpty && line.is_empty();
            let goes_on = !is_end && follows_text(&rest[next..]);
            if !goes_on {
                ended = line.is_empty();
                frames_start = if ended { at + next } else { at };
                break;
            }
        }
        // A line without an end is cut.
        if text && !line.is_empty() && line.len() <= MAX_LINE && next > line.len() {
            lines.push((number, line.to_vec()));
        } else {
            changes.push(lost(number, line));
        }
        at += next;
        number += 1;
        frames_start = at;
    }
    if !ended {
        changes.push(Change::EmptyLine);
    }
    drop_bad_lines(&mut lines, changes);
    changes.sort_by_key(|change| match change {
        Change::Header => 0,
        Change::LineLost { line, .. } => *line,
        _ => usize::MAX,
    });
    SalvagedLines {
        lines: lines.into_iter().map(|(_, line)| line).collect(),
        frames_start,
    }
}

/// The line at the start, and where the next one starts.
fn split_line(rest: &[u8]) -> (&[u8], usize) {
    match memchr::memchr(b'\n', rest) {
        Some(end) => (&rest[..end], end + 1),
        None => (rest, rest.len()),
    }
}

fn is_text(line: &[u8]) -> bool {
    str::from_utf8(line).is_ok_and(|text| {
        !text
            .chars()
            .any(|c| c.is_control() && c != '\t' && c != '\r')
    })
}

/// Whether one of the next lines is one of a description: of three, or of as many as damage of a disk's block makes.
fn follows_text(mut rest: &[u8]) -> bool {
    let whole = rest.len();
    let mut lines = 0;
    while lines < 3 || whole - rest.len() < DAMAGE {
        if rest.is_empty() {
            break;
        }
        lines += 1;
        let (line, next) = split_line(rest);
        if is_text(line) && KINDS.iter().any(|kind| is_kind(line, kind)) {
            return true;
        }
        rest = rest.get(next..).unwrap_or_default();
    }
    false
}

fn lost(line: usize, text: &[u8]) -> Change {
    let shown = text.get(..SHOWN).unwrap_or(text);
    Change::LineLost {
        line,
        length: text.len() as u64,
        text: shown.escape_ascii().to_string(),
    }
}

/// Leaves out lines that cannot be understood, except pieces of a tracepoint without a definition, which is
/// made up later.
fn drop_bad_lines(lines: &mut Vec<(usize, Vec<u8>)>, changes: &mut Vec<Change>) {
    lines.retain(|(number, line)| {
        let alone = Description::parse([&line[..], b"\n"].concat());
        let bad = alone.problems().iter().any(|problem| {
            use tracewire_tracefile::ProblemKind::{Merge, ModulePath};
            !matches!(problem.kind, Merge(_) | ModulePath)
        });
        let bad = bad || has_bad_expression(line);
        if bad {
            changes.push(lost(*number, line));
        }
        !bad
    });
    define_tracepoints(lines, changes);
    drop_orphans(lines, changes);
    drop_words_without_place(lines, changes);
}

/// Leaves out parts of paths and strings whose starts are lost, and then those that followed them.
fn drop_orphans(lines: &mut Vec<(usize, Vec<u8>)>, changes: &mut Vec<Change>) {
    loop {
        let texts = lines
            .iter()
            .flat_map(|(_, line)| [&line[..], b"\n"].concat());
        let whole = Description::parse(texts.collect());
        let orphans: HashSet<_> = whole
            .problems()
            .iter()
            .filter(|problem| {
                use tracewire_model::MergeError::Gap;
                use tracewire_tracefile::ProblemKind::{Merge, ModulePath};
                matches!(problem.kind, Merge(Gap { .. }) | ModulePath)
            })
            // Lines are counted from 2 after the header.
            .filter_map(|problem| problem.line.checked_sub(2))
            .collect();
        if orphans.is_empty() {
            return;
        }
        let mut index = 0;
        lines.retain(|(number, line)| {
            let orphan = orphans.contains(&index);
            index += 1;
            if orphan {
                changes.push(lost(*number, line));
            }
            !orphan
        });
    }
}

fn has_bad_expression(line: &[u8]) -> bool {
    let Some(Ok(piece)) = line.strip_prefix(b"tp ").map(DefinitionRecord::parse) else {
        return false;
    };
    match &piece.content {
        DefinitionContent::Definition {
            condition: Some(code),
            ..
        } => !verify(code).is_ok_and(|verified| verified.has_result()),
        DefinitionContent::Actions(actions) | DefinitionContent::StepActions(actions) => actions
            .iter()
            .any(|action| matches!(action, Action::Expression(code) if verify(code).is_err())),
        _ => false,
    }
}

/// Leaves out the user's words for conditions and actions of tracepoints whose location was lost: GDB takes such a
/// tracepoint to be at its address, looks for the words' names there, and without the program's symbols refuses the file.
fn drop_words_without_place(lines: &mut Vec<(usize, Vec<u8>)>, changes: &mut Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let source = |line: &[u8]| {
        let piece = DefinitionRecord::parse(line.strip_prefix(b"tp ")?).ok()?;
        match piece.content {
            DefinitionContent::Source { kind, .. } => Some((piece.number, piece.address, kind)),
            _ => None,
        }
    };
    let placed: HashSet<_> = lines
        .iter()
        .filter_map(|(_, line)| source(line))
        .filter(|(.., kind)| *kind == SourceKind::At)
        .map(|(number, address, _)| (number, address))
        .collect();
    lines.retain(|(number, line)| {
        let keep = source(line)
            .is_none_or(|(tracepoint, address, _)| placed.contains(&(tracepoint, address)));
        if !keep {
            changes.push(lost(*number, line));
        }
        keep
    });
}

/// Makes up a definition before the first piece of every tracepoint that has none there.
fn define_tracepoints(lines: &mut Vec<(usize, Vec<u8>)>, changes: &mut Vec<Change>) {
    let mut defined = HashSet::new();
    let whole = std::mem::take(lines);
    for (number, line) in whole {
        if let Some(Ok(piece)) = line.strip_prefix(b"tp ").map(DefinitionRecord::parse) {
            let definition = matches!(piece.content, DefinitionContent::Definition { .. });
            if defined.insert((piece.number, piece.address)) && !definition {
                changes.push(Change::TracepointMadeUp(piece.number));
                lines.push((number, made_up(piece.number, piece.address)));
            }
        }
        lines.push((number, line));
    }
}

/// The definition of a tracepoint of which only the address is known.
pub(super) fn made_up(number: TracepointNumber, address: Address) -> Vec<u8> {
    let content = DefinitionContent::Definition {
        enabled: true,
        kind: TracepointKind::Trap,
        step_count: 0,
        pass_count: 0,
        condition: None,
    };
    format!(
        "tp {}",
        DefinitionRecord {
            number,
            address,
            content
        }
    )
    .into_bytes()
}
