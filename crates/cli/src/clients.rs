//! The options of every command that debuggers connect to.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_server::{Clients, SaveFolder, SessionLog, Token};

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
