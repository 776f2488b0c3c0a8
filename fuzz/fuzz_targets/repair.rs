//! Repair, on any bytes: what comes out is a good trace file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_diagnose::{Severity, check_structure};
use tracewire_diagnose::repair::Salvage;
use tracewire_tracefile::{MAX_LINE, TraceFile};

fuzz_target!(|bytes: &[u8]| {
    let headed = [b"\x7fTRACE0\n", bytes].concat();
    let salvage = Salvage::of(&headed);
    let description = salvage.description();
    assert!(description.lines().all(|line| line.text.len() <= MAX_LINE));
    let mut repaired = b"\x7fTRACE0\n".to_vec();
    repaired.extend_from_slice(description.as_bytes());
    repaired.push(b'\n');
    repaired.extend(salvage.frames().flatten());
    repaired.extend([0; 4]);

    let file = TraceFile::from_bytes(repaired.clone()).expect("it has a header");
    assert_eq!(file.frame_count() as usize, salvage.frames().count());
    check_structure(&file, &mut |finding| {
        assert!(finding.fault.severity() == Severity::Warning, "{finding:?}");
    });
    // A good file is left as it is. (This one has no checksum, and what looks like one may end its last frame.)
    if !repaired.windows(8).any(|bytes| bytes == b"checksum") {
        let again = Salvage::of(&repaired);
        assert!(again.changes().is_empty(), "{:?}", again.changes());
    }
});
