//! A32 and T32.

use super::{Names, Written};

fn general(names: &mut Names, number: u32) {
    match number & 15 {
        13 => names.add("sp"),
        14 => names.add("lr"),
        // The program counter is in each instruction's line.
        15 => names,
        number => names.numbered("r", [number]),
    };
}

fn list(names: &mut Names, registers: u32) {
    for number in (0..16).filter(|number| registers >> number & 1 == 1) {
        general(names, number);
    }
}

/// The registers that coprocessor instructions, floating point and vectors write.
fn coprocessor(names: &mut Names, word: u32) {
    let number = word >> 12 & 15;
    // Operations on one register, and vldr: the number of a single-precision one has its lowest bit in another place.
    let is_single = word & 0x0f00_0e10 == 0x0e00_0a00 || word & 0x0f30_0e00 == 0x0d10_0a00;
    if is_single {
        names.numbered("d", [number >> 1, number, number + 16]);
    } else {
        names.numbered("d", 0..32);
    }
    general(names, number);
    general(names, word >> 16 & 15);
    names.add("fpscr").add("cpsr");
}

/// An instruction of A32.
pub(super) fn a32(word: u32) -> Written {
    let mut names = Names::default();
    let [rn, rd] = [16, 12].map(|bit| word >> bit & 15);
    if word >> 28 == 15 {
        return match word >> 25 & 7 {
            // blx
            5 => names.add("lr").add("cpsr").done(),
            // Vectors: operations; loads and stores.
            1 | 2 if word >> 24 & 1 == 1 || word >> 25 & 7 == 1 || word >> 20 & 1 == 0 => {
                coprocessor(&mut names, word);
                general(&mut names, word & 15);
                names.done()
            }
            // Preloads.
            2 | 3 => names.done(),
            6 | 7 => {
                coprocessor(&mut names, word);
                names.done()
            }
            // Changes of the processor's state.
            _ => Written::All,
        };
    }
    match word >> 25 & 7 {
        0 | 1 => {
            // Hints.
            if word & 0x0fff_f000 == 0x0320_f000 {
                return names.done();
            }
            // msr, and an operation to the program counter, which may be a return from an exception.
            let is_msr = word & 0x0db0_f000 == 0x0120_f000;
            let returns = rd == 15 && word >> 20 & 1 == 1 && word >> 23 & 3 != 2;
            // hvc, smc, bkpt, eret.
            let is_special = word & 0x0f90_0060 == 0x0100_0060 && word >> 21 & 3 != 0
                || word & 0x0fff_fff0 == 0x0160_0060;
            if is_msr || returns || (is_special && word >> 7 & 1 == 0) {
                return Written::All;
            }
            // Products and extra loads have other fields, and an index may be written back.
            let is_extra = word >> 25 & 7 == 0 && word & 0x90 == 0x90;
            general(&mut names, rd);
            if is_extra {
                general(&mut names, rd + 1);
                general(&mut names, rn);
            }
            // blx
            if word & 0x0fff_fff0 == 0x012f_ff30 {
                names.add("lr");
            }
            // Operations that leave the flags, and movw, movt; not those of the miscellaneous group, some of which saturate.
            let is_miscellaneous =
                word >> 25 & 7 == 0 && word >> 23 & 3 == 2 && word >> 20 & 1 == 0;
            if word >> 20 & 1 == 1 || is_miscellaneous {
                names.add("cpsr");
            }
            // Products of halves.
            if is_miscellaneous && word >> 7 & 1 == 1 {
                general(&mut names, rn);
            }
        }
        2 | 3 => {
            let is_media = word >> 25 & 7 == 3 && word >> 4 & 1 == 1;
            // A load, an operation of the media group, an index that is written back.
            if is_media || word >> 20 & 1 == 1 {
                general(&mut names, rd);
            }
            if is_media || word >> 21 & 1 == 1 || word >> 24 & 1 == 0 {
                general(&mut names, rn);
            }
            if is_media {
                names.add("cpsr");
            }
        }
        4 => {
            // With the banks of another mode, or a return from an exception.
            if word >> 22 & 1 == 1 {
                return Written::All;
            }
            general(&mut names, rn);
            if word >> 20 & 1 == 1 {
                list(&mut names, word & 0xffff);
                names.add("cpsr");
            }
        }
        5 => {
            if word >> 24 & 1 == 1 {
                names.add("lr");
            }
        }
        6 => coprocessor(&mut names, word),
        _ if word >> 24 & 1 == 1 => return Written::All,
        _ => coprocessor(&mut names, word),
    }
    names.done()
}

/// The flags, which the M profile has in another register.
fn flags(names: &mut Names) -> &mut Names {
    names.add("cpsr").add("xpsr")
}

/// An instruction of T32 of two bytes.
pub(super) fn thumb_16(half: u16) -> Written {
    let half = u32::from(half);
    let mut names = Names::default();
    let [low, high] = [half & 7, half >> 8 & 7];
    match half >> 11 {
        0..=3 | 10..=17 => general(&mut names, low),
        4..=7 | 9 | 18..=21 => general(&mut names, high),
        8 => {
            general(&mut names, low);
            general(&mut names, half >> 4 & 8 | low);
            names.add("lr");
        }
        // Adjustments of the stack pointer, pop, it, cps, and others.
        22 | 23 => {
            general(&mut names, low);
            list(&mut names, half & 0xff);
            names.add("sp");
        }
        24 => general(&mut names, high),
        25 => {
            general(&mut names, high);
            list(&mut names, half & 0xff);
        }
        // svc
        27 if half >> 8 == 0xdf => return Written::All,
        26..=28 => {}
        _ => return Written::All,
    }
    flags(&mut names).done()
}

/// Whether the first half of a code of four bytes can be that of an instruction of T32: others have two bytes.
pub(super) fn is_thumb_32(first: u16) -> bool {
    first >> 11 >= 0b11101
}

/// An instruction of T32 of four bytes, by its halves.
pub(super) fn thumb_32(first: u16, second: u16) -> Written {
    let (first, second) = (u32::from(first), u32::from(second));
    let mut names = Names::default();
    let rn = first & 15;
    // msr, cps, hints, returns from exceptions, hvc, smc.
    let is_special = first & 0xf800 == 0xf000
        && second & 0xd000 == 0x8000
        && matches!(first >> 4 & 0x7f, 0x38..=0x3f | 0x7e | 0x7f);
    let is_rfe = matches!(first & 0xffd0, 0xe810 | 0xe990);
    if is_special || is_rfe {
        return Written::All;
    }
    if first & 0xfe40 == 0xe800 {
        general(&mut names, rn);
        if first >> 4 & 1 == 1 {
            list(&mut names, second);
        }
        return flags(&mut names).done();
    }
    if first & 0xec00 == 0xec00 || first & 0xff10 == 0xf900 {
        // The same fields as in A32.
        names.numbered("d", 0..32).add("fpscr");
    }
    for number in [rn, second >> 12, second >> 8, second] {
        general(&mut names, number);
    }
    flags(names.add("lr")).done()
}
