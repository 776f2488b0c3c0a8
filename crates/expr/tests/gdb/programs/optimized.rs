use std::hint::black_box;

#[derive(Clone, Debug)]
struct Job {
    id: u32,
    name: String,
    weight: Option<f64>,
}

#[inline(never)]
fn handle(job: &Job, depth: usize, label: &str) -> u64 {
    let score = u64::from(job.id) * 3 + depth as u64;
    let bonus = match job.weight {
        Some(weight) => weight as u64,
        None => 0,
    };
    let pair = (score, bonus);
    black_box(&pair);
    black_box(score + bonus + label.len() as u64) // here
}

fn main() {
    let jobs: Vec<Job> = (1..4)
        .map(|id| Job { id, name: format!("job{id}"), weight: (id > 1).then_some(f64::from(id)) })
        .collect();
    let mut total = 0;
    for (index, job) in jobs.iter().enumerate() {
        total += handle(job, index, "label");
    }
    println!("{total} {:?}", jobs[0].name);
}
