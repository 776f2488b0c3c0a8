//! The lines between `actions` and `end`.

use std::sync::Arc;

use crate::aggregate;
use crate::chain;
use crate::command::{self, Command, name_length};
use crate::error::{Problem, ScriptError};
use crate::model::{ScriptAction, ScriptActionKind, ScriptTracepointKind};
use crate::number::integer;
use crate::place::Located;
use crate::scan::commas;

/// GDB's `print elements`, the limit of a `/s` without a number.
const STRING_LIMIT: u32 = 200;

/// Reads lines up to `end`. `opening` is the line that opened the block.
pub(crate) fn block(
    lines: &mut dyn Iterator<Item = Located>,
    opening: &Located,
    kind: ScriptTracepointKind,
    is_span: bool,
) -> Result<Vec<ScriptAction>, ScriptError> {
    let mut actions = Vec::new();
    let mut stepping = false;
    while let Some(line) = lines.next() {
        match Line::read(&line)? {
            Line::Nothing => {}
            Line::End => return Ok(actions),
            Line::Action(action) => actions.push(action),
            Line::Stepping(count) => {
                let refusal = match kind {
                    _ if stepping => Some(Problem::SecondStepping),
                    _ if is_span => Some(Problem::SteppingKind("span and return")),
                    ScriptTracepointKind::Fast => Some(Problem::SteppingKind("fast")),
                    ScriptTracepointKind::Static | ScriptTracepointKind::Marker => {
                        Some(Problem::SteppingKind("static"))
                    }
                    ScriptTracepointKind::Watch => Some(Problem::SteppingKind("watch")),
                    ScriptTracepointKind::Trap => None,
                };
                if let Some(problem) = refusal {
                    return Err(ScriptError::new(&line, problem));
                }
                stepping = true;
                let body = stepping_block(lines, &line)?;
                actions.push(ScriptAction {
                    line,
                    kind: ScriptActionKind::WhileStepping { count, body },
                });
            }
        }
    }
    Err(ScriptError::new(opening, Problem::UnclosedBlock))
}

/// The lines of a `while-stepping`.
fn stepping_block(
    lines: &mut dyn Iterator<Item = Located>,
    opening: &Located,
) -> Result<Vec<ScriptAction>, ScriptError> {
    let mut body = Vec::new();
    for line in lines {
        match Line::read(&line)? {
            Line::Nothing => {}
            Line::End => return Ok(body),
            Line::Action(action) => {
                if let ScriptActionKind::Collect { aggregates, .. } = &action.kind
                    && let Some(first) = aggregates.first()
                {
                    return Err(ScriptError::new(&first.call, Problem::AggregateOfSteps));
                }
                if matches!(action.kind, ScriptActionKind::Switch { .. }) {
                    return Err(ScriptError::new(&action.line, Problem::SwitchOfSteps));
                }
                body.push(action);
            }
            Line::Stepping(_) => return Err(ScriptError::new(&line, Problem::NestedStepping)),
        }
    }
    Err(ScriptError::new(opening, Problem::UnclosedBlock))
}

enum Line {
    Nothing,
    End,
    Action(ScriptAction),
    Stepping(u64),
}

impl Line {
    fn read(line: &Located) -> Result<Self, ScriptError> {
        let text = line.text();
        if text.is_empty() || text.starts_with('#') {
            return Ok(Self::Nothing);
        }
        if text == "end" {
            return Ok(Self::End);
        }
        let length = name_length(text);
        let name = line.part(0..length);
        let rest = line.after(length).trimmed();
        let command =
            command::action(name.text()).map_err(|problem| ScriptError::new(&name, problem))?;
        match command {
            Command::Collect => Ok(Self::Action(collect(line, &rest)?)),
            Command::Backtrace => Ok(Self::Action(backtrace(line, &rest)?)),
            Command::Evaluate => Ok(Self::Action(ScriptAction {
                line: line.clone(),
                kind: ScriptActionKind::Evaluate {
                    items: items(&rest)?,
                },
            })),
            Command::Enable => Ok(Self::Action(chain::switch(line, true, &rest)?)),
            Command::Disable => Ok(Self::Action(chain::switch(line, false, &rest)?)),
            _ => {
                let count = integer(rest.text()).filter(|count| *count > 0);
                count.map(Self::Stepping).ok_or_else(|| {
                    ScriptError::new(
                        if rest.is_empty() { &name } else { &rest },
                        Problem::NotANumber("a count of steps, 1 or more,"),
                    )
                })
            }
        }
    }
}

/// Reads what follows `collect`.
pub(crate) fn collect(line: &Located, rest: &Located) -> Result<ScriptAction, ScriptError> {
    let (string_limit, list) = format(rest)?;
    let items = items(&list)?;
    let (items, aggregates) = aggregate::take(items)?;
    // No expression of C begins so: it can only be a format that came too late.
    if let Some(late) = items.iter().find(|item| item.text().starts_with('/')) {
        return Err(ScriptError::new(&late.word().0, Problem::LateFormat));
    }
    Ok(ScriptAction {
        line: line.clone(),
        kind: ScriptActionKind::Collect {
            string_limit,
            items,
            aggregates,
        },
    })
}

/// `backtrace [N]` or `backtrace [N] by frame-pointer`: a `collect` of `$stack` or `$stack_fp`, which a trace file then has in its place.
fn backtrace(line: &Located, count: &Located) -> Result<ScriptAction, ScriptError> {
    let words: Vec<&str> = count.text().split_whitespace().collect();
    let (number, name) = match words.as_slice() {
        [number @ .., "by", "frame-pointer"] => (number, "$stack_fp"),
        number => (number, "$stack"),
    };
    let item = if number.is_empty() {
        name.to_owned()
    } else if let [number] = number
        && integer(number).is_some()
    {
        format!("{name}({number})")
    } else {
        let problem =
            Problem::NotANumber("a count of call frames, or a count and `by frame-pointer`");
        return Err(ScriptError::new(count, problem));
    };
    let item = Located::line(&Arc::from(line.file()), line.line_number(), item);
    Ok(collect_items(None, vec![item]))
}

/// A `collect` of these items, with the line that a script would have for it.
pub(crate) fn collect_items(string_limit: Option<u32>, items: Vec<Located>) -> ScriptAction {
    let format = match string_limit {
        None => String::new(),
        Some(STRING_LIMIT) => "/s".to_owned(),
        Some(limit) => format!("/s{limit}"),
    };
    let words: Vec<&str> = items.iter().map(Located::text).collect();
    let line = format!("collect{format} {}", words.join(", "));
    let file = items.first().map_or("-t", Located::file);
    let number = items.first().map_or(1, Located::line_number);
    ScriptAction {
        line: Located::line(&Arc::from(file), number, line),
        kind: ScriptActionKind::Collect {
            string_limit,
            items,
            aggregates: Vec::new(),
        },
    }
}

/// A format before a list or an expression, `/s` or `/sN`: the limit that it sets, and what follows.
pub(crate) fn format(words: &Located) -> Result<(Option<u32>, Located), ScriptError> {
    let Some(format) = words.text().strip_prefix('/') else {
        return Ok((None, words.clone()));
    };
    let wrong = || ScriptError::new(&words.word().0, Problem::CollectFormat);
    let digits = format.strip_prefix('s').ok_or_else(wrong)?;
    let length = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let limit = match &digits[..length] {
        "" => STRING_LIMIT,
        digits => digits
            .parse()
            .ok()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| {
                ScriptError::new(
                    &words.part(2..2 + length),
                    Problem::NotANumber("a length of 1 or more"),
                )
            })?,
    };
    if digits[length..].starts_with(|c: char| !c.is_whitespace()) {
        return Err(wrong());
    }
    Ok((Some(limit), words.after(2 + length).trimmed()))
}

/// Parts a list at its commas.
pub(crate) fn items(list: &Located) -> Result<Vec<Located>, ScriptError> {
    let mut items = Vec::new();
    let mut start = 0;
    let ends = commas(list.text()).into_iter().chain([list.text().len()]);
    for end in ends {
        let item = list.part(start..end).trimmed();
        if item.is_empty() {
            return Err(ScriptError::new(
                if list.is_empty() { list } else { &item },
                Problem::Missing("an expression"),
            ));
        }
        items.push(item);
        start = end + 1;
    }
    Ok(items)
}
