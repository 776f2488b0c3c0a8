//! Where the calls of a function begin and end: its entry, its returns, and its tail calls.
//!
//! The function is disassembled over all of its ranges. At each of these places the stack pointer of the first instruction is
//! computed from one register: it identifies the call. A jump out of the function is a tail call only if call frame information,
//! if there is any, says that the stack is as at the first instruction. Other jumps lead to a part of the function with another
//! symbol.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use tracewire_arch::{
    Architecture, FlowKind, InstructionCode, Machine, Opcode, dwarf_register, gdb_register,
};
use tracewire_debuginfo::{CfaRule, Function, Symbols};
use tracewire_model::{Address, ByteOrder, RegisterNumber, SpanRole};

/// The largest range of a function that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// The most ranges of a function, including the targets of its jumps.
const MOST_RANGES: usize = 1024;

/// How many instructions before another one are given.
const MOST_BEFORE: usize = 4;

/// A place where a call begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallPoint {
    /// The instruction.
    pub address: Address,
    /// Its role in the call.
    pub role: SpanRole,
    /// From which register the stack pointer at the first instruction is found.
    pub register: RegisterNumber,
    /// The offset that is added to the register.
    pub offset: i64,
}

/// The places of a function whose tracepoint is at `entry`: that one first, then the exits by their addresses.
#[must_use]
pub fn call_points(symbols: &Symbols, function: &Function, entry: Address) -> Vec<CallPoint> {
    let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
    let code = Code {
        symbols,
        architecture,
        function,
        stack_pointer: Machine::with_linux(architecture).stack_pointer(),
    };
    let (entry, register, offset) = code.entry(entry);
    let (exits, is_loop) = code.exits(entry);
    let role = match exits.get(&entry) {
        Some(SpanRole::Return) => SpanRole::EntryAndReturn,
        Some(_) => SpanRole::EntryAndTailCall,
        None if is_loop => SpanRole::EntryAndLoop,
        None => SpanRole::Entry,
    };
    let entry_point = CallPoint {
        address: entry,
        role,
        register,
        offset,
    };
    let exits = exits.into_iter().filter(|(address, _)| *address != entry);
    let exits = exits.map(|(address, role)| CallPoint {
        address,
        role,
        register: code.stack_pointer,
        offset: 0,
    });
    std::iter::once(entry_point).chain(exits).collect()
}

/// The instructions that always come before one of a function with these ranges, the nearest first. None is a call or a branch, and no branch of
/// the function leads between them and it. Only for x86; at most four instructions.
#[must_use]
pub fn straight_before(
    symbols: &Symbols,
    ranges: &[(Address, Address)],
    address: Address,
) -> Vec<Address> {
    let bitness = match symbols.architecture().unwrap_or(Architecture::X86_64) {
        Architecture::X86_64 => 64,
        Architecture::I386 => 32,
        _ => return Vec::new(),
    };
    let mut before: Vec<Address> = Vec::new();
    let mut found = None;
    let mut targets = BTreeSet::new();
    for (start, end) in ranges {
        let length = end.0.saturating_sub(start.0).min(LARGEST);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if !symbols.read_only_memory(*start, &mut bytes) {
            continue;
        }
        before.clear();
        let decoder = Decoder::with_ip(bitness, &bytes, start.0, DecoderOptions::NONE);
        for instruction in decoder {
            let at = Address(instruction.ip());
            if at == address {
                found = Some(std::mem::take(&mut before));
            }
            if matches!(
                instruction.op0_kind(),
                OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
            ) {
                targets.insert(instruction.near_branch_target());
            }
            match instruction.flow_control() {
                FlowControl::Next => before.push(at),
                _ => before.clear(),
            }
        }
    }
    let found = found.unwrap_or_default();
    let is_straight = |at: &&Address| targets.range(at.0 + 1..=address.0).next().is_none();
    let near = found.iter().rev().take(MOST_BEFORE);
    near.take_while(is_straight).copied().collect()
}

/// Whether the instruction at an address returns.
pub(crate) fn is_return(symbols: &Symbols, address: Address) -> bool {
    let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
    let mut bytes = [0; 4];
    let length = match architecture {
        Architecture::X86_64 | Architecture::I386 => {
            // A return is one byte, or three; what follows may be the end of the section.
            let whole = (1..=3)
                .rev()
                .find(|length| symbols.read_only_memory(address, &mut bytes[..*length]));
            whole.unwrap_or(0)
        }
        _ => match symbols.read_only_memory(address, &mut bytes) {
            true => 4,
            false => 0,
        },
    };
    let mut found = false;
    each_step(architecture, address, &bytes[..length], |step| {
        if step.address == address {
            found = step.kind == StepKind::Return;
        }
    });
    found
}

struct Code<'a> {
    symbols: &'a Symbols,
    architecture: Architecture,
    function: &'a Function,
    stack_pointer: RegisterNumber,
}

/// The relevant effects of an instruction.
struct Step {
    address: Address,
    kind: StepKind,
    is_conditional: bool,
}

#[derive(PartialEq, Eq)]
enum StepKind {
    Return,
    Jump(Address),
    /// A jump to an address in memory or in a register. It may be a jump within a function through a table.
    JumpTo {
        may_be_table: bool,
    },
}

impl Code<'_> {
    /// How many bytes a call puts on the stack.
    const fn pushed(&self) -> i64 {
        match self.architecture {
            Architecture::X86_64 => 8,
            Architecture::I386 => 4,
            _ => 0,
        }
    }

    /// The entry, and how the first instruction's stack pointer is computed there. After a prologue call frame information gives
    /// it; without that, the entry is the first instruction.
    fn entry(&self, wanted: Address) -> (Address, RegisterNumber, i64) {
        if wanted != self.function.entry
            && let Some(CfaRule::RegisterOffset { register, offset }) = self.symbols.cfa(wanted)
            && let Some(register) = gdb_register(self.architecture, register)
        {
            return (wanted, register, offset - self.pushed());
        }
        let entry = self.after_stack_check().unwrap_or(self.function.entry);
        (entry, self.stack_pointer, 0)
    }

    /// The address after the instructions by which a Go function checks that its stack has room; none where it has no check. If the stack
    /// has to grow, the function jumps back to its first instruction, which then executes twice.
    fn after_stack_check(&self) -> Option<Address> {
        /// The goroutine's word for the check: `stackguard0`.
        const LIMIT: u64 = 16;
        let &(start, end) = self.function.ranges.first()?;
        if self.architecture != Architecture::X86_64 || start != self.function.entry {
            return None;
        }
        let mut bytes = [0; 64];
        let length = usize::try_from(end.0.checked_sub(start.0)?).ok()?;
        let bytes = bytes.get_mut(..length.min(64))?;
        if !self.symbols.read_only_memory(start, bytes) {
            return None;
        }
        let mut is_compared = false;
        for instruction in Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE) {
            match instruction.mnemonic() {
                Mnemonic::Cmp => {
                    is_compared = instruction.op1_kind() == OpKind::Memory
                        && instruction.memory_displacement64() == LIMIT;
                }
                // Code of another language may have the same instructions, if seldom.
                Mnemonic::Jbe if is_compared => {
                    let next = Address(instruction.next_ip());
                    return self.symbols.is_go_code(start).then_some(next);
                }
                // The address that is compared, of a function with a large frame.
                Mnemonic::Lea | Mnemonic::Mov | Mnemonic::Sub | Mnemonic::Jb => {}
                _ => return None,
            }
        }
        None
    }

    /// Whether the stack is as at the first instruction, by call frame information; `unknown` without any.
    fn is_stack_empty(&self, pc: Address, unknown: bool) -> bool {
        match self.symbols.cfa(pc) {
            Some(CfaRule::RegisterOffset { register, offset }) => {
                dwarf_register(self.architecture, self.stack_pointer) == Some(register)
                    && offset == self.pushed()
            }
            Some(CfaRule::Expression(_)) => false,
            None => unknown,
        }
    }

    /// The exits, and whether a jump leads to the entry.
    fn exits(&self, entry: Address) -> (BTreeMap<Address, SpanRole>, bool) {
        let mut ranges = self.function.ranges.clone();
        let mut exits = BTreeMap::new();
        let mut is_loop = false;
        let mut next = 0;
        while let Some(&(start, end)) = ranges.get(next) {
            next += 1;
            let length = end.0.saturating_sub(start.0).min(LARGEST);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            if !self.symbols.read_only_memory(start, &mut bytes) {
                continue;
            }
            let mut elsewhere = Vec::new();
            each_step(self.architecture, start, &bytes, |step| {
                let at = step.address;
                let role = match step.kind {
                    StepKind::Return => SpanRole::Return,
                    StepKind::Jump(target) => {
                        is_loop |= target == entry;
                        let inside =
                            |(from, to): &(Address, Address)| (*from..*to).contains(&target);
                        if ranges.iter().any(inside) {
                            return;
                        }
                        if !self.is_stack_empty(at, true) {
                            elsewhere.push(target);
                            return;
                        }
                        match step.is_conditional {
                            true => SpanRole::MayTailCall,
                            false => SpanRole::TailCall,
                        }
                    }
                    StepKind::JumpTo { may_be_table } => {
                        if !self.is_stack_empty(at, false) {
                            return;
                        }
                        match may_be_table {
                            true => SpanRole::MayTailCall,
                            false => SpanRole::TailCall,
                        }
                    }
                };
                exits.insert(at, role);
            });
            for target in elsewhere {
                let known = |range: &(Address, Address)| (range.0..range.1).contains(&target);
                if ranges.len() < MOST_RANGES
                    && !ranges.iter().any(known)
                    && let Some(part) = self.symbols.function_at(target)
                {
                    ranges.extend(part.ranges);
                }
            }
        }
        (exits, is_loop)
    }
}

/// Calls `each` with every return and every jump of a piece of code.
fn each_step(architecture: Architecture, start: Address, bytes: &[u8], each: impl FnMut(Step)) {
    match architecture {
        Architecture::X86_64 => each_x86_step(64, start, bytes, each),
        Architecture::I386 => each_x86_step(32, start, bytes, each),
        _ => each_word_step(architecture, start, bytes, each),
    }
}

fn each_x86_step(bitness: u32, start: Address, bytes: &[u8], mut each: impl FnMut(Step)) {
    let mut decoder = Decoder::with_ip(bitness, bytes, start.0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let flow = instruction.flow_control();
        let is_near = matches!(
            instruction.op0_kind(),
            OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
        );
        let kind = match flow {
            FlowControl::Return => StepKind::Return,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if is_near => {
                StepKind::Jump(Address(instruction.near_branch_target()))
            }
            FlowControl::IndirectBranch => StepKind::JumpTo {
                may_be_table: instruction.op0_kind() == OpKind::Register
                    || instruction.memory_index() != Register::None,
            },
            _ => continue,
        };
        each(Step {
            address: Address(instruction.ip()),
            kind,
            is_conditional: flow == FlowControl::ConditionalBranch,
        });
    }
}

/// For machines with instructions of one word, or half words of RISC-V. A machine with delay slots changes the stack pointer
/// after the jump, so its jumps are not followed.
fn each_word_step(
    architecture: Architecture,
    start: Address,
    bytes: &[u8],
    mut each: impl FnMut(Step),
) {
    let has_halves = match architecture {
        Architecture::Riscv32 | Architecture::Riscv64 => true,
        Architecture::Aarch64
        | Architecture::PowerPc
        | Architecture::PowerPc64
        | Architecture::PowerPc64Little
        | Architecture::Nios2 => false,
        _ => return,
    };
    let machine = Machine::with_linux(architecture);
    let order = architecture.byte_order();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match rest {
            [low, ..] if has_halves && low & 3 != 3 => 2,
            _ => 4,
        };
        let Some(word) = rest.get(..length) else {
            return;
        };
        let value = match order {
            ByteOrder::Little => word
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u128::from(*byte)),
            ByteOrder::Big => word
                .iter()
                .fold(0, |value, byte| value << 8 | u128::from(*byte)),
        };
        let address = start.offset(at as i64);
        at += length;
        let code = InstructionCode {
            address,
            address_digits: 2 * architecture.pointer_size(),
            opcode: Opcode {
                value,
                digits: 2 * length as u8,
            },
            set: None,
        };
        let Some(flow) = machine.flow(&code) else {
            continue;
        };
        let kind = match (flow.kind, flow.target) {
            (FlowKind::Return, _) => StepKind::Return,
            (FlowKind::Jump, Some(target)) => StepKind::Jump(target),
            (FlowKind::Jump, None) => StepKind::JumpTo { may_be_table: true },
            _ => continue,
        };
        each(Step {
            address,
            kind,
            is_conditional: flow.is_conditional,
        });
    }
}
