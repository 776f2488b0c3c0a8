//! Functions that begin with inlined copies of others, as most of Rust's do.

use std::collections::HashMap;
use std::hint::black_box;

pub struct Job {
    pub id: u64,
    pub tags: Vec<u32>,
}

#[inline(never)]
pub fn run(job: &Job, weight: i64, letter: u8) -> u64 {
    black_box(job);
    job.id + weight as u64 + u64::from(letter) + job.tags.len() as u64
}

#[inline(never)]
pub fn look(map: &HashMap<u32, u32>, key: u32) -> Option<u32> {
    map.get(&key).copied()
}

#[inline(never)]
pub fn pushed<T: Clone>(value: T, values: &mut Vec<T>) -> usize {
    values.push(value.clone());
    values.len()
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
    let mut map = HashMap::new();
    let mut values = Vec::new();
    let mut sum = 0;
    for i in 0..6u32 {
        let job = Job { id: u64::from(i) + 7, tags: vec![i; 3] };
        map.insert(i, i * 2);
        sum += run(&job, i64::from(i) * 3, b'a') + u64::from(job.total(i));
        sum += u64::from(look(&map, 2).unwrap_or(0)) + pushed(i, &mut values) as u64;
    }
    println!("{sum}");
}
