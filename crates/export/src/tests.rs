//! Damaged files are written as far as they are read, in every format.

use std::io::sink;

use proptest::prelude::*;
use tracewire_test_support::sample;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, RunPart};

use crate::perfetto::PerfettoOptions;
use crate::{ExportError, chrome, firefox, folded, otlp, perfetto};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_format_takes_a_damaged_file(
        damage in prop::collection::vec((8..77_146_usize, any::<u8>()), 0..20),
        description in any::<bool>(),
        cut in prop::option::of(8..77_146_usize),
        with_program in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(sample("sample.tf")).expect("the sample is there");
        for (at, byte) in damage {
            // The lines that say most are in the first 17 kB.
            let at = if description { 8 + at % 17_000 } else { at };
            bytes[at] = byte;
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        let Ok(file) = TraceFile::from_bytes(bytes) else {
            return Ok(());
        };
        let program = match with_program {
            true => Program::of(&file, &[sample("sample")]).unwrap_or_default(),
            false => Program::default(),
        };
        let parts = [RunPart::only("run.tf".to_owned(), &file, &program)];

        let mut events = Vec::new();
        chrome::write(&parts, &mut events).expect("any file");
        let events: serde_json::Value = serde_json::from_slice(&events).expect("JSON");
        let hits = events["traceEvents"].as_array().expect("an array");
        let hits = hits.iter().filter(|event| event["ph"] == "i").count();
        prop_assert_eq!(hits as u64, file.frame_count());

        let mut messages = Vec::new();
        let counts = otlp::write(&parts, &mut messages).expect("any file");
        prop_assert_eq!(counts.logs, file.frame_count());
        for message in messages.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: Result<serde_json::Value, _> = serde_json::from_slice(message);
            prop_assert!(message.is_ok());
        }

        perfetto::write(&parts, &PerfettoOptions::default(), &mut sink()).expect("any file");
        firefox::write(&parts, &mut sink()).expect("any file");
        let is_none = matches!(folded::write(&parts, &mut sink()), Err(ExportError::NoStacks));
        prop_assert!(is_none);
    }
}
