//! The text forms.
//!
//! Each instruction comes with its accesses and register writes behind it, so that a form without cpus on these lines
//! has them at the right one. What a form cannot say is said otherwise where it can be: of a register that is written
//! in part, the whole value; of bytes that are not all known, those that are. What is then left is counted.

use std::io;
use std::ops::Range;

use tracewire_exec_trace::Notation;
use tracewire_exec_trace::record::{
    Access, Address, CpuNumber, DataOrder, Instruction, InstructionNumber, Record, RegisterWrite,
    Value,
};
use tracewire_exec_trace::recording::{Accessed, Executed, Recording, RegisterValue};
use tracewire_exec_trace::text::{microtesk, qemu4v};
use tracewire_tracefile::ByteOrder;

use super::{ConvertError, each};
use crate::state::Registers;

/// A text form that is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextForm {
    /// QEMU4V.
    Qemu4v,
    /// MicroTESK's manner of it.
    Microtesk,
    /// Tarmac, as Fast Models write it, with a cpu on each line.
    Tarmac,
}

/// Writes lines.
pub struct Lines<'a> {
    form: TextForm,
    recording: &'a Recording,
    registers: Registers<'a>,
    address_digits: u8,
    line: Vec<u8>,
    /// Records that have no form: registers or bytes of which nothing is known.
    pub without_form: u64,
}

impl<'a> Lines<'a> {
    /// From an instruction on.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn new(
        recording: &'a Recording,
        form: TextForm,
        from: InstructionNumber,
    ) -> Result<Self, ConvertError> {
        let machine = recording.architecture();
        let is_wide = machine.is_some_and(|machine| machine.pointer_size() == 8);
        Ok(Self {
            form,
            recording,
            registers: Registers::at(recording, None, from)?,
            address_digits: if is_wide { 16 } else { 8 },
            line: Vec::new(),
            without_form: 0,
        })
    }

    /// Writes a range of instructions.
    ///
    /// # Errors
    /// When the recording's file is damaged, or what is made cannot be written.
    pub fn write(
        &mut self,
        range: Range<u64>,
        out: &mut impl io::Write,
    ) -> Result<(), ConvertError> {
        each(self.recording, range, |executed| {
            self.line.clear();
            self.put(executed);
            Ok(out.write_all(&self.line)?)
        })
    }

    fn digits(&self, address: Address) -> u8 {
        if address.0 > u64::from(u32::MAX) {
            16
        } else {
            self.address_digits
        }
    }

    fn put(&mut self, executed: &Executed) {
        let code = &executed.code;
        let instruction = Instruction {
            time: executed.time,
            cpu: Some(executed.cpu),
            taken: executed.taken,
            id: executed.id,
            address: executed.address,
            address_digits: self.digits(executed.address),
            opcode: code.opcode,
            set: code.set,
            mode: code.mode.as_bytes(),
            security: code.security,
            disassembly: code.disassembly.as_bytes(),
        };
        self.record(Record::Instruction(instruction), executed);
        for access in &executed.accesses {
            self.access(access, executed);
        }
        self.registers.apply(executed);
        for write in &executed.register_writes {
            let names = self.recording.register_names();
            let name = names
                .get(write.register.0 as usize)
                .map_or("", |name| name)
                .to_owned();
            // The whole register, for forms that have no parts and no unknown digits.
            let needs_whole = write.part.is_some() || !is_known(&write.value);
            let mut value = write.value.clone();
            if needs_whole && self.form != TextForm::Tarmac {
                let whole = self
                    .registers
                    .by_name(write.cpu)
                    .find(|(known, _)| **known == *name);
                match whole {
                    Some((_, whole)) if is_known(whole) => value = whole.clone(),
                    _ => {
                        self.without_form += 1;
                        continue;
                    }
                }
            }
            let digits = value.to_string().replace('?', "-");
            let Some(value) = Value::parse(digits.as_bytes(), Notation::Tarmac) else {
                self.without_form += 1;
                continue;
            };
            let write = RegisterWrite {
                time: write.time,
                cpu: Some(write.cpu),
                register: name.as_bytes(),
                part: write.part,
                value,
            };
            self.record(Record::Register(write), executed);
        }
    }

    /// An access; of one whose bytes are not all known, those that are.
    fn access(&mut self, access: &Accessed, executed: &Executed) {
        let order = self.recording.byte_order();
        let mut at = 0;
        while at < access.data.len() {
            let known = access.data[at..]
                .iter()
                .take_while(|byte| byte.is_some())
                .count();
            if known == 0 {
                self.without_form += u64::from(access.data.iter().all(Option::is_none) && at == 0);
                at += 1;
                continue;
            }
            let bytes = access.data[at..at + known].iter().flatten();
            let hex = |byte: &u8| format!("{byte:02x}");
            let digits: String = match order {
                ByteOrder::Big => bytes.map(hex).collect(),
                ByteOrder::Little => bytes.rev().map(hex).collect(),
            };
            let address = access.address.offset(at as i64);
            if let Some(data) = Value::parse(digits.as_bytes(), Notation::Plain) {
                let record = Record::Access(Access {
                    time: access.time,
                    cpu: Some(executed.cpu),
                    kind: access.kind,
                    size: known as u32,
                    attribute: access.attribute,
                    address,
                    address_digits: self.digits(address),
                    data,
                    order: DataOrder::Number,
                });
                self.record(record, executed);
            }
            at += known;
        }
    }

    fn record(&mut self, record: Record<'_>, executed: &Executed) {
        let out = &mut self.line;
        match self.form {
            TextForm::Qemu4v => {
                qemu4v::write_record(out, &record, executed.number.0 + 1);
            }
            TextForm::Microtesk => {
                microtesk::write_record(out, &record, executed.number.0);
            }
            TextForm::Tarmac => tarmac(out, &record),
        }
    }
}

fn is_known(value: &RegisterValue) -> bool {
    value.bytes().all(|byte| byte.is_some())
}

/// A line of Tarmac. It is QEMU4V's line with the cpu named, and on every line.
fn tarmac(out: &mut Vec<u8>, record: &Record<'_>) {
    let CpuNumber(cpu) = record.cpu().unwrap_or_default();
    let start = out.len();
    match record {
        Record::Register(write) => {
            let part = write.part.map_or(String::new(), |part| {
                format!("<{}:{}>", part.high, part.low)
            });
            let value = write.value.to_string().replace('?', "-");
            let name = String::from_utf8_lossy(write.register);
            out.extend_from_slice(
                format!("{} cpu{cpu} R {name}{part} {value}\n", record.time()).as_bytes(),
            );
            return;
        }
        _ => {
            qemu4v::write_record(out, record, 0);
        }
    }
    // The time and the scale stay; behind them QEMU4V has a bare cpu number, or none.
    let line = out.split_off(start);
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (_, _, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
    let rest = match record {
        Record::Instruction(_) => rest
            .iter()
            .position(|byte| *byte == b' ')
            .map_or(rest, |blank| &rest[blank + 1..]),
        _ => rest,
    };
    out.extend_from_slice(format!("{} cpu{cpu} ", record.time()).as_bytes());
    out.extend_from_slice(rest);
}
