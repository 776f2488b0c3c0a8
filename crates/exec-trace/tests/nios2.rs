//! What the Verilog model of a Nios II processor writes.

mod support;

use support::records;
use tracewire_exec_trace::text::Format;

/// A line of version 2: program counter, instruction word, register written, its number, value, address, data, byte
/// enables.
fn version_2(time: u32, fields: [&str; 8], more: &str) -> String {
    let [pc, word, written, register, value, address, data, enables] = fields;
    format!(
        "{time} ns: 0,{pc},0,0,0,{word},{written},{register},{value},{address},{data},{enables},0,0,0,0,0,0,0,0{more}\n"
    )
}

#[test]
fn version_2_small_and_pipelined() {
    let ten = ",0,0,0,0,0,0,0,0,0,0";
    for more in ["", ten] {
        let text = String::from("version 2\nnumThreads 1\n")
            + &format!("10 ns: 1,0,0,0,0,x,x,0,0,x,x,x,0,0,0,0,0,0,0,0{more}\n")
            // addi r2, zero, 5
            + &version_2(20, ["20", "800144", "1", "2", "5", "0", "0", "0"], more)
            // stb r2, 2(r0): the byte in its lane
            + &version_2(30, ["24", "800085", "0", "0", "0", "102", "05050505", "4"], more)
            // ldb r3, 3(r0), sign-extended
            + &version_2(40, ["28", "c000c7", "1", "3", "ffffff80", "103", "0", "8"], more)
            // stw r3, with digits that are not known
            + &version_2(50, ["2c", "c00015", "0", "0", "0", "100", "ffffxx80", "f"], more)
            // ldw to r0, which is never written
            + &version_2(60, ["30", "17", "1", "0", "12", "100", "0", "f"], more);
        let reported = records(Format::Nios2V2, &text);
        let control = |time: u32, owner: u32| {
            ["status", "estatus", "bstatus", "ienable", "ipending"]
                .map(|name| format!("{time} ns [{name}] = 00000000 of {owner}"))
        };
        let mut expected = vec![
            "0 Header [version 2]".to_owned(),
            "0 Header [numThreads 1]".to_owned(),
            format!("10 ns Exception [1,0,0,0,0,x,x,0,0,x,x,x,0,0,0,0,0,0,0,0{more}]"),
            "20 ns taken 00000020 00800144/32 - [] - []".to_owned(),
            "20 ns [r2] = 00000005 of 0".to_owned(),
        ];
        expected.extend(control(20, 0));
        expected.extend(
            [
                "30 ns taken 00000024 00800085/32 - [] - []",
                "30 ns Write 1 - 00000102 05 of 1",
                "40 ns taken 00000028 00c000c7/32 - [] - []",
                "40 ns Read 1 - 00000103 80 of 2",
                "40 ns [r3] = ffffff80 of 2",
                "50 ns taken 0000002c 00c00015/32 - [] - []",
                "50 ns Write 4 - 00000100 ffff??80 of 3",
                "60 ns taken 00000030 00000017/32 - [] - []",
                "60 ns Read 4 - 00000100 ???????? of 4",
            ]
            .map(str::to_owned),
        );
        assert_eq!(reported, expected);
    }
}

#[test]
fn version_3() {
    let zeros = ["0"; 10].join(",");
    let line = |time: u32, valid: u32, status: &str, exception: u32| {
        format!(
            "{time} ns: 0,1000,0,0,0,800144,{valid},1,2,0,5,0,0,0,0,0,{status},0,0,0,0,{zeros},{exception},0,0,0,0\n"
        )
    };
    let text = line(10, 1, "1", 0) + &line(20, 0, "1", 0) + &line(30, 1, "3", 1);
    let reported = records(Format::Nios2V3, &text);
    assert_eq!(reported[0], "10 ns taken 00001000 00800144/32 - [] - []");
    assert_eq!(reported[1], "10 ns [r2] = 00000005 of 0");
    assert_eq!(reported[2], "10 ns [status] = 00000001 of 0");
    assert_eq!(reported[7], "20 ns skipped 00001000 00800144/32 - [] - []");
    assert_eq!(reported[8], "30 ns taken 00001000 00800144/32 - [] - []");
    assert_eq!(reported[10], "30 ns [status] = 00000003 of 2");
    assert!(
        reported[11].starts_with("30 ns Exception"),
        "{}",
        reported[11]
    );
    assert_eq!(reported.len(), 12);
    assert_eq!(Format::detect(text.as_bytes()), Some(Format::Nios2V3));
}

#[test]
fn wrong_lines_are_reported() {
    let reported = records(
        Format::Nios2V2,
        "version 2\n10 ns: 0,1,2\n10 ns 0,1\nx ns: 0\n10 ns: 0,1,q\n",
    );
    assert!(
        reported[1].starts_with("expected 20 or 30 fields"),
        "{reported:?}"
    );
    assert!(
        reported[2].starts_with("expected a scale") || reported[2].starts_with("expected `:`"),
        "{reported:?}"
    );
    assert!(reported[3].starts_with("expected the time"), "{reported:?}");
    assert!(
        reported[4].starts_with("expected a field in hex"),
        "{reported:?}"
    );
}
