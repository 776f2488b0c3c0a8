//! Going over many instructions, in order, at full speed.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use rayon::prelude::*;
use tracewire_model::{Address, ByteOrder};

use super::{ReadError, Recording, RegisterId};
use crate::compact::RegisterValue;
use crate::compact::block::{Column, GroupPlace};
use crate::compact::bytes::Damaged;
use crate::compact::effect::{self, Digits, EffectKind, OtherTime, ValueTemplate};
use crate::compact::part::{memory_bytes, memory_word};
use crate::compact::template::{Class, TemplateInstruction};
use crate::index::{BlockAt, Store, Table};
use crate::record::{
    AccessAttribute, AccessKind, BitRange, CpuNumber, Instruction, InstructionNumber, Line,
    Security, Time,
};
use crate::text::{Format, Piece, Sink, read};
use tracewire_arch::{InstructionSet, Opcode};

/// What an instruction is, the same each time that it executes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Code {
    /// Its code, where the trace has it.
    pub opcode: Option<Opcode>,
    /// The instruction set, where the trace says.
    pub set: Option<InstructionSet>,
    /// The mode, empty where the trace has none. Bytes that are no UTF-8 are replaced.
    pub mode: String,
    /// The security state, where the trace says.
    pub security: Option<Security>,
    /// The disassembly. Bytes that are no UTF-8 are replaced.
    pub disassembly: String,
}

/// Stands for what executions of one instruction have in common. Steps with the same one have the same cpu, address,
/// taken flag and [`Code`], and did things of the same kind; one instruction may have several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CodeId(u64);

/// An executed instruction, seen in passing.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    pub(super) recording: &'a Recording,
    pub(super) block: &'a OpenBlock,
    pub(super) place: GroupPlace,
}

/// What an instruction did.
#[derive(Clone, Copy)]
pub enum Effect<'a> {
    /// It wrote a register.
    Register(RegisterEffect<'a>),
    /// It accessed memory.
    Access(AccessEffect<'a>),
}

/// A write to a register, seen in passing.
#[derive(Clone, Copy)]
pub struct RegisterEffect<'a> {
    at: &'a BlockAt,
    column: &'a Column,
    place: GroupPlace,
    template: &'a ValueTemplate,
    other_time: &'a Option<OtherTime>,
    /// The cpu whose register it is.
    pub cpu: CpuNumber,
    /// Which register.
    pub register: RegisterId,
    /// The part of it that was written, where it is not all.
    pub part: Option<BitRange>,
}

/// An access to memory, seen in passing.
#[derive(Clone, Copy)]
pub struct AccessEffect<'a> {
    at: &'a BlockAt,
    column: &'a Column,
    place: GroupPlace,
    template: &'a effect::Effect,
    order: ByteOrder,
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
}

impl RegisterEffect<'_> {
    /// When its line was written, given the text's numbers where [`Step::texts_of_times`] gives them.
    pub(super) fn time(&self, texts: Option<&Column>) -> Time {
        line_time(self.at, self.place, self.other_time.as_ref().zip(texts))
    }

    /// What was written; the bits of [`Self::part`] where there is one.
    #[must_use]
    pub fn value(&self) -> RegisterValue {
        self.at.block.value(self.column, self.place, self.template)
    }

    /// The number that was written, where it has at most 64 bits and all are known.
    #[inline]
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.template {
            ValueTemplate::One { row, .. } => {
                Some(self.at.block.number(self.column, self.place, *row))
            }
            ValueTemplate::Pieces(_) => self.value().known(),
        }
    }
}

/// The time of a line that a group has.
fn line_time(at: &BlockAt, place: GroupPlace, other: Option<(&OtherTime, &Column)>) -> Time {
    match other {
        None => at.block.time(place),
        Some((other, column)) => at.block.other_time(column, place, other),
    }
}

impl RegisterEffect<'_> {
    /// With how many hex digits the value was written.
    #[must_use]
    pub fn digits(&self) -> u32 {
        match self.template {
            ValueTemplate::One { digits, .. } => u32::from(*digits),
            ValueTemplate::Pieces(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Digits::Variable { digits, .. } => u32::from(*digits),
                    Digits::Unknown(digits) => u32::from(*digits),
                })
                .sum(),
        }
    }
}

impl AccessEffect<'_> {
    /// When its line was written, given the text's numbers where [`Step::texts_of_times`] gives them.
    pub(super) fn time(&self, texts: Option<&Column>) -> Time {
        line_time(self.at, self.place, self.template.time.as_ref().zip(texts))
    }

    fn kind_order(&self) -> crate::record::DataOrder {
        match self.template.kind {
            EffectKind::Access { order, .. } => order,
            EffectKind::Register { .. } => crate::record::DataOrder::Number,
        }
    }

    /// The bytes as they are in memory, `None` for one that is not known.
    #[must_use]
    pub fn bytes(&self) -> Vec<Option<u8>> {
        memory_bytes(
            &self.template.value,
            self.size,
            self.kind_order(),
            self.order,
            |row| self.at.block.number(self.column, self.place, row),
        )
    }

    /// The bytes as a number whose lowest bits are the byte at the lowest address, whatever the byte order, where
    /// there are at most 8 and all are known.
    #[inline]
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        memory_word(
            &self.template.value,
            self.size,
            self.kind_order(),
            self.order,
            |row| self.at.block.number(self.column, self.place, row),
        )
    }

    /// The number that was read or written, where it has at most 64 bits and all are known.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match &self.template.value {
            ValueTemplate::One { row, .. } => {
                Some(self.at.block.number(self.column, self.place, *row))
            }
            ValueTemplate::Pieces(_) => None,
        }
    }

    pub(super) const fn template(&self) -> &effect::Effect {
        self.template
    }

    pub(super) fn row(&self, row: u16) -> u64 {
        self.at.block.number(self.column, self.place, row)
    }
}

/// A block whose numbers are all there.
pub(super) struct OpenBlock {
    pub(super) store: Arc<Store>,
    pub(super) at: Arc<BlockAt>,
}

impl OpenBlock {
    fn columns(&self) -> Result<(&Column, &Column), Damaged> {
        let registers = self.store.column(&self.at, Class::Register)?;
        Ok((registers, self.store.column(&self.at, Class::Memory)?))
    }

    /// The numbers of the text, if any line of the block has a time that is not its group's.
    pub(super) fn texts_of_times(
        &self,
        recording: &Recording,
    ) -> Result<Option<&Column>, ReadError> {
        let (at, store) = (&self.at, &self.store);
        if !at.block.has_other_times {
            return Ok(None);
        }
        if store.column(at, Class::Text).is_err() {
            // It stays with the block once it was read.
            recording.ask(|store| store.column(at, Class::Text).map(drop))?;
        }
        Ok(at.block.known_column(Class::Text))
    }

    /// Everything that is seen from a slot on.
    pub(super) fn effects<'a>(
        &'a self,
        slot: u32,
        order: ByteOrder,
        mut each: impl FnMut(Effect<'a>),
    ) {
        // They were read when the block was opened.
        let Ok((registers, memory)) = self.columns() else {
            return;
        };
        let at: &'a BlockAt = &self.at;
        at.effects_at(slot, |place, effect| {
            each(match effect.kind {
                EffectKind::Register { register, part } => Effect::Register(RegisterEffect {
                    at,
                    column: registers,
                    place,
                    template: &effect.value,
                    other_time: &effect.time,
                    cpu: CpuNumber(effect.cpu),
                    register: RegisterId(register),
                    part,
                }),
                EffectKind::Access {
                    kind,
                    size,
                    attribute,
                    address,
                    ..
                } => Effect::Access(AccessEffect {
                    at,
                    column: memory,
                    place,
                    template: effect,
                    order,
                    cpu: CpuNumber(effect.cpu),
                    kind,
                    attribute,
                    address: Address(at.block.number(memory, place, address)),
                    size,
                }),
            });
        });
    }
}

impl<'a> Step<'a> {
    /// Which instruction.
    #[must_use]
    pub fn number(&self) -> InstructionNumber {
        InstructionNumber(self.block.at.row.first + u64::from(self.place.before))
    }

    fn instruction(&self) -> TemplateInstruction {
        let none = TemplateInstruction {
            cpu: 0,
            address: 0,
            taken: false,
            line: 0,
        };
        self.block
            .at
            .template(self.place)
            .instruction
            .unwrap_or(none)
    }

    /// When.
    #[must_use]
    pub fn time(&self) -> Time {
        self.block.at.block.time(self.place)
    }

    /// On which cpu.
    #[must_use]
    pub fn cpu(&self) -> CpuNumber {
        CpuNumber(self.instruction().cpu)
    }

    /// The address of its code.
    #[inline]
    #[must_use]
    pub fn address(&self) -> Address {
        Address(self.instruction().address)
    }

    /// Whether it was executed, and not skipped because its condition failed.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.instruction().taken
    }

    /// Stands for what it has in common with other executions: to keep what was found out of [`Self::code`].
    #[inline]
    #[must_use]
    pub fn code_id(&self) -> CodeId {
        let template = self.block.at.block.template_number(self.place.local);
        CodeId(u64::from(self.block.at.row.segment) << 32 | u64::from(template))
    }

    /// What the instruction is. This parses text: keep what it gives by [`Self::code_id`].
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn code(&self) -> Result<Code, ReadError> {
        let (at, format) = (&self.block.at, self.recording.format);
        code(&self.block.store, at, self.place, format)
            // The block is good, the segment's text is not.
            .or_else(|Damaged| {
                self.recording
                    .ask(|store| code(store, at, self.place, format))
            })
    }

    /// The numbers of the text, if any line of the block has a time that is not its group's.
    pub(super) fn texts_of_times(&self) -> Result<Option<&'a Column>, ReadError> {
        self.block.texts_of_times(self.recording)
    }

    /// What it did, in order.
    #[inline]
    pub fn effects(&self, each: impl FnMut(Effect<'a>)) {
        self.block
            .effects(self.place.before + 1, self.recording.order, each);
    }
}

/// What the instruction of a group is.
pub(super) fn code(
    store: &Store,
    at: &BlockAt,
    place: GroupPlace,
    format: Format,
) -> Result<Code, Damaged> {
    struct First(Option<Code>);
    impl Sink for First {
        fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.0.get_or_insert_with(|| Code {
                opcode: instruction.opcode,
                set: instruction.set,
                mode: text(instruction.mode),
                security: instruction.security,
                disassembly: text(instruction.disassembly),
            });
        }
    }
    let mut text = Vec::new();
    store.text(at, place.index..place.index + 1, &mut text)?;
    let mut first = First(None);
    read(format, &text, &Piece::whole(&text), &mut first);
    first.0.ok_or(Damaged)
}

impl Recording {
    /// A block with its numbers.
    pub(super) fn open_block(&self, number: usize, keep: bool) -> Result<OpenBlock, ReadError> {
        let open = |store: Arc<Store>| -> Result<OpenBlock, Damaged> {
            let at = if keep {
                store.block(number)?
            } else {
                Arc::new(store.read_block(number)?)
            };
            let block = OpenBlock { store, at };
            block.columns()?;
            Ok(block)
        };
        let store = self.store();
        open(Arc::clone(&store)).or_else(|Damaged| {
            open(self.rebuild(&store)?).map_err(|Damaged| ReadError::Damaged {
                path: self.path.clone(),
            })
        })
    }

    /// The block of an instruction.
    pub(super) fn block_of(&self, number: InstructionNumber) -> Result<usize, ReadError> {
        self.ask(|store| Ok(store.block_of(number.0)?.unwrap_or(0)))
    }

    /// The blocks that have the instructions of a range.
    pub(super) fn blocks_of(&self, range: &Range<u64>) -> Result<Range<usize>, ReadError> {
        let end = range.end.min(self.len());
        if range.start >= end {
            return Ok(0..0);
        }
        self.ask(|store| {
            let first = store.block_of(range.start)?.ok_or(Damaged)?;
            let last = store.block_of(end - 1)?.ok_or(Damaged)?;
            Ok(first..last + 1)
        })
    }

    fn steps_of(
        &self,
        block: &OpenBlock,
        range: &Range<u64>,
        visit: &mut dyn FnMut(&Step<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let first = block.at.row.first;
        for place in block.at.places() {
            let number = first + u64::from(place.before);
            if number >= range.end {
                break;
            }
            if number < range.start || block.at.template(*place).instruction.is_none() {
                continue;
            }
            visit(&Step {
                recording: self,
                block,
                place: *place,
            })?;
        }
        ControlFlow::Continue(())
    }

    /// Visits the instructions of a range in order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn for_each_instruction(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(&Step<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        for number in self.blocks_of(&range)? {
            let block = self.open_block(number, false)?;
            if self.steps_of(&block, &range, visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the instructions of a range on all processors of this machine: rows of them side by side, each row in
    /// order. Gives what was made of each row, in order.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn scan<T: Send>(
        &self,
        range: Range<u64>,
        make: impl Fn(InstructionNumber) -> T + Sync,
        visit: impl Fn(&mut T, &Step<'_>) + Sync,
    ) -> Result<Vec<T>, ReadError> {
        self.rows_of(&range, rayon::current_num_threads() * 8)?
            .into_par_iter()
            .map(|row| {
                let mut made = make(InstructionNumber(row.start));
                self.for_each_instruction(row, &mut |step| {
                    visit(&mut made, step);
                    ControlFlow::Continue(())
                })?;
                Ok(made)
            })
            .collect()
    }

    /// Cuts a range into rows of instructions that are good to go over side by side, at most so many: each begins with a
    /// block, and is not too short for its beginning to be worth while.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn rows_of(&self, range: &Range<u64>, most: usize) -> Result<Vec<Range<u64>>, ReadError> {
        let blocks = self.blocks_of(range)?;
        let end = range.end.min(self.len());
        let size = blocks.len().div_ceil(most.max(1)).max(4);
        let mut starts = Vec::new();
        for number in blocks.step_by(size) {
            let first = self.ask(|store| store.number(Table::Blocks, number, 0))?;
            starts.push(first.max(range.start));
        }
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([end]);
        Ok(starts
            .iter()
            .zip(ends)
            .map(|(start, end)| *start..end)
            .collect())
    }
}
