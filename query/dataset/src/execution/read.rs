//! The rows of an execution's tables, made a piece at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range, RangeInclusive};

use arrow::array::RecordBatch;
use tracewire_arch::Machine;
use tracewire_exec_analysis::calls::for_each_call;
use tracewire_exec_trace::record::{AccessKind, CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{
    Addresses, Code, CodeId, CodeLocations, Effect, ReadError, Recording, RegisterId,
    ReportedWrites, Search, StartEffect, Step, Touch, Visits, What,
};
use tracewire_model::{Address, ByteOrder};

use super::columns::{Cell, Columns};
use super::registers::{Held, NextWrites, wanted};
use super::selection::Selection;
use super::{
    CALLS, Execution, INSTRUCTIONS, MEMORY_ACCESSES, MEMORY_VALUES, MEMORY_WRITES, REGISTER_VALUES,
    REGISTER_WRITES,
};
use crate::error::DatasetError;
use crate::table::Table;

/// How many instructions a piece has.
const INSTRUCTIONS_A_PIECE: u64 = 1 << 16;

/// How many rows a batch has.
const ROWS_A_BATCH: usize = 8192;

/// Into how many pieces accesses in the order of addresses are cut.
const PIECES_OF_MEMORY: usize = 64;

/// Of how many addresses the accesses are looked up one by one.
const MOST_LOOKED_UP: usize = 64;

/// How many places of memory are asked for at most.
const MOST_PLACES: usize = 4096;

/// A part of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// What some instructions did; the first one includes the state at the start.
    Instructions(Range<u64>),
    /// What was done at some addresses.
    Memory(RangeInclusive<u64>),
}

/// Reads a table of an execution. Threads may share it.
pub struct Reader<'e> {
    execution: &'e Execution,
    kind: Kind,
    table: Table,
    columns: Vec<usize>,
    selection: Selection,
    /// The code that is wanted.
    code: CodeLocations,
    registers: Vec<bool>,
    next_writes: NextWrites,
    /// The places of `memory_values`.
    places: Vec<(u64, u8)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instructions,
    RegisterWrites,
    MemoryAccesses,
    MemoryWrites,
    Calls,
    RegisterValues,
    MemoryValues,
}

impl Kind {
    fn of(table: &Table) -> Self {
        match table.name.as_str() {
            REGISTER_WRITES => Self::RegisterWrites,
            MEMORY_ACCESSES => Self::MemoryAccesses,
            MEMORY_WRITES => Self::MemoryWrites,
            CALLS => Self::Calls,
            REGISTER_VALUES => Self::RegisterValues,
            MEMORY_VALUES => Self::MemoryValues,
            name => {
                debug_assert_eq!(name, INSTRUCTIONS);
                Self::Instructions
            }
        }
    }
}

/// Receives batches, and says whether more are wanted.
type Take<'t> = &'t mut dyn FnMut(RecordBatch) -> bool;

/// Rows that are passed on, batch by batch.
struct Rows<'t> {
    columns: Columns,
    take: Take<'t>,
    state: State,
}

/// Whether more rows are wanted.
enum State {
    Open,
    /// All that are wanted were passed on.
    Closed,
    Failed(DatasetError),
}

impl Rows<'_> {
    /// Appends a row; breaks where no more are wanted.
    fn row<'a>(&mut self, cell: impl FnMut(usize) -> Cell<'a>) -> ControlFlow<()> {
        self.columns.row(cell);
        if self.columns.len() < ROWS_A_BATCH {
            return ControlFlow::Continue(());
        }
        self.pass_on()
    }

    fn pass_on(&mut self) -> ControlFlow<()> {
        match self.columns.take() {
            Ok(batch) => match (self.take)(batch) {
                true => ControlFlow::Continue(()),
                false => {
                    self.state = State::Closed;
                    ControlFlow::Break(())
                }
            },
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: impl Into<DatasetError>) -> ControlFlow<()> {
        self.state = State::Failed(error.into());
        ControlFlow::Break(())
    }

    /// Passes on the rest.
    fn finish(mut self) -> Result<(), DatasetError> {
        if matches!(self.state, State::Open) && self.columns.len() > 0 {
            let _ = self.pass_on();
        }
        match self.state {
            State::Failed(error) => Err(error),
            State::Open | State::Closed => Ok(()),
        }
    }
}

impl<'e> Reader<'e> {
    /// For the wanted columns of a table, by their numbers, and the rows of a selection.
    ///
    /// # Errors
    /// When the selection asks for all of memory at all times, and when the recording's file is damaged.
    pub fn new(
        execution: &'e Execution,
        table: &Table,
        columns: &[usize],
        selection: Selection,
    ) -> Result<Self, DatasetError> {
        let kind = Kind::of(table);
        let places = match kind {
            Kind::MemoryValues => places(&selection)?,
            _ => Vec::new(),
        };
        let everywhere = || Addresses::new(vec![0..=u64::MAX]);
        let code = selection.code.clone().unwrap_or_else(everywhere);
        Ok(Self {
            registers: wanted(&execution.recording, &selection),
            code: execution.recording.locate(code)?,
            execution,
            kind,
            table: table.clone(),
            columns: columns.to_vec(),
            selection,
            next_writes: NextWrites::default(),
            places,
        })
    }

    /// The column by which the rows of a table rise in each piece, and from one piece to the next.
    #[must_use]
    pub fn order(table: &Table) -> Option<&'static str> {
        match Kind::of(table) {
            Kind::Instructions | Kind::RegisterValues | Kind::MemoryValues => Some("instruction"),
            _ => None,
        }
    }

    /// The columns of a table of which a selection leaves just the rows that are asked for.
    #[must_use]
    pub fn exact_columns(table: &Table) -> &'static [&'static str] {
        match Kind::of(table) {
            Kind::RegisterValues => &["pc", "register"],
            Kind::MemoryValues => &["pc"],
            _ => &[],
        }
    }

    const fn recording(&self) -> &'e Recording {
        &self.execution.recording
    }

    /// The executions of the wanted code in a piece.
    fn visits(&self, range: &Range<u64>) -> Visits<'e> {
        let from = InstructionNumber(range.start);
        self.recording().visits(from, self.code.clone())
    }

    /// The instructions that are wanted.
    #[must_use]
    pub fn instructions(&self) -> Range<u64> {
        let wanted = &self.selection.instructions;
        let end = wanted.end.min(self.recording().len());
        wanted.start.min(end)..end
    }

    /// The pieces of the table, in order. They may be read in any order, by any threads.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn pieces(&self) -> Result<Vec<Piece>, DatasetError> {
        if self.kind == Kind::MemoryWrites {
            let ranges = match &self.selection.memory {
                Some(addresses) => addresses.ranges().to_vec(),
                None => self.recording().touched_ranges(PIECES_OF_MEMORY)?,
            };
            return Ok(ranges.into_iter().map(Piece::Memory).collect());
        }
        let all = self.instructions();
        // The calls of a piece depend on those before it; what is looked up is found as a whole.
        let is_whole = self.kind == Kind::Calls || self.looked_up().is_some();
        if is_whole || (self.selection.code.is_some() && all.end - all.start < 1 << 20) {
            return Ok(vec![Piece::Instructions(all)]);
        }
        let rows = self.recording().rows_of(&all, pieces_of(&all))?;
        let mut pieces: Vec<Piece> = rows.into_iter().map(Piece::Instructions).collect();
        if pieces.is_empty() && all.start == 0 {
            // There may be a state at the start of no instruction.
            pieces.push(Piece::Instructions(0..0));
        }
        Ok(pieces)
    }

    /// The accesses that are found by their addresses.
    fn looked_up(&self) -> Option<Vec<u64>> {
        let addresses = self.selection.memory.as_ref()?;
        let list = addresses.list(MOST_LOOKED_UP)?;
        (self.kind == Kind::MemoryAccesses).then_some(list)
    }

    /// Passes on the rows of some pieces, until `take` wants no more. A batch may have rows of several pieces.
    ///
    /// # Errors
    /// When the recording's file is damaged, and when the symbols cannot be read again.
    pub fn read<'p>(
        &self,
        pieces: impl IntoIterator<Item = &'p Piece>,
        take: Take<'_>,
    ) -> Result<(), DatasetError> {
        let mut rows = Rows {
            columns: Columns::new(&self.table, &self.columns)?,
            take,
            state: State::Open,
        };
        for piece in pieces {
            match piece {
                Piece::Memory(addresses) => self.memory_writes(addresses, &mut rows)?,
                Piece::Instructions(range) => match self.kind {
                    Kind::Instructions => self.instruction_rows(range, &mut rows)?,
                    Kind::RegisterWrites => self.register_writes(range, &mut rows)?,
                    Kind::MemoryAccesses => self.memory_accesses(range, &mut rows)?,
                    Kind::Calls => self.calls(range, &mut rows)?,
                    Kind::RegisterValues => self.register_values(range, &mut rows)?,
                    Kind::MemoryValues => self.memory_values(range, &mut rows)?,
                    Kind::MemoryWrites => debug_assert!(false, "its pieces are addresses"),
                },
            }
            if !matches!(rows.state, State::Open) {
                break;
            }
        }
        rows.finish()
    }

    fn instruction_rows(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), ReadError> {
        let has_text = rows.columns.has(5) || rows.columns.has(6);
        let codes: RefCell<HashMap<CodeId, (String, Code)>> = RefCell::default();
        let row = |step: &Step<'_>, rows: &mut Rows<'_>| {
            let mut codes = codes.borrow_mut();
            if has_text && !codes.contains_key(&step.code_id()) {
                let code = match step.code() {
                    Ok(code) => code,
                    Err(error) => return rows.fail(error),
                };
                let digits = code.opcode.map_or_else(String::new, |opcode| {
                    format!(
                        "{:0width$x}",
                        opcode.value,
                        width = usize::from(opcode.digits)
                    )
                });
                codes.insert(step.code_id(), (digits, code));
            }
            let code = codes.get(&step.code_id());
            rows.row(|column| match column {
                0 => Cell::count(step.number().0),
                1 => Cell::count(step.time().ticks),
                2 => Cell::count(step.cpu().0.into()),
                3 => Cell::bits(step.address().0),
                4 => Cell::Truth(step.is_taken()),
                5 => Cell::Text(
                    code.map(|(digits, _)| digits.as_str())
                        .filter(|of| !of.is_empty()),
                ),
                _ => Cell::Text(code.map(|(_, code)| code.disassembly.as_str())),
            })
        };
        if self.selection.code.is_some() {
            let mut visits = self.visits(range).with_registers(&[]);
            while visits.advance(InstructionNumber(range.end))? {
                if let Some(step) = visits.step()
                    && row(&step, rows).is_break()
                {
                    break;
                }
            }
            return Ok(());
        }
        self.recording()
            .for_each_instruction(range.clone(), &mut |step| row(step, rows))
    }

    fn register_writes(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), ReadError> {
        struct Write {
            instruction: Option<u64>,
            cpu: CpuNumber,
            register: RegisterId,
            value: Option<u64>,
            digits: String,
            valid_to: i64,
        }
        let recording = self.recording();
        let has_digits = rows.columns.has(4);
        let is_wanted =
            |register: RegisterId| self.registers.get(register.0 as usize) == Some(&true);
        let mut writes: Vec<Write> = Vec::new();
        let mut latest: HashMap<(CpuNumber, RegisterId), usize> = HashMap::new();
        let mut put = |write: Write| {
            let before = latest.insert((write.cpu, write.register), writes.len());
            if let Some(before) = before.and_then(|at| writes.get_mut(at)) {
                before.valid_to = write.instruction.map_or(-1, u64::cast_signed);
            }
            writes.push(write);
        };
        if range.start == 0 {
            recording.for_each_at_start(&mut |effect| {
                if let StartEffect::Register(write) = effect
                    && is_wanted(write.register)
                {
                    put(Write {
                        instruction: None,
                        cpu: write.cpu,
                        register: write.register,
                        value: write.value.known(),
                        digits: write.value.to_string(),
                        valid_to: 0,
                    });
                }
                ControlFlow::Continue(())
            })?;
        }
        let mut held = Held::before(recording, range.start)?;
        recording.for_each_instruction(range.clone(), &mut |step| {
            step.effects(|effect| {
                if let Effect::Register(write) = effect
                    && is_wanted(write.register)
                    && let Some(value) = held.write(&write)
                {
                    put(Write {
                        instruction: Some(step.number().0),
                        cpu: write.cpu,
                        register: write.register,
                        value: value.known(),
                        digits: match has_digits {
                            true => value.to_string(),
                            false => String::new(),
                        },
                        valid_to: 0,
                    });
                }
            });
            ControlFlow::Continue(())
        })?;
        for ((cpu, register), at) in latest {
            let next = self.next_writes.next(recording, cpu, register, range.end)?;
            writes[at].valid_to = next.cast_signed();
        }
        for write in writes {
            let name = recording.register_names().get(write.register.0 as usize);
            let flow = rows.row(|column| match column {
                0 => Cell::Number(write.instruction.map(u64::cast_signed)),
                1 => Cell::count(write.cpu.0.into()),
                2 => Cell::Text(name.map(AsRef::as_ref)),
                3 => Cell::Number(write.value.map(u64::cast_signed)),
                4 => Cell::Text(Some(&write.digits)),
                5 => Cell::count(write.instruction.map_or(0, |number| number + 1)),
                _ => Cell::Number(Some(write.valid_to)),
            });
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn memory_accesses(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), ReadError> {
        let recording = self.recording();
        let row = |step: &Step<'_>, rows: &mut Rows<'_>| {
            let mut flow = ControlFlow::Continue(());
            step.effects(|effect| {
                let Effect::Access(access) = effect else {
                    return;
                };
                if flow.is_break() || !self.selection.has_memory(access.address.0) {
                    return;
                }
                flow = rows.row(|column| match column {
                    0 => Cell::count(step.number().0),
                    1 => Cell::count(access.cpu.0.into()),
                    2 => Cell::Text(Some(match access.kind {
                        AccessKind::Read => "read",
                        AccessKind::Write => "write",
                    })),
                    3 => Cell::bits(access.address.0),
                    4 => Cell::count(access.size.into()),
                    _ => {
                        let word = access.word();
                        let value =
                            word.map(|word| number_of(word, access.size, recording.byte_order()));
                        Cell::Number(value.map(u64::cast_signed))
                    }
                });
            });
            flow
        };
        let Some(addresses) = self.looked_up() else {
            return recording.for_each_instruction(range.clone(), &mut |step| row(step, rows));
        };
        let mut found: Vec<u64> = Vec::new();
        for address in addresses {
            let search = Search::new(What::Access, address..=address);
            recording.find_all(&search, range.clone(), &mut |number| {
                found.push(number.0);
                ControlFlow::Continue(())
            })?;
        }
        found.sort_unstable();
        found.dedup();
        for number in found {
            let mut flow = ControlFlow::Continue(());
            recording.for_each_instruction(number..number + 1, &mut |step| {
                flow = row(step, rows);
                flow
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn memory_writes(
        &self,
        addresses: &RangeInclusive<u64>,
        rows: &mut Rows<'_>,
    ) -> Result<(), ReadError> {
        let recording = self.recording();
        let order = recording.byte_order();
        let is_kept = recording.reported_writes() == ReportedWrites::All;
        let mut put = |write: &Touch, valid_to: i64| {
            let from = write.seen_from.0;
            let is_wanted = match from.checked_sub(1) {
                Some(number) => self.selection.instructions.contains(&number),
                None => self.selection.instructions.start == 0,
            };
            if !is_wanted || !addresses.contains(&write.address.0) {
                return ControlFlow::Continue(());
            }
            rows.row(|column| match column {
                0 => Cell::Number(from.checked_sub(1).map(u64::cast_signed)),
                1 => Cell::bits(write.address.0),
                2 => Cell::count(write.size.into()),
                3 => {
                    let number = write
                        .word
                        .map(|word| number_of(word, write.size.into(), order));
                    Cell::Number(number.map(u64::cast_signed))
                }
                4 => Cell::count(from),
                // Where others write unseen, it was so at one instant.
                _ => Cell::Number(Some(if is_kept {
                    valid_to
                } else {
                    from.cast_signed()
                })),
            })
        };
        // The writes of a multiple of 8 that nothing was written over yet.
        let mut held: Vec<Touch> = Vec::new();
        let mut granule = None;
        let mut flow = ControlFlow::Continue(());
        let end = recording.len().cast_signed();
        // A write that begins before the first address may be over one that begins there.
        let first = addresses.start() & !7;
        let last = addresses.end() | 7;
        recording.for_each_touch(first..=last, &mut |touch| {
            let this = touch.address.0 / 8;
            if granule != Some(this) {
                granule = Some(this);
                for write in held.drain(..) {
                    if flow.is_continue() {
                        flow = put(&write, end);
                    }
                }
            }
            if touch.is_write {
                let bytes = |of: &Touch| of.address.0..of.address.0 + u64::from(of.size);
                let (new, mut at) = (bytes(touch), 0);
                while let Some(write) = held.get(at) {
                    let old = bytes(write);
                    if old.start >= new.end || new.start >= old.end {
                        at += 1;
                        continue;
                    }
                    let write = held.remove(at);
                    if flow.is_continue() {
                        flow = put(&write, touch.seen_from.0.cast_signed() - 1);
                    }
                }
                held.push(*touch);
            }
            flow
        })?;
        for write in held {
            if flow.is_continue() {
                flow = put(&write, end);
            }
        }
        Ok(())
    }

    fn calls(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), DatasetError> {
        let recording = self.recording();
        // Without a machine no code says what is a call.
        let Some(machine) = recording.architecture().map(Machine::of) else {
            return Ok(());
        };
        let symbols = self.execution.symbols()?;
        // Those before the range say what is on the stack.
        let all = 0..range.end;
        for_each_call(recording, machine, symbols.as_ref(), all, &mut |call| {
            if call.instruction.0 < range.start || !self.selection.has_code(call.address.0) {
                return ControlFlow::Continue(());
            }
            rows.row(|column| match column {
                0 => Cell::count(call.instruction.0),
                1 => Cell::count(call.time.ticks),
                2 => Cell::count(call.cpu.0.into()),
                3 => Cell::count(call.depth as u64),
                4 => Cell::Text(Some(&call.function)),
                5 => Cell::bits(call.address.0),
                6 => Cell::Text(call.caller.as_deref()),
                _ => Cell::Number(call.from.map(|from| from.0.cast_signed())),
            })
        })?;
        Ok(())
    }

    fn register_values(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), ReadError> {
        let recording = self.recording();
        let mut visits = self.visits(range).with_registers(&self.registers);
        let has_digits = rows.columns.has(6);
        let names = recording.register_names().iter().zip(&self.registers);
        let registers: Vec<(RegisterId, &str)> = (0..)
            .zip(names)
            .filter(|(_, (_, is_wanted))| **is_wanted)
            .map(|(number, (name, _))| (RegisterId(number), name.as_ref()))
            .collect();
        while visits.advance(InstructionNumber(range.end))? {
            let Some(step) = visits.step() else { break };
            let (number, time, cpu, pc) = (step.number(), step.time(), step.cpu(), step.address());
            for (register, name) in &registers {
                let value = visits.register(cpu, *register);
                let digits = match has_digits {
                    true => value.to_string(),
                    false => String::new(),
                };
                let flow = rows.row(|column| match column {
                    0 => Cell::count(number.0),
                    1 => Cell::count(time.ticks),
                    2 => Cell::count(cpu.0.into()),
                    3 => Cell::bits(pc.0),
                    4 => Cell::Text(Some(name)),
                    5 => Cell::Number(value.known().map(u64::cast_signed)),
                    _ => Cell::Text(Some(&digits)),
                });
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn memory_values(&self, range: &Range<u64>, rows: &mut Rows<'_>) -> Result<(), ReadError> {
        let recording = self.recording();
        let order = recording.byte_order();
        let mut visits = self.visits(range).with_registers(&[]);
        while visits.advance(InstructionNumber(range.end))? {
            let Some(step) = visits.step() else { break };
            let (number, time, cpu, pc) = (step.number(), step.time(), step.cpu(), step.address());
            for (address, size) in &self.places {
                let mut bytes = [None; 8];
                let asked = &mut bytes[..usize::from(*size)];
                visits.memory(Address(*address), asked)?;
                let word = asked
                    .iter()
                    .rev()
                    .try_fold(0u64, |word, byte| Some(word << 8 | u64::from((*byte)?)));
                let value = word.map(|word| number_of(word, (*size).into(), order));
                let flow = rows.row(|column| match column {
                    0 => Cell::count(number.0),
                    1 => Cell::count(time.ticks),
                    2 => Cell::count(cpu.0.into()),
                    3 => Cell::bits(pc.0),
                    4 => Cell::bits(*address),
                    5 => Cell::count((*size).into()),
                    _ => Cell::Number(value.map(u64::cast_signed)),
                });
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The places of memory that are asked for.
fn places(selection: &Selection) -> Result<Vec<(u64, u8)>, DatasetError> {
    let unknown = || DatasetError::Places { most: MOST_PLACES };
    let sizes = selection.sizes.as_ref().ok_or_else(unknown)?;
    let addresses = selection.memory.as_ref().ok_or_else(unknown)?;
    let addresses = addresses
        .list(MOST_PLACES / sizes.len().max(1))
        .ok_or_else(unknown)?;
    let mut places = Vec::new();
    for address in addresses {
        places.extend(sizes.iter().map(|size| (address, *size)));
    }
    Ok(places)
}

/// The number that bytes of memory are, whose lowest bits are the byte at the lowest address.
fn number_of(word: u64, size: u32, order: ByteOrder) -> u64 {
    match order {
        ByteOrder::Big if (1..=8).contains(&size) => word.swap_bytes() >> (64 - size * 8),
        _ => word,
    }
}

/// Into how many pieces instructions are cut.
fn pieces_of(all: &Range<u64>) -> usize {
    usize::try_from((all.end - all.start) / INSTRUCTIONS_A_PIECE)
        .unwrap_or(usize::MAX)
        .max(1)
}
