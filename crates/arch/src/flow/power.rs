//! PowerPC and Nios II.

use super::{Flow, signed};

pub(super) const fn flow(word: u32, address: u64) -> Flow {
    let links = word & 1 != 0;
    let base = if word & 2 != 0 { 0 } else { address };
    let is_always = word >> 21 & 0x14 == 0x14;
    match word >> 26 {
        18 => {
            let target = base.wrapping_add(signed((word & 0x3ff_fffc) as u64, 26));
            if links {
                Flow::CALL.to(target)
            } else {
                Flow::JUMP.to(target)
            }
        }
        16 => {
            let target = base.wrapping_add(signed((word & 0xfffc) as u64, 16));
            // The idiom to read the instruction's own address links too, and calls nothing.
            if links && target != address.wrapping_add(4) {
                Flow::CALL.to(target).conditional(!is_always)
            } else {
                Flow::JUMP.to(target).conditional(!is_always)
            }
        }
        19 => match word >> 1 & 0x3ff {
            16 if links => Flow::CALL.conditional(!is_always),
            16 => Flow::RETURN.conditional(!is_always),
            528 | 560 if links => Flow::CALL.conditional(!is_always),
            528 | 560 => Flow::JUMP.conditional(!is_always),
            // rfi, rfid, rfmci, rfci, hrfid, rfdi, rfgi, rfscv.
            50 | 18 | 38 | 51 | 274 | 39 | 102 | 82 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        },
        // sc, and traps on a condition.
        17 | 2 | 3 => Flow::ANYWHERE,
        31 if matches!(word >> 1 & 0x3ff, 4 | 68) => Flow::ANYWHERE,
        _ => Flow::NEXT,
    }
}

pub(super) const fn nios2_flow(word: u32, address: u64) -> Flow {
    let next = address.wrapping_add(4);
    let branch = next.wrapping_add(signed((word >> 6 & 0xffff) as u64, 16));
    let jump = address & 0xf000_0000 | ((word >> 6) as u64) << 2;
    match word & 0x3f {
        0x00 => Flow::CALL.to(jump),
        0x01 => Flow::JUMP.to(jump),
        0x06 => Flow::JUMP.to(branch),
        0x0e | 0x16 | 0x1e | 0x26 | 0x2e | 0x36 => Flow::JUMP.to(branch).conditional(true),
        0x3a => match word >> 11 & 0x3f {
            0x05 => Flow::RETURN,
            0x0d => Flow::JUMP,
            0x1d => Flow::CALL,
            // eret, bret, trap, break.
            0x01 | 0x09 | 0x2d | 0x34 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        },
        _ => Flow::NEXT,
    }
}
