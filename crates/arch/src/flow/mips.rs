//! MIPS I to MIPS64 release 5.

use super::{DelaySlot, Flow, signed};

pub(super) const fn flow(word: u32, address: u64) -> Flow {
    let (rs, rt) = (word >> 21 & 31, word >> 16 & 31);
    let delay = address.wrapping_add(4);
    let branch_target = delay.wrapping_add(signed((word & 0xffff) as u64, 16) << 2);
    let jump_target = delay & !0xfff_ffff | ((word & 0x3ff_ffff) as u64) << 2;
    let jump = Flow::JUMP.delayed(DelaySlot::Always);
    let call = Flow::CALL.delayed(DelaySlot::Always);
    let branch = jump.to(branch_target).conditional(true);
    let likely = branch.delayed(DelaySlot::IfTaken);
    match word >> 26 {
        0 => match word & 63 {
            // jr, and jalr that keeps no return address.
            8 if rs == 31 => Flow::RETURN.delayed(DelaySlot::Always),
            8 => jump,
            9 if word >> 11 & 31 == 0 && rs == 31 => Flow::RETURN.delayed(DelaySlot::Always),
            9 if word >> 11 & 31 == 0 => jump,
            9 => call,
            // syscall, break, and traps on a condition.
            0x0c | 0x0d | 0x30..=0x34 | 0x36 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        },
        1 => match rt {
            0 | 1 => branch,
            2 | 3 => likely,
            // bgezal of zero is always taken.
            0x11 if rs == 0 => call.to(branch_target),
            0x10 | 0x11 => call.to(branch_target).conditional(true),
            0x12 | 0x13 => call
                .to(branch_target)
                .conditional(true)
                .delayed(DelaySlot::IfTaken),
            8..=12 | 14 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        },
        2 => jump.to(jump_target),
        3 => call.to(jump_target),
        // jalx: to the other instruction set.
        0x1d => call.to(jump_target | 1),
        4 if rs == rt => jump.to(branch_target),
        4..=7 => branch,
        0x14..=0x17 => likely,
        // Branches on coprocessors' conditions.
        0x11 | 0x12 if rs == 8 => {
            if rt & 2 == 0 {
                branch
            } else {
                likely
            }
        }
        // eret, deret and what else changes the processor's state.
        0x10 if rs >= 16 && matches!(word & 63, 0x18 | 0x1f) => Flow::ANYWHERE,
        _ => Flow::NEXT,
    }
}
