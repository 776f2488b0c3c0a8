//! Lines that QEMU4V's documentation excludes are reported: valid records, and the same with one field spoiled.

use proptest::prelude::*;
use tracewire_exec_analysis::check::check;
use tracewire_exec_trace::text::Format;

/// A line in the words of the page: the fields in their order.
#[derive(Clone, Debug)]
enum Record {
    /// Time, scale, cpu, flag, `(id)`, address, opcode, set, mode and security, disassembly.
    Instruction([String; 10]),
    /// Time, scale, `M<rw><size><attribute>`, address, data.
    Access([String; 5], u32),
    /// Time, scale, `R`, register, value.
    Register([String; 5]),
}

impl Record {
    fn line(&self) -> String {
        match self {
            Self::Instruction(fields) => {
                let (head, disassembly) = fields.split_at(9);
                format!("{} : {}\n", head.join(" "), disassembly[0])
            }
            Self::Access(fields, _) => fields.join(" ") + "\n",
            Self::Register(fields) => fields.join(" ") + "\n",
        }
    }
}

fn hex(digits: usize) -> impl Strategy<Value = String> {
    any::<u128>().prop_map(move |number| format!("{number:032x}")[..digits].to_owned())
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

/// An instruction, and its effects. Times, numbers and addresses are filled in when all are there.
fn instruction() -> impl Strategy<Value = Record> {
    let mode = (
        one_of(&["svc", "irq", "fiq", "usr", "mon", "sys", "abt", "und"]),
        one_of(&["", "_s", "_ns"]),
    );
    let width = prop::sample::select(vec![4usize, 8, 16]);
    (
        0..4u32,
        one_of(&["IT", "IS"]),
        width.prop_flat_map(hex),
        one_of(&["A", "T", "X"]),
        mode.prop_map(|(mode, security)| mode + &security),
    )
        .prop_map(|(cpu, flag, opcode, set, mode)| {
            let empty = String::new;
            Record::Instruction([
                empty(),
                empty(),
                cpu.to_string(),
                flag,
                empty(),
                empty(),
                opcode,
                set,
                mode,
                empty(),
            ])
        })
}

fn effect() -> impl Strategy<Value = Record> {
    let size = prop::sample::select(vec![1u32, 2, 4, 8, 16]);
    let access = (one_of(&["R", "W"]), size, one_of(&["", "X", "T"])).prop_flat_map(
        |(kind, size, attribute)| {
            hex(size as usize * 2).prop_map(move |data| {
                let word = format!("M{kind}{size}{attribute}");
                Record::Access(
                    [String::new(), String::new(), word, String::new(), data],
                    size,
                )
            })
        },
    );
    let register = (one_of(&["r8", "hi", "pc", "f31", "x0"]), hex(8));
    let register = register.prop_map(|(name, value)| {
        Record::Register([String::new(), String::new(), "R".to_owned(), name, value])
    });
    prop_oneof![access, register]
}

/// A trace that the page allows: one instruction a tick, each other than those before, no address twice.
fn trace() -> impl Strategy<Value = Vec<Record>> {
    let group = (instruction(), prop::collection::vec(effect(), 0..4));
    let unit = one_of(&["clk", "ns", "ps", "us"]);
    (prop::collection::vec(group, 2..20), unit).prop_map(|(groups, unit)| {
        let mut records = Vec::new();
        let mut address = 0x1000;
        for (number, (mut instruction, effects)) in groups.into_iter().enumerate() {
            let time = (number + 1).to_string();
            if let Record::Instruction(fields) = &mut instruction {
                fields[0].clone_from(&time);
                fields[1].clone_from(&unit);
                fields[2] = "0".to_owned();
                fields[4] = format!("({})", number + 1);
                fields[5] = format!("{:08x}", number * 8);
                fields[9] = format!("op{number} r8, 0x{number:x}");
            }
            records.push(instruction);
            for mut effect in effects {
                match &mut effect {
                    Record::Access(fields, size) => {
                        fields[0].clone_from(&time);
                        fields[1].clone_from(&unit);
                        fields[3] = format!("{address:08x}");
                        address += u64::from(*size);
                    }
                    Record::Register(fields) => {
                        fields[0].clone_from(&time);
                        fields[1].clone_from(&unit);
                    }
                    Record::Instruction(_) => unreachable!(),
                }
                records.push(effect);
            }
        }
        records
    })
}

/// Spoils one field, against the one rule that is named.
fn spoilt(record: &Record, choice: usize) -> (Record, &'static str) {
    let mut record = record.clone();
    let (rules, place): (&[(usize, &str, &str)], &mut [String]) = match &mut record {
        Record::Instruction(fields) => (
            &[
                (0, "1x", "a time that is not decimal"),
                (1, "parsec", "a unit that there is not"),
                (1, "ms", "a unit that changes"),
                (2, "a", "a cpu that is not decimal"),
                (3, "IQ", "neither taken nor skipped"),
                (4, "5", "a number without parentheses"),
                (4, "(a)", "a number that is not decimal"),
                (5, "0000000g", "an address that is not hex"),
                (5, "00000000000000000", "an address of 17 digits"),
                (6, "3c0800", "an opcode of 24 bits"),
                (6, "3c", "an opcode of 8 bits"),
                (6, "3c0", "an opcode of 12 bits"),
                (6, "3c08zzzz", "an opcode that is not hex"),
                (6, "3c0800013c08000100", "an opcode of 72 bits"),
                (7, "T16", "a set of another format"),
                (7, "Q", "a set that there is not"),
                (8, "foo", "a mode that there is not"),
                (8, "foo_zz", "neither mode nor security that there is"),
                (8, "svc_zz", "a security that there is not"),
                (8, "SVC", "a mode in capitals"),
                (8, "svc_", "an empty security"),
                (8, "svc_s_ns", "two securities"),
                (8, "", "no mode"),
            ],
            &mut fields[..],
        ),
        Record::Access(fields, _) => (
            &[
                (0, "-1", "a time that is negative"),
                (1, "CLK", "a unit in capitals"),
                (1, "ms", "a unit that changes"),
                (2, "MR3", "a size of 3"),
                (2, "MW0", "a size of 0"),
                (2, "MR", "no size"),
                (2, "MX4", "neither read nor written"),
                (2, "MR4Q", "an attribute that there is not"),
                (3, "x", "an address that is not hex"),
                (4, "short", "too little data"),
                (4, "long", "too much data"),
                (4, "half", "half a byte too little"),
                (4, "xx", "data that is not hex"),
                (4, "", "no data"),
            ],
            &mut fields[..],
        ),
        Record::Register(fields) => (
            &[
                (0, "", "no time"),
                (1, "ms", "a unit that changes"),
                (2, "RR", "another record"),
                (3, "R8", "a register in capitals"),
                (3, "", "no register"),
                (4, "12345xyz", "a value that is not hex"),
                (4, "", "no value"),
            ],
            &mut fields[..],
        ),
    };
    let (field, spoilt, rule) = rules[choice % rules.len()];
    let before = &place[field];
    place[field] = match spoilt {
        "short" => before[..before.len() - 2].to_owned(),
        "half" => before[..before.len() - 1].to_owned(),
        "long" => before.clone() + "00",
        spoilt => spoilt.to_owned(),
    };
    (record, rule)
}

fn text(records: &[Record]) -> String {
    records.iter().map(Record::line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn what_the_page_excludes_is_named_with_its_line(
        mut records in trace(),
        at in any::<prop::sample::Index>(),
        choice in any::<usize>(),
    ) {
        let report = check(Format::Qemu4v, text(&records).as_bytes(), None, None);
        prop_assert_eq!(&report.findings, &[], "{}", text(&records));
        let at = at.index(records.len());
        let (record, rule) = spoilt(&records[at], choice);
        records[at] = record;
        let text = text(&records);
        let report = check(Format::Qemu4v, text.as_bytes(), None, None);
        // The first line's unit is the trace's: another one is reported for the next line.
        let line = match (at, rule) {
            (0, "a unit that changes") => 2,
            _ => at as u64 + 1,
        };
        prop_assert!(
            report.findings.iter().any(|finding| finding.line == line),
            "{rule} in line {line}: {:#?}\n{text}", report.findings
        );
    }
}

/// The reports of users, word by word.
#[test]
fn each_rule_in_words() {
    for (line, expected) in [
        (
            "1 clk MR4 00001000 0000",
            "too little data: 4 hex digits for 4 bytes",
        ),
        (
            "1 clk MW8 00001000 0011",
            "too little data: 4 hex digits for 8 bytes",
        ),
        ("1 clk MR3 00001000 000000", "an access of 3 bytes"),
        (
            "1 clk R R8 00000000",
            "the register `R8`: expected a name in lower case",
        ),
        (
            "1 clk 0 IT (2) 00000008 3c0800 A svc : x",
            "an opcode of 24 bits",
        ),
        (
            "1 clk 0 IT (2) 00000008 3c A svc : x",
            "an opcode of 8 bits",
        ),
        (
            "1 clk 0 IT (2) 00000008 3c080001 A foo_zz : x",
            "the mode `foo`",
        ),
        (
            "1 clk 0 IT (2) 00000008 3c080001 A foo_zz : x",
            "the security state `zz`",
        ),
        (
            "1 clk 0 IT (2) 00000008 3c080001 A svc_zz : x",
            "the security state `zz`",
        ),
        (
            "1 ps R r8 00000000",
            "the unit of time changes: expected clk as above, not ps",
        ),
    ] {
        let text = format!("1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n{line}\n");
        let report = check(Format::Qemu4v, text.as_bytes(), None, None);
        let found = report
            .findings
            .iter()
            .any(|finding| finding.line == 2 && finding.fault.to_string().contains(expected));
        assert!(found, "{line}: {:#?}", report.findings);
    }
}
