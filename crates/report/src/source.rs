//! Source lines, from files of this machine.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use tracewire_debuginfo::Symbols;
use tracewire_model::Address;

/// The largest file that is read.
const LARGEST: u64 = 4 << 20;

/// The longest line that is shown, in characters.
const LONGEST_LINE: usize = 300;

/// How source files end. The name of a file comes from the program's debug information, and the report is sent to others: a program that
/// names a private file as its source gets nothing of it into the report.
const ENDINGS: [&str; 31] = [
    "adb", "ads", "asm", "c", "c++", "cc", "cpp", "cu", "cxx", "d", "f", "f90", "go", "h", "h++",
    "hh", "hpp", "hxx", "inc", "inl", "ipp", "kt", "m", "mm", "nim", "rs", "s", "swift", "tcc",
    "v", "zig",
];

/// Source files, each read once.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashMap<PathBuf, Option<Rc<SourceFile>>>,
}

/// A source file.
#[derive(Debug)]
pub struct SourceFile {
    lines: Vec<String>,
    changed: Option<SystemTime>,
}

/// Lines around a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    /// The number of the first line.
    pub first: u64,
    /// The lines.
    pub lines: Vec<String>,
    /// Whether the file was written after the program.
    pub is_newer: bool,
}

impl SourceFile {
    /// All lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The lines from `first` to `last`, counted from 1.
    pub fn excerpt(&self, first: u64, last: u64, built: Option<SystemTime>) -> Option<Excerpt> {
        let first = first.max(1);
        let start = usize::try_from(first - 1).ok()?;
        let end = usize::try_from(last).ok()?.min(self.lines.len());
        let lines = self
            .lines
            .get(start..end)
            .filter(|lines| !lines.is_empty())?;
        Some(Excerpt {
            first,
            lines: lines.to_vec(),
            is_newer: self.is_newer(built),
        })
    }

    /// Whether the file was written after a program.
    pub fn is_newer(&self, built: Option<SystemTime>) -> bool {
        built
            .zip(self.changed)
            .is_some_and(|(built, changed)| changed > built)
    }
}

impl Sources {
    /// The file that the code at an address comes from, by the name that the debug information has for it; none where the file is not
    /// here, or is no source file.
    pub fn file(&mut self, symbols: &Symbols, pc: Address, name: &str) -> Option<Rc<SourceFile>> {
        let path = symbols.source_path(pc, name)?;
        if !path.is_absolute() {
            return None;
        }
        let file = self.files.entry(path.clone());
        file.or_insert_with(|| read(&path).map(Rc::new)).clone()
    }
}

/// When the file of the module at an address was written.
pub fn built(symbols: &Symbols, pc: Address) -> Option<SystemTime> {
    let module = symbols.place(pc)?.module;
    let modules = symbols.modules();
    let module = modules.into_iter().find(|one| one.id == module)?;
    fs::metadata(&module.path).ok()?.modified().ok()
}

fn read(path: &Path) -> Option<SourceFile> {
    // A link may lead to another kind of file.
    let path = path.canonicalize().ok()?;
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let metadata = fs::metadata(&path).ok()?;
    if !ENDINGS.contains(&ending.as_str()) || !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    let bytes = fs::read(&path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let shown = |line: &str| match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => line.get(..end).unwrap_or_default().to_owned() + "…",
        None => line.to_owned(),
    };
    Some(SourceFile {
        lines: text.lines().map(shown).collect(),
        changed: metadata.modified().ok(),
    })
}
