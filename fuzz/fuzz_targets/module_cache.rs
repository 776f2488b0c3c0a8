//! What is kept of a module, of any bytes: a user's cache is input. The first byte says which file, and what is asked.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::Symbols;

/// A small program with debug information, and its build id.
const PROGRAM: &[u8] = include_bytes!("../../crates/test-support/samples/optimized");
const BUILD_ID: &str = "cd27100cf7a3fa80129d87e4827d7ca64e34d078";

/// What is kept: how the file begins, and the end of its name.
const CONTENTS: [(&[u8; 8], &str); 4] = [
    (b"TWnames2", "names"),
    (b"TWdwarf1", "index"),
    (b"TWsects1", "sections"),
    (b"TWsymbs1", "symbols"),
];

/// What is looked up; after them all functions.
const LOCATIONS: [&str; 4] = ["main", "nowhere", "optimized.c:25", "*"];

fuzz_target!(|data: &[u8]| {
    let Some((which, content)) = data.split_first() else {
        return;
    };
    let (which, question) = (which % 4, which / 4 % 5);
    let (magic, extension) = CONTENTS[usize::from(which)];
    let file = [magic, &[0; 8][..], content, &[0; 4]].concat();
    // Sections are kept of a program that has them compressed.
    let program = match extension {
        "sections" => compressed(),
        _ => PROGRAM,
    };
    let mut symbols = Symbols::new();
    symbols.take_kept_files([(format!("{BUILD_ID}.{extension}"), file)]);
    symbols
        .add_module_bytes(Path::new("/nowhere/optimized"), program.to_vec(), 0)
        .expect("a good program");
    match LOCATIONS.get(usize::from(question)) {
        Some(location) => {
            for place in symbols
                .resolve(location, None)
                .unwrap_or_default()
                .iter()
                .take(8)
            {
                let _ = symbols.place(place.address);
                let _ = symbols.symbol_at(place.address);
                let _ = symbols.variables_at(place.address);
            }
        }
        None => {
            let _ = symbols.functions();
        }
    }
});

/// The program with `.debug_info` as a compressed section, which is a stored block at the end of the file.
fn compressed() -> &'static [u8] {
    static COMPRESSED: OnceLock<Vec<u8>> = OnceLock::new();
    COMPRESSED.get_or_init(|| {
        let number = |at: usize| {
            u64::from_le_bytes(PROGRAM[at..at + 8].try_into().expect("eight bytes")) as usize
        };
        let half = |at: usize| usize::from(u16::from_le_bytes([PROGRAM[at], PROGRAM[at + 1]]));
        let (headers, size, count) = (number(0x28), half(0x3a), half(0x3c));
        let names = number(headers + size * half(0x3e) + 0x18);
        let header = (0..count)
            .map(|index| headers + size * index)
            .find(|header| {
                let name = names + half(*header);
                PROGRAM[name..].starts_with(b".debug_info\0")
            })
            .expect("debug information");
        let (start, length) = (number(header + 0x18), number(header + 0x20));
        let content = &PROGRAM[start..start + length];
        let short = u16::try_from(length).expect("a short section");
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in content {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        let stored = [
            // ELFCOMPRESS_ZLIB, the size, and the alignment.
            &[1, 0, 0, 0, 0, 0, 0, 0][..],
            &(length as u64).to_le_bytes(),
            &1_u64.to_le_bytes(),
            &[0x78, 0x01, 0x01],
            &short.to_le_bytes(),
            &(!short).to_le_bytes(),
            content,
            &(b << 16 | a).to_be_bytes(),
        ]
        .concat();
        let mut program = PROGRAM.to_vec();
        program[header + 0x08] = 0;
        // SHF_COMPRESSED.
        program[header + 0x09] |= 0x08;
        let end = (PROGRAM.len() as u64).to_le_bytes();
        program[header + 0x18..][..8].copy_from_slice(&end);
        program[header + 0x20..][..8].copy_from_slice(&(stored.len() as u64).to_le_bytes());
        program.extend(stored);
        program
    })
}
