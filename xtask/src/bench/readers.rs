//! A log of each format, made by this benchmark, to its index: the processor time and the memory.
//!
//! Other work of the machine changes the time on the clock, and not by much that of the processor. So a speed is that of two processors
//! that do nothing else: twice the text by the processor time. The ratio is to counting the lines of the same file, in the same run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::goals::verdict;
use crate::ratio::median;
use crate::workspace;

/// The goal on two processors that do nothing else, in MB/s.
const SPEED: f64 = 200.0;

/// The most memory for text that does not repeat, in MiB.
const MEMORY: f64 = 150.0;

/// How many times longer an index may take than to count the lines. Other work of the machine slows both.
const RATIO: f64 = 75.0;

/// What is made and read: the formats, and text of random codes and data.
const LOGS: [&str; 16] = [
    "qemu4v",
    "microtesk",
    "tarmac",
    "nios2-2",
    "nios2-3",
    "qemu-log",
    "execlog",
    "spike",
    "gem5",
    "rvfi",
    "perf-instructions",
    "perf-branches",
    "perf-samples",
    // Each line is nine records, so the text that is read is several times the log.
    "perf-stacks",
    "control-flow",
    RANDOM,
];

const RANDOM: &str = "random";

/// What a process took.
struct Usage {
    /// Of the processors, in seconds.
    seconds: f64,
    /// The most memory, in MiB.
    memory: f64,
}

/// Measures each format, and fails where a limit is missed.
pub(super) fn run(
    make: &Path,
    speed: &Path,
    folder: &Path,
    mebibytes: u64,
    rounds: usize,
) -> Result<()> {
    println!("a log of {mebibytes} MiB of each format to its index, by processor time");
    println!(
        "{:<18} {:>22} {:>8} {:>20} {:>8}",
        "format", "MB/s on two", "goal", "times line counting", "MiB"
    );
    let mut missed = Vec::new();
    for log in LOGS {
        let path = folder.join(log);
        let mut maker = Command::new(make);
        workspace::run(maker.args([log, &mebibytes.to_string()]).arg(&path))?;
        let size = fs::metadata(&path)?.len() as f64;
        let (mut times, mut ratios, mut memory) = (Vec::new(), Vec::new(), 0.0f64);
        for _ in 0..rounds {
            let floor = usage(Command::new(speed).arg(&path).arg("lines"))?;
            let mut index = path.clone().into_os_string();
            index.push(".twindex");
            drop(fs::remove_file(index));
            let read = usage(Command::new(speed).arg(&path).arg("open"))?;
            times.push(read.seconds);
            ratios.push(read.seconds / floor.seconds.max(1e-6));
            memory = memory.max(read.memory);
        }
        let of = |seconds: f64| 2.0 * size / 1e6 / seconds;
        let speed = of(median(&times));
        let longest = times.iter().copied().fold(f64::MIN, f64::max);
        let shortest = times.iter().copied().fold(f64::MAX, f64::min);
        let speeds = format!("{speed:.0} ({:.0} to {:.0})", of(longest), of(shortest));
        let ratio = median(&ratios);
        let is_met = ratio <= RATIO && (log != RANDOM || memory <= MEMORY);
        let goal = verdict(speed >= SPEED);
        println!("{log:<18} {speeds:>22} {goal:>8} {ratio:>20.1} {memory:>8.0}");
        if !is_met {
            missed.push(log);
        }
        fs::remove_file(&path)?;
    }
    println!("goal: {SPEED} MB/s; limits: {RATIO} times line counting, {MEMORY} MiB for {RANDOM}");
    if !missed.is_empty() {
        bail!("limits are missed: {}", missed.join(", "));
    }
    Ok(())
}

/// Runs a command to its end.
fn usage(command: &mut Command) -> Result<Usage> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let id = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: zeros are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places are there for as long as the call; the child is this process's, and nothing else waits for it.
    if unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) } != id {
        return Err(std::io::Error::last_os_error()).context("wait4");
    }
    ensure!(status == 0, "{command:?} ended by {status}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Usage {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        memory: usage.ru_maxrss as f64 / 1024.0,
    })
}
