//! An agent in a folder of the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::program::PATIENCE;

pub const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The folder of an agent, its configuration and its messages.
pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    pub fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder }
    }

    pub fn directory(&self) -> PathBuf {
        self.folder.join("traces")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    pub fn messages(&self) -> String {
        fs::read_to_string(self.folder.join("messages")).unwrap_or_default()
    }

    /// Writes the configuration: general settings and the probes.
    pub fn configure(&self, text: &str) {
        let head = format!(
            "directory = {:?}\nsocket = {:?}\ndataset = false\n",
            self.directory(),
            self.socket()
        );
        let new = self.folder.join("new.toml");
        fs::write(&new, head + text).unwrap();
        fs::rename(new, self.folder.join("agent.toml")).unwrap();
    }

    /// The agent as a command, of this executable.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["agent", "--config"])
            .arg(self.folder.join("agent.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let messages = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("messages"));
        command.stderr(messages.unwrap());
        command
    }

    pub fn start(&self) -> Agent {
        self.start_by(&mut self.command(Path::new(TRACEWIRE)))
    }

    /// Starts it, and waits until it answers or has ended.
    pub fn start_by(&self, command: &mut Command) -> Agent {
        let mut agent = Agent {
            child: command.spawn().expect("it starts"),
        };
        wait("the agent answers", || {
            agent.child.try_wait().unwrap().is_some() || self.status().is_some()
        });
        agent
    }

    pub fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(TRACEWIRE);
        command
            .arg("agent")
            .args(arguments)
            .arg("--socket")
            .arg(self.socket());
        command
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs")
    }

    pub fn status(&self) -> Option<Value> {
        let output = self.ask(&["status", "--json"]);
        let is_good = output.status.success();
        is_good.then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// The status of a probe.
    pub fn probe(&self, name: &str) -> Option<Value> {
        let status = self.status()?;
        let mut probes = status["probes"].as_array().expect("probes").iter();
        probes.find(|probe| probe["name"] == name).cloned()
    }

    /// Whether a probe records a process.
    pub fn records(&self, probe: &str, process: u32) -> bool {
        self.probe(probe).is_some_and(|probe| {
            let mut processes = probe["processes"].as_array().expect("processes").iter();
            processes.any(|known| known == process)
        })
    }

    /// The counts of a probe's files.
    pub fn counts(&self, probe: &str) -> Value {
        let path = self.directory().join("state").join(format!("{probe}.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

/// It runs. It is killed with this.
pub struct Agent {
    pub child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Agent {
    pub fn signal(&self, signal: libc::c_int) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: kill takes plain numbers; the child was not reaped unless it has ended by itself.
        unsafe { libc::kill(id, signal) };
    }

    /// Ends it in order.
    pub fn end(mut self) -> ExitStatus {
        self.signal(libc::SIGTERM);
        self.wait()
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait("the agent ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Waits for something.
pub fn wait(what: &str, mut came: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !came() {
        assert!(begun.elapsed() < PATIENCE, "not: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The recorders that run in a folder: their numbers.
pub fn recorders(folder: &Path) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let output = format!("--output={}", folder.display());
        let mut words = command.split(|byte| *byte == 0);
        if words.any(|word| word.starts_with(output.as_bytes())) {
            found.push(process);
        }
    }
    found
}
