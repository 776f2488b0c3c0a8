//! Indexes a trace and looks at it: `cargo run --release -p tracewire-exec-trace --example index_speed -- FILE`.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording, RegisterId, Search, What};
use tracewire_tracefile::Address;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("expected: FILE")?;
    let start = Instant::now();
    let recording = Recording::open(Path::new(&path), &OpenOptions::default())?;
    let opened = start.elapsed().as_secs_f64();
    let summary = recording.summary();
    println!("{summary:#?} {:?}", recording.architecture());
    let size = summary.text_size as f64;
    println!("opened in {opened:.3} s, {:.0} MB/s", size / 1e6 / opened);
    println!(
        "index 1/{:.2} of the text, records 1/{:.2}",
        size / summary.index_size as f64,
        size / (summary.index_size - summary.search_size) as f64
    );
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 20) % below
    };
    let count = summary.instructions;
    let registers = recording.register_names().len() as u64;
    for round in 0..2 {
        let mut times = Vec::new();
        for _ in 0..2000 {
            let (n, register) = (random(count), random(registers));
            let start = Instant::now();
            let value = recording.register_at(
                CpuNumber(0),
                RegisterId(register as u32),
                InstructionNumber(n),
            )?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            black_box(value);
        }
        report(&format!("register at an instant, round {round}"), times);
        let mut times = Vec::new();
        for _ in 0..2000 {
            let (n, at) = (random(count), random(64 << 20) * 4);
            let start = Instant::now();
            let mut bytes = [None; 4];
            recording.memory_at(InstructionNumber(n), Address(0x8010_0000 + at), &mut bytes)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            black_box(bytes);
        }
        report(&format!("memory at an instant, round {round}"), times);
    }
    let start = Instant::now();
    let mut found = 0;
    recording.find_all(
        &Search::new(What::Visit, 0x8000_1040..=0x8000_1040),
        0..count,
        &mut |_| {
            found += 1;
            std::ops::ControlFlow::Continue(())
        },
    )?;
    println!(
        "{found} visits in {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let start = Instant::now();
    let sums = recording.scan(
        0..count,
        |_| 0u64,
        |sum, step| {
            step.effects(|effect| {
                if let tracewire_exec_trace::recording::Effect::Register(write) = effect {
                    *sum = sum.wrapping_add(write.number().unwrap_or(0));
                }
            });
        },
    )?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "scan: {:.1} M instructions/s ({:x})",
        count as f64 / 1e6 / seconds,
        sums.iter().fold(0u64, |a, b| a.wrapping_add(*b))
    );
    Ok(())
}

fn report(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!(
        "{what}: median {:.1} µs, 99 % {:.1} µs, most {:.1} µs",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1]
    );
}
