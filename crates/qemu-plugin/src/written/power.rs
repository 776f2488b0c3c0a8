//! PowerPC.

use super::{Names, Written};

pub(super) fn written(word: u32) -> Written {
    let [rd, ra] = [21, 16].map(|bit| word >> bit & 31);
    let extended = word >> 1 & 0x3ff;
    let mut names = Names::default();
    let flags = |names: &mut Names| _ = names.add("cr").add("xer");
    match word >> 26 {
        // Vectors, and the signal processing extension, which has general registers.
        4 => {
            _ = names
                .numbered("vr", [rd])
                .numbered("r", [rd])
                .add("vscr")
                .add("cr")
        }
        7 | 14 | 15 => _ = names.numbered("r", [rd]),
        8 | 12 | 13 => {
            names.numbered("r", [rd]);
            flags(&mut names);
        }
        10 | 11 => _ = names.add("cr"),
        16 => _ = names.add("lr").add("ctr"),
        18 => _ = names.add("lr"),
        // Branches to registers, and the condition register's operations.
        19 if matches!(
            extended,
            0 | 16 | 33 | 129 | 150 | 193 | 225 | 257 | 289 | 417 | 449 | 528
        ) =>
        {
            _ = names.add("cr").add("lr").add("ctr");
        }
        20..=31 if word >> 26 < 30 => {
            names.numbered("r", [ra]);
            flags(&mut names);
        }
        30 => _ = names.numbered("r", [ra]).add("cr"),
        31 => match extended {
            // Strings, which go to several registers; msr; slb and tlb.
            597 | 533 | 146 | 178 => return Written::All,
            _ => {
                names.numbered("r", [rd, ra]);
                flags(&mut names);
                // mtspr
                if extended == 467 {
                    names.add("lr").add("ctr").add("vrsave").add("msr");
                }
                if matches!(extended, 535 | 567 | 599 | 631 | 791 | 823 | 855 | 887) {
                    names.numbered("f", [rd, (rd + 1) & 31]);
                }
                if matches!(extended, 6 | 7 | 38 | 39 | 71 | 103 | 359) {
                    names.numbered("vr", [rd]);
                }
                // Vector and scalar registers are halves of each other.
                let is_vsx =
                    matches!(extended & 0x1f, 12 | 13 | 19 | 20 | 25 | 27) && extended & 3 != 1;
                if is_vsx {
                    names.numbered("f", [rd]).numbered("vr", [rd]);
                }
            }
        },
        // lmw loads the registers from the first one to the last.
        46 => _ = names.numbered("r", rd..32),
        32..=35 | 40..=43 => _ = names.numbered("r", [rd, ra]),
        36..=39 | 44 | 45 => _ = names.numbered("r", [ra]),
        47 | 54 | 52 => _ = names.numbered("r", [ra]),
        48..=51 => _ = names.numbered("f", [rd]).numbered("r", [ra]),
        53 | 55 => _ = names.numbered("r", [ra]),
        58 | 62 => _ = names.numbered("r", [rd, ra]),
        59 | 63 => _ = names.numbered("f", [rd]).add("fpscr").add("cr"),
        // sc, rfi, and the rest.
        _ => return Written::All,
    }
    names.done()
}
