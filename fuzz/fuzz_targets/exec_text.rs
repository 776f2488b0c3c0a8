//! The readers of execution traces, on any bytes: no panic, pieces give what the whole gives, and what QEMU4V's writer
//! prints is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_arch::{Architecture, Machine};
use tracewire_exec_trace::guess;
use tracewire_exec_trace::record::{Access, ByteOrder, Event, Instruction, Line, Owner, Record, RegisterWrite};
use tracewire_exec_trace::text::{Format, LineError, Piece, Sink, qemu4v, read};

/// What is told, folded into a number for each record.
#[derive(Default)]
struct Told {
    records: Vec<(u64, u64)>,
    instructions: u64,
    base: u64,
    written: Vec<u8>,
}

impl Told {
    fn owner(&self, owner: Owner) -> u64 {
        let latest = self.base + self.instructions;
        match owner {
            Owner::Latest => latest,
            Owner::Earlier(back) => latest - u64::from(back),
            Owner::Next => latest + 1,
            Owner::Start => u64::MAX,
        }
    }
}

impl Sink for Told {
    fn instruction(&mut self, line: Line, instruction: &Instruction<'_>) {
        for architecture in [Architecture::Arm, Architecture::X86_64, Architecture::Riscv32] {
            let machine = Machine::of(architecture);
            let _ = instruction.code().and_then(|code| machine.flow(&code));
        }
        self.instructions += 1;
        self.records.push((line.start, instruction.address.0));
        qemu4v::write_record(&mut self.written, &Record::Instruction(*instruction), 7);
    }
    fn access(&mut self, line: Line, owner: Owner, access: &Access<'_>) {
        let mut bytes = Vec::new();
        access.memory_bytes(ByteOrder::Big, &mut bytes);
        assert_eq!(bytes.len(), access.size as usize);
        assert!(access.data.digits() <= access.size * 2);
        self.records.push((line.start, self.owner(owner)));
        qemu4v::write_record(&mut self.written, &Record::Access(*access), 7);
    }
    fn register(&mut self, line: Line, owner: Owner, write: &RegisterWrite<'_>) {
        assert_eq!(write.value.nibbles().count() as u32, write.value.digits());
        assert_eq!(write.value.bytes().count() as u32, write.value.size());
        let _ = Machine::of(Architecture::Arm).locate(write.register);
        self.records.push((line.start, self.owner(owner)));
        qemu4v::write_record(&mut self.written, &Record::Register(*write), 7);
    }
    fn event(&mut self, line: Line, event: &Event<'_>) {
        self.records.push((line.start, event.text.len() as u64));
    }
    fn unparsed(&mut self, line: Line, text: &[u8], error: LineError) {
        assert!(error.start <= error.end && error.end as usize <= text.len());
        let _ = error.underlined(text);
        self.records.push((line.start, u64::MAX - 1));
    }
}

/// How much of an input is taken: what is found in long ones is found in short ones, sooner.
const MOST: usize = 1000;

fuzz_target!(|input: &[u8]| {
    let [first, size, text @ ..] = input else { return };
    if text.len() > MOST {
        return;
    }
    let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
    let _ = Format::detect(text).and_then(|format| guess(format, text));
    let mut whole = Told::default();
    let lines = read(format, text, &Piece::whole(text), &mut whole);

    let mut records = Vec::new();
    let (mut base, mut counted) = (0, 0);
    for piece in format.pieces(text, usize::from(*size) * 8) {
        let mut told = Told {
            base,
            ..Told::default()
        };
        counted += read(format, text, &piece, &mut told);
        base += told.instructions;
        records.append(&mut told.records);
    }
    assert_eq!(records, whole.records);
    assert_eq!(counted, lines);

    if matches!(format, Format::Qemu4v | Format::Microtesk) {
        let mut again = Told::default();
        let written = whole.written;
        read(format, &written, &Piece::whole(&written), &mut again);
        assert_eq!(again.written, written);
    }
});
