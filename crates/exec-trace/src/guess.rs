//! Which machine a trace is of, known from what is in it.
//!
//! Three things speak: the names of registers, the text of instructions, and their codes. Each line of the first
//! mebibytes gives points to the machines that it fits and takes some from those that it cannot be of. The word size
//! is that of the widest general register written; the byte order is the one under which fewer reads contradict
//! earlier writes of another size. On MIPS the pairs of instructions for unaligned words tell it too.

use std::collections::HashMap;

use tracewire_arch::{Architecture, InstructionSet};
use tracewire_model::ByteOrder;

use crate::data_order::{DataOrderEvidence, DataOrderObserver};
use crate::record::{Access, AccessKind, DataOrder, Instruction, Line, Owner, RegisterWrite};
use crate::text::{Format, Sink, read};

/// How much of a trace is looked at, in bytes.
const SAMPLE: usize = 4 << 20;

/// How many bytes of memory are remembered to settle the byte order.
const REMEMBERED: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    Mips,
    Arm,
    Aarch64,
    Riscv,
    X86,
    Power,
}

const FAMILIES: [Family; 6] = [
    Family::Mips,
    Family::Arm,
    Family::Aarch64,
    Family::Riscv,
    Family::X86,
    Family::Power,
];

/// Guesses the machine of a text; none where nothing speaks for one.
#[must_use]
pub fn guess(format: Format, text: &[u8]) -> Option<Architecture> {
    settle(format, text, None).guessed
}

/// Properties of a whole text that no single line states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The machine that it looks like; none where nothing speaks for one.
    pub guessed: Option<Architecture>,
    /// How the digits of data are written that may be a number or bytes; none where the types of the lines decide.
    pub data_order: Option<DataOrder>,
    /// What registers say of that.
    pub evidence: DataOrderEvidence,
}

/// Guesses the machine of a text, and in which order it writes data. `machine` is the machine where it is known.
#[must_use]
pub fn settle(format: Format, text: &[u8], machine: Option<Architecture>) -> Settled {
    let is_tarmac = format == Format::Tarmac;
    if matches!(format, Format::Nios2V2 | Format::Nios2V3) {
        return Settled {
            guessed: Some(Architecture::Nios2),
            data_order: None,
            evidence: DataOrderEvidence::default(),
        };
    }
    let mut sample = Sample {
        is_tarmac,
        tells_width: format.is_perf(),
        ..Sample::default()
    };
    let end = text.len().min(SAMPLE);
    read(format, text, &format.piece_at(text, 0, end), &mut sample);
    let evidence = if is_tarmac {
        sample.data.evidence()
    } else {
        DataOrderEvidence::default()
    };
    let order = evidence.order();
    let guessed = sample.architecture(order);
    let machine = machine.or(guessed);
    Settled {
        guessed,
        data_order: order.or_else(|| sample.data_order(machine).filter(|_| is_tarmac)),
        evidence,
    }
}

#[derive(Default)]
struct Sample {
    is_tarmac: bool,
    /// Whether an address above 32 bits is one of a machine of 64: others extend the sign of theirs.
    tells_width: bool,
    points: [i64; FAMILIES.len()],
    /// Whether a general register of 64 bits was written, or an address above 32 bits used.
    is_wide: bool,
    /// Bytes written, and what each would be in little and in big order.
    memory: HashMap<u64, (u8, u8)>,
    /// How many bytes read contradict the little and the big order: of accesses that are a number, and of those that are bytes
    /// by the type of the line.
    contradictions: [[u64; 2]; 2],
    data: DataOrderObserver,
    /// The same of MIPS's pairs of unaligned loads and stores; the first of a pair.
    unaligned: [u64; 2],
    left: Option<u128>,
}

impl Sample {
    fn add(&mut self, family: Family, points: i64) {
        self.points[family as usize] += points;
    }

    /// The order of data that reads of what was written in another size speak for. Bytes in the order of memory are as
    /// a number is on a big-endian machine.
    fn data_order(&self, machine: Option<Architecture>) -> Option<DataOrder> {
        let is_little = machine.is_some_and(|of| of.byte_order() == ByteOrder::Little);
        let fits = |one: u64, other: u64| other > 0 && one <= other / 8;
        let [numbers, bytes] = self.contradictions;
        if is_little && fits(numbers[1], numbers[0]) {
            Some(DataOrder::LowestAddressFirst)
        } else if is_little && fits(bytes[0], bytes[1]) {
            Some(DataOrder::Number)
        } else {
            None
        }
    }

    fn architecture(&self, order: Option<DataOrder>) -> Option<Architecture> {
        let (points, family) = self
            .points
            .iter()
            .zip(FAMILIES)
            .max_by_key(|(points, _)| **points)?;
        if *points <= 0 {
            return None;
        }
        // Bytes in the order of memory are the same on all machines.
        let [numbers, bytes] = self.contradictions;
        let mut contradictions = match order {
            None => numbers,
            Some(DataOrder::Number) => [numbers[0] + bytes[0], numbers[1] + bytes[1]],
            Some(_) => [0, 0],
        };
        if family == Family::Mips {
            contradictions[0] += self.unaligned[0];
            contradictions[1] += self.unaligned[1];
        }
        let order = match contradictions {
            [little, big] if little < big => Some(ByteOrder::Little),
            [little, big] if big < little => Some(ByteOrder::Big),
            _ => None,
        };
        // Where memory does not tell, the machine's first byte order is taken.
        let (first, other) = match (family, self.is_wide) {
            (Family::Mips, false) => (Architecture::Mips, Architecture::MipsLittle),
            (Family::Mips, true) => (Architecture::Mips64, Architecture::Mips64Little),
            (Family::Arm, _) => (Architecture::Arm, Architecture::ArmBig),
            (Family::Aarch64, _) => (Architecture::Aarch64, Architecture::Aarch64),
            (Family::Riscv, false) => (Architecture::Riscv32, Architecture::Riscv32),
            (Family::Riscv, true) => (Architecture::Riscv64, Architecture::Riscv64),
            (Family::X86, false) => (Architecture::I386, Architecture::I386),
            (Family::X86, true) => (Architecture::X86_64, Architecture::X86_64),
            (Family::Power, false) => (Architecture::PowerPc, Architecture::PowerPc),
            (Family::Power, true) => (Architecture::PowerPc64, Architecture::PowerPc64Little),
        };
        Some(match order {
            Some(order) if order != first.byte_order() => other,
            _ => first,
        })
    }

    fn opcode(&mut self, value: u128, digits: u8) {
        if !matches!(digits, 4 | 8 | 16) {
            self.add(Family::X86, 4);
            return;
        }
        let (low, high) = (value & 3, value >> 28 & 15);
        let is_riscv = match digits {
            4 => low != 3,
            8 => low == 3,
            _ => false,
        };
        self.add(Family::Riscv, if is_riscv { 1 } else { -4 });
        if digits == 8 {
            self.add(Family::Arm, i64::from(high == 14));
            // Major groups that are not allocated in A64.
            let is_unallocated = matches!(value >> 25 & 15, 0 | 1 | 3);
            self.add(Family::Aarch64, if is_unallocated { -4 } else { 1 });
            self.add(Family::X86, -1);
        } else {
            for family in [Family::Aarch64, Family::Mips, Family::Power] {
                self.add(family, -4);
            }
        }
    }

    /// `lwl` is for the more significant bytes: those at the higher addresses on a little-endian machine.
    fn unaligned_pair(&mut self, opcode: u128) {
        let Some(left) = self.left.take() else {
            let is_left = matches!(opcode >> 26, 0x22 | 0x2a | 0x1a | 0x2c);
            self.left = is_left.then_some(opcode);
            return;
        };
        let right_of = match left >> 26 {
            0x22 | 0x2a => (left >> 26) + 4,
            _ => (left >> 26) + 1,
        };
        let is_pair = opcode >> 26 == right_of && opcode >> 16 & 0x3ff == left >> 16 & 0x3ff;
        let offset = |opcode: u128| opcode as u16 as i16;
        if is_pair {
            let is_little = offset(left) > offset(opcode);
            self.unaligned[usize::from(is_little)] += 1;
        }
    }

    fn mnemonic(&mut self, text: &[u8], opcode: Option<u128>) {
        let mut words = text.split(|byte| byte.is_ascii_whitespace());
        let Some(word) = words.next() else { return };
        let word = word.to_ascii_lowercase();
        let major = opcode.map(|opcode| opcode >> 26 & 63);
        let points: &[(Family, i64)] = match &word[..] {
            b"lui" if major == Some(15) => &[(Family::Mips, 4)],
            b"lui" => &[(Family::Riscv, 4)],
            b"nop" => match opcode {
                Some(0) => &[(Family::Mips, 4)],
                Some(0x13 | 1) => &[(Family::Riscv, 4)],
                Some(0x6000_0000) => &[(Family::Power, 4)],
                Some(0xd503_201f) => &[(Family::Aarch64, 4)],
                Some(0xe1a0_0000 | 0xe320_f000 | 0xbf00) => &[(Family::Arm, 4)],
                Some(0x90) => &[(Family::X86, 4)],
                _ => &[],
            },
            b"addiu" | b"daddiu" | b"daddu" | b"addu" | b"subu" | b"jr" | b"jalx" | b"mflo"
            | b"mfhi" | b"mult" | b"multu" | b"sltiu" | b"mtc0" | b"mfc0" | b"lwl" | b"lwr"
            | b"dsll" | b"dsrl" => &[(Family::Mips, 4)],
            b"auipc" | b"mv" | b"csrr" | b"csrw" | b"csrrw" | b"addiw" | b"sext.w" | b"ecall"
            | b"bltu" | b"bgeu" => &[(Family::Riscv, 4)],
            b"mflr" | b"mtlr" | b"stwu" | b"lwz" | b"addis" | b"blr" | b"bctr" | b"rlwinm"
            | b"lis" | b"mtctr" | b"bdnz" | b"stdu" | b"clrlwi" | b"cmpwi" | b"cmplwi" => {
                &[(Family::Power, 4)]
            }
            b"bx" | b"ldm" | b"stmdb" | b"ldmia" | b"stmia" | b"movt" | b"movw" | b"ldrd"
            | b"strd" | b"rsb" | b"mvn" | b"blx" | b"it" => &[(Family::Arm, 4)],
            b"adrp" | b"stp" | b"ldp" | b"cbz" | b"cbnz" | b"movz" | b"movk" | b"b.eq"
            | b"b.ne" | b"ldur" | b"stur" | b"tbz" | b"tbnz" | b"csel" | b"orr" => {
                &[(Family::Aarch64, 2)]
            }
            b"lea" | b"jmp" | b"call" | b"callq" | b"pushq" | b"popq" | b"movl" | b"movq"
            | b"retq" | b"leave" | b"leaq" => &[(Family::X86, 4)],
            _ => &[],
        };
        for (family, points) in points {
            self.add(*family, *points);
        }
        if text.contains(&b'%') {
            self.add(Family::X86, 1);
        }
    }

    fn register_name(&mut self, name: &[u8], digits: u32) {
        let name = name.to_ascii_lowercase();
        let letters = name
            .iter()
            .take_while(|byte| !byte.is_ascii_digit())
            .count();
        let (prefix, digits_of_name) = name.split_at(letters);
        let number: Option<u32> = std::str::from_utf8(digits_of_name)
            .ok()
            .and_then(|text| text.parse().ok());
        let points: &[(Family, i64)] = match (prefix, number) {
            (b"r", Some(0..16)) => &[
                (Family::Mips, 1),
                (Family::Power, 1),
                (Family::Arm, 1),
                (Family::Riscv, -2),
                (Family::Aarch64, -2),
            ],
            (b"r", Some(_)) => &[
                (Family::Mips, 1),
                (Family::Power, 1),
                (Family::Arm, -4),
                (Family::Riscv, -2),
                (Family::Aarch64, -2),
            ],
            (b"x", Some(_)) => &[
                (Family::Riscv, 1),
                (Family::Aarch64, 1),
                (Family::Mips, -4),
                (Family::Arm, -4),
                (Family::Power, -4),
            ],
            (b"w", Some(_)) => &[(Family::Aarch64, 4)],
            (b"a", Some(0..4)) | (b"t", Some(0..7)) | (b"s", Some(0..9)) => &[
                (Family::Riscv, 1),
                (Family::Mips, 1),
                (Family::Power, -2),
                (Family::Aarch64, -2),
            ],
            (b"a", Some(4..8)) | (b"s", Some(9..12)) => &[(Family::Riscv, 2)],
            (b"t", Some(7..10)) | (b"v", Some(0..2)) | (b"k", Some(_)) => &[(Family::Mips, 2)],
            (b"hi" | b"lo", _) => &[(Family::Mips, 4)],
            (b"ctr" | b"xer" | b"cr" | b"msr", _) => &[(Family::Power, 4)],
            (b"cpsr", _) => &[(Family::Arm, 2), (Family::Aarch64, 1)],
            (b"pstate" | b"nzcv", _) => &[(Family::Aarch64, 4)],
            (b"rax" | b"rbx" | b"rcx" | b"rdx" | b"rsi" | b"rdi" | b"rbp" | b"rsp", _)
            | (b"eax" | b"ebx" | b"ecx" | b"edx" | b"esi" | b"edi" | b"ebp" | b"esp", _)
            | (b"eflags" | b"rflags" | b"rip" | b"eip", _) => &[(Family::X86, 8)],
            _ => &[],
        };
        for (family, points) in points {
            self.add(*family, *points);
        }
        let is_general = !points.is_empty() && prefix != b"f" && prefix != b"v";
        self.is_wide |= is_general && digits > 8;
    }

    /// Remembers what a write of several bytes leaves under both byte orders; a read of bytes that were written
    /// otherwise says.
    fn memory(&mut self, access: &Access<'_>) {
        let Some(value) = access.data.known() else {
            return;
        };
        let size = u64::from(access.size);
        let class = match access.order {
            DataOrder::Number => 0,
            DataOrder::LowestAddressFirst => 1,
            DataOrder::HighestAddressFirst => return,
        };
        if size > 8 || self.memory.len() > REMEMBERED {
            return;
        }
        for at in 0..size {
            let little = (value >> (8 * at)) as u8;
            let big = (value >> (8 * (size - 1 - at))) as u8;
            let address = access.address.0.wrapping_add(at);
            match access.kind {
                AccessKind::Write => {
                    self.memory.insert(address, (little, big));
                }
                AccessKind::Read => {
                    let known = *self.memory.entry(address).or_insert((little, big));
                    self.contradictions[class][0] += u64::from(known.0 != little);
                    self.contradictions[class][1] += u64::from(known.1 != big);
                }
            }
        }
    }
}

impl Sink for Sample {
    fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
        match instruction.set {
            Some(InstructionSet::O) => self.add(Family::Aarch64, 16),
            Some(InstructionSet::T16 | InstructionSet::T32) => self.add(Family::Arm, 16),
            Some(InstructionSet::T) if self.is_tarmac => self.add(Family::Arm, 8),
            // Only a hint: converted traces of other machines say so too.
            Some(InstructionSet::A) if self.is_tarmac => self.add(Family::Arm, 2),
            _ => {}
        }
        self.is_wide |= self.tells_width && instruction.address.0 >> 32 != 0;
        let opcode = instruction.opcode;
        if let Some(opcode) = opcode {
            self.opcode(opcode.value, opcode.digits);
            self.unaligned_pair(opcode.value);
        }
        self.mnemonic(instruction.disassembly, opcode.map(|opcode| opcode.value));
        self.data.instruction(instruction);
    }

    fn access(&mut self, _: Line, owner: Owner, access: &Access<'_>) {
        self.memory(access);
        self.data.access(owner, access);
    }

    fn register(&mut self, _: Line, owner: Owner, write: &RegisterWrite<'_>) {
        self.data.register(owner, write);
        self.register_name(write.register, write.value.digits());
    }
}
