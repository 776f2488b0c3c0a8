//! The code under construction: an assembler, the pad's stack frame, faulting instructions, out-of-line code.

use std::collections::{BTreeMap, HashMap};

use iced_x86::code_asm::*;
use iced_x86::{Encoder, IcedError, OpKind};

use super::cost::{Costs, Part};
use crate::layout::SharedLayout;
use crate::pad::{CannotCompile, ErrorKind, ErrorSite, PadOptions};
use tracewire_experiment::{Fault, FaultKind};

pub(super) type Made<T = ()> = Result<T, CannotCompile>;

impl From<IcedError> for CannotCompile {
    fn from(error: IcedError) -> Self {
        Self::Encoding(error.to_string())
    }
}

/// The size of the red zone, in bytes.
pub(crate) const RED_ZONE: u32 = 128;

/// The shared memory.
pub(super) const SHARED: AsmRegister64 = rbx;
/// The write position of the frame.
pub(super) const OUT: AsmRegister64 = rdi;
/// The registers for values of expressions; `rax`, `rcx`, `rdx` and `rsi` are scratch.
pub(super) const POOL: [Gpr; 3] = [Gpr(8), Gpr(9), Gpr(10)];

/// A general register by GDB's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Gpr(pub(super) u8);

impl Gpr {
    pub(super) const RSP: Self = Self(7);

    pub(super) fn wide(self) -> AsmRegister64 {
        const ALL: [AsmRegister64; 16] = [
            rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15,
        ];
        ALL.get(usize::from(self.0)).copied().unwrap_or(rax)
    }

    pub(super) fn half(self) -> AsmRegister32 {
        const ALL: [AsmRegister32; 16] = [
            eax, ebx, ecx, edx, esi, edi, ebp, esp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d,
        ];
        ALL.get(usize::from(self.0)).copied().unwrap_or(eax)
    }

    /// Whether pads use the register for themselves.
    pub(super) const fn is_clobbered(self) -> bool {
        self.0 <= 5 || (self.0 >= 8 && self.0 <= 11)
    }
}

/// A place on the pad's part of the stack, eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Slot {
    /// The program's value of a register. That of `rax` comes first, at the lowest address: if it is writable, the rest is.
    Saved(Gpr),
    /// The flags in `ax`, in the form of `lahf` and `seto`.
    Flags,
    /// As `pushf` has them.
    WholeFlags,
    Cpu,
    Thread,
    /// The counter before the record was reserved.
    Counter,
    Microseconds,
    /// The fraction of a microsecond.
    Fraction,
    /// The start of the record.
    Record,
    Ring,
    /// Names the record as this hit's, as long as it is not finished.
    Token,
    /// Its tracepoint's block: the place after the token, for slots are in this order.
    TokenTracepoint,
    Position,
    /// The head after the reservation.
    Reserved,
    /// The head's claim of the newest record, where frames are overwritten.
    Claim,
    /// The number of earlier hits, if there is a pass count.
    Passes,
    /// The counter when the budget was checked, if there is one, and the ring of the charged cpu.
    Begun,
    Charged,
    /// One more than the error's site; 0 if there is none.
    Error,
    ErrorDetail,
    Steps,
    Pieces,
    /// For values that are used for a few instructions.
    Scratch(u8),
    /// The duration of the ending call, in nanoseconds.
    Duration,
    /// The value that an aggregate is computed from, or its bucket.
    Counted,
    /// The address and the length of a text that is a key.
    Text(u8),
    /// A word of an aggregate's keys.
    Key(u16),
    /// A word that the entry of a call keeps for its end.
    Kept(u16),
    /// A cell of an expression where paths join.
    Join(u16),
    /// A cell for which no register was free.
    Spill(u16),
}

/// How memory of the program is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Directly; the tracer handles faults.
    Direct,
    /// By the kernel, since there is no tracer.
    Kernel,
}

/// A jump back over fewer bytes is short: its distance counts from its end, in one byte.
const SHORT_JUMP: u64 = 120;

/// A label that can be placed anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

type Later<'o> = Box<dyn FnOnce(&mut Code<'o>) -> Made + 'o>;

pub(super) struct Code<'o> {
    pub(super) asm: CodeAssembler,
    pub(super) options: &'o PadOptions<'o>,
    pub(super) site: u64,
    pub(super) mode: Mode,
    pub(super) sites: Vec<ErrorSite>,
    /// Where each slot is. Known from the first of two passes.
    slots: BTreeMap<Slot, u32>,
    labels: Vec<CodeLabel>,
    /// The instruction at each label that has been placed.
    places: Vec<Option<usize>>,
    /// Instruction, continuation, reason.
    faults: Vec<(usize, Label, FaultKind)>,
    later: Vec<(Mode, Later<'o>)>,
    /// More of the stack that is used at times, below the slots.
    pub(super) deeper: u32,
    /// The cost of the code.
    pub(super) costs: Costs,
}

/// The assembled code.
pub(super) struct Assembled {
    pub(super) bytes: Vec<u8>,
    pub(super) faults: Vec<Fault>,
}

impl<'o> Code<'o> {
    pub(super) fn new(
        options: &'o PadOptions<'o>,
        site: u64,
        slots: BTreeMap<Slot, u32>,
    ) -> Made<Self> {
        Ok(Self {
            asm: CodeAssembler::new(64)?,
            options,
            site,
            mode: Mode::Direct,
            sites: Vec::new(),
            slots,
            labels: Vec::new(),
            places: Vec::new(),
            faults: Vec::new(),
            later: Vec::new(),
            deeper: 0,
            costs: Costs::new(options.layout.sizes.frame_limit),
        })
    }

    pub(super) fn layout(&self) -> &'o SharedLayout {
        self.options.layout
    }

    /// How many instructions there are so far.
    pub(super) fn here(&self) -> usize {
        self.asm.instructions().len()
    }

    /// The instructions from `start` on are a part of the pad.
    pub(super) fn end_part(&mut self, part: Part, start: usize) {
        // With a tracer.
        if self.mode == Mode::Direct {
            let end = self.here();
            self.costs.add_part(part, start..end);
        }
    }

    /// The slots that were used, without gaps.
    pub(super) fn packed_slots(&self) -> BTreeMap<Slot, u32> {
        let places = (0..).step_by(8);
        self.slots.keys().copied().zip(places).collect()
    }

    /// The registers that have been saved.
    pub(super) fn saved(&self) -> Vec<Gpr> {
        let saved = self.slots.keys().filter_map(|slot| match slot {
            Slot::Saved(register) => Some(*register),
            _ => None,
        });
        saved.collect()
    }

    /// How far the stack pointer is moved, but for the red zone.
    pub(super) fn room(&self) -> u32 {
        self.slots.values().max().map_or(8, |last| last + 8)
    }

    pub(super) fn place_of(&mut self, slot: Slot) -> u32 {
        if let Some(place) = self.slots.get(&slot) {
            return *place;
        }
        let next = self.room();
        self.slots.insert(slot, next);
        next
    }

    pub(super) fn slot(&mut self, slot: Slot) -> AsmMemoryOperand {
        qword_ptr(rsp + self.place_of(slot))
    }

    /// A slot while the stack pointer is `moved` bytes lower than usual.
    pub(super) fn slot_below(&mut self, slot: Slot, moved: u32) -> AsmMemoryOperand {
        qword_ptr(rsp + (self.place_of(slot) + moved))
    }

    /// Notes that the code changes a register.
    pub(super) fn uses(&mut self, registers: &[AsmRegister64]) {
        for register in registers {
            if let Some(number) = (0..16).map(Gpr).find(|gpr| gpr.wide() == *register) {
                self.place_of(Slot::Saved(number));
            }
        }
    }

    /// Notes that the program's value of a register is needed later.
    pub(super) fn uses_program(&mut self, register: Gpr) {
        if register.is_clobbered() {
            self.place_of(Slot::Saved(register));
        }
    }

    pub(super) fn shared(&self, offset: u64) -> AsmMemoryOperand {
        // The layout has no offset from 2 GiB on.
        SHARED + offset as i64
    }

    pub(super) fn label(&mut self) -> Label {
        let label = self.asm.create_label();
        self.labels.push(label);
        self.places.push(None);
        Label(self.labels.len() - 1)
    }

    /// For a jump.
    pub(super) fn to(&self, label: Label) -> CodeLabel {
        self.labels.get(label.0).copied().unwrap_or_default()
    }

    pub(super) fn place(&mut self, label: Label) -> Made {
        let here = self.here();
        if let Some(code_label) = self.labels.get_mut(label.0) {
            self.asm.set_label(code_label)?;
        }
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(here);
        }
        // An instruction can have one label only.
        Ok(self.asm.zero_bytes()?)
    }

    /// The next instruction may fault; the thread then continues at the label.
    pub(super) fn may_fault(&mut self, resume: Label) {
        self.may_fault_for(resume, FaultKind::Memory);
    }

    pub(super) fn may_fault_for(&mut self, resume: Label, kind: FaultKind) {
        let next = self.asm.instructions().len();
        self.faults.push((next, resume, kind));
    }

    /// Rarely executed code, which is placed after everything else.
    pub(super) fn later(&mut self, code: impl FnOnce(&mut Code<'o>) -> Made + 'o) {
        self.later.push((self.mode, Box::new(code)));
    }

    pub(super) fn emit_later(&mut self) -> Made {
        while !self.later.is_empty() {
            for (mode, code) in std::mem::take(&mut self.later) {
                self.mode = mode;
                code(self)?;
            }
        }
        Ok(())
    }

    pub(super) fn site(&mut self, condition: bool, kind: ErrorKind) -> u32 {
        self.sites.push(ErrorSite { condition, kind });
        self.sites.len() as u32 - 1
    }

    /// Puts a number into a register by the shortest instruction. Flags are kept.
    pub(super) fn number(&mut self, register: Gpr, number: u64) -> Made {
        if let Ok(small) = u32::try_from(number) {
            self.asm.mov(register.half(), small)?;
        } else if let Ok(signed) = i32::try_from(number.cast_signed()) {
            self.asm.mov(register.wide(), i64::from(signed))?;
        } else {
            self.asm.mov(register.wide(), number)?;
        }
        Ok(())
    }

    /// Encodes the instructions one after the other. The block encoder of `iced_x86` allocates memory for each and goes over them
    /// several times, to make jumps short. Here a jump back is short where it can be, and one ahead is not.
    pub(super) fn assemble(&mut self) -> Made<Assembled> {
        // The code refers to nothing outside relative to its address, so any place works.
        let mut encoder = Encoder::new(64);
        let missing = || CannotCompile::Encoding("a label has no place".to_owned());
        let instructions = self.asm.instructions();
        let mut offsets = Vec::with_capacity(instructions.len() + 1);
        let mut places: HashMap<u64, u64> = HashMap::with_capacity(self.labels.len());
        // Where the distance of a jump ahead ends, and its label.
        let mut ahead = Vec::new();
        let mut at = 0_u64;
        for instruction in instructions {
            offsets.push(at);
            // The address of an instruction is the number of its label until it is encoded.
            if instruction.ip() != 0 {
                places.insert(instruction.ip(), at);
            }
            let length = if instruction.op0_kind() == OpKind::NearBranch64 {
                let label = instruction.near_branch64();
                let mut jump = *instruction;
                match places.get(&label) {
                    Some(place) => {
                        if at - place < SHORT_JUMP {
                            jump.as_short_branch();
                        } else {
                            jump.as_near_branch();
                        }
                        jump.set_near_branch64(*place);
                    }
                    None => {
                        jump.as_near_branch();
                        jump.set_near_branch64(at);
                    }
                }
                let length = encoder.encode(&jump, at)?;
                if !places.contains_key(&label) {
                    ahead.push((at + length as u64, label));
                }
                length
            } else {
                encoder.encode(instruction, at)?
            };
            at += length as u64;
        }
        offsets.push(at);
        let mut bytes = encoder.take_buffer();
        for (end, label) in ahead {
            let distance = places.get(&label).ok_or_else(missing)? - end;
            let distance = i32::try_from(distance).map_err(|_| missing())?;
            let field = usize::try_from(end).ok().and_then(|end| {
                let start = end.checked_sub(size_of_val(&distance))?;
                bytes.get_mut(start..end)
            });
            field
                .ok_or_else(missing)?
                .copy_from_slice(&distance.to_le_bytes());
        }
        let offset = |instruction: usize| {
            let offset = offsets.get(instruction).copied();
            offset.and_then(|offset| u32::try_from(offset).ok())
        };
        let mut faults = Vec::with_capacity(self.faults.len());
        for (instruction, label, kind) in &self.faults {
            let resume = self.places.get(label.0).copied().flatten();
            faults.push(Fault {
                at: offset(*instruction).ok_or_else(missing)?,
                resume: resume.and_then(offset).ok_or_else(missing)?,
                kind: *kind,
            });
        }
        faults.sort_by_key(|fault| fault.at);
        Ok(Assembled { bytes, faults })
    }
}
