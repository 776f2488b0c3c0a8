//! Tracepoints that a hit of another one enables and disables.
//!
//! A trace state variable, `$enabled_N`, has the state of such a tracepoint. Its condition reads the variable first, and the
//! action of the other tracepoint is a `teval` that sets it. So a pad, a trap, a stub, a recording and GDB need no support for
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracewire_model::TracepointNumber;

use crate::actions::items;
use crate::error::{Problem, ScriptError};
use crate::model::{ScriptAction, ScriptActionKind, ScriptTracepoint};
use crate::number::integer;
use crate::parse::Script;
use crate::place::Located;
use crate::scan::outside;

/// The most tracepoints that one action names.
const MOST_NAMED: u64 = 1000;

/// Takes `enable(N)` and `disable(N)` out of a list, in order, each as an action.
pub(crate) fn take(items: Vec<Located>) -> Result<(Vec<Located>, Vec<ScriptAction>), ScriptError> {
    let (mut others, mut switches) = (Vec::new(), Vec::new());
    for item in items {
        match call(item.text()) {
            Some((is_enable, open)) => {
                let list = item.part(open + 1..item.text().len() - 1).trimmed();
                switches.push(switch(&item, is_enable, &list)?);
            }
            None => others.push(item),
        }
    }
    Ok((others, switches))
}

/// Whether an item is a call of `enable` or `disable`: which of them, and where its bracket opens.
fn call(text: &str) -> Option<(bool, usize)> {
    let open = text.find('(')?;
    let name = text[..open].trim_end();
    let is_enable = match name {
        "enable" => true,
        "disable" => false,
        _ => return None,
    };
    let outside: String = outside(text).map(|(_, character)| character).collect();
    (text.ends_with(')') && outside.trim_end() == name).then_some((is_enable, open))
}

/// The action of a line, or of an item of a list, that enables or disables the tracepoints of a list: numbers and ranges, with
/// commas or blanks between them.
pub(crate) fn switch(
    line: &Located,
    is_enable: bool,
    list: &Located,
) -> Result<ScriptAction, ScriptError> {
    let mut tracepoints = Vec::new();
    let parts = match list.is_empty() {
        true => Vec::new(),
        false => items(list)?,
    };
    for part in parts {
        let mut rest = part;
        while !rest.is_empty() {
            let (word, more) = rest.word();
            add(&word, &mut tracepoints)?;
            rest = more;
        }
    }
    if tracepoints.is_empty() {
        let place = if list.is_empty() { line } else { list };
        return Err(ScriptError::new(
            place,
            Problem::Missing("the number of a tracepoint"),
        ));
    }
    Ok(ScriptAction {
        line: line.clone(),
        kind: ScriptActionKind::Switch {
            is_enable,
            tracepoints,
        },
    })
}

/// Adds the numbers of `N` or `N-M`.
fn add(
    word: &Located,
    tracepoints: &mut Vec<(TracepointNumber, Located)>,
) -> Result<(), ScriptError> {
    let number = |text: &str| integer(text).and_then(|number| i32::try_from(number).ok());
    let range = match word.text().split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(word.text()).map(|number| (number, number)),
    };
    let wrong = |problem| Err(ScriptError::new(word, problem));
    match range {
        Some((from, to)) if from >= 1 && from <= to => {
            let all = u64::from(from.abs_diff(to)) + tracepoints.len() as u64;
            if all >= MOST_NAMED {
                return wrong(Problem::NotANumber("1000 tracepoints at most"));
            }
            tracepoints.extend((from..=to).map(|number| (TracepointNumber(number), word.clone())));
            Ok(())
        }
        _ => wrong(Problem::NotANumber("the number of a tracepoint, N or N-M,")),
    }
}

/// The tracepoints of a script that hits of others enable or disable.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    switched: BTreeSet<TracepointNumber>,
}

impl Chain {
    /// Reads which tracepoints enable others, and makes `teval` lines of these actions. Also returns the errors.
    pub(crate) fn of(script: &mut Script) -> (Self, Vec<ScriptError>) {
        let known: BTreeSet<_> = script.tracepoints.iter().map(|own| own.number).collect();
        let mut chain = Self::default();
        let mut problems = Vec::new();
        for tracepoint in &mut script.tracepoints {
            for action in &mut tracepoint.actions {
                let ScriptActionKind::Switch {
                    is_enable,
                    tracepoints,
                } = &action.kind
                else {
                    continue;
                };
                for (number, place) in tracepoints {
                    let own = Variable::of(*number);
                    let mut variables = script.variables.iter();
                    if !known.contains(number) {
                        let problem = Problem::NoSuchTracepoint(number.0.into());
                        problems.push(ScriptError::new(place, problem));
                    } else if variables.any(|variable| variable.name == own.0) {
                        problems.push(ScriptError::new(place, Problem::SwitchIsTaken(own.0)));
                    } else {
                        chain.switched.insert(*number);
                    }
                }
                let numbers: Vec<_> = tracepoints.iter().map(|(number, _)| *number).collect();
                *action = as_evaluation(&action.line, *is_enable, &numbers);
            }
        }
        (chain, problems)
    }

    /// Whether hits of others enable or disable this tracepoint.
    pub(crate) fn switches(&self, number: TracepointNumber) -> bool {
        self.switched.contains(&number)
    }

    /// The variables, each with its value when the run begins.
    pub(crate) fn variables<'c>(
        &'c self,
        script: &'c Script,
    ) -> impl Iterator<Item = (String, i64)> + 'c {
        let all = script.tracepoints.iter();
        let switched = all.filter(|tracepoint| self.switches(tracepoint.number));
        switched.map(|tracepoint| {
            let Variable(name) = Variable::of(tracepoint.number);
            (name, i64::from(tracepoint.enabled))
        })
    }

    /// The condition of a tracepoint at one of its locations, combined with its own condition `own`.
    pub(crate) fn condition(
        &self,
        tracepoint: &ScriptTracepoint,
        own: Option<&str>,
    ) -> Option<String> {
        let Variable(name) = Variable::of(tracepoint.number);
        match (self.switches(tracepoint.number), own) {
            (false, own) => own.map(str::to_owned),
            (true, None) => Some(format!("${name} != 0")),
            (true, Some(own)) => Some(format!("${name} != 0 && ({own})")),
        }
    }
}

/// The name of the variable of a tracepoint, without the `$`.
struct Variable(String);

impl Variable {
    fn of(number: TracepointNumber) -> Self {
        Self(format!("enabled_{number}"))
    }
}

/// The `teval` that enables or disables tracepoints.
fn as_evaluation(
    line: &Located,
    is_enable: bool,
    tracepoints: &[TracepointNumber],
) -> ScriptAction {
    let file: Arc<str> = Arc::from(line.file());
    let value = i32::from(is_enable);
    let words: Vec<String> = tracepoints
        .iter()
        .map(|number| format!("${} = {value}", Variable::of(*number).0))
        .collect();
    let place = |text: String| Located::line(&file, line.line_number(), text);
    ScriptAction {
        line: place(format!("teval {}", words.join(", "))),
        kind: ScriptActionKind::Evaluate {
            items: words.into_iter().map(place).collect(),
        },
    }
}
