//! `monitor`: our own commands, and those of gdbserver that have a meaning here, in its wording.

use std::fmt::Write;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tracewire_experiment::Served;
use tracewire_model::TracepointKind;
use tracewire_packets::{Failure, HexBytes, Reply};
use tracewire_target_linux::Mechanism;

use super::program::LiveProgram;
use crate::log::SessionLog;
use crate::session::Answer;

const HELP: &str = "The following monitor commands are supported:
  tracepoints
    Show what serves each tracepoint
  set debug <0|1>
    Tell of what happens to the program
  set debug-hw-points <0|1>
    Tell of breakpoints and watchpoints in the machine's debug registers
  set remote-debug <0|1>
    Show the packets
  set debug-format option1[,option2,...]
    Say what goes with what is reported
    Options: all, none, timestamp
  exit
    End the server, and the program unless it was attached to
";

/// Output beside the protocol: to the server's user, and on standard error.
#[derive(Debug)]
pub(super) struct Diagnostics {
    /// Where messages for the server's user go.
    notices: fn(&str),
    general: bool,
    hardware: bool,
    stamps: bool,
    /// Whether the session shows its packets.
    packets: Arc<AtomicBool>,
    start: Instant,
}

impl Diagnostics {
    pub(super) fn new(notices: fn(&str)) -> Self {
        Self {
            notices,
            general: false,
            hardware: false,
            stamps: false,
            packets: Arc::default(),
            start: Instant::now(),
        }
    }

    /// `set remote-debug` is about the packets of this session.
    pub(super) fn show_packets_of(&mut self, log: &SessionLog) {
        self.packets = log.shown();
    }

    /// Sends a message to the server's user.
    pub(super) fn notify(&self, text: &str) {
        (self.notices)(text);
    }

    /// Reports something that happens to the program.
    pub(super) fn happens(&self, what: impl FnOnce() -> String) {
        if self.general {
            self.write_line(&what());
        }
    }

    /// Reports something that is done with debug registers.
    pub(super) fn hardware(&self, what: impl FnOnce() -> String) {
        if self.hardware {
            self.write_line(&what());
        }
    }

    fn write_line(&self, text: &str) {
        let line = if self.stamps {
            format!("{:.6} {text}\n", self.start.elapsed().as_secs_f64())
        } else {
            format!("{text}\n")
        };
        // A log that cannot be written ends no session.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Executes a `set` command; `None` when it is not known.
    fn set(&mut self, words: &str) -> Option<&'static str> {
        Some(match words {
            "debug 1" => {
                self.general = true;
                "Debug output enabled.\n"
            }
            "debug 0" => {
                self.general = false;
                "Debug output disabled.\n"
            }
            "debug-hw-points 1" => {
                self.hardware = true;
                "H/W point debugging output enabled.\n"
            }
            "debug-hw-points 0" => {
                self.hardware = false;
                "H/W point debugging output disabled.\n"
            }
            "remote-debug 1" => {
                self.packets.store(true, Ordering::Relaxed);
                "Protocol debug output enabled.\n"
            }
            "remote-debug 0" => {
                self.packets.store(false, Ordering::Relaxed);
                "Protocol debug output disabled.\n"
            }
            "debug-format all" => {
                self.stamps = true;
                "All extra debug format options enabled.\n"
            }
            "debug-format none" => {
                self.stamps = false;
                "All extra debug format options disabled.\n"
            }
            "debug-format timestamp" => {
                self.stamps = true;
                "Timestamps will be added to debug output.\n"
            }
            _ => return None,
        })
    }
}

impl LiveProgram {
    pub(super) fn monitor(&mut self, HexBytes(command): &HexBytes) -> Answer {
        let command = String::from_utf8_lossy(command);
        let text = match command.trim() {
            "exit" => return Answer::Last(Reply::Ok),
            "help" => HELP.to_owned(),
            "tracepoints" => self.mechanisms(),
            words => match words
                .strip_prefix("set ")
                .and_then(|words| self.diagnostics.set(words.trim()))
            {
                Some(text) => text.to_owned(),
                None => {
                    let text = format!("Unknown monitor command.\n\n{HELP}");
                    return Answer::Output(text, Reply::Error(Failure::Number(1)));
                }
            },
        };
        Answer::Output(text, Reply::Ok)
    }

    /// One line for each tracepoint: its number, its address, how it is served, the number of its hits.
    fn mechanisms(&self) -> String {
        let process = self
            .inferiors
            .traced()
            .and_then(|process| self.inferiors.of(process));
        let mut text = String::new();
        for tracepoint in self.tracing.trace.experiment.tracepoints() {
            let definition = tracepoint.definition();
            let kind = match definition.kind {
                TracepointKind::Trap => "trace",
                TracepointKind::Fast { .. } => "ftrace",
                TracepointKind::Static => "strace",
            };
            let served = process
                .and_then(|process| process.mechanism(definition.address))
                .map_or(
                    "nothing: it is not in the program",
                    |mechanism| match mechanism {
                        Mechanism::Jump(_) => "a jump into a pad",
                        Mechanism::Trap => "a trap",
                    },
                );
            let why = match self.tracing.trace.experiment.served(definition.address) {
                Some(Served::Trap(Some(why))) => format!(" ({why})"),
                _ => String::new(),
            };
            let usage = tracepoint.usage();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{kind} {} at {}: {served}{why}; {} hits, {} bytes",
                definition.number, definition.address, usage.hits, usage.bytes
            );
        }
        if text.is_empty() {
            text.push_str("There are no tracepoints.\n");
        }
        text
    }
}
