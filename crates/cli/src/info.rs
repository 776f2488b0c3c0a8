//! `info`: what a file is and what its run was asked for.

use std::io::Write as _;

use tracewire_views::{ElfInfo, Info, table};

use crate::answer::Answer;
use crate::arguments::InfoArguments;
use crate::execution::{self, FileKind, Kind, refuse_options};
use crate::several;
use crate::stdout::output;

/// `info`.
pub fn info(arguments: &InfoArguments) -> anyhow::Result<Answer> {
    if ElfInfo::is_elf(&arguments.file) {
        let info = ElfInfo::read(&arguments.file)?;
        let mut output = output();
        if arguments.json {
            writeln!(output, "{}", info.json())?;
        } else {
            let name = arguments.file.display().to_string();
            write!(output, "{}", table::elf(&info, &name))?;
        }
        output.flush()?;
        return Ok(Answer::Yes);
    }
    if let Some(parts) = several::parts_of(&arguments.file)? {
        return several::info(arguments, &parts);
    }
    let path = match execution::kind(&arguments.file)? {
        Kind::Execution(source) => return execution::info::info(source, arguments),
        Kind::TraceFile(path) => path,
    };
    // What is no trace file, or is not there, is reported first.
    let file = arguments.machine.trace_file(&path, &[])?;
    refuse_options(&[("--elf", !arguments.elf.is_empty())], FileKind::TraceFile)?;
    let mut info = Info::of(&file);
    if let Some(machine) = arguments.machine.architecture {
        info.architecture = Some(machine.name().to_owned());
    }
    let mut output = output();
    if arguments.json {
        writeln!(output, "{}", info.json())?;
    } else {
        write!(
            output,
            "{}",
            table::info(&info, &arguments.file.display().to_string())
        )?;
    }
    output.flush()?;
    Ok(Answer::Yes)
}
