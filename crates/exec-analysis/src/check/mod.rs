//! Faults of a trace: lines that contradict each other, or that the machine cannot produce.
//!
//! There are eight kinds of faults ([`Fault`]). A possible fault is decided when more of the trace is known:
//! - An interrupt looks like a jump without a branch. It is recognized by its return to the interrupted place, or by another
//!   interrupt that went to the same place.
//! - Some tracers write a register's line only when its value changes. Then no missing line of a register is reported.
//! - A line is missing if an instruction lacks one that it has nearly always.
//! - Numbers of instructions are checked only in traces in which nearly all of them count up.

mod fields;
mod memory;
mod missing;
mod sequence;

use std::fmt;

use tracewire_arch::{Machine, Stores};
use tracewire_exec_trace::record::{
    Access, AccessKind, Address, ByteOrder, DataOrder, Event, EventKind, Instruction,
    InstructionNumber, Line, Owner, RegisterWrite, Time,
};
use tracewire_exec_trace::recording::ReportedWrites;
use tracewire_exec_trace::text::{Format, LineError, Piece, Sink, read};
use tracewire_exec_trace::{DataOrderEvidence, DataOrderObserver};

pub use fields::Field;
use fields::Fields;
use memory::Memory;
use missing::Missing;
use sequence::Sequence;

use crate::view::missing_writes;

/// How many findings of a kind are kept; all are counted.
pub const LISTED: usize = 1000;

/// A fault in a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A line that cannot be read, and why: the line with the token underlined.
    Unparsed(String),
    /// The text ends in the middle of a line.
    Cut,
    /// A field that the format does not allow.
    Field(Field),
    /// A time before that of a line above, on the same cpu.
    TimeBackwards {
        /// The time above.
        before: Time,
        /// The time of this one.
        now: Time,
    },
    /// An instruction is where the one before it could not go.
    Jump {
        /// The address of the one before.
        from: Address,
        /// Where it could go: the next instruction or the branch's target.
        expected: Address,
        /// Where this one is.
        to: Address,
    },
    /// The number of an instruction does not follow the one before.
    Number {
        /// The number before.
        before: u64,
        /// The number of this one.
        now: u64,
    },
    /// An instruction lacks a line that it has at other executions.
    MissingLine {
        /// The kind of line: of memory, or of a register.
        of: LineKind,
        /// The instruction's disassembly, or its code.
        instruction: String,
    },
    /// A load gives something else than memory was known to hold.
    Contradiction {
        /// The first byte that differs.
        address: Address,
        /// The known byte in memory.
        known: u8,
        /// The byte that was read.
        read: u8,
        /// The size of the access, in bytes.
        size: u32,
        /// The address of the access.
        access: Address,
    },
}

/// A kind of line that belongs to an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LineKind {
    /// A memory access.
    Memory,
    /// A register write.
    Register,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unparsed(text) => write!(f, "the line cannot be read\n{text}"),
            Self::Field(field) => field.fmt(f),
            Self::Cut => f.write_str(
                "the trace is cut: expected the end of the line, and perhaps more lines",
            ),
            Self::TimeBackwards { before, now } => {
                write!(f, "time goes backwards: from {before} to {now}")
            }
            Self::Jump { from, expected, to } => write!(
                f,
                "the program counter jumps from {from} to {to} without a branch: expected {expected}, or lines are missing"
            ),
            Self::Number { before, now } => match now.checked_sub(*before) {
                Some(difference @ 2..) => write!(
                    f,
                    "{} missing: the numbers of instructions go from {before} to {now}",
                    match difference - 1 {
                        1 => "an instruction is".to_owned(),
                        count => format!("{count} instructions are"),
                    }
                ),
                _ => write!(
                    f,
                    "the number of the instruction does not count up: {now} after {before}"
                ),
            },
            Self::MissingLine { of, instruction } => {
                let of = match of {
                    LineKind::Memory => "memory access",
                    LineKind::Register => "register write",
                };
                write!(
                    f,
                    "a line is missing: `{instruction}` has no {of} here, and has one everywhere else"
                )
            }
            Self::Contradiction {
                address,
                known,
                read,
                size,
                access,
            } => write!(
                f,
                "a load contradicts: {size} bytes read at {access} have {read:02x} at {address}, where memory holds {known:02x}"
            ),
        }
    }
}

/// A fault and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The number of the line, from 1.
    pub line: u64,
    /// The instruction it is about, where there is one.
    pub instruction: Option<InstructionNumber>,
    /// The fault.
    pub fault: Fault,
}

/// The faults of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The findings in the order of their lines, at most [`LISTED`] of a kind.
    pub findings: Vec<Finding>,
    /// Messages for the user that are no faults.
    pub warnings: Vec<String>,
    /// The evidence for the order of data from loaded and stored registers, in Tarmac.
    pub data_order: DataOrderEvidence,
    /// How many findings there are in all.
    pub count: u64,
    /// How many lines were looked at.
    pub lines: u64,
    /// How many instructions.
    pub instructions: u64,
}

/// Where a record is.
#[derive(Clone, Copy)]
struct Here {
    line: u64,
    instruction: Option<InstructionNumber>,
}

#[derive(Default)]
struct Findings {
    kept: Vec<Finding>,
    count: u64,
    of_kind: [usize; 7 + Field::KINDS],
}

impl Findings {
    fn add(&mut self, here: Here, fault: Fault) {
        let kind = match fault {
            Fault::Unparsed(_) => 0,
            Fault::Cut => 1,
            Fault::TimeBackwards { .. } => 2,
            Fault::Jump { .. } => 3,
            Fault::Number { .. } => 4,
            Fault::MissingLine { .. } => 5,
            Fault::Contradiction { .. } => 6,
            Fault::Field(ref field) => 7 + field.kind(),
        };
        self.count += 1;
        self.of_kind[kind] += 1;
        if self.of_kind[kind] <= LISTED {
            self.kept.push(Finding {
                line: here.line,
                instruction: here.instruction,
                fault,
            });
        }
    }
}

/// Checks a text. Without a machine, jumps are not looked at. `data_order` is how data are written, where that is known
/// better than from the types of the lines.
#[must_use]
pub fn check(
    format: Format,
    text: &[u8],
    machine: Option<&'static Machine>,
    data_order: Option<DataOrder>,
) -> Report {
    let order = machine.map_or(ByteOrder::Little, Machine::byte_order);
    let mut checker = Checker {
        findings: Findings::default(),
        fields: Fields::new(format, machine),
        stores: Stored::default(),
        machine,
        memory: Memory::new(order, data_order),
        data: (format == Format::Tarmac).then(DataOrderObserver::default),
        sequence: Sequence::new(machine),
        missing: Missing::new(machine),
        format,
        instructions: 0,
        whole_lines: text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end as u64 + 1),
    };
    let lines = read(format, text, &Piece::whole(text), &mut checker);
    checker.finish(text, lines)
}

/// The instructions that would write memory, and the reported accesses.
#[derive(Default)]
struct Stored {
    accesses: u64,
    writes: u64,
    stores: u64,
    possible: u64,
}

struct Checker {
    findings: Findings,
    fields: Fields,
    stores: Stored,
    machine: Option<&'static Machine>,
    memory: Memory,
    /// Observes the order of data by registers; `None` if the format defines it.
    data: Option<DataOrderObserver>,
    sequence: Sequence,
    missing: Missing,
    format: Format,
    instructions: u64,
    /// The offset after the last line with an end. The rest is cut, which is one fault for any content of it.
    whole_lines: u64,
}

impl Checker {
    fn is_cut(&self, line: Line) -> bool {
        line.start >= self.whole_lines
    }

    fn here(&self, line: Line) -> Here {
        Here {
            line: line.number,
            instruction: self.instructions.checked_sub(1).map(InstructionNumber),
        }
    }

    fn finish(mut self, text: &[u8], lines: u64) -> Report {
        if self.whole_lines < text.len() as u64 {
            let here = Here {
                line: lines,
                instruction: self.instructions.checked_sub(1).map(InstructionNumber),
            };
            self.findings.add(here, Fault::Cut);
        }
        let Stored {
            accesses,
            writes,
            stores,
            possible,
        } = self.stores;
        let warnings = missing_writes(
            ReportedWrites::of_counts(self.format, writes, stores, possible),
            accesses,
        );
        self.sequence.finish(&mut self.findings);
        self.missing.finish(&mut self.findings);
        let mut findings = self.findings.kept;
        findings.sort_by_key(|finding| finding.line);
        Report {
            findings,
            warnings: warnings.map(str::to_owned).into_iter().collect(),
            data_order: (self.data.as_mut())
                .map_or_else(DataOrderEvidence::default, DataOrderObserver::evidence),
            count: self.findings.count,
            lines,
            instructions: self.instructions,
        }
    }
}

impl Sink for Checker {
    fn instruction(&mut self, line: Line, instruction: &Instruction<'_>) {
        self.instructions += 1;
        if self.is_cut(line) {
            return;
        }
        let here = self.here(line);
        if let Some(data) = &mut self.data {
            data.instruction(instruction);
        }
        self.fields
            .instruction(here, instruction, &mut self.findings);
        if instruction.taken {
            let stores = instruction.opcode.zip(self.machine).map_or(
                Stores::Perhaps,
                |(opcode, machine)| {
                    machine.stores(opcode, instruction.set, instruction.address_digits)
                },
            );
            match stores {
                Stores::No => {}
                Stores::Yes => self.stores.stores += 1,
                Stores::Perhaps => self.stores.possible += 1,
            }
        }
        let is_entry = self
            .sequence
            .instruction(here, instruction, &mut self.findings);
        self.missing.instruction(here, instruction, is_entry);
    }

    fn access(&mut self, line: Line, owner: Owner, access: &Access<'_>) {
        if self.is_cut(line) {
            return;
        }
        let here = self.here(line);
        self.stores.accesses += 1;
        if let Some(data) = &mut self.data {
            data.access(owner, access);
        }
        self.stores.writes += u64::from(access.kind == AccessKind::Write);
        self.fields.access(here, owner, access, &mut self.findings);
        self.sequence
            .effect(here, owner, access.time, access.cpu, &mut self.findings);
        self.missing.effect(LineKind::Memory, owner);
        self.memory.access(here, access, &mut self.findings);
    }

    fn register(&mut self, line: Line, owner: Owner, write: &RegisterWrite<'_>) {
        if self.is_cut(line) {
            return;
        }
        let here = self.here(line);
        if let Some(data) = &mut self.data {
            data.register(owner, write);
        }
        self.fields.register(here, write, &mut self.findings);
        self.sequence
            .effect(here, owner, write.time, write.cpu, &mut self.findings);
        self.missing.register(owner, write);
    }

    fn event(&mut self, line: Line, event: &Event<'_>) {
        if !self.is_cut(line) && event.kind == EventKind::Exception {
            self.sequence.exception(event.cpu);
            self.missing.exception();
        }
    }

    fn unparsed(&mut self, line: Line, text: &[u8], error: LineError) {
        if self.is_cut(line) {
            return;
        }
        let here = self.here(line);
        self.findings
            .add(here, Fault::Unparsed(error.underlined(text)));
    }
}
