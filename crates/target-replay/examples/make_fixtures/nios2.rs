//! A recording of a Nios II program. Debian has neither compiler nor emulator for it, so the program is assembled here, and an
//! interpreter runs it that supports only the program's instructions (Nios II Processor Reference).

use std::collections::HashMap;
use std::fmt::Write;

const CODE: u32 = 0x1000;
const DATA: u32 = 0x2000;
const DATA_SIZE: u32 = 0x200;
/// `total`, then `bytes`, then `halves`; the stack grows from the end.
const TOTAL: u32 = DATA;
const BYTES: u32 = DATA + 0x10;
const HALVES: u32 = DATA + 0x20;
const STACK: u32 = DATA + DATA_SIZE - 0x10;

const FP: u32 = 28;
const SP: u32 = 27;
const RA: u32 = 31;

enum Target {
    None,
    /// A relative branch.
    Branch(&'static str),
    /// A call, whose target is absolute.
    Call(&'static str),
}

/// Code with labels.
#[derive(Default)]
struct Assembler {
    words: Vec<(u32, Target)>,
    labels: Vec<(&'static str, u32)>,
}

impl Assembler {
    fn here(&self) -> u32 {
        CODE + 4 * self.words.len() as u32
    }

    fn label(&mut self, name: &'static str) {
        self.labels.push((name, self.here()));
    }

    /// `op rB, imm(rA)` and the like.
    fn immediate(&mut self, code: u32, a: u32, b: u32, value: i32) {
        let word = a << 27 | b << 22 | (value as u32 & 0xffff) << 6 | code;
        self.words.push((word, Target::None));
    }

    fn register(&mut self, code: u32, a: u32, b: u32, c: u32) {
        let word = a << 27 | b << 22 | c << 17 | code << 11 | 0x3a;
        self.words.push((word, Target::None));
    }

    fn branch(&mut self, code: u32, a: u32, b: u32, to: &'static str) {
        self.words
            .push((a << 27 | b << 22 | code, Target::Branch(to)));
    }

    fn call(&mut self, to: &'static str) {
        self.words.push((0, Target::Call(to)));
    }

    fn address(&mut self, register: u32, value: u32) {
        self.immediate(0x34, 0, register, (value >> 16) as i32);
        self.immediate(0x14, register, register, (value & 0xffff) as i32);
    }

    /// Saves the return address and other registers, and makes room for them.
    fn prologue(&mut self, saved: &[u32]) {
        let size = 4 * (saved.len() as i32 + 1);
        self.immediate(0x04, SP, SP, -size);
        self.immediate(0x15, SP, RA, size - 4);
        for (place, register) in saved.iter().enumerate() {
            self.immediate(0x15, SP, *register, 4 * place as i32);
        }
    }

    fn epilogue(&mut self, saved: &[u32]) {
        let size = 4 * (saved.len() as i32 + 1);
        for (place, register) in saved.iter().enumerate() {
            self.immediate(0x17, SP, *register, 4 * place as i32);
        }
        self.immediate(0x17, SP, RA, size - 4);
        self.immediate(0x04, SP, SP, size);
        self.register(0x05, RA, 0, 0);
    }

    fn finish(self) -> (Vec<u32>, Vec<(&'static str, u32)>) {
        let places: HashMap<_, _> = self.labels.iter().copied().collect();
        let words = (CODE..)
            .step_by(4)
            .zip(self.words)
            .map(|(at, (word, target))| match target {
                Target::None => word,
                Target::Branch(to) => word | ((places[to].wrapping_sub(at + 4) & 0xffff) << 6),
                Target::Call(to) => (places[to] / 4) << 6,
            });
        (words.collect(), self.labels)
    }
}

fn program() -> (Vec<u32>, Vec<(&'static str, u32)>) {
    let mut code = Assembler::default();
    code.label("_start");
    code.address(SP, STACK);
    code.call("main");
    code.label("finish");
    code.branch(0x06, 0, 0, "finish");

    code.label("main");
    let saved = [FP, 16, 17];
    code.prologue(&saved);
    code.immediate(0x04, 0, 16, 0); // movi r16, 0
    code.label("main.next");
    code.immediate(0x04, 16, 4, 0); // mov r4, r16
    code.call("fibonacci");
    code.immediate(0x04, 2, 4, 0); // mov r4, r2
    code.call("add");
    code.address(17, BYTES);
    code.register(0x31, 17, 16, 17); // add r17, r17, r16
    code.immediate(0x05, 17, 2, 0); // stb r2, 0(r17)
    code.immediate(0x07, 17, 6, 0); // ldb r6, 0(r17)
    code.address(17, HALVES);
    code.register(0x31, 17, 16, 17);
    code.register(0x31, 17, 16, 17);
    code.immediate(0x0d, 17, 2, 0); // sth r2, 0(r17)
    code.immediate(0x0b, 17, 7, 0); // ldhu r7, 0(r17)
    code.immediate(0x04, 16, 16, 1); // addi r16, r16, 1
    code.immediate(0x04, 0, 3, 9); // movi r3, 9
    code.branch(0x16, 16, 3, "main.next"); // blt r16, r3
    code.epilogue(&saved);

    code.label("fibonacci");
    let saved = [16, 17];
    code.prologue(&saved);
    code.immediate(0x04, 4, 16, 0); // mov r16, r4
    code.immediate(0x04, 0, 3, 2); // movi r3, 2
    code.branch(0x16, 4, 3, "fibonacci.small"); // blt r4, r3
    code.immediate(0x04, 16, 4, -1); // addi r4, r16, -1
    code.call("fibonacci");
    code.immediate(0x04, 2, 17, 0); // mov r17, r2
    code.immediate(0x04, 16, 4, -2);
    code.call("fibonacci");
    code.register(0x31, 2, 17, 2); // add r2, r2, r17
    code.branch(0x06, 0, 0, "fibonacci.end");
    code.label("fibonacci.small");
    code.immediate(0x04, 4, 2, 0); // mov r2, r4
    code.label("fibonacci.end");
    code.epilogue(&saved);

    code.label("add");
    code.address(3, TOTAL);
    code.immediate(0x17, 3, 5, 0); // ldw r5, 0(r3)
    code.register(0x31, 5, 4, 5); // add r5, r5, r4
    code.immediate(0x15, 3, 5, 0); // stw r5, 0(r3)
    code.immediate(0x04, 5, 2, 0); // mov r2, r5
    code.register(0x05, RA, 0, 0); // ret
    code.label("end");
    code.finish()
}

/// The effects of an instruction.
#[derive(Default)]
struct Effect {
    written: Option<(u32, u32)>,
    /// Address, store data in its lanes, byte enables.
    access: (u32, u32, u32),
    next: u32,
}

struct Interpreter {
    registers: [u32; 32],
    pc: u32,
    memory: Vec<u8>,
}

impl Interpreter {
    fn place(address: u32, size: u32) -> std::ops::Range<usize> {
        let start = (address - DATA) as usize;
        start..start + size as usize
    }

    fn load(&self, address: u32, size: u32) -> u32 {
        let bytes = &self.memory[Self::place(address, size)];
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    fn store(&mut self, address: u32, size: u32, value: u32) -> (u32, u32, u32) {
        let bytes = value.to_le_bytes();
        self.memory[Self::place(address, size)].copy_from_slice(&bytes[..size as usize]);
        let lane = address & 3;
        let mask = if size == 4 {
            u32::MAX
        } else {
            (1 << (8 * size)) - 1
        };
        let enables = ((1 << size) - 1) << lane;
        (address, (value & mask) << (8 * lane), enables)
    }

    fn step(&mut self, word: u32) -> Effect {
        let (a, b, c) = (word >> 27, word >> 22 & 31, word >> 17 & 31);
        let signed = i32::from((word >> 6) as u16 as i16) as u32;
        let unsigned = word >> 6 & 0xffff;
        let (left, right) = (self.registers[a as usize], self.registers[b as usize]);
        let address = left.wrapping_add(signed);
        let mut effect = Effect {
            next: self.pc + 4,
            ..Effect::default()
        };
        let read = |size: u32| (address, 0, ((1u32 << size) - 1) << (address & 3));
        match word & 0x3f {
            0x00 => {
                effect.written = Some((RA, self.pc + 4));
                effect.next = word >> 6 << 2;
            }
            0x04 => effect.written = Some((b, address)),
            0x14 => effect.written = Some((b, left | unsigned)),
            0x34 => effect.written = Some((b, left | unsigned << 16)),
            0x06 => effect.next = (self.pc + 4).wrapping_add(signed),
            0x16 if left.cast_signed() < right.cast_signed() => {
                effect.next = (self.pc + 4).wrapping_add(signed);
            }
            0x16 => {}
            0x05 => effect.access = self.store(address, 1, right),
            0x0d => effect.access = self.store(address, 2, right),
            0x15 => effect.access = self.store(address, 4, right),
            0x07 => {
                effect.access = read(1);
                let byte = self.load(address, 1) as u8 as i8;
                effect.written = Some((b, i32::from(byte) as u32));
            }
            0x0b => {
                effect.access = read(2);
                effect.written = Some((b, self.load(address, 2)));
            }
            0x17 => {
                effect.access = read(4);
                effect.written = Some((b, self.load(address, 4)));
            }
            0x3a => match word >> 11 & 0x3f {
                0x05 => effect.next = left,
                0x31 => effect.written = Some((c, left.wrapping_add(right))),
                code => panic!("operation {code:#x}"),
            },
            code => panic!("instruction {code:#x}"),
        }
        if let Some((register, value)) = effect.written.filter(|(register, _)| *register != 0) {
            self.registers[register as usize] = value;
        }
        self.pc = effect.next;
        effect
    }
}

/// The names that GDB gives the registers.
fn name(register: usize) -> String {
    match register {
        0 => "zero".to_owned(),
        1 => "at".to_owned(),
        24 => "et".to_owned(),
        25 => "bt".to_owned(),
        26 => "gp".to_owned(),
        27 => "sp".to_owned(),
        28 => "fp".to_owned(),
        29 => "ea".to_owned(),
        30 => "sstatus".to_owned(),
        31 => "ra".to_owned(),
        number => format!("r{number}"),
    }
}

/// The program, the text and the log.
pub fn record() -> Vec<(&'static str, Vec<u8>)> {
    let (words, labels) = program();
    let finish = labels
        .iter()
        .find(|(label, _)| *label == "finish")
        .unwrap()
        .1;
    let mut machine = Interpreter {
        registers: [0; 32],
        pc: CODE,
        memory: vec![0; DATA_SIZE as usize],
    };
    let mut trace = String::from("version 3\nnumThreads 1\n");
    // A line of reset comes first.
    writeln!(trace, "0 ns: 1{}", ",x".repeat(35)).unwrap();
    let mut log = String::from("I 0\n");
    for register in 0..32 {
        writeln!(log, "r {} 0", name(register)).unwrap();
    }
    writeln!(
        log,
        "r pc {CODE:x}\nm {DATA:x} {}",
        "00".repeat(DATA_SIZE as usize)
    )
    .unwrap();
    let mut count = 0;
    while machine.pc != finish {
        let (pc, before) = (machine.pc, machine.memory.clone());
        let word = words[((pc - CODE) / 4) as usize];
        let effect = machine.step(word);
        count += 1;
        let (written, register, value) = match effect.written {
            Some((register, value)) => (1, register, value),
            None => (0, 0, 0),
        };
        let (address, data, enables) = effect.access;
        writeln!(
            trace,
            "{} ns: 0,{pc:x},0,0,0,{word:x},1,{written},{register:x},0,{value:x},{address:x},{data:x},{enables:x},0,{:x},\
             1,0,0,0,0{},0,0,0,0,0",
            count * 20,
            effect.next,
            ",0".repeat(10)
        )
        .unwrap();
        writeln!(log, "I {count}").unwrap();
        if let Some((register, value)) = effect.written.filter(|(register, _)| *register != 0) {
            writeln!(log, "r {} {value:x}", name(register as usize)).unwrap();
        }
        writeln!(log, "r pc {:x}", machine.pc).unwrap();
        for (place, (old, new)) in before.iter().zip(&machine.memory).enumerate() {
            if old != new {
                writeln!(log, "m {:x} {new:02x}", DATA as usize + place).unwrap();
            }
        }
    }
    println!("nios2: {count} instructions");
    vec![
        ("elf", elf(&words, &labels)),
        ("trace", trace.into_bytes()),
        ("log", log.into_bytes()),
    ]
}

/// An ELF file with code, data and symbols.
fn elf(words: &[u32], labels: &[(&'static str, u32)]) -> Vec<u8> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut names = vec![0];
    let mut symbols = vec![0; 16];
    let functions: Vec<_> = labels
        .iter()
        .filter(|(name, _)| !name.contains('.'))
        .collect();
    let mut symbol = |name: &str, value: u32, size: u32, info: u8, section: u16| {
        symbols.extend((names.len() as u32).to_le_bytes());
        symbols.extend([value, size].iter().flat_map(|field| field.to_le_bytes()));
        symbols.extend([info, 0]);
        symbols.extend(section.to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    };
    for pair in functions.windows(2) {
        let ((name, start), (_, end)) = (pair[0], pair[1]);
        symbol(name, *start, end - start, 0x12, 1);
    }
    for (name, address, size) in [
        ("total", TOTAL, 4),
        ("bytes", BYTES, 16),
        ("halves", HALVES, 32),
    ] {
        symbol(name, address, size, 0x11, 2);
    }
    let section_names = b"\0.text\0.bss\0.symtab\0.strtab\0.shstrtab\0";
    let code_at = 52 + 2 * 32;
    let symbols_at = code_at + code.len();
    let names_at = symbols_at + symbols.len();
    let section_names_at = names_at + names.len();
    let sections_at = section_names_at + section_names.len();
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |file: &mut Vec<u8>, fields: &[u16]| {
        file.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
    };
    let word = |file: &mut Vec<u8>, fields: &[usize]| {
        file.extend(
            fields
                .iter()
                .flat_map(|field| (*field as u32).to_le_bytes()),
        );
    };
    half(&mut file, &[2, 113]);
    word(&mut file, &[1, CODE as usize, 52, sections_at, 0]);
    half(&mut file, &[52, 32, 2, 40, 6, 5]);
    let (code_place, data_place) = (CODE as usize, DATA as usize);
    word(
        &mut file,
        &[
            1,
            code_at,
            code_place,
            code_place,
            code.len(),
            code.len(),
            5,
            4,
        ],
    );
    word(
        &mut file,
        &[1, 0, data_place, data_place, 0, DATA_SIZE as usize, 6, 4],
    );
    file.extend(&code);
    file.extend(&symbols);
    file.extend(&names);
    file.extend(section_names);
    word(&mut file, &[0; 10]);
    word(
        &mut file,
        &[1, 1, 6, code_place, code_at, code.len(), 0, 0, 4, 0],
    );
    word(
        &mut file,
        &[7, 8, 3, data_place, 0, DATA_SIZE as usize, 0, 0, 4, 0],
    );
    word(
        &mut file,
        &[12, 2, 0, 0, symbols_at, symbols.len(), 4, 1, 4, 16],
    );
    word(&mut file, &[20, 3, 0, 0, names_at, names.len(), 0, 0, 1, 0]);
    word(
        &mut file,
        &[
            28,
            3,
            0,
            0,
            section_names_at,
            section_names.len(),
            0,
            0,
            1,
            0,
        ],
    );
    file
}
