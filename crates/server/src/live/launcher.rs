//! Starting programs and attaching to them, at the request of the client or the user.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::unistd::User;
use tracewire_arch::X86Registers;
use tracewire_model::ThreadId;
use tracewire_packets::family::process::Arguments;
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Signal};
use tracewire_target_linux::{Error, Launch, Process, Settings};

use super::program::LiveProgram;
use super::stops::ThreadStop;

fn text(HexBytes(bytes): &HexBytes) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// A directory's path, with a `~` or `~user` at its start expanded, as in a shell.
fn expanded(path: &OsStr) -> PathBuf {
    let bytes = path.as_bytes();
    let length = bytes
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(bytes.len());
    let (first, rest) = bytes.split_at(length);
    let home = match first {
        b"~" => std::env::home_dir(),
        [b'~', name @ ..] => std::str::from_utf8(name)
            .ok()
            .and_then(|name| User::from_name(name).ok()?)
            .map(|user| user.dir),
        _ => None,
    };
    home.map_or_else(
        || PathBuf::from(path),
        |mut home| {
            home.as_mut_os_string().push(OsStr::from_bytes(rest));
            home
        },
    )
}

fn settings() -> Settings {
    Settings {
        registers: X86Registers::Core,
        follow_cpu: true,
    }
}

/// The programs that are started, and those that are attached to.
#[derive(Debug)]
pub(super) struct Launcher {
    /// The program that is started, or was last.
    launch: Launch,
    /// The connection outlives the programs (`target extended-remote`).
    extended: bool,
    /// The processes that were attached to and that no client has resumed yet.
    untouched: BTreeSet<u32>,
    /// The processes that existed when the client connected and were not reported, because a token was required first.
    unseen: BTreeSet<u32>,
    /// A program that was started and detached, whose end is waited for.
    left_behind: Option<u32>,
}

impl Launcher {
    pub(super) const fn new(launch: Launch) -> Self {
        Self {
            launch,
            extended: false,
            untouched: BTreeSet::new(),
            unseen: BTreeSet::new(),
            left_behind: None,
        }
    }

    pub(super) const fn is_extended(&self) -> bool {
        self.extended
    }

    pub(super) const fn extend(&mut self) {
        self.extended = true;
    }

    /// Whether it is known which program to start.
    pub(super) fn has_program(&self) -> bool {
        !self.launch.program.is_empty()
    }

    /// Takes the processes that were attached to and that no client had resumed yet, because it resumes them now.
    pub(super) fn take_untouched(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.untouched)
    }

    /// The client of this session did not see these processes when it connected.
    pub(super) fn hide(&mut self, processes: impl IntoIterator<Item = u32>) {
        self.unseen = processes.into_iter().collect();
    }

    /// The last process was started and is detached.
    pub(super) const fn leave_behind(&mut self, process: u32) {
        self.left_behind = Some(process);
    }

    /// The process whose end must be awaited when the service ends.
    pub(super) fn awaited(&self) -> Option<u32> {
        self.left_behind.filter(|_| !self.extended)
    }

    /// Changes a setting for programs that are started later; `None` for another setting.
    pub(super) fn set(&mut self, request: &SettingRequest) -> Option<Reply> {
        match request {
            SettingRequest::StartupWithShell { on } => self.launch.shell = *on,
            SettingRequest::DisableRandomization { on } => self.launch.randomized = !*on,
            SettingRequest::WorkingDirectory { directory } => {
                let directory = text(directory);
                self.launch.directory = (!directory.is_empty()).then(|| expanded(&directory));
            }
            SettingRequest::ResetEnvironment => self.launch.environment.clear(),
            SettingRequest::UnsetEnvironment { name } => {
                self.launch.environment.insert(text(name), None);
            }
            SettingRequest::SetEnvironment { variable } => {
                let HexBytes(variable) = variable;
                let Some(end) = variable.iter().position(|byte| *byte == b'=') else {
                    return Some(Reply::Error(Failure::text(
                        "Unknown environment variable: expected NAME=VALUE",
                    )));
                };
                let (name, value) = variable.split_at(end);
                let value = value.get(1..).unwrap_or_default();
                self.launch.environment.insert(
                    OsStr::from_bytes(name).to_owned(),
                    Some(OsStr::from_bytes(value).to_owned()),
                );
            }
            _ => return None,
        }
        Some(Reply::Ok)
    }
}

impl LiveProgram {
    /// Starts the program of a launch, stopped before its first instruction.
    ///
    /// # Errors
    /// As [`Process::launch`].
    pub fn start(&mut self) -> Result<(), Error> {
        let process = Process::launch(&self.launcher.launch, settings())?;
        self.notify(&format!(
            "Process {} created; pid = {}",
            self.launcher.launch.path().display(),
            process.id()
        ));
        self.add(process, false, Signal::TRAP);
        Ok(())
    }

    /// Attaches to a process, and stops it.
    ///
    /// # Errors
    /// As [`Process::attach`]; also when it is debugged already.
    pub fn attach(&mut self, id: u32) -> Result<(), Error> {
        let process = Process::attach(ThreadId(id), settings())?;
        self.notify(&format!("Attached; pid = {id}"));
        self.add(process, true, Signal(0));
        self.launcher.untouched.insert(id);
        Ok(())
    }

    fn add(&mut self, process: Process, attached: bool, signal: Signal) {
        self.inferiors.add(process, attached);
        if let Some(thread) = self.inferiors.thread() {
            self.stops.insert(thread, ThreadStop::signal(signal));
            self.stops.set_last(thread);
        }
    }

    /// `vRun`.
    pub(super) fn restart(&mut self, Arguments(words): &Arguments) -> Reply {
        let mut words = words.iter();
        if let Some(program) = words.next().filter(|program| !program.0.is_empty()) {
            self.launcher.launch.program = text(program);
        }
        if self.launcher.launch.program.is_empty() {
            return Reply::Error(Failure::text("No program was ever named"));
        }
        self.launcher.launch.arguments = words.map(text).collect();
        let started = self.start();
        self.start_reply(started)
    }

    /// `vAttach`.
    pub(super) fn attach_again(&mut self, id: u32) -> Reply {
        if self.launcher.unseen.remove(&id) && self.inferiors.was_attached(id).is_some() {
            return self.show(id);
        }
        let attached = self.attach(id);
        // After a client's own attach it gets all threads.
        self.launcher.untouched.remove(&id);
        if self.non_stop.on && attached.is_ok() {
            self.queue_all_of(id);
            return Reply::Ok;
        }
        self.start_reply(attached)
    }

    /// Reports an existing process as one that was attached to.
    fn show(&mut self, id: u32) -> Reply {
        if self.non_stop.on {
            self.queue_all_of(id);
            return Reply::Ok;
        }
        match self
            .inferiors
            .threads()
            .into_iter()
            .find(|(of, _)| *of == id)
        {
            Some((process, thread)) => {
                self.inferiors.select(process, thread);
                Reply::Stop(self.stopped(process, thread))
            }
            None => Reply::Error(Failure::Number(1)),
        }
    }

    fn start_reply(&mut self, started: Result<(), Error>) -> Reply {
        match (started, self.inferiors.current(), self.inferiors.thread()) {
            (Ok(()), Some(process), Some(thread)) => Reply::Stop(self.stopped(process, thread)),
            (Ok(()), ..) => Reply::Error(Failure::Number(1)),
            (Err(error), ..) => {
                self.notify(&format!("tracewire: {error}"));
                Reply::Error(Failure::text(&error.to_string()))
            }
        }
    }
}
