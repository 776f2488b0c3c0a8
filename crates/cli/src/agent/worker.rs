//! A recorder: a separate process, so that one that ends early does not affect other probes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::layout::{EVENTS, FILES, Layout, RECORDER};
use super::probe::Probe;
use super::program;
use crate::message::{say, warn};

/// The longest line of a recorder that is passed on, in bytes.
const LONGEST_LINE: u64 = 8 << 10;

/// A recorder that runs.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    folder: PathBuf,
    begun: Instant,
    /// The last line of its output.
    said: Arc<Mutex<String>>,
    /// When it was asked to end.
    asked: Option<Instant>,
}

impl Worker {
    /// Starts one in a new directory. It ends in order when the calling thread ends for any reason: the main one.
    pub fn start(probe: &Probe, layout: &Layout, expire: Option<Duration>) -> anyhow::Result<Self> {
        let folder = layout
            .new_folder(&probe.name)
            .context("a folder for its files")?;
        let mut command = program::own();
        command.args(probe.arguments(&folder.join(FILES), &folder.join(EVENTS), expire));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let agent = libc::pid_t::try_from(std::process::id())?;
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(move || end_with(agent)) };
        let mut child = command.spawn().context("the recorder cannot be started")?;
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(errors) = child.stderr.take() {
            let (name, said) = (probe.name.clone(), Arc::clone(&said));
            let begun = std::thread::Builder::new().name("messages".to_owned());
            // If it fails, the messages are not shown, and the recorder goes on.
            let _ = begun.spawn(move || pass_on(errors, &name, &said));
        }
        // For one that does not end with its agent. Without it, it is waited for.
        let _ = fs::write(folder.join(RECORDER), child.id().to_string());
        Ok(Self {
            child,
            folder,
            begun: Instant::now(),
            said,
            asked: None,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// For how long it has run.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The last line of its output.
    pub fn said(&self) -> String {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Tells it to end in order, once; one that does not end in time is killed.
    pub fn end(&mut self, limit: Duration) {
        let Ok(id) = i32::try_from(self.child.id()) else {
            return;
        };
        let signal = match self.asked {
            None => Signal::SIGTERM,
            Some(asked) if asked.elapsed() > limit => Signal::SIGKILL,
            Some(_) => return,
        };
        if self.asked.is_some() {
            warn(format_args!("recorder {id} does not end, and is killed"));
        }
        self.asked = Some(Instant::now());
        // The child has not been reaped, so the number is still its own.
        let _ = kill(Pid::from_raw(id), signal);
    }

    /// Whether it was asked to end.
    pub const fn is_ending(&self) -> bool {
        self.asked.is_some()
    }
}

/// Has the calling process end in order when its parent does.
fn end_with(parent: libc::pid_t) -> std::io::Result<()> {
    // SAFETY: both take and give plain numbers.
    let is_orphan = unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::getppid() != parent
    };
    match is_orphan {
        // It has died before the message could be sent.
        true => Err(std::io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

/// Passes on a recorder's output, with the name of its probe.
fn pass_on(errors: impl std::io::Read, name: &str, said: &Mutex<String>) {
    let mut errors = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        match errors
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let text = text.strip_prefix("tracewire: ").unwrap_or(text);
        if text.is_empty() {
            continue;
        }
        say(format_args!("{name}: {text}"));
        text.clone_into(&mut said.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
