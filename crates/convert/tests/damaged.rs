//! A damaged file is converted as far as it is read, and never in a panic.

mod files;

use std::io::sink;

use proptest::prelude::*;
use tracewire_convert::csv::{self, Column};
use tracewire_convert::part::{self, SplitBy};
use tracewire_convert::{ctf, json, merge};
use tracewire_tracefile::TraceFile;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_format_takes_it(
        damage in prop::collection::vec((8..77_146usize, any::<u8>()), 0..20),
        description in any::<bool>(),
        cut in prop::option::of(8..77_146usize),
    ) {
        let mut bytes = files::samples()[0].clone();
        for (at, byte) in damage {
            // The most important lines are in the first 17 kB.
            let at = if description { 8 + at % 17_000 } else { at };
            bytes[at] = byte;
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        let Ok(file) = TraceFile::from_bytes(bytes) else {
            return Ok(());
        };

        let mut lines = Vec::new();
        json::write(&file, &mut lines).expect("any file");
        let mut back = Vec::new();
        json::read(&mut lines.as_slice(), &mut back).expect("what was just written");
        prop_assert!(back == file.as_bytes());

        let columns = Column::standard(&file);
        csv::write(&file, &columns, |_, _| None, &mut sink()).expect("any file");
        ctf::write(&file, |_| Vec::new(), |_| Ok(sink())).expect("few frames have few shapes");

        let parts = part::split(&file, SplitBy::Tracepoint).expect("few frames make few parts");
        prop_assert_eq!(parts.iter().map(|part| part.frames.len() as u64).sum::<u64>(), file.frame_count());
        let mut all = Vec::new();
        part::write(&file, part::frames_in(&file, 0..u64::MAX), &mut all).expect("any file");
        let again = TraceFile::from_bytes(all).expect("a trace file");
        if file.byte_order() == again.byte_order() {
            prop_assert_eq!(again.frame_count(), file.frame_count());
        }
        // It need not fit the sample; then it is refused.
        let _ = merge::write(&[files::sample(), file], &mut sink());
    }
}
