//! Conversions, on any trace file: what is written and read back is the same, and no output has a control character.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_convert::{csv, ctf, json, part};
use tracewire_tracefile::TraceFile;

fuzz_target!(|bytes: &[u8]| {
    let headed = [b"\x7fTRACE0\n", bytes].concat();
    let Ok(file) = TraceFile::from_bytes(headed) else {
        return;
    };
    let mut lines = Vec::new();
    json::write(&file, &mut lines).expect("any file");
    assert_printable(&lines);
    let mut back = Vec::new();
    json::read(&mut lines.as_slice(), &mut back).expect("what was just written");
    assert!(back == file.as_bytes());

    let columns = csv::Column::standard(&file);
    let mut table = Vec::new();
    csv::write(&file, &columns, |_, _| None, &mut table).expect("any file");
    assert_printable(&table);
    // Frames of very many shapes are refused.
    let _ = ctf::write(&file, |_| Vec::new(), |_| Ok(std::io::sink()));

    let mut all = Vec::new();
    part::write(&file, part::frames_in(&file, 0..u64::MAX), &mut all).expect("any file");
    let again = TraceFile::from_bytes(all).expect("a trace file");
    if file.byte_order() == again.byte_order() {
        assert_eq!(again.frame_count(), file.frame_count());
    }
});

/// A terminal would obey a control character.
fn assert_printable(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("text");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(control), "{text:?}");
}
