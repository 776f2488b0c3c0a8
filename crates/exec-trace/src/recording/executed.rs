//! One instruction with everything that is known of it.

use std::ops::{ControlFlow, Range};

use tracewire_model::Address;

use super::scan::{AccessEffect, Code, Effect, RegisterEffect, Step, code};
use super::{ReadError, Recording, RegisterId};
use crate::compact::RegisterValue;
use crate::compact::block::Column;
use crate::compact::bytes::Damaged;
use crate::index::Table;
use crate::record::{AccessAttribute, AccessKind, BitRange, CpuNumber, InstructionNumber, Time};

/// An executed instruction: its record, and what it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executed {
    /// Which one.
    pub number: InstructionNumber,
    /// The number of its line in the text, from 1.
    pub line: u64,
    /// When.
    pub time: Time,
    /// On which cpu.
    pub cpu: CpuNumber,
    /// The number that the trace gives it.
    pub id: Option<u64>,
    /// The address of its code.
    pub address: Address,
    /// Whether it was executed, and not skipped because its condition failed.
    pub taken: bool,
    /// Opcode, instruction set, mode, security and disassembly.
    pub code: Code,
    /// The registers that it wrote, in order.
    pub register_writes: Vec<Written>,
    /// The memory that it accessed, in order.
    pub accesses: Vec<Accessed>,
}

/// A register that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The cpu whose register it is.
    pub cpu: CpuNumber,
    /// Which register.
    pub register: RegisterId,
    /// The part of it that was written, where it is not all.
    pub part: Option<BitRange>,
    /// When: the time of its line, which may differ from the instruction's.
    pub time: Time,
    /// What was written.
    pub value: RegisterValue,
}

/// Memory that was accessed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accessed {
    /// The cpu that made it.
    pub cpu: CpuNumber,
    /// Read or written.
    pub kind: AccessKind,
    /// The attribute, where the trace has one.
    pub attribute: Option<AccessAttribute>,
    /// The first byte.
    pub address: Address,
    /// How many bytes.
    pub size: u32,
    /// When: the time of its line, which may differ from the instruction's.
    pub time: Time,
    /// The bytes as they are in memory, `None` for one that is not known.
    pub data: Vec<Option<u8>>,
    /// The number as the trace writes it, `?` for unknown digits.
    pub number: RegisterValue,
}

/// What a line before the first instruction reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartEffect {
    /// A register holds a value.
    Register(Written),
    /// Memory was accessed, and holds the data.
    Access(Accessed),
}

impl Recording {
    /// An instruction and what it did; none after the end.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn instruction(&self, number: InstructionNumber) -> Result<Option<Executed>, ReadError> {
        if number.0 >= self.len() {
            return Ok(None);
        }
        let range = number.0..number.0 + 1;
        let Some(at) = self.blocks_of(&range)?.next() else {
            return Ok(None);
        };
        let block = self.open_block(at, true)?;
        let in_block = (number.0 - block.at.row.first) as u32;
        match block.at.group_of(in_block) {
            None => Ok(None),
            Some(place) => self
                .executed(&Step {
                    recording: self,
                    block: &block,
                    place,
                })
                .map(Some),
        }
    }

    /// Visits the instructions of a range in order, with everything that is known of each, until the visitor
    /// breaks.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn instructions(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(Executed) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let mut result = Ok(());
        self.for_each_instruction(range, &mut |step| match self.executed(step) {
            Ok(executed) => visit(executed),
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        })?;
        result
    }

    /// Everything of a step.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn executed(&self, step: &Step<'_>) -> Result<Executed, ReadError> {
        let (at, place) = (&step.block.at, step.place);
        let code = code(&step.block.store, at, place, self.format)
            // The block is good, the segment's text is not.
            .or_else(|Damaged| self.ask(|store| code(store, at, place, self.format)))?;
        let id = at.block.id(place);
        let template = at.template(place);
        let instruction_line = template.instruction.map_or(0, |of| of.line);
        let mut executed = Executed {
            number: step.number(),
            line: at.lines_before(place) + u64::from(instruction_line) + 1,
            time: step.time(),
            cpu: step.cpu(),
            id: template.shape.has_id.then_some(id),
            address: step.address(),
            taken: step.is_taken(),
            code,
            register_writes: Vec::new(),
            accesses: Vec::new(),
        };
        let texts = step.texts_of_times()?;
        step.effects(|effect| match effect {
            Effect::Register(write) => executed.register_writes.push(written(&write, texts)),
            Effect::Access(access) => executed.accesses.push(accessed(&access, texts)),
        });
        Ok(executed)
    }

    /// Visits what the trace reports before its first instruction, in order, until the visitor breaks: the state at the
    /// start.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn for_each_at_start(
        &self,
        visit: &mut dyn FnMut(StartEffect) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let blocks = self.ask(|store| Ok(store.rows(Table::Blocks)))?;
        for number in 0..blocks {
            let block = self.open_block(number, false)?;
            if block.at.row.first > 0 {
                break;
            }
            let texts = block.texts_of_times(self)?;
            let mut flow = ControlFlow::Continue(());
            block.effects(0, self.order, |effect| {
                if flow.is_continue() {
                    flow = visit(match effect {
                        Effect::Register(write) => StartEffect::Register(written(&write, texts)),
                        Effect::Access(access) => StartEffect::Access(accessed(&access, texts)),
                    });
                }
            });
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn written(write: &RegisterEffect<'_>, texts: Option<&Column>) -> Written {
    Written {
        cpu: write.cpu,
        register: write.register,
        part: write.part,
        time: write.time(texts),
        value: write.value(),
    }
}

fn accessed(access: &AccessEffect<'_>, texts: Option<&Column>) -> Accessed {
    Accessed {
        cpu: access.cpu,
        kind: access.kind,
        attribute: access.attribute,
        address: access.address,
        size: access.size,
        time: access.time(texts),
        data: access.bytes(),
        number: access
            .template()
            .value
            .register_value(|row| access.row(row)),
    }
}
