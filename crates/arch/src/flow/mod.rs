//! Control flow of instructions: branches, calls and returns in each machine's code.
//!
//! The code decides, not the disassembly, whose text differs between tools. Sources are the machines' manuals: MIPS Architecture
//! For Programmers II, Arm Architecture Reference Manuals (A32, T32, A64), RISC-V Unprivileged and Privileged ISA, Power ISA, Nios
//! II Processor Reference, Intel SDM volume 2.

mod arm;
mod mips;
mod power;
mod riscv;
mod x86;

use tracewire_model::Address;

pub(crate) use arm::is_not_a64;

use crate::architecture::Architecture;
use crate::code::{InstructionCode, InstructionSet};
use crate::machine::Machine;

/// The effect of an instruction on control flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowKind {
    /// It continues with the next one.
    Next,
    /// It jumps within a function, or to another function without a return.
    Jump,
    /// It calls a function that returns.
    Call,
    /// It comes back from a function.
    Return,
    /// A system call, a trap, a return from an exception: the next instruction may be anywhere, the following one
    /// included.
    Anywhere,
}

/// Whether the instruction after a branch is executed before the branch is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DelaySlot {
    /// There is no delay slot.
    None,
    /// It is executed always.
    Always,
    /// It is executed only if the branch is taken (MIPS's "likely" branches).
    IfTaken,
}

/// Where an instruction may go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// Its kind.
    pub kind: FlowKind,
    /// Whether it may go on with the next instruction instead.
    pub is_conditional: bool,
    /// Its target, if the code contains it.
    pub target: Option<Address>,
    /// Whether there is a delay slot.
    pub delay_slot: DelaySlot,
}

impl Flow {
    const NEXT: Self = Self::of(FlowKind::Next);
    const ANYWHERE: Self = Self::of(FlowKind::Anywhere);
    const RETURN: Self = Self::of(FlowKind::Return);
    const CALL: Self = Self::of(FlowKind::Call);
    const JUMP: Self = Self::of(FlowKind::Jump);

    const fn of(kind: FlowKind) -> Self {
        Self {
            kind,
            is_conditional: false,
            target: None,
            delay_slot: DelaySlot::None,
        }
    }

    const fn to(self, target: u64) -> Self {
        Self {
            target: Some(Address(target)),
            ..self
        }
    }

    const fn conditional(self, is_conditional: bool) -> Self {
        Self {
            is_conditional,
            ..self
        }
    }

    const fn delayed(self, delay_slot: DelaySlot) -> Self {
        Self { delay_slot, ..self }
    }

    /// Whether the execution can only go on with the next instruction.
    #[must_use]
    pub const fn is_next(&self) -> bool {
        matches!(self.kind, FlowKind::Next)
    }
}

/// The lowest bits of a number, taken as signed.
const fn signed(value: u64, bits: u32) -> u64 {
    let shift = 64 - bits;
    (((value << shift) as i64) >> shift) as u64
}

/// Arm's instruction sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArmSet {
    A32,
    Thumb,
    A64,
}

impl Machine {
    /// Which of Arm's sets an instruction is of.
    fn arm_set(&self, code: &InstructionCode) -> ArmSet {
        let is_short = code.opcode.digits == 4;
        if is_short || code.set.is_some_and(InstructionSet::is_thumb) {
            return ArmSet::Thumb;
        }
        // In its 32-bit state an AArch64 has other sets; QEMU4V calls A64 so too, with long addresses.
        let is_a32 = self.architecture() != Architecture::Aarch64
            || code.set == Some(InstructionSet::A)
                && code.address_digits == 8
                && arm::is_not_a64(code.opcode.value as u32);
        if is_a32 { ArmSet::A32 } else { ArmSet::A64 }
    }

    /// The address that an instruction puts into the link register without a jump, if its code contains it: the next jump is then a
    /// call.
    #[must_use]
    pub fn computed_link(&self, code: &InstructionCode) -> Option<Address> {
        let opcode = code.opcode;
        let (word, address) = (opcode.value as u32, code.address.0);
        if !matches!(
            self.architecture(),
            Architecture::Arm | Architecture::ArmBig | Architecture::Aarch64
        ) {
            return None;
        }
        let link = match self.arm_set(code) {
            ArmSet::A64 => arm::computed_link_64(word, address)?,
            set => {
                let is_thumb = set == ArmSet::Thumb;
                let link = arm::computed_link_32(word, opcode.digits, address, is_thumb)?;
                link & 0xffff_ffff
            }
        };
        Some(Address(link))
    }

    /// Where an instruction may go. None where the code is of an instruction set that is not known here,
    /// such as MIPS16.
    #[must_use]
    pub fn flow(&self, code: &InstructionCode) -> Option<Flow> {
        let opcode = code.opcode;
        let address = code.address.0;
        let flow = match (self.architecture(), opcode.digits) {
            (Architecture::X86_64, digits) => x86::flow(opcode.value, digits, address, true),
            (Architecture::I386, digits) => x86::flow(opcode.value, digits, address, false),
            (Architecture::Arm | Architecture::ArmBig | Architecture::Aarch64, digits) => {
                match self.arm_set(code) {
                    ArmSet::A64 => arm::flow_64(opcode.value as u32, address),
                    set => {
                        let is_thumb = set == ArmSet::Thumb;
                        arm::flow_32(opcode.value as u32, digits, address, is_thumb)?
                    }
                }
            }
            (Architecture::Riscv32, 4) => riscv::flow_16(opcode.value as u16, address, true),
            (Architecture::Riscv64, 4) => riscv::flow_16(opcode.value as u16, address, false),
            (Architecture::Riscv32 | Architecture::Riscv64, 8) => {
                riscv::flow(opcode.value as u32, address)
            }
            (
                Architecture::Mips
                | Architecture::MipsLittle
                | Architecture::Mips64
                | Architecture::Mips64Little,
                8,
            ) => mips::flow(opcode.value as u32, address),
            (
                Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little,
                8,
            ) => power::flow(opcode.value as u32, address),
            (Architecture::Nios2, 8) => power::nios2_flow(opcode.value as u32, address),
            _ => return None,
        };
        let mask = match self.pointer_size() {
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        Some(Flow {
            target: flow.target.map(|target| Address(target.0 & mask)),
            ..flow
        })
    }
}
