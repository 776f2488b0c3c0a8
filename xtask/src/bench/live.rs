//! `cargo xtask bench live`: 100,000 hits a second shown as they come, to a reader that reads and to one that does not.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::goals::verdict;
use super::hit::{nanoseconds_per_call, printed_cost};
use crate::ratio::median;
use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many hits there are in a turn
    #[arg(long, default_value_t = 300_000)]
    hits: u64,
}

/// How long the program works from one hit to the next, in nanoseconds.
const BETWEEN: f64 = 10_000.0;

/// How much longer it may work where the reader does not read.
const STALLED_LIMIT: f64 = 1.05;

/// How frames are shown.
const FORMS: [(&str, &[&str]); 2] = [("table", &["--live"]), ("JSON", &["--live", "--json"])];

/// What the program says that a call took, with a reader of each kind.
#[derive(Default)]
struct Turns {
    reading: Vec<f64>,
    stalled: Vec<f64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let tracewire = workspace::tracewire()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("live");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/live.c")),
    )?;
    let untraced = |steps: u64| {
        let mut command = Command::new(&program);
        nanoseconds_per_call(command.args([arguments.hits.to_string(), steps.to_string()]))
    };
    let steps = (1000.0 * BETWEEN / untraced(1000)?) as u64;
    let bench = Bench {
        tracewire,
        folder: folder.path().to_owned(),
        program: program.clone(),
        hits: arguments.hits,
        steps,
    };
    let mut plain = Vec::new();
    let mut forms = FORMS.map(|_| Turns::default());
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        plain.push(untraced(steps)?);
        for ((_, options), turns) in FORMS.iter().zip(&mut forms) {
            turns.reading.push(bench.turn(options, Reader::Reads)?);
            turns.stalled.push(bench.turn(options, Reader::Stalls)?);
        }
    }
    println!(
        "untraced: {:.0} hits a second; all {} hits of each turn were shown",
        1e9 / median(&plain),
        arguments.hits
    );
    for ((form, _), turns) in FORMS.iter().zip(&forms) {
        let ratios = |one: &[f64], other: &[f64]| -> f64 {
            let pairs = one.iter().zip(other);
            median(&pairs.map(|(one, other)| one / other).collect::<Vec<_>>())
        };
        let stalled = ratios(&turns.stalled, &turns.reading);
        println!(
            "{form}: the program takes {:.3} of its untraced time, and with a reader that stalls {stalled:.3} of that (at most {STALLED_LIMIT}: {})",
            ratios(&turns.reading, &plain),
            verdict(stalled <= STALLED_LIMIT),
        );
    }
    Ok(())
}

/// What reads the frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Reads,
    /// It reads nothing before the program has ended.
    Stalls,
}

struct Bench {
    tracewire: PathBuf,
    folder: PathBuf,
    program: PathBuf,
    hits: u64,
    steps: u64,
}

impl Bench {
    /// Nanoseconds a call. All frames must be shown.
    fn turn(&self, options: &[&str], reader: Reader) -> Result<f64> {
        let mut recorder = Command::new(&self.tracewire)
            .args(["record", "--mechanism", "jump", "-t", "work : index, size"])
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args([self.hits.to_string(), self.steps.to_string()])
            .current_dir(Path::new(&self.folder))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let rows = BufReader::new(recorder.stdout.take().context("a pipe")?);
        let errors = BufReader::new(recorder.stderr.take().context("a pipe")?);
        let of_program = std::thread::spawn(move || {
            let mut lines = errors.lines().map_while(std::io::Result::ok);
            let cost = lines.find_map(|line| printed_cost(&line));
            (cost, lines)
        });
        let count = |rows: BufReader<_>| {
            let lines = rows.lines().map_while(std::io::Result::ok);
            lines.filter(|line| !line.starts_with("Frame")).count() as u64
        };
        let (shown, (cost, messages)) = match reader {
            Reader::Reads => {
                let shown = count(rows);
                (
                    shown,
                    of_program
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                )
            }
            Reader::Stalls => {
                let said = of_program
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (count(rows), said)
            }
        };
        let messages: Vec<String> = messages.collect();
        let status = recorder.wait()?;
        if !status.success() {
            bail!("record has ended with {status}: {}", messages.join("\n"));
        }
        // A frame has two values, and each has a line of a table.
        let lines = if options.contains(&"--json") { 1 } else { 2 };
        if shown != self.hits * lines {
            bail!("{shown} lines of {} were shown", self.hits * lines);
        }
        cost.context("the program has not said how long a call took")
    }
}
