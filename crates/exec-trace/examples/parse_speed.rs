//! How fast a trace is parsed, without an index: `cargo run --release -p tracewire-exec-trace --example parse_speed -- FILE [THREADS]`.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use rayon::prelude::*;
use tracewire_exec_trace::record::{Access, Instruction, Line, Owner, RegisterWrite};
use tracewire_exec_trace::text::{Format, LineError, Sink, TraceText, read};

#[derive(Default)]
struct Sum {
    instructions: u64,
    accesses: u64,
    registers: u64,
    unparsed: u64,
    mixed: u64,
}

impl Sink for Sum {
    fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
        self.instructions += 1;
        self.mixed ^= instruction.address.0 ^ instruction.time.ticks;
    }
    fn access(&mut self, _: Line, owner: Owner, access: &Access<'_>) {
        self.accesses += 1;
        self.mixed ^= access.data.known().unwrap_or(0) + u64::from(owner == Owner::Latest);
    }
    fn register(&mut self, _: Line, _: Owner, write: &RegisterWrite<'_>) {
        self.registers += 1;
        self.mixed ^= write.value.known().unwrap_or(0);
    }
    fn unparsed(&mut self, _: Line, _: &[u8], _: LineError) {
        self.unparsed += 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("expected: FILE [THREADS]")?);
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let text = TraceText::open(&path)?;
    let format = Format::detect(&text).ok_or("no execution trace")?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    for _ in 0..3 {
        let start = Instant::now();
        let sums: Vec<Sum> = pool.install(|| {
            let pieces = format.pieces(&text, 8 << 20);
            let one = |piece: &_| {
                let mut sum = Sum::default();
                read(format, &text, piece, &mut sum);
                sum
            };
            pieces.par_iter().map(one).collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        let total = |of: fn(&Sum) -> u64| sums.iter().map(of).sum::<u64>();
        println!(
            "{format}: {} instructions, {} accesses, {} register writes, {} unparsed ({:x}); {:.0} MB/s",
            total(|sum| sum.instructions),
            total(|sum| sum.accesses),
            total(|sum| sum.registers),
            total(|sum| sum.unparsed),
            sums.iter().fold(0, |mixed, sum| mixed ^ sum.mixed),
            text.len() as f64 / 1e6 / seconds,
        );
    }
    Ok(())
}
