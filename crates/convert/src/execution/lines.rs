//! The text forms.
//!
//! The reports before the first instruction come first. Each instruction is followed by its accesses and register writes, so that
//! they have the right cpu in a form without cpus on these lines. Data that a form cannot represent is written in another way if
//! possible: a partial write of a register as the whole value, and partly known bytes as the known ones. Other records are counted,
//! and so are modes and sets that QEMU4V does not have; the nearest ones are written for these.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use tracewire_arch::InstructionSet;
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_trace::Notation;
use tracewire_exec_trace::record::{
    Access, AccessKind, Address, CpuNumber, DataOrder, Instruction, InstructionNumber, Record,
    RegisterWrite, Value,
};
use tracewire_exec_trace::recording::{
    Accessed, Executed, Recording, RegisterValue, StartEffect, Written,
};
use tracewire_exec_trace::text::{Format, microtesk, qemu4v};
use tracewire_model::ByteOrder;

use super::{each, keep};
use crate::ConvertError;

/// The longest access that Tarmac has as a number, in bytes.
const LONGEST_NUMBER: usize = 8;

/// The bytes of a diagram of Tarmac.
const DIAGRAM: usize = 16;

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

/// QEMU4V's modes.
const MODES: [&str; 8] = ["svc", "irq", "fiq", "usr", "mon", "sys", "abt", "und"];

/// The mode of QEMU4V for one that it has not: that of the same rights.
fn nearest_mode(mode: &str) -> &'static str {
    match mode.as_bytes() {
        [b'E', b'L', b'0', ..] | [b'T' | b't', b'h', b'r', b'e', b'a', b'd', ..] => "usr",
        [b'E', b'L', b'3', ..] => "mon",
        _ => "svc",
    }
}

impl TextForm {
    /// The instruction set as the form has it.
    const fn set(self, set: InstructionSet) -> InstructionSet {
        match (self, set) {
            (Self::Tarmac, _) => set,
            (_, InstructionSet::O) => InstructionSet::A,
            (_, InstructionSet::T16 | InstructionSet::T32) => InstructionSet::T,
            _ => set,
        }
    }

    /// A register's name in the form. QEMU4V's are in lower case. A bank in brackets after a name of Tarmac's is part of the name
    /// in other forms.
    fn register_name(self, name: &str) -> String {
        if self == Self::Tarmac {
            return name.to_owned();
        }
        let mut own: String = name
            .split([' ', '(', ')'])
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("_");
        if self == Self::Qemu4v {
            own.make_ascii_lowercase();
        }
        own
    }
}

/// Writes lines.
pub struct Lines<'a> {
    form: TextForm,
    recording: &'a Recording,
    registers: Registers<'a>,
    address_digits: u8,
    line: Vec<u8>,
    /// Records without a form: unknown registers or bytes.
    pub without_form: u64,
    /// Modes that the form has not, each with the one in its place, and how many instructions have it.
    pub other_modes: BTreeMap<(String, &'static str), u64>,
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
            other_modes: BTreeMap::new(),
        })
    }

    /// Writes a range of instructions.
    ///
    /// # Errors
    /// When the recording's file is damaged, or the output cannot be written.
    pub fn write(
        &mut self,
        range: Range<u64>,
        out: &mut impl io::Write,
    ) -> Result<(), ConvertError> {
        if range.start == 0 {
            self.write_start(out)?;
        }
        each(self.recording, range, |executed| {
            self.line.clear();
            self.put(executed);
            Ok(out.write_all(&self.line)?)
        })
    }

    /// Writes the trace's reports before its first instruction.
    fn write_start(&mut self, out: &mut impl io::Write) -> Result<(), ConvertError> {
        let first = self.recording.instruction(InstructionNumber(0))?;
        let cpu = first.map_or(CpuNumber::default(), |first| first.cpu);
        let mut result = Ok(());
        let recording = self.recording;
        recording.for_each_at_start(&mut |effect| {
            self.line.clear();
            // A form without cpus on these lines has them at the cpu of the first instruction.
            let of = match &effect {
                StartEffect::Register(write) => write.cpu,
                StartEffect::Access(access) => access.cpu,
            };
            match effect {
                StartEffect::Register(_) if self.form != TextForm::Tarmac && of != cpu => {
                    self.without_form += 1;
                }
                StartEffect::Register(write) => self.register(&write, 0),
                StartEffect::Access(access) => self.access(&access, 0),
            }
            keep(
                &mut result,
                out.write_all(&self.line).map_err(ConvertError::from),
            )
        })?;
        result
    }

    fn digits(&self, address: Address) -> u8 {
        if address.0 > u64::from(u32::MAX) {
            16
        } else {
            self.address_digits
        }
    }

    /// The mode as the form has it.
    fn mode<'m>(&mut self, mode: &'m str) -> &'m str {
        if self.form != TextForm::Qemu4v || mode.is_empty() || MODES.contains(&mode) {
            return mode;
        }
        let nearest = nearest_mode(mode);
        *self
            .other_modes
            .entry((mode.to_owned(), nearest))
            .or_default() += 1;
        nearest
    }

    fn put(&mut self, executed: &Executed) {
        let code = &executed.code;
        let mode = self.mode(&code.mode);
        let instruction = Instruction {
            time: executed.time,
            cpu: Some(executed.cpu),
            taken: executed.taken,
            id: executed.id,
            address: executed.address,
            address_digits: self.digits(executed.address),
            opcode: code.opcode,
            set: code.set.map(|set| self.form.set(set)),
            mode: mode.as_bytes(),
            security: code.security,
            disassembly: code.disassembly.as_bytes(),
        };
        let number = executed.number.0;
        self.record(Record::Instruction(instruction), number);
        for access in &executed.accesses {
            self.access(access, number);
        }
        self.registers.apply(executed);
        for write in &executed.register_writes {
            self.register(write, number);
        }
    }

    fn register(&mut self, write: &Written, number: u64) {
        let names = self.recording.register_names();
        let name = names.get(write.register.0 as usize).map_or("", |name| name);
        let name = self.form.register_name(name);
        // The whole register, for forms that have no parts and no unknown digits.
        let needs_whole = write.part.is_some() || !is_known(&write.value);
        let mut value = write.value.clone();
        if needs_whole && self.form != TextForm::Tarmac {
            match self.registers.value(write.cpu, write.register) {
                Some(whole) if is_known(whole) => value = whole.clone(),
                _ => {
                    self.without_form += 1;
                    return;
                }
            }
        }
        let digits = value.to_string().replace('?', "-");
        let Some(value) = Value::parse(digits.as_bytes(), Notation::Tarmac) else {
            self.without_form += 1;
            return;
        };
        let write = RegisterWrite {
            time: write.time,
            cpu: Some(write.cpu),
            register: name.as_bytes(),
            part: write.part,
            value,
        };
        self.record(Record::Register(write), number);
    }

    /// An access; of one whose bytes are not all known, those that are.
    fn access(&mut self, access: &Accessed, number: u64) {
        if self.form == TextForm::Tarmac
            && (access.data.len() > LONGEST_NUMBER || access.data.iter().any(Option::is_none))
        {
            return self.diagram(access);
        }
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
            let known = self.piece(known);
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
                    cpu: Some(access.cpu),
                    kind: access.kind,
                    size: known as u32,
                    attribute: access.attribute.filter(|_| self.has_same_attributes()),
                    address,
                    address_digits: self.digits(address),
                    data,
                    order: DataOrder::Number,
                });
                self.record(record, number);
            }
            at += known;
        }
    }

    /// How many of this many bytes go into one access. QEMU4V has sizes of powers of two, and its own traces of MIPS have the parts
    /// of unaligned words.
    fn piece(&self, bytes: usize) -> usize {
        if self.form != TextForm::Qemu4v || self.recording.format() == Format::Qemu4v {
            return bytes;
        }
        1 << bytes.ilog2()
    }

    /// Whether attributes mean the same in the trace: `X` is an exclusive access in Tarmac and a privileged one in other forms.
    fn has_same_attributes(&self) -> bool {
        (self.form == TextForm::Tarmac) == (self.recording.format() == Format::Tarmac)
    }

    /// An access as Tarmac draws it: the sixteen bytes around, the highest address first. Readers of Tarmac take a number
    /// of 64 bits at most.
    fn diagram(&mut self, access: &Accessed) {
        let CpuNumber(cpu) = access.cpu;
        let kind = match access.kind {
            AccessKind::Read => "LD",
            AccessKind::Write => "ST",
        };
        let mut data = access.data.iter();
        let mut row = access.address.0 & !(DIAGRAM as u64 - 1);
        let mut before = (access.address.0 - row) as usize;
        while data.len() > 0 {
            let mut bytes = [const { String::new() }; DIAGRAM];
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = match (at < before, if at < before { None } else { data.next() }) {
                    (true, _) | (false, None) => "..".to_owned(),
                    (false, Some(None)) => "##".to_owned(),
                    (false, Some(Some(byte))) => format!("{byte:02x}"),
                };
            }
            bytes.reverse();
            let words: Vec<String> = bytes.chunks(4).map(<[String]>::concat).collect();
            let digits = usize::from(self.digits(Address(row)));
            let line = format!(
                "{} cpu{cpu} {kind} {row:0digits$x}  {}\n",
                access.time,
                words.join(" ")
            );
            self.line.extend_from_slice(line.as_bytes());
            row = row.wrapping_add(DIAGRAM as u64);
            before = 0;
        }
    }

    fn record(&mut self, record: Record<'_>, number: u64) {
        let out = &mut self.line;
        match self.form {
            TextForm::Qemu4v => {
                qemu4v::write_record(out, &record, number + 1);
            }
            TextForm::Microtesk => {
                microtesk::write_record(out, &record, number);
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
    // The time and the scale are kept; after them QEMU4V has a bare cpu number, or none.
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
