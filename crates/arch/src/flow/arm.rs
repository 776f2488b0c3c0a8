//! Arm: A32, T32 and A64.

use super::{Flow, signed};

/// Whether a code has no meaning in A64: its major group is reserved.
pub(crate) const fn is_not_a64(word: u32) -> bool {
    matches!(word >> 25 & 15, 0 | 1 | 3)
}

pub(super) const fn flow_64(word: u32, address: u64) -> Flow {
    let wide = word as u64;
    if word & 0x7c00_0000 == 0x1400_0000 {
        let target = address.wrapping_add(signed(wide & 0x3ff_ffff, 26) << 2);
        return if word >> 31 == 0 {
            Flow::JUMP.to(target)
        } else {
            Flow::CALL.to(target)
        };
    }
    let short = address.wrapping_add(signed(wide >> 5 & 0x7_ffff, 19) << 2);
    // b.cond and bc.cond; the conditions 14 and 15 are always true.
    if word & 0xff00_0000 == 0x5400_0000 {
        return Flow::JUMP.to(short).conditional(word & 15 < 14);
    }
    if word & 0x7e00_0000 == 0x3400_0000 {
        return Flow::JUMP.to(short).conditional(true);
    }
    if word & 0x7e00_0000 == 0x3600_0000 {
        let target = address.wrapping_add(signed(wide >> 5 & 0x3fff, 14) << 2);
        return Flow::JUMP.to(target).conditional(true);
    }
    if word & 0xfe00_0000 == 0xd600_0000 {
        // The forms with pointer authentication have another bit set.
        return match word >> 21 & 7 {
            // `br x30` comes back too: setjmp's and longjmp's code is written so.
            0 if word >> 5 & 31 == 30 => Flow::RETURN,
            0 => Flow::JUMP,
            1 => Flow::CALL,
            2 => Flow::RETURN,
            _ => Flow::ANYWHERE,
        };
    }
    // svc, hvc, smc, brk, hlt, dcps.
    if word & 0xff00_0000 == 0xd400_0000 {
        return Flow::ANYWHERE;
    }
    Flow::NEXT
}

pub(super) const fn flow_32(word: u32, digits: u8, address: u64, is_thumb: bool) -> Option<Flow> {
    match (is_thumb, digits) {
        (true, 4) => Some(thumb_16(word as u16, address)),
        (true, 8) => Some(thumb_32((word >> 16) as u16, word as u16, address)),
        (false, 8) => Some(a32(word, address)),
        _ => None,
    }
}

const fn a32(word: u32, address: u64) -> Flow {
    let condition = word >> 28;
    let pipeline = address.wrapping_add(8);
    let branch = pipeline.wrapping_add(signed((word & 0xff_ffff) as u64, 24) << 2);
    if condition == 15 {
        // blx to Thumb code, with half a word in bit 24.
        if word & 0xfe00_0000 == 0xfa00_0000 {
            return Flow::CALL.to(branch.wrapping_add((word >> 23 & 2) as u64));
        }
        // rfe.
        if word & 0xfe50_0000 == 0xf810_0000 {
            return Flow::ANYWHERE;
        }
        return Flow::NEXT;
    }
    let (rn, rd, rm) = (word >> 16 & 15, word >> 12 & 15, word & 15);
    let flow = match word >> 25 & 7 {
        5 if word >> 24 & 1 != 0 => Flow::CALL.to(branch),
        5 => Flow::JUMP.to(branch),
        7 if word >> 24 & 1 != 0 => Flow::ANYWHERE,
        // ldm with the program counter: from the stack it is a return; with `^` one from an exception.
        4 if word >> 20 & 1 != 0 && word >> 15 & 1 != 0 => {
            if word >> 22 & 1 != 0 {
                Flow::ANYWHERE
            } else if rn == 13 {
                Flow::RETURN
            } else {
                Flow::JUMP
            }
        }
        // ldr of the program counter; media instructions have bit 4 set.
        2 | 3 if word >> 20 & 1 != 0 && rd == 15 && (word >> 25 & 1 == 0 || word >> 4 & 1 == 0) => {
            if rn == 13 {
                Flow::RETURN
            } else {
                Flow::JUMP
            }
        }
        0 | 1 => data_processing(word, rd, rm),
        _ => Flow::NEXT,
    };
    flow.conditional(flow.is_next() as u32 == 0 && condition != 14)
}

const fn data_processing(word: u32, rd: u32, rm: u32) -> Flow {
    match word & 0x0fff_fff0 {
        0x012f_ff10 | 0x012f_ff20 => return if rm == 14 { Flow::RETURN } else { Flow::JUMP },
        0x012f_ff30 => return Flow::CALL,
        // bkpt and smc have free bits.
        _ => {}
    }
    if word & 0x0ff0_00f0 == 0x0120_0070 || word & 0x0ff0_00f0 == 0x0160_0070 {
        return Flow::ANYWHERE;
    }
    let is_immediate = word >> 25 & 1 != 0;
    // Multiplications, extra loads and stores.
    if !is_immediate && word & 0x90 == 0x90 {
        return Flow::NEXT;
    }
    let operation = word >> 21 & 15;
    let sets_flags = word >> 20 & 1 != 0;
    // Comparisons have no destination; without flags they are other instructions.
    if rd != 15 || matches!(operation, 8..=11) {
        return Flow::NEXT;
    }
    if sets_flags {
        return Flow::ANYWHERE;
    }
    // mov pc, lr.
    if operation == 13 && !is_immediate && rm == 14 && word & 0xff0 == 0 {
        return Flow::RETURN;
    }
    Flow::JUMP
}

const fn thumb_16(half: u16, address: u64) -> Flow {
    let wide = half as u64;
    let pipeline = address.wrapping_add(4);
    let rm = half >> 3 & 15;
    match half >> 8 {
        0xde | 0xdf | 0xbe => return Flow::ANYWHERE,
        0xd0..=0xdd => {
            let target = pipeline.wrapping_add(signed(wide & 0xff, 8) << 1);
            return Flow::JUMP.to(target).conditional(true);
        }
        0xe0..=0xe7 => return Flow::JUMP.to(pipeline.wrapping_add(signed(wide & 0x7ff, 11) << 1)),
        // An `it` block may make these conditional: the record of a skipped one says so.
        0xbd => return Flow::RETURN,
        0x47 if half & 0x80 != 0 => return Flow::CALL,
        0x47 if rm == 14 => return Flow::RETURN,
        0x47 => return Flow::JUMP,
        0xb1 | 0xb3 | 0xb9 | 0xbb => {
            let offset = (wide >> 9 & 1) << 6 | (wide >> 3 & 31) << 1;
            return Flow::JUMP
                .to(pipeline.wrapping_add(offset))
                .conditional(true);
        }
        _ => {}
    }
    // mov and add with the program counter as the destination.
    if half & 0xff87 == 0x4687 {
        return if rm == 14 { Flow::RETURN } else { Flow::JUMP };
    }
    if half & 0xff87 == 0x4487 {
        return Flow::JUMP;
    }
    Flow::NEXT
}

const fn thumb_32(high: u16, low: u16, address: u64) -> Flow {
    let pipeline = address.wrapping_add(4);
    let (first, second) = (high as u64, low as u64);
    if high & 0xf800 == 0xf000 && low & 0x8000 != 0 {
        let sign = first >> 10 & 1;
        let offset = sign << 24
            | (!((second >> 13) ^ sign) & 1) << 23
            | (!((second >> 11) ^ sign) & 1) << 22
            | (first & 0x3ff) << 12
            | (second & 0x7ff) << 1;
        let offset = signed(offset, 25);
        return match low & 0x5000 {
            0x5000 => Flow::CALL.to(pipeline.wrapping_add(offset)),
            // blx, to a whole word of Arm code.
            0x4000 => Flow::CALL.to((pipeline & !3).wrapping_add(offset & !3)),
            0x1000 => Flow::JUMP.to(pipeline.wrapping_add(offset)),
            _ if first >> 6 & 15 < 14 => {
                let offset = sign << 20
                    | (second >> 11 & 1) << 19
                    | (second >> 13 & 1) << 18
                    | (first & 0x3f) << 12
                    | (second & 0x7ff) << 1;
                Flow::JUMP
                    .to(pipeline.wrapping_add(signed(offset, 21)))
                    .conditional(true)
            }
            // eret and subs pc, lr; hvc, smc, udf. Barriers, hints and system registers go on.
            _ if matches!(high, 0xf3de) || high & 0xffe0 == 0xf7e0 => Flow::ANYWHERE,
            _ if high & 0xfff0 == 0xf7f0 => Flow::ANYWHERE,
            _ => Flow::NEXT,
        };
    }
    let loads_counter = low & 0x8000 != 0;
    match high & 0xffd0 {
        // ldmia and ldmdb.
        0xe890 | 0xe910 if loads_counter => {
            return if high & 15 == 13 {
                Flow::RETURN
            } else {
                Flow::JUMP
            };
        }
        _ => {}
    }
    match high & 0xfff0 {
        0xf850 | 0xf8d0 if low >> 12 == 15 => {
            if high & 15 == 13 {
                Flow::RETURN
            } else {
                Flow::JUMP
            }
        }
        // tbb and tbh.
        0xe8d0 if low & 0xffe0 == 0xf000 => Flow::JUMP,
        // rfe.
        0xe810 | 0xe830 | 0xe990 | 0xe9b0 if low == 0xc000 => Flow::ANYWHERE,
        _ => Flow::NEXT,
    }
}

/// The address that an A32 or T32 instruction computes for the link register from its own address.
pub(super) const fn computed_link_32(
    word: u32,
    digits: u8,
    address: u64,
    is_thumb: bool,
) -> Option<u64> {
    if is_thumb && digits == 4 {
        // mov lr, pc.
        return if word == 0x46fe {
            Some(address.wrapping_add(4))
        } else {
            None
        };
    }
    if is_thumb {
        // adr.w lr.
        let base = address.wrapping_add(4) & !3;
        let offset = (word >> 26 & 1) << 11 | (word >> 12 & 7) << 8 | word & 0xff;
        return match word & 0xfbff_8f00 {
            0xf20f_0e00 => Some(base.wrapping_add(offset as u64)),
            0xf2af_0e00 => Some(base.wrapping_sub(offset as u64)),
            _ => None,
        };
    }
    let base = address.wrapping_add(8);
    // mov lr, pc; add and sub lr, pc, #n.
    if word & 0x0fff_ffff == 0x01a0_e00f {
        return Some(base);
    }
    let offset = (word & 0xff).rotate_right((word >> 8 & 15) * 2) as u64;
    match word & 0x0fff_f000 {
        0x028f_e000 => Some(base.wrapping_add(offset)),
        0x024f_e000 => Some(base.wrapping_sub(offset)),
        _ => None,
    }
}

/// The same of an A64 instruction: `adr x30`.
pub(super) const fn computed_link_64(word: u32, address: u64) -> Option<u64> {
    if word & 0x9f00_001f != 0x1000_001e {
        return None;
    }
    let offset = (word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3;
    Some(address.wrapping_add(signed(offset as u64, 21)))
}
