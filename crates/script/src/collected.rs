//! The expressions that the action lines of a trace file's tracepoint collect.

use crate::actions;
use crate::command::{self, Command, name_length};
use crate::model::ScriptActionKind;
use crate::place::Located;
use crate::source;

/// The items of all `collect` lines, in order, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectedItems {
    /// The expressions collected at a hit.
    pub hit: Vec<String>,
    /// The expressions collected at each step of `while-stepping`.
    pub step: Vec<String>,
}

impl CollectedItems {
    /// Reads the action lines of a trace file, `while-stepping` and its `end` included. A line that is not understood is left
    /// out: another program may have written the file.
    #[must_use]
    pub fn of(commands: &[String]) -> Self {
        let mut items = Self::default();
        let mut stepping = false;
        let file = std::sync::Arc::from("trace file");
        for (index, command) in source::as_written(commands).iter().enumerate() {
            let line = Located::line(&file, index + 1, command.clone()).trimmed();
            let length = name_length(line.text());
            match command::action(&line.text()[..length]) {
                Ok(Command::WhileStepping) => stepping = true,
                Ok(Command::Collect) => {
                    let Ok(action) = actions::collect(&line, &line.after(length).trimmed()) else {
                        continue;
                    };
                    let ScriptActionKind::Collect { items: list, .. } = action.kind else {
                        continue;
                    };
                    let known = if stepping {
                        &mut items.step
                    } else {
                        &mut items.hit
                    };
                    for item in list {
                        if !known.iter().any(|known| known == item.text()) {
                            known.push(item.text().to_owned());
                        }
                    }
                }
                Err(_) if line.text() == "end" => stepping = false,
                _ => {}
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::CollectedItems;

    #[test]
    fn items_of_a_file() {
        let commands = [
            "collect $regs, *j",
            "collect/s j->name, *j",
            "teval $hits = 1",
            "while-stepping 2",
            "collect score",
            "end",
            "collect $hits",
            "frobnicate",
        ];
        let items = CollectedItems::of(&commands.map(str::to_owned));
        assert_eq!(items.hit, ["$regs", "*j", "j->name", "$hits"]);
        assert_eq!(items.step, ["score"]);
    }
}
