//! Which code was executed, and how often: by address, by source line.

use std::collections::{BTreeMap, HashMap};
use std::io;

use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::record::{Address, InstructionNumber};
use tracewire_exec_trace::recording::{CodeId, ReadError, Recording};

/// An instruction of the program that the trace has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executed {
    /// How often it was executed.
    pub count: u64,
    /// How often it was skipped because its condition was false.
    pub skipped: u64,
    /// Its code in hex.
    pub opcode: String,
    /// How long it is, in bytes.
    pub size: u8,
    /// Its disassembly.
    pub disassembly: String,
}

/// The instructions of a program that a trace has, by address.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// By address.
    pub instructions: BTreeMap<u64, Executed>,
}

/// How often the lines and functions of a source file were executed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileCoverage {
    /// By line.
    pub lines: BTreeMap<u64, u64>,
    /// By line and name.
    pub functions: BTreeMap<(u64, String), u64>,
    /// An address of its code.
    pub address: Option<Address>,
}

/// How much of a function was executed, of one range of its code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionCoverage {
    /// The first address.
    pub start: Address,
    /// The first address after it.
    pub end: Address,
    /// The function.
    pub name: String,
    /// Bytes of instructions that were executed.
    pub executed: u64,
    /// How often the first instruction was executed.
    pub entries: u64,
}

/// How far apart two addresses are that may begin an instruction.
const SMALLEST: u64 = 2;

/// The largest part of a function that is looked through for lines, in bytes: more is a damaged program's.
const LARGEST: u64 = 16 << 20;

impl Coverage {
    /// Of a range of instructions.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn of(recording: &Recording, range: std::ops::Range<u64>) -> Result<Self, ReadError> {
        type Counts = HashMap<CodeId, (u64, InstructionNumber)>;
        let rows = recording.scan(
            range,
            |_| Counts::new(),
            |counts, step| {
                counts
                    .entry(step.code_id())
                    .or_insert_with(|| (0, step.number()))
                    .0 += 1;
            },
        )?;
        let mut all = Counts::new();
        for (id, (count, number)) in rows.into_iter().flatten() {
            all.entry(id).or_insert((0, number)).0 += count;
        }
        let mut coverage = Self::default();
        for (count, number) in all.into_values() {
            let Some(executed) = recording.instruction(number)? else {
                continue;
            };
            let code = executed.code;
            let one = coverage
                .instructions
                .entry(executed.address.0)
                .or_insert_with(|| Executed {
                    count: 0,
                    skipped: 0,
                    opcode: code
                        .opcode
                        .map_or(String::new(), |opcode| opcode.to_string()),
                    size: code.opcode.map_or(0, |opcode| opcode.size()),
                    disassembly: code.disassembly,
                });
            if executed.taken {
                one.count += count;
            } else {
                one.skipped += count;
            }
        }
        Ok(coverage)
    }

    /// How often the instruction at an address was executed.
    #[must_use]
    pub fn count(&self, address: Address) -> u64 {
        self.instructions.get(&address.0).map_or(0, |one| one.count)
    }

    /// The lines and functions of every source file that the program has line numbers for.
    #[must_use]
    pub fn files(&self, symbols: &Symbols) -> BTreeMap<String, FileCoverage> {
        let mut files: BTreeMap<String, FileCoverage> = BTreeMap::new();
        for function in symbols.functions() {
            for (start, end) in &function.ranges {
                let mut address = start.0;
                let end = end.0.min(start.0.saturating_add(LARGEST));
                while address < end {
                    let executed = self.instructions.get(&address);
                    if let Some(place) = symbols.place(Address(address))
                        && let Some(file) = place.file
                        && place.line > 0
                    {
                        let count = executed.map_or(0, |one| one.count);
                        let file = files.entry(file).or_default();
                        file.address.get_or_insert(Address(address));
                        let line = file.lines.entry(place.line).or_default();
                        *line = (*line).max(count);
                    }
                    let size = executed.map_or(0, |one| u64::from(one.size));
                    address = address.saturating_add(size.max(SMALLEST));
                }
            }
            if let Some(file) = &function.file {
                let calls = self.count(function.entry);
                let key = (function.line, function.name.clone());
                let functions = &mut files.entry(file.clone()).or_default().functions;
                *functions.entry(key).or_default() += calls;
            }
        }
        files
    }

    /// The functions of the program with how much of each was executed, in the order of their addresses.
    #[must_use]
    pub fn functions(&self, symbols: Option<&Symbols>) -> Vec<FunctionCoverage> {
        let functions = symbols.map(Symbols::functions).unwrap_or_default();
        let mut all: Vec<FunctionCoverage> = functions
            .into_iter()
            .flat_map(|function| {
                let name = function.name;
                function
                    .ranges
                    .into_iter()
                    .map(move |(start, end)| (start, end, name.clone()))
            })
            .map(|(start, end, name)| FunctionCoverage {
                start,
                end,
                name,
                executed: self
                    .instructions
                    .range(start.0..end.0.max(start.0))
                    .map(|(_, one)| u64::from(one.size))
                    .sum(),
                entries: self.count(start),
            })
            .collect();
        all.sort_by(|one, other| {
            (one.start, one.end, &one.name).cmp(&(other.start, other.end, &other.name))
        });
        all.dedup_by_key(|one| one.start);
        all
    }

    /// Writes a tracefile of lcov: lines and functions of every source file that the program has line numbers for.
    /// Gives how many source files there are.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_lcov(&self, symbols: &Symbols, out: &mut impl io::Write) -> io::Result<usize> {
        let files = self.files(symbols);
        for (name, file) in &files {
            writeln!(out, "TN:")?;
            writeln!(out, "SF:{name}")?;
            for (line, function) in file.functions.keys() {
                writeln!(out, "FN:{line},{function}")?;
            }
            for ((_, function), calls) in &file.functions {
                writeln!(out, "FNDA:{calls},{function}")?;
            }
            let hit = file.functions.values().filter(|calls| **calls > 0).count();
            writeln!(out, "FNF:{}\nFNH:{hit}", file.functions.len())?;
            for (line, count) in &file.lines {
                writeln!(out, "DA:{line},{count}")?;
            }
            let hit = file.lines.values().filter(|count| **count > 0).count();
            writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", file.lines.len())?;
        }
        Ok(files.len())
    }

    /// Writes every instruction with its count, function by function where there are symbols; dots where code of a
    /// function was never executed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_annotated(
        &self,
        symbols: Option<&Symbols>,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let mut rest = self.instructions.iter().peekable();
        let row = |out: &mut dyn io::Write, address: &u64, one: &Executed| {
            let skipped = match one.skipped {
                0 => String::new(),
                count => format!("  ({count} skipped)"),
            };
            writeln!(
                out,
                "{:>12}  {address:#010x}  {:<10}  {}{skipped}",
                one.count, one.opcode, one.disassembly
            )
        };
        for function in self.functions(symbols) {
            let (start, end, name) = (function.start.0, function.end.0, &function.name);
            while let Some((address, one)) = rest.next_if(|(address, _)| **address < start) {
                row(out, address, one)?;
            }
            let bytes = function.executed;
            let inside = self.instructions.range(start..end.max(start));
            let size = end.saturating_sub(start);
            let share = (bytes * 100).checked_div(size).unwrap_or(0);
            writeln!(
                out,
                "\n{name}: {bytes} of {size} bytes executed ({share} %)"
            )?;
            let mut next = start;
            for (address, one) in inside {
                if *address > next {
                    writeln!(out, "{:>12}  {next:#010x}  … {} bytes", 0, address - next)?;
                }
                row(out, address, one)?;
                next = address.saturating_add(u64::from(one.size));
            }
            if next < end && bytes > 0 {
                writeln!(out, "{:>12}  {next:#010x}  … {} bytes", 0, end - next)?;
            }
            while rest.next_if(|(address, _)| **address < end).is_some() {}
        }
        for (address, one) in rest {
            row(out, address, one)?;
        }
        Ok(())
    }
}
