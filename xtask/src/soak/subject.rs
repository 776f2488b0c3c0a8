//! The programs of the soak: their sources, and their properties.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// A program that checks itself.
pub struct Subject {
    pub name: &'static str,
    source: &'static str,
    options: &'static [&'static str],
    kind: &'static str,
    /// Whether each call that it counts is a hit. One that leaves calls by `siglongjmp` counts calls that never were.
    pub is_exact: bool,
    /// Whether pads may stay in it: a handler ran while a thread was in one, or a thread waits in `vfork` and cannot be stopped.
    pub keeps_pads: bool,
}

const fn c(name: &'static str, kind: &'static str, options: &'static [&'static str]) -> Subject {
    Subject {
        name,
        source: "program.c",
        options,
        kind,
        is_exact: true,
        keeps_pads: false,
    }
}

const fn exceptions(name: &'static str, kind: &'static str) -> Subject {
    Subject {
        name,
        source: "exceptions.cc",
        options: &["-O2"],
        kind,
        is_exact: true,
        keeps_pads: false,
    }
}

const fn keeps_pads(subject: Subject) -> Subject {
    Subject {
        keeps_pads: true,
        ..subject
    }
}

/// All of them.
pub const SUBJECTS: [Subject; 26] = [
    c("plain", "plain", &["-O1"]),
    c("not-pie", "plain", &["-O2", "-no-pie"]),
    c("static", "threads", &["-O1", "-static"]),
    keeps_pads(c("static-pie", "signals", &["-O1", "-static-pie"])),
    c("unoptimised", "numbers", &["-O0"]),
    c("threads", "threads", &["-O3"]),
    c("churn", "churn", &["-O1"]),
    c("forks", "forks", &["-O1"]),
    keeps_pads(c("executes", "executes", &["-O1"])),
    c("becomes", "becomes", &["-O1"]),
    c("libraries", "libraries", &["-O1"]),
    keeps_pads(c("signals", "signals", &["-O2", "-fomit-frame-pointer"])),
    keeps_pads(c("alternate-stack", "alternate", &["-O1"])),
    Subject {
        is_exact: false,
        keeps_pads: true,
        ..c("jumps-away", "jumps_away", &["-O1"])
    },
    c("long-jumps", "long_jumps", &["-O1"]),
    c("timers", "timers", &["-O1"]),
    c("small-stacks", "small_stacks", &["-O1"]),
    c("mappings", "mappings", &["-O1"]),
    c("clones", "clones", &["-O1"]),
    c("turns", "turns", &["-O1"]),
    c("sockets", "sockets", &["-O1", "-no-pie"]),
    keeps_pads(c("masks", "masks", &["-O1", "-static"])),
    c("stops", "stops", &["-O1"]),
    c("continues", "continues", &["-O1"]),
    exceptions("exceptions", "one"),
    exceptions("exceptions-in-threads", "threads"),
];

impl Subject {
    /// Builds it in a folder.
    pub fn build(&self, folder: &Path) -> Result<()> {
        let compiler = if self.source.ends_with(".cc") {
            "c++"
        } else {
            "cc"
        };
        workspace::run(
            Command::new(compiler)
                .args(["-g", "-pthread", "-w"])
                .args(self.options)
                .arg("-o")
                .arg(self.program(folder))
                .arg(sources().join(self.source)),
        )
    }

    /// Where it is when it is built.
    pub fn program(&self, folder: &Path) -> PathBuf {
        folder.join(self.name)
    }

    /// The command that runs it, for this many calls; 0: until it gets a signal.
    pub fn command(&self, folder: &Path, shared: &Shared, calls: u64) -> Vec<String> {
        let words = [self.program(folder), self.kind.into(), shared.path.clone()];
        let mut words: Vec<String> = words.map(|word| word.display().to_string()).into();
        words.push(calls.to_string());
        words
    }
}

fn sources() -> PathBuf {
    workspace::root().join("xtask/soak")
}

/// Builds all of them, and the library that one of them loads.
pub fn build(folder: &Path) -> Result<()> {
    workspace::run(
        Command::new("cc")
            .args(["-g", "-shared", "-fPIC", "-o"])
            .arg(folder.join("plugin.so"))
            .arg(sources().join("plugin.c")),
    )?;
    SUBJECTS
        .iter()
        .try_for_each(|subject| subject.build(folder))
}

/// The state that a program shares with the soak: see `program.h`.
pub struct Shared {
    pub path: PathBuf,
    file: File,
}

impl Shared {
    const SIZE: u64 = 4096;
    const COUNTERS: u64 = 16;
    const LANES: u64 = 256;

    pub fn new(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(Self::SIZE)?;
        Ok(Self { path, file })
    }

    fn word(&self, index: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, index * 8)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Tells the program to end.
    pub fn end(&self) -> Result<()> {
        Ok(self.file.write_all_at(&1_u64.to_le_bytes(), 0)?)
    }

    /// The line of the source at which a check failed.
    pub fn wrong(&self) -> Result<Option<u64>> {
        Ok(Some(self.word(1)?).filter(|line| *line > 0))
    }

    pub fn works(&self) -> Result<bool> {
        Ok(self.word(2)? > 0)
    }

    /// Whether all of its checks passed, to the last.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.word(2)? == 2)
    }

    /// How many waiting system calls failed with `EINTR`.
    pub fn interrupted(&self) -> Result<u64> {
        self.word(3)
    }

    /// How many calls there have been.
    pub fn calls(&self) -> Result<u64> {
        let lanes = Self::COUNTERS..Self::COUNTERS + Self::LANES;
        lanes.map(|index| self.word(index)).sum()
    }
}
