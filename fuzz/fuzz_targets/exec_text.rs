//! The readers of execution traces, on any bytes: no panic, pieces give what the whole gives, and what QEMU4V's writer
//! prints is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::guess;
use tracewire_exec_trace::text::{Format, Piece, read};

mod records;

use records::{RecordList, read_both_ways};

/// How much of an input is taken: what is found in long ones is found in short ones, sooner.
const MOST: usize = 1000;

fuzz_target!(|input: &[u8]| {
    let [first, size, text @ ..] = input else { return };
    if text.len() > MOST {
        return;
    }
    let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
    let _ = Format::detect(text).and_then(|format| guess(format, text));
    let whole = read_both_ways(format, text, usize::from(*size) * 8);
    if matches!(format, Format::Qemu4v | Format::Microtesk) {
        let mut again = RecordList::default();
        let written = whole.written;
        read(format, &written, &Piece::whole(&written), &mut again);
        assert_eq!(again.written, written);
    }
});
