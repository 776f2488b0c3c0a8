//! What the readers of execution traces give, for the targets that compare two readings.

use tracewire_arch::{Architecture, Machine};
use tracewire_exec_trace::record::{Access, ByteOrder, Event, Instruction, Line, Owner, Record, RegisterWrite};
use tracewire_exec_trace::text::{Format, LineError, Piece, Sink, qemu4v, read};

/// A kind of line that was not understood, in [`RecordList::records`].
pub const UNPARSED: u8 = 4;

/// What was read.
#[derive(Default)]
pub struct RecordList {
    /// Of each record the place of its line, its kind, and a number that it is known by.
    pub records: Vec<(u64, u8, u64)>,
    instructions: u64,
    /// How many instructions were in the pieces before.
    base: u64,
    /// The records as QEMU4V's writer prints them.
    pub written: Vec<u8>,
}

impl RecordList {
    fn owner(&self, owner: Owner) -> u64 {
        let latest = self.base + self.instructions;
        match owner {
            Owner::Latest => latest,
            Owner::Earlier(back) => latest - u64::from(back),
            Owner::Next => latest + 1,
            Owner::Start => u64::MAX,
        }
    }

    fn push(&mut self, line: Line, kind: u8, number: u64) {
        self.records.push((line.start, kind, number));
    }
}

impl Sink for RecordList {
    fn instruction(&mut self, line: Line, instruction: &Instruction<'_>) {
        for architecture in [Architecture::Arm, Architecture::X86_64, Architecture::Riscv32] {
            let machine = Machine::of(architecture);
            let _ = instruction.code().and_then(|code| machine.flow(&code));
        }
        self.instructions += 1;
        self.push(line, 0, instruction.address.0);
        qemu4v::write_record(&mut self.written, &Record::Instruction(*instruction), 7);
    }
    fn access(&mut self, line: Line, owner: Owner, access: &Access<'_>) {
        let mut bytes = Vec::new();
        access.memory_bytes(ByteOrder::Big, &mut bytes);
        assert_eq!(bytes.len(), access.size as usize);
        assert!(access.data.digits() <= access.size * 2);
        self.push(line, 1, self.owner(owner));
        qemu4v::write_record(&mut self.written, &Record::Access(*access), 7);
    }
    fn register(&mut self, line: Line, owner: Owner, write: &RegisterWrite<'_>) {
        assert_eq!(write.value.nibbles().count() as u32, write.value.digits());
        assert_eq!(write.value.bytes().count() as u32, write.value.size());
        assert!(!write.register.is_empty());
        let _ = Machine::of(Architecture::Arm).locate(write.register);
        self.push(line, 2, self.owner(owner));
        qemu4v::write_record(&mut self.written, &Record::Register(*write), 7);
    }
    fn event(&mut self, line: Line, event: &Event<'_>) {
        self.push(line, 3, event.text.len() as u64);
    }
    fn unparsed(&mut self, line: Line, text: &[u8], error: LineError) {
        assert!(error.start <= error.end && error.end as usize <= text.len());
        let _ = error.underlined(text);
        self.push(line, UNPARSED, 0);
    }
}

/// Reads a text as a whole, and again in pieces of about so many bytes, which must give the same.
pub fn read_both_ways(format: Format, text: &[u8], size: usize) -> RecordList {
    let mut whole = RecordList::default();
    let lines = read(format, text, &Piece::whole(text), &mut whole);
    let (mut records, mut base, mut counted) = (Vec::new(), 0, 0);
    for piece in format.pieces(text, size) {
        let mut reported = RecordList { base, ..RecordList::default() };
        counted += read(format, text, &piece, &mut reported);
        base += reported.instructions;
        records.append(&mut reported.records);
    }
    assert_eq!(records, whole.records, "{format}");
    assert_eq!(counted, lines);
    whole
}
