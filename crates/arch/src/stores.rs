//! Whether an instruction writes memory, by its code.
//!
//! This is used for traces without reports of memory accesses. It is no decoder: an instruction that writes on a condition outside
//! of its code (store exclusive, compare and swap, cache and system operations) is [`Stores::Perhaps`], and so is an unknown
//! instruction. Sources are the manuals that [`crate::Flow`] names.

use crate::architecture::Architecture;
use crate::code::{InstructionSet, Opcode};
use crate::flow::is_not_a64;
use crate::machine::Machine;

/// Whether an instruction writes memory when it executes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stores {
    /// It never does.
    No,
    /// It does, unless it faults.
    Yes,
    /// It may, or that is not known.
    Perhaps,
}

impl Stores {
    const fn yes_if(is_store: bool) -> Self {
        if is_store { Self::Yes } else { Self::No }
    }

    const fn perhaps_if(may_store: bool) -> Self {
        if may_store { Self::Perhaps } else { Self::No }
    }
}

impl Machine {
    /// Whether an instruction writes memory. `address_digits` is how wide the trace writes its address, which gives the
    /// 32-bit state of an AArch64 processor.
    #[must_use]
    pub fn stores(
        &self,
        opcode: Opcode,
        set: Option<InstructionSet>,
        address_digits: u8,
    ) -> Stores {
        let word = opcode.value as u32;
        let is_thumb = opcode.digits == 4 || set.is_some_and(InstructionSet::is_thumb);
        match (self.architecture(), opcode.digits) {
            (Architecture::Arm | Architecture::ArmBig, digits) => arm(word, digits, is_thumb),
            (Architecture::Aarch64, digits) => {
                let is_a32 =
                    set == Some(InstructionSet::A) && address_digits == 8 && is_not_a64(word);
                if is_thumb || is_a32 {
                    arm(word, digits, is_thumb)
                } else {
                    a64(word)
                }
            }
            (Architecture::Riscv32 | Architecture::Riscv64, 4) => riscv_16(word),
            (Architecture::Riscv32 | Architecture::Riscv64, 8) => riscv(word),
            (
                Architecture::Mips
                | Architecture::MipsLittle
                | Architecture::Mips64
                | Architecture::Mips64Little,
                8,
            ) => mips(word),
            (
                Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little,
                8,
            ) => power(word),
            (Architecture::Nios2, 8) => nios2(word),
            // Nearly every instruction of x86 may have memory as its destination.
            _ => Stores::Perhaps,
        }
    }
}

const fn arm(word: u32, digits: u8, is_thumb: bool) -> Stores {
    match (is_thumb, digits) {
        (true, 4) => thumb_16(word),
        (true, 8) => thumb_32(word >> 16, word & 0xffff),
        (false, 8) => a32(word),
        _ => Stores::Perhaps,
    }
}

const fn a64(word: u32) -> Stores {
    // SVE and SME.
    if word >> 25 & 15 == 2 || word >> 25 & 15 == 0 {
        return Stores::Perhaps;
    }
    // Exceptions; system operations such as DC ZVA.
    if word >> 24 == 0xd4 || word & 0xfff8_0000 == 0xd508_0000 {
        return Stores::Perhaps;
    }
    // Loads and stores are bits 28 to 25 = x1x0.
    if word >> 27 & 1 == 0 || word >> 25 & 1 == 1 {
        return Stores::No;
    }
    let is_load = word >> 22 & 1 == 1;
    match (word >> 28 & 3, word >> 24 & 3, word >> 26 & 1) {
        // Structures of vectors.
        (0, 0 | 1, 1) => Stores::yes_if(!is_load),
        // Exclusive and ordered ones; compare and swap reads and writes.
        (0, 0, 0) => {
            let is_plain_load = is_load && word >> 21 & 1 == 0;
            Stores::perhaps_if(!is_plain_load)
        }
        // Literals are loads.
        (1, 0, _) => Stores::No,
        // Ordered ones with an offset, tags, copies of memory.
        (1, 1, _) => Stores::perhaps_if(word >> 10 & 3 != 0 || word >> 22 & 3 == 0),
        // Pairs.
        (2, _, _) => Stores::yes_if(!is_load),
        (3, is_far, is_vector) => {
            let (with_register, kind) = (word >> 21 & 1, word >> 10 & 3);
            if is_far == 0 && with_register == 1 && is_vector == 0 && kind & 1 == 1 {
                // Loads with authentication.
                return Stores::perhaps_if(word >> 30 != 3);
            }
            if is_far == 0 && with_register == 1 && kind == 0 {
                // Atomic operations.
                return Stores::Perhaps;
            }
            let operation = word >> 22 & 3;
            let is_wide = is_vector == 1 && operation == 2;
            Stores::yes_if(operation == 0 || is_wide)
        }
        _ => Stores::Perhaps,
    }
}

const fn a32(word: u32) -> Stores {
    let is_load = word >> 20 & 1 == 1;
    if word >> 28 == 15 {
        if word & 0xff10_0000 == 0xf400_0000 {
            // Elements and structures of vectors.
            return Stores::yes_if(word >> 21 & 1 == 0);
        }
        if word & 0xfe50_0000 == 0xf840_0000 {
            // srs.
            return Stores::Yes;
        }
        return Stores::perhaps_if(word & 0xfe10_0000 == 0xfc00_0000);
    }
    match word >> 25 & 7 {
        0 if word >> 4 & 9 == 9 => match (word >> 5 & 3, is_load) {
            // Multiplication, or synchronization.
            (0, _) => Stores::perhaps_if(word >> 24 & 1 == 1 && !is_load),
            (1 | 3, false) => Stores::Yes,
            _ => Stores::No,
        },
        2 => Stores::yes_if(!is_load),
        3 => Stores::yes_if(word >> 4 & 1 == 0 && !is_load),
        4 => Stores::yes_if(!is_load),
        6 => coprocessor(word),
        7 => Stores::perhaps_if(word >> 24 & 1 == 1),
        _ => Stores::No,
    }
}

/// Loads and stores of a coprocessor, or moves of two registers.
const fn coprocessor(word: u32) -> Stores {
    let (is_load, is_move) = (word >> 20 & 1 == 1, word & 0x0fe0_0000 == 0x0c40_0000);
    if is_load || is_move {
        return Stores::No;
    }
    match word >> 8 & 15 {
        10 | 11 => Stores::Yes,
        _ => Stores::Perhaps,
    }
}

const fn thumb_16(code: u32) -> Stores {
    match code >> 12 & 15 {
        5 => Stores::yes_if(code >> 9 & 7 < 3),
        6..=9 | 12 => Stores::yes_if(code >> 11 & 1 == 0),
        11 => Stores::yes_if(code >> 9 & 7 == 2),
        // svc.
        13 => Stores::perhaps_if(code >> 8 & 15 == 15),
        _ => Stores::No,
    }
}

const fn thumb_32(first: u32, second: u32) -> Stores {
    let is_load = first >> 4 & 1 == 1;
    match first >> 9 & 0x7f {
        // Several registers; two, exclusive ones, table branches.
        0x74 if first >> 6 & 1 == 0 => Stores::yes_if(!is_load),
        0x74 if first >> 8 & 1 == 1 || first >> 5 & 1 == 1 => Stores::yes_if(!is_load),
        0x74 => Stores::perhaps_if(!is_load),
        0x76 | 0x7e => coprocessor(first << 16 & 0x0fff_0000 | second),
        0x7c if first >> 8 & 1 == 0 => Stores::yes_if(!is_load),
        // Elements and structures of vectors.
        0x7c => Stores::yes_if(!is_load && first >> 5 & 1 == 0),
        _ => Stores::No,
    }
}

const fn mips(word: u32) -> Stores {
    match word >> 26 {
        0x28..=0x2e | 0x39 | 0x3d | 0x3f => Stores::Yes,
        // Store conditional; branches of Release 6 have the codes of coprocessor 2's stores.
        0x38 | 0x3a | 0x3c | 0x3e => Stores::Perhaps,
        0x13 => Stores::yes_if(matches!(word & 0x3f, 0x08 | 0x09 | 0x0d)),
        // MSA.
        0x1e => Stores::perhaps_if(word & 0x3c == 0x24),
        0 => Stores::perhaps_if(word & 0x3f == 0x0c),
        _ => Stores::No,
    }
}

const fn riscv(word: u32) -> Stores {
    let width = word >> 12 & 7;
    match word & 0x7f {
        0x23 => Stores::Yes,
        0x27 => match width {
            1..=4 => Stores::Yes,
            _ => Stores::Perhaps,
        },
        // All but `lr`.
        0x2f => Stores::perhaps_if(word >> 27 != 2),
        // `ecall`.
        0x73 => Stores::perhaps_if(word >> 7 == 0),
        _ => Stores::No,
    }
}

const fn riscv_16(code: u32) -> Stores {
    match (code & 3, code >> 13 & 7) {
        (0 | 2, 6 | 7) => Stores::Yes,
        // Zcb and Zcmp have the place of `c.fsd`.
        (0 | 2, 5) | (0, 4) => Stores::Perhaps,
        _ => Stores::No,
    }
}

const fn power(word: u32) -> Stores {
    match word >> 26 {
        36..=39 | 44 | 45 | 47 | 52..=55 | 62 => Stores::Yes,
        // Prefixed ones; system calls; vector and paired stores beside loads.
        1 | 17 | 6 | 61 => Stores::Perhaps,
        31 => match word >> 1 & 0x3ff {
            135
            | 140
            | 149
            | 151
            | 167
            | 181
            | 183
            | 199
            | 215
            | 231
            | 247
            | 407
            | 439
            | 487
            | 652
            | 660..=663
            | 695
            | 716
            | 725
            | 727
            | 759
            | 908
            | 918
            | 972
            | 983 => Stores::Yes,
            150 | 214 | 694 | 726 | 1014 => Stores::Perhaps,
            _ => Stores::No,
        },
        _ => Stores::No,
    }
}

const fn nios2(word: u32) -> Stores {
    match word & 0x3f {
        0x05 | 0x0d | 0x15 | 0x25 | 0x2d | 0x35 => Stores::Yes,
        // `trap`.
        0x3a => Stores::perhaps_if(word >> 11 & 0x3f == 0x2d),
        _ => Stores::No,
    }
}
