//! The table of functions of a Go program's runtime, of any bytes, in a program that has no other symbols.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tracewire_debuginfo::Symbols;

const CODE: u64 = 0x40_1000;

fuzz_target!(|data: &[u8]| {
    let mut symbols = Symbols::new();
    symbols
        .add_module_bytes(Path::new("program"), program(data), 0)
        .expect("a good program");
    for function in symbols.functions().iter().take(64) {
        let _ = symbols.resolve(&function.name, None);
        let _ = symbols.symbol_at(function.entry);
    }
    let _ = symbols.resolve("main.*", None);
});

/// An x86-64 program with code and a table.
fn program(table: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.text\0.gopclntab\0.shstrtab\0";
    const HEADER: u64 = 64;
    const SEGMENT: u64 = 56;
    let code_at = HEADER + SEGMENT;
    let code = [0xc3; 64];
    let names_at = code_at + code.len() as u64;
    let table_at = names_at + NAMES.len() as u64;
    let sections_at = table_at + table.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, number: u16| file.extend(number.to_le_bytes());
    let word = |file: &mut Vec<u8>, number: u32| file.extend(number.to_le_bytes());
    let long = |file: &mut Vec<u8>, number: u64| file.extend(number.to_le_bytes());
    half(&mut file, 2);
    half(&mut file, 62);
    word(&mut file, 1);
    for number in [CODE, HEADER, sections_at] {
        long(&mut file, number);
    }
    word(&mut file, 0);
    for number in [HEADER as u16, SEGMENT as u16, 1, 64, 4, 3] {
        half(&mut file, number);
    }
    word(&mut file, 1);
    word(&mut file, 5);
    for number in [code_at, CODE, CODE, code.len() as u64, code.len() as u64, 1] {
        long(&mut file, number);
    }
    file.extend(code);
    file.extend(NAMES);
    file.extend(table);
    let sections = [
        (0, 0, 0, 0, 0, 0),
        (1, 1, 6, CODE, code_at, code.len() as u64),
        (7, 1, 2, 0x50_0000, table_at, table.len() as u64),
        (18, 3, 0, 0, names_at, NAMES.len() as u64),
    ];
    for (name, kind, flags, address, at, length) in sections {
        word(&mut file, name);
        word(&mut file, kind);
        for number in [flags, address, at, length] {
            long(&mut file, number);
        }
        word(&mut file, 0);
        word(&mut file, 0);
        long(&mut file, 1);
        long(&mut file, 0);
    }
    file
}
