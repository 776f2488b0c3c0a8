//! Makes the recordings in `tests/data`: the program of `tests/programs` is built for each machine, run under QEMU's user mode, and
//! stepped instruction by instruction through QEMU's stub. Each machine gives three files. The first is the program. The second is
//! a QEMU4V text, whose loads and stores are decoded from the instructions. The third is a log of all registers and all of the
//! program's data at every instant, read from the stub and independent of the text.
//!
//! `cargo run -p tracewire-target-replay --example make_fixtures` makes them again. It needs Debian's `qemu-user` and its cross compilers: `gcc-mips-linux-gnu`, `gcc-mipsel-linux-gnu`,
//! `gcc-arm-linux-gnueabi`, `gcc-aarch64-linux-gnu`, `gcc-riscv64-linux-gnu`, `gcc-powerpc-linux-gnu`.

mod decode;
mod nios2;
mod stub;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use decode::Moment;
use stub::Stub;

/// A register of the `g` packet: GDB's name, the text's name (none for one that the text leaves out), its size.
type Register = (String, Option<String>, usize);

/// A machine, and how its programs are built and run.
pub struct Machine {
    name: &'static str,
    tools: &'static str,
    flags: &'static [&'static str],
    /// The size of a pointer, in bytes.
    word: usize,
    big: bool,
    registers: Vec<Register>,
}

fn register(name: &str, size: usize) -> Register {
    (name.to_owned(), Some(name.to_owned()), size)
}

fn hidden(name: &str, size: usize) -> Register {
    (name.to_owned(), None, size)
}

fn counted(letter: &str, count: usize, size: usize) -> Vec<Register> {
    (0..count)
        .map(|number| register(&format!("{letter}{number}"), size))
        .collect()
}

const RISCV: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

fn machines() -> Vec<Machine> {
    let mips = |name, tools, flags, big| {
        let mut registers = counted("r", 32, 4);
        registers.extend([
            hidden("status", 4),
            register("lo", 4),
            register("hi", 4),
            hidden("badvaddr", 4),
            hidden("cause", 4),
            hidden("pc", 4),
        ]);
        Machine {
            name,
            tools,
            flags,
            word: 4,
            big,
            registers,
        }
    };
    let mut arm = counted("r", 13, 4);
    arm.extend([
        ("sp".to_owned(), Some("r13".to_owned()), 4),
        ("lr".to_owned(), Some("r14".to_owned()), 4),
        hidden("pc", 4),
        register("cpsr", 4),
    ]);
    let mut aarch64 = counted("x", 31, 8);
    aarch64.extend([register("sp", 8), hidden("pc", 8), register("cpsr", 4)]);
    // The one in numbers, the other in the names of the calling convention.
    let riscv = |name, flags, word| {
        let mut registers: Vec<Register> = (RISCV.iter().enumerate())
            .map(|(number, register)| {
                let text = match *register {
                    _ if word == 8 => format!("x{number}"),
                    "fp" => "s0".to_owned(),
                    name => name.to_owned(),
                };
                ((*register).to_owned(), Some(text), word)
            })
            .collect();
        registers.push(hidden("pc", word));
        Machine {
            name,
            tools: "riscv64-linux-gnu",
            flags,
            word,
            big: false,
            registers,
        }
    };
    let mut ppc = counted("r", 32, 4);
    ppc.extend([
        hidden("pc", 4),
        hidden("msr", 4),
        register("cr", 4),
        register("lr", 4),
        register("ctr", 4),
        register("xer", 4),
    ]);
    vec![
        mips(
            "mips",
            "mips-linux-gnu",
            &[
                "-mips32r2",
                "-EB",
                "-msoft-float",
                "-mno-abicalls",
                "-G0",
                "-mno-branch-likely",
            ],
            true,
        ),
        mips(
            "mipsel",
            "mipsel-linux-gnu",
            &[
                "-mips32r2",
                "-EL",
                "-msoft-float",
                "-mno-abicalls",
                "-G0",
                "-mno-branch-likely",
            ],
            false,
        ),
        Machine {
            name: "arm",
            tools: "arm-linux-gnueabi",
            flags: &["-march=armv7-a", "-marm", "-msoft-float"],
            word: 4,
            big: false,
            registers: arm,
        },
        Machine {
            name: "aarch64",
            tools: "aarch64-linux-gnu",
            flags: &["-mgeneral-regs-only"],
            word: 8,
            big: false,
            registers: aarch64,
        },
        riscv(
            "riscv32",
            &["-march=rv32im", "-mabi=ilp32", "-Wl,-melf32lriscv"],
            4,
        ),
        riscv("riscv64", &["-march=rv64im", "-mabi=lp64"], 8),
        Machine {
            name: "ppc",
            tools: "powerpc-linux-gnu",
            flags: &["-msoft-float", "-G0"],
            word: 4,
            big: true,
            registers: ppc,
        },
    ]
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

impl Machine {
    fn build(&self, program: &Path) {
        output(
            Command::new(format!("{}-gcc", self.tools))
                .args([
                    "-Og",
                    "-g",
                    "-ffreestanding",
                    "-fno-pic",
                    "-no-pie",
                    "-static",
                    "-nostdlib",
                ])
                .args([
                    "-fno-stack-protector",
                    "-fno-builtin",
                    "-Wl,--build-id=none",
                ])
                .args(self.flags)
                // The debug information must not name the directory in which it was made.
                .arg(format!(
                    "-fdebug-prefix-map={}=/src",
                    folder("programs").display()
                ))
                .args(["program.c", "-o"])
                .arg(program)
                .current_dir(folder("programs")),
        );
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.big {
            bytes.iter().fold(0, fold)
        } else {
            bytes.iter().rev().fold(0, fold)
        }
    }

    fn values(&self, block: &[u8]) -> Vec<u64> {
        let mut rest = block;
        self.registers
            .iter()
            .map(|(.., size)| {
                let (bytes, others) = rest.split_at(*size);
                rest = others;
                self.number(bytes)
            })
            .collect()
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.registers.iter().position(|(known, ..)| known == name)
    }

    /// The addresses of symbols.
    fn symbols(&self, program: &Path) -> HashMap<String, u64> {
        output(Command::new(format!("{}-nm", self.tools)).arg(program))
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                Some((words.nth(1)?.to_owned(), address))
            })
            .collect()
    }

    /// Code and disassembly of each instruction.
    fn code(&self, program: &Path) -> HashMap<u64, (u32, String)> {
        output(
            Command::new(format!("{}-objdump", self.tools))
                .args(["-d", "-z", "--section=.text"])
                .arg(program),
        )
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.split_once(":\t")?;
            let address = u64::from_str_radix(address.trim(), 16).ok()?;
            let (code, text) = rest.split_once('\t')?;
            let text = text.replace('\t', " ");
            let text = text.split(['#', '@', ';']).next()?.trim().to_owned();
            Some((
                address,
                (
                    u32::from_str_radix(&code.replace(char::is_whitespace, ""), 16).ok()?,
                    text,
                ),
            ))
        })
        .collect()
    }

    /// Where the program's data are.
    fn data(&self, program: &Path) -> Vec<(u64, u64)> {
        output(
            Command::new(format!("{}-objdump", self.tools))
                .arg("-h")
                .arg(program),
        )
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wanted = [".data", ".sdata", ".bss", ".sbss"];
            let name = words.get(1).filter(|name| wanted.contains(name))?;
            let number = |index: usize| u64::from_str_radix(words.get(index)?, 16).ok();
            let (size, address) = (number(2)?, number(3)?);
            (size > 0 && !name.is_empty()).then_some((address, size))
        })
        .collect()
    }
}

/// The two texts that are made, and how far they are.
struct Texts<'a> {
    machine: &'a Machine,
    trace: String,
    log: String,
    count: u64,
}

impl Texts<'_> {
    /// An instruction; `taken` is whether it was executed.
    fn instruction(&mut self, pc: u64, (word, text): &(u32, String), taken: bool) {
        self.count += 1;
        let (count, width) = (self.count, self.machine.word * 2);
        let flag = if taken { "IT" } else { "IS" };
        writeln!(
            self.trace,
            "{count} clk 0 {flag} ({count}) {pc:0width$x} {word:08x} A usr : {text}"
        )
        .unwrap();
    }

    fn access(&mut self, write: bool, address: u64, bytes: &[u8]) {
        let letter = if write { 'W' } else { 'R' };
        let (count, width, size) = (self.count, self.machine.word * 2, bytes.len());
        let (value, digits) = (self.machine.number(bytes), size * 2);
        writeln!(
            self.trace,
            "{count} clk M{letter}{size} {address:0width$x} {value:0digits$x}"
        )
        .unwrap();
    }

    fn register(&mut self, place: usize, value: u64) {
        let (_, Some(name), size) = &self.machine.registers[place] else {
            return;
        };
        let digits = size * 2;
        writeln!(self.trace, "{} clk R {name} {value:0digits$x}", self.count).unwrap();
    }

    /// The differences to the previous instant, from the stub.
    fn instant(&mut self, before: Option<&Instant>, now: &Instant) {
        writeln!(self.log, "I {}", self.count).unwrap();
        for (place, (name, ..)) in self.machine.registers.iter().enumerate() {
            if before.is_none_or(|before| before.registers[place] != now.registers[place]) {
                writeln!(self.log, "r {name} {:x}", now.registers[place]).unwrap();
            }
        }
        for (index, (start, bytes)) in now.data.iter().enumerate() {
            let old = before.map(|before| &before.data[index].1);
            let mut at = 0;
            while at < bytes.len() {
                let differs =
                    |at: usize| at < bytes.len() && old.is_none_or(|old| old[at] != bytes[at]);
                let length = (at..).take_while(|at| differs(*at)).count();
                if length > 0 {
                    write!(self.log, "m {:x} ", start + at as u64).unwrap();
                    for byte in &bytes[at..at + length] {
                        write!(self.log, "{byte:02x}").unwrap();
                    }
                    self.log.push('\n');
                }
                at += length.max(1);
            }
        }
    }
}

/// All registers and data.
struct Instant {
    registers: Vec<u64>,
    data: Vec<(u64, Vec<u8>)>,
}

fn make(machine: &Machine) {
    let folder_ = tempfile::tempdir().unwrap();
    let program = folder_.path().join("program");
    machine.build(&program);
    let symbols = machine.symbols(&program);
    let code = machine.code(&program);
    let data = machine.data(&program);
    let (pc_place, finish) = (machine.place("pc").unwrap(), symbols["finish"]);

    let mut stub = Stub::start(&format!("qemu-{}", machine.name), &program, folder_.path());
    let look = |stub: &mut Stub| Instant {
        registers: machine.values(&stub.registers()),
        data: data
            .iter()
            .map(|&(start, size)| (start, stub.memory(start, size)))
            .collect(),
    };
    let mut texts = Texts {
        machine,
        trace: String::new(),
        log: String::new(),
        count: 0,
    };
    let mut now = look(&mut stub);
    texts.instant(None, &now);
    while now.registers[pc_place] != finish {
        let pc = now.registers[pc_place];
        // Reads are examined before the step, writes after it.
        let moment = Moment {
            registers: &now.registers,
            pc,
            flags: machine
                .place("cpsr")
                .map_or(0, |place| now.registers[place]),
        };
        let (taken, accesses) = decode::accesses(machine, code[&pc].0, &moment);
        let mut read = Vec::new();
        for &(write, address, size) in &accesses {
            read.push(if write {
                Vec::new()
            } else {
                stub.memory(address, size)
            });
        }
        stub.step();
        let next = look(&mut stub);
        texts.instruction(pc, &code[&pc], taken);
        for (&(write, address, size), read) in accesses.iter().zip(read) {
            let bytes = if write {
                stub.memory(address, size)
            } else {
                read
            };
            texts.access(write, address, &bytes);
        }
        for (place, value) in next.registers.iter().enumerate() {
            if *value != now.registers[place] {
                texts.register(place, *value);
            }
        }
        // The decoder knows every change.
        for ((start, before), (_, after)) in now.data.iter().zip(&next.data) {
            for (address, _) in (*start..)
                .zip(before.iter().zip(after))
                .filter(|(_, (old, new))| old != new)
            {
                assert!(
                    accesses
                        .iter()
                        .any(|&(write, start, size)| write
                            && (start..start + size).contains(&address)),
                    "{}: {address:#x} changed at {pc:#x}: {:?}",
                    machine.name,
                    code[&pc]
                );
            }
        }
        texts.instant(Some(&now), &next);
        now = next;
    }
    let files = [
        ("elf", std::fs::read(&program).unwrap()),
        ("trace", texts.trace.into_bytes()),
        ("log", texts.log.into_bytes()),
    ];
    write(machine.name, files.into());
    println!("{}: {} instructions", machine.name, texts.count);
}

fn write(machine: &str, files: Vec<(&str, Vec<u8>)>) {
    for (kind, bytes) in files {
        let packed = zstd::encode_all(bytes.as_slice(), 19).unwrap();
        let path = folder("data").join(format!("{machine}.{kind}.zst"));
        std::fs::write(path, packed).unwrap();
    }
}

fn main() {
    write("nios2", nios2::record());
    for machine in machines() {
        make(&machine);
    }
}
