//! `cargo xtask soak`: programs that check themselves start, end, fork and load libraries. They are recorded, detached from, killed
//! and rescued at random, for hours.
//!
//! Each of several threads has one program at a time, chosen at random among 26 ([`subject`]), and treats it as a seed decides
//! ([`life`]). It finds programs that were harmed (their own checks, their exit), and calls that are neither in a file nor counted.
//! It also finds memory and descriptors that grow, mappings that are left, and processes that take too long, with their stacks.

mod frames;
mod life;
mod process;
mod subject;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use crate::{setup, workspace};
use life::{Life, Tally};
use subject::SUBJECTS;

#[derive(clap::Args)]
pub struct Arguments {
    /// How long, in hours
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// How long, in minutes
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// How many programs run at a time
    #[arg(long, default_value_t = 24)]
    programs: u64,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The Tracewire to run; a release build, without
    #[arg(long, value_name = "PROGRAM")]
    tracewire: Option<PathBuf>,
    /// Only this program
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The state that all threads of a soak share.
struct Soak<'a> {
    tracewire: &'a Path,
    programs: &'a Path,
    folder: &'a Path,
    subjects: Vec<&'a subject::Subject>,
    seed: u64,
    longest: Duration,
    until: Instant,
    lives: AtomicU64,
    found: Mutex<Found>,
    changed: Condvar,
}

#[derive(Default)]
struct Found {
    tally: Tally,
    faults: Vec<String>,
    /// How many threads are still running.
    working: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_TESTS)?;
    let time = Duration::try_from_secs_f64(arguments.hours * 3600.0 + arguments.minutes * 60.0)
        .context("--hours and --minutes")?;
    if time.is_zero() {
        bail!("how long is not said: expected --hours N or --minutes N");
    }
    let tracewire = match &arguments.tracewire {
        Some(program) => program
            .canonicalize()
            .with_context(|| program.display().to_string())?,
        None => workspace::tracewire()?,
    };
    let wanted = arguments.only.as_deref();
    let subjects: Vec<_> = SUBJECTS
        .iter()
        .filter(|subject| wanted.is_none_or(|name| name == subject.name))
        .collect();
    if subjects.is_empty() {
        let names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
        bail!("no such program: expected one of {}", names.join(", "));
    }
    let folder = tempfile::Builder::new().prefix("soak").tempdir()?;
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs)?;
    subject::build(&programs)?;
    let soak = Soak {
        tracewire: &tracewire,
        programs: &programs,
        folder: folder.path(),
        subjects,
        seed: arguments.seed,
        longest: (time / 10).min(Duration::from_secs(120)),
        until: Instant::now() + time,
        lives: AtomicU64::new(0),
        found: Mutex::new(Found {
            working: arguments.programs,
            ..Found::default()
        }),
        changed: Condvar::new(),
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.programs {
            scope.spawn(|| soak.work());
        }
        soak.report(begun);
    });
    let found = soak
        .found
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if !found.faults.is_empty() {
        let kept = folder.keep();
        for fault in &found.faults {
            println!("{fault}\n");
        }
        bail!(
            "{} faults; the files are in {}",
            found.faults.len(),
            kept.display()
        );
    }
    Ok(())
}

impl Soak<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One life after the other, until the time is over.
    fn work(&self) {
        while Instant::now() < self.until {
            let number = self.lives.fetch_add(1, Ordering::Relaxed);
            let mut random = Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(1 << 32)));
            let subject = self.subjects[random.usize(..self.subjects.len())];
            let folder = self.folder.join(format!("{number}-{}", subject.name));
            let mut life = Life {
                subject,
                tracewire: self.tracewire,
                programs: self.programs,
                folder: folder.clone(),
                random,
                longest: self.longest,
                tally: Tally::default(),
            };
            let lived = std::fs::create_dir(&folder)
                .map_err(Into::into)
                .and_then(|()| life.live());
            let mut found = self.lock();
            found.tally.add(&life.tally);
            match lived {
                Ok(()) => {
                    // Remaining files only use disk space.
                    let _ = std::fs::remove_dir_all(&folder);
                }
                Err(error) => {
                    let fault = format!("life {number}, {}: {error:#}", subject.name);
                    eprintln!("{fault}");
                    found.faults.push(fault);
                }
            }
        }
        self.lock().working -= 1;
        self.changed.notify_all();
    }

    /// A line a minute, and one at the end.
    fn report(&self, begun: Instant) {
        let mut found = self.lock();
        let mut next = Duration::from_secs(60);
        loop {
            let left = next.saturating_sub(begun.elapsed());
            found = self
                .changed
                .wait_timeout(found, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if found.working > 0 && begun.elapsed() < next {
                continue;
            }
            let tally = &found.tally;
            println!(
                "{:.1} min: {} programs; recordings: {} started, {} let go, {} ended by a signal, {} killed ({} rescued, {} system calls \
                 interrupted); {} frames, {} lost and counted; at most {} MiB and {} descriptors; {} faults",
                begun.elapsed().as_secs_f64() / 60.0,
                tally.programs,
                tally.started,
                tally.let_go,
                tally.ended,
                tally.killed,
                tally.rescued,
                tally.interrupted,
                tally.frames,
                tally.lost,
                tally.usage.memory >> 10,
                tally.usage.descriptors,
                found.faults.len()
            );
            if found.working == 0 {
                return;
            }
            next += Duration::from_secs(60);
        }
    }
}
