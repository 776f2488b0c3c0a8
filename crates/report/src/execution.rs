//! An execution trace, read for its report.

use std::collections::HashMap;
use std::ops::ControlFlow;

use tracewire_arch::Machine;
use tracewire_debuginfo::Symbols;
use tracewire_exec_analysis::calls::{CallTree, Profile};
use tracewire_exec_analysis::coverage::{Coverage, FileCoverage, FunctionCoverage};
use tracewire_exec_analysis::view::{Viewer, info_facts, lacking};
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{AccessKind, Address, ByteOrder, InstructionNumber};
use tracewire_exec_trace::recording::{Effect, ReadError, Recording, Search, What};

use crate::chart::Point;
use crate::source::{SourceFile, Sources, built};

/// How many bars accesses over time have.
const TIMES: u64 = 120;

/// How many rows of the tree of calls are shown, those with the most instructions.
const CALLS: usize = 300;

/// How many functions are listed.
const FUNCTIONS: usize = 100;

/// How many pages of memory are listed, those with the most accesses.
const PAGES: usize = 12;

/// How large a page is, in bytes.
const PAGE: u64 = 4096;

/// How many pages are counted by each of the threads that look.
const MOST_PAGES: usize = 1 << 20;

/// How many accesses to a place are listed: so many first ones, and so many last ones.
const ACCESSES: usize = 200;

/// How many values of a place a chart has.
const POINTS: usize = 2000;

/// How many source files are shown.
const FILES: usize = 30;

/// How many lines a source file has at most that is shown whole.
const LINES: u64 = 3000;

/// A part of memory whose history is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryHistory {
    /// As the user called it.
    pub name: String,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
}

/// An execution trace with its symbols.
#[derive(Clone, Copy)]
pub struct ExecutionParts<'a> {
    /// The name of the trace.
    pub title: &'a str,
    /// The trace.
    pub recording: &'a Recording,
    /// The machine, and its registers.
    pub registers: Option<&'a DebuggerRegisters>,
    /// The program.
    pub symbols: Option<&'a Symbols>,
    /// Parts of memory whose history is shown.
    pub memory: &'a [MemoryHistory],
    /// Whether source files are read.
    pub with_source: bool,
}

/// The page's data for an execution trace.
pub(crate) struct Execution {
    pub(crate) title: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The programs.
    pub(crate) programs: Vec<String>,
    pub(crate) note: Option<&'static str>,
    pub(crate) instructions: u64,
    /// None where the machine is not known.
    pub(crate) calls: Option<Calls>,
    pub(crate) coverage: Vec<FunctionCoverage>,
    /// How many addresses have an instruction that was executed.
    pub(crate) addresses: usize,
    pub(crate) accesses: Accesses,
    pub(crate) memory: Vec<History>,
    pub(crate) source: Vec<CoveredFile>,
    pub(crate) missing_source: Vec<String>,
}

/// The tree of calls.
pub(crate) struct Calls {
    pub(crate) rows: Vec<CallRow>,
    /// Rows of the whole tree.
    pub(crate) all: usize,
    pub(crate) several_cpus: bool,
    pub(crate) profile: Vec<Profile>,
}

/// A function in the tree of calls.
pub(crate) struct CallRow {
    pub(crate) depth: usize,
    pub(crate) cpu: u32,
    pub(crate) function: String,
    pub(crate) calls: u64,
    pub(crate) own: u64,
    pub(crate) total: u64,
}

/// Accesses to memory.
#[derive(Default)]
pub(crate) struct Accesses {
    pub(crate) reads: Vec<u64>,
    pub(crate) writes: Vec<u64>,
    /// Pages, and how often each was read and written.
    pub(crate) pages: Vec<(u64, u64, u64)>,
    /// Whether there were too many pages to count all.
    pub(crate) is_cut: bool,
}

/// The history of a part of memory.
pub(crate) struct History {
    pub(crate) place: MemoryHistory,
    /// How many instructions accessed it.
    pub(crate) all: usize,
    /// The instructions, as `tracewire memory` shows them; none between the first and the last ones that are listed.
    pub(crate) lines: Vec<Option<String>>,
    /// Its values, if these are numbers.
    pub(crate) values: Vec<Point>,
}

/// A source file with how often its lines were executed.
pub(crate) struct CoveredFile {
    pub(crate) name: String,
    pub(crate) coverage: FileCoverage,
    pub(crate) source: std::rc::Rc<SourceFile>,
    /// The lines that are shown: from, to.
    pub(crate) shown: (u64, u64),
    pub(crate) is_newer: bool,
}

impl Execution {
    pub(crate) fn read(parts: &ExecutionParts<'_>) -> Result<Self, ReadError> {
        let recording = parts.recording;
        let machine = parts.registers.map(DebuggerRegisters::machine);
        let all = 0..u64::MAX;
        let coverage = Coverage::of(recording, all.clone())?;
        let calls = machine.map(|machine| {
            CallTree::of(recording, machine, parts.symbols, all).map(|tree| calls(&tree))
        });
        let mut execution = Self {
            title: parts.title.to_owned(),
            facts: info_facts(recording),
            programs: parts.symbols.map(programs).unwrap_or_default(),
            note: lacking(recording),
            instructions: recording.len(),
            calls: calls.transpose()?,
            coverage: coverage.functions(parts.symbols),
            addresses: coverage.instructions.len(),
            accesses: accesses(recording)?,
            memory: Vec::new(),
            source: Vec::new(),
            missing_source: Vec::new(),
        };
        execution.coverage.retain(|function| function.executed > 0);
        execution
            .coverage
            .sort_by_key(|function| std::cmp::Reverse(function.executed));
        execution.coverage.truncate(FUNCTIONS);
        for place in parts.memory {
            execution.memory.push(history(parts, machine, place)?);
        }
        if let Some(symbols) = parts.symbols.filter(|_| parts.with_source) {
            execution.add_source(&coverage, symbols);
        }
        Ok(execution)
    }

    fn add_source(&mut self, coverage: &Coverage, symbols: &Symbols) {
        let mut sources = Sources::default();
        let mut files: Vec<_> = coverage.files(symbols).into_iter().collect();
        files.retain(|(_, file)| file.lines.values().any(|count| *count > 0));
        files.truncate(FILES);
        for (name, coverage) in files {
            let Some(address) = coverage.address else {
                continue;
            };
            let Some(source) = sources.file(symbols, address, &name) else {
                self.missing_source.push(name);
                continue;
            };
            let ends = (
                coverage.lines.first_key_value(),
                coverage.lines.last_key_value(),
            );
            let (Some((first, _)), Some((last, _))) = ends else {
                continue;
            };
            self.source.push(CoveredFile {
                shown: (
                    first.saturating_sub(3).max(1),
                    last.saturating_add(3).min(first.saturating_add(LINES)),
                ),
                is_newer: source.is_newer(built(symbols, address)),
                name,
                coverage,
                source,
            });
        }
    }
}

fn programs(symbols: &Symbols) -> Vec<String> {
    let modules = symbols.modules().into_iter();
    modules
        .map(|module| module.path.display().to_string())
        .collect()
}

fn calls(tree: &CallTree) -> Calls {
    // The smallest count that leaves few enough rows. A caller has no less than its callees.
    let mut totals: Vec<u64> = tree.nodes().iter().map(|node| node.total).collect();
    totals.sort_unstable_by_key(|total| std::cmp::Reverse(*total));
    let least = totals.get(CALLS).map_or(0, |total| total + 1);
    let cpus = || tree.nodes().iter().map(|node| node.cpu);
    let rows = tree
        .in_order()
        .filter(|node| node.total >= least)
        .take(CALLS)
        .map(|node| CallRow {
            depth: node.depth,
            cpu: node.cpu.0,
            function: tree.name(node).to_owned(),
            calls: node.calls,
            own: node.own,
            total: node.total,
        });
    let mut profile = tree.profile();
    profile.truncate(FUNCTIONS);
    Calls {
        rows: rows.collect(),
        all: tree.nodes().len(),
        several_cpus: cpus().min() != cpus().max(),
        profile,
    }
}

/// Counts the accesses of all instructions.
fn accesses(recording: &Recording) -> Result<Accesses, ReadError> {
    #[derive(Default)]
    struct Counts {
        reads: Vec<u64>,
        writes: Vec<u64>,
        pages: HashMap<u64, (u64, u64)>,
        is_cut: bool,
    }
    let all = recording.len().max(1);
    let rows = recording.scan(
        0..u64::MAX,
        |_| Counts {
            reads: vec![0; TIMES as usize],
            writes: vec![0; TIMES as usize],
            ..Counts::default()
        },
        |counts, step| {
            let at = u128::from(step.number().0) * u128::from(TIMES) / u128::from(all);
            step.effects(|effect| {
                let Effect::Access(access) = effect else {
                    return;
                };
                let is_write = access.kind == AccessKind::Write;
                let over_time = if is_write {
                    &mut counts.writes
                } else {
                    &mut counts.reads
                };
                if let Some(count) = over_time.get_mut(at as usize) {
                    *count += 1;
                }
                let page = access.address.0 / PAGE;
                if counts.pages.len() >= MOST_PAGES && !counts.pages.contains_key(&page) {
                    counts.is_cut = true;
                    return;
                }
                let page = counts.pages.entry(page).or_default();
                *(if is_write { &mut page.1 } else { &mut page.0 }) += 1;
            });
        },
    )?;
    let mut accesses = Accesses {
        reads: vec![0; TIMES as usize],
        writes: vec![0; TIMES as usize],
        ..Accesses::default()
    };
    let mut pages: HashMap<u64, (u64, u64)> = HashMap::new();
    for row in rows {
        for (sum, count) in accesses.reads.iter_mut().zip(row.reads) {
            *sum += count;
        }
        for (sum, count) in accesses.writes.iter_mut().zip(row.writes) {
            *sum += count;
        }
        for (page, (reads, writes)) in row.pages {
            let sum = pages.entry(page).or_default();
            sum.0 += reads;
            sum.1 += writes;
        }
        accesses.is_cut |= row.is_cut;
    }
    let pages = pages
        .into_iter()
        .map(|(page, (reads, writes))| (page * PAGE, reads, writes));
    accesses.pages = pages.collect();
    accesses
        .pages
        .sort_by_key(|(page, reads, writes)| (std::cmp::Reverse(reads + writes), *page));
    accesses.pages.truncate(PAGES);
    Ok(accesses)
}

fn history(
    parts: &ExecutionParts<'_>,
    machine: Option<&Machine>,
    place: &MemoryHistory,
) -> Result<History, ReadError> {
    let recording = parts.recording;
    let viewer = Viewer::new(recording, parts.registers, parts.symbols);
    let find = |what| -> Result<Vec<InstructionNumber>, ReadError> {
        let mut found = Vec::new();
        let search = Search::new(what, place.first..=place.last);
        recording.find_all(&search, 0..u64::MAX, &mut |number| {
            found.push(number);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    };
    let found = find(What::Access)?;
    let mut lines = Vec::new();
    for (at, number) in found.iter().enumerate() {
        if found.len() > 2 * ACCESSES && at >= ACCESSES && at < found.len() - ACCESSES {
            if at == ACCESSES {
                lines.push(None);
            }
            continue;
        }
        if let Some(executed) = recording.instruction(*number)? {
            lines.push(Some(viewer.line(&executed)));
        }
    }
    let size = place.last - place.first + 1;
    let mut values = Vec::new();
    if matches!(size, 1 | 2 | 4 | 8) {
        let order = machine.map_or(recording.byte_order(), Machine::byte_order);
        let writes = find(What::Write)?;
        let every = writes.len().div_ceil(POINTS).max(1);
        let instants =
            std::iter::once(0).chain(writes.iter().step_by(every).map(|number| number.0 + 1));
        for instant in instants {
            let mut bytes = vec![None; size as usize];
            recording.memory_at(InstructionNumber(instant), Address(place.first), &mut bytes)?;
            let bytes: Option<Vec<u8>> = bytes.into_iter().collect();
            let number = |bytes: Vec<u8>| {
                let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
                match order {
                    ByteOrder::Big => bytes.iter().fold(0, add),
                    ByteOrder::Little => bytes.iter().rev().fold(0, add),
                }
            };
            values.extend(bytes.map(|bytes| Point {
                at: instant as f64,
                value: number(bytes) as f64,
            }));
        }
    }
    Ok(History {
        place: place.clone(),
        all: found.len(),
        lines,
        values,
    })
}
