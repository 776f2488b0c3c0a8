//! x86, the code as the bytes are in memory.

use super::{Flow, signed};

/// The longest instruction, in bytes; a code of 32 digits has one more.
const LONGEST: usize = 16;

pub(super) fn flow(value: u128, digits: u8, address: u64, is_64: bool) -> Flow {
    let size = usize::from(digits).div_ceil(2).min(LONGEST);
    let bytes = value.to_be_bytes();
    let code = bytes.get(LONGEST - size..).unwrap_or_default();
    let next = address.wrapping_add(size as u64);
    let mut repeats = false;
    let mut rest = code;
    while let [prefix, tail @ ..] = rest {
        match prefix {
            0xf2 | 0xf3 => repeats = true,
            0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0xf0 => {}
            0x40..=0x4f if is_64 => {}
            _ => break,
        }
        rest = tail;
    }
    let little = |bytes: &[u8]| {
        let value = bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        match bytes.len() {
            1 => signed(value, 8),
            2 => signed(value, 16),
            _ => signed(value, 32),
        }
    };
    let to = |offset: &[u8]| next.wrapping_add(little(offset));
    match rest {
        [0xe8, offset @ ..] => Flow::CALL.to(to(offset)),
        [0xe9, offset @ ..] | [0xeb, offset @ ..] => Flow::JUMP.to(to(offset)),
        [0x70..=0x7f | 0xe0..=0xe3, offset @ ..] | [0x0f, 0x80..=0x8f, offset @ ..] => {
            Flow::JUMP.to(to(offset)).conditional(true)
        }
        [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Flow::RETURN,
        [0xff, modrm, ..] => match modrm >> 3 & 7 {
            2 | 3 => Flow::CALL,
            4 | 5 => Flow::JUMP,
            _ => Flow::NEXT,
        },
        [0x9a, ..] if !is_64 => Flow::CALL,
        [0xea, ..] if !is_64 => Flow::JUMP,
        // int3, int, into, iret, hlt; syscall, sysret, sysenter, sysexit, ud2.
        [0xcc | 0xcd | 0xce | 0xcf | 0xf4, ..] => Flow::ANYWHERE,
        [0x0f, 0x05 | 0x07 | 0x34 | 0x35 | 0x0b, ..] => Flow::ANYWHERE,
        // A string operation that repeats is written once for each round.
        [0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f, ..] if repeats => {
            Flow::JUMP.to(address).conditional(true)
        }
        _ => Flow::NEXT,
    }
}
