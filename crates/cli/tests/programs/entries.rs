//! Rust functions as an optimiser leaves them. Each call prints the function and its arguments before it is made.

use std::collections::HashMap;
use std::hint::black_box;

macro_rules! call {
    ($name:ident($($argument:ident: $value:expr),*)) => {{
        print!("@entries::{}", stringify!($name));
        $(print!(" {}={:?}", stringify!($argument), $value);)*
        println!();
        $name($($value),*)
    }};
}

pub struct Job {
    pub id: u64,
    pub tags: Vec<u32>,
}

#[inline(never)]
pub fn whole(a: i32, b: i64, c: u32, d: i16) -> i64 {
    black_box(a);
    i64::from(a) + b + i64::from(c) + i64::from(d)
}

#[inline(never)]
pub fn mixed(x: f64, n: i32, y: f32) -> f64 {
    black_box(n);
    x * f64::from(n) + f64::from(y)
}

#[inline(never)]
pub fn checked(n: u32, limit: u32) -> Option<u32> {
    black_box(limit);
    n.checked_mul(2).filter(|&n| n < limit)
}

#[inline(never)]
pub fn summed(start: u64, step: u64) -> u64 {
    (0..5).map(|n| n * step).fold(start, |sum, n| black_box(sum + n))
}

#[inline(never)]
pub fn recursive(n: u32, so_far: u64) -> u64 {
    black_box(n);
    if n == 0 { so_far } else { call!(recursive(n: n - 1, so_far: so_far + u64::from(n))) * 2 }
}

#[inline(always)]
fn copied(n: u32, bias: u32) -> u32 {
    black_box(bias);
    n.wrapping_add(bias)
}

#[inline(never)]
pub fn first_is_inlined(outer: u32, other: u32) -> u32 {
    black_box(outer.wrapping_mul(3)) + other
}

#[inline(never)]
pub fn looked_up(map: &HashMap<u32, u64>, key: u32) -> u64 {
    map.get(&key).copied().unwrap_or(0)
}

#[inline(never)]
pub fn pushed(values: &mut Vec<u64>, value: u64) -> usize {
    values.push(value);
    values.len()
}

#[inline(never)]
pub fn panics(n: u32, limit: u32) -> u32 {
    assert!(n < limit, "{n} is too large");
    black_box(n) + 1
}

#[inline(never)]
pub fn generic<T: Copy + Into<f64>>(value: T, times: i32) -> f64 {
    black_box(times);
    value.into() * f64::from(times)
}

impl Job {
    #[inline(never)]
    pub fn total(&self, start: u32) -> u32 {
        self.tags.iter().fold(start, |sum, tag| sum + tag)
    }
}

impl Drop for Job {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(self.id);
    }
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(9, |text| text.parse().unwrap());
    let map: HashMap<u32, u64> = (0..4).map(|n| (n, u64::from(n) * 10)).collect();
    let mut values = Vec::new();
    let mut sum = 0u64;
    for i in 0..rounds {
        let n = i as i32;
        sum += call!(whole(a: n, b: i64::from(n) * 100, c: i + 7, d: 40 - n as i16)) as u64;
        sum += call!(mixed(x: f64::from(n) * 0.5, n: n, y: n as f32 + 0.25)) as u64;
        sum += u64::from(call!(checked(n: i, limit: 12)).unwrap_or(0));
        sum += call!(summed(start: u64::from(i), step: 3));
        sum += call!(recursive(n: i % 4, so_far: u64::from(i)));
        sum += u64::from(call!(copied(n: i, bias: i + 2)));
        sum += u64::from(call!(first_is_inlined(outer: i, other: 4)));
        println!("@entries::looked_up key={}", i % 6);
        sum += looked_up(&map, i % 6);
        println!("@entries::pushed value={}", u64::from(i) * 8);
        sum += pushed(&mut values, u64::from(i) * 8) as u64;
        sum += u64::from(call!(panics(n: i, limit: 1000)));
        println!("@entries::generic<i32> value={} times={}", n, n + 1);
        sum += generic(n, n + 1) as u64;
        println!("@entries::generic<f32> value={} times={}", n as f32 * 0.5, n + 2);
        sum += generic(n as f32 * 0.5, n + 2) as u64;
        let job = Job { id: u64::from(i), tags: vec![i; 3] };
        println!("@entries::Job::total self={:p} start={}", &job, i + 1);
        sum += u64::from(job.total(i + 1));
    }
    println!("{sum}");
}
