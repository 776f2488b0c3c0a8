//! Debug information from debuginfod servers. `debuginfod-find` of elfutils fetches it and keeps it in the user's cache, so that GDB
//! and other programs with the same client library have it too.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use tracewire_debuginfo::DebugFileSource;
use tracewire_model::hex;
use tracewire_views::words;

use crate::progress::Progress;

/// The client program.
const CLIENT: &str = "debuginfod-find";

/// The servers, separated by blanks.
const URLS: &str = "DEBUGINFOD_URLS";

/// The client's limits, and their defaults: bytes of a file, and seconds for it.
const MOST_BYTES: (&str, u64) = ("DEBUGINFOD_MAXSIZE", 1 << 30);
const MOST_SECONDS: (&str, u64) = ("DEBUGINFOD_MAXTIME", 300);

/// How long the client may take for everything else: it asks several servers, and an unresponsive one more than once.
const GRACE: Duration = Duration::from_secs(30);

/// The interval of checks whether the client has ended.
const EVERY: Duration = Duration::from_millis(10);

/// The most that the client is read.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Whether debug information is fetched.
#[derive(clap::Args, Clone, Copy, Default, Debug)]
pub struct DebuginfodArguments {
    /// Fetch debug information that is not on this machine from the servers of DEBUGINFOD_URLS
    #[arg(long)]
    pub debuginfod: bool,
}

impl DebuginfodArguments {
    /// The servers, if they are to be asked.
    pub fn source(self) -> anyhow::Result<Option<Arc<dyn DebugFileSource>>> {
        if !self.debuginfod {
            return Ok(None);
        }
        let has_urls = std::env::var_os(URLS).is_some_and(|urls| !urls.is_empty());
        if !has_urls {
            bail!(
                "--debuginfod: no server is known: set {URLS}, as in {URLS}=https://debuginfod.debian.net"
            );
        }
        if let Err(error) = Command::new(CLIENT)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
        {
            bail!(
                "--debuginfod: {CLIENT} cannot be started: {error}; it is in the package debuginfod of Debian and Ubuntu, \
                 elfutils-debuginfod-client of Fedora, and elfutils of others"
            );
        }
        Ok(Some(Arc::new(Debuginfod::default())))
    }
}

/// The servers, and their answers.
#[derive(Debug, Default)]
struct Debuginfod {
    /// By build ids.
    answers: Mutex<HashMap<String, Option<PathBuf>>>,
}

impl DebugFileSource for Debuginfod {
    fn debug_file(&self, build_id: &[u8], wanted_by: &Path) -> Option<PathBuf> {
        // The client would take it for the name of a file.
        if build_id.len() < 2 {
            return None;
        }
        let build_id = hex::text(build_id);
        // While one thread asks, the others wait for the answer.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answers.get(&build_id) {
            return known.clone();
        }
        let answer = kept(&build_id).map_or_else(|| ask(&build_id, wanted_by), Ok);
        if let Err(reason) = &answer {
            let text = format!("debuginfod: {}: {reason}", wanted_by.display());
            message!("tracewire: warning: {}", words::printable(&text));
        }
        let answer = answer.ok();
        answers.insert(build_id, answer.clone());
        answer
    }
}

/// The file in the client's cache: asking the client takes longer than all else that a second run does.
fn kept(build_id: &str) -> Option<PathBuf> {
    let file = cache()?.join(build_id).join("debuginfo");
    // The client keeps an empty file where no server has one.
    let is_there = std::fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() > 0);
    is_there.then_some(file)
}

/// The client's cache, by its rules.
fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = set("DEBUGINFOD_CACHE_PATH") {
        return Some(path.into());
    }
    let home = set("HOME").map(PathBuf::from);
    let old = home
        .as_ref()
        .map(|home| home.join(".debuginfod_client_cache"));
    if let Some(old) = old.filter(|old| old.is_dir()) {
        return Some(old);
    }
    let caches = match set("XDG_CACHE_HOME") {
        Some(caches) => PathBuf::from(caches),
        None => home?.join(".cache"),
    };
    Some(caches.join("debuginfod_client"))
}

/// The received bytes of a file.
#[derive(Debug, Default)]
struct Fetched {
    done: AtomicU64,
    all: AtomicU64,
}

impl Fetched {
    /// Takes note of `Progress DONE / ALL`, which the client writes.
    fn take(&self, line: &str) {
        let numbers = line.strip_prefix("Progress ");
        let Some((done, all)) = numbers.and_then(|numbers| numbers.split_once('/')) else {
            return;
        };
        if let (Ok(done), Ok(all)) = (done.trim().parse(), all.trim().parse()) {
            self.done.store(done, Ordering::Relaxed);
            self.all.store(all, Ordering::Relaxed);
        }
    }

    fn words(&self) -> String {
        let mebibytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed) >> 20;
        format!("{} of {} MiB", mebibytes(&self.done), mebibytes(&self.all))
    }
}

/// Has the client fetch a file; why there is none.
fn ask(build_id: &str, wanted_by: &Path) -> Result<PathBuf, String> {
    let seconds = number(MOST_SECONDS);
    let limit = Duration::from_secs(seconds).saturating_add(GRACE);
    let mut client = Command::new(CLIENT)
        .args(["-v", "debuginfo", build_id])
        .env(MOST_BYTES.0, number(MOST_BYTES).to_string())
        .env(MOST_SECONDS.0, seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Client)
        .map_err(|error| format!("{CLIENT} cannot be started: {error}"))?;
    let fetched = Arc::new(Fetched::default());
    let (name, shown) = (wanted_by.display().to_string(), Arc::clone(&fetched));
    let _progress = Progress::begin(move |elapsed| {
        let seconds = elapsed.as_secs();
        format!("debuginfod: {name}: {}, {seconds} s", shown.words())
    });
    let (output, errors) = (client.0.stdout.take(), client.0.stderr.take());
    let stopped = AtomicBool::new(false);
    let (path, reason) = std::thread::scope(|scope| {
        let reason =
            scope.spawn(|| errors.map_or_else(String::new, |errors| last_words(errors, &fetched)));
        let watch = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < limit {
                match client.0.try_wait() {
                    Ok(None) => std::thread::sleep(EVERY),
                    Ok(Some(_)) | Err(_) => return,
                }
            }
            stopped.store(true, Ordering::Relaxed);
            // It may have ended by now.
            let _ = client.0.kill();
        });
        let mut path = Vec::new();
        if let Some(output) = output {
            // Unreadable output is no file name.
            let _ = output.take(LONGEST_ANSWER).read_to_end(&mut path);
        }
        let _ = watch.join();
        (path, reason.join().unwrap_or_default())
    });
    if stopped.load(Ordering::Relaxed) {
        return Err(format!("no answer within {} s", limit.as_secs()));
    }
    let path = String::from_utf8_lossy(&path);
    let path = Path::new(path.trim_end());
    if path.is_absolute() && path.is_file() {
        return Ok(path.to_owned());
    }
    Err(if reason.is_empty() {
        "no server has its debug information".to_owned()
    } else {
        reason
    })
}

/// The client's error message. The rest is progress and the output of `-v`.
fn last_words(errors: impl std::io::Read, fetched: &Fetched) -> String {
    let mut reason = String::new();
    for line in BufReader::new(errors.take(LONGEST_ANSWER)).split(b'\n') {
        let Ok(line) = line else { break };
        // The client overwrites its progress line.
        for line in String::from_utf8_lossy(&line).split('\r') {
            fetched.take(line);
            if let Some(words) = line.strip_prefix("Server query failed: ") {
                reason = if words == "No such file or directory" {
                    String::new()
                } else {
                    words.to_owned()
                };
            }
        }
    }
    reason
}

/// A limit as the user has set it.
fn number((name, usual): (&str, u64)) -> u64 {
    let set = std::env::var(name).ok();
    set.and_then(|text| text.trim().parse().ok())
        .filter(|number| *number > 0)
        .unwrap_or(usual)
}

/// The client, which ends when this is dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_understood() {
        let fetched = Fetched::default();
        let said = "debuginfod_find_debuginfo aa\nProgress 1048576 / 3145728\rProgress 2097152 / 3145728\n\
                    Server query failed: No such file or directory\n";
        assert_eq!(last_words(said.as_bytes(), &fetched), "");
        assert_eq!(fetched.words(), "2 of 3 MiB");
        let said = "Server query failed: Timer expired\nHeaders:\n";
        assert_eq!(last_words(said.as_bytes(), &fetched), "Timer expired");
    }
}
