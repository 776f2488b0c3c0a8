//! Prologues of x86-64.

use super::Code;

/// The address after `push %rbp; mov %rsp,%rbp`, with its possible prefixes; `None` if there is no such frame set-up. GDB's
/// `amd64_analyze_prologue`.
pub(crate) fn prologue_end(code: Code<'_>, start: u64) -> Option<u64> {
    let mut at = stack_alignment(code, start).unwrap_or(start);
    if code.has(at, &[0xf3, 0x0f, 0x1e, 0xfa]) {
        at = at.checked_add(4)?;
    }
    if code.byte(at)? != 0x55 {
        return None;
    }
    let next = at.checked_add(1)?;
    let sets_frame = code.has(next, &[0x48, 0x89, 0xe5]) || code.has(next, &[0x48, 0x8b, 0xec]);
    sets_frame.then(|| at.wrapping_add(4))
}

/// Past the alignment of the stack that may precede a frame: `lea 8(%rsp),%reg; and $-N,%rsp; push -8(%reg)`,
/// the register saved first in the other form. GDB's `amd64_analyze_stack_align`.
fn stack_alignment(code: Code<'_>, start: u64) -> Option<u64> {
    let bytes: [u8; 18] = code.bytes(start)?;
    let at = |index: usize| bytes.get(index).copied();
    let high = |prefix: u8, bit: u8| if prefix & bit != 0 { 8 } else { 0 };
    let (register, mut offset) =
        if at(0)? & 0xfb == 0x48 && at(1)? == 0x8d && at(3)? == 0x24 && at(4)? == 0x08 {
            if at(2)? & 0xc7 != 0x44 {
                return None;
            }
            (((at(2)? >> 3) & 7) + high(at(0)?, 4), 5)
        } else {
            let (extension, offset) = if at(0)? & 0xf8 == 0x50 {
                (0, 0)
            } else if at(0)? & 0xf6 == 0x40 && at(1)? & 0xf8 == 0x50 {
                (high(at(0)?, 1), 1)
            } else {
                return None;
            };
            let register = (at(offset)? & 7) + extension;
            let lea = offset + 1;
            if at(lea)? & 0xfb != 0x48
                || at(lea + 1)? != 0x8d
                || at(lea + 3)? != 0x24
                || at(lea + 4)? != 0x10
                || at(lea + 2)? & 0xc7 != 0x44
                || ((at(lea + 2)? >> 3) & 7) + high(at(lea)?, 4) != register
            {
                return None;
            }
            (register, lea + 5)
        };
    if register == 4 || register == 5 {
        return None;
    }
    if at(offset)? != 0x48 || at(offset + 2)? != 0xe4 {
        return None;
    }
    offset += match at(offset + 1)? {
        0x81 => 7,
        0x83 => 4,
        _ => return None,
    };
    let mut pushed = 0;
    if at(offset)? == 0xff {
        offset += 1;
    } else if at(offset)? & 0xf6 == 0x40 && at(offset + 1)? == 0xff {
        pushed = high(at(offset)?, 1);
        offset += 2;
    } else {
        return None;
    }
    if at(offset + 1)? != 0xf8
        || at(offset)? & 0xf8 != 0x70
        || pushed + (at(offset)? & 7) != register
    {
        return None;
    }
    start.checked_add(offset as u64 + 2)
}

/// Whether `test %al,%al; je …` and the saving of all eight vector registers are at an address.
pub(crate) fn saves_vectors(code: Code<'_>, start: u64) -> bool {
    let check = || {
        let bytes: [u8; 60] = code.bytes(start)?;
        let at = |index: usize| bytes.get(index).copied();
        if bytes.get(..3)? != [0x84, 0xc0, 0x74] {
            return None;
        }
        let mut offset = 4;
        for register in 0..8u8 {
            let form = at(offset + 2)?;
            if at(offset)? != 0x0f || at(offset + 1)? != 0x29 || form & 0x3f != (register << 3 | 5)
            {
                return None;
            }
            offset += match form & 0xc0 {
                0x40 => 4,
                0x80 => 7,
                _ => return None,
            };
        }
        (offset - 4 == usize::from(at(3)?)).then_some(())
    };
    check().is_some()
}
