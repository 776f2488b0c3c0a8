//! Obeys the commands of a script, one after the other, as GDB does.

use std::path::Path;
use std::sync::Arc;

use tracewire_model::{SpanStatement, TracepointNumber};

use crate::command::{self, Command, name_length};
use crate::error::{Problem, ScriptError};
use crate::list;
use crate::model::{Ignored, ScriptTracepoint, ScriptTracepointKind, ScriptVariable, Settings};
use crate::pick;
use crate::place::Located;
use crate::scan::{keyword, separating_colon};
use crate::settings;

/// How deep `source` may be nested.
const SOURCE_DEPTH: usize = 16;

/// The longest script, in bytes.
const LENGTH_LIMIT: usize = 16 << 20;

/// The variables that every run has: GDB's own, and those in every frame.
pub const BUILTIN_VARIABLES: [&str; 3] = ["trace_timestamp", "trace_thread", "trace_cpu"];

/// The contents of scripts and one-line specifications, in the order in which they were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// The tracepoints that were not deleted again, by rising number.
    pub tracepoints: Vec<ScriptTracepoint>,
    /// The variables, in the order of `tvariable`; the builtin ones are not among them.
    pub variables: Vec<ScriptVariable>,
    /// The settings of `set`.
    pub settings: Settings,
    /// Commands that were ignored, because they set no tracepoint.
    pub ignored: Vec<Ignored>,
    /// The number of the last tracepoint or breakpoint, GDB's `$bpnum`.
    pub(crate) last_number: i32,
    /// The number of the last tracepoint, GDB's `$tpnum`.
    pub(crate) last_tracepoint: Option<TracepointNumber>,
}

impl Script {
    /// An empty script.
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

    /// Reads commands from a text; `name` is the file's name in errors.
    ///
    /// # Errors
    /// At the first wrong command; the commands before it are kept.
    pub fn read_text(&mut self, name: &str, text: &str) -> Result<(), ScriptError> {
        self.obey(name, text, 0)
    }

    /// Reads a one-line specification, `[disabled] PLACE [if COND] [PICK] [: LIST]`:
    ///
    /// ```text
    /// PICK  = sample 1/N [by KEY {, KEY}] | first N [by KEY {, KEY}]
    /// PLACE = LOCATION | -m PROVIDER:NAME | span FUNCTION | return FUNCTION | watch OBJECT
    /// LIST  = [collect[/s[N]] | /s[N]] ITEM {, ITEM}
    /// ITEM  = [/s[N]] EXPRESSION | enable(N {, N}) | disable(N {, N})
    /// ```
    ///
    /// The colon is the first one outside quotes and brackets that has a blank, or nothing, after it and
    /// belongs to no `?`: the colons of `ns::function` and `file.c:12` are part of the location. `-m NAME` is a USDT probe, as
    /// for `strace`; without a list, each of its arguments is collected.
    ///
    /// The list has expressions, and no actions: the first word of an expression is a name. Only the whole word `collect` is
    /// skipped before the list, if an expression follows it: `collect s` collects `s`. But `collect`, `collect, s`, `collect->s`
    /// and `collect * s` (an operator followed by a blank) use a variable of that name.
    ///
    /// `disabled` before the place is for a tracepoint that is inactive until a hit of another one enables it.
    ///
    /// A `/s` before the list holds for all of it, one before an expression for that expression.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub fn read_specification(&mut self, specification: &str) -> Result<(), ScriptError> {
        let line = Located::line(&Arc::from("-t"), 1, one_line(specification)).trimmed();
        let colon = separating_colon(line.text());
        let place = colon.map_or(line.clone(), |at| line.part(0..at)).trimmed();
        let actions = match colon {
            Some(at) => list::actions(&line.after(at + 1).trimmed())?,
            None => Vec::new(),
        };
        let (first, rest) = place.word();
        let is_disabled = first.text() == "disabled" && is_place(&rest);
        let place = if is_disabled { rest } else { place };
        let (option, name) = place.word();
        let is_marker = option.text() == "-m";
        let number = if is_marker {
            self.trace(ScriptTracepointKind::Marker, &name)?
        } else if let Some(statement) = statement_of(&option, &name) {
            self.span(statement, &name)?
        } else if option.text() == "watch" && is_place(&name) {
            self.watch(&name)?
        } else {
            self.trace(ScriptTracepointKind::Trap, &place)?
        };
        if let Some(tracepoint) = self.find(number) {
            tracepoint.enabled = !is_disabled;
            tracepoint.marker_arguments = is_marker && colon.is_none();
            tracepoint.actions = actions;
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
            Command::Watch => drop(self.watch(&rest)?),
            Command::Span => drop(self.span(SpanStatement::Span, &rest)?),
            Command::Return => drop(self.span(SpanStatement::Return, &rest)?),
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
            Command::Collect
            | Command::Backtrace
            | Command::Evaluate
            | Command::WhileStepping
            | Command::End => {
                return Err(ScriptError::new(
                    &name,
                    Problem::Missing("`actions` before this line"),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn ignore(&mut self, command: &Located) {
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
        let (argument, pick) = pick::take(argument)?;
        let argument = &argument;
        let text = argument.text();
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
            span: None,
            location,
            condition,
            pick,
            enabled: true,
            disabled_locations: Default::default(),
            pass_count: 0,
            actions: Vec::new(),
            marker_arguments: false,
        });
        Ok(number)
    }

    fn span(
        &mut self,
        statement: SpanStatement,
        argument: &Located,
    ) -> Result<TracepointNumber, ScriptError> {
        let number = self.trace(ScriptTracepointKind::Trap, argument)?;
        if let Some(tracepoint) = self.find(number) {
            tracepoint.span = Some(statement);
        }
        Ok(number)
    }

    /// The watched memory and its previous value are collected before everything else.
    fn watch(&mut self, argument: &Located) -> Result<TracepointNumber, ScriptError> {
        // GDB's option for an address that is worked out once, which it always is here.
        let (option, rest) = argument.word();
        let is_option = option.text().len() > 1 && "-location".starts_with(option.text());
        let object = if is_option { &rest } else { argument };
        self.trace(ScriptTracepointKind::Watch, object)
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
}

/// The statement at the start of a place, if a function follows it: `span` alone, or before `if`, is a function's name.
fn statement_of(word: &Located, rest: &Located) -> Option<SpanStatement> {
    let statement = match word.text() {
        "span" => SpanStatement::Span,
        "return" => SpanStatement::Return,
        _ => return None,
    };
    is_place(rest).then_some(statement)
}

/// Whether what follows a statement is a place: not where the statement's word is a name itself.
fn is_place(rest: &Located) -> bool {
    !rest.is_empty() && keyword(rest.text(), "if") != Some(0)
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
