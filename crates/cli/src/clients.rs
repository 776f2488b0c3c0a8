//! The options of every command that debuggers connect to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_server::{Clients, SaveFolder, SessionLog, ShutdownHandle, Token};

use crate::record::signals::Signals;

/// How long an orderly end may take after a signal.
const LAST_CHANCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub struct ClientArguments {
    /// Where debuggers may save what a trace run collected (tsave -r); without it, nowhere
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    files: Option<PathBuf>,
    /// End when the first debugger goes
    #[arg(long)]
    once: bool,
    /// Let only those debuggers in on TCP who know the word in this file, which is made if it is not there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    auth: Option<PathBuf>,
    /// Write every packet to a file, with its time and meaning
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    debug_log: Option<PathBuf>,
}

impl ClientArguments {
    /// The log of the packets.
    pub fn log(&self) -> anyhow::Result<SessionLog> {
        match &self.debug_log {
            Some(path) => SessionLog::create(path)
                .with_context(|| format!("{} cannot be written", path.display())),
            None => Ok(SessionLog::none()),
        }
    }

    /// The token for clients on TCP. Its file is made if it does not exist.
    pub fn token(&self) -> anyhow::Result<Option<Token>> {
        Ok(self.auth.as_deref().map(Token::of_file).transpose()?)
    }

    /// Which clients are served.
    pub const fn clients<'a>(&self, token: Option<&'a Token>) -> Clients<'a> {
        Clients {
            once: self.once,
            token,
        }
    }

    /// Where clients may save files.
    pub fn save_folder(&self) -> Option<SaveFolder> {
        self.files.clone().map(SaveFolder)
    }
}

/// After a signal, has a service end in order, and ends this process without that when it takes too long.
pub fn end_at_signal(signals: Signals, shutdown: ShutdownHandle) -> std::io::Result<()> {
    /// The base of a shell's exit status for a program that a signal has ended.
    const BY_SIGNAL: i32 = 128;
    let end = move || {
        let signal = loop {
            if let Some((signal, _)) = signals.wait() {
                break signal;
            }
        };
        shutdown.end();
        std::thread::sleep(LAST_CHANCE);
        std::process::exit(BY_SIGNAL + signal);
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(end).map(drop)
}
