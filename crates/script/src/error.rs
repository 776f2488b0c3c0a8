//! Errors of a script.

use std::fmt;

use crate::place::Located;

/// An error in a script, with the words that are wrong.
///
/// Shown in several lines: `FILE:LINE:COLUMN: problem`, the line, the underlined words, and a hint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// The words that are wrong; none where a whole file cannot be read.
    pub place: Option<Located>,
    /// The problem.
    pub problem: Problem,
}

/// The kinds of problems.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot read the script {file}: {reason}")]
    Unreadable {
        /// Its name.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is too long to be a script.
    #[error("the script {file} is longer than {limit} bytes")]
    TooLong {
        /// Its name.
        file: String,
        /// The limit.
        limit: usize,
    },
    /// Files that read files that read files.
    #[error("`source` is nested deeper than {0} files")]
    SourceDepth(usize),
    /// No command has this name.
    #[error("`{name}` is no tracepoint command{}", suggestion(.near))]
    UnknownCommand {
        /// The name as written.
        name: String,
        /// Commands with a name like it.
        near: Vec<String>,
    },
    /// Several commands start so.
    #[error("`{name}` is ambiguous: {}", .candidates.join(", "))]
    AmbiguousCommand {
        /// The name as written.
        name: String,
        /// The possible meanings.
        candidates: Vec<String>,
    },
    /// Not a line of `actions`.
    #[error("`{name}` is no tracepoint action{}", suggestion_or_actions(.near))]
    UnknownAction {
        /// The name as written.
        name: String,
        /// Actions with a name like it.
        near: Vec<String>,
    },
    /// `set` of something else.
    #[error("`{name}` is no setting of a trace run{}", suggestion(.near))]
    UnknownSetting {
        /// The name as written.
        name: String,
        /// Settings with a name like it.
        near: Vec<String>,
    },
    /// `on` or `off` was expected.
    #[error("`on` or `off` expected")]
    NotASwitch,
    /// Something is missing.
    #[error("{0} expected")]
    Missing(&'static str),
    /// Unexpected text.
    #[error("nothing more expected here")]
    Junk,
    /// Not a number, or too large a one.
    #[error("{0} expected")]
    NotANumber(&'static str),
    /// A command about a tracepoint before there is one.
    #[error("no tracepoint has been set yet")]
    NoTracepoint,
    /// A number that no tracepoint has.
    #[error("there is no tracepoint number {0}")]
    NoSuchTracepoint(i64),
    /// A location of a tracepoint, where only whole tracepoints will do.
    #[error("a whole tracepoint expected, not one of its locations")]
    WholeTracepoint,
    /// `thread` and `task` in a location.
    #[error("a tracepoint cannot be limited to a thread; say `if $trace_thread == …` instead")]
    ThreadLimit,
    /// An `actions` or `while-stepping` without its end.
    #[error("`end` is missing: this block is never closed")]
    UnclosedBlock,
    /// Rule of GDB.
    #[error("while-stepping cannot be inside while-stepping")]
    NestedStepping,
    /// Rule of GDB.
    #[error("while-stepping can be used only once in a tracepoint")]
    SecondStepping,
    /// Rule of GDB: only a trap tracepoint steps.
    #[error("while-stepping cannot be used for {0} tracepoints")]
    SteppingKind(&'static str),
    /// Not a name for a variable.
    #[error(
        "the name of a trace state variable is `$` and letters, digits or `_`, and not only digits"
    )]
    VariableName,
    /// `$retval` and `$duration`.
    #[error("`$retval` and `$duration` are what a span or a return is about; choose another name")]
    NameOfSpans,
    /// A span of something else than a function.
    #[error(
        "`{0}` names no function with code of its own: `span` and `return` measure calls of functions"
    )]
    NoFunctionOfSpan(String),
    /// An aggregate of another form.
    #[error("expected {0}")]
    Aggregate(&'static str),
    /// Buckets that cannot be.
    #[error("LOW is less than HIGH, STEP is 1 or more, and there are 1000 buckets at most")]
    Buckets,
    /// More keys than an aggregate can have.
    #[error("an aggregate has {0} keys at most")]
    ManyKeys(usize),
    /// A text where a number is needed.
    #[error("a number is needed here; a text can be a key")]
    TextOfAggregate,
    /// More than a span can keep from its entry for its end.
    #[error(
        "the entry keeps {0} words for the end of the call, a text 8 of them: there are more keys and values"
    )]
    ManyCaptured(usize),
    /// A pick without its number.
    #[error("expected {0}, with a number N from 1 to 4294967295")]
    Pick(&'static str),
    /// A condition after a pick.
    #[error("a condition comes before what picks its hits: PLACE if COND {0}")]
    PickBeforeCondition(String),
    /// A pick by what is known at the end of a call.
    #[error("a call is picked when it begins: neither $retval nor $duration is known then")]
    PickAtEnd,
    /// A pick of calls with a condition that is known at their end.
    #[error(
        "a call is picked when it begins, and this condition is known when it ends: `sample` can pick there, `first` cannot"
    )]
    FirstAtEnd,
    /// A pick of calls, and aggregates of all calls.
    #[error(
        "the calls are picked, and this is computed at the end of every call: set a second tracepoint for it"
    )]
    PickOfMeasured,
    /// A pick of a tracepoint that makes no frames.
    #[error(
        "`sample` and `first` pick frames, and a list of aggregates makes none; aggregates count all hits"
    )]
    PickWithoutFrames,
    /// An aggregate in `while-stepping`.
    #[error("an aggregate counts hits: it cannot be inside while-stepping")]
    AggregateOfSteps,
    /// `$retval` where a function does not return.
    #[error(
        "$retval is known where a function returns: `return FUNCTION : $retval`, or `span FUNCTION : $retval`"
    )]
    NoReturnValue,
    /// The value before a write does not fit into a trace state variable.
    #[error("$old is kept of values of up to 8 bytes, and this has {0}")]
    NoOldValue(u64),
    /// `enable` or `disable` in `while-stepping`.
    #[error(
        "a hit enables or disables tracepoints, and a step does not: put this line before while-stepping"
    )]
    SwitchOfSteps,
    /// A variable of the script has the name of a tracepoint's enable variable.
    #[error(
        "${0} says whether the tracepoint is enabled; a script that enables it at a hit can have no other variable of this name"
    )]
    SwitchIsTaken(String),
    /// A variable of the script's has the name of the value before a write.
    #[error(
        "$old is the value before the write; a script with `watch` can have no other variable of this name"
    )]
    OldIsTaken,
    /// An undefined variable.
    #[error("there is no trace state variable ${0}")]
    NoSuchVariable(String),
    /// The initial value must be known before the program runs.
    #[error("a constant number expected: {0}")]
    NotConstant(&'static str),
    /// GDB's own variables.
    #[error(
        "`set` of a variable of GDB's own has no meaning for a trace run; a variable that tracepoints can use \
         is made by `tvariable`"
    )]
    ConvenienceVariable,
    /// `/x` and the like.
    #[error("only `/s`, with an optional length and a blank after it, can be a format")]
    CollectFormat,
    /// `/s` after a comma.
    #[error(
        "`/s` is before the whole list and holds for all of it; give the other values a `collect` of their own"
    )]
    LateFormat,
    /// A location that is not in the program.
    #[error("{0}")]
    Location(String),
    /// An expression that cannot be compiled.
    #[error("{0}")]
    Expression(String),
    /// An expression whose value may not be kept.
    #[error("{0} (--no-default-redactions records what only the default patterns fit)")]
    Redacted(String),
    /// An expression that cannot be compiled at one of the locations that a tracepoint has.
    #[error("at {location}: {reason}")]
    ExpressionThere {
        /// Why not.
        reason: String,
        /// Which one.
        location: String,
    },
}

fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; did you mean `{one}`?"),
        [most @ .., last] => format!("; did you mean `{}` or `{last}`?", most.join("`, `")),
    }
}

fn suggestion_or_actions(near: &[String]) -> String {
    if near.is_empty() {
        "; actions are collect, teval, enable, disable and while-stepping".to_owned()
    } else {
        suggestion(near)
    }
}

impl ScriptError {
    pub(crate) fn new(place: &Located, problem: Problem) -> Self {
        Self {
            place: Some(place.clone()),
            problem,
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(place) = &self.place else {
            return self.problem.fmt(f);
        };
        writeln!(f, "{place}: {}", self.problem)?;
        place.underline(f)
    }
}

impl std::error::Error for ScriptError {}

/// The names nearest to `name`: at most three, and none that would surprise.
pub(crate) fn near_names<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    found.dedup();
    let best = found.first().map_or(0, |(distance, _)| *distance);
    found
        .into_iter()
        .take_while(|(distance, _)| *distance == best)
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}
