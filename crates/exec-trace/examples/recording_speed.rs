//! How fast a recording answers: `cargo run --release -p tracewire-exec-trace --example recording_speed -- FILE WHAT`.
//!
//! - `lines`: counts the lines of the text, in place of opening it: no reader can be faster;
//! - `open`: nothing but that it is opened, which indexes it where there is no index;
//! - `warm`: registers and memory at random instants, one after the other;
//! - `cold SEED`: one register and one piece of memory, in a process that has just begun;
//! - `scan`: all register writes in order, on all processors;
//! - `values ADDRESS`: one register each time that the instruction at an address executes, on all processors;
//! - `text`: writes the text to the standard output.
//!
//! A line for each figure: its name, and the number.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Effect, OpenOptions, Recording, RegisterId};
use tracewire_model::Address;

const CPU: CpuNumber = CpuNumber(0);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, what, rest @ ..] = arguments.as_slice() else {
        return Err("expected: FILE WHAT".into());
    };
    if what == "lines" {
        return lines(Path::new(path));
    }
    let start = Instant::now();
    let recording = Recording::open(Path::new(path), &OpenOptions::default())?;
    println!("opened_s {:.6}", start.elapsed().as_secs_f64());
    let number = |at: usize| -> Result<u64, Box<dyn Error>> {
        let text: &String = rest.get(at).ok_or("expected a number")?;
        Ok(match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16)?,
            None => text.parse()?,
        })
    };
    match what.as_str() {
        "open" => Ok(()),
        "warm" => warm(&recording),
        "cold" => cold(&recording, number(0)?),
        "scan" => scan(&recording),
        "values" => values(&recording, number(0)?),
        "text" => {
            let mut out = std::io::stdout().lock();
            recording.write_text(&mut out)?;
            Ok(out.flush()?)
        }
        _ => Err("expected open, warm, cold, scan, values or text".into()),
    }
}

fn lines(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; 1 << 20];
    let mut lines = 0;
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &piece[..length]).count();
    }
    println!("lines {lines}");
    Ok(())
}

/// Random instants, registers and addresses that the trace has.
struct Random {
    state: u64,
    instructions: u64,
    registers: u64,
}

impl Random {
    fn new(recording: &Recording, seed: u64) -> Self {
        Self {
            state: seed,
            instructions: recording.len(),
            registers: recording.register_names().len() as u64,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 20) % end.max(1)
    }

    fn instant(&mut self) -> InstructionNumber {
        InstructionNumber(self.below(self.instructions))
    }

    fn register(&mut self) -> RegisterId {
        RegisterId(self.below(self.registers) as u32)
    }

    /// An address that some instruction near a random instant accessed.
    fn address(&mut self, recording: &Recording) -> Result<Address, Box<dyn Error>> {
        let from = self.instant();
        let mut found = Address(0);
        recording.for_each_instruction(from.0..recording.len(), &mut |step| {
            let mut flow = std::ops::ControlFlow::Continue(());
            step.effects(|effect| {
                if let Effect::Access(access) = effect {
                    found = access.address;
                    flow = std::ops::ControlFlow::Break(());
                }
            });
            flow
        })?;
        Ok(found)
    }
}

fn warm(recording: &Recording) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(recording, 1);
    let mut addresses = Vec::new();
    for _ in 0..2000 {
        addresses.push(random.address(recording)?);
    }
    for round in 0..2 {
        let mut times = Vec::new();
        for _ in 0..addresses.len() {
            let (instant, register) = (random.instant(), random.register());
            let start = Instant::now();
            black_box(recording.register_at(CPU, register, instant)?);
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        if round == 1 {
            report("register", times);
        }
        let mut times = Vec::new();
        for address in &addresses {
            let instant = random.instant();
            let start = Instant::now();
            let mut bytes = [None; 4];
            recording.memory_at(instant, *address, &mut bytes)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            black_box(bytes);
        }
        if round == 1 {
            report("memory", times);
        }
    }
    Ok(())
}

fn report(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!("{what}_median_us {:.2}", times[times.len() / 2]);
    println!("{what}_99_us {:.2}", times[times.len() * 99 / 100]);
}

fn cold(recording: &Recording, seed: u64) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(recording, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (instant, register) = (random.instant(), random.register());
    let start = Instant::now();
    black_box(recording.register_at(CPU, register, instant)?);
    println!("register_us {:.1}", start.elapsed().as_secs_f64() * 1e6);
    let (instant, address) = (random.instant(), 0x8010_0000 + random.below(1 << 28));
    let mut bytes = [None; 4];
    let start = Instant::now();
    recording.memory_at(instant, Address(address & !3), &mut bytes)?;
    println!("memory_us {:.1}", start.elapsed().as_secs_f64() * 1e6);
    Ok(())
}

fn scan(recording: &Recording) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let sums = recording.scan(
        0..recording.len(),
        |_| 0u64,
        |sum, step| {
            step.effects(|effect| {
                if let Effect::Register(write) = effect {
                    *sum = sum.wrapping_add(write.number().unwrap_or(0));
                }
            });
        },
    )?;
    black_box(sums);
    let seconds = start.elapsed().as_secs_f64();
    println!("scan_mips {:.1}", recording.len() as f64 / 1e6 / seconds);
    Ok(())
}

fn values(recording: &Recording, address: u64) -> Result<(), Box<dyn Error>> {
    let register = recording
        .register("a0")
        .or_else(|| recording.register("r4"))
        .ok_or("no register a0 or r4")?;
    let start = Instant::now();
    let rows = recording.rows_of(&(0..recording.len()), rayon::current_num_threads() * 8)?;
    let values = rows
        .into_par_iter()
        .map(|row| {
            let mut values = Vec::new();
            let mut replay = recording.replay(InstructionNumber(row.start))?;
            let end = InstructionNumber(row.end);
            while replay.run_to(end, |step| step.address().0 == address)? {
                values.push(replay.register(CPU, register).known());
                replay.advance()?;
            }
            Ok(values)
        })
        .collect::<Result<Vec<_>, tracewire_exec_trace::recording::ReadError>>()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("hits {}", values.iter().map(Vec::len).sum::<usize>());
    println!("values_mips {:.1}", recording.len() as f64 / 1e6 / seconds);
    Ok(())
}
