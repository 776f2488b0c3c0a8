//! Writes a log of a size in MiB, as a simulator writes it: `cargo run --release -p tracewire-exec-trace --example make_log -- FORMAT 64 OUT`.
//!
//! FORMAT is the name of a format. `perf-stacks` are samples with the branches before them, `random` is QEMU4V whose codes and data do not repeat, so that nothing of it compresses.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use tracewire_exec_trace::text::Format;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, mebibytes, out] = arguments.as_slice() else {
        return Err("expected: FORMAT MEBIBYTES OUT".into());
    };
    let size = mebibytes.parse::<usize>()? << 20;
    let known = Format::ALL.into_iter().find(|of| of.name() == format);
    let random = (format == "random").then_some(Format::Qemu4v);
    let stacks = (format == "perf-stacks").then_some(Format::PerfSamples);
    let form = known.or(random).or(stacks).ok_or("no such format")?;
    let mut out = BufWriter::new(File::create(out)?);
    let mut machine = Machine::new(form, random.is_some());
    let mut text = header(form).as_bytes().to_vec();
    let mut written = 0;
    while written + text.len() < size {
        let step = machine.step();
        write_step(&mut text, form, &step, stacks.is_some())?;
        if text.len() > 1 << 16 {
            out.write_all(&text)?;
            written += text.len();
            text.clear();
        }
    }
    out.write_all(&text)?;
    Ok(out.flush()?)
}

const fn header(format: Format) -> &'static str {
    match format {
        Format::Nios2V2 => "version 2\nnumThreads 1\n",
        Format::Nios2V3 => "version 3\nnumThreads 1\n",
        Format::Rvfi => {
            "Time\tCycle\tPC\tInsn\tDecoded instruction\tRegister and memory contents\n"
        }
        Format::ControlFlow => "# transcript of a control flow trace\n",
        _ => "",
    }
}

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A register goes on by a step.
    Count,
    /// A register gets a number that looks like chance.
    Mix,
    Load,
    Store,
    Branch,
}

/// An instruction of the program.
struct Instruction {
    kind: Kind,
    register: u8,
    other: u8,
    code: u32,
    text: String,
}

/// A function: where its instructions are, and how often it repeats them.
struct Function {
    start: usize,
    end: usize,
    rounds: u64,
}

/// An execution of an instruction.
struct Step<'m> {
    /// From 1.
    number: u64,
    pc: u32,
    code: u32,
    text: &'m str,
    function: u32,
    offset: u32,
    /// Whether the code was executed before.
    is_known: bool,
    /// The register that was written.
    write: Option<(u8, u32)>,
    /// Whether it writes, the address and the data.
    access: Option<(bool, u32, u32)>,
    /// The register that is stored.
    stored: u8,
    registers: [u32; 16],
}

/// A machine of 32 bits that executes a program of loops.
struct Machine {
    program: Vec<Instruction>,
    functions: Vec<Function>,
    seen: Vec<bool>,
    is_random: bool,
    function: usize,
    round: u64,
    at: usize,
    number: u64,
    seed: u64,
    registers: [u32; 16],
}

const BASE: u32 = 0x8000_0000;
const DATA: u32 = 0x8010_0000;

fn next(seed: &mut u64) -> u32 {
    *seed = seed
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    (*seed >> 32) as u32
}

impl Machine {
    fn new(format: Format, is_random: bool) -> Self {
        let mut seed = 1;
        let mut program = Vec::new();
        let mut functions = Vec::new();
        for _ in 0..100 {
            let start = program.len();
            for _ in 0..8 + next(&mut seed) % 60 {
                let kind = match next(&mut seed) % 20 {
                    0..6 => Kind::Count,
                    6..10 => Kind::Mix,
                    10..14 => Kind::Load,
                    14..17 => Kind::Store,
                    _ => Kind::Branch,
                };
                let (register, other) = (next(&mut seed) % 15 + 1, next(&mut seed) % 15 + 1);
                let text = match kind {
                    Kind::Count => format!("addi x{register},x{register},4"),
                    Kind::Mix => format!("mul x{register},x{other},x{register}"),
                    Kind::Load => format!("lw x{register},0(x{other})"),
                    Kind::Store => format!("sw x{register},0(x{other})"),
                    Kind::Branch => format!("bne x{register},x{other},-16"),
                };
                let is_nios = matches!(format, Format::Nios2V2 | Format::Nios2V3);
                let code = match (is_nios, kind) {
                    (true, Kind::Load) => other << 27 | register << 22 | 0x17,
                    (true, Kind::Store) => other << 27 | register << 22 | 0x15,
                    (true, _) => other << 27 | register << 22 | 0x04,
                    (_, Kind::Count) => 4 << 20 | register << 15 | register << 7 | 0x13,
                    (_, Kind::Mix) => 1 << 25 | register << 20 | other << 15 | register << 7 | 0x33,
                    (_, Kind::Load) => other << 15 | 2 << 12 | register << 7 | 0x03,
                    (_, Kind::Store) => register << 20 | other << 15 | 2 << 12 | 0x23,
                    (_, Kind::Branch) => register << 20 | other << 15 | 1 << 12 | 0x63,
                };
                program.push(Instruction {
                    kind,
                    register: register as u8,
                    other: other as u8,
                    code,
                    text,
                });
            }
            let rounds = u64::from(1 + next(&mut seed) % 100);
            let end = program.len();
            functions.push(Function { start, end, rounds });
        }
        Self {
            seen: vec![false; program.len()],
            program,
            functions,
            is_random,
            function: 0,
            round: 0,
            at: 0,
            number: 0,
            seed,
            registers: [0; 16],
        }
    }

    fn step(&mut self) -> Step<'_> {
        let function = &self.functions[self.function];
        if self.at >= function.end {
            self.round += 1;
            self.at = function.start;
            if self.round >= function.rounds {
                self.round = 0;
                self.function = next(&mut self.seed) as usize % self.functions.len();
                self.at = self.functions[self.function].start;
            }
        }
        let start = self.functions[self.function].start;
        let at = self.at;
        self.at += 1;
        self.number += 1;
        let instruction = &self.program[at];
        let (register, before) = (instruction.register, self.registers);
        let index = usize::from(register);
        let chance = next(&mut self.seed);
        let mut code = instruction.code;
        let mut place = DATA + (before[usize::from(instruction.other)] & 0xf_fffc);
        // Half of the words in memory are small.
        let held = place.wrapping_mul(0x9e37_79b1);
        let mut held = if held & 8 == 0 { held >> 24 } else { held };
        if self.is_random {
            (code, held) = (chance, next(&mut self.seed));
            place = DATA + (next(&mut self.seed) & 0xff_fffc);
        }
        let (mut write, mut access) = (None, None);
        match instruction.kind {
            Kind::Count if !self.is_random => write = Some(before[index].wrapping_add(4)),
            Kind::Count | Kind::Mix => write = Some(chance),
            Kind::Load => {
                write = Some(held);
                access = Some((false, place, held));
            }
            Kind::Store if self.is_random => access = Some((true, place, held)),
            Kind::Store => access = Some((true, place, before[index])),
            Kind::Branch => {}
        }
        if let Some(value) = write {
            self.registers[index] = value;
        }
        Step {
            number: self.number,
            pc: BASE + at as u32 * 4,
            code,
            text: &instruction.text,
            function: self.function as u32,
            offset: (at - start) as u32 * 4,
            is_known: std::mem::replace(&mut self.seen[at], true),
            write: write.map(|value| (register, value)),
            access,
            stored: register,
            registers: before,
        }
    }
}

/// Appends the lines of a step.
fn write_step(
    out: &mut Vec<u8>,
    format: Format,
    step: &Step<'_>,
    has_stack: bool,
) -> std::io::Result<()> {
    let Step {
        number,
        pc,
        code,
        text,
        function,
        offset,
        ..
    } = *step;
    let (seconds, nanoseconds) = (2275 + number / 1_000_000_000, number % 1_000_000_000);
    match format {
        Format::Qemu4v | Format::Tarmac => {
            let head = if format == Format::Tarmac {
                "cpu0 IT"
            } else {
                "0 IT"
            };
            writeln!(
                out,
                "{number} clk {head} ({number}) {pc:08x} {code:08x} A svc : {text}"
            )?;
            let cpu = if format == Format::Tarmac {
                "cpu0 "
            } else {
                ""
            };
            if let Some((is_write, address, data)) = step.access {
                let kind = if is_write { "MW4" } else { "MR4" };
                writeln!(out, "{number} clk {cpu}{kind} {address:08x} {data:08x}")?;
            }
            if let Some((register, value)) = step.write {
                writeln!(out, "{number} clk {cpu}R r{register} {value:08x}")?;
            }
            Ok(())
        }
        Format::Microtesk => {
            let number = number - 1;
            writeln!(
                out,
                "{number} clk 0 IT ({number}) {pc:016x} {code:08x} A svc_ns : {text}"
            )?;
            if let Some((is_write, address, data)) = step.access {
                let kind = if is_write { "MW4" } else { "MR4" };
                writeln!(out, "{number} clk {kind} {address:016x} {data:08x}")?;
            }
            if let Some((register, value)) = step.write {
                writeln!(out, "{number} clk R r{register} {value:08x}")?;
            }
            Ok(())
        }
        Format::Nios2V2 | Format::Nios2V3 => {
            let (register, value) = step.write.unwrap_or((0, 0));
            let written = u8::from(step.write.is_some());
            let (is_write, address, data) = step.access.unwrap_or_default();
            let enables = if is_write { "f" } else { "0" };
            let time = number * 10;
            if format == Format::Nios2V2 {
                writeln!(
                    out,
                    "{time} ns: 0,{pc:x},0,0,0,{code:x},{written},{register:x},{value:x},{address:x},{data:x},{enables},0,0,1,0,0,0,0,0"
                )
            } else {
                writeln!(
                    out,
                    "{time} ns: 0,{pc:x},0,0,0,{code:x},1,{written},{register:x},0,{value:x},{address:x},{data:x},{enables},0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"
                )
            }
        }
        Format::QemuLog => {
            if !step.is_known {
                writeln!(
                    out,
                    "----------------\nIN: f{function}\n0x{pc:08x}:  {code:08x}  {text}\n"
                )?;
            }
            writeln!(
                out,
                "Trace 0: 0x7f10{pc:08x} [00000400/{pc:016x}/00000520/ff020201] f{function}"
            )?;
            for (register, value) in step.registers.iter().take(15).enumerate() {
                let end = if register % 4 == 3 { '\n' } else { ' ' };
                write!(out, "R{register:02}={value:08x}{end}")?;
            }
            writeln!(out, "R15={pc:08x}\nPSR=400001d3 -Z-- A svc32")
        }
        Format::Execlog => {
            write!(
                out,
                "0, 0x{pc:x}, 0x{code:x}, \"{code:08x}          {text}\""
            )?;
            if let Some((is_write, address, _)) = step.access {
                let kind = if is_write { "store" } else { "load" };
                write!(out, ", {kind}, 0x{address:08x}")?;
            }
            if let Some((register, value)) = step.write {
                write!(out, ", x{register} -> 0x{value:08x}")?;
            }
            writeln!(out)
        }
        Format::Spike => {
            writeln!(out, "core   0: 0x{pc:08x} (0x{code:08x}) {text}")?;
            write!(out, "core   0: 3 0x{pc:08x} (0x{code:08x})")?;
            if let Some((register, value)) = step.write {
                write!(out, " x{register:<2} 0x{value:08x}")?;
            }
            match step.access {
                Some((true, address, data)) => write!(out, " mem 0x{address:08x} 0x{data:08x}")?,
                Some((false, address, _)) => write!(out, " mem 0x{address:08x}")?,
                None => {}
            }
            writeln!(out)
        }
        Format::Gem5 => {
            let tick = number * 500;
            write!(
                out,
                "{tick}: system.cpu: A0 T0 : 0x{pc:x} @f{function}+{offset}    :   {text:<26} : "
            )?;
            let of_write = step.write.map_or(0, |(_, value)| value);
            match step.access {
                Some((true, address, data)) => {
                    writeln!(
                        out,
                        "MemWrite :  D=0x{data:016x} A=0x{address:x}  flags=(IsInteger|IsStore)"
                    )
                }
                Some((false, address, data)) => {
                    writeln!(
                        out,
                        "MemRead :  D=0x{data:016x} A=0x{address:x}  flags=(IsInteger|IsLoad)"
                    )
                }
                None => writeln!(out, "IntAlu :  D=0x{of_write:016x}  flags=(IsInteger)"),
            }
        }
        Format::Rvfi => {
            let time = number * 2;
            write!(
                out,
                "{time:>15}\t{number:>10}\t{pc:08x}\t{code:08x}\t{text}\t"
            )?;
            let stored = step.stored;
            match (step.access, step.write) {
                (Some((true, address, data)), _) => {
                    write!(
                        out,
                        "x{stored}:0x{data:08x} PA:0x{address:08x} store:0x{data:08x}"
                    )?;
                }
                (Some((false, address, data)), _) => {
                    write!(
                        out,
                        "x{stored}=0x{data:08x} PA:0x{address:08x} load:0x{data:08x}"
                    )?;
                }
                (None, Some((register, value))) => {
                    let before = step.registers[usize::from(register)];
                    write!(out, "x{register}:0x{before:08x} x{register}=0x{value:08x}")?;
                }
                (None, None) => {}
            }
            writeln!(out)
        }
        Format::PerfInstructions => {
            let [a, b, c, d] = code.to_le_bytes();
            writeln!(
                out,
                "            ls  1443 [006] {seconds}.{nanoseconds:09}: {pc:>16x} f{function}+0x{offset:x} (/usr/bin/ls) insn: {a:02x} {b:02x} {c:02x} {d:02x}"
            )
        }
        Format::PerfBranches => {
            let to = BASE + step.registers[3] % 0x4000;
            writeln!(
                out,
                "            ls  1443 [006] {seconds}.{nanoseconds:09}:          1 branches:uH:   call {pc:>16x} f{function}+0x{offset:x} (/usr/bin/ls) => {to:>16x} g+0x0 (/usr/bin/ls)"
            )
        }
        Format::PerfSamples => {
            write!(
                out,
                "            ls  1443 [006] {seconds}.{nanoseconds:09}:     100003 cycles:u: {pc:>16x} f{function}+0x{offset:x} (/usr/bin/ls) "
            )?;
            for back in if has_stack { 1..5 } else { 0..0 } {
                let from = pc - back * 64;
                write!(out, " 0x{from:x}/0x{:x}/P/-/-/{back}", from + 32)?;
            }
            writeln!(out)
        }
        _ => writeln!(
            out,
            "{number} clk 0 IT ({number}) {pc:016x} {code:08x} - - : "
        ),
    }
}
