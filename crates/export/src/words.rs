//! Places, programs and stacks in words.

use tracewire_tracefile::TraceFile;
use tracewire_views::StackEntry;

/// A function on a stack with its source place.
pub(crate) fn stack_entry(entry: &StackEntry) -> String {
    let name = entry.function.as_deref().unwrap_or(&entry.pc);
    let place = match (&entry.file, entry.line) {
        (Some(file), Some(line)) => format!(" {file}:{line}"),
        (Some(file), None) => format!(" {file}"),
        (None, _) => String::new(),
    };
    let inlined = if entry.inlined { " (inlined)" } else { "" };
    format!("{name}{place}{inlined}")
}

/// The program's path, as the first module has it.
pub(crate) fn program_path(file: &TraceFile) -> Option<String> {
    let module = file.description().modules().first()?;
    let path = String::from_utf8_lossy(&module.path).into_owned();
    Some(path).filter(|path| !path.is_empty())
}

/// The program's file name.
pub(crate) fn program_name(file: &TraceFile) -> String {
    let path = program_path(file);
    let name = path.and_then(|path| path.rsplit('/').next().map(str::to_owned));
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "traced program".to_owned())
}
