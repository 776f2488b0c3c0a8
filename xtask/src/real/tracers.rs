//! Tracewire and its peers, as processes that trace another one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::subject::{Hit, Subject};
use crate::running::{Running, wait_until};

/// `tracewire record`.
pub struct Tracewire {
    program: PathBuf,
}

impl Tracewire {
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Starts a command under `record`.
    pub fn launch(&self, subject: &dyn Subject, file: &Path, command: &Command) -> Result<Running> {
        let mut record = self.record(subject, file)?;
        record
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            record.current_dir(directory);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => record.env(name, value),
                None => record.env_remove(name),
            };
        }
        Running::start(&mut record)
    }

    /// Attaches `record` to the processes of a program, and waits until the tracepoint is in place in each.
    pub fn attach(&self, subject: &dyn Subject, file: &Path, program: &Running) -> Result<Running> {
        let processes = subject.processes(program)?;
        let mut record = self.record(subject, file)?;
        for process in &processes {
            record.arg("-p").arg(process.to_string());
        }
        let record = Running::start(&mut record)?;
        if subject.forks() {
            record.wait_for_line("that all processes are recorded", |line| {
                line.ends_with(" processes are recorded") || line.ends_with(" process is recorded")
            })?;
        } else {
            Self::wait_armed(&record)?;
        }
        Ok(record)
    }

    /// Waits until `record` prints that the tracepoint is in place.
    pub fn wait_armed(record: &Running) -> Result<()> {
        record
            .wait_for_line("that the tracepoint is in place", |line| {
                line.starts_with("tracewire: tracepoint 1 by ")
            })
            .map(drop)
    }

    /// The hits, in the order of the frames.
    pub fn hits(&self, file: &Path) -> Result<Vec<Hit>> {
        let output = Command::new(&self.program)
            .arg("show")
            .arg("--json")
            .arg(file)
            .output()?;
        if !output.status.success() {
            bail!(
                "tracewire show {}: {}\n{}",
                file.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| {
                let frame: serde_json::Value = serde_json::from_str(line)?;
                let values = frame["values"].as_array().map_or(&[][..], Vec::as_slice);
                let values = values.iter().map(|value| match value["value"].as_str() {
                    Some(text) => text.to_owned(),
                    None => value.to_string(),
                });
                Ok(Hit {
                    process: frame["process"].as_u64(),
                    values: values.collect(),
                })
            })
            .collect()
    }

    /// Fails if `check` finds anything.
    pub fn check(&self, file: &Path) -> Result<()> {
        let output = Command::new(&self.program)
            .args(["check", "--json"])
            .arg(file)
            .output()?;
        if !output.status.success() || !output.stdout.is_empty() {
            bail!(
                "tracewire check {}: {}\n{}{}",
                file.display(),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// The command, without what is recorded. For several processes the file is a folder.
    fn record(&self, subject: &dyn Subject, file: &Path) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command
            // A Java launcher opens the virtual machine's library itself.
            .args(["record", "--pending", "-t", &subject.spec()])
            .args([OsStr::new("-o"), file.as_os_str()]);
        if subject.forks() {
            if file.exists() {
                std::fs::remove_dir_all(file)?;
            }
            command.arg("--follow-forks");
        } else {
            // Space for all frames: the measurement is whether all hits are there.
            command.args(["--buffer-size", "4294967296"]);
        }
        Ok(command)
    }
}

/// Attaches bpftrace with a program to a process, and waits until its probes are in place.
pub fn bpftrace(program: &str, process: u32) -> Result<Running> {
    let bpftrace = Running::start(
        Command::new("bpftrace")
            .args(["-p", &process.to_string(), "-e", program])
            // Room for the printed values: a lost event is work that was not done.
            .env("BPFTRACE_PERF_RB_PAGES", "1024"),
    )?;
    bpftrace.wait_for_line("that it attaches", |line| line.starts_with("Attaching"))?;
    // bpftrace prints nothing when its probes are in place; it then waits for what they print.
    let path = format!("/proc/{}/syscall", bpftrace.id());
    wait_until("bpftrace's wait for events", || {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{path}: bpftrace has ended"))?;
        let call = text.split(' ').next().and_then(|word| word.parse().ok());
        Ok(matches!(
            call,
            Some(libc::SYS_epoll_wait | libc::SYS_epoll_pwait)
        ))
    })?;
    Ok(bpftrace)
}

/// Attaches GDB with a `dprintf` command to a process, and waits until the process runs again.
pub fn gdb(dprintf: &str, process: u32) -> Result<Running> {
    let gdb = Running::start(
        Command::new("gdb")
            .args(["-nx", "-batch", "-p", &process.to_string()])
            .args(["-ex", "set breakpoint pending on"])
            .args(["-ex", "handle SIGPIPE SIGSEGV nostop noprint pass"])
            .args(["-ex", dprintf])
            .args(["-ex", "echo armed\\n"])
            .args(["-ex", "continue"])
            .args(["-ex", "detach"]),
    )?;
    gdb.wait_for_line("that it is armed", |line| line == "armed")?;
    Ok(gdb)
}
