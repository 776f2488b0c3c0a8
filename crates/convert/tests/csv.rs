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
    // An expression is shown as the caller says.
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
