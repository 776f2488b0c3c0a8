//! The recordings of `data`: programs, texts, and the independent logs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The machines that there are recordings of.
pub const MACHINES: [&str; 8] = [
    "mips", "mipsel", "arm", "aarch64", "riscv32", "riscv64", "ppc", "nios2",
];

/// A file of a recording: `elf`, `trace` or `log`.
pub fn unpacked(machine: &str, kind: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target-replay/tests/data")
        .join(format!("{machine}.{kind}.zst"));
    let file =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(file).unwrap()
}

/// The program and the text of a recording as files in a folder.
pub fn files(machine: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let file = |kind: &str| {
        let path = folder.join(format!("{machine}.{kind}"));
        std::fs::write(&path, unpacked(machine, kind)).unwrap();
        path
    };
    (file("elf"), file("trace"))
}

/// All registers and data at an instant, by GDB's names and by address.
#[derive(Clone, Debug, Default)]
pub struct Instant {
    pub registers: HashMap<String, u64>,
    pub memory: HashMap<u64, u8>,
}

/// The contents of the log: an instant for each instruction, and the one at the end.
#[derive(Debug)]
pub struct Log(pub Vec<Instant>);

impl Log {
    pub fn of(machine: &str) -> Self {
        let text = String::from_utf8(unpacked(machine, "log")).unwrap();
        let mut instants = Vec::new();
        let mut now = Instant::default();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["I", "0"] => {}
                ["I", _] => instants.push(now.clone()),
                ["r", name, value] => {
                    now.registers.insert(name.to_owned(), number(value));
                }
                ["m", address, bytes] => {
                    for (place, pair) in (number(address)..).zip(bytes.as_bytes().chunks(2)) {
                        let byte = number(std::str::from_utf8(pair).unwrap()) as u8;
                        now.memory.insert(place, byte);
                    }
                }
                _ => panic!("{line}"),
            }
        }
        instants.push(now);
        Self(instants)
    }
}
