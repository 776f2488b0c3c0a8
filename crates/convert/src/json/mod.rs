//! JSON lines: everything that is in a trace file, one object a line.
//!
//! | `kind` | what it holds | how often |
//! |---|---|---|
//! | `trace-file` | byte order of the frames; whether an empty line ends the description | first, once |
//! | `line` | one line of the description: `text`, or `bytes` where it is no UTF-8, and what it says, up to 64 KiB | each line |
//! | `frame` | tracepoint and blocks, in order | each complete frame |
//! | `rest` | the bytes behind the last complete frame: the end marker, a cut frame | in pieces, or not at all |
//!
//! What is read back is the least that is needed for the same bytes: `byte_order`, `closed`; `text` or `bytes`, `newline`;
//! `tracepoint` and `blocks`; `bytes`. All else is there for people and scripts, and may be left out. A block is one of
//!
//! ```text
//! {"registers":{"rax":"0x1",…}}        every register of the target description, as a number
//! {"registers":"0100…"}                the bytes, where the description does not cover the block exactly
//! {"memory":"0x404040","bytes":"00ff"}
//! {"variable":2,"value":-1}
//! {"static_data":"…"}
//! {"unknown":"…"}                      from a block that cannot be read to the end of the frame, its letter included
//! ```

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

/// The longest line that is read, in bytes: what the largest frame that is written can take. No block takes more than 17
/// characters for each of its bytes, as one of no registers does: `{"registers":""},`.
const MAX_LINE: u64 = 18 * MAX_FRAME as u64;

/// What is said of a string that should be bytes.
const NO_BYTES: &str = "expected bytes of two hexadecimal digits each";

/// What is wrong with a line, without the line's number, which is always 1.
fn problem(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {line} column {column}")) {
        Some(problem) => format!("{problem} (column {column})"),
        None => text,
    }
}

/// The layout in which register blocks are told by name: that of the description's own XML, as long as no name
/// stands twice or is longer than a name.
fn named_registers(description: &Description) -> Option<RegisterLayout> {
    let layout = RegisterLayout::parse(description.target_xml()?).ok()?;
    let mut names = HashSet::new();
    layout
        .registers()
        .iter()
        .all(|register| register.name.len() <= MAX_NAME && names.insert(register.name.as_str()))
        .then_some(layout)
}
