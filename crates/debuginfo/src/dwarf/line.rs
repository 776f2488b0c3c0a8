//! Line tables, arranged as GDB arranges them: one table a source file of a unit, each sorted by address.
//!
//! Where a tracepoint on a line goes follows from this arrangement, so it is built by GDB's rules (those of
//! version 13): a switch to another file ends the first file's line at that address; lines that only repeat the
//! one before with another discriminator are dropped; an entry that is not a statement does not displace one
//! that is.

use std::collections::HashMap;

use gimli::{LineInstruction, LineProgramHeader};

use super::{DebugInformation, Unit};
use crate::module::Reader;

/// The line tables of one unit, one for each source file.
#[derive(Debug, Default)]
pub(crate) struct LineTable {
    pub(crate) files: Vec<FileLines>,
    /// The table's file numbers (`DW_AT_decl_file`), as indices into `files`.
    numbers: HashMap<u64, usize>,
}

/// The lines of one source file.
#[derive(Debug)]
pub(crate) struct FileLines {
    /// As the compiler was given it; what GDB shows.
    pub(crate) name: String,
    /// With directories, as far as known.
    pub(crate) path: String,
    pub(crate) entries: Vec<LineEntry>,
}

/// Where code for a line starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineEntry {
    pub(crate) address: u64,
    /// 0 where the code of the file ends.
    pub(crate) line: u64,
    pub(crate) is_statement: bool,
    pub(crate) prologue_end: bool,
}

/// The line that covers an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinePlace {
    /// Which file, as an index into [`LineTable::files`].
    pub(crate) file: usize,
    pub(crate) line: u64,
    /// Where the line's code starts.
    pub(crate) start: u64,
    /// Where it ends; none if nothing follows.
    pub(crate) end: Option<u64>,
}

impl LineTable {
    /// Runs the line program of a unit; lines after damage are left out.
    pub(crate) fn read(debug: &DebugInformation, number: usize) -> Self {
        let Some(unit) = debug.unit(number) else {
            return Self::default();
        };
        let Some(program) = unit.line_program.clone() else {
            return Self::default();
        };
        let low_pc = debug.facts(number).low_pc;
        let header = program.header();
        let mut builder = Builder::new(debug, number, header);
        let mut sequence = Sequence::new(header, &mut builder);
        let mut instructions = header.instructions();
        while let Ok(Some(instruction)) = instructions.next_instruction(header) {
            let ended = matches!(instruction, LineInstruction::EndSequence);
            if sequence
                .execute(header, &instruction, low_pc, &mut builder)
                .is_none()
            {
                break;
            }
            if ended {
                sequence = Sequence::new(header, &mut builder);
            }
        }
        builder.finish()
    }

    /// The file that a `DW_AT_decl_file` or `DW_AT_call_file` number names.
    pub(crate) fn file(&self, number: u64) -> Option<&FileLines> {
        self.files.get(*self.numbers.get(&number)?)
    }

    /// The line that covers an address: GDB's `find_pc_sect_line`.
    pub(crate) fn place(&self, address: u64) -> Option<LinePlace> {
        let mut best: Option<(usize, LineEntry)> = None;
        let mut best_end: Option<u64> = None;
        let mut first_after: Option<u64> = None;
        for (file, lines) in self.files.iter().enumerate() {
            let entries = &lines.entries;
            let Some(first) = entries.first() else {
                continue;
            };
            if first.address > address && first_after.is_none_or(|after| first.address < after) {
                first_after = Some(first.address);
            }
            let next = entries.partition_point(|entry| entry.address <= address);
            if let Some(previous) = next.checked_sub(1).and_then(|index| entries.get(index))
                && previous.line != 0
                && best.is_none_or(|(_, best)| previous.address > best.address)
            {
                best = Some((file, prefer_statement(entries, next - 1, *previous)));
                best_end = best_end.filter(|&end| end > previous.address);
            }
            if let (Some((_, best)), Some(following)) = (best, entries.get(next))
                && following.address > best.address
                && best_end.is_none_or(|end| end > following.address)
            {
                best_end = Some(following.address);
            }
        }
        let (file, entry) = best?;
        let end = match (best_end, first_after) {
            (Some(end), Some(after)) if end >= after => Some(after),
            (Some(end), _) => Some(end),
            (None, after) => after,
        };
        Some(LinePlace {
            file,
            line: entry.line,
            start: entry.address,
            end,
        })
    }
}

/// The files of a unit's line table, without the lines.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    files: Vec<FileName>,
    /// The table's file numbers, as indices into `files`.
    numbers: HashMap<u64, usize>,
}

/// The name of a source file.
#[derive(Debug)]
pub(crate) struct FileName {
    /// As the compiler was given it; what GDB shows.
    pub(crate) name: String,
    /// With directories, as far as known.
    pub(crate) path: String,
}

impl FileNames {
    /// Reads the files of a unit. Its line program is not run.
    pub(crate) fn read(debug: &DebugInformation, number: usize) -> Self {
        let unit = debug.unit(number);
        let Some(program) = unit.and_then(|unit| unit.line_program.as_ref()) else {
            return Self::default();
        };
        let LineTable { files, numbers } = Builder::new(debug, number, program.header()).table;
        let files = files
            .into_iter()
            .map(|FileLines { name, path, .. }| FileName { name, path });
        Self {
            files: files.collect(),
            numbers,
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FileName> {
        self.files.iter()
    }

    /// The file that a `DW_AT_decl_file` or `DW_AT_call_file` number names.
    pub(crate) fn file(&self, number: u64) -> Option<&FileName> {
        self.files.get(*self.numbers.get(&number)?)
    }
}

/// Of several entries at one address, one that is a statement.
fn prefer_statement(entries: &[LineEntry], index: usize, found: LineEntry) -> LineEntry {
    if found.is_statement {
        return found;
    }
    entries
        .get(..index)
        .unwrap_or(&[])
        .iter()
        .rev()
        .take_while(|entry| entry.address == found.address && entry.line != 0)
        .find(|entry| entry.is_statement)
        .copied()
        .unwrap_or(found)
}

/// The files while they are being filled.
struct Builder {
    table: LineTable,
    by_path: HashMap<String, usize>,
    /// The file that lines go to.
    current: Option<usize>,
}

impl Builder {
    fn new(debug: &DebugInformation, number: usize, header: &LineProgramHeader<Reader>) -> Self {
        let facts = debug.facts(number);
        let mut builder = Self {
            table: LineTable::default(),
            by_path: HashMap::new(),
            current: None,
        };
        // The primary file comes first, under the name the compiler was given.
        if let Some(name) = &facts.name {
            let path = join(facts.directory.as_deref(), name);
            builder.file(name.clone(), path);
        }
        let text = |value| {
            let unit: &Unit = debug.unit(number)?;
            let text = debug.dwarf_of(number).attr_string(unit, value).ok()?;
            Some(gimli::Reader::to_string_lossy(&text).ok()?.into_owned())
        };
        let first = if header.version() <= 4 { 1 } else { 0 };
        for (index, entry) in (first..).zip(header.file_names()) {
            let Some(name) = text(entry.path_name()) else {
                continue;
            };
            // Directory 0 is the unit's own; before DWARF 5 it is not in the table.
            let directory = if header.version() <= 4 && entry.directory_index() == 0 {
                None
            } else {
                entry.directory(header).and_then(text)
            };
            let shown = join(directory.as_deref(), &name);
            let path = join(facts.directory.as_deref(), &shown);
            let file = builder.file(shown, path);
            builder.table.numbers.insert(index, file);
        }
        builder
    }

    fn file(&mut self, name: String, path: String) -> usize {
        if let Some(&index) = self.by_path.get(&path) {
            return index;
        }
        let index = self.table.files.len();
        self.by_path.insert(path.clone(), index);
        self.table.files.push(FileLines {
            name,
            path,
            entries: Vec::new(),
        });
        index
    }

    fn record(&mut self, file: usize, entry: LineEntry) {
        let Some(lines) = self.table.files.get_mut(file) else {
            return;
        };
        if entry.line == 0 {
            let mut last_line = None;
            while let Some(last) = lines.entries.last() {
                last_line = Some(last.line);
                if last.address != entry.address {
                    break;
                }
                lines.entries.pop();
            }
            // The end of nothing.
            if last_line.is_none_or(|line| line == 0) {
                return;
            }
        }
        lines.entries.push(entry);
    }

    fn finish(mut self) -> LineTable {
        for file in &mut self.table.files {
            // Stable: the order of several lines at one address distinguishes the caller from the inlined callee.
            file.entries
                .sort_by_key(|entry| (entry.address, entry.line != 0));
        }
        self.table
    }
}

/// The registers of the line program during one sequence, and what GDB keeps beside them.
struct Sequence {
    address: u64,
    operation: u64,
    file: u64,
    line: u64,
    is_statement: bool,
    prologue_end: bool,
    discriminator: u64,
    /// Whether the sequence is of code that the linker kept.
    recording: bool,
    last_file: Option<usize>,
    last_line: u64,
    last_address: u64,
    statement_at_address: bool,
    /// Whether a discriminator was seen since the line changed.
    discriminated: bool,
}

impl Sequence {
    fn new(header: &LineProgramHeader<Reader>, builder: &mut Builder) -> Self {
        builder.current = builder.table.numbers.get(&1).copied().or(builder.current);
        Self {
            address: 0,
            operation: 0,
            file: 1,
            line: 1,
            is_statement: header.default_is_stmt(),
            prologue_end: false,
            discriminator: 0,
            recording: true,
            last_file: None,
            last_line: 0,
            last_address: 0,
            statement_at_address: false,
            discriminated: false,
        }
    }

    /// One instruction; `None` when the program cannot be followed.
    fn execute(
        &mut self,
        header: &LineProgramHeader<Reader>,
        instruction: &LineInstruction<Reader>,
        low_pc: u64,
        builder: &mut Builder,
    ) -> Option<()> {
        match *instruction {
            LineInstruction::Special(opcode) => {
                let adjusted = opcode.checked_sub(header.opcode_base())?;
                self.advance(
                    header,
                    u64::from(adjusted.checked_div(header.line_range())?),
                )?;
                let step = adjusted.checked_rem(header.line_range())?;
                self.advance_line(i64::from(header.line_base()) + i64::from(step));
                self.row(builder);
            }
            LineInstruction::Copy => self.row(builder),
            LineInstruction::AdvancePc(by) => self.advance(header, by)?,
            LineInstruction::AdvanceLine(by) => self.advance_line(by),
            LineInstruction::SetFile(file) => {
                self.file = file;
                if let Some(&file) = builder.table.numbers.get(&file) {
                    self.last_file = builder.current;
                    self.discriminated = self.discriminator != 0;
                    builder.current = Some(file);
                }
            }
            LineInstruction::NegateStatement => self.is_statement = !self.is_statement,
            LineInstruction::ConstAddPc => {
                let by = (255 - header.opcode_base()).checked_div(header.line_range())?;
                self.advance(header, u64::from(by))?;
            }
            LineInstruction::FixedAddPc(by) => {
                self.address = self.address.wrapping_add(u64::from(by));
                self.operation = 0;
            }
            LineInstruction::SetPrologueEnd => self.prologue_end = true,
            LineInstruction::SetAddress(address) => {
                // Where the linker dropped the code it leaves 0 or -1.
                let dropped = u64::MAX >> (64 - 8 * u32::from(header.address_size()).clamp(1, 8));
                if (address == 0 && low_pc > 0) || address == dropped {
                    self.recording = false;
                }
                self.address = address;
                self.operation = 0;
            }
            LineInstruction::SetDiscriminator(discriminator) => {
                self.discriminator = discriminator;
                self.discriminated |= discriminator != 0;
            }
            LineInstruction::EndSequence => {
                self.recording = true;
                if let Some(file) = self.last_file {
                    self.end_file(file, builder);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn advance(&mut self, header: &LineProgramHeader<Reader>, by: u64) -> Option<()> {
        let operations = u64::from(header.maximum_operations_per_instruction()).max(1);
        let operation = self.operation.checked_add(by)?;
        let length = u64::from(header.minimum_instruction_length());
        self.address = self
            .address
            .wrapping_add((operation / operations).wrapping_mul(length));
        self.operation = operation % operations;
        Some(())
    }

    fn advance_line(&mut self, by: i64) {
        // GDB keeps the line in 32 bits.
        self.line = self.line.wrapping_add_signed(by) & 0xffff_ffff;
        if by != 0 {
            self.discriminated = self.discriminator != 0;
        }
    }

    fn end_file(&self, file: usize, builder: &mut Builder) {
        if self.recording {
            let end = LineEntry {
                address: self.address,
                line: 0,
                is_statement: true,
                prologue_end: false,
            };
            builder.record(file, end);
        }
    }

    fn row(&mut self, builder: &mut Builder) {
        if builder.table.numbers.contains_key(&self.file) && self.operation == 0 {
            let file_changed = self.last_file != builder.current;
            let ignored = self.line == 0
                || (file_changed
                    && self.last_address == self.address
                    && !self.is_statement
                    && self.statement_at_address);
            if file_changed
                && !ignored
                && let Some(file) = self.last_file
            {
                self.end_file(file, builder);
            }
            if !ignored {
                let repeats = !file_changed && self.line == self.last_line && self.discriminated;
                if self.recording
                    && !repeats
                    && let Some(file) = builder.current
                {
                    let entry = LineEntry {
                        address: self.address,
                        line: self.line,
                        is_statement: self.is_statement,
                        prologue_end: self.prologue_end,
                    };
                    builder.record(file, entry);
                }
                self.last_file = builder.current;
                self.last_line = self.line;
            }
        }
        if self.last_address != self.address {
            self.statement_at_address = false;
            self.last_address = self.address;
        }
        self.statement_at_address |= self.is_statement;
        self.discriminator = 0;
        self.prologue_end = false;
    }
}

/// A file name after a directory, unless it is absolute itself.
fn join(directory: Option<&str>, name: &str) -> String {
    match directory {
        Some(directory) if !name.starts_with('/') && !directory.is_empty() => {
            format!("{}/{name}", directory.trim_end_matches('/'))
        }
        _ => name.to_owned(),
    }
}

/// Whether a requested file is this one: by the whole path, or its last parts.
pub(crate) fn names_file(path: &str, wanted: &str) -> bool {
    let wanted = wanted.strip_prefix("./").unwrap_or(wanted);
    match path.strip_suffix(wanted) {
        Some("") => true,
        Some(before) => !wanted.starts_with('/') && before.ends_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::names_file;

    #[test]
    fn files_are_named_by_their_last_parts() {
        assert!(names_file("/src/a/main.c", "main.c"));
        assert!(names_file("/src/a/main.c", "a/main.c"));
        assert!(names_file("main.c", "./main.c"));
        assert!(!names_file("/src/domain.c", "main.c"));
        assert!(!names_file("/x/src/main.c", "/src/main.c"));
    }
}
