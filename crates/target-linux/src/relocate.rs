//! What becomes of the instruction that a breakpoint displaces.
//!
//! A copy of it is run elsewhere, in a slot, followed by a jump back. What depends on where an instruction is
//! (operands relative to `rip`, branches, the return address that a call pushes) is rewritten, so that the
//! program cannot tell. Flags, registers and the red zone are untouched by what is added.

use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, Register,
};

/// The room of a slot, in bytes; no copy needs more.
pub(crate) const SLOT_SIZE: usize = 32;
/// The longest instruction there is, in bytes.
pub(crate) const MAX_INSTRUCTION: usize = 15;

/// An instruction, and what must be done to run it with a breakpoint over it.
#[derive(Debug)]
pub(crate) struct Displaced {
    /// What it is.
    pub(crate) kind: Kind,
    /// It may wait in the kernel or repeat itself, so it must not be stepped to its end, but can be started
    /// anew: a system call, a repeated string instruction.
    pub(crate) restartable: bool,
    /// It stores the flags where the program sees them, the trap flag included.
    pub(crate) pushes_flags: bool,
    instruction: Instruction,
    bytes: Vec<u8>,
    /// Where the displacement of an operand relative to `rip` is in `bytes`.
    relative_operand: Option<usize>,
}

/// What kind of treatment an instruction wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A copy does the same elsewhere.
    Relocatable,
    /// It is the program's own breakpoint: the program gets its signal.
    OwnTrap,
    /// It only works where it is.
    Fixed,
}

/// Where a thread stands within a slot, said in terms of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The instruction has not been executed.
    Before,
    /// The return address of a call has been pushed, nothing more.
    Pushed,
    /// The instruction is done; the program is at this address.
    At(u64),
}

/// A copy made for a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// The code for the slot.
    pub(crate) code: Vec<u8>,
    /// The places at which a thread can stand, by their offset into the slot, rising.
    places: Vec<(usize, Place)>,
}

impl Copy {
    /// Where a thread stands whose `rip` is `offset` bytes into the slot.
    pub(crate) fn place(&self, offset: u64) -> Place {
        self.places
            .iter()
            .rev()
            .find(|(start, _)| *start as u64 <= offset)
            .map_or(Place::Before, |(_, place)| *place)
    }
}

impl Displaced {
    /// Looks at the instruction at `address`, the first of `bytes`.
    pub(crate) fn decode(bytes: &[u8], address: u64) -> Self {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        let relative = instruction.is_ip_rel_memory_operand();
        let relative_operand =
            (relative && offsets.displacement_size() == 4).then(|| offsets.displacement_offset());
        let mut kind = kind(&instruction);
        // With a 32-bit address size the operand wraps at 4 GiB, where a copy far away cannot reach.
        if relative && (relative_operand.is_none() || instruction.memory_base() != Register::RIP) {
            kind = Kind::Fixed;
        }
        let code = instruction.code();
        Self {
            kind,
            restartable: matches!(code, Code::Syscall | Code::Int_imm8)
                || (instruction.is_string_instruction()
                    && (instruction.has_rep_prefix() || instruction.has_repne_prefix())),
            pushes_flags: matches!(code, Code::Pushfq | Code::Pushfw),
            bytes: bytes.get(..instruction.len()).unwrap_or_default().to_vec(),
            instruction,
            relative_operand,
        }
    }

    /// The length of the instruction, in bytes; 0 if it is none.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the instruction is a call, which a shadow stack must see made by a call.
    pub(crate) fn is_call(&self) -> bool {
        matches!(
            self.instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )
    }

    /// Whether the instruction enters the kernel.
    pub(crate) fn is_system_call(&self) -> bool {
        matches!(self.instruction.code(), Code::Syscall | Code::Int_imm8)
    }

    /// Makes the copy that runs at `slot`; `None` if something it refers to is out of reach from there.
    pub(crate) fn copy(&self, slot: u64) -> Option<Copy> {
        if self.kind != Kind::Relocatable {
            return None;
        }
        let instruction = &self.instruction;
        let next = instruction.next_ip();
        let mut code = Assembly {
            slot,
            code: Vec::with_capacity(SLOT_SIZE),
        };
        let mut places = vec![(0, Place::Before)];
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => code.jump(instruction.near_branch_target())?,
            FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
                let condition = instruction.condition_code() as u8 - ConditionCode::o as u8;
                code.bytes(&[0x0f, 0x80 | condition]);
                code.relative(instruction.near_branch_target())?;
                places.push((code.len(), Place::At(next)));
                code.jump(next)?;
            }
            FlowControl::ConditionalBranch => {
                // The loop and jrcxz family only branches near: over a jump to the next instruction.
                let (_, opcode) = self.bytes.split_last()?;
                code.bytes(opcode);
                code.bytes(&[Assembly::JUMP_LENGTH]);
                places.push((code.len(), Place::At(next)));
                code.jump(next)?;
                places.push((code.len(), Place::At(instruction.near_branch_target())));
                code.jump(instruction.near_branch_target())?;
            }
            FlowControl::Call if instruction.code() == Code::Call_rel32_64 => {
                code.push(next, &mut places);
                code.jump(instruction.near_branch_target())?;
            }
            FlowControl::IndirectCall => {
                code.push(next, &mut places);
                code.instruction(&indirect_jump(instruction))?;
            }
            _ => {
                code.copied(&self.bytes, self.relative_operand, instruction)?;
                places.push((code.len(), Place::At(next)));
                code.jump(next)?;
            }
        }
        debug_assert!(code.len() <= SLOT_SIZE);
        Some(Copy {
            code: code.code,
            places,
        })
    }
}

fn kind(instruction: &Instruction) -> Kind {
    let code = instruction.code();
    let relocatable = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Exception => !instruction.is_invalid(),
        FlowControl::UnconditionalBranch => {
            matches!(code, Code::Jmp_rel8_64 | Code::Jmp_rel32_64)
        }
        FlowControl::ConditionalBranch => {
            let target = instruction.op0_kind();
            target == iced_x86::OpKind::NearBranch64
        }
        FlowControl::IndirectBranch => code == Code::Jmp_rm64,
        FlowControl::Return => matches!(code, Code::Retnq | Code::Retnq_imm16),
        FlowControl::Call => matches!(code, Code::Call_rel32_64 | Code::Syscall),
        FlowControl::IndirectCall => code == Code::Call_rm64 && pushes_first(instruction),
        FlowControl::Interrupt => {
            if code == Code::Int3 {
                return Kind::OwnTrap;
            }
            code == Code::Int_imm8 && instruction.immediate8() == 0x80
        }
        _ => false,
    };
    if relocatable {
        Kind::Relocatable
    } else {
        Kind::Fixed
    }
}

/// Whether an indirect call means the same when the return address is pushed before its operand is read.
fn pushes_first(call: &Instruction) -> bool {
    if call.op0_kind() == iced_x86::OpKind::Register {
        return call.op0_register() != Register::RSP;
    }
    let base = call.memory_base();
    // Below the stack pointer is where the return address would go.
    !(matches!(base, Register::ESP)
        || base == Register::RSP
            && (call.memory_index() != Register::None || (call.memory_displacement64() as i64) < 0))
}

/// The jump that goes where the call goes, once the return address has been pushed.
fn indirect_jump(call: &Instruction) -> Instruction {
    let mut jump = *call;
    jump.set_code(Code::Jmp_rm64);
    if call.op0_kind() == iced_x86::OpKind::Memory && call.memory_base() == Register::RSP {
        jump.set_memory_displacement64(call.memory_displacement64().wrapping_add(8));
        jump.set_memory_displ_size(8);
    }
    jump
}

/// Code being put together for a slot.
struct Assembly {
    slot: u64,
    code: Vec<u8>,
}

impl Assembly {
    /// The length of the jumps made here.
    const JUMP_LENGTH: u8 = 5;

    fn len(&self) -> usize {
        self.code.len()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// The four bytes that name `target` relative to what follows them.
    fn relative(&mut self, target: u64) -> Option<()> {
        let after = self.slot.wrapping_add(self.code.len() as u64 + 4);
        let distance = i32::try_from(target.wrapping_sub(after) as i64).ok()?;
        self.bytes(&distance.to_le_bytes());
        Some(())
    }

    fn jump(&mut self, target: u64) -> Option<()> {
        self.bytes(&[0xe9]);
        self.relative(target)
    }

    /// Pushes a number of 64 bits without a register.
    fn push(&mut self, value: u64, places: &mut Vec<(usize, Place)>) {
        let low = value as u32;
        let high = (value >> 32) as u32;
        // push imm32, which extends the sign
        self.bytes(&[0x68]);
        self.bytes(&low.to_le_bytes());
        places.push((self.len(), Place::Pushed));
        if i64::from(low as i32) as u64 != value {
            // mov dword ptr [rsp+4], high
            self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
            self.bytes(&high.to_le_bytes());
            places.push((self.len(), Place::Pushed));
        }
    }

    fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let mut encoder = Encoder::new(64);
        encoder
            .encode(instruction, self.slot + self.code.len() as u64)
            .ok()?;
        let bytes = encoder.take_buffer();
        self.bytes(&bytes);
        Some(())
    }

    /// The very bytes of an instruction, but for an operand relative to `rip`.
    fn copied(
        &mut self,
        bytes: &[u8],
        operand: Option<usize>,
        instruction: &Instruction,
    ) -> Option<()> {
        let start = self.code.len();
        self.bytes(bytes);
        if let Some(offset) = operand {
            let after = self.slot.wrapping_add(self.code.len() as u64);
            let distance =
                i32::try_from(instruction.ip_rel_memory_address().wrapping_sub(after) as i64)
                    .ok()?;
            self.code
                .get_mut(start + offset..start + offset + 4)?
                .copy_from_slice(&distance.to_le_bytes());
        }
        Some(())
    }
}
