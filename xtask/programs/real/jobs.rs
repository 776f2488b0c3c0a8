//! A Rust program for `cargo xtask real`: it runs jobs and keeps a log of its own calls.

use std::collections::HashMap;
use std::fmt::Write as _;

pub struct Job {
    pub id: u64,
    pub name: String,
    pub weight: u32,
}

pub struct Queue {
    seen: HashMap<String, u64>,
}

impl Queue {
    #[inline(never)]
    pub fn run(&mut self, job: &Job, factor: u32) -> u64 {
        let seen = self.seen.entry(job.name.clone()).or_insert(0);
        *seen += 1;
        *seen * u64::from(job.weight) + u64::from(factor)
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).expect("the log's path");
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let count: u64 = line.trim().parse().expect("a count");
    let mut queue = Queue {
        seen: HashMap::new(),
    };
    let (mut log, mut sum) = (String::new(), 0_u64);
    for id in 0..count {
        let job = Job {
            id,
            name: format!("job {}", id % 11),
            weight: (id % 17) as u32,
        };
        let factor = (id % 3) as u32;
        writeln!(log, "{} {} {factor}", job.id, job.weight).expect("a string takes all");
        sum = sum.wrapping_add(queue.run(&job, factor));
    }
    std::fs::write(path, log)?;
    println!("done {sum}");
    Ok(())
}
