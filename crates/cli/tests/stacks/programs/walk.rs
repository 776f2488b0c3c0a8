//! Random calls, the same in every run: of traits, closures and generic functions, through a C library.

use std::hint::black_box;
use std::os::raw::{c_int, c_uint};

#[link(name = "hop")]
unsafe extern "C" {
    fn hop(back: extern "C" fn(c_int, c_uint) -> c_int, depth: c_int, seed: c_uint) -> c_int;
    fn hop_far(back: extern "C" fn(c_int, c_uint) -> c_int, depth: c_int, seed: c_uint) -> c_int;
}

#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn leaf(seed: u32) {
    black_box(seed);
}

fn next(seed: u32) -> u32 {
    seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

trait Step {
    fn take(&self, depth: i32, seed: u32) -> i32;
}

struct Plain(String);

struct Typed<T>(T);

impl Step for Plain {
    #[inline(never)]
    fn take(&self, depth: i32, seed: u32) -> i32 {
        walk(depth - 1, next(seed)).wrapping_add(self.0.len() as i32)
    }
}

impl<T: Copy + Into<i64>> Step for Typed<T> {
    #[inline(never)]
    fn take(&self, depth: i32, seed: u32) -> i32 {
        let more: i64 = self.0.into();
        walk(depth - 1, next(seed.wrapping_add(more as u32))).wrapping_add(more as i32)
    }
}

#[inline(never)]
fn folded(depth: i32, seed: u32) -> i32 {
    (0..2).fold(0_i32, |sum, turn| {
        let depth = if turn == 0 { depth - 1 } else { 0 };
        sum.wrapping_add(if depth > 0 || turn == 0 { walk(depth, next(seed)) } else { 1 })
    })
}

#[inline(never)]
fn sorted(depth: i32, seed: u32) -> i32 {
    let mut numbers = [3, 1, 2, seed & 3];
    let mut walked = false;
    numbers.sort_by(|a, b| {
        if !walked {
            walked = true;
            walk(depth - 1, next(seed));
        }
        a.cmp(b)
    });
    numbers[0] as i32
}

extern "C" fn back(depth: c_int, seed: c_uint) -> c_int {
    walk(depth, next(seed)).wrapping_add(1)
}

#[inline(never)]
fn walk(depth: i32, seed: u32) -> i32 {
    if depth <= 0 {
        leaf(seed);
        return black_box(seed as i32);
    }
    let step: Box<dyn Step> = match seed >> 16 & 7 {
        0 | 1 => Box::new(Plain("plain".to_owned())),
        2 => Box::new(Typed(7_u8)),
        3 => Box::new(Typed(-2_i64)),
        4 => return folded(depth, seed).wrapping_add(1),
        5 => return sorted(depth, seed).wrapping_add(2),
        // SAFETY: the library passes its arguments back unchanged.
        6 => return unsafe { hop(back, depth, next(seed)) }.wrapping_add(3),
        // SAFETY: as above.
        _ => return unsafe { hop_far(back, depth, next(seed)) },
    };
    step.take(depth, seed).wrapping_add(1)
}

fn main() {
    let hits = std::env::args().nth(1).and_then(|hits| hits.parse().ok());
    let mut seed = 7;
    for _ in 0..hits.unwrap_or(10) {
        seed = next(seed);
        black_box(walk((seed >> 20) as i32 % 10, seed));
    }
}
