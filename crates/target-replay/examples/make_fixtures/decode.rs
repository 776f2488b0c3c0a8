//! The memory accesses of an instruction: the loads and stores that a compiler makes of the program.

use super::Machine;

/// An access: whether it writes, its address, its size in bytes.
pub type Access = (bool, u64, u64);

/// The general registers of a moment, by number, the program counter, and the flags where the machine has them.
pub struct Moment<'a> {
    pub registers: &'a [u64],
    pub pc: u64,
    pub flags: u64,
}

/// Bits `high` to `low` of a word.
fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & (u32::MAX >> (31 - (high - low)))
}

fn signed(value: u32, width: u32) -> u64 {
    i64::from((value << (32 - width)).cast_signed() >> (32 - width)).cast_unsigned()
}

/// Whether the instruction is executed (Arm's conditions), and its accesses.
pub fn accesses(machine: &Machine, word: u32, moment: &Moment<'_>) -> (bool, Vec<Access>) {
    match machine.name {
        "mips" | "mipsel" => (true, mips(word, moment, machine.name == "mips")),
        "arm" => arm(word, moment),
        "aarch64" => (true, aarch64(word, moment)),
        "riscv32" | "riscv64" => (true, riscv(word, moment, machine.word)),
        "ppc" => (true, power(word, moment)),
        name => panic!("no decoder for {name}"),
    }
}

fn mips(word: u32, moment: &Moment<'_>, big: bool) -> Vec<Access> {
    let base = moment.registers[bits(word, 25, 21) as usize];
    let address = base.wrapping_add(signed(word, 16)) & 0xffff_ffff;
    let (from_here, to_here) = (
        (address, 4 - (address & 3)),
        (address & !3, (address & 3) + 1),
    );
    let (left, right) = if big {
        (from_here, to_here)
    } else {
        (to_here, from_here)
    };
    let (write, (address, size)) = match bits(word, 31, 26) {
        0x20 | 0x24 => (false, (address, 1)),
        0x21 | 0x25 => (false, (address, 2)),
        0x22 => (false, left),
        0x23 => (false, (address, 4)),
        0x26 => (false, right),
        0x28 => (true, (address, 1)),
        0x29 => (true, (address, 2)),
        0x2a => (true, left),
        0x2b => (true, (address, 4)),
        0x2e => (true, right),
        _ => return Vec::new(),
    };
    vec![(write, address, size)]
}

fn arm(word: u32, moment: &Moment<'_>) -> (bool, Vec<Access>) {
    let flag = |bit: u32| moment.flags >> bit & 1 == 1;
    let (n, z, c, v) = (flag(31), flag(30), flag(29), flag(28));
    let holds = match bits(word, 31, 29) {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => true,
    };
    let condition = bits(word, 31, 28);
    if condition < 14 && holds == (condition & 1 == 1) {
        return (false, Vec::new());
    }
    let register = |number: u32| match number {
        15 => moment.pc + 8,
        number => moment.registers[number as usize],
    };
    let place = |offset: u64| {
        let base = register(bits(word, 19, 16));
        let moved = if bits(word, 23, 23) == 1 {
            base.wrapping_add(offset)
        } else {
            base.wrapping_sub(offset)
        };
        (if bits(word, 24, 24) == 1 { moved } else { base }) & 0xffff_ffff
    };
    let load = bits(word, 20, 20) == 1;
    let accesses = match bits(word, 27, 25) {
        2 | 3 if bits(word, 25, 25) == 0 || bits(word, 4, 4) == 0 => {
            let offset = if bits(word, 25, 25) == 0 {
                u64::from(bits(word, 11, 0))
            } else {
                let value = register(bits(word, 3, 0)) as u32;
                let by = bits(word, 11, 7);
                u64::from(match bits(word, 6, 5) {
                    0 => value << by,
                    1 => value.checked_shr(by).filter(|_| by > 0).unwrap_or(0),
                    2 => (value.cast_signed() >> if by == 0 { 31 } else { by }).cast_unsigned(),
                    _ => value.rotate_right(by),
                })
            };
            let size = if bits(word, 22, 22) == 1 { 1 } else { 4 };
            vec![(!load, place(offset), size)]
        }
        0 if bits(word, 7, 7) == 1 && bits(word, 4, 4) == 1 && bits(word, 6, 5) != 0 => {
            let offset = if bits(word, 22, 22) == 1 {
                u64::from(bits(word, 11, 8) << 4 | bits(word, 3, 0))
            } else {
                register(bits(word, 3, 0))
            };
            match (bits(word, 6, 5), load) {
                (1, _) => vec![(!load, place(offset), 2)],
                (2, true) => vec![(false, place(offset), 1)],
                (3, true) => vec![(false, place(offset), 2)],
                (kind, _) => vec![
                    (kind == 3, place(offset), 4),
                    (kind == 3, place(offset) + 4, 4),
                ],
            }
        }
        4 => {
            let count = u64::from(bits(word, 15, 0).count_ones());
            let base = register(bits(word, 19, 16));
            let start = match (bits(word, 24, 24), bits(word, 23, 23)) {
                (0, 1) => base,
                (1, 1) => base + 4,
                (0, 0) => base - 4 * count + 4,
                _ => base - 4 * count,
            };
            (0..count)
                .map(|index| (!load, start + 4 * index, 4))
                .collect()
        }
        _ => Vec::new(),
    };
    (true, accesses)
}

fn aarch64(word: u32, moment: &Moment<'_>) -> Vec<Access> {
    if bits(word, 27, 27) == 0 || bits(word, 25, 25) == 1 || bits(word, 26, 26) == 1 {
        return Vec::new();
    }
    let base = moment.registers[bits(word, 9, 5) as usize];
    match bits(word, 29, 27) {
        3 if bits(word, 24, 24) == 0 => {
            let size = if bits(word, 31, 30) == 1 { 8 } else { 4 };
            let address = moment.pc.wrapping_add(signed(bits(word, 23, 5), 19) << 2);
            vec![(false, address, size)]
        }
        5 => {
            let size = if bits(word, 31, 30) == 2 { 8 } else { 4 };
            let offset = signed(bits(word, 21, 15), 7).wrapping_mul(size);
            let post = bits(word, 24, 23) == 1;
            let address = if post {
                base
            } else {
                base.wrapping_add(offset)
            };
            let write = bits(word, 22, 22) == 0;
            vec![(write, address, size), (write, address + size, size)]
        }
        7 => {
            let scale = bits(word, 31, 30);
            let size = 1 << scale;
            let write = bits(word, 23, 22) == 0;
            if scale == 3 && bits(word, 23, 22) == 2 {
                return Vec::new();
            }
            let address = if bits(word, 24, 24) == 1 {
                base.wrapping_add(u64::from(bits(word, 21, 10)) << scale)
            } else if bits(word, 21, 21) == 0 {
                let offset = signed(bits(word, 20, 12), 9);
                let post = bits(word, 11, 10) == 1;
                if post {
                    base
                } else {
                    base.wrapping_add(offset)
                }
            } else {
                let index = match bits(word, 20, 16) {
                    31 => 0,
                    number => moment.registers[number as usize],
                };
                let index = match bits(word, 15, 13) {
                    2 => index & 0xffff_ffff,
                    6 => signed(index as u32, 32),
                    _ => index,
                };
                base.wrapping_add(index << if bits(word, 12, 12) == 1 { scale } else { 0 })
            };
            vec![(write, address, size)]
        }
        _ => Vec::new(),
    }
}

fn riscv(word: u32, moment: &Moment<'_>, width: usize) -> Vec<Access> {
    let base = moment.registers[bits(word, 19, 15) as usize];
    let size = 1 << (bits(word, 14, 12) & 3);
    let (write, offset) = match bits(word, 6, 0) {
        0x03 => (false, signed(bits(word, 31, 20), 12)),
        0x23 => (
            true,
            signed(bits(word, 31, 25) << 5 | bits(word, 11, 7), 12),
        ),
        _ => return Vec::new(),
    };
    let address = base.wrapping_add(offset);
    vec![(
        write,
        if width == 4 {
            address & 0xffff_ffff
        } else {
            address
        },
        size,
    )]
}

fn power(word: u32, moment: &Moment<'_>) -> Vec<Access> {
    let register = |number: u32| moment.registers[number as usize];
    let base = match bits(word, 20, 16) {
        0 => 0,
        number => register(number),
    };
    let offset = signed(word, 16);
    let indexed = register(bits(word, 15, 11));
    let (write, size, offset) = match (bits(word, 31, 26), bits(word, 10, 1)) {
        (32 | 33, _) => (false, 4, offset),
        (34 | 35, _) => (false, 1, offset),
        (36 | 37, _) => (true, 4, offset),
        (38 | 39, _) => (true, 1, offset),
        (40..=43, _) => (false, 2, offset),
        (44 | 45, _) => (true, 2, offset),
        (opcode @ (46 | 47), _) => {
            let start = base.wrapping_add(offset) & 0xffff_ffff;
            let count = 32 - u64::from(bits(word, 25, 21));
            return (0..count)
                .map(|index| (opcode == 47, start + 4 * index, 4))
                .collect();
        }
        (31, 23 | 55 | 534) => (false, 4, indexed),
        (31, 87 | 119) => (false, 1, indexed),
        (31, 151 | 183 | 662) => (true, 4, indexed),
        (31, 215 | 247) => (true, 1, indexed),
        (31, 279 | 311 | 343 | 375 | 790) => (false, 2, indexed),
        (31, 407 | 439 | 918) => (true, 2, indexed),
        _ => return Vec::new(),
    };
    vec![(write, base.wrapping_add(offset) & 0xffff_ffff, size)]
}
