//! The directory of the agent, and the names in it.
//!
//! | path | contents |
//! |---|---|
//! | `lock` | locked by the agent that uses the directory |
//! | `live/PROBE/TIME/` | the state of a recorder: `events` and `recorder`, and `done` when nothing of it is left in a program |
//! | `live/PROBE/TIME/files/` | its files, as `record` writes them |
//! | `dataset/` | the dataset |
//! | `runs/DAY/RUN.tf` | trace files, where they are in no dataset |
//! | `added/PROBE.toml` | probes that clients have added |
//! | `state/PROBE.json` | the counts of a probe's files |
//! | `catalog` | the runs that are kept, and what was removed |

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tracewire_tracefile::private;

/// The file that marks a recorder that has ended and left nothing in a program.
pub const DONE: &str = "done";
/// Where the files of a recorder are, as `record` writes them.
pub const FILES: &str = "files";
/// The file with a recorder's events.
pub const EVENTS: &str = "events";
/// The number of the recorder.
pub const RECORDER: &str = "recorder";

/// How long the previous agent may take to end, and how often that is checked.
const PATIENCE: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(20);

/// The directory.
#[derive(Clone, Debug)]
pub struct Layout {
    directory: PathBuf,
}

/// While this value exists, no other agent uses the directory.
#[derive(Debug)]
pub struct Locked(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Layout {
    /// Makes missing directories, accessible only to the owner, and takes the lock.
    pub fn take(directory: &Path) -> anyhow::Result<(Self, Locked)> {
        let layout = Self {
            directory: directory.to_owned(),
        };
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        for folder in [
            directory.to_owned(),
            layout.live(),
            layout.runs(),
            layout.added(),
            layout.state(),
        ] {
            let made = builder.create(&folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let metadata = fs::metadata(directory).with_context(|| directory.display().to_string())?;
        if !private::is_own(&metadata) {
            bail!("{} belongs to another user", directory.display());
        }
        let path = directory.join("lock");
        let lock = private::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let lock = lock.with_context(|| path.display().to_string())?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok((layout, Locked(lock))),
                // A program that a killed agent was about to start has the lock until it is another program.
                Err(fs::TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(TURN);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    bail!("another agent uses {}", directory.display())
                }
                Err(fs::TryLockError::Error(error)) => {
                    return Err(error).with_context(|| path.display().to_string());
                }
            }
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn live(&self) -> PathBuf {
        self.directory.join("live")
    }

    pub fn dataset(&self) -> PathBuf {
        self.directory.join("dataset")
    }

    pub fn runs(&self) -> PathBuf {
        self.directory.join("runs")
    }

    pub fn added(&self) -> PathBuf {
        self.directory.join("added")
    }

    pub fn added_probe(&self, name: &str) -> PathBuf {
        self.added().join(format!("{name}.toml"))
    }

    pub fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    pub fn catalog(&self) -> PathBuf {
        self.directory.join("catalog")
    }

    /// A new folder for a recorder, by the time.
    pub fn new_folder(&self, probe: &str) -> io::Result<PathBuf> {
        let parent = self.live().join(probe);
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&parent)?;
        let mut time = now_us();
        loop {
            let folder = parent.join(time.to_string());
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => time += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The directories of recorders, each with its probe, in the order in which they began.
    pub fn folders(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut folders = Vec::new();
        for probe in fs::read_dir(self.live())? {
            let probe = probe?;
            let Ok(name) = probe.file_name().into_string() else {
                continue;
            };
            if !super::config::is_name(&name) {
                continue;
            }
            for folder in names(&probe.path())? {
                if folder.bytes().all(|byte| byte.is_ascii_digit()) {
                    folders.push((name.clone(), probe.path().join(folder)));
                }
            }
        }
        folders.sort();
        Ok(folders)
    }
}

/// The names in a directory that are UTF-8, sorted. A directory that does not exist has none.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Replaces a file as a whole.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = private::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&part)?;
    file.write_all(content)?;
    fs::rename(part, path)
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}
