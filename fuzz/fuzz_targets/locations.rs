//! Locations, patterns and names of probes, of any text, looked up in a program. The first byte says what is asked.
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
    let Some((question, data)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    SYMBOLS.with(|symbols| match question % 7 {
        0 => {
            let _ = (is_pattern(text), names_functions(text), plain_name(text));
        }
        1 => {
            let _ = symbols.markers_named(text);
        }
        2 => {
            let _ = symbols.lookup_function(None, text);
        }
        3 => {
            let _ = symbols.unselected(text);
        }
        4 => {
            let _ = symbols.resolve(text, Some("sample.c"));
        }
        5 => resolve(symbols, text, FunctionPlace::AfterPrologue),
        _ => resolve(symbols, text, FunctionPlace::Arguments),
    });
});

fn resolve(symbols: &Symbols, text: &str, place: FunctionPlace) {
    for found in symbols.resolve_at(text, None, place).unwrap_or_default() {
        let _ = symbols.entry_of(text, &found);
        let _ = symbols.variables_at(found.scope());
    }
}
