//! MicroTESK's tracer writes QEMU4V's lines, and they are read by the same reader.
//!
//! Its manner: numbers of instructions start at 0, addresses have 16 digits, the mode is `svc_ns` on every machine,
//! an access has any number of bytes and no attribute. Letters of data may be upper-case.

use crate::record::{Access, Instruction, Record, RegisterWrite, Security};
use crate::text::qemu4v;

/// How many digits an address has.
const ADDRESS_DIGITS: u8 = 16;

/// Whether an instruction, the first of a trace, is written in MicroTESK's manner.
pub(super) fn is_first(instruction: &Instruction<'_>) -> bool {
    instruction.id == Some(0)
        && instruction.address_digits == ADDRESS_DIGITS
        && instruction.mode == b"svc"
        && instruction.security == Some(Security::NonSecure)
}

/// Appends any record's line and its newline in MicroTESK's manner; `number` is the instruction's. Events have no
/// form: nothing is written for them, and the answer is false.
pub fn write_record(out: &mut Vec<u8>, record: &Record<'_>, number: u64) -> bool {
    let record = match *record {
        Record::Instruction(instruction) => Record::Instruction(Instruction {
            id: Some(number),
            address_digits: ADDRESS_DIGITS,
            mode: b"svc",
            security: Some(Security::NonSecure),
            ..instruction
        }),
        Record::Access(access) => Record::Access(Access {
            address_digits: ADDRESS_DIGITS,
            attribute: None,
            ..access
        }),
        Record::Register(RegisterWrite { .. }) | Record::Event(_) => *record,
    };
    qemu4v::write_record(out, &record, number)
}
