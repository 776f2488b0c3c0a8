//! The checks of execution traces, on any bytes and machine: no panic, and places that are there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_exec_analysis::check::check;
use tracewire_arch::{Architecture, Machine};
use tracewire_exec_trace::text::Format;

/// How much of an input is taken: what is found in long ones is found in short ones, sooner.
const MOST: usize = 1000;

fuzz_target!(|input: &[u8]| {
    let [format, machine, text @ ..] = input else { return };
    if text.len() > MOST {
        return;
    }
    let format = Format::ALL[usize::from(*format) % Format::ALL.len()];
    let architectures = Architecture::ALL;
    let machine = architectures.get(usize::from(*machine) % (architectures.len() + 1));
    let report = check(format, text, machine.copied().map(Machine::of), None);
    assert!(report.count >= report.findings.len() as u64);
    for finding in &report.findings {
        assert!((1..=report.lines).contains(&finding.line));
        let _ = finding.fault.to_string();
    }
});
