//! Recordings of every format against the reader that they were made with: the text comes back byte for byte, and
//! each instruction has what its lines say.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use proptest::prelude::*;
use tracewire_exec_trace::record::{
    Access, AccessKind, DataOrder, Instruction, Line, Owner, RegisterWrite,
};
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_exec_trace::text::{Format, Piece, Sink, read};
use tracewire_model::ByteOrder;

/// What the reader says about each instruction, in words.
#[derive(Default)]
struct RecordList {
    is_big: bool,
    instructions: Vec<String>,
    deeds: Vec<(i64, String)>,
}

impl RecordList {
    fn owner(&self, owner: Owner) -> i64 {
        let latest = self.instructions.len() as i64 - 1;
        match owner {
            Owner::Latest => latest,
            Owner::Earlier(back) => latest - i64::from(back),
            Owner::Next => latest + 1,
            Owner::Start => -1,
        }
    }
}

impl Sink for RecordList {
    fn instruction(&mut self, line: Line, of: &Instruction<'_>) {
        self.instructions.push(format!(
            "{} {} {} {} {:?} {} {:?} {:?} {} {:?} {}",
            line.number,
            of.time,
            of.cpu.unwrap_or_default(),
            of.taken,
            of.id,
            of.address,
            of.opcode,
            of.set,
            String::from_utf8_lossy(of.mode),
            of.security,
            String::from_utf8_lossy(of.disassembly),
        ));
    }

    fn access(&mut self, _: Line, owner: Owner, of: &Access<'_>) {
        let mut bytes: Vec<Option<u8>> = of
            .data
            .bytes()
            .map(|byte| (byte.known == 0xff).then_some(byte.bits))
            .collect();
        bytes.resize(of.size as usize, Some(0));
        let is_big = match of.order {
            DataOrder::Number => self.is_big,
            DataOrder::HighestAddressFirst => false,
            DataOrder::LowestAddressFirst => true,
        };
        if is_big {
            bytes.reverse();
        }
        let kind = of.kind == AccessKind::Write;
        self.deeds.push((
            self.owner(owner),
            format!(
                "{kind} {:?} {} {bytes:?} at {}",
                of.attribute, of.address, of.time
            ),
        ));
    }

    fn register(&mut self, _: Line, owner: Owner, of: &RegisterWrite<'_>) {
        let name = String::from_utf8_lossy(of.register).into_owned();
        self.deeds.push((
            self.owner(owner),
            format!("{name} {:?} {} at {}", of.part, of.value, of.time),
        ));
    }
}

/// What a recording says about each instruction, in the same words, what it did in the order of accesses and writes.
fn reported(recording: &Recording) -> (Vec<String>, Vec<Vec<String>>) {
    let (mut instructions, mut deeds) = (Vec::new(), Vec::new());
    recording
        .instructions(0..u64::MAX, &mut |of| {
            instructions.push(format!(
                "{} {} {} {} {:?} {} {:?} {:?} {} {:?} {}",
                of.line,
                of.time,
                of.cpu,
                of.taken,
                of.id,
                of.address,
                of.code.opcode,
                of.code.set,
                of.code.mode,
                of.code.security,
                of.code.disassembly,
            ));
            let accesses = of.accesses.iter().map(|of| {
                let kind = of.kind == AccessKind::Write;
                assert_eq!(of.data.len(), of.size as usize);
                format!(
                    "{kind} {:?} {} {:?} at {}",
                    of.attribute, of.address, of.data, of.time
                )
            });
            let names = recording.register_names();
            let writes = of.register_writes.iter().map(|of| {
                let name = &names[of.register.0 as usize];
                format!("{name} {:?} {} at {}", of.part, of.value, of.time)
            });
            deeds.push(accesses.chain(writes).collect());
            ControlFlow::Continue(())
        })
        .unwrap();
    (instructions, deeds)
}

fn check(text: &[u8]) -> Recording {
    let recording = Recording::of_text(text, &OpenOptions::default()).unwrap();
    let mut back = Vec::new();
    recording.write_text(&mut back).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&back),
        String::from_utf8_lossy(text)
    );
    assert_eq!(back, text);

    let mut expected = RecordList {
        is_big: recording.byte_order() == ByteOrder::Big,
        ..RecordList::default()
    };
    read(recording.format(), text, &Piece::whole(text), &mut expected);
    let (instructions, deeds) = reported(&recording);
    assert_eq!(instructions, expected.instructions);
    for (number, deeds) in deeds.iter().enumerate() {
        let mut of: Vec<&String> = expected
            .deeds
            .iter()
            .filter(|(owner, _)| *owner == number as i64)
            .map(|(_, deed)| deed)
            .collect();
        // Accesses first, as the recording has them.
        of.sort_by_key(|deed| !(deed.starts_with("true ") || deed.starts_with("false ")));
        assert_eq!(deeds.iter().collect::<Vec<_>>(), of, "of {number}");
    }

    // The compact form is the same.
    let compact = Recording::of_compact(recording.compact(), &OpenOptions::default()).unwrap();
    assert_eq!(compact.summary(), recording.summary());
    recording
}

/// Programs of eight machines.
#[test]
fn real_programs_come_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target-replay/tests/data");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().ends_with(".trace.zst") {
            continue;
        }
        let text = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
        // The comparison with the reader is of quadratic cost: some thousand instructions say enough.
        let end = text[..text.len().min(400_000)]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap();
        let recording = check(&text[..=end]);
        let (size, text) = (recording.compact().len(), end as f64);
        let machine = recording.architecture().map(|of| of.name());
        eprintln!(
            "{}: {machine:?}, 1/{:.1}",
            path.display(),
            text / size as f64
        );
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(machine, name.split('.').next());
        count += 1;
    }
    assert!(count >= 8);
}

/// Lines of Arm's trace, with everything that makes them hard.
fn tarmac_line() -> impl Strategy<Value = String> {
    let time = prop_oneof![
        4 => (0..50u32).prop_map(|time| format!("{time} clk ")),
        1 => (0..50u32).prop_map(|time| format!("{time}ns ")),
        1 => (0..50u32, 0..100u32).prop_map(|(time, part)| format!("{time}.{part:02} ns ")),
        1 => Just(String::new()),
    ];
    let cpu = prop_oneof![Just(""), Just("cpu0 "), Just("cpu1 ")];
    let record = prop_oneof![
        3 => (0..9u32, 0..5u32).prop_map(|(id, at)| format!("IT ({id}) 0000{:04x} e1a0000{at} A svc_ns : MOV r{at},r0", at * 4)),
        1 => (0..999u32).prop_map(|id| format!("IS ({:08x}) 00008000:000080001ffe_NS f7fffffe T usr_s : BL x", id)),
        1 => (0..999u32).prop_map(|id| format!("IT (00008000:{id:x}) 00008000 bf00 T16 NOP")),
        2 => (0..4u32, any::<u32>()).prop_map(|(register, value)| format!("R r{register} {value:08x}")),
        1 => (0..4u32, any::<u32>()).prop_map(|(register, value)| format!("R R{register} (USR) {value:08X}")),
        1 => any::<u64>().prop_map(|value| format!("R X1 {:08x}_{:08x}", value >> 32, value as u32)),
        1 => any::<[u64; 2]>().prop_map(|[a, b]| format!("R V2 {a:016x}{b:016x}")),
        1 => any::<[u32; 4]>().prop_map(|[a, b, c, d]| format!("R Q3 {a:08x}_{b:08x}_--------_{c:08x}{:02x}", d as u8)),
        1 => any::<u32>().prop_map(|value| format!("R V4<63:32> {value:08x}")),
        2 => (0..16u32, any::<u32>()).prop_map(|(at, data)| format!("MR4 0000{:04x} {data:08x}", at * 4)),
        2 => (0..16u32, any::<u64>()).prop_map(|(at, data)| format!("MW8X 0000{:04x}:00008000{:04x}_NS {:08x}_{:08x}", at * 4, at, data >> 32, data as u32)),
        1 => (0..16u32, any::<[u64; 2]>()).prop_map(|(at, [a, b])| format!("MW16 0000{:04x} {a:016X}{b:016X}", at * 4)),
        1 => (0..16u32, any::<u32>()).prop_map(|(at, data)| format!("MNW4___D 0000{:04x} {data:08x}", at * 4)),
        1 => (0..16u32, any::<u16>()).prop_map(|(at, data)| format!("R02 0000{:04x} {data:04x}", at * 2)),
        1 => (0..4u32, any::<u32>()).prop_map(|(at, data)| format!("ST 0000{:04x} .. .. .. ........ #### {data:08x} ........", at * 16)),
        1 => Just("MR4 00001000 (ABORTED)".to_owned()),
        1 => Just("E 00000018 00000005 CoreEvent_IRQ".to_owned()),
        1 => "[ -~]{0,30}",
        1 => "[a-f0-9 \x00-\x1f]{0,20}",
    ];
    (
        time,
        cpu,
        record,
        prop_oneof![9 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n")],
    )
        .prop_map(|(time, cpu, record, end)| {
            format!("{time}{cpu}{}{end}", record.replace(['\n', '\r'], "?"))
        })
}

fn nios2_line() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        (0..3u32).prop_map(|field| format!("{field:x}")),
        any::<u32>().prop_map(|field| format!("{field:x}")),
        Just("x".to_owned()),
        Just("ffffxx80".to_owned()),
    ];
    let code = prop::sample::select(vec!["800144", "800085", "c000c7", "c00015", "17"]);
    (
        (1..40u32, 0..8u32, code, 0..3u32, 0..33u32),
        prop::collection::vec(field, 13),
        any::<bool>(),
    )
        .prop_map(|((time, pc, code, written, register), rest, is_long)| {
            let more = if is_long { ",0,0,0,0,0,0,0,0,0,1" } else { "" };
            let rest = rest[..12].join(",");
            format!(
                "{time} ns: 0,{:x},0,0,0,{code},{written},{register:x},{rest}{more}\n",
                pc * 4
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn tarmac_comes_back(lines in prop::collection::vec(tarmac_line(), 1..200), is_cut: bool, has_mark: bool) {
        let mark = if has_mark { "\u{feff}" } else { "" };
        let mut text = format!("{mark}1 clk IT (1) 00008000 e1a00000 A svc : NOP\n{}", lines.concat());
        if is_cut {
            text.truncate(text.trim_end().len());
        }
        prop_assume!(Format::detect(text.as_bytes()) == Some(Format::Tarmac));
        check(text.as_bytes());
    }

    #[test]
    fn nios2_comes_back(lines in prop::collection::vec(nios2_line(), 1..100)) {
        let text = "version 2\nnumThreads 1\n".to_owned() + &lines.concat();
        check(text.as_bytes());
    }
}
