//! `cargo xtask bench attach`: many processes with busy threads, attached to and left again and again.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::ratio::median;
use crate::running::Running;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How many processes there are
    #[arg(long, default_value_t = 20)]
    processes: usize,
    /// How many busy threads each of them has
    #[arg(long, default_value_t = 20)]
    threads: usize,
    /// How often they are attached to and left
    #[arg(long, default_value_t = 20)]
    cycles: usize,
    /// Print the figures, and do not fail where one is over its limit
    #[arg(long)]
    no_limits: bool,
}

/// The limits that the project sets itself on two cpus: the median in seconds, and in seconds at a time for each thread.
const ATTACHED: f64 = 2.0;
const LEFT: f64 = 2.0;
const STOPPED: f64 = 0.05;

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_HIT)?;
    let tracewire = workspace::tracewire()?;
    let directory = tempfile::tempdir()?;
    let program = directory.path().join("busy");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O2", "-pthread", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/busy.c")),
    )?;
    let mut programs = Vec::new();
    for _ in 0..arguments.processes {
        let program = Running::start(Command::new(&program).arg(arguments.threads.to_string()))?;
        program.wait_for_line("that it is ready", |line| line == "ready")?;
        programs.push(program);
    }
    // What is measured is `record`, and not when this process gets a processor to read its lines.
    // The threads that read them inherit it.
    let own = std::process::id().to_string();
    workspace::run(Command::new("chrt").args(["--rr", "--pid", "1", &own]))?;
    let (mut attached, mut left, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.cycles {
        let cycle = cycle(&tracewire, directory.path(), &programs)?;
        attached.push(cycle.attached);
        left.push(cycle.left);
        stopped.push(cycle.stopped);
    }
    for program in &mut programs {
        program.signal(libc::SIGTERM)?;
        let lines = program.succeed().context("a traced program was harmed")?;
        if lines.last().is_none_or(|line| line != "well") {
            bail!("a traced program has not ended well: {}", lines.join("\n"));
        }
    }
    println!(
        "{} processes with {} busy threads each, {} times; all ended well",
        arguments.processes, arguments.threads, arguments.cycles
    );
    let mut over = Vec::new();
    for (what, seconds, limit) in [
        ("attached", &attached, ATTACHED),
        ("left", &left, LEFT),
        ("longest stop of a thread", &stopped, STOPPED),
    ] {
        let most = seconds.iter().copied().fold(0.0, f64::max);
        let median = median(seconds);
        println!("{what:<26} {median:>9.4} s (most {most:.4}; limit {limit})");
        if median > limit {
            over.push(what);
        }
    }
    if !over.is_empty() && !arguments.no_limits {
        bail!("over the limit: {}", over.join(", "));
    }
    Ok(())
}

/// Seconds.
struct Cycle {
    attached: f64,
    left: f64,
    /// The longest time at which a thread was stopped at once.
    stopped: f64,
}

/// Attaches to all programs, and leaves them.
fn cycle(tracewire: &Path, directory: &Path, programs: &[Running]) -> Result<Cycle> {
    let folder = directory.join("run");
    let mut record = Command::new("chrt");
    record
        .args(["--other", "0"])
        .arg(tracewire)
        .args(["record", "-t", "step if by == 0 : value, by", "-o"])
        .arg(&folder);
    for program in programs {
        record.args(["-p", &program.id().to_string()]);
    }
    let start = Instant::now();
    let mut record = Running::start(&mut record)?;
    record.wait_for_line("that all processes are recorded", |line| {
        line.ends_with(" processes are recorded") || line.ends_with(" process is recorded")
    })?;
    let attached = start.elapsed().as_secs_f64();
    let start = Instant::now();
    record.signal(libc::SIGINT)?;
    // No condition holds, so there are no frames, and `record` says so with status 1.
    let (status, lines) = record.finish()?;
    if status.code() != Some(1) {
        bail!("record: {status}\n{}", lines.join("\n"));
    }
    let left = start.elapsed().as_secs_f64();
    let longest = (lines.iter())
        .find_map(|line| {
            line.strip_prefix("tracewire: threads were stopped ")?
                .split_once("longest ")
        })
        .and_then(|(_, longest)| seconds(longest))
        .context("record does not say how long threads were stopped")?;
    std::fs::remove_dir_all(&folder)?;
    Ok(Cycle {
        attached,
        left,
        stopped: longest,
    })
}

/// A duration as `record` prints it, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit {
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_as_they_are_printed() {
        assert_eq!(seconds("41 µs"), Some(41e-6));
        assert_eq!(seconds("1.2 s"), Some(1.2));
        assert_eq!(seconds("3 h"), None);
    }
}
