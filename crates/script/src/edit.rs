//! Commands about tracepoints that have been set, and about variables.

use tracewire_model::TracepointNumber;

use crate::actions;
use crate::error::{Problem, ScriptError};
use crate::model::{ScriptTracepointKind, ScriptVariable};
use crate::number::{constant, integer};
use crate::numbers::range;
use crate::parse::{BUILTIN_VARIABLES, Script};
use crate::place::Located;

impl Script {
    pub(crate) fn actions(
        &mut self,
        line: &Located,
        argument: &Located,
        lines: &mut dyn Iterator<Item = Located>,
        commands: bool,
    ) -> Result<(), ScriptError> {
        let numbers = if argument.is_empty() {
            // `commands` refers to the last breakpoint of any kind, `actions` to the last tracepoint.
            let last = if commands && self.last_number > 0 {
                Some(TracepointNumber(self.last_number))
            } else {
                self.last_tracepoint
            };
            let last = last.ok_or_else(|| ScriptError::new(line, Problem::NoTracepoint))?;
            vec![last]
        } else {
            self.numbers(argument)?
        };
        let numbered: Vec<_> = self
            .tracepoints
            .iter()
            .filter(|tracepoint| numbers.contains(&tracepoint.number))
            .map(|tracepoint| (tracepoint.kind, tracepoint.span.is_some()))
            .collect();
        if numbered.is_empty() {
            // The commands of a GDB breakpoint are ignored with the breakpoint.
            let known = numbers.iter().all(|number| number.0 <= self.last_number);
            if commands && known {
                skip_block(lines, line)?;
                self.ignore(line);
                return Ok(());
            }
            let number = numbers.first().map_or(0, |number| i64::from(number.0));
            return Err(ScriptError::new(
                argument,
                Problem::NoSuchTracepoint(number),
            ));
        }
        let is_span = numbered.iter().any(|(_, is_span)| *is_span);
        let kind = numbered
            .into_iter()
            .map(|(kind, _)| kind)
            .find(|kind| *kind != ScriptTracepointKind::Trap)
            .unwrap_or(ScriptTracepointKind::Trap);
        let block = actions::block(lines, line, kind, is_span)?;
        for tracepoint in &mut self.tracepoints {
            if numbers.contains(&tracepoint.number) {
                tracepoint.actions.clone_from(&block);
            }
        }
        Ok(())
    }

    pub(crate) fn pass_count(&mut self, argument: &Located) -> Result<(), ScriptError> {
        let (count, which) = argument.word();
        let count = integer(count.text())
            .ok_or_else(|| ScriptError::new(&count, Problem::NotANumber("a count of hits")))?;
        let numbers = match which.text() {
            "all" => self.all(),
            "" => vec![
                self.last_tracepoint
                    .ok_or_else(|| ScriptError::new(argument, Problem::NoTracepoint))?,
            ],
            _ => self.tracepoint_numbers(&which)?,
        };
        for tracepoint in &mut self.tracepoints {
            if numbers.contains(&tracepoint.number) {
                tracepoint.pass_count = count;
            }
        }
        Ok(())
    }

    pub(crate) fn variable(&mut self, argument: &Located) -> Result<(), ScriptError> {
        let text = argument.text();
        let wrong = |end: usize| ScriptError::new(&argument.part(0..end), Problem::VariableName);
        let end = text
            .char_indices()
            .skip(1)
            .find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_'))
            .map_or(text.len(), |(at, _)| at);
        let name = text.get(..end).and_then(|name| name.strip_prefix('$'));
        let Some(name) = name.filter(|name| !name.bytes().all(|byte| byte.is_ascii_digit())) else {
            return Err(wrong(end));
        };
        let rest = argument.after(end).trimmed();
        let initial = if rest.is_empty() {
            0
        } else {
            let Some(value) = rest.text().strip_prefix('=') else {
                return Err(ScriptError::new(&rest, Problem::Missing("`= VALUE`")));
            };
            constant(value).map_err(|reason| {
                ScriptError::new(&rest.after(1).trimmed(), Problem::NotConstant(reason))
            })?
        };
        // GDB writes the variables of the target into a saved script as if they were the user's.
        if BUILTIN_VARIABLES.contains(&name) {
            return Ok(());
        }
        if matches!(name, "retval" | "duration") {
            let name = argument.part(0..end);
            return Err(ScriptError::new(&name, Problem::NameOfSpans));
        }
        let known = self.variables.iter_mut().find(|known| known.name == name);
        match known {
            Some(known) => known.initial = initial,
            None => self.variables.push(ScriptVariable {
                name: name.to_owned(),
                initial,
            }),
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, argument: &Located) -> Result<(), ScriptError> {
        let (first, rest) = argument.word();
        let beginning = |full: &str, least: usize| {
            first.text().len() >= least && full.starts_with(first.text())
        };
        if beginning("tvariable", 2) {
            if rest.is_empty() {
                self.variables.clear();
            }
            let mut rest = rest;
            while !rest.is_empty() {
                let (name, more) = rest.word();
                let plain = name.text().trim_start_matches('$');
                let known = self.variables.iter().position(|known| known.name == plain);
                let known = known.ok_or_else(|| {
                    ScriptError::new(&name, Problem::NoSuchVariable(plain.to_owned()))
                })?;
                self.variables.remove(known);
                rest = more;
            }
            return Ok(());
        }
        let which = if beginning("tracepoints", 2) || beginning("breakpoints", 1) {
            rest
        } else {
            argument.clone()
        };
        let numbers = if which.is_empty() {
            self.all()
        } else {
            self.numbers(&which)?
        };
        self.tracepoints
            .retain(|tracepoint| !numbers.contains(&tracepoint.number));
        Ok(())
    }

    pub(crate) fn enable(&mut self, argument: &Located, enabled: bool) -> Result<(), ScriptError> {
        let (first, rest) = argument.word();
        let beginning = |full: &str, least: usize| {
            first.text().len() >= least && full.starts_with(first.text())
        };
        let mut which = if beginning("tracepoints", 2) || beginning("breakpoints", 1) {
            rest
        } else {
            argument.clone()
        };
        if which.is_empty() {
            for tracepoint in &mut self.tracepoints {
                tracepoint.enabled = enabled;
            }
            return Ok(());
        }
        while !which.is_empty() {
            let (word, more) = which.word();
            match word.text().split_once('.') {
                None => {
                    for number in self.numbers(&word)? {
                        if let Some(tracepoint) = self.find(number) {
                            tracepoint.enabled = enabled;
                        }
                    }
                }
                Some((owner, locations)) => {
                    let owner = self.one_number(&word.part(0..owner.len()))?;
                    let (from, to) = range(locations).ok_or_else(|| {
                        ScriptError::new(&word, Problem::NotANumber("a location N.M or N.M-K"))
                    })?;
                    if let Some(tracepoint) = self.find(owner) {
                        for location in from..=to {
                            if enabled {
                                tracepoint.disabled_locations.remove(&location);
                            } else {
                                tracepoint.disabled_locations.insert(location);
                            }
                        }
                    }
                }
            }
            which = more;
        }
        Ok(())
    }

    pub(crate) fn condition(&mut self, argument: &Located) -> Result<(), ScriptError> {
        let mut argument = argument.clone();
        if argument.text().starts_with("-force") {
            argument = argument.word().1;
        }
        let (which, condition) = argument.word();
        let number = self.one_number(&which)?;
        if let Some(tracepoint) = self.find(number) {
            tracepoint.condition = (!condition.is_empty()).then_some(condition);
        }
        Ok(())
    }
}

/// Leaves out the commands of a breakpoint.
fn skip_block(
    lines: &mut dyn Iterator<Item = Located>,
    opening: &Located,
) -> Result<(), ScriptError> {
    let mut depth = 1_usize;
    for line in lines {
        let first = line.word().0;
        match first.text() {
            "end" => depth -= 1,
            "if" | "while" | "while-stepping" | "ws" | "stepping" | "commands" | "python" => {
                depth += 1;
            }
            _ => {}
        }
        if depth == 0 {
            return Ok(());
        }
    }
    Err(ScriptError::new(opening, Problem::UnclosedBlock))
}
