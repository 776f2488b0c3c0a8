//! A small ELF file: the program's code and a symbol for each function.

use crate::Program;

const HEADER: u32 = 52;
const SEGMENT: u32 = 32;
const SECTION: u32 = 40;
const SYMBOL: u32 = 16;

struct Bytes {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Bytes {
    fn half(&mut self, value: u16) {
        self.bytes.extend(match self.big_endian {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        });
    }

    fn word(&mut self, value: u32) {
        self.bytes.extend(match self.big_endian {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        });
    }

    fn words(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.word(*value));
    }
}

/// Writes an executable of MIPS32 (System V ABI, MIPS supplement).
pub(crate) fn write(program: &Program, big_endian: bool) -> Vec<u8> {
    let mut names = vec![0u8];
    let mut symbols = Bytes {
        bytes: vec![0; SYMBOL as usize],
        big_endian,
    };
    for function in program.functions() {
        symbols.words(&[
            names.len() as u32,
            function.start,
            function.end - function.start,
        ]);
        // A global function in section 1.
        symbols.bytes.extend([0x12, 0]);
        symbols.half(1);
        names.extend(function.name.as_bytes());
        names.push(0);
    }
    let section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
    let text = HEADER + SEGMENT;
    let size = 4 * program.words().len() as u32;
    let symbols_at = text + size;
    let names_at = symbols_at + symbols.bytes.len() as u32;
    let section_names_at = names_at + names.len() as u32;
    let sections_at = (section_names_at + section_names.len() as u32).next_multiple_of(4);

    let mut elf = Bytes {
        bytes: b"\x7fELF\x01".to_vec(),
        big_endian,
    };
    elf.bytes.extend([if big_endian { 2 } else { 1 }, 1]);
    elf.bytes.resize(16, 0);
    // An executable for MIPS.
    elf.half(2);
    elf.half(8);
    // Version, entry, segments, sections; MIPS32, 32-bit ABI.
    elf.words(&[1, program.base(), HEADER, sections_at, 0x5000_1000]);
    for value in [HEADER, SEGMENT, 1, SECTION, 5, 4] {
        elf.half(value as u16);
    }
    // Loaded, readable and executable.
    elf.words(&[1, text, program.base(), program.base(), size, size, 5, 4]);
    for word in program.words() {
        elf.word(word);
    }
    elf.bytes.extend(&symbols.bytes);
    elf.bytes.extend(&names);
    elf.bytes.extend(section_names);
    elf.bytes.resize(sections_at as usize, 0);
    let name = |name: &str| {
        let found = section_names
            .windows(name.len())
            .position(|window| window == name.as_bytes());
        found.unwrap_or(0) as u32
    };
    elf.words(&[0; 10]);
    elf.words(&[name(".text"), 1, 6, program.base(), text, size, 0, 0, 4, 0]);
    let symbols = symbols.bytes.len() as u32;
    elf.words(&[
        name(".symtab"),
        2,
        0,
        0,
        symbols_at,
        symbols,
        3,
        1,
        4,
        SYMBOL,
    ]);
    let names = names.len() as u32;
    elf.words(&[name(".strtab"), 3, 0, 0, names_at, names, 0, 0, 1, 0]);
    let length = section_names.len() as u32;
    elf.words(&[
        name(".shstrtab"),
        3,
        0,
        0,
        section_names_at,
        length,
        0,
        0,
        1,
        0,
    ]);
    elf.bytes
}
