//! A log of recordings: lines of JSON in a file, or entries of systemd's journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;

use anyhow::Context as _;
use nix::fcntl::OFlag;
use nix::unistd::{Uid, User};
use serde_json::{Map, Value, json};
use tracewire_recorder::{Audit, AuditEntry, AuditEvent};
use tracewire_views::words;

/// Where the journal takes entries (systemd's "Native Journal Protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The kernel's value for a process without a login.
const NO_LOGIN: u32 = u32::MAX;

/// A log, with the fields that are the same in all its entries.
#[derive(Debug)]
pub struct Log {
    target: Target,
    who: Map<String, Value>,
}

#[derive(Debug)]
enum Target {
    File(File),
    Journal(UnixDatagram),
}

impl Log {
    /// Opens a log: the file of this name, which is made accessible only to its owner, or `journal`.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let target = if name == "journal" {
            let socket = UnixDatagram::unbound().context("the journal")?;
            socket
                .connect(JOURNAL)
                .with_context(|| format!("the journal ({JOURNAL})"))?;
            Target::Journal(socket)
        } else {
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(OFlag::O_NOFOLLOW.bits())
                .open(name)
                .with_context(|| format!("the log {name}"))?;
            Target::File(file)
        };
        Ok(Self { target, who: who() })
    }
}

impl Audit for Log {
    fn log(&self, entry: &AuditEntry<'_>) -> io::Result<()> {
        let mut object = Map::new();
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let time = time.map_or(0, |time| time.as_micros());
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        object.insert("time".to_owned(), json!(words::date(time)));
        object.insert("time_us".to_owned(), json!(time));
        let (event, more) = match entry.event {
            AuditEvent::Begin { locations } => ("begin", ("locations", json!(locations))),
            AuditEvent::End { frames } => ("end", ("frames", json!(frames))),
            AuditEvent::Denied { reason } => ("denied", ("reason", json!(reason))),
            other => ("other", ("what", json!(format!("{other:?}")))),
        };
        object.insert("event".to_owned(), json!(event));
        object.insert("process".to_owned(), json!(entry.process.0));
        let program = entry.program.to_string_lossy();
        object.insert("program".to_owned(), json!(program));
        object.insert(more.0.to_owned(), more.1);
        object.extend(self.who.clone());
        let line = Value::Object(object).to_string();
        match &self.target {
            // One write, so that lines of several programs are not mixed.
            Target::File(file) => (&*file).write_all(format!("{line}\n").as_bytes()),
            Target::Journal(socket) => {
                // No field has a line break: JSON has none within its strings.
                let entry = format!("SYSLOG_IDENTIFIER=tracewire\nPRIORITY=5\nMESSAGE={line}\n");
                socket.send(entry.as_bytes()).map(drop)
            }
        }
    }
}

/// The user who records, and the command.
fn who() -> Map<String, Value> {
    let mut who = Map::new();
    let user = nix::unistd::getuid().as_raw();
    who.insert("user".to_owned(), json!(user_name(user)));
    let login = std::fs::read_to_string("/proc/self/loginuid");
    let login = login.ok().and_then(|text| text.trim().parse().ok());
    if let Some(login) = login.filter(|login| *login != NO_LOGIN) {
        who.insert("login".to_owned(), json!(user_name(login)));
    }
    who.insert("recorder".to_owned(), json!(std::process::id()));
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    who.insert("arguments".to_owned(), json!(arguments));
    who
}

fn user_name(user: u32) -> String {
    let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
    known.map_or_else(|| user.to_string(), |known| known.name)
}
