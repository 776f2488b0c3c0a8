//! The action lines of a trace file.
//!
//! GDB 13 compiles a file's action lines again when it opens the file. At the first that it cannot compile it drops the rest of
//! the tracepoints: every `collect/s`, and expressions that its compiler does not support. Such a line is written as a comment,
//! which GDB skips, followed by a line that collects as much of it as GDB supports:
//!
//! ```text
//! # collect/s job->name, *items@count
//! collect job->name
//! ```

use crate::actions;
use crate::command::{self, Command, name_length};
use crate::model::{ScriptAction, ScriptActionKind};
use crate::place::Located;

/// The prefix of a line that GDB is to skip.
const COMMENT: &str = "# ";

/// The lines of actions in order, as GDB sends them (`while-stepping` is followed by its body and `end`), in a form that GDB
/// accepts. `gdb_can_collect` returns whether GDB accepts an item.
pub(crate) fn for_gdb<'a>(
    actions: impl IntoIterator<Item = &'a ScriptAction>,
    gdb_can_collect: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    for action in actions {
        let source = action.line.text().to_owned();
        match &action.kind {
            ScriptActionKind::Collect {
                string_limit,
                items,
                aggregates,
            } => {
                let known: Vec<&str> = items
                    .iter()
                    .map(Located::text)
                    .filter(|item| gdb_can_collect(item))
                    .collect();
                if string_limit.is_none() && aggregates.is_empty() && known.len() == items.len() {
                    lines.push(source);
                    continue;
                }
                lines.push(format!("{COMMENT}{source}"));
                if !known.is_empty() {
                    lines.push(format!("collect {}", known.join(", ")));
                }
            }
            ScriptActionKind::Evaluate { items } => {
                let known = items.iter().all(|item| gdb_can_collect(item.text()));
                lines.push(if known {
                    source
                } else {
                    format!("{COMMENT}{source}")
                });
            }
            // A resolver has made `teval` lines of them.
            ScriptActionKind::Switch { .. } => lines.push(format!("{COMMENT}{source}")),
            ScriptActionKind::WhileStepping { body, .. } => {
                lines.push(source);
                lines.extend(for_gdb(body, gdb_can_collect));
                lines.push("end".to_owned());
            }
        }
    }
    lines
}

/// The action lines of a trace file as the user wrote them: lines that are comments for GDB replace the lines that are there for
/// GDB.
#[must_use]
pub fn as_written(lines: &[String]) -> Vec<String> {
    let mut written = Vec::new();
    let mut instead: Option<Vec<String>> = None;
    for line in lines {
        let comment = line
            .strip_prefix(COMMENT)
            .filter(|comment| is_action(comment));
        if let Some(original) = comment {
            instead = collected(original);
            written.push(original.to_owned());
            continue;
        }
        let stands_in = instead.take().is_some_and(|original| {
            collected(line).is_some_and(|known| known.iter().all(|item| original.contains(item)))
        });
        if !stands_in {
            written.push(line.clone());
        }
    }
    written
}

fn is_action(line: &str) -> bool {
    matches!(
        command::action(&line[..name_length(line)]),
        Ok(Command::Collect | Command::Evaluate)
    )
}

/// The items of a `collect` line.
fn collected(line: &str) -> Option<Vec<String>> {
    let line = Located::line(&std::sync::Arc::from("trace file"), 1, line.to_owned()).trimmed();
    let length = name_length(line.text());
    if !matches!(
        command::action(&line.text()[..length]),
        Ok(Command::Collect)
    ) {
        return None;
    }
    let action = actions::collect(&line, &line.after(length).trimmed()).ok()?;
    match action.kind {
        ScriptActionKind::Collect { items, .. } => {
            Some(items.iter().map(|item| item.text().to_owned()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{as_written, for_gdb};
    use crate::Script;

    #[test]
    fn what_gdb_cannot_take_is_a_comment_and_comes_back() {
        let mut script = Script::new();
        let text = "trace f\nactions\ncollect a, b\ncollect/s c, strange\nteval $x = strange\n\
                    while-stepping 2\ncollect strange\nend\nend\n";
        script.read_text("test", text).expect("a script");
        let actions = &script.tracepoints[0].actions;
        let lines = for_gdb(actions, &|item| !item.contains("strange"));
        assert_eq!(
            lines,
            [
                "collect a, b",
                "# collect/s c, strange",
                "collect c",
                "# teval $x = strange",
                "while-stepping 2",
                "# collect strange",
                "end"
            ]
        );
        assert_eq!(as_written(&lines), script.tracepoints[0].command_lines());
    }
}
