//! RISC-V E-Trace packets of any bytes, and programs of any code: no panic, an end, and a transcript of which every line can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::etrace::{Framing, Options, transcribe};
use tracewire_exec_trace::recording::{Image, ImagePiece};
use tracewire_exec_trace::text::Format;
use tracewire_model::Address;

mod records;

use records::{UNPARSED, read_both_ways};

/// How many bytes of an input are code.
const CODE: usize = 48;

fuzz_target!(|input: &[u8]| {
    let [kind, widths, input @ ..] = input else {
        return;
    };
    if input.len() < CODE || input.len() > 400 {
        return;
    }
    let (code, packets) = input.split_at(CODE);
    let mut options: Options = "smi".parse().expect("a framing");
    if kind & 1 != 0 {
        options.framing = Framing::Encapsulation;
    }
    options.hart_width = widths & 15;
    options.timestamp_width = widths >> 5;
    options.infers_jumps = kind & 2 != 0;
    options.context_width = kind >> 4;
    let program = Image::new([ImagePiece {
        address: Address(0x8000_0000),
        bytes: code.to_vec(),
        is_writable: false,
    }]);
    let mut text = Vec::new();
    let Ok(done) = transcribe(packets, &program, kind & 4 != 0, &options, &mut text) else {
        return;
    };
    assert_eq!(Format::detect(&text), Some(Format::ControlFlow));
    let reported = read_both_ways(Format::ControlFlow, &text, 64);
    assert!(reported.records.iter().all(|(_, kind, _)| *kind != UNPARSED));
    assert!(done.packets > 0 || packets.is_empty());
});
