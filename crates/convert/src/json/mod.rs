//! JSON lines: everything that is in a trace file, one object a line.
//!
//! The first line has `"kind":"trace-file"`; a `line` follows for each line of the description, a `frame` for each complete frame, and
//! `rest` for the bytes after the last one. The fields are documented in
//! [docs/formats/json.md](https://github.com/tracewire/tracewire/blob/main/docs/formats/json.md).

mod frame;
mod lines;
mod read;
mod write;

use std::collections::HashSet;

use tracewire_arch::RegisterLayout;
use tracewire_tracefile::Description;

use crate::registers::MAX_NAME;

pub use read::read;
pub use write::write;

/// The most data of one frame that goes into a line, in bytes.
const MAX_FRAME: usize = 64 << 20;

/// In larger frames neither registers nor variables are named, which takes less room.
const MAX_NAMED: usize = 1 << 20;

/// The longest line that is read, in bytes: the size of the largest frame that is written. No block takes more than 17 characters
/// for each of its bytes, as one of no registers does: `{"registers":""},`.
const MAX_LINE: u64 = 18 * MAX_FRAME as u64;

/// The error for a string that should be bytes.
const NO_BYTES: &str = "expected bytes of two hexadecimal digits each";

/// The error of a line, without the line's number, which is always 1.
fn problem(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {line} column {column}")) {
        Some(problem) => format!("{problem} (column {column})"),
        None => text,
    }
}

/// The layout in which register blocks are written by name: that of the description's own XML, unless a name occurs twice or is too
/// long.
fn named_registers(description: &Description) -> Option<RegisterLayout> {
    let layout = RegisterLayout::parse(description.target_xml()?).ok()?;
    let mut names = HashSet::new();
    layout
        .registers()
        .iter()
        .all(|register| register.name.len() <= MAX_NAME && names.insert(register.name.as_str()))
        .then_some(layout)
}
