//! A child process whose output is read while it runs.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a process may take for an awaited step: far more than it takes, so that a hang becomes an error.
const LIMIT: Duration = Duration::from_secs(300);

/// A child process. It is killed when this is dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Arc<Output>,
    name: String,
}

/// The lines that a process has printed so far, on either stream.
#[derive(Default)]
struct Output {
    printed: Mutex<Printed>,
    changed: Condvar,
}

#[derive(Default)]
struct Printed {
    lines: Vec<String>,
    /// How many of the two streams have ended.
    ended: usize,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Printed> {
        // A reader that panicked leaves whole lines.
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more lines, or for a stream's end.
    fn wait<'a>(
        &self,
        printed: MutexGuard<'a, Printed>,
        limit: Duration,
    ) -> MutexGuard<'a, Printed> {
        self.changed
            .wait_timeout(printed, limit)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn follow(self: &Arc<Self>, stream: impl Read + Send + 'static) {
        let output = Arc::clone(self);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                output.lock().lines.push(text);
                output.changed.notify_all();
                line.clear();
            }
            output.lock().ended += 1;
            output.changed.notify_all();
        });
    }
}

impl Running {
    /// Starts a command with its standard streams connected to us.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = Arc::new(Output::default());
        output.follow(child.stdout.take().context("no standard output")?);
        output.follow(child.stderr.take().context("no standard error")?);
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            output,
            name,
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has printed a line that `wanted` accepts, and returns it.
    pub fn wait_for_line(&self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let end = Instant::now() + LIMIT;
        let mut printed = self.output.lock();
        let mut seen = 0;
        loop {
            if let Some(line) = printed.lines[seen..].iter().find(|line| wanted(line)) {
                return Ok(line.clone());
            }
            seen = printed.lines.len();
            let left = end.saturating_duration_since(Instant::now());
            if printed.ended == 2 || left.is_zero() {
                bail!(
                    "{} never printed {what}; it printed:\n{}",
                    self.name,
                    printed.lines.join("\n")
                );
            }
            printed = self.output.wait(printed, left);
        }
    }

    /// What the process has printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.output.lock().lines.clone()
    }

    /// Writes to the process's standard input.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self
            .stdin
            .as_mut()
            .context("the standard input is closed")?;
        stdin
            .write_all(text.as_bytes())
            .and_then(|()| stdin.flush())
            .with_context(|| format!("cannot write to {}", self.name))
    }

    /// Ends the process's standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal. A process that has already ended gets none.
    pub fn signal(&self, signal: i32) -> Result<()> {
        signal_process(self.id(), signal)
    }

    /// Waits until the process has ended, and returns what it printed.
    pub fn finish(&mut self) -> Result<(ExitStatus, Vec<String>)> {
        self.close_input();
        let end = Instant::now() + LIMIT;
        let mut printed = self.output.lock();
        while printed.ended < 2 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!(
                    "{} does not end; it printed:\n{}",
                    self.name,
                    printed.lines.join("\n")
                );
            }
            printed = self.output.wait(printed, left);
        }
        let lines = printed.lines.clone();
        drop(printed);
        Ok((self.child.wait()?, lines))
    }

    /// Waits until the process has ended, which it must with success, and returns what it printed.
    pub fn succeed(&mut self) -> Result<Vec<String>> {
        let (status, lines) = self.finish()?;
        if !status.success() {
            bail!("{}: {status}\n{}", self.name, lines.join("\n"));
        }
        Ok(lines)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for a process that has ended and been waited for, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn signal_process(process: u32, signal: i32) -> Result<()> {
    let process = libc::pid_t::try_from(process).context("no process id")?;
    // SAFETY: kill takes no pointers.
    if unsafe { libc::kill(process, signal) } != 0 {
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ESRCH) {
            return Err(error).with_context(|| format!("cannot signal process {process}"));
        }
    }
    Ok(())
}

/// A process and the processes that it has made, with theirs.
pub fn family(process: u32) -> Result<Vec<u32>> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        next += 1;
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        for child in children.split_whitespace() {
            family.push(child.parse()?);
        }
    }
    Ok(family)
}

/// Waits until a condition holds that no event announces: it is asked again every few milliseconds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !holds()? {
        if Instant::now() > end {
            bail!("{what} never happened");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
