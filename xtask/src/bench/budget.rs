//! `cargo xtask bench budget`: what is left of a loop's speed under a budget, and what hits cost beside what was said before.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ratio::median;
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each pair has its turn
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The budget
    #[arg(long, default_value = "1%")]
    budget: String,
    /// How long the untraced loop takes, in seconds
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How many rounds of work the loops have between two hits: none is the hottest
    #[arg(long, value_delimiter = ',', default_value = "0,1000")]
    work: Vec<u64>,
    /// With how many threads
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    threads: Vec<u64>,
}

/// What is collected, by its name, and whether the condition is false.
const COLLECTIONS: [(&str, &str, bool); 7] = [
    ("no collect", "budget:step", false),
    ("two registers", "budget:step : $rdi, $rsi", false),
    ("a string", "budget:step : five.name", false),
    ("a vector", "budget:step : five.parts", false),
    ("a structure of five", "budget:step : five", false),
    (
        "a false condition",
        "budget:step if index < 0 : index",
        true,
    ),
    ("$stack", "budget:step : $stack", false),
];

/// What a run of the program has printed.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    calls: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let tracewire = workspace::tracewire()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("budget");
    workspace::run(
        Command::new("c++")
            .args(["-std=c++17", "-g", "-O2", "-pthread", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/budget.cpp")),
    )?;
    costs(&tracewire, &program)?;
    println!(
        "{:<22} {:>7} {:>6} {:>8} {:>8} {:>8} {:>10} {:>12} {:>7}",
        "speed left", "threads", "work", "median", "least", "most", "frames", "skipped", "pauses"
    );
    for &threads in &arguments.threads {
        for &work in &arguments.work {
            let calls = calibrate(&program, threads, work, arguments.seconds)?;
            for (name, tracepoint, _) in COLLECTIONS {
                let words = [threads, calls, work].map(|word| word.to_string());
                let mut left = Vec::new();
                let mut last = Counts::default();
                for _ in 0..arguments.rounds {
                    let untraced = read(Command::new(&program).args(&words))?;
                    let file = program.with_extension("tf");
                    let budgeted = read(
                        Command::new(&tracewire)
                            .args(["record", "--budget", &arguments.budget, "-t", tracepoint])
                            .arg("-o")
                            .arg(&file)
                            .arg("--")
                            .arg(&program)
                            .args(&words),
                    )?;
                    left.push(untraced.seconds / budgeted.seconds);
                    last = Counts::of(&tracewire, &file)?;
                    last.check(budgeted.calls)?;
                }
                let least = left.iter().copied().fold(f64::INFINITY, f64::min);
                let most = left.iter().copied().fold(0.0, f64::max);
                println!(
                    "{name:<22} {threads:>7} {work:>6} {:>7.2}% {:>7.2}% {:>7.2}% {:>10} {:>12} {:>7}",
                    median(&left) * 100.0,
                    least * 100.0,
                    most * 100.0,
                    last.frames,
                    last.skipped,
                    last.pauses
                );
            }
        }
    }
    Ok(())
}

/// What the last file of a pair says.
#[derive(Clone, Copy, Default)]
struct Counts {
    frames: u64,
    hits: u64,
    skipped: u64,
    pauses: u64,
}

impl Counts {
    fn of(tracewire: &Path, file: &Path) -> Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = workspace::output(Command::new(tracewire).args(["info", "--json"]).arg(file))?;
        std::fs::remove_file(file)?;
        let info: serde_json::Value = serde_json::from_str(&text)?;
        let tracepoint = &info["tracepoints"][0];
        Ok(Self {
            frames: info["frames"].as_u64().unwrap_or(0),
            hits: tracepoint["hits"].as_u64().unwrap_or(0),
            skipped: tracepoint["skipped"].as_u64().unwrap_or(0),
            pauses: tracepoint["pauses"].as_array().map_or(0, Vec::len) as u64,
        })
    }

    /// Where the tracepoint was in the program all the time, the program's own count is that of the file.
    fn check(self, calls: u64) -> Result<()> {
        let is_off = match self.pauses {
            0 => self.hits != 0 && self.hits != calls,
            _ => self.hits > calls,
        };
        if is_off || self.frames + self.skipped != self.hits {
            bail!(
                "{} frames, {} hits skipped of {}, and {calls} calls",
                self.frames,
                self.skipped,
                self.hits
            );
        }
        Ok(())
    }
}

/// What hits cost without a budget, beside what is said before.
fn costs(tracewire: &Path, program: &Path) -> Result<()> {
    const CALLS: u64 = 2_000_000;
    let words = ["1", &CALLS.to_string(), "0"].map(str::to_owned);
    println!(
        "{:<22} {:>12} {:>12} {:>7}",
        "a hit by jump, ns", "said before", "measured", "times"
    );
    for (name, tracepoint, is_false) in COLLECTIONS {
        let mut means = Vec::new();
        let mut said = None;
        for _ in 0..5 {
            let untraced = read(Command::new(program).args(&words))?;
            let output = Command::new(tracewire)
                .args([
                    "record",
                    "--verbose",
                    "--circular",
                    "--mechanism",
                    "jump",
                    "-t",
                    tracepoint,
                ])
                .arg("-o")
                .arg(program.with_extension("tf"))
                .arg("--")
                .arg(program)
                .args(&words)
                .output()?;
            let traced = parse(&String::from_utf8_lossy(&output.stdout))?;
            means.push((traced.seconds - untraced.seconds) * 1e9 / CALLS as f64);
            said = said_before(&String::from_utf8_lossy(&output.stderr), is_false);
        }
        let said = said.context("no cost was said")?;
        let mean = median(&means);
        println!("{name:<22} {said:>12.0} {mean:>12.1} {:>7.2}", said / mean);
    }
    println!();
    Ok(())
}

/// What was said that a hit, or one with a false condition, takes at most, in nanoseconds.
fn said_before(text: &str, is_false: bool) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.contains("a hit takes at most"))?;
    let after = match is_false {
        true => line.split_once("one whose condition is false ")?.1,
        false => line.split_once("a hit takes at most ")?.1,
    };
    let mut words = after.split([' ', ',']);
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "ns" => Some(number),
        "µs" => Some(number * 1e3),
        "ms" => Some(number * 1e6),
        _ => None,
    }
}

/// How many calls take so long.
fn calibrate(program: &Path, threads: u64, work: u64, seconds: f64) -> Result<u64> {
    let mut calls = 100_000;
    loop {
        let words = [threads, calls, work].map(|word| word.to_string());
        let run = read(Command::new(program).args(words))?;
        if run.seconds >= seconds / 10.0 {
            return Ok((calls as f64 * seconds / run.seconds) as u64);
        }
        calls *= 4;
    }
}

fn read(command: &mut Command) -> Result<Run> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        format!(
            "{command:?} said: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn parse(text: &str) -> Result<Run> {
    let number = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("no `{name}` in the output of the program"))
    };
    Ok(Run {
        seconds: number("seconds: ")?.parse()?,
        calls: number("calls: ")?.parse()?,
    })
}
