//! A64.

use super::{Names, Written};

/// A general register where a number means the stack pointer or no register.
fn general(names: &mut Names, number: u32) {
    match number & 31 {
        31 => names.add("sp"),
        number => names.numbered("x", [number]),
    };
}

pub(super) fn written(word: u32) -> Written {
    let [rd, rn, rt2, rs] = [0, 5, 10, 16].map(|bit| word >> bit & 31);
    let mut names = Names::default();
    match word >> 25 & 15 {
        // Data processing: immediate, register.
        0b1000 | 0b1001 | 0b0101 | 0b1101 => {
            general(&mut names, rd);
            // Whether the flags are set; few others have this bit.
            if word >> 29 & 1 == 1 {
                names.add("cpsr");
            }
        }
        0b1010 | 0b1011 => {
            // b, cbz, tbz, b.cond: they write nothing.
            let is_plain = word & 0xfc00_0000 == 0x1400_0000
                || matches!(word >> 25 & 0x3f, 0b01_1010 | 0b01_1011)
                || word & 0xfe00_0000 == 0x5400_0000;
            if is_plain {
                return Written::none();
            }
            // svc, hvc, smc, brk; eret and drps, which may also change the bank of the stack pointer.
            if word >> 24 == 0xd4 || word & 0xffd0_0000 == 0xd690_0000 {
                return Written::All;
            }
            // bl; br, blr, ret.
            if word >> 26 == 0b10_0101 || word >> 25 == 0b110_1011 {
                return names.numbered("x", [30]).done();
            }
            // Hints that sign x30 or x17; mrs; msr of flags, of the stack pointer's bank.
            general(&mut names, rd);
            names.numbered("x", [16, 17, 30]);
            for name in ["sp", "cpsr", "fpcr", "fpsr"] {
                names.add(name);
            }
        }
        0b0100 | 0b1100 | 0b0110 | 0b1110 => return memory(word, [rd, rn, rt2, rs]),
        // Floating point and vectors.
        0b0111 | 0b1111 => {
            general(&mut names, rd);
            names.numbered("v", [rd]).add("fpsr").add("cpsr");
        }
        _ => return Written::All,
    }
    names.done()
}

fn memory(word: u32, [rt, rn, rt2, rs]: [u32; 4]) -> Written {
    let mut names = Names::default();
    let is_vector = word >> 26 & 1 == 1;
    // ld64b loads eight registers.
    if word & 0xffff_fc00 == 0xf83f_d000 {
        return Written::All;
    }
    match (word >> 27 & 7, word >> 24 & 3) {
        // An unsigned offset, without write-back; the opcode 0 is a store.
        (0b111, 0b01) if !is_vector => {
            if word >> 22 & 3 != 0 {
                general(&mut names, rt);
            }
        }
        // ldr of a literal.
        (0b011, 0b00) if !is_vector => general(&mut names, rt),
        // Pairs, with or without write-back.
        (0b101, _) if !is_vector => {
            if word >> 22 & 1 == 1 {
                general(&mut names, rt);
                general(&mut names, rt2);
            }
            if word >> 23 & 1 == 1 {
                general(&mut names, rn);
            }
        }
        _ if is_vector => {
            let mut last = rt;
            for _ in 0..4 {
                names.numbered("v", [last]);
                last = (last + 1) & 31;
            }
            names.numbered("v", [rt2]);
            general(&mut names, rn);
        }
        // Exclusive and atomic operations, indexes, tags, copies.
        _ => {
            for number in [rt, rt + 1, rn, rt2, rs, rs + 1] {
                general(&mut names, number);
            }
            names.add("cpsr");
        }
    }
    names.done()
}
