//! QEMU4V's and MicroTESK's lines: read field by field, and written as they were.

mod support;

use support::{record, records};
use tracewire_exec_trace::record::{
    Access, Event, Instruction, Line, Owner, Record, RegisterWrite,
};
use tracewire_exec_trace::text::{Format, Piece, Sink, first_error, microtesk, qemu4v, read};

const FORMAT: Format = Format::Qemu4v;

#[test]
fn the_documentation_s_own_examples() {
    assert_eq!(
        record(
            FORMAT,
            "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1"
        ),
        "1 clk cpu0 taken id1 00000004 3c080001/32 A [svc] - [lui t0,0x1]"
    );
    assert_eq!(
        record(FORMAT, "10 clk MR8 00103fc4 0010400000000000"),
        "10 clk Read 8 - 00103fc4 0010400000000000 of the start"
    );
    assert_eq!(
        record(FORMAT, "14 clk R r8 00000000"),
        "14 clk [r8] = 00000000 of the start"
    );
}

#[test]
fn every_mode_security_set_flag_and_width() {
    for mode in ["svc", "irq", "fiq", "usr", "mon", "sys", "abt", "und"] {
        for security in ["s", "ns", ""] {
            for set in ["A", "T", "X"] {
                for (flag, said) in [("IT", "taken"), ("IS", "skipped")] {
                    for (opcode, bits) in [
                        ("bf00", 16),
                        ("e1a00000", 32),
                        ("0123456789abcdef", 64),
                        ("c5", 8),
                        ("48b80123456789abcdef", 80),
                    ] {
                        let suffix = match security {
                            "" => String::new(),
                            _ => format!("_{security}"),
                        };
                        let line = format!(
                            "123 ns 3 {flag} (77) ffffffff80001234 {opcode} {set} {mode}{suffix} : add r0, r1, #4 ; x : y"
                        );
                        let dash = if security.is_empty() { "-" } else { security };
                        assert_eq!(
                            record(FORMAT, &line),
                            format!(
                                "123 ns cpu3 {said} id77 ffffffff80001234 {opcode}/{bits} {set} [{mode}] {dash} [add r0, r1, #4 ; x : y]"
                            )
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_access() {
    for (letter, kind) in [("R", "Read"), ("W", "Write")] {
        for size in [1, 2, 3, 4, 5, 8, 16, 32] {
            for attribute in ["", "X", "T"] {
                let data: String = "0123456789abcdef".chars().cycle().take(size * 2).collect();
                let line = format!("9 ps M{letter}{size}{attribute} 0000ffff {data}");
                let dash = if attribute.is_empty() { "-" } else { attribute };
                assert_eq!(
                    record(FORMAT, &line),
                    format!("9 ps {kind} {size} {dash} 0000ffff {data} of the start")
                );
            }
        }
    }
}

#[test]
fn lines_go_to_the_instruction_of_their_time() {
    let reported = records(
        FORMAT,
        "1 clk R r1 01\n\
         2 clk R r2 02\n\
         2 clk 0 IT (1) 00000000 00000000 A svc : nop\n\
         2 clk R r3 03\n\
         3 clk 1 IT (1) 00000000 00000000 A svc : nop\n\
         2 clk R r4 04\n\
         9 clk R r5 05\n\
         4 clk MW1 00000000 06\n\
         4 clk 0 IT (2) 00000004 00000000 A svc : nop\n\
         5 clk 0 IT (3) 00000008 00000000 A svc : nop\n",
    );
    let owners: Vec<&str> = reported
        .iter()
        .filter_map(|reported| reported.split_once(" of ").map(|(_, owner)| owner))
        .collect();
    assert_eq!(owners, ["the start", "0", "0", "0", "1", "2"]);
}

#[test]
fn what_is_wrong_is_named_and_underlined() {
    for (line, expected, token) in [
        ("x clk R r1 00", "the time, a decimal number", "x"),
        ("1 parsec R r1 00", "a scale", "parsec"),
        ("1 clk Q r1 00", "a cpu number, MR, MW or R", "Q"),
        ("1 clk", "a cpu number, MR, MW or R", ""),
        ("1 clk 0 IQ (1) 00 00 A svc : x", "IT or IS", "IQ"),
        ("1 clk 0 IT 1 00 00 A svc : x", "parentheses", "1"),
        ("1 clk 0 IT (1 00 00 A svc : x", "`)`", ""),
        ("1 clk 0 IT (1) zz 00 A svc : x", "the address in hex", "zz"),
        ("1 clk 0 IT (1) 00 zz A svc : x", "the opcode in hex", "zz"),
        ("1 clk 0 IT (1) 00 00 B svc : x", "the instruction set", "B"),
        (
            "1 clk 0 IT (1) 00 00 A svc",
            "`:` before the disassembly",
            "",
        ),
        ("1 clk 0 IT (1) 00 00 A : x", "the mode", ":"),
        ("1 clk MR 00 00", "a size", "MR"),
        ("1 clk MQ4 00 00", "MR or MW", "MQ4"),
        ("1 clk MR4Z 00 00", "X or T", "MR4Z"),
        ("1 clk MR0 00 00", "a size from 1", "MR0"),
        ("1 clk MR99999 00 00", "a size from 1", "MR99999"),
        ("1 clk MR1 00 0000", "two hex digits a byte", "0000"),
        ("1 clk MR4 00 00x0", "the end of the line", "x0"),
        (
            "1 clk MR4 00112233445566778 00",
            "at most 16 digits",
            "00112233445566778",
        ),
        ("1 clk R r1", "value in hex", ""),
        ("1 clk R r1 00 00", "the end of the line", "00"),
        (
            "99999999999999999999 clk R r1 00",
            "the time",
            "99999999999999999999",
        ),
    ] {
        let error = first_error(FORMAT, line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        assert!(error.to_string().contains(expected), "{line}: {error}");
        let at = error.start as usize..error.end as usize;
        assert!(
            line[at.clone()].starts_with(token),
            "{line}: {:?}",
            &line[at]
        );
        let shown = error.underlined(line.as_bytes());
        let (first, second) = shown.split_once('\n').unwrap();
        assert_eq!(first, line);
        assert_eq!(second.find('^'), Some(error.start as usize), "{shown}");
    }
}

#[test]
fn a_bad_line_is_reported_and_the_rest_goes_on() {
    let reported = records(
        FORMAT,
        "1 clk 0 IT (1) 00000000 00000000 A svc : nop\r\n\
         \n\
         @@ garbage \u{1}\n\
         2 clk 0 IT (2) 00000004 00000000 A svc : nop\n\
         2 clk R r1 0000",
    );
    assert_eq!(reported.len(), 4);
    assert_eq!(reported[1], "expected the time, a decimal number, not [@@]");
    assert_eq!(reported[3], "2 clk [r1] = 0000 of 1");
    assert!(reported[0].ends_with("[nop]"), "{}", reported[0]);
}

#[derive(Default)]
struct Writer {
    qemu4v: Vec<u8>,
    microtesk: Vec<u8>,
    count: u64,
}

impl Writer {
    fn write(&mut self, record: &Record<'_>) {
        assert!(qemu4v::write_record(&mut self.qemu4v, record, self.count));
        assert!(microtesk::write_record(
            &mut self.microtesk,
            record,
            self.count
        ));
    }
}

impl Sink for Writer {
    fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
        self.write(&Record::Instruction(*instruction));
        self.count += 1;
    }
    fn access(&mut self, _: Line, _: Owner, access: &Access<'_>) {
        self.write(&Record::Access(*access));
    }
    fn register(&mut self, _: Line, _: Owner, write: &RegisterWrite<'_>) {
        self.write(&Record::Register(*write));
    }
    fn event(&mut self, _: Line, event: &Event<'_>) {
        let mut out = Vec::new();
        assert!(!qemu4v::write_record(&mut out, &Record::Event(*event), 0) && out.is_empty());
    }
}

#[test]
fn canonical_text_is_written_back() {
    let text = "1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n\
                1 clk R r8 00010000\n\
                2 ns 17 IS (2) 0000000000000008 bf00 T usr_ns : nop\n\
                2 ns MW16X 00103fc4 00112233445566778899aabbccddeeff\n\
                2 ns MR8 00103fc4 0010400000000000\n\
                3 ps 0 IT (18446744073709551615) ffffffffffffffff 0123456789abcdef X mon_s : x\n\
                3 ps MR3T 0 ABCDEF\n\
                4 us 0 IT (3) 00000004 48b80123456789abcdef A svc : movabs\n";
    for format in [Format::Qemu4v, Format::Microtesk] {
        let mut writer = Writer::default();
        read(
            format,
            text.as_bytes(),
            &Piece::whole(text.as_bytes()),
            &mut writer,
        );
        assert_eq!(String::from_utf8(writer.qemu4v).unwrap(), text);
        let microtesk = String::from_utf8(writer.microtesk).unwrap();
        assert!(microtesk.starts_with(
            "1 clk 0 IT (0) 0000000000000004 3c080001 A svc_ns : lui t0,0x1\n\
             1 clk R r8 00010000\n\
             2 ns 17 IS (1) 0000000000000008 bf00 T svc_ns : nop\n\
             2 ns MW16 0000000000103fc4 00112233445566778899aabbccddeeff\n"
        ));
    }
}

#[test]
fn what_is_written_is_written_the_same_again() {
    // Fewer digits than bytes, so that zeros come before them: of a number, and of more than one holds.
    for line in ["1 clk MW8 100 ABC\n", "1 clk MW16 100 ABC\n"] {
        let written = |text: &[u8]| {
            let mut writer = Writer::default();
            read(Format::Microtesk, text, &Piece::whole(text), &mut writer);
            String::from_utf8(writer.qemu4v).unwrap()
        };
        let once = written(line.as_bytes());
        assert!(once.to_lowercase().ends_with("00abc\n"), "{once}");
        assert_eq!(written(once.as_bytes()), once);
    }
}

#[test]
fn formats_are_known_from_content() {
    let qemu4v = "garbage\n1 clk R r8 00010000\n1 clk 0 IT (1) 00000004 3c080001 A svc : lui\n";
    assert_eq!(Format::detect(qemu4v.as_bytes()), Some(Format::Qemu4v));
    let microtesk = "0 clk 0 IT (0) ffffffffa0002000 3c080001 A svc_ns : lui t0, 0x1\n";
    assert_eq!(
        Format::detect(microtesk.as_bytes()),
        Some(Format::Microtesk)
    );
    let later = "0 clk 0 IT (1) ffffffffa0002000 3c080001 A svc_ns : lui t0, 0x1\n";
    assert_eq!(Format::detect(later.as_bytes()), Some(Format::Qemu4v));
    for tarmac in [
        "0 clk cpu0 IT (1) 002105d4 d2a00200 O EL3h_s : MOVZ X0, #16\n",
        "Tarmac Text Rev 3t\n",
        "   0 tic ES  (00020150:e3a00601) A svc_s:   MOV r0,#0x100000\n",
    ] {
        assert_eq!(Format::detect(tarmac.as_bytes()), Some(Format::Tarmac));
    }
    assert_eq!(
        Format::detect(b"version 2\nnumThreads 1\n"),
        Some(Format::Nios2V2)
    );
    assert_eq!(
        Format::detect(b"version 3\nnumThreads 1\n"),
        Some(Format::Nios2V3)
    );
    assert_eq!(
        Format::detect(b"5 clk R r8 00010000\n"),
        Some(Format::Qemu4v)
    );
    assert_eq!(Format::detect(b""), None);
    assert_eq!(
        Format::detect(b"Dear reader,\nthis is no trace.\nE mc2\n"),
        None
    );
    assert_eq!(Format::detect(b"\x7fTRACE0\nR 114\n"), None);
}
