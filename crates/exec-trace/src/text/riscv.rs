//! What the code of a RISC-V instruction says of its memory access (RISC-V Unprivileged ISA).

use crate::record::AccessKind;
use crate::value::{Notation, Value};

/// A load or a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RiscvAccess {
    pub(super) kind: AccessKind,
    pub(super) size: u32,
    /// The register that is loaded or stored: of floating point or not, and its number.
    pub(super) register: (bool, u8),
}

/// The access that an instruction makes whose data are one register. `is_64` where compressed codes are those of a machine
/// of 64 bits. None for another instruction, and for one that reads and writes.
pub(super) fn access(code: u64, digits: u8, is_64: bool) -> Option<RiscvAccess> {
    use AccessKind::{Read, Write};
    let bits = |from: u32| (code >> from) as u8 & 31;
    let (kind, size, register) = if digits == 8 && code & 3 == 3 {
        let width = code >> 12 & 7;
        match code & 0x7f {
            0x03 if width < 7 => (Read, 1 << (width & 3), (false, bits(7))),
            0x23 if width < 4 => (Write, 1 << width, (false, bits(20))),
            0x07 if (1..5).contains(&width) => (Read, 1 << width, (true, bits(7))),
            0x27 if (1..5).contains(&width) => (Write, 1 << width, (true, bits(20))),
            _ => return None,
        }
    } else if digits == 4 {
        let low = bits(2) & 7 | 8;
        match (code & 3, code >> 13 & 7) {
            (0, 1) => (Read, 8, (true, low)),
            (0, 2) => (Read, 4, (false, low)),
            (0, 3) if is_64 => (Read, 8, (false, low)),
            (0, 3) => (Read, 4, (true, low)),
            (0, 5) => (Write, 8, (true, low)),
            (0, 6) => (Write, 4, (false, low)),
            (0, 7) if is_64 => (Write, 8, (false, low)),
            (0, 7) => (Write, 4, (true, low)),
            (2, 1) => (Read, 8, (true, bits(7))),
            (2, 2) => (Read, 4, (false, bits(7))),
            (2, 3) if is_64 => (Read, 8, (false, bits(7))),
            (2, 3) => (Read, 4, (true, bits(7))),
            (2, 5) => (Write, 8, (true, bits(2))),
            (2, 6) => (Write, 4, (false, bits(2))),
            (2, 7) if is_64 => (Write, 8, (false, bits(2))),
            (2, 7) => (Write, 4, (true, bits(2))),
            _ => return None,
        }
    } else {
        return None;
    };
    Some(RiscvAccess {
        kind,
        size,
        register,
    })
}

/// The low bytes of a register's value; unknown ones where it is not known or too short.
pub(super) fn low(value: Option<u64>, size: u32) -> Value<'static> {
    match value {
        Some(value) if size <= 8 => Value::of(value, (size * 2) as u8),
        _ => unknown(size),
    }
}

/// Unknown bytes, 64 at most.
pub(super) fn unknown(size: u32) -> Value<'static> {
    const DIGITS: &[u8] = &[b'x'; 128];
    let digits = DIGITS.get(..size as usize * 2).unwrap_or(DIGITS);
    Value::parse(digits, Notation::Verilog).unwrap_or(Value::of(0, 2))
}
