//! The parsed contents of a script, before any symbol is looked up.

use std::collections::BTreeSet;

use tracewire_debuginfo::{FunctionPlace, is_pattern};
use tracewire_model::{SpanStatement, TracepointNumber};

use crate::aggregate::ScriptAggregate;
use crate::place::Located;

/// A tracepoint as a script sets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptTracepoint {
    /// Its number, which GDB would give it too.
    pub number: TracepointNumber,
    /// The command that set it.
    pub kind: ScriptTracepointKind,
    /// Whether each call of a function is measured: with `span` or `return`. `kind` is [`ScriptTracepointKind::Trap`] then.
    pub span: Option<SpanStatement>,
    /// Where, as written.
    pub location: Located,
    /// `if` or `condition`, as written.
    pub condition: Option<Located>,
    /// `sample` or `first`: which hits make frames, of those that meet the condition.
    pub pick: Option<ScriptAggregate>,
    /// Whether it is enabled as a whole: when the run begins, where hits of others enable or disable it.
    pub enabled: bool,
    /// Its locations that are disabled one by one, counted from 1 in the order of their addresses.
    pub disabled_locations: BTreeSet<usize>,
    /// After how many hits the run stops; 0 for never.
    pub pass_count: u64,
    /// The actions of a hit.
    pub actions: Vec<ScriptAction>,
    /// Whether a hit collects each argument of the marker, too: `-m NAME` in one line, without a list.
    pub marker_arguments: bool,
}

/// The command that set a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptTracepointKind {
    /// `trace`.
    Trap,
    /// `ftrace`.
    Fast,
    /// `strace LOCATION`.
    Static,
    /// `strace -m ID`: the location is the marker's name.
    Marker,
    /// `watch EXPRESSION`: the location is the expression.
    Watch,
}

/// One line of `actions`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptAction {
    /// The whole line, as a trace file and the remote protocol carry it; of a one-line specification, the line that a
    /// script would have.
    pub line: Located,
    /// Its kind.
    pub kind: ScriptActionKind,
}

/// The kind of a line of `actions`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptActionKind {
    /// `collect`.
    Collect {
        /// For `/s`: how long a string may be.
        string_limit: Option<u32>,
        /// The list, parted at its commas, without the aggregates.
        items: Vec<Located>,
        /// The aggregates of the list.
        aggregates: Vec<ScriptAggregate>,
    },
    /// `teval`.
    Evaluate {
        /// The list, parted at its commas.
        items: Vec<Located>,
    },
    /// `enable` or `disable`, of other tracepoints.
    Switch {
        /// Whether it enables them.
        is_enable: bool,
        /// Which, with the word that names each.
        tracepoints: Vec<(TracepointNumber, Located)>,
    },
    /// `while-stepping`.
    WhileStepping {
        /// How many instructions.
        count: u64,
        /// The actions of each step.
        body: Vec<ScriptAction>,
    },
}

/// A variable made by `tvariable`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptVariable {
    /// Its name, without the `$`.
    pub name: String,
    /// Its value when a run starts.
    pub initial: i64,
}

/// The settings of the run; `None` for those that are not set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `set trace-notes`.
    pub notes: Option<String>,
    /// `set trace-user`.
    pub user: Option<String>,
    /// `set trace-stop-notes`.
    pub stop_notes: Option<String>,
    /// `set trace-buffer-size`, in bytes; [`BufferSize::Unlimited`] for `unlimited` and -1.
    pub buffer_size: Option<BufferSize>,
    /// `set circular-trace-buffer`.
    pub circular: Option<bool>,
    /// `set disconnected-tracing`.
    pub disconnected: Option<bool>,
    /// `set default-collect`: an additional collection for every tracepoint.
    pub default_collect: Option<ScriptAction>,
    /// `set breakpoint pending`: whether a location that is not found waits for a library (`on`) or is an error (`off`);
    /// `auto` (`None`) leaves it to the command line.
    pub pending: Option<bool>,
    /// Where a tracepoint on a function goes. GDB's scripts have no setting for it.
    pub function_place: FunctionPlace,
}

/// How much a run may fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferSize {
    /// So many bytes.
    Bytes(u64),
    /// As the target likes.
    Unlimited,
}

/// A command that has no part in setting tracepoints and was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// The command.
    pub command: Located,
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

    /// Whether its location names all places that fit a pattern.
    #[must_use]
    pub fn is_at_pattern(&self) -> bool {
        self.kind != ScriptTracepointKind::Watch && is_pattern(self.location.text())
    }

    /// The aggregates, in order.
    pub fn aggregates(&self) -> impl Iterator<Item = &ScriptAggregate> {
        self.actions.iter().flat_map(|action| match &action.kind {
            ScriptActionKind::Collect { aggregates, .. } => aggregates.as_slice(),
            _ => &[],
        })
    }

    /// Whether it only counts, and collects nothing.
    #[must_use]
    pub fn only_counts(&self) -> bool {
        !self.actions.is_empty()
            && self.actions.iter().all(|action| {
                matches!(&action.kind, ScriptActionKind::Collect { items, aggregates, .. }
                    if items.is_empty() && !aggregates.is_empty())
            })
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
        lines.push(action.line.text().to_owned());
        if let ScriptActionKind::WhileStepping { body, .. } = &action.kind {
            add_lines(body, lines);
            lines.push("end".to_owned());
        }
    }
}
