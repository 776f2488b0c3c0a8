//! Copies of instructions, for another place.

use iced_x86::{Code, ConditionCode, Encoder, FlowControl, Instruction, OpKind, Register};

use super::instruction::Displaced;

/// The space for the copy of one instruction with the jump back, in bytes; none needs more.
pub const SLOT_SIZE: usize = 32;

/// Where a thread is within the copy of an instruction, in terms of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The instruction has not been executed.
    Before,
    /// The return address of a call has been pushed, nothing more.
    Pushed,
    /// The instruction is done; the program is at this address.
    At(u64),
}

/// A stretch of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Where it begins in the copy, in bytes.
    pub offset: usize,
    /// The address of the program's instruction.
    pub address: u64,
    /// How much of that instruction a thread here has executed.
    pub place: Place,
}

/// Instructions for another place, with the jump back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copy {
    /// The code.
    pub code: Vec<u8>,
    /// Its stretches.
    pub spots: Spots,
}

/// The stretches of a copy, by rising offset, the first one at 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spots(Vec<Spot>);

impl Copy {
    /// The jump from `at` to a copy that a debugger has made of the instruction at `address`; `None` if it is out of reach.
    #[must_use]
    pub fn led_to(at: u64, target: u64, address: u64) -> Option<Self> {
        let mut copying = Copying::new(at);
        copying.address = address;
        copying.spot(Place::Before);
        copying.jump(target)?;
        Some(copying.finish())
    }
}

impl Spots {
    /// The position of a thread whose `rip` is `offset` bytes into the copy.
    #[must_use]
    pub fn place(&self, offset: u64) -> Spot {
        let next = self.0.partition_point(|spot| spot.offset as u64 <= offset);
        self.0.get(next.saturating_sub(1)).copied().unwrap_or(Spot {
            offset: 0,
            address: 0,
            place: Place::Before,
        })
    }

    /// The offset in the copy at which an instruction of the program begins.
    #[must_use]
    pub fn start_of(&self, address: u64) -> Option<usize> {
        self.0
            .iter()
            .find(|spot| spot.address == address && spot.place == Place::Before)
            .map(|spot| spot.offset)
    }

    /// The offset in the copy at which an instruction is complete, if execution continues there with the next one.
    #[must_use]
    pub fn end_of(&self, address: u64, next: u64) -> Option<usize> {
        self.0
            .iter()
            .find(|spot| spot.address == address && spot.place == Place::At(next))
            .map(|spot| spot.offset)
    }
}

impl Displaced {
    /// Makes the copy that runs at `slot`; `None` if something it refers to is out of reach from there.
    #[must_use]
    pub fn copy(&self, slot: u64) -> Option<Copy> {
        let mut copying = Copying::new(slot);
        copying.add(self, true)?;
        let copy = copying.finish();
        debug_assert!(copy.code.len() <= SLOT_SIZE);
        Some(copy)
    }
}

/// A copy being made.
pub(super) struct Copying {
    at: u64,
    code: Vec<u8>,
    spots: Vec<Spot>,
    /// The current instruction.
    address: u64,
}

/// The length of the jumps made here.
const JUMP_LENGTH: u8 = 5;

impl Copying {
    pub(super) fn new(at: u64) -> Self {
        Self {
            at,
            code: Vec::with_capacity(SLOT_SIZE),
            // Most are of one instruction and the jump back.
            spots: Vec::with_capacity(2),
            address: 0,
        }
    }

    pub(super) fn finish(self) -> Copy {
        Copy {
            code: self.code,
            spots: Spots(self.spots),
        }
    }

    /// Adds an instruction; the last one is followed by the jump back. `None` if it cannot be moved here.
    pub(super) fn add(&mut self, displaced: &Displaced, last: bool) -> Option<()> {
        if displaced.kind != super::Kind::Relocatable {
            return None;
        }
        let instruction = &displaced.instruction;
        let next = instruction.next_ip();
        self.address = instruction.ip();
        self.spot(Place::Before);
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => {
                return self.jump(instruction.near_branch_target());
            }
            FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
                let condition = instruction.condition_code() as u8 - ConditionCode::o as u8;
                self.bytes(&[0x0f, 0x80 | condition]);
                self.relative(instruction.near_branch_target())?;
            }
            FlowControl::ConditionalBranch => {
                // The loop and jrcxz family only has short branches: over a jump to the next instruction.
                let (_, opcode) = displaced.bytes().split_last()?;
                self.bytes(opcode);
                self.bytes(&[2]);
                let short = self.code.len();
                self.spot(Place::At(next));
                self.bytes(&[0xeb, JUMP_LENGTH]);
                self.spot(Place::At(instruction.near_branch_target()));
                self.jump(instruction.near_branch_target())?;
                debug_assert_eq!(self.code.len(), short + 2 + usize::from(JUMP_LENGTH));
            }
            FlowControl::Call if instruction.code() == Code::Call_rel32_64 => {
                self.push(next);
                return self.jump(instruction.near_branch_target());
            }
            FlowControl::IndirectCall => {
                self.push(next);
                return self.instruction(&indirect_jump(instruction));
            }
            _ => self.copied(displaced)?,
        }
        if last && displaced.falls_through() {
            self.spot(Place::At(next));
            self.jump(next)?;
        }
        Some(())
    }

    fn spot(&mut self, place: Place) {
        self.spots.push(Spot {
            offset: self.code.len(),
            address: self.address,
            place,
        });
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// Appends the four bytes of `target` relative to the following address.
    fn relative(&mut self, target: u64) -> Option<()> {
        let after = self.at.wrapping_add(self.code.len() as u64 + 4);
        let distance = i32::try_from(target.wrapping_sub(after) as i64).ok()?;
        self.bytes(&distance.to_le_bytes());
        Some(())
    }

    fn jump(&mut self, target: u64) -> Option<()> {
        self.bytes(&[0xe9]);
        self.relative(target)
    }

    /// Pushes a number of 64 bits without a register.
    fn push(&mut self, value: u64) {
        let low = value as u32;
        let high = (value >> 32) as u32;
        // push imm32, which extends the sign
        self.bytes(&[0x68]);
        self.bytes(&low.to_le_bytes());
        self.spot(Place::Pushed);
        if i64::from(low as i32) as u64 != value {
            // mov dword ptr [rsp+4], high
            self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
            self.bytes(&high.to_le_bytes());
            self.spot(Place::Pushed);
        }
    }

    fn instruction(&mut self, instruction: &Instruction) -> Option<()> {
        let mut encoder = Encoder::new(64);
        encoder
            .encode(instruction, self.at.wrapping_add(self.code.len() as u64))
            .ok()?;
        let bytes = encoder.take_buffer();
        self.bytes(&bytes);
        Some(())
    }

    /// The very bytes of an instruction, but for an operand relative to `rip`.
    fn copied(&mut self, displaced: &Displaced) -> Option<()> {
        let start = self.code.len();
        self.bytes(displaced.bytes());
        if let Some(offset) = displaced.relative_operand {
            let after = self.at.wrapping_add(self.code.len() as u64);
            let target = displaced.instruction.ip_rel_memory_address();
            let distance = i32::try_from(target.wrapping_sub(after) as i64).ok()?;
            self.code
                .get_mut(start + offset..start + offset + 4)?
                .copy_from_slice(&distance.to_le_bytes());
        }
        Some(())
    }
}

/// The jump to the target of a call, after the return address has been pushed.
fn indirect_jump(call: &Instruction) -> Instruction {
    let mut jump = *call;
    jump.set_code(Code::Jmp_rm64);
    if call.op0_kind() == OpKind::Memory && call.memory_base() == Register::RSP {
        jump.set_memory_displacement64(call.memory_displacement64().wrapping_add(8));
        jump.set_memory_displ_size(8);
    }
    jump
}
