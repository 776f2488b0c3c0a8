//! What the records of a line have in common.

use crate::record::{
    Access, AccessKind, Address, CpuNumber, DataOrder, Event, EventKind, Instruction, Record,
    RegisterWrite, Time,
};
use crate::value::Value;

/// When a line is, and of which cpu. It makes the line's records, with nothing that the format does not have.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub(super) time: Time,
    pub(super) cpu: Option<CpuNumber>,
}

impl Stamp {
    /// Of a format that names the cpu and no time.
    pub(super) const fn of_cpu(cpu: CpuNumber) -> Self {
        Self {
            time: Time::ZERO,
            cpu: Some(cpu),
        }
    }

    /// Of a format that has a time and names no cpu.
    pub(super) const fn at(time: Time) -> Self {
        Self { time, cpu: None }
    }

    /// An executed instruction at an address, which was written with so many digits.
    pub(super) const fn instruction<'a>(self, address: u64, address_digits: u8) -> Instruction<'a> {
        Instruction {
            time: self.time,
            cpu: self.cpu,
            taken: true,
            id: None,
            address: Address(address),
            address_digits,
            opcode: None,
            set: None,
            mode: b"",
            security: None,
            disassembly: b"",
        }
    }

    /// An access whose data is a number.
    pub(super) const fn access(
        self,
        kind: AccessKind,
        size: u32,
        (address, address_digits): (u64, u8),
        data: Value<'_>,
    ) -> Record<'_> {
        Record::Access(Access {
            time: self.time,
            cpu: self.cpu,
            kind,
            size,
            attribute: None,
            address: Address(address),
            address_digits,
            data,
            order: DataOrder::Number,
        })
    }

    /// A whole register.
    pub(super) const fn register<'a>(self, register: &'a [u8], value: Value<'a>) -> Record<'a> {
        Record::Register(RegisterWrite {
            time: self.time,
            cpu: self.cpu,
            register,
            part: None,
            value,
        })
    }

    pub(super) const fn event(self, kind: EventKind, text: &[u8]) -> Record<'_> {
        Record::Event(Event {
            time: self.time,
            cpu: self.cpu,
            kind,
            text,
        })
    }
}
