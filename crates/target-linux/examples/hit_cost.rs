//! The cost of a hit on this machine: `cargo run --release -p tracewire-target-linux --example hit_cost`.
//!
//! A program calls a function in a loop and times itself, with a tracepoint on the function and without. Figures
//! are microseconds a call, the best of some runs: `hit_cost [HITS [RUNS]]`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};
use tracewire_experiment::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target};
use tracewire_model::{Address, RegisterNumber};
use tracewire_target_linux::{Event, ModuleKind, Process, Settings};

const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long a_value, b_value, calls;
__attribute__((noinline)) void place(long i) { __asm__ volatile("" :: "r"(i) : "memory"); }
static void *work(void *unused) {
    for (long i = 0; i < calls; i++) place(i);
    return unused;
}
int main(int argc, char **argv) {
    struct timespec start, end;
    int count = atoi(argv[2]);
    calls = atol(argv[3]) / count;
    pthread_t threads[64];
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 1; i < count; i++) pthread_create(&threads[i], 0, work, 0);
    work(0);
    for (int i = 1; i < count; i++) pthread_join(threads[i], 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    FILE *results = fopen(argv[1], "w");
    fprintf(results, "%f", ((end.tv_sec - start.tv_sec) * 1e6 + (end.tv_nsec - start.tv_nsec) * 1e-3) / calls / count);
    fclose(results);
    return 0;
}
"#;

/// The work at a hit.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Nothing.
    Nothing,
    /// A condition on an argument, which is false.
    FalseCondition,
    /// A condition on a variable in memory, which is false.
    FalseInMemory,
    /// Two values, the time and the cpu.
    TwoValues,
    /// A register block as well.
    Registers,
}

struct Collector {
    work: Work,
    pieces: Vec<MemoryRead>,
    sum: u64,
    hits: u64,
}

impl HitHandler for Collector {
    fn hit(&mut self, _: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        const RDI: RegisterNumber = RegisterNumber(5);
        self.hits += 1;
        match self.work {
            Work::Nothing => {}
            Work::FalseCondition => self.sum += thread.register(RDI).unwrap_or(0),
            Work::FalseInMemory => {
                thread.read_memory(&mut self.pieces[..1]);
                self.sum += self.pieces[0].filled as u64;
            }
            Work::TwoValues | Work::Registers => {
                thread.read_memory(&mut self.pieces);
                self.sum += u64::from(thread.cpu()) + thread.timestamp();
                if matches!(self.work, Work::Registers) {
                    self.sum += thread
                        .register_block()
                        .map_or(0, |block| block.len() as u64);
                }
            }
        }
        Outcome {
            step: false,
            run_ended: false,
        }
    }
}

fn main() {
    let hits: u64 = std::env::args()
        .nth(1)
        .and_then(|hits| hits.parse().ok())
        .unwrap_or(100_000);
    let runs: u32 = std::env::args()
        .nth(2)
        .and_then(|runs| runs.parse().ok())
        .unwrap_or(5);
    let directory = std::env::temp_dir().join(format!("hit-cost-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory for the program");
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&source, SOURCE).expect("the source is written");
    let status = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .args([&program, &source])
        .status()
        .expect("cc runs");
    assert!(status.success(), "the program is built");
    let works = [
        Work::Nothing,
        Work::FalseCondition,
        Work::FalseInMemory,
        Work::TwoValues,
        Work::Registers,
    ];
    for follow_cpu in [true, false] {
        for threads in [1, 2, 4] {
            for work in works {
                let cost = (0..runs)
                    .map(|_| measure(&program, &directory, work, threads, hits, follow_cpu))
                    .fold(f64::INFINITY, f64::min);
                println!("follow_cpu={follow_cpu} threads={threads} {work:?}: {cost:.2} us");
            }
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

fn measure(
    program: &Path,
    directory: &Path,
    work: Work,
    threads: u32,
    hits: u64,
    follow_cpu: bool,
) -> f64 {
    let results = directory.join("results");
    let arguments: [OsString; 3] = [
        results.clone().into(),
        threads.to_string().into(),
        hits.to_string().into(),
    ];
    let settings = Settings {
        follow_cpu,
        ..Settings::default()
    };
    let mut process = Process::spawn(program, &arguments, settings).expect("the program starts");
    let bias = process
        .modules()
        .expect("modules are listed")
        .iter()
        .find(|module| module.kind == ModuleKind::Executable)
        .map_or(0, |module| module.load_bias);
    let symbol = |name| Address(bias + symbol(program, name));
    process
        .insert(symbol("place"))
        .expect("the tracepoint goes in");
    let piece = |name| MemoryRead {
        address: symbol(name),
        bytes: vec![0; 8],
        filled: 0,
    };
    let pieces = vec![piece("a_value"), piece("b_value")];
    let mut collector = Collector {
        work,
        pieces,
        sum: 0,
        hits: 0,
    };
    while process.run(&mut collector).expect("the program runs") == Event::LibrariesChanged {}
    assert_eq!(
        collector.hits,
        hits / u64::from(threads) * u64::from(threads)
    );
    fs::read_to_string(results)
        .ok()
        .and_then(|text| text.parse().ok())
        .expect("the program's own time")
}

fn symbol(program: &Path, name: &str) -> u64 {
    let bytes = fs::read(program).expect("the program is read");
    object::File::parse(bytes.as_slice())
        .expect("the program is an ELF file")
        .symbols()
        .find(|symbol| symbol.name() == Ok(name))
        .expect("the symbol is there")
        .address()
}
