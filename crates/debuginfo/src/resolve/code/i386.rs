//! Prologues of i386.

use super::Code;

/// Instructions that GCC moves between `push %ebp` and `mov %esp,%ebp`: (length, bytes, masks).
const MOVED_INTO_SETUP: [(u64, [u8; 2], [u8; 2]); 13] = [
    (2, [0xb0, 0x00], [0xfa, 0x00]),
    (2, [0xb2, 0x00], [0xfb, 0x00]),
    (5, [0xb8, 0x00], [0xfe, 0x00]),
    (5, [0xba, 0x00], [0xff, 0x00]),
    (5, [0xa1, 0x00], [0xff, 0x00]),
    (6, [0x89, 0x05], [0xff, 0xf7]),
    (6, [0x89, 0x15], [0xff, 0xff]),
    (2, [0x29, 0xc0], [0xfd, 0xff]),
    (2, [0x29, 0xc9], [0xfd, 0xff]),
    (2, [0x29, 0xd2], [0xfd, 0xff]),
    (2, [0x31, 0xc0], [0xfd, 0xff]),
    (2, [0x31, 0xc9], [0xfd, 0xff]),
    (2, [0x31, 0xd2], [0xfd, 0xff]),
];

/// Past the frame set-up and the saving of registers; `None` if there is no frame set-up. GDB's
/// `i386_skip_prologue`.
pub(crate) fn prologue_end(code: Code<'_>, start: u64) -> Option<u64> {
    let mut at = start;
    if code.has(at, &[0xf3, 0x0f, 0x1e, 0xfb]) {
        at = at.checked_add(4)?;
    }
    at = skip_no_operations(code, at);
    at = follow_jump(code, at);
    at = struct_return(code, at);
    at = stack_alignment(code, at).unwrap_or(at);
    let mut end = frame_setup(code, at)?;
    for _ in 0..8 {
        match code.byte(end) {
            Some(0x50..=0x57) => end = end.checked_add(1)?,
            _ => break,
        }
    }
    end = position_independent(code, end);
    // A function that starts with a jump comes back with one.
    if follow_jump(code, start) != start {
        end = follow_jump(code, end);
    }
    Some(end)
}

fn skip_no_operations(code: Code<'_>, start: u64) -> u64 {
    let mut at = start;
    // Bounded by the padding a linker makes.
    for _ in 0..64 {
        if code.has(at, &[0x90]) {
            at = at.wrapping_add(1);
        } else if code.has(at, &[0x8b, 0xff]) {
            at = at.wrapping_add(2);
        } else {
            break;
        }
    }
    at
}

fn follow_jump(code: Code<'_>, at: u64) -> u64 {
    let target = || {
        Some(match code.byte(at)? {
            0xe9 => {
                let distance = i32::from_le_bytes(code.bytes(at.checked_add(1)?)?);
                at.wrapping_add_signed(i64::from(distance) + 5)
            }
            0xeb => {
                let distance = i8::from_le_bytes(code.bytes(at.checked_add(1)?)?);
                at.wrapping_add_signed(i64::from(distance) + 2)
            }
            _ => return None,
        })
    };
    target().unwrap_or(at)
}

/// `pop %eax; xchg %eax,(%esp)`: the function returns a structure.
fn struct_return(code: Code<'_>, at: u64) -> u64 {
    if code.has(at, &[0x58, 0x87, 0x04, 0x24]) {
        at.wrapping_add(4)
    } else if code.has(at, &[0x58, 0x87, 0x44, 0x24, 0x00]) {
        at.wrapping_add(5)
    } else {
        at
    }
}

/// `lea 4(%esp),%reg; and $-N,%esp; push -4(%reg)`, the register saved first in the other form.
fn stack_alignment(code: Code<'_>, start: u64) -> Option<u64> {
    let bytes: [u8; 14] = code.bytes(start)?;
    let at = |index: usize| bytes.get(index).copied();
    let (register, mut offset) = if at(0)? == 0x8d && at(2)? == 0x24 && at(3)? == 4 {
        if at(1)? & 0xc7 != 0x44 {
            return None;
        }
        ((at(1)? >> 3) & 7, 4)
    } else {
        let register = at(0)? & 7;
        if at(0)? & 0xf8 != 0x50
            || at(1)? != 0x8d
            || at(3)? != 0x24
            || at(4)? != 8
            || at(2)? & 0xc7 != 0x44
            || (at(2)? >> 3) & 7 != register
        {
            return None;
        }
        (register, 5)
    };
    if register == 4 || register == 5 || at(offset + 1)? != 0xe4 {
        return None;
    }
    offset += match at(offset)? {
        0x81 => 6,
        0x83 => 3,
        _ => return None,
    };
    if at(offset)? != 0xff
        || at(offset + 2)? != 0xfc
        || at(offset + 1)? & 0xf8 != 0x70
        || at(offset + 1)? & 7 != register
    {
        return None;
    }
    start.checked_add(offset as u64 + 3)
}

/// Past `push %ebp; mov %esp,%ebp; sub $N,%esp` or `enter`.
fn frame_setup(code: Code<'_>, start: u64) -> Option<u64> {
    match code.byte(start)? {
        0x55 => {}
        0xc8 => return start.checked_add(4),
        _ => return None,
    }
    let mut at = start.checked_add(1)?;
    while let Some(length) = moved_instruction(code, at) {
        at = at.checked_add(length)?;
    }
    if code.has(at, &[0x8b, 0xec]) || code.has(at, &[0x89, 0xe5]) {
        at = at.checked_add(2)?;
    } else if code.has(at, &[0x8d, 0x2c, 0x24]) {
        at = at.checked_add(3)?;
    } else {
        return None;
    }
    let room = match code.bytes::<2>(at) {
        Some([0x83, 0xec]) => 3,
        Some([0x81, 0xec]) => 6,
        Some([0x8d, 0x64]) => 4,
        _ => 0,
    };
    at.checked_add(room)
}

fn moved_instruction(code: Code<'_>, at: u64) -> Option<u64> {
    let bytes: [u8; 2] = code.bytes(at)?;
    MOVED_INTO_SETUP
        .iter()
        .find(|(_, wanted, mask)| {
            bytes
                .iter()
                .zip(mask)
                .zip(wanted)
                .all(|((byte, mask), wanted)| byte & mask == *wanted)
        })
        .map(|(length, ..)| *length)
}

/// Past the set-up of the register that holds the global offset table, in the form of the System V compiler.
fn position_independent(code: Code<'_>, start: u64) -> u64 {
    if !code.has(start, &[0xe8, 0, 0, 0, 0, 0x5b]) {
        return start;
    }
    let mut skipped = 6;
    if let Some([0x89, form]) = code.bytes::<2>(start.wrapping_add(skipped)) {
        skipped += match form {
            0x5d => 3,
            0x9d => 6,
            _ => return start,
        };
    }
    if code.has(start.wrapping_add(skipped), &[0x81, 0xc3]) {
        start.wrapping_add(skipped + 6)
    } else {
        start
    }
}
