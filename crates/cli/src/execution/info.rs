//! `info` on execution traces.

use std::io::Write;

use tracewire_exec_analysis::functions::entered;
use tracewire_exec_analysis::view::{info_json, info_text};

use super::open::Source;
use crate::answer::Answer;
use crate::arguments::InfoArguments;
use crate::stdout::output;

/// `info`.
pub fn info(source: Source, arguments: &InfoArguments) -> anyhow::Result<Answer> {
    let opened = source.open(&arguments.elf, arguments.machine)?;
    let functions = match &opened.symbols {
        Some(symbols) => Some(entered(&opened.recording, symbols)?),
        None => None,
    };
    let mut output = output();
    if arguments.json {
        let mut info = info_json(&opened.recording);
        if let (Some(functions), Some(info)) = (functions, info.as_object_mut()) {
            info.insert("functions".into(), functions.all.into());
            info.insert("entered_functions".into(), functions.entered.into());
        }
        writeln!(output, "{info}")?;
    } else {
        let name = opened.shown().display().to_string();
        write!(output, "{}", info_text(&opened.recording, &name))?;
        if let Some(functions) = functions {
            writeln!(
                output,
                "  {:<16} {} of the program's {}",
                "functions", functions.entered, functions.all
            )?;
        }
    }
    output.flush()?;
    Ok(Answer::Yes)
}
