//! Obeys the commands of a script, one after the other, as GDB does.

use std::path::Path;
use std::sync::Arc;

use tracewire_tracefile::TracepointNumber;

use crate::actions;
use crate::command::{self, Command, name_length};
use crate::error::{Problem, ScriptError};
use crate::model::{
    Ignored, ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind,
    ScriptVariable, Settings,
};
use crate::number::{constant, integer};
use crate::place::Located;
use crate::scan::{keyword, separating_colon};
use crate::settings;

/// How deep `source` may be nested.
const SOURCE_DEPTH: usize = 16;

/// The longest script, in bytes.
const LENGTH_LIMIT: usize = 16 << 20;

/// The variables that every run has: GDB's own, and what a frame carries besides.
pub const BUILTIN_VARIABLES: [&str; 3] = ["trace_timestamp", "trace_thread", "trace_cpu"];

/// What scripts and one-line specifications ask for, in the order in which they were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// The tracepoints that were not deleted again, by rising number.
    pub tracepoints: Vec<ScriptTracepoint>,
    /// The variables, in the order of `tvariable`; the builtin ones are not among them.
    pub variables: Vec<ScriptVariable>,
    /// What `set` said.
    pub settings: Settings,
    /// What was left out, because it has no part in setting tracepoints.
    pub ignored: Vec<Ignored>,
    /// The number of the last tracepoint or breakpoint, GDB's `$bpnum`.
    last_number: i32,
    /// The number of the last tracepoint, GDB's `$tpnum`.
    last_tracepoint: Option<TracepointNumber>,
}

impl Script {
    /// A script that asks for nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file of commands.
    ///
    /// # Errors
    /// When the file cannot be read, or at the first command that is wrong; what came before it is kept.
    pub fn read_file(&mut self, path: &Path) -> Result<(), ScriptError> {
        self.source(path, None, 0)
    }

    /// Reads commands from a text; `name` stands for the file in errors.
    ///
    /// # Errors
    /// At the first command that is wrong; what came before it is kept.
    pub fn read_text(&mut self, name: &str, text: &str) -> Result<(), ScriptError> {
        self.obey(name, text, 0)
    }

    /// Reads a one-line specification, `LOCATION [if COND] [: collect LIST]`.
    ///
    /// The colon is the first one outside quotes and brackets that has a blank, or nothing, behind it and
    /// belongs to no `?`: the colons of `ns::function` and `file.c:12` are part of the location. The word
    /// `collect` may be left out; `/s` may stand before the list.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn read_specification(&mut self, specification: &str) -> Result<(), ScriptError> {
        let line = Located::line(&Arc::from("-t"), 1, one_line(specification)).trimmed();
        let colon = separating_colon(line.text());
        let place = colon.map_or(line.clone(), |at| line.part(0..at)).trimmed();
        let number = self.trace(ScriptTracepointKind::Trap, &place)?;
        if let Some(at) = colon {
            let action = line.after(at + 1).trimmed();
            let length = name_length(action.text());
            let named = action.part(0..length).text() == "collect"
                && !action.text()[length..].starts_with(['(', '[', '.', '-']);
            let action = if named {
                actions::collect(&action, &action.after(length).trimmed())?
            } else {
                actions::collect(&action, &action)?
            };
            if let Some(tracepoint) = self.find(number) {
                tracepoint.actions.push(action);
            }
        }
        Ok(())
    }

    fn source(
        &mut self,
        path: &Path,
        place: Option<&Located>,
        depth: usize,
    ) -> Result<(), ScriptError> {
        let wrong = |problem| ScriptError {
            place: place.cloned(),
            problem,
        };
        let file = path.display().to_string();
        if depth > SOURCE_DEPTH {
            return Err(wrong(Problem::SourceDepth(SOURCE_DEPTH)));
        }
        let text = std::fs::read(path).map_err(|error| {
            wrong(Problem::Unreadable {
                file: file.clone(),
                reason: error.to_string(),
            })
        })?;
        if text.len() > LENGTH_LIMIT {
            return Err(wrong(Problem::TooLong {
                file,
                limit: LENGTH_LIMIT,
            }));
        }
        self.obey(&file, &String::from_utf8_lossy(&text), depth)
    }

    fn obey(&mut self, name: &str, text: &str, depth: usize) -> Result<(), ScriptError> {
        let lines = lines(name, text);
        let mut lines = lines.into_iter();
        while let Some(line) = lines.next() {
            if line.is_empty() || line.text().starts_with('#') {
                continue;
            }
            self.command(&line, &mut lines, depth)?;
        }
        Ok(())
    }

    fn command(
        &mut self,
        line: &Located,
        lines: &mut dyn Iterator<Item = Located>,
        depth: usize,
    ) -> Result<(), ScriptError> {
        let length = name_length(line.text());
        let name = line.part(0..length.max(1));
        let rest = line.after(length).trimmed();
        let command =
            command::command(name.text()).map_err(|problem| ScriptError::new(&name, problem))?;
        match command {
            Command::Trace => drop(self.trace(ScriptTracepointKind::Trap, &rest)?),
            Command::FastTrace => drop(self.trace(ScriptTracepointKind::Fast, &rest)?),
            Command::StaticTrace => self.static_trace(&rest)?,
            Command::Actions => self.actions(line, &rest, lines, false)?,
            Command::Commands => self.actions(line, &rest, lines, true)?,
            Command::PassCount => self.pass_count(&rest)?,
            Command::Variable => self.variable(&rest)?,
            Command::Delete => self.delete(&rest)?,
            Command::Enable => self.enable(&rest, true)?,
            Command::Disable => self.enable(&rest, false)?,
            Command::Condition => self.condition(&rest)?,
            Command::Set => settings::set(&mut self.settings, &rest)?,
            Command::Source => {
                if rest.is_empty() {
                    return Err(ScriptError::new(&rest, Problem::Missing("a file name")));
                }
                self.source(Path::new(rest.text()), Some(&rest), depth + 1)?;
            }
            Command::Breakpoint => {
                self.last_number = self.last_number.saturating_add(1);
                self.ignore(line);
            }
            // GDB itself ignores the ignore count of a tracepoint.
            Command::Session | Command::Ignore => self.ignore(line),
            Command::Collect | Command::Evaluate | Command::WhileStepping | Command::End => {
                return Err(ScriptError::new(
                    &name,
                    Problem::Missing("`actions` before this line"),
                ));
            }
        }
        Ok(())
    }

    fn ignore(&mut self, command: &Located) {
        self.ignored.push(Ignored {
            command: command.clone(),
        });
    }

    fn trace(
        &mut self,
        kind: ScriptTracepointKind,
        argument: &Located,
    ) -> Result<TracepointNumber, ScriptError> {
        let text = argument.text();
        for word in ["thread", "task"] {
            if let Some(at) = keyword(text, word)
                && keyword(&text[..at], "if").is_none()
                && text[at + word.len()..]
                    .trim_start()
                    .starts_with(|c: char| c.is_ascii_digit() || c == '$')
            {
                return Err(ScriptError::new(&argument.after(at), Problem::ThreadLimit));
            }
        }
        let (location, condition) = match keyword(text, "if") {
            Some(at) => {
                let condition = argument.after(at + 2).trimmed();
                if condition.is_empty() {
                    return Err(ScriptError::new(
                        &argument.after(at),
                        Problem::Missing("a condition after `if`"),
                    ));
                }
                (argument.part(0..at).trimmed(), Some(condition))
            }
            None => (argument.clone(), None),
        };
        let location = without_force(&location);
        if location.is_empty() {
            return Err(ScriptError::new(argument, Problem::Missing("a location")));
        }
        self.last_number = self.last_number.saturating_add(1);
        let number = TracepointNumber(self.last_number);
        self.last_tracepoint = Some(number);
        self.tracepoints.push(ScriptTracepoint {
            number,
            kind,
            location,
            condition,
            enabled: true,
            disabled_locations: Default::default(),
            pass_count: 0,
            actions: Vec::new(),
        });
        Ok(number)
    }

    fn static_trace(&mut self, argument: &Located) -> Result<(), ScriptError> {
        let (option, rest) = argument.word();
        if option.text() == "-m" {
            self.trace(ScriptTracepointKind::Marker, &rest)?;
        } else {
            self.trace(ScriptTracepointKind::Static, argument)?;
        }
        Ok(())
    }

    fn actions(
        &mut self,
        line: &Located,
        argument: &Located,
        lines: &mut dyn Iterator<Item = Located>,
        commands: bool,
    ) -> Result<(), ScriptError> {
        let numbers = if argument.is_empty() {
            // `commands` speaks of the last breakpoint of any kind, `actions` of the last tracepoint.
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
            .map(|tracepoint| tracepoint.kind)
            .collect();
        if numbered.is_empty() {
            // What a breakpoint of GDB would do is left out with the breakpoint.
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
        let kind = numbered
            .into_iter()
            .find(|kind| *kind != ScriptTracepointKind::Trap)
            .unwrap_or(ScriptTracepointKind::Trap);
        let block = actions::block(lines, line, kind)?;
        for tracepoint in &mut self.tracepoints {
            if numbers.contains(&tracepoint.number) {
                tracepoint.actions.clone_from(&block);
            }
        }
        Ok(())
    }

    fn pass_count(&mut self, argument: &Located) -> Result<(), ScriptError> {
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

    fn variable(&mut self, argument: &Located) -> Result<(), ScriptError> {
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

    fn delete(&mut self, argument: &Located) -> Result<(), ScriptError> {
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

    fn enable(&mut self, argument: &Located, enabled: bool) -> Result<(), ScriptError> {
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

    fn condition(&mut self, argument: &Located) -> Result<(), ScriptError> {
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

    fn all(&self) -> Vec<TracepointNumber> {
        self.tracepoints.iter().map(|t| t.number).collect()
    }

    fn find(&mut self, number: TracepointNumber) -> Option<&mut ScriptTracepoint> {
        self.tracepoints.iter_mut().find(|t| t.number == number)
    }

    /// The numbers in a list, each that of a tracepoint.
    fn tracepoint_numbers(&self, list: &Located) -> Result<Vec<TracepointNumber>, ScriptError> {
        let numbers = self.numbers(list)?;
        match numbers
            .iter()
            .find(|n| self.tracepoints.iter().all(|t| t.number != **n))
        {
            Some(stranger) => Err(ScriptError::new(
                list,
                Problem::NoSuchTracepoint(stranger.0.into()),
            )),
            None => Ok(numbers),
        }
    }

    /// One number, `$bpnum` or `$tpnum`.
    fn one_number(&self, word: &Located) -> Result<TracepointNumber, ScriptError> {
        match *self.numbers(word)? {
            [one] => Ok(one),
            _ => Err(ScriptError::new(
                word,
                Problem::NotANumber("one tracepoint number"),
            )),
        }
    }

    /// A list of numbers and ranges. Numbers that were never given out are an error; those of breakpoints and
    /// of deleted tracepoints are not.
    fn numbers(&self, list: &Located) -> Result<Vec<TracepointNumber>, ScriptError> {
        let mut numbers = Vec::new();
        let mut rest = list.clone();
        loop {
            let (word, more) = rest.word();
            let (from, to) = match word.text() {
                "$bpnum" | "$_" => (self.last_number, self.last_number),
                "$tpnum" => {
                    let last = self.last_tracepoint.map_or(0, |number| number.0);
                    (last, last)
                }
                text if text.contains('.') => {
                    return Err(ScriptError::new(&word, Problem::WholeTracepoint));
                }
                text => {
                    let (from, to) = range(text).ok_or_else(|| {
                        ScriptError::new(&word, Problem::NotANumber("a tracepoint number"))
                    })?;
                    let narrow = |number: usize| {
                        i32::try_from(number)
                            .ok()
                            .filter(|number| (1..=self.last_number).contains(number))
                            .ok_or_else(|| {
                                let number = i64::try_from(number).unwrap_or(i64::MAX);
                                ScriptError::new(&word, Problem::NoSuchTracepoint(number))
                            })
                    };
                    (narrow(from)?, narrow(to)?)
                }
            };
            if from < 1 {
                return Err(ScriptError::new(&word, Problem::NoTracepoint));
            }
            numbers.extend((from..=to).map(TracepointNumber));
            if more.is_empty() {
                return Ok(numbers);
            }
            rest = more;
        }
    }
}

/// `N` or `N-M`.
fn range(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| {
        text.parse::<usize>()
            .ok()
            .filter(|number| *number < 1 << 20)
    };
    match text.split_once('-') {
        None => number(text).map(|number| (number, number)),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some((from, to))
        }
    }
}

/// The lines of a text, trimmed, those that end in `\` joined with the next.
fn lines(name: &str, text: &str) -> Vec<Located> {
    let file: Arc<str> = Arc::from(name);
    let mut lines = Vec::new();
    let mut held: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let (number, mut whole) = held.take().unwrap_or((index + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(beginning) => {
                whole.push_str(beginning);
                held = Some((number, whole));
            }
            None => {
                whole.push_str(line);
                lines.push(Located::line(&file, number, whole).trimmed());
            }
        }
    }
    if let Some((number, whole)) = held {
        lines.push(Located::line(&file, number, whole).trimmed());
    }
    lines
}

/// A specification on one line: line ends in it are blanks.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A location without GDB's `-force-condition`, which has nothing to say to a run.
fn without_force(location: &Located) -> Located {
    let (first, rest) = location.word();
    if first.text().len() > 2 && "-force-condition".starts_with(first.text()) {
        return rest;
    }
    match location.text().strip_suffix("-force-condition") {
        Some(before) => location.part(0..before.len()).trimmed(),
        None => location.clone(),
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

impl ScriptTracepoint {
    /// The count of `while-stepping`, 0 without one.
    #[must_use]
    pub fn step_count(&self) -> u64 {
        self.actions
            .iter()
            .find_map(|action| match &action.kind {
                ScriptActionKind::WhileStepping { count, .. } => Some(*count),
                _ => None,
            })
            .unwrap_or(0)
    }

    /// The action lines in order, as GDB sends them: `while-stepping` is followed by its body and `end`.
    #[must_use]
    pub fn command_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        add_lines(&self.actions, &mut lines);
        lines
    }
}

fn add_lines(actions: &[ScriptAction], lines: &mut Vec<String>) {
    for action in actions {
        lines.push(action.source());
        if let ScriptActionKind::WhileStepping { body, .. } = &action.kind {
            add_lines(body, lines);
            lines.push("end".to_owned());
        }
    }
}

impl ScriptAction {
    /// The line, as a script would hold it: the list of a `-t` argument gets its `collect`.
    pub(crate) fn source(&self) -> String {
        let line = self.line.text();
        let length = name_length(line);
        if command::action(&line[..length]).is_ok() {
            return line.to_owned();
        }
        let blank = if line.starts_with('/') { "" } else { " " };
        format!("collect{blank}{line}")
    }
}
