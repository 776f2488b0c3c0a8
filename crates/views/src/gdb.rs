//! The commands with which GDB opens a trace file, symbols included.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};

use tracewire_debuginfo::ModuleFile;
use tracewire_model::{Address, Tracepoint, TracepointNumber};
use tracewire_tracefile::TraceFile;

use crate::program::{
    ProgramError, ProgramFiles, by_kind, check_build_id, file_in, module_path, named_bias,
};
use crate::words::printable;

/// The commands: `file` for a program at its own addresses, `add-symbol-file -o` for one that was moved and for each library with
/// a file, then `target tfile`. `named` replaces the program's path. If the file does not name its modules, these are the only
/// modules, at the places that [`Program`](crate::Program) finds.
///
/// With a trace file GDB 13 reads constants that were not collected at the addresses in the program's file, moved or not. Where
/// sections are trusted to be read-only it takes them from the moved sections instead. Those it knows by `add-symbol-file`, and
/// not by `symbol-file`.
///
/// A file that is not the traced one is not loaded, and GDB reports it.
///
/// # Errors
/// When a named file is not the traced one; when the file does not name its modules and the named one cannot be used.
pub fn commands(file: &TraceFile, path: &Path, named: &[PathBuf]) -> Result<String, ProgramError> {
    let mut text = String::from("set confirm off\nset trust-readonly-sections on\n");
    let modules = file.description().modules();
    let files = ProgramFiles::default();
    let (directories, named) = by_kind(named, modules);
    if modules.is_empty() {
        for path in &named {
            let program = ModuleFile::read(path)?;
            text.push_str(&load_program(path, named_bias(file, &program)?));
        }
    }
    for (index, module) in modules.iter().enumerate() {
        let named = named.first().filter(|_| index == 0);
        let copied = || Some(file_in(&directories, module, &files)?.path().to_owned());
        let path = named.map(|path| path.to_path_buf()).or_else(copied);
        let path = path.unwrap_or_else(|| module_path(module));
        if !path.is_absolute() && index > 0 {
            continue;
        }
        if let Ok(found) = ModuleFile::read(&path)
            && let Err(error) = check_build_id(&found, module)
        {
            if named.is_some() {
                return Err(error);
            }
            let error = printable(&error.to_string()).replace('\\', "\\\\");
            let _ = writeln!(text, "echo {error}; its symbols are not used\\n");
            continue;
        }
        text.push_str(&match index {
            0 => load_program(&path, module.bias),
            _ => load_moved(&path, module.bias),
        });
    }
    let strings = file.description().tracepoints().iter().any(|tracepoint| {
        let commands = &tracepoint.definition.source.commands;
        commands
            .iter()
            .any(|command| command.starts_with("col") && command.contains("/s"))
    });
    if strings {
        // GDB reads nothing after the error: so `target tfile` comes last.
        text.push_str(
            "# GDB 13 cannot set tracepoints again that collect strings (\"Target does not support \"/s\"\").\n\
             # The frames are all there nevertheless: tfind, print, info locals.\n",
        );
    }
    // GDB makes the tracepoints from the last line of the file on.
    let tracepoints = file.description().tracepoints().iter().rev();
    for taken in taken_for_another(tracepoints) {
        let _ = writeln!(text, "echo {taken}\\n");
    }
    let _ = writeln!(text, "target tfile {}", quoted(path));
    Ok(text)
}

/// A tracepoint that GDB confuses with another one when it opens a file: its frames are shown as those of the other, and `tdump`
/// uses the other's actions for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenForAnother {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// The tracepoint that GDB takes it for.
    pub other: TracepointNumber,
    /// Where both are.
    pub address: Address,
}

/// The effect, in a line.
impl fmt::Display for TakenForAnother {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            other,
            address,
        } = self;
        write!(
            f,
            "GDB takes tracepoint {number} for tracepoint {other}, since both are at {address} under the same condition: \
             tdump is of no use in its frames, but print is."
        )
    }
}

/// The tracepoints that GDB takes for others, given in the order in which it creates them. GDB compares kind, address, condition
/// and counts, and not number or actions.
pub fn taken_for_another<'t>(
    tracepoints: impl IntoIterator<Item = &'t Tracepoint>,
) -> Vec<TakenForAnother> {
    let mut known = HashMap::new();
    let mut taken: Vec<TakenForAnother> = Vec::new();
    for tracepoint in tracepoints {
        let definition = &tracepoint.definition;
        if !definition.makes_frames() {
            continue;
        }
        let key = (
            mem::discriminant(&definition.kind),
            definition.address,
            &definition.source.condition,
            definition.step_count,
            definition.pass_count,
        );
        let number = definition.number;
        let other = *known.entry(key).or_insert(number);
        let last = taken.last().map(|last| (last.number, last.other));
        if other != number && last != Some((number, other)) {
            taken.push(TakenForAnother {
                number,
                other,
                address: definition.address,
            });
        }
    }
    taken
}

/// The command for a program, which may be at its own addresses.
fn load_program(path: &Path, bias: u64) -> String {
    match bias {
        0 => load("file", path),
        bias => load_moved(path, bias),
    }
}

fn load_moved(path: &Path, bias: u64) -> String {
    load(&format!("add-symbol-file -o {bias:#x}"), path)
}

fn load(command: &str, path: &Path) -> String {
    // A line's end in a name would begin another command.
    let name = path.display().to_string();
    if name.contains(char::is_control) {
        return format!("# GDB cannot be given {}\n", printable(&name));
    }
    format!("{command} {}\n", quoted(path))
}

/// A file name as GDB's command line takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%^~".contains(c);
    if path.chars().all(plain) {
        return path;
    }
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}
