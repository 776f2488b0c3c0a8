//! Recovery of what a recorder has left in programs and in its directory, after it has ended in any way.
//!
//! Every step can be repeated: the agent may be killed between any two of them, and repeats all when it restarts. Rescued files get
//! a name that the keeper ignores until the program has nothing of the recording any more.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tracewire_fail_point::fail_point;
use tracewire_tracefile::RunFolder;

use super::layout::{DONE, EVENTS, FILES, RECORDER, names, replace};
use super::program;
use crate::message::warn;

/// How long a recorder may take to end after its agent has died.
const ENDING: Duration = Duration::from_secs(60);
/// How long a rescue may take, and how often it is tried.
const RESCUE: Duration = Duration::from_secs(120);
const TRIES: u32 = 5;
/// The interval of retries and checks.
const TURN: Duration = Duration::from_millis(50);
/// The name of the memory that pads use, as `/proc/PID/maps` shows it.
const MEMORY: &str = "/memfd:tracewire";
/// The suffix of a file while it grows.
const GROWING: &str = ".tf.recording";
/// The text between the number of a process and the time of a rescued recording.
const RESCUED: &str = ".rescue-";

/// Removes the recording from programs, saves the frames, and finishes the files.
pub fn recover(folder: &Path) -> anyhow::Result<()> {
    if folder.join(DONE).exists() {
        return Ok(());
    }
    wait_for_recorder(folder)?;
    fail_point!("agent/recover");
    let growing: Vec<String> = (names(&folder.join(FILES))?.into_iter())
        .filter(|name| name.contains(GROWING))
        .collect();
    let processes: BTreeSet<u32> = growing.iter().filter_map(|name| process_of(name)).collect();
    // One by one: a failure for one process does not prevent the rescue of others.
    let mut failed = Vec::new();
    for process in processes {
        if let Err(error) = rescue(folder, process) {
            failed.push(format!("process {process}: {error:#}"));
        }
    }
    fail_point!("agent/rescued");
    tell_rescued(folder)?;
    for name in &growing {
        finish(folder, name)?;
    }
    fail_point!("agent/finished");
    replace(&folder.join(DONE), b"")?;
    match failed.as_slice() {
        [] => Ok(()),
        failed => bail!("{}", failed.join("; ")),
    }
}

/// The process of `PID.tf.recording`, `PID-2.tf.recording`.
fn process_of(name: &str) -> Option<u32> {
    let end = name.find(|c: char| !c.is_ascii_digit())?;
    name.get(..end)?.parse().ok()
}

/// Waits until no recorder writes to the directory. A recorder ends when its agent dies.
fn wait_for_recorder(folder: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut is_killed = false;
    loop {
        let run = RunFolder::open(folder.join(FILES))?;
        let is_written = run.map_or(Ok(false), |run| run.is_written())?;
        if !is_written {
            return Ok(());
        }
        if begun.elapsed() > ENDING && !is_killed {
            is_killed = true;
            kill_recorder(folder);
        }
        if begun.elapsed() > 2 * ENDING {
            bail!("{}: its recorder does not end", folder.display());
        }
        std::thread::sleep(TURN);
    }
}

/// Ends a recorder that does not end.
fn kill_recorder(folder: &Path) {
    let number = fs::read_to_string(folder.join(RECORDER)).unwrap_or_default();
    let Ok(number) = number.trim().parse::<i32>() else {
        return;
    };
    // The number may be another process's by now.
    let command = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let output = format!("--output={}", folder.join(FILES).display());
    if command
        .split(|byte| *byte == 0)
        .any(|word| word == output.as_bytes())
    {
        warn(format_args!(
            "recorder {number} does not end, and is killed"
        ));
        // It may have ended meanwhile.
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(number),
            nix::sys::signal::SIGKILL,
        );
    }
}

/// Saves the frames of a process. Nothing is done for one that has ended, or has none.
fn rescue(folder: &Path, process: u32) -> anyhow::Result<()> {
    let output = folder.join(FILES).join(format!("{process}.rescue"));
    let mut tries = 0;
    loop {
        match look(process) {
            Left::Gone => {
                let gone = json!({"event": "gone", "process": process});
                return tell(folder, &gone);
            }
            Left::Nothing => return Ok(()),
            Left::Something => {}
        }
        let mut command = program::own();
        command.args(["rescue", "--by-time", "--pid", &process.to_string()]);
        command.arg("--output").arg(&output);
        let done = program::finish(command, RESCUE)?;
        match done.status.code() {
            // Pads without jumps are left, to which a thread may return.
            Some(0 | 1) => return Ok(()),
            _ if tries >= TRIES => bail!("not rescued: {}", done.said),
            _ => tries += 1,
        }
        std::thread::sleep(TURN);
    }
}

/// The state of a process.
enum Left {
    Gone,
    Nothing,
    Something,
}

fn look(process: u32) -> Left {
    match fs::read_to_string(format!("/proc/{process}/maps")) {
        Ok(maps) if maps.contains(MEMORY) => Left::Something,
        // One that has ended and was not waited for has no mappings.
        Ok(maps) if maps.is_empty() => Left::Gone,
        Ok(_) => Left::Nothing,
        Err(_) => Left::Gone,
    }
}

/// Counts rescued frames, and renames the files to finished ones.
fn tell_rescued(folder: &Path) -> anyhow::Result<()> {
    let files = folder.join(FILES);
    for name in names(&files)? {
        let Some(key) = name
            .strip_suffix(".json")
            .filter(|key| key.contains(RESCUED))
        else {
            continue;
        };
        let Some(process) = process_of(key) else {
            continue;
        };
        let path = files.join(&name);
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let report: Value = serde_json::from_slice(&text)?;
        tell(
            folder,
            &json!({
                "event": "rescued",
                "process": process,
                "key": key,
                "lost": report["lost"],
                "skipped": report["skipped"],
            }),
        )?;
        fail_point!("agent/rescue-reported");
        let frames = files.join(key);
        if frames.exists() {
            let finished = key.replace(RESCUED, "-rescued-");
            fs::rename(&frames, files.join(format!("{finished}.tf")))?;
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Adds a line to the recorder's events.
fn tell(folder: &Path, event: &Value) -> anyhow::Result<()> {
    let path = folder.join(EVENTS);
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path);
    let mut file = file.with_context(|| path.display().to_string())?;
    // A recorder that was killed may have left a part of a line, which is none then.
    Ok(file.write_all(format!("\n{event}\n").as_bytes())?)
}

/// Finishes a file that grew when its recorder was killed.
fn finish(folder: &Path, name: &str) -> anyhow::Result<()> {
    let folder = folder.join(FILES);
    let growing = folder.join(name);
    let Some(at) = name.find(GROWING) else {
        return Ok(());
    };
    let finished = folder.join(format!("{}.tf", name.get(..at).unwrap_or_default()));
    // If both exist, the recorder was killed after the file was in its place.
    if !finished.exists() && growing.exists() {
        let mut command = program::own();
        command
            .arg("repair")
            .arg(&growing)
            .arg("--output")
            .arg(&finished);
        let done = program::finish(command, RESCUE)?;
        if !done.status.success() {
            let aside = growing.with_extension("unreadable");
            warn(format_args!(
                "{}: {}; it is kept",
                growing.display(),
                done.said
            ));
            fs::rename(&growing, aside)?;
            return Ok(());
        }
    }
    fail_point!("agent/repaired");
    match fs::remove_file(&growing) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
