//! The supervisor: a recorder for each probe, restarted when it ends, after a recovery of what it has left.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tracewire_fail_point::fail_point;

use super::config::{Config, MOST_PROBES};
use super::control::Control;
use super::counts::Counts;
use super::keeper::{Keeper, SharedKept};
use super::layout::{FILES, Layout, Locked, names, now_us, replace};
use super::probe::Probe;
use super::recovery::recover;
use super::request::{Asked, News, Request};
use super::signals;
use super::worker::Worker;
use super::{notify, program};
use crate::message::{say, warn};

/// The interval of checks of the recorders.
const TURN: Duration = Duration::from_millis(100);
/// The interval of checks for finished files.
const LOOK: Duration = Duration::from_millis(200);
/// How long a recorder may take to end.
const ENDING: Duration = Duration::from_secs(60);
/// The first and the longest delay before a recorder that ended by itself is restarted.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A recorder that has run for so long is not one that cannot begin.
const GOOD: Duration = Duration::from_secs(60);
/// The longest list of a recorder's files, in bytes, before the recorder is restarted.
const LONGEST_INDEX: u64 = 32 << 20;
/// The program that writes datasets.
const QUERY: &str = "tracewire-query";

/// A probe, and the state of its recorder.
#[derive(Debug)]
struct Supervised {
    probe: Probe,
    state: State,
    /// How often its recorder has ended early, one time after the other.
    failures: u32,
    /// Why the last recorder ended.
    reason: Option<String>,
    /// Whether it is to be removed.
    is_leaving: bool,
    /// The probe that replaces it once its recorder has ended.
    next: Option<Probe>,
}

#[derive(Debug)]
enum State {
    /// The recorder is started then.
    Waiting(Instant),
    Recording(Worker),
    Recovering(JoinHandle<anyhow::Result<()>>),
    /// Its time is over.
    Expired,
}

impl State {
    const fn name(&self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting",
            Self::Recording(worker) if worker.is_ending() => "ending",
            Self::Recording(_) => "recording",
            Self::Recovering(_) => "recovering",
            Self::Expired => "expired",
        }
    }
}

/// The agent.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    config_path: PathBuf,
    layout: Layout,
    _lock: Locked,
    probes: BTreeMap<String, Supervised>,
    kept: SharedKept,
    has_dataset: bool,
    since_us: u64,
    is_ending: bool,
    news: Receiver<News>,
    _control: Control,
    /// Tells the keeper to end.
    keeper_end: Sender<()>,
    keeper: Option<JoinHandle<Keeper>>,
}

impl Agent {
    /// Locks the directory, recovers what an earlier agent has left there, and begins to listen.
    pub fn begin(config_path: PathBuf) -> anyhow::Result<Self> {
        let config = Config::read(&config_path)?;
        let (send, news) = channel();
        // Before there is a thread, so that all have the same mask.
        signals::watch(send.clone())?;
        let (layout, lock) = Layout::take(&config.directory)?;
        let query = match config.dataset {
            Some(false) => None,
            _ => program::query(QUERY),
        };
        let has_dataset = query.is_some();
        if !has_dataset && config.dataset == Some(true) {
            bail!("dataset = true: the program {QUERY} is neither beside tracewire nor in PATH");
        }
        if !has_dataset && config.dataset.is_none() {
            say(format_args!(
                "{QUERY} is neither beside tracewire nor in PATH: runs are kept as trace files in {}",
                layout.runs().display()
            ));
        }
        let keeper = Keeper::new(layout.clone(), query)?;
        let kept = keeper.kept();
        kept.lock().limits = config.limits;
        let control = Control::listen(&config.socket, config.group, send)?;
        recover_all(&layout)?;
        let (keeper_end, end) = channel();
        let keeper = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keep(keeper, &end))
            .context("cannot start a thread")?;
        let mut agent = Self {
            probes: BTreeMap::new(),
            config,
            config_path,
            layout,
            _lock: lock,
            kept,
            has_dataset,
            since_us: now_us(),
            is_ending: false,
            news,
            _control: control,
            keeper_end,
            keeper: Some(keeper),
        };
        agent.set_probes()?;
        Ok(agent)
    }

    /// Has the probes of the configuration, and those that clients have added.
    fn set_probes(&mut self) -> anyhow::Result<()> {
        let mut wanted = self.config.probes.clone();
        for name in names(&self.layout.added())? {
            let path = self.layout.added().join(&name);
            if !name.ends_with(".toml") {
                continue;
            }
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            match Config::added(&text, &self.config.common) {
                Ok(added) => {
                    for (name, probe) in added {
                        // The configuration has priority.
                        wanted.entry(name).or_insert(probe);
                    }
                }
                Err(error) => warn(format_args!("{}: {error:#}", path.display())),
            }
        }
        for (name, supervised) in &mut self.probes {
            match wanted.remove(name) {
                Some(probe) => supervised.become_probe(probe),
                None => supervised.is_leaving = true,
            }
        }
        for probe in wanted.into_values() {
            self.begin_probe(probe);
        }
        Ok(())
    }

    fn begin_probe(&mut self, probe: Probe) {
        let name = probe.name.clone();
        let mut kept = self.kept.lock();
        let counts = kept.counts.entry(name.clone());
        let counts = counts.or_insert_with(|| Counts::read(&self.layout, &name, now_us()));
        if let Err(error) = counts.write(&self.layout, &name) {
            warn(format_args!("the state of probe {name}: {error}"));
        }
        drop(kept);
        self.probes.insert(name, Supervised::new(probe));
    }

    /// Works until it gets a request to end.
    pub fn run(mut self) -> anyhow::Result<()> {
        notify::tell("READY=1");
        let probes = tracewire_views::words::count(self.probes.len() as u64, "probe");
        say(format_args!("ready: {probes}"));
        loop {
            match self.news.recv_timeout(TURN) {
                Ok(News::End) => {
                    if !self.is_ending {
                        notify::tell("STOPPING=1");
                        say("ending: recorders take their tracepoints out");
                    }
                    self.is_ending = true;
                }
                Ok(News::Reload) => self.reload(),
                Ok(News::Asked(asked)) => {
                    let answer = self.answer(&asked);
                    let answer =
                        answer.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
                    // The client may have disconnected.
                    let _ = asked.answer.send(answer);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the agent's threads have ended"),
            }
            self.turn();
            if self.is_ending && self.probes.is_empty() {
                break;
            }
        }
        // The keeper is the only one that the channel is for, and has ended if it does not take this.
        let _ = self.keeper_end.send(());
        if let Some(keeper) = self.keeper.take()
            && let Ok(mut keeper) = keeper.join()
        {
            keeper.work()?;
        }
        say("ended: nothing is left in a program");
        Ok(())
    }

    /// Advances the state of all probes.
    fn turn(&mut self) {
        fail_point!("agent/turn");
        if self.keeper.as_ref().is_none_or(JoinHandle::is_finished) && !self.is_ending {
            warn("what keeps the files has ended; so does the agent");
            self.is_ending = true;
        }
        let mut gone = Vec::new();
        // A process that an ending probe still traces cannot be traced by another one yet, which would not try again.
        let is_leaving = self.probes.values().any(|supervised| supervised.is_leaving);
        for (name, supervised) in &mut self.probes {
            let waits = matches!(supervised.state, State::Waiting(_));
            if is_leaving && waits && !supervised.is_leaving && !self.is_ending {
                continue;
            }
            let since_us = self
                .kept
                .lock()
                .counts
                .get(name)
                .map_or(0, |counts| counts.since_us);
            let ends = self.is_ending || supervised.is_leaving;
            if supervised.turn(&self.layout, ends, since_us, &self.kept) {
                gone.push(name.clone());
            }
        }
        for name in gone {
            let Some(supervised) = self.probes.remove(&name) else {
                continue;
            };
            if self.is_ending {
                continue;
            }
            say(format_args!("{name}: removed"));
            if let Some(next) = supervised.next {
                self.probes.insert(name, Supervised::new(next));
            }
        }
    }

    fn reload(&mut self) {
        notify::tell("RELOADING=1");
        match Config::read(&self.config_path) {
            Ok(config)
                if config.directory != self.config.directory
                    || config.socket != self.config.socket
                    || config.group != self.config.group =>
            {
                warn(
                    "the configuration has another directory, socket or group, which a restart takes; nothing is changed",
                );
            }
            Ok(config) => {
                self.config = config;
                self.kept.lock().limits = self.config.limits;
                match self.set_probes() {
                    Ok(()) => say("the configuration is read again"),
                    Err(error) => warn(format_args!("{error:#}")),
                }
            }
            Err(error) => warn(format_args!("{error:#}; nothing is changed")),
        }
        notify::tell("READY=1");
    }

    fn answer(&mut self, asked: &Asked) -> anyhow::Result<Value> {
        match &asked.request {
            Request::Status => Ok(self.status()),
            Request::Add { probes } => self.add(probes, &asked.user),
            Request::Remove { name } => self.remove(name, &asked.user),
        }
    }

    fn add(&mut self, text: &str, user: &str) -> anyhow::Result<Value> {
        let added = Config::added(text, &self.config.common)?;
        if added.len() != 1 {
            bail!("expected one [[probe]], and there are {}", added.len());
        }
        if self.is_ending {
            bail!("the agent ends");
        }
        if self.probes.len() >= MOST_PROBES {
            bail!("there are {MOST_PROBES} probes, as many as are possible");
        }
        let (name, probe) = added.into_iter().next().context("no probe")?;
        if self.probes.contains_key(&name) {
            bail!("there is a probe {name}: remove it, or choose another name");
        }
        let same = self
            .probes
            .values()
            .find(|other| other.probe.chooses_as(&probe));
        if let Some(same) = same {
            bail!(
                "probe {name} chooses the same processes as {}; one process can have the tracepoints of one probe",
                same.probe.name
            );
        }
        let path = self.layout.added_probe(&name);
        replace(&path, text.as_bytes()).with_context(|| path.display().to_string())?;
        say(format_args!("{name}: added by {user}"));
        // Its time begins now, even if the name was used before.
        self.kept.lock().counts.remove(&name);
        Counts::remove(&self.layout, &name);
        self.begin_probe(probe);
        Ok(json!({ "added": name }))
    }

    fn remove(&mut self, name: &str, user: &str) -> anyhow::Result<Value> {
        let supervised = self.probes.get_mut(name);
        let supervised = supervised.with_context(|| format!("there is no probe {name}"))?;
        if !supervised.probe.is_added {
            bail!(
                "probe {name} is in {}: take it out there, and send SIGHUP",
                self.config_path.display()
            );
        }
        match fs::remove_file(self.layout.added_probe(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        supervised.is_leaving = true;
        say(format_args!("{name}: removed by {user}"));
        Ok(json!({ "removed": name }))
    }

    fn status(&self) -> Value {
        let kept = self.kept.lock();
        let probes = self.probes.iter().map(|(name, supervised)| {
            let counts = kept.counts.get(name).cloned().unwrap_or_default();
            let worker = match &supervised.state {
                State::Recording(worker) => Some(worker),
                _ => None,
            };
            let processes = worker.map(|worker| counts.processes(worker.folder()));
            let failed =
                worker.and_then(|worker| counts.failed(worker.folder()).map(str::to_owned));
            json!({
                "name": name,
                "state": supervised.state.name(),
                "added": supervised.probe.is_added,
                "recorder": worker.map(Worker::id),
                "processes": processes.unwrap_or_default(),
                "since_us": counts.since_us,
                "files": counts.files,
                "frames": counts.frames,
                "lost": counts.lost,
                "skipped": counts.skipped,
                "gone": counts.gone,
                "failures": counts.failures,
                "reason": supervised.reason.clone().or(failed),
            })
        });
        let probes: Vec<Value> = probes.collect();
        json!({
            "agent": {
                "process": std::process::id(),
                "version": env!("CARGO_PKG_VERSION"),
                "since_us": self.since_us,
                "directory": self.layout.directory().to_string_lossy(),
                "dataset": self.has_dataset,
                "runs": kept.runs,
                "bytes": kept.bytes,
                "unfinished_bytes": kept.live_bytes,
                "limit_bytes": kept.limits.size,
                "limit_seconds": kept.limits.age.map(|age| age.as_secs()),
                "removed_runs": kept.removed.runs,
                "removed_bytes": kept.removed.bytes,
                "removed_frames": kept.removed.frames,
            },
            "probes": probes,
        })
    }
}

/// Recovers all folders that an earlier agent has left, side by side.
fn recover_all(layout: &Layout) -> anyhow::Result<()> {
    let folders = layout.folders()?;
    std::thread::scope(|scope| {
        for (probe, folder) in &folders {
            scope.spawn(move || {
                if let Err(error) = recover(folder) {
                    warn(format_args!("{probe}: {error:#}"));
                }
            });
        }
    });
    Ok(())
}

/// Keeps files until it gets a request to end; after an error it reports it and tries again.
fn keep(mut keeper: Keeper, end: &Receiver<()>) -> Keeper {
    let mut said = None;
    loop {
        match keeper.work() {
            Ok(()) => said = None,
            Err(error) => {
                let words = format!("{error:#}");
                if said.as_ref() != Some(&words) {
                    warn(&words);
                }
                said = Some(words);
            }
        }
        if !matches!(end.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            return keeper;
        }
    }
}

impl Supervised {
    fn new(probe: Probe) -> Self {
        Self {
            probe,
            state: State::Waiting(Instant::now()),
            failures: 0,
            reason: None,
            is_leaving: false,
            next: None,
        }
    }

    /// The configuration was read again.
    fn become_probe(&mut self, probe: Probe) {
        if probe == self.probe {
            // It may have been about to be removed.
            self.next = self.is_leaving.then_some(probe);
        } else {
            self.next = Some(probe);
            self.is_leaving = true;
        }
    }

    /// Its remaining time; `None` without a limit.
    fn left(&self, since_us: u64) -> Option<Duration> {
        let past = Duration::from_micros(now_us().saturating_sub(since_us));
        self.probe.expire.map(|expire| expire.saturating_sub(past))
    }

    /// Advances its state. Returns whether it has ended.
    fn turn(&mut self, layout: &Layout, ends: bool, since_us: u64, kept: &SharedKept) -> bool {
        match &mut self.state {
            State::Expired => return ends,
            State::Waiting(_) if ends => return true,
            State::Waiting(until) if Instant::now() < *until => {}
            State::Waiting(_) => self.start(layout, since_us),
            State::Recording(worker) => {
                let index = fs::metadata(worker.folder().join(FILES).join("processes"));
                let is_long = index.is_ok_and(|index| index.len() > LONGEST_INDEX);
                if ends || is_long {
                    worker.end(ENDING);
                }
                match worker.ended() {
                    Ok(None) => {}
                    Ok(Some(status)) => self.recorder_ended(status, since_us, layout, kept),
                    Err(error) => warn(format_args!("{}: {error}", self.probe.name)),
                }
            }
            State::Recovering(thread) if thread.is_finished() => {
                let waiting = State::Waiting(Instant::now() + self.pause());
                if let State::Recovering(thread) = std::mem::replace(&mut self.state, waiting) {
                    match thread.join() {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => warn(format_args!("{}: {error:#}", self.probe.name)),
                        Err(_) => warn(format_args!("{}: not recovered", self.probe.name)),
                    }
                }
                return ends;
            }
            State::Recovering(_) => {}
        }
        false
    }

    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => {
                (FIRST_PAUSE * 2_u32.saturating_pow(failures.min(10) - 1)).min(LONGEST_PAUSE)
            }
        }
    }

    fn start(&mut self, layout: &Layout, since_us: u64) {
        let left = self.left(since_us);
        if left.is_some_and(|left| left.is_zero()) {
            say(format_args!("{}: its time is over", self.probe.name));
            self.state = State::Expired;
            return;
        }
        fail_point!("agent/start");
        match Worker::start(&self.probe, layout, left) {
            Ok(worker) => self.state = State::Recording(worker),
            Err(error) => {
                self.failures += 1;
                self.reason = Some(format!("{error:#}"));
                warn(format_args!("{}: {error:#}", self.probe.name));
                self.state = State::Waiting(Instant::now() + self.pause());
            }
        }
        fail_point!("agent/started");
    }

    /// The recorder has ended: what it has left is recovered, with any exit status.
    fn recorder_ended(
        &mut self,
        status: std::process::ExitStatus,
        since_us: u64,
        layout: &Layout,
        kept: &SharedKept,
    ) {
        let State::Recording(worker) = &self.state else {
            return;
        };
        let has_expired = self.left(since_us).is_some_and(|left| left.is_zero());
        let is_wanted = worker.is_ending() || has_expired;
        if is_wanted {
            self.failures = 0;
        } else {
            if worker.age() > GOOD {
                self.failures = 0;
            }
            self.failures += 1;
            let said = worker.said();
            let reason = format!("the recorder has ended ({status}): {said}");
            warn(format_args!("{}: {reason}", self.probe.name));
            self.reason = Some(reason);
            let mut kept = kept.lock();
            if let Some(counts) = kept.counts.get_mut(&self.probe.name) {
                counts.failures += 1;
                // It is written with the next change, too.
                let _ = counts.write(layout, &self.probe.name);
            }
        }
        let folder = worker.folder().to_owned();
        let begun = std::thread::Builder::new()
            .name("recovery".to_owned())
            .spawn(move || recover(&folder));
        self.state = match begun {
            Ok(thread) => State::Recovering(thread),
            // The next start of the agent recovers what it has left.
            Err(error) => {
                warn(format_args!("{}: {error}", self.probe.name));
                State::Waiting(Instant::now() + LONGEST_PAUSE)
            }
        };
    }
}
