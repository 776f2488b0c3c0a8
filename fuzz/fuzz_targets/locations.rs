//! Locations, patterns and names of probes, of any text, looked up in a program.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::{FunctionPlace, Symbols, is_pattern, names_functions, plain_name};

/// A small program with debug information.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/sample");

thread_local! {
    static SYMBOLS: Symbols = {
        let mut symbols = Symbols::new();
        symbols
            .add_module_bytes(Path::new("sample"), PROGRAM.to_vec(), 0)
            .expect("a good program");
        symbols
    };
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = (is_pattern(text), names_functions(text), plain_name(text));
    SYMBOLS.with(|symbols| {
        for place in [FunctionPlace::AfterPrologue, FunctionPlace::Arguments] {
            for found in symbols.resolve_at(text, None, place).unwrap_or_default() {
                let _ = symbols.entry_of(text, &found);
                let _ = symbols.variables_at(found.scope());
            }
        }
        let _ = symbols.resolve(text, Some("sample.c"));
        let _ = symbols.markers_named(text);
        let _ = symbols.lookup_function(None, text);
        let _ = symbols.unselected(text);
    });
});
