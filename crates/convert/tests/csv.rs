//! Tables of what was collected.

mod files;

use tracewire_convert::csv::{self, Column};
use tracewire_tracefile::TraceFile;

fn table(file: &TraceFile, columns: &[&str]) -> Vec<String> {
    let columns: Vec<Column> = columns
        .iter()
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")))
        .collect();
    let mut out = Vec::new();
    // The caller formats an expression.
    let value = |frame: tracewire_tracefile::Frame<'_>, text: &str| {
        (frame.number().0 == 0).then(|| format!("<{text}>, \"{}\"", frame.tracepoint()))
    };
    csv::write(file, &columns, value, &mut out).expect("written");
    String::from_utf8(out)
        .expect("text")
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn registers_variables_memory_and_expressions() {
    let lines = table(
        &files::sample(),
        &[
            "frame",
            "pc",
            "$hits",
            "$rsp",
            "$eflags",
            "0x555555558080@6",
            "j->name",
            "stepping",
        ],
    );
    assert_eq!(
        lines[0],
        "frame,pc,$hits,$rsp,$eflags,0x555555558080@6,j->name,stepping"
    );
    let rsp = files::sample()
        .frames()
        .next()
        .and_then(|frame| frame.register_value_named("rsp"));
    let first = format!("0,0x555555555158,1,{:#x},", rsp.expect("rsp was collected"));
    assert!(lines[1].starts_with(&first), "{}", lines[1]);
    assert!(
        lines[1].ends_with("????,\"<j->name>, \"\"2\"\"\",false"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("1,0x55555555515c,,"), "{}", lines[2]);
    assert_eq!(lines.len(), 25);
}

#[test]
fn the_standard_columns() {
    let file = files::sample();
    let titles: Vec<_> = Column::standard(&file).iter().map(Column::title).collect();
    assert_eq!(
        titles,
        [
            "frame",
            "tracepoint",
            "pc",
            "time_us",
            "thread",
            "cpu",
            "$hits",
            "$seen"
        ]
    );
}

#[test]
fn columns_are_read() {
    for text in ["frame", "$rax", "0x10@4", "$hits + 1", "a@b", "x, y"] {
        let column: Column = text.parse().expect("a column");
        assert_eq!(column.title(), text);
    }
    for text in ["", "0x10@0", "0xzz@4", "0x10@99999999"] {
        assert!(text.parse::<Column>().is_err(), "{text}");
    }
}

#[test]
fn control_characters_of_names_and_values_are_escaped() {
    let hostile: String = (0..0x20u8)
        .filter(|byte| *byte != b'\n')
        .map(char::from)
        .chain(['\x7f', '\u{80}', '\u{9f}'])
        .collect();
    // The variable's name, in hexadecimal digits.
    let name: String = hostile.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lines = format!("R 4\nstatus 0\ntsv 1:0:0:{name}\ntp T1:10:E:0:0\n\n");
    let frame = b"\x01\0\0\0\0\0";
    let bytes = [b"\x7fTRACE0\n", lines.as_bytes(), frame, &[0; 2]].concat();
    let file = TraceFile::from_bytes(bytes).expect("a trace file");
    let mut columns = Column::standard(&file);
    assert!(
        columns
            .iter()
            .any(|column| column.title() == format!("${hostile}"))
    );
    columns.push(Column::Expression("value".to_owned()));
    let mut out = Vec::new();
    csv::write(&file, &columns, |_, _| Some(hostile.clone()), &mut out).expect("written");
    let text = String::from_utf8(out).expect("text");
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert_eq!(text.matches("\\u{9f}").count(), 2, "{text:?}");
}
