//! The traced program, and its own counts.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tracewire_test_support::Cc;

/// A thread's line in the file of counts, in bytes.
pub const LINE: usize = 64;

/// How long something may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked whether something has come. Looking all the time would take the program the processor.
pub const TURN: Duration = Duration::from_micros(500);

/// Builds it.
pub fn build(folder: &Path) -> PathBuf {
    build_source(folder, "counted", include_str!("../programs/counted.c"))
}

/// Builds a program of this name.
pub fn build_source(folder: &Path, name: &str, source: &str) -> PathBuf {
    let cc = Cc::new().options(&["-O1", "-pthread"]);
    cc.text(source).build(folder, name)
}

/// Starts a program that counts in a file, a line for each of its threads and one before them. Its threads run.
pub fn start_counting(
    program: &Path,
    counts: &Path,
    threads: usize,
    arguments: &[String],
) -> (Child, File) {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(counts)
        .unwrap();
    file.set_len((LINE * (threads + 1)) as u64).unwrap();
    // Threads that only make calls leave Tracewire, and the machine, no processor.
    let mut child = Command::new("nice")
        .args(["-n", "19"])
        .arg(program)
        .arg(counts)
        .arg(threads.to_string())
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, file)
}

/// The counts of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub begun: u64,
    pub returned: u64,
    pub seldom_begun: u64,
    pub seldom_returned: u64,
}

/// It runs.
pub struct Counted {
    child: Child,
    counts: File,
    path: PathBuf,
    threads: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Counted {
    /// Starts so many threads, which pause for some microseconds after a few calls.
    pub fn start(program: &Path, folder: &Path, threads: usize, pause: u32) -> Self {
        let path = folder.join("counts");
        let (child, counts) = start_counting(program, &path, threads, &[pause.to_string()]);
        Self {
            child,
            counts,
            path,
            threads,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn counts_path(&self) -> &Path {
        &self.path
    }

    /// A thread of it that is not the first one.
    pub fn some_thread(&self, choice: u64) -> u32 {
        let mut all: Vec<u32> = std::fs::read_dir(format!("/proc/{}/task", self.id()))
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|thread| *thread != self.id())
            .collect();
        all.sort_unstable();
        all[usize::try_from(choice).unwrap() % all.len()]
    }

    /// Makes its threads begin.
    pub fn begin(&self) {
        self.counts.write_all_at(&[1], 8).unwrap();
    }

    pub fn counts(&self) -> Vec<Count> {
        counts(&self.path, self.threads)
    }

    /// Waits until its threads have made so many calls in all, or something else has happened.
    pub fn wait_for(&self, calls: u64, mut other: impl FnMut() -> bool) {
        let begun = Instant::now();
        let before: u64 = self.counts().iter().map(|count| count.returned).sum();
        while !other() {
            let now: u64 = self.counts().iter().map(|count| count.returned).sum();
            if now - before >= calls {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{} calls", now - before);
            std::thread::sleep(TURN);
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("asked")
    }

    /// Tells it to end, and returns its exit status and counts.
    pub fn finish(mut self) -> (ExitStatus, Vec<Count>) {
        self.counts.write_all_at(&[1], 0).unwrap();
        let begun = Instant::now();
        while self.ended().is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(TURN);
        }
        let status = self.ended().expect("the program does not end");
        (status, self.counts())
    }
}

/// The counts in a file.
pub fn counts(path: &Path, threads: usize) -> Vec<Count> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    (1..=threads)
        .map(|thread| Count {
            begun: word(thread * LINE),
            returned: word(thread * LINE + 8),
            seldom_begun: word(thread * LINE + 24),
            seldom_returned: word(thread * LINE + 32),
        })
        .collect()
}
