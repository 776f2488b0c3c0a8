//! RISC-V: the destination is in the same bits of almost all instructions.

use super::{Names, Written};

const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];
const FLOATS: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

fn general(names: &mut Names, number: u32) {
    // x0 does not change.
    if number != 0 {
        names.add(NAMES[number as usize & 31]);
    }
}

fn float(names: &mut Names, number: u32) {
    names.add(FLOATS[number as usize & 31]);
}

/// The registers that floating point operations and writes to its csrs change.
fn flags(names: &mut Names) {
    names.add("fflags").add("frm").add("fcsr");
}

pub(super) fn written(word: u32) -> Written {
    let destination = word >> 7 & 31;
    let mut names = Names::default();
    match word & 0x7f {
        // Stores, branches, fences; stores of floating point or vector registers.
        0x23 | 0x63 | 0x0f | 0x27 => {}
        // Loads, operations, lui, auipc, jumps, atomic operations.
        0x03 | 0x13 | 0x1b | 0x17 | 0x33 | 0x3b | 0x37 | 0x67 | 0x6f | 0x2f => {
            general(&mut names, destination);
        }
        0x07 => float(&mut names, destination),
        0x43 | 0x47 | 0x4b | 0x4f => {
            float(&mut names, destination);
            flags(&mut names);
        }
        // Some of the floating point and vector operations write a general register.
        0x53 | 0x57 => {
            general(&mut names, destination);
            float(&mut names, destination);
            flags(&mut names);
        }
        // Instructions for csrs, and `ecall`, `ebreak`, `mret` and the like, which change only csrs.
        0x73 => {
            general(&mut names, destination);
            flags(&mut names);
        }
        _ => return Written::All,
    }
    names.done()
}

pub(super) fn compressed(half: u16) -> Written {
    let half = u32::from(half);
    let mut names = Names::default();
    let destination = half >> 7 & 31;
    match (half & 3, half >> 13) {
        // c.addi4spn, loads; c.lbu and c.lhu.
        (0, 0..=4) => {
            general(&mut names, 8 + (half >> 2 & 7));
            float(&mut names, 8 + (half >> 2 & 7));
        }
        (0, _) | (1, 5..=7) | (2, 6 | 7) => {}
        // c.addi, c.addiw or the c.jal of 32 bits, c.li, c.lui, c.addi16sp.
        (1, 0..=3) => {
            general(&mut names, destination);
            general(&mut names, 1);
        }
        (1, _) => general(&mut names, 8 + (half >> 7 & 7)),
        // c.slli, loads from the stack, c.mv, c.add, c.jalr.
        (2, 0..=4) => {
            general(&mut names, destination);
            float(&mut names, destination);
            general(&mut names, 1);
        }
        // cm.push and cm.pop share their code with c.fsdsp.
        _ => return Written::All,
    }
    names.done()
}
