//! Many frames: once their place is known, a frame costs little.

use std::cell::RefCell;

use allocation_counter::measure;
use tracewire_test_support::sample;
use tracewire_tracefile::TraceFile;
use tracewire_views::{JsonWriter, Program, Viewer, table};

/// The most allocations that a frame of the sample may take, as a row of a table and as JSON. Each has all registers.
const MOST: [u64; 2] = [40, 70];

#[test]
fn a_frame_at_a_known_place_allocates_little() {
    let file = TraceFile::open(sample("sample.tf")).expect("a trace file");
    let program = Program::of(&file, &[sample("sample")]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    let frames: Vec<_> = file.frames().collect();
    let shown = || {
        let rows: Vec<_> = frames.iter().map(|frame| viewer.row(*frame)).collect();
        drop(table::frames(&rows, None));
    };
    let writer = RefCell::new(JsonWriter::new(&viewer));
    let written = || {
        let mut json = Vec::new();
        for frame in &frames {
            json.clear();
            writer.borrow_mut().write(*frame, &mut json);
        }
    };
    let ways: [&dyn Fn(); 2] = [&shown, &written];
    for (way, most) in ways.into_iter().zip(MOST) {
        way();
        let counted = measure(way).count_total / frames.len() as u64;
        assert!(
            counted <= most,
            "{counted} allocations a frame, at most {most}"
        );
    }
}
