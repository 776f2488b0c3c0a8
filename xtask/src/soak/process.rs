//! Child processes that are waited for with a limit, and measurements of a process from outside.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often it is looked whether something has come.
const TURN: Duration = Duration::from_millis(2);

/// A child whose messages go into a file. It is killed when this is dropped.
pub struct Process {
    child: Child,
    said: PathBuf,
    name: String,
}

impl Process {
    /// Starts it; both of its streams go into the file.
    pub fn start(words: &[String], said: PathBuf) -> Result<Self> {
        let (program, arguments) = words.split_first().context("no program")?;
        let out = File::create(&said)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        // SAFETY: between fork and exec, this makes system calls only.
        unsafe { command.pre_exec(default_signals) };
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(Self {
            child,
            said,
            name: words.join(" "),
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        let bytes = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end; `None` where it takes too long.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let mut ended = None;
        until(limit, || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some())
        })?;
        Ok(ended)
    }

    /// Sends it a signal; one that has ended gets none.
    pub fn signal(&mut self, signal: libc::c_int) -> Result<()> {
        if self.ended()?.is_none() {
            let id = libc::pid_t::try_from(self.id())?;
            // SAFETY: kill takes plain numbers; the child has not been reaped, so the number is still its own.
            unsafe { libc::kill(id, signal) };
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives every signal its default action. A shell ignores SIGINT for programs that it starts in the background, and `nohup` ignores
/// SIGHUP. A recorder that inherits an ignored signal is not ended by it.
fn default_signals() -> std::io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: `signal` takes plain numbers. It fails for SIGKILL, SIGSTOP and those that libc reserves.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

/// Waits for something; whether it came in time.
pub fn until(limit: Duration, mut came: impl FnMut() -> Result<bool>) -> Result<bool> {
    let begun = Instant::now();
    while !came()? {
        if begun.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(TURN);
    }
    Ok(true)
}

/// How a process ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// A process's use of memory and descriptors.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// Resident memory, in KiB.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Usage {
    /// For a process that may have ended, and then uses nothing.
    pub fn of(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let memory = status.ok().and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        });
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
        Self {
            memory: memory.unwrap_or(0),
            descriptors: descriptors.map_or(0, |all| all.count() as u64),
        }
    }

    pub fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// The lines of a process's mappings and the descriptors that are Tracewire's.
pub fn traces_left(process: u32) -> Vec<String> {
    const NAME: &str = "memfd:tracewire";
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let mappings = maps.lines().filter(|line| line.contains(NAME));
    let mut left: Vec<String> = mappings.map(str::to_owned).collect();
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
    for descriptor in descriptors.into_iter().flatten().flatten() {
        let link = std::fs::read_link(descriptor.path()).unwrap_or_default();
        if link.display().to_string().contains(NAME) {
            left.push(descriptor.path().display().to_string());
        }
    }
    left
}

/// Writes the stacks of hanging processes' threads into a file.
pub fn dump(processes: &[u32], path: &Path) -> Result<()> {
    let mut text = String::new();
    for process in processes {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            for name in ["comm", "wchan", "syscall", "stack", "status"] {
                let file = task.path().join(name);
                let content = std::fs::read_to_string(&file).unwrap_or_default();
                writeln!(text, "{}: {}", file.display(), content.trim_end())?;
            }
        }
        // It prints the reason if the process is traced.
        let stacks = Command::new("timeout")
            .args(["-k", "5", "60", "gdb", "-batch", "-p", &process.to_string()])
            .args(["-ex", "thread apply all bt"])
            .stdin(Stdio::null())
            .output();
        match stacks {
            Ok(stacks) => {
                text.push_str(&String::from_utf8_lossy(&stacks.stdout));
                text.push_str(&String::from_utf8_lossy(&stacks.stderr));
            }
            Err(error) => writeln!(text, "gdb: {error}")?,
        }
    }
    if text.is_empty() {
        bail!("nothing is known of {processes:?}");
    }
    Ok(std::fs::write(path, text)?)
}
