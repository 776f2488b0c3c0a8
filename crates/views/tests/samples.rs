//! Every fact that the sample files hold, as people and scripts see it.

use std::path::PathBuf;

use tracewire_tracefile::{FrameNumber, TraceFile};
use tracewire_views::{Criteria, Info, LineCriterion, Program, Viewer, gdb_commands, table};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name]
        .iter()
        .collect()
}

fn open(name: &str) -> TraceFile {
    TraceFile::open(fixture(name)).expect("a trace file")
}

/// What a terminal without colours shows.
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

#[test]
fn info_as_json() {
    for name in ["sample.tf", "tfile-basic.tf", "tfile-error.tf"] {
        let info = Info::of(&open(name));
        insta::assert_snapshot!(format!("info_json_{name}"), pretty(&info.json()));
    }
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
    insta::assert_snapshot!("frames_bare", plain(&table::frames(&shown, None)));
    insta::assert_snapshot!("frame_bare", plain(&table::frame(&shown[6], None)));
    let basic = views("tfile-basic.tf", &none);
    let json = serde_json::to_string(&basic[0]).expect("JSON");
    insta::assert_snapshot!("basic_json", pretty(&json));
    insta::assert_snapshot!("basic", plain(&table::frame(&basic[0], None)));
}

#[test]
fn frames_with_symbols() {
    let file = open("sample.tf");
    let program = Program::of(&file, &[fixture("sample")]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    let shown: Vec<_> = file.frames().map(|frame| viewer.view(frame)).collect();
    insta::assert_snapshot!("frames", plain(&table::frames(&shown, None)));
    let values: Vec<_> = shown
        .iter()
        .map(|view| (view.frame, &view.values))
        .collect();
    let json = serde_json::to_string(&values).expect("JSON");
    insta::assert_snapshot!("values_json", pretty(&json));
}

#[test]
fn frames_are_found() {
    let file = open("sample.tf");
    let program = Program::of(&file, &[fixture("sample")]).expect("the program");
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
    let commands = gdb_commands(&file, "/x/my file.tf".as_ref(), &["/x/sample".into()]);
    let mut lines = commands.lines().filter(|line| !line.starts_with('#'));
    assert!(lines.any(|line| line == "file /x/sample"), "{commands}");
    assert_eq!(lines.next_back(), Some("target tfile \"/x/my file.tf\""));
}
