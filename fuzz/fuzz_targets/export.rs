//! Runs in the formats of profilers and observability tools, of any trace file: each is written, and JSON has no control character.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_export::perfetto::{self, PerfettoOptions};
use tracewire_export::{ExportError, chrome, firefox, folded, otlp};
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, RunPart};

fuzz_target!(|bytes: &[u8]| {
    let headed = [b"\x7fTRACE0\n", bytes].concat();
    let Ok(file) = TraceFile::from_bytes(headed) else {
        return;
    };
    let program = Program::default();
    let parts = [RunPart::only("run.tf".to_owned(), &file, &program)];
    let mut events = Vec::new();
    chrome::write(&parts, &mut events).expect("any file");
    let text = std::str::from_utf8(&events).expect("text");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(control), "{text:?}");
    perfetto::write(&parts, &PerfettoOptions::default(), &mut std::io::sink()).expect("any file");
    otlp::write(&parts, &mut std::io::sink()).expect("any file");
    firefox::write(&parts, &mut std::io::sink()).expect("any file");
    // Nothing is known of the program, so no frame has a stack.
    let folded = folded::write(&parts, &mut std::io::sink());
    assert!(matches!(folded, Err(ExportError::NoStacks)));
});
