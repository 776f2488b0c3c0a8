//! MIPS, with instructions of 32 bits. Their codes do not distinguish them from those of MIPS16 and microMIPS: a machine that
//! executes one of 16 bits has all its registers compared.

use super::{Names, Written};

pub(super) fn written(word: u32) -> Written {
    let [rt, rd, fd] = [16, 11, 6].map(|bit| word >> bit & 31);
    let mut names = Names::default();
    match word >> 26 {
        // Operations: products go to hi and lo.
        0x00 => {
            // syscall, break.
            if matches!(word & 0x3f, 0x0c | 0x0d) {
                return Written::All;
            }
            names.numbered("r", [rd]).add("hi").add("lo");
        }
        // Branches, some of which call; jal.
        0x01 | 0x03 => _ = names.numbered("r", [31]),
        0x02 | 0x04..=0x07 | 0x14..=0x17 => {}
        // Stores, cache, prefetches.
        0x28..=0x2b | 0x2c..=0x2f | 0x33 | 0x39 | 0x3a | 0x3d..=0x3f => {}
        0x08..=0x0f | 0x18..=0x1b | 0x20..=0x27 | 0x30 | 0x34 | 0x37 | 0x38 | 0x3c => {
            names.numbered("r", [rt]);
        }
        // The system's registers; a return from an exception.
        0x10 => {
            names.numbered("r", [rt, rd]);
            for name in ["status", "cause", "badvaddr"] {
                names.add(name);
            }
        }
        // Floating point: a double is two registers of the older sets.
        0x11 | 0x13 | 0x31 | 0x35 => {
            for number in [rt, rd, fd] {
                names.numbered("f", [number, number ^ 1]);
            }
            names.numbered("r", [rt]).add("fcsr").add("status");
        }
        0x1c | 0x1f => _ = names.numbered("r", [rd, rt]).add("hi").add("lo"),
        _ => return Written::All,
    }
    names.done()
}
