//! Every fact that the sample files hold, as people and scripts see it.

use tracewire_model::FrameNumber;
use tracewire_test_support::sample;
use tracewire_tracefile::TraceFile;
use tracewire_views::{
    Criteria, Info, JsonWriter, LineCriterion, Program, Viewer, gdb_commands, table,
};

fn open(name: &str) -> TraceFile {
    TraceFile::open(sample(name)).expect("a trace file")
}

/// The text on a terminal without colours.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    let mut escaped = false;
    for character in text.chars() {
        match (escaped, character) {
            (false, '\u{1b}') => escaped = true,
            (true, 'm') => escaped = false,
            (true, _) => {}
            (false, character) => shown.push(character),
        }
    }
    shown
}

/// All of one frame, for people.
fn whole_frame(view: &tracewire_views::FrameView) -> String {
    let mut text = Vec::new();
    table::write_frame(&mut text, view, None).expect("written");
    String::from_utf8(text).expect("text")
}

/// JSON with a line a field, so that a difference can be seen.
fn pretty(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
    serde_json::to_string_pretty(&value).expect("JSON")
}

fn views(name: &str, program: &Program) -> Vec<tracewire_views::FrameView> {
    let file = open(name);
    let viewer = Viewer::new(&file, program);
    file.frames().map(|frame| viewer.view(frame)).collect()
}

/// The first frame of a file as JSON.
fn first_json(name: &str, program: &Program) -> String {
    let file = open(name);
    let frame = file.frame(FrameNumber(0)).expect("a frame");
    let mut json = Vec::new();
    let viewer = Viewer::new(&file, program);
    JsonWriter::new(&viewer).write(frame, &mut json);
    String::from_utf8(json).expect("text")
}

#[test]
fn info_as_json() {
    for name in ["sample.tf", "tfile-basic.tf", "tfile-error.tf"] {
        let info = Info::of(&open(name));
        insta::assert_snapshot!(format!("info_json_{name}"), pretty(&info.json()));
    }
}

fn rows(name: &str, program: &Program) -> Vec<tracewire_views::FrameRow> {
    let file = open(name);
    let viewer = Viewer::new(&file, program);
    file.frames().map(|frame| viewer.row(frame)).collect()
}

#[test]
fn info_for_people() {
    for name in ["sample.tf", "tfile-basic.tf", "tfile-error.tf"] {
        let info = Info::of(&open(name));
        insta::assert_snapshot!(format!("info_{name}"), plain(&table::info(&info, name)));
    }
}

#[test]
fn frames_without_symbols() {
    let none = Program::default();
    let shown = views("sample.tf", &none);
    insta::assert_snapshot!(
        "frames_bare",
        plain(&table::frames(&rows("sample.tf", &none), None))
    );
    insta::assert_snapshot!("frame_bare", plain(&whole_frame(&shown[6])));
    let basic = views("tfile-basic.tf", &none);
    let json = first_json("tfile-basic.tf", &none);
    insta::assert_snapshot!("basic_json", pretty(&json));
    insta::assert_snapshot!("basic", plain(&whole_frame(&basic[0])));
}

#[test]
fn frames_with_symbols() {
    let file = open("sample.tf");
    let program = Program::of(&file, &[sample("sample")]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    insta::assert_snapshot!(
        "frames",
        plain(&table::frames(&rows("sample.tf", &program), None))
    );
    let values = file.frames().map(|frame| {
        let mut json = Vec::new();
        JsonWriter::new(&viewer).write(frame, &mut json);
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        serde_json::json!([json["frame"], json["values"]])
    });
    let json = values.collect::<serde_json::Value>().to_string();
    insta::assert_snapshot!("values_json", pretty(&json));
}

#[test]
fn frames_are_found() {
    let file = open("sample.tf");
    let program = Program::of(&file, &[sample("sample")]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    let found = |criteria: Criteria| -> Vec<u64> {
        criteria
            .find(&viewer, FrameNumber(0))
            .map(|frame| frame.expect("a good search").number().0)
            .collect()
    };
    let line = |text| Criteria {
        line: Some(LineCriterion::parse(text).expect("a line")),
        ..Criteria::default()
    };
    assert_eq!(found(line("sample.c:14")), [6, 13, 17]);
    assert_eq!(found(line("./sample.c:14")), [6, 13, 17]);
    assert_eq!(found(line("sample.c:99")), [0; 0]);
    let condition = |text: &str| Criteria {
        condition: Some(text.to_owned()),
        ..Criteria::default()
    };
    assert_eq!(found(condition("depth == 2")), [10]);
    assert_eq!(found(condition("j->id == 2 && depth == 0")), [7]);
    assert_eq!(found(condition("$hits > 6")), [21]);
    assert_eq!(found(condition("no_such_name == 1")), [0; 0]);
    let mut first = condition("depth >= 0");
    first.tracepoint(3);
    assert_eq!(found(first), [0; 0]);
    let wrong = condition("depth ==");
    let error = wrong.find(&viewer, FrameNumber(0)).find_map(Result::err);
    assert!(error.is_some_and(|error| error.to_string().contains("depth ==")));
}

#[test]
fn gdb_opens_it() {
    let file = open("sample.tf");
    let program = sample("sample");
    let commands = gdb_commands(
        &file,
        "/x/my file.tf".as_ref(),
        std::slice::from_ref(&program),
    );
    let commands = commands.expect("the program can be used");
    let mut lines = commands.lines().filter(|line| !line.starts_with('#'));
    let moved = format!("add-symbol-file -o 0x555555554000 {}", program.display());
    assert!(lines.any(|line| line == moved), "{commands}");
    assert_eq!(lines.next_back(), Some("target tfile \"/x/my file.tf\""));
}

/// A trace file of one frame whose description has these lines too.
fn with_lines(lines: &str) -> TraceFile {
    let text = format!(
        "\x7fTRACE0\nR 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\n{lines}\n\x01\0\0\0\0\0\0\0\0\0"
    );
    TraceFile::from_bytes(text.into_bytes()).expect("a trace file")
}

/// A short file can name any number of loads of a large program: it is read once, and the number of module sets is limited.
#[test]
fn modules_that_come_and_go_are_read_once() {
    let path: String = sample("sample")
        .to_str()
        .expect("a name")
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let line =
        |from: u32| format!("module 555555554000:555555554000:555555559000:{from:x}:0::{path}\n");
    let lines: String = (1..=2000).map(line).collect();
    let file = with_lines(&lines);
    let program = Program::of(&file, &[]).expect("the program");
    let of = |time| program.symbols(Some(time)).modules().len();
    assert_eq!((of(0), of(1), of(100)), (0, 1, 100));
    assert_eq!(of(2000), 0);
    let note = &program.notes[0];
    assert!(note.contains("came and went too often"), "{note}");
    let lines: String = (0..20_000).map(|_| line(1)).collect();
    let program = Program::of(&with_lines(&lines), &[]).expect("the program");
    assert_eq!(program.symbols(None).modules().len(), 0);
    assert!(program.notes[0].contains("has 20000 modules"));
}

/// A variable is shown once, with its last value; a frame of very many is shown too.
#[test]
fn variables_of_a_frame() {
    let mut bytes =
        b"\x7fTRACE0\nR 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\ntsv 0:0:0:61\n\n".to_vec();
    let mut data = Vec::new();
    for (number, value) in (0..400_000_u32).chain([0]).zip(5_u64..) {
        data.push(b'V');
        data.extend(number.to_le_bytes());
        data.extend(value.to_le_bytes());
    }
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes.extend([0; 4]);
    let file = TraceFile::from_bytes(bytes).expect("a trace file");
    let program = Program::default();
    let frame = file.frame(FrameNumber(0)).expect("a frame");
    let shown = Viewer::new(&file, &program).view(frame).variables.0;
    assert_eq!(shown.len(), 400_000);
    assert_eq!(shown[0], ("a".into(), 400_005));
    assert_eq!(shown[1], ("number 1".into(), 6));
}

/// GDB has no blocks in blocks, for any file: the lines of one tracepoint are never far to the right.
#[test]
fn blocks_of_steps_are_indented_once() {
    let lines = "tp Z1:1000:cmd:0:2:7773\n".repeat(3) + "tp Z1:1000:cmd:0:3:656e64\n";
    let shown = plain(&table::info(&Info::of(&with_lines(&lines)), "x.tf"));
    let columns: Vec<_> = shown
        .lines()
        .filter(|line| matches!(line.trim(), "ws" | "end"))
        .map(|line| line.len() - line.trim_start().len())
        .collect();
    let first = columns[0];
    assert_eq!(columns, [first, first + 2, first + 2, first], "{shown}");
}

/// One long name does not make every row of a table as wide; JSON has the name whole.
#[test]
fn names_in_tables_are_cut() {
    let mut lines: String = (2..50_000)
        .map(|number| format!("tsv {number:x}:0:0:61\n"))
        .collect();
    lines += &format!("tsv 1:0:0:{}\n", "c3a4".repeat(500_000));
    let info = Info::of(&with_lines(&lines));
    assert!(info.json().contains(&"ä".repeat(500_000)));
    let shown = table::info(&info, "x.tf");
    let cut = format!("${}…  ", "ä".repeat(500));
    assert!(shown.contains(&cut));
}

#[test]
fn bytes_of_a_frame_are_shown_as_digits() {
    let text = b"\x7fTRACE0\nR 4\nstatus 0;tstop::0\ntp T1:1000:E:0:0\n\n\x01\0\x08\0\0\0S\x02\0hiQ\x01\xff\0\0\0\0";
    let file = TraceFile::from_bytes(text.to_vec()).expect("a trace file");
    let program = Program::default();
    let viewer = Viewer::new(&file, &program);
    let frame = file.frame(FrameNumber(0)).expect("a frame");
    let view = viewer.view(frame);
    let mut json = Vec::new();
    JsonWriter::new(&viewer).write(frame, &mut json);
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(
        (&json["static_data"], &json["unknown"]),
        (&"6869".into(), &"5101ff".into())
    );
    let shown = plain(&whole_frame(&view));
    for line in ["  68 69 ", "  51 01 ff ", " hi\n", " Q..\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(plain(&table::frames(&[viewer.row(frame)], None)).contains("$_sdata = \"hi\""));
}
