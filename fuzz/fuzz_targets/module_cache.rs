//! What is kept of a module, of any bytes: a user's cache is input.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::Symbols;

/// A small program with debug information, and its build id.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/sample");
const BUILD_ID: &str = "9af3996744b769de9b6b2405d1c398eb979e7079";

/// What is kept: how the file begins, and the end of its name.
const CONTENTS: [(&[u8; 8], &str); 4] = [
    (b"TWnames2", "names"),
    (b"TWdwarf1", "index"),
    (b"TWsects1", "sections"),
    (b"TWsymbs1", "symbols"),
];

fuzz_target!(|data: &[u8]| {
    let Some((which, content)) = data.split_first() else {
        return;
    };
    static WRITTEN: OnceLock<()> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        std::fs::write("sample", PROGRAM).expect("written");
        std::fs::create_dir_all("cache").expect("a folder");
    });
    let (magic, extension) = CONTENTS[usize::from(*which) % CONTENTS.len()];
    for (_, extension) in CONTENTS {
        // There may be none.
        let _ = std::fs::remove_file(format!("cache/{BUILD_ID}.{extension}"));
    }
    let file = [magic, &[0; 8][..], content, &[0; 4]].concat();
    std::fs::write(format!("cache/{BUILD_ID}.{extension}"), file).expect("written");
    let mut symbols = Symbols::new();
    symbols.keep_names_in(Path::new("cache"));
    symbols
        .add_module(Path::new("sample"), 0)
        .expect("a good program");
    for location in ["main", "nowhere", "sample.c:12", "*"] {
        for place in symbols.resolve(location, None).unwrap_or_default().iter().take(8) {
            let _ = symbols.place(place.address);
            let _ = symbols.symbol_at(place.address);
            let _ = symbols.variables_at(place.address);
        }
    }
    let _ = symbols.functions();
});
