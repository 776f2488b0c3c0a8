//! As `values.cpp`, in Rust.

use std::time::Instant;

#[inline(never)]
fn see_numbers(numbers: &Vec<u32>) -> u32 {
    // SAFETY: a nop of five bytes.
    unsafe { std::arch::asm!(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", in("rax") numbers) };
    numbers[0]
}

fn main() {
    const BATCH: u32 = 1000;
    let calls: u32 = std::env::args().nth(1).map_or(1_000_000, |calls| calls.parse().unwrap());
    let numbers = std::hint::black_box(vec![1, 2, 3, 4]);
    let mut costs: Vec<f64> = (0..calls.div_ceil(BATCH))
        .map(|_| {
            let start = Instant::now();
            for _ in 0..BATCH {
                std::hint::black_box(see_numbers(&numbers));
            }
            start.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("nanoseconds per call: {:.3}", costs[costs.len() / 2]);
}
