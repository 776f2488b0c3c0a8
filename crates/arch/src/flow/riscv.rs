//! RISC-V, the compressed instructions too.

use super::{Flow, signed};

/// A register that holds return addresses by convention, `ra` or `t0`.
const fn is_link(register: u32) -> bool {
    register == 1 || register == 5
}

pub(super) const fn flow(word: u32, address: u64) -> Flow {
    let wide = word as u64;
    let (rd, rs1) = (word >> 7 & 31, word >> 15 & 31);
    match word & 0x7f {
        0x6f => {
            let offset = (wide >> 31 & 1) << 20
                | (wide >> 12 & 0xff) << 12
                | (wide >> 20 & 1) << 11
                | (wide >> 21 & 0x3ff) << 1;
            let target = address.wrapping_add(signed(offset, 21));
            if is_link(rd) {
                Flow::CALL.to(target)
            } else {
                Flow::JUMP.to(target)
            }
        }
        0x67 if is_link(rd) => Flow::CALL,
        0x67 if is_link(rs1) => Flow::RETURN,
        0x67 => Flow::JUMP,
        0x63 => {
            let offset = (wide >> 31 & 1) << 12
                | (wide >> 7 & 1) << 11
                | (wide >> 25 & 0x3f) << 5
                | (wide >> 8 & 0xf) << 1;
            let target = address.wrapping_add(signed(offset, 13));
            Flow::JUMP.to(target).conditional(true)
        }
        // ecall, ebreak, uret, sret, mret, mnret, dret.
        0x73 if word >> 12 & 7 == 0 => match word >> 20 {
            0 | 1 | 2 | 0x102 | 0x302 | 0x702 | 0x7b2 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        },
        _ => Flow::NEXT,
    }
}

pub(super) const fn flow_16(half: u16, address: u64, is_32: bool) -> Flow {
    let wide = half as u64;
    let rs1 = (half >> 7 & 31) as u32;
    let jump = {
        let offset = (wide >> 12 & 1) << 11
            | (wide >> 8 & 1) << 10
            | (wide >> 9 & 3) << 8
            | (wide >> 6 & 1) << 7
            | (wide >> 7 & 1) << 6
            | (wide >> 2 & 1) << 5
            | (wide >> 11 & 1) << 4
            | (wide >> 3 & 7) << 1;
        address.wrapping_add(signed(offset, 12))
    };
    match (half & 3, half >> 13) {
        (1, 5) => Flow::JUMP.to(jump),
        (1, 1) if is_32 => Flow::CALL.to(jump),
        (1, 6 | 7) => {
            let offset = (wide >> 12 & 1) << 8
                | (wide >> 5 & 3) << 6
                | (wide >> 2 & 1) << 5
                | (wide >> 10 & 3) << 3
                | (wide >> 3 & 3) << 1;
            let target = address.wrapping_add(signed(offset, 9));
            Flow::JUMP.to(target).conditional(true)
        }
        (2, 4) if half >> 2 & 31 == 0 => match (half >> 12 & 1, rs1) {
            (0, 0) => Flow::NEXT,
            (0, rs1) if is_link(rs1) => Flow::RETURN,
            (0, _) => Flow::JUMP,
            // c.ebreak.
            (_, 0) => Flow::ANYWHERE,
            _ => Flow::CALL,
        },
        _ => Flow::NEXT,
    }
}
