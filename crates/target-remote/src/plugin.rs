//! Tracewire's plugin in the QEMU behind a stub: it runs an experiment in the guest, without a stop.

use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tracewire_arch::Architecture;
use tracewire_experiment::handover::{Answer, Greeting, MessageError, Progress, Request};
use tracewire_model::Address;
use tracewire_packets::ThreadSelector;

use crate::thread::number;

/// Why the plugin does not do what is wanted.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The socket of the plugin does not answer, or with something else.
    #[error("the plugin in QEMU: {0}")]
    Message(#[from] MessageError),
    /// It refuses a request.
    #[error("{0}")]
    Refused(String),
    /// It answers another request than it was sent.
    #[error("the plugin in QEMU: the answer is that of another request")]
    Answer,
}

impl PluginError {
    /// Whether nothing more can be asked of the plugin.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Answer)
    }
}

/// How often it is looked whether the socket is there.
const PAUSE: Duration = Duration::from_millis(10);

fn connect(socket: &Path, until: Instant) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            // It is not there yet, or no server listens at it yet.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) && Instant::now() < until =>
            {
                std::thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
}

/// The plugin.
#[derive(Debug)]
pub struct Plugin {
    input: BufReader<UnixStream>,
    output: BufWriter<UnixStream>,
    machine: Architecture,
}

impl Plugin {
    /// Connects to the socket of the plugin's `control` option, which a QEMU that is being started has not made yet. That may take as long
    /// as `limit`, and so may an answer.
    ///
    /// # Errors
    /// When there is no such plugin.
    pub fn connect(socket: &Path, limit: Duration) -> Result<Self, PluginError> {
        let open = || {
            let stream = connect(socket, Instant::now() + limit)?;
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            Ok((BufWriter::new(stream.try_clone()?), BufReader::new(stream)))
        };
        let (output, mut input) = open().map_err(MessageError::Connection)?;
        let Greeting { machine } = Greeting::read(&mut input)?;
        Ok(Self {
            input,
            output,
            machine,
        })
    }

    /// The machine of the QEMU that it is in.
    #[must_use]
    pub const fn machine(&self) -> Architecture {
        self.machine
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, PluginError> {
        let sent = request.write(&mut self.output);
        let sent = sent.and_then(|()| self.output.flush());
        sent.map_err(MessageError::Connection)?;
        match Answer::read(&mut self.input)? {
            Answer::Refused(reason) => Err(PluginError::Refused(reason)),
            answer => Ok(answer),
        }
    }

    /// Begins a run of definitions ([`Definitions::to_text`]), in place of one that there is. Returns whether it sees all instructions; otherwise it misses those that QEMU has
    /// translated before.
    ///
    /// # Errors
    /// When the plugin refuses the experiment, or does not answer.
    ///
    /// [`Definitions::to_text`]: tracewire_experiment::Definitions::to_text
    pub fn begin(&mut self, definitions: Vec<u8>) -> Result<bool, PluginError> {
        match self.ask(&Request::Begin(definitions))? {
            Answer::Begun { sees_all } => Ok(sees_all),
            _ => Err(PluginError::Answer),
        }
    }

    /// The instruction that a thread is at is before the run: it is no hit.
    ///
    /// # Errors
    /// When the plugin does not answer.
    pub fn pass(
        &mut self,
        thread: Option<ThreadSelector>,
        address: Address,
    ) -> Result<(), PluginError> {
        // QEMU's stub numbers cpus from 1.
        let cpu = number(thread).0.saturating_sub(1);
        match self.ask(&Request::Pass { cpu, address })? {
            Answer::Done => Ok(()),
            _ => Err(PluginError::Answer),
        }
    }

    /// What the run has come to, and its frames after the first `since`.
    ///
    /// # Errors
    /// When there is no run, or the plugin does not answer.
    pub fn progress(&mut self, since: u64) -> Result<(Progress, Vec<u8>), PluginError> {
        match self.ask(&Request::Progress { since })? {
            Answer::Progress { progress, frames } => Ok((*progress, frames)),
            _ => Err(PluginError::Answer),
        }
    }

    /// Ends the run.
    ///
    /// # Errors
    /// When the plugin does not answer.
    pub fn end(&mut self) -> Result<(), PluginError> {
        match self.ask(&Request::End)? {
            Answer::Done => Ok(()),
            _ => Err(PluginError::Answer),
        }
    }
}
