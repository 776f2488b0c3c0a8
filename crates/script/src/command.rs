//! The commands that a script may hold, and how GDB abbreviates them.

use crate::error::{Problem, near_names};

/// The command's meaning here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    Trace,
    FastTrace,
    StaticTrace,
    Span,
    Watch,
    Return,
    Actions,
    Commands,
    Collect,
    Backtrace,
    Evaluate,
    WhileStepping,
    End,
    PassCount,
    Variable,
    Delete,
    Enable,
    Disable,
    Condition,
    Ignore,
    Set,
    Source,
    /// A breakpoint of GDB: it takes a number and is ignored.
    Breakpoint,
    /// A command of a session, which has no part in setting tracepoints.
    Session,
}

use Command as C;

/// Names and aliases. Where a beginning fits several, an earlier entry that is marked wins, as GDB's own
/// aliases of one and two letters do.
const COMMANDS: &[(&str, Command)] = &[
    ("trace", C::Trace),
    ("tracepoint", C::Trace),
    ("tp", C::Trace),
    ("tr", C::Trace),
    ("tra", C::Trace),
    ("trac", C::Trace),
    ("ftrace", C::FastTrace),
    ("strace", C::StaticTrace),
    ("span", C::Span),
    ("return", C::Return),
    ("actions", C::Actions),
    ("commands", C::Commands),
    ("collect", C::Collect),
    ("teval", C::Evaluate),
    ("while-stepping", C::WhileStepping),
    ("stepping", C::WhileStepping),
    ("ws", C::WhileStepping),
    ("end", C::End),
    ("passcount", C::PassCount),
    ("tvariable", C::Variable),
    ("delete", C::Delete),
    ("d", C::Delete),
    ("enable", C::Enable),
    ("en", C::Enable),
    ("disable", C::Disable),
    ("dis", C::Disable),
    ("disa", C::Disable),
    ("condition", C::Condition),
    ("ignore", C::Ignore),
    ("set", C::Set),
    ("source", C::Source),
    ("break", C::Breakpoint),
    ("br", C::Breakpoint),
    ("b", C::Breakpoint),
    ("tbreak", C::Breakpoint),
    ("hbreak", C::Breakpoint),
    ("thbreak", C::Breakpoint),
    ("rwatch", C::Breakpoint),
    ("awatch", C::Breakpoint),
    ("watch", C::Watch),
    ("catch", C::Breakpoint),
    ("dprintf", C::Breakpoint),
    ("tstart", C::Session),
    ("tstop", C::Session),
    ("tstatus", C::Session),
    ("tfind", C::Session),
    ("tdump", C::Session),
    ("tsave", C::Session),
    ("save", C::Session),
    ("target", C::Session),
    ("file", C::Session),
    ("exec-file", C::Session),
    ("symbol-file", C::Session),
    ("directory", C::Session),
    ("attach", C::Session),
    ("detach", C::Session),
    ("disconnect", C::Session),
    ("start", C::Session),
    ("starti", C::Session),
    ("run", C::Session),
    ("r", C::Session),
    ("continue", C::Session),
    ("c", C::Session),
    ("next", C::Session),
    ("step", C::Session),
    ("finish", C::Session),
    ("kill", C::Session),
    ("quit", C::Session),
    ("q", C::Session),
    ("print", C::Session),
    ("p", C::Session),
    ("printf", C::Session),
    ("echo", C::Session),
    ("output", C::Session),
    ("info", C::Session),
    ("i", C::Session),
    ("show", C::Session),
    ("list", C::Session),
    ("x", C::Session),
    ("backtrace", C::Session),
    ("bt", C::Session),
    ("shell", C::Session),
];

/// The commands between `actions` and `end`.
const ACTIONS: &[(&str, Command)] = &[
    ("collect", C::Collect),
    ("backtrace", C::Backtrace),
    ("bt", C::Backtrace),
    ("teval", C::Evaluate),
    ("enable", C::Enable),
    ("disable", C::Disable),
    ("while-stepping", C::WhileStepping),
    ("stepping", C::WhileStepping),
    ("ws", C::WhileStepping),
];

/// Finds a command by its name or by a beginning that no other command has.
fn find(name: &str, table: &[(&str, Command)]) -> Result<Command, Vec<String>> {
    if let Some((_, command)) = table.iter().find(|(full, _)| *full == name) {
        return Ok(*command);
    }
    let fitting: Vec<_> = table
        .iter()
        .filter(|(full, _)| !name.is_empty() && full.starts_with(name))
        .collect();
    match fitting.first() {
        Some((_, first)) if fitting.iter().all(|(_, command)| command == first) => Ok(*first),
        _ => Err(fitting.iter().map(|(full, _)| (*full).to_owned()).collect()),
    }
}

/// A command of the script itself.
pub(crate) fn command(name: &str) -> Result<Command, Problem> {
    find(name, COMMANDS).map_err(|candidates| {
        if candidates.is_empty() {
            Problem::UnknownCommand {
                name: name.to_owned(),
                near: near_names(name, COMMANDS.iter().map(|(full, _)| *full)),
            }
        } else {
            Problem::AmbiguousCommand {
                name: name.to_owned(),
                candidates,
            }
        }
    })
}

/// A command between `actions` and `end`.
pub(crate) fn action(name: &str) -> Result<Command, Problem> {
    // A plain `while` is another command of GDB.
    let table = if name == "while" { &[] } else { ACTIONS };
    find(name, table).map_err(|_| Problem::UnknownAction {
        name: name.to_owned(),
        near: near_names(name, ACTIONS.iter().map(|(full, _)| *full)),
    })
}

/// How much of a line is the command's name: GDB ends it at the first character that no name has, so that
/// `collect/s`, `p/x` and `x/4b` are read.
pub(crate) fn name_length(line: &str) -> usize {
    line.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_gdbs() {
        for (name, expected) in [
            ("tr", C::Trace),
            ("tracep", C::Trace),
            ("ftr", C::FastTrace),
            ("col", C::Collect),
            ("te", C::Evaluate),
            ("tev", C::Evaluate),
            ("pass", C::PassCount),
            ("act", C::Actions),
            ("cond", C::Condition),
            ("c", C::Session),
            ("d", C::Delete),
            ("tvar", C::Variable),
            ("comm", C::Commands),
        ] {
            assert_eq!(command(name), Ok(expected), "{name}");
        }
        assert_eq!(action("ws"), Ok(C::WhileStepping));
        assert_eq!(action("while-"), Ok(C::WhileStepping));
        assert!(action("while").is_err());
        assert!(matches!(
            command("colect"),
            Err(Problem::UnknownCommand { near, .. }) if near == ["collect"]
        ));
        assert!(matches!(
            command("t"),
            Err(Problem::AmbiguousCommand { .. })
        ));
    }
}
