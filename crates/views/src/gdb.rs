//! The commands with which GDB opens a trace file, symbols included.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use tracewire_tracefile::TraceFile;

use crate::program::module_path;

/// The commands: `symbol-file -o` for the program and `add-symbol-file -o` for each library that has a file, at
/// the places where they were loaded, then `target tfile`. `named` takes the program's place where the file does
/// not name it.
#[must_use]
pub fn commands(file: &TraceFile, path: &Path, named: &[PathBuf]) -> String {
    let mut text = String::from("set confirm off\n");
    let modules = file.description().modules();
    if modules.is_empty() {
        for path in named {
            let _ = writeln!(text, "file {}", quoted(path));
        }
    }
    for (index, module) in modules.iter().enumerate() {
        let path = match (index, named.first()) {
            (0, Some(named)) => named.clone(),
            _ => module_path(module),
        };
        if !path.is_absolute() && index > 0 {
            continue;
        }
        let command = if index == 0 {
            "symbol-file"
        } else {
            "add-symbol-file"
        };
        let _ = match (index, module.bias) {
            // Constants that were not collected are read from the program's file.
            (0, 0) => writeln!(text, "file {}", quoted(&path)),
            _ => writeln!(text, "{command} -o {:#x} {}", module.bias, quoted(&path)),
        };
    }
    let _ = writeln!(text, "target tfile {}", quoted(path));
    text
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
