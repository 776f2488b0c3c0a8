//! One instruction, and whether it can be moved.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// The longest instruction there is, in bytes.
pub const MAX_INSTRUCTION: usize = 15;

/// An instruction, and how it is executed with a breakpoint on it.
#[derive(Debug)]
pub struct Displaced {
    /// Its kind.
    pub kind: Kind,
    /// It may wait in the kernel or repeat itself: a system call or a repeated string instruction. It must not be stepped to its
    /// end, but can be started again.
    pub restartable: bool,
    /// It stores the flags where the program sees them, the trap flag included.
    pub pushes_flags: bool,
    pub(super) instruction: Instruction,
    bytes: [u8; MAX_INSTRUCTION],
    length: u8,
    /// The offset among its bytes of the displacement of an operand relative to `rip`.
    pub(super) relative_operand: Option<usize>,
}

/// How an instruction is relocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An unchanged copy works elsewhere.
    Relocatable,
    /// It is the program's own breakpoint: the program gets its signal.
    OwnTrap,
    /// It only works at its own address.
    Fixed,
}

impl Displaced {
    /// Decodes the instruction at `address`, the first of `bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8], address: u64) -> Self {
        Self::decode_for(64, bytes, address)
    }

    /// The same for code of 32 or 64 bits. Only 64-bit code can be copied.
    #[must_use]
    pub fn decode_for(bits: u32, bytes: &[u8], address: u64) -> Self {
        let bits = if bits == 32 { 32 } else { 64 };
        let mut decoder = Decoder::with_ip(bits, bytes, address, DecoderOptions::NONE);
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
        let own = bytes.get(..instruction.len()).unwrap_or_default();
        let mut bytes = [0; MAX_INSTRUCTION];
        for (to, byte) in bytes.iter_mut().zip(own) {
            *to = *byte;
        }
        Self {
            kind,
            restartable: matches!(code, Code::Syscall | Code::Int_imm8)
                || (instruction.is_string_instruction()
                    && (instruction.has_rep_prefix() || instruction.has_repne_prefix())),
            pushes_flags: matches!(code, Code::Pushfq | Code::Pushfd | Code::Pushfw),
            bytes,
            length: own.len() as u8,
            instruction,
            relative_operand,
        }
    }

    /// Its own address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.instruction.ip()
    }

    /// The address after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.instruction.next_ip()
    }

    /// The length of the instruction, in bytes; 0 if it is none.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length.into()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length()).unwrap_or_default()
    }

    /// Whether it is a valid instruction.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.instruction.is_invalid()
    }

    /// Whether execution can continue at the next instruction in memory.
    #[must_use]
    pub fn falls_through(&self) -> bool {
        !matches!(
            self.instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        )
    }

    /// Whether the instruction is a call, which a shadow stack must see made by a call.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(
            self.instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )
    }

    /// Whether execution continues only at the next instruction.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind == Kind::Relocatable && self.instruction.flow_control() == FlowControl::Next
    }

    /// Whether the instruction does nothing, as the padding up to the next function.
    #[must_use]
    pub fn is_padding(&self) -> bool {
        self.instruction.mnemonic() == Mnemonic::Nop
    }

    /// Whether the instruction enters the kernel.
    #[must_use]
    pub fn is_system_call(&self) -> bool {
        matches!(self.instruction.code(), Code::Syscall | Code::Int_imm8)
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
            target == OpKind::NearBranch64
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
