//! The programs that the agent starts: recorders, rescues, and the writer of datasets.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tracewire_views::words;

/// The interval of checks whether a program has ended.
const TURN: Duration = Duration::from_millis(10);

/// How much of a program's output is kept, in bytes.
const SAID: u64 = 64 << 10;

/// The program of this process, even if a package upgrade has replaced the file of its name.
pub fn own() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("tracewire")
        .stdin(Stdio::null())
        .process_group(0);
    command
}

/// Another program, which gets no signals of a terminal either.
pub fn other(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// The program that writes datasets: beside this one, or in `PATH`.
pub fn query(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    own.into_iter()
        .chain(in_path)
        .find(|program| program.is_file())
}

/// How a program ended.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    /// Its messages.
    pub said: String,
}

/// Runs a program to its end, which is waited for no longer than this: then it is killed.
pub fn finish(mut command: Command, limit: Duration) -> anyhow::Result<Done> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let shown = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .with_context(|| format!("{shown} cannot be started"))?;
    let errors = child.stderr.take().context("no messages")?;
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        let mut errors = errors.take(SAID);
        // Its output is for people; only its end matters.
        let _ = errors.read_to_end(&mut said);
        let _ = std::io::copy(&mut errors.into_inner(), &mut std::io::sink());
        String::from_utf8_lossy(&said).trim_end().to_owned()
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
            bail!(
                "{} took longer than {limit:?} and was killed",
                arguments.first().map_or(shown.as_str(), AsRef::as_ref)
            );
        }
        std::thread::sleep(TURN);
    };
    let said = reader.join().unwrap_or_default();
    Ok(Done {
        status,
        said: words::printable_lines(&said),
    })
}
