//! `cargo xtask bench circular`: what a circular buffer costs a program that fills it at full speed, by its size.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ratio::median;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each build has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many hits there are in a turn, of all threads
    #[arg(long, default_value_t = 320_000)]
    hits: u64,
    /// Another build of `tracewire`, which takes turns with this one
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Measure this build of `tracewire`, not the release build of the workspace
    #[arg(long)]
    program: Option<PathBuf>,
    /// Only the rows whose name contains this
    #[arg(long, default_value = "")]
    rows: String,
}

/// The sizes of circular buffers, in MiB; the last one is a linear buffer.
const SIZES: [Option<u32>; 8] = [
    Some(5),
    Some(16),
    Some(24),
    Some(48),
    Some(64),
    Some(128),
    Some(256),
    None,
];
const THREADS: [u64; 2] = [8, 64];
/// A linear buffer waits up to two seconds for each hit that is left, so that is measured with circular ones only.
const LEAVE: &str = "leave";

/// How the program runs.
#[derive(Clone, Copy)]
struct Row {
    size: Option<u32>,
    threads: u64,
    leaves: bool,
}

impl Row {
    fn name(self) -> String {
        let buffer = self
            .size
            .map_or("linear".to_owned(), |size| format!("{size} MiB"));
        let leaves = if self.leaves { ", siglongjmp" } else { "" };
        format!("{buffer}, {} threads{leaves}", self.threads)
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_HIT)?;
    let ours = match &arguments.program {
        Some(program) => program.clone(),
        None => workspace::tracewire()?,
    };
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("circular");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/circular.c")),
    )?;
    println!(
        "{} hits of all threads, in milliseconds from the first to the last; in brackets until `record` has ended",
        arguments.hits
    );
    for leaves in [false, true] {
        for size in SIZES.into_iter().filter(|size| size.is_some() || !leaves) {
            for threads in THREADS {
                let row = Row {
                    size,
                    threads,
                    leaves,
                };
                if row.name().contains(&arguments.rows) {
                    measure(arguments, row, &ours, &program)?;
                }
            }
        }
    }
    Ok(())
}

fn measure(arguments: &Arguments, row: Row, ours: &Path, program: &Path) -> Result<()> {
    let (mut own, mut other) = (Turns::default(), Turns::default());
    for round in 0..arguments.rounds {
        let mut builds = vec![(ours, &mut own)];
        builds.extend(arguments.beside.as_deref().map(|path| (path, &mut other)));
        // The one that goes first may find another machine.
        if round % 2 == 1 {
            builds.reverse();
        }
        for (tracewire, turns) in builds {
            turns.add(turn(arguments, row, tracewire, program)?);
        }
    }
    print!("{:<34}{}", row.name(), own.text());
    if arguments.beside.is_some() {
        let ratios: Vec<f64> = (own.loops.iter().zip(&other.loops))
            .map(|(own, other)| own / other)
            .collect();
        print!("   beside{}   ratio {:.2}", other.text(), median(&ratios));
    }
    println!();
    Ok(())
}

/// The seconds of a build's turns.
#[derive(Default)]
struct Turns {
    loops: Vec<f64>,
    whole: Vec<f64>,
}

impl Turns {
    fn add(&mut self, (own, whole): (f64, f64)) {
        self.loops.push(own);
        self.whole.push(whole);
    }

    fn text(&self) -> String {
        let [own, whole] = [&self.loops, &self.whole].map(|seconds| median(seconds) * 1e3);
        format!("{own:>9.1} ({whole:>6.0})")
    }
}

/// The seconds of the program's loops, and of the whole command.
fn turn(arguments: &Arguments, row: Row, tracewire: &Path, program: &Path) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let mut record = Command::new("timeout");
    record
        .arg("120")
        .arg(tracewire)
        .args(["record", "--mechanism", "jump", "-t", "hit : *shown", "-o"])
        .arg(folder.path().join("run.tf"));
    if let Some(size) = row.size {
        record.args(["--circular", "--buffer-size", &format!("{size}MiB")]);
    }
    record.arg("--").arg(program).args([
        row.threads.to_string(),
        (arguments.hits / row.threads).to_string(),
    ]);
    if row.leaves {
        record.arg(LEAVE);
    }
    let start = std::time::Instant::now();
    let output = record.output().context("cannot start `timeout`")?;
    let whole = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!(
            "{record:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let own = String::from_utf8(output.stdout)?;
    let own = own.trim().parse().context("the program says no time")?;
    Ok((own, whole))
}
