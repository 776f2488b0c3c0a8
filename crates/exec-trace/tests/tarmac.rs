//! Tarmac's lines in the forms of their producers.

mod support;

use support::{record, records};
use tracewire_exec_trace::text::{Format, first_error};

const FORMAT: Format = Format::Tarmac;

#[test]
fn instructions() {
    for (line, reported) in [
        // gem5.
        (
            "500 clk cpu0 IT (3) 002105dc 940000f8 O EL3h_s :   BL   0X2109BC",
            "500 clk cpu0 taken id3 002105dc 940000f8/32 O [EL3h] s [BL   0X2109BC]",
        ),
        // Fast Models, with physical addresses.
        (
            "12 clk IT (12) 00008000:0000000000008000_NS e3a00001 A svc_ns : MOV r0,#1",
            "12 clk taken id12 00008000 e3a00001/32 A [svc] ns [MOV r0,#1]",
        ),
        (
            "12 clk IS (12) 00008ffe:000080001ffe_S,000080002000_S f7ff fffe T usr_s : BL x",
            "expected",
        ),
        (
            "12 clk IS (12) 00008ffe:000080001ffe_S,000080002000_S f7fffffe T usr_s : BL x",
            "12 clk skipped id12 00008ffe f7fffffe/32 T [usr] s [BL x]",
        ),
        // The index hex, joined, missing; the address in brackets.
        (
            "7 cs IT (0000001a) 00008000 bf00 T16 thrd : NOP",
            "7 cs taken id26 00008000 bf00/16 T16 [thrd] - [NOP]",
        ),
        (
            "7 cyc IT (00008000:0000001a) 00008000 bf00 T16 NOP",
            "7 cyc taken id26 00008000 bf00/16 T16 [] - [NOP]",
        ),
        (
            "7 cyc IF (00008000:31) 00008000 f3af8000 T32 hnd : NOP.W",
            "7 cyc taken id31 00008000 f3af8000/32 T32 [hnd] - [NOP.W]",
        ),
        (
            "7 ms IT (00008000) e1a00000 A usr : NOP",
            "7 ms taken 00008000 e1a00000/32 A [usr] - [NOP]",
        ),
        (
            "7 us IT 00008000 e1a00000 A EL0t_ns : NOP",
            "7 us taken 00008000 e1a00000/32 A [EL0t] ns [NOP]",
        ),
        // Glued scales, decimal points, no time at all.
        (
            "12ns IT (1) 00008000 e1a00000 A svc : NOP",
            "12 ns taken id1 00008000 e1a00000/32 A [svc] - [NOP]",
        ),
        (
            "12.050 ns cpu3 IT (1) 00008000 e1a00000 A svc : NOP",
            "12.050 ns cpu3 taken id1 00008000 e1a00000/32 A [svc] - [NOP]",
        ),
        (
            "1.5ps IT (1) 00008000 e1a00000 A svc : NOP",
            "1.5 ps taken id1 00008000 e1a00000/32 A [svc] - [NOP]",
        ),
        (
            "IT (1) 00008000 e1a00000 A svc : NOP",
            "0 taken id1 00008000 e1a00000/32 A [svc] - [NOP]",
        ),
        // Register transfer simulators.
        (
            "          0 tic ES  (00020150:e3a00601) A svc_s:          MOV      r0,#0x100000",
            "0 tic taken 00020150 e3a00601/32 A [svc] s [MOV      r0,#0x100000]",
        ),
        (
            "          0 tic ES  (000202c0:0a000006) A svc_s:   CCFAIL BEQ      {pc}+0x20",
            "0 tic skipped 000202c0 0a000006/32 A [svc] s [BEQ      {pc}+0x20]",
        ),
        (
            "0 tic ES  (000202c0:--------) A svc_s: ",
            "0 tic skipped 000202c0 no-opcode A [svc] s []",
        ),
        (
            "          0 tic ES  EXC [0x00] Reset",
            "0 tic Exception [ES  EXC [0x00] Reset]",
        ),
    ] {
        let read = record(FORMAT, line);
        if reported == "expected" {
            assert!(read.starts_with("expected"), "{line}: {read}");
        } else {
            assert_eq!(read, reported, "{line}");
        }
    }
}

#[test]
fn registers() {
    for (line, reported) in [
        (
            "1 clk cpu1 R X0 0000000000100000",
            "1 clk cpu1 [X0] = 0000000000100000",
        ),
        ("1 clk R cpsr 600003cd nZCv", "1 clk [cpsr] = 600003cd"),
        ("1 clk R CPSR 600003cd __C_", "1 clk [CPSR] = 600003cd"),
        ("R SP_SVC 00100000", "0 [SP_SVC] = 00100000"),
        ("1 clk R R1 (USR) 00000001", "1 clk [R1 (USR)] = 00000001"),
        (
            "1 clk R SCTLR(AARCH32) 00000001",
            "1 clk [SCTLR(AARCH32)] = 00000001",
        ),
        (
            "1 clk R V0 00000000_00000000_00000001_00000002",
            "1 clk [V0] = 00000000000000000000000100000002",
        ),
        (
            "1 clk R V0 0000000000000000:0000000100000002",
            "1 clk [V0] = 00000000000000000000000100000002",
        ),
        (
            "1 clk R V0 0000000000000000 0000000100000002",
            "1 clk [V0] = 00000000000000000000000100000002",
        ),
        (
            "1 clk R V0 0000000000000000x0000000100000002",
            "1 clk [V0] = 00000000000000000000000100000002",
        ),
        (
            "1 clk R V0 ----------------_0000000100000002",
            "1 clk [V0] = ????????????????0000000100000002",
        ),
        (
            "1 clk R V0<127:64> 0000000100000002",
            "1 clk [V0]<127:64> = 0000000100000002",
        ),
    ] {
        assert_eq!(
            record(FORMAT, line),
            format!("{reported} of the start"),
            "{line}"
        );
    }
    assert_eq!(
        record(FORMAT, "1 clk R TLBI 00000000"),
        "1 clk Other [R TLBI 00000000]"
    );
}

#[test]
fn memory() {
    for (line, reported) in [
        ("1 clk MR4 00008000 12345678", "Read 4 - 00008000 12345678"),
        (
            "1 clk MW8X 000ffb68:0000000ffb68_NS 0000000000200167",
            "Write 8 X 000ffb68 0000000000200167",
        ),
        (
            "1 clk MW4 X 000ffb68 00200167",
            "Write 4 X 000ffb68 00200167",
        ),
        (
            "1 clk MR16 00008000 0011223344556677_8899aabbccddeeff",
            "Read 16 - 00008000 00112233445566778899aabbccddeeff",
        ),
        (
            "1 clk MR16 00008000 0011223344556677 8899aabbccddeeff",
            "Read 16 - 00008000 00112233445566778899aabbccddeeff",
        ),
        ("1 clk R04 00008000 12345678", "Read 4 - 00008000 12345678"),
        ("1 clk W01 00008000 78", "Write 1 - 00008000 78"),
        (
            "1 clk MNR4O__D 00008000 78563412",
            "Read 4 - 00008000 78563412 LowestAddressFirst",
        ),
        (
            "                    ST 000ffff0 0002015c 00000000 ........ ........    S:00000ffff0    nGnRnE OSH",
            "Write 8 - 000ffff8 0002015c00000000 HighestAddressFirst",
        ),
        (
            "1 clk LD 00010120 ........ 3a...... ........ ........",
            "Read 1 - 0001012b 3a HighestAddressFirst",
        ),
        (
            "1 clk LD 00010120 ######## 3a...... ........ ........",
            "Read 5 - 0001012b ????????3a HighestAddressFirst",
        ),
    ] {
        let read = record(FORMAT, line);
        let (_, read) = read
            .split_once(if read.starts_with("0 ") { "0 " } else { "clk " })
            .unwrap();
        assert_eq!(read, format!("{reported} of the start"), "{line}");
    }
    for line in [
        "1 clk MR4 00008000 (ABORTED)",
        "1 clk MR4 00008000:000000008000 (ABORTED) 00000000",
        "1 clk MNR4O__I 00008000 78563412",
    ] {
        assert!(record(FORMAT, line).starts_with("1 clk Other [M"), "{line}");
    }
    // Several parts of one diagram, and a diagram that goes on.
    let reported = records(
        FORMAT,
        "5 clk ST 00000100 11...... ..22.... ........ ......33\n\
         \x20        00000110 ........ ........ ........ 44556677\n\
         6 clk IT (1) 00008000 e1a00000 A svc : NOP\n",
    );
    assert_eq!(
        reported[..4],
        [
            "5 clk Write 1 - 00000100 33 HighestAddressFirst of the start",
            "5 clk Write 1 - 0000010a 22 HighestAddressFirst of the start",
            "5 clk Write 1 - 0000010f 11 HighestAddressFirst of the start",
            "5 clk Write 4 - 00000110 44556677 HighestAddressFirst of the start",
        ]
    );
    assert!(reported[4].starts_with("6 clk taken"), "{reported:?}");
}

#[test]
fn other_records_are_kept() {
    for (line, reported) in [
        (
            "1 clk E 00008000 00000004 CoreEvent_UNDEF",
            "1 clk Exception [E 00008000 00000004 CoreEvent_UNDEF]",
        ),
        (
            "1 clk cpu2 E DebugEvent_HALT",
            "1 clk cpu2 Other [E DebugEvent_HALT]",
        ),
        (
            "1 clk EXC [0x00] Reset",
            "1 clk Exception [EXC [0x00] Reset]",
        ),
        (
            "                    BR (000204f0) A",
            "0 Other [BR (000204f0) A]",
        ),
        (
            "1 clk TTW DTLB LPAE 1:3 0000 0000",
            "1 clk Other [TTW DTLB LPAE 1:3 0000 0000]",
        ),
        (
            "1 clk SIGNAL: SIGNAL=IRQ",
            "1 clk Other [SIGNAL: SIGNAL=IRQ]",
        ),
        ("Tarmac Text Rev 3t", "0 Header [Tarmac Text Rev 3t]"),
    ] {
        assert_eq!(record(FORMAT, line), reported, "{line}");
    }
    for line in [
        "1 clk @@@",
        "GARBAGE of a line",
        "1 clk ES 00020150",
        "1 clk LD 00010120 ........ ........",
        "1 clk LD 00010120 ........ ........ ........ .......",
        "1 clk R V0<64:127> 00",
        "1 clk R V0<7:0> 0000",
        "1 clk MR4 00008000 123456789",
        "1 clk MR4 00008000",
        "1.x clk R r0 00000000",
        "1 clk IT (1) 00008000 e1a00000 B svc : NOP",
    ] {
        assert!(first_error(FORMAT, line.as_bytes()).is_some(), "{line}");
    }
}

#[test]
fn lines_go_to_the_instruction_of_their_cpu() {
    let reported = records(
        FORMAT,
        "1 clk cpu0 IT (1) 00008000 e1a00000 A svc : NOP\n\
         1 clk cpu1 IT (1) 00008000 e1a00000 A svc : NOP\n\
         1 clk cpu0 R r0 00000001\n\
         1 clk cpu1 R r0 00000002\n\
         cpu0 R r1 00000003\n\
         2 clk cpu0 R r2 00000004\n\
         2 clk cpu0 IT (2) 00008004 e1a00000 A svc : NOP\n",
    );
    let owners: Vec<&str> = reported
        .iter()
        .filter_map(|reported| reported.split_once(" of ").map(|(_, owner)| owner))
        .collect();
    assert_eq!(owners, ["0", "1", "0", "2"]);
}
