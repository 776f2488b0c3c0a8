//! Breakpoints and watchpoints: what the client inserts, with what the target evaluates there.
//!
//! A breakpoint with conditions stops the program when one of them is true, or cannot be evaluated: GDB looks for itself
//! then. One with commands does not stop it: the commands run, and the program goes on (`dprintf` with
//! `set dprintf-style agent`).

use std::collections::BTreeMap;
use std::io::Write;

use tracewire_agent_expr::{Verified, VerifyError, verify};
use tracewire_experiment::{Experiment, Hit, HitHandler, Outcome, StoppedThread};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointOptions, BreakpointRequest};
use tracewire_packets::{Failure, Reply};
use tracewire_target_linux::{Process, Watch};
use tracewire_tracefile::{Address, ThreadId};

use super::buffer::Buffer;
use super::program::done;

/// The breakpoints, with what is evaluated there.
#[derive(Debug, Default)]
pub(super) struct Programs(BTreeMap<Address, Vec<(BreakpointKind, Breakpoint)>>);

#[derive(Debug, Default)]
struct Breakpoint {
    conditions: Vec<Verified>,
    /// There is no condition, or one that cannot be evaluated.
    always: bool,
    commands: Vec<Verified>,
    persist: bool,
}

impl Breakpoint {
    fn new(options: &BreakpointOptions) -> Result<Self, VerifyError> {
        let conditions: Vec<Verified> = options
            .conditions
            .iter()
            .filter_map(|condition| verify(condition).ok())
            .filter(Verified::has_result)
            .collect();
        Ok(Self {
            always: conditions.len() < options.conditions.len() || options.conditions.is_empty(),
            conditions,
            commands: options
                .commands
                .iter()
                .map(|command| verify(command))
                .collect::<Result<_, _>>()?,
            persist: options.persist,
        })
    }
}

impl Programs {
    pub(super) fn respond(&mut self, process: &mut Process, request: &BreakpointRequest) -> Reply {
        match request {
            BreakpointRequest::Insert {
                kind,
                address,
                length,
                options,
            } => {
                let breakpoint = match Breakpoint::new(options) {
                    Ok(breakpoint) => breakpoint,
                    Err(error) => return Reply::Error(Failure::text(&error.to_string())),
                };
                let inserted = match by_machine(*kind) {
                    Ok(Some(watch)) => process.insert_watch(watch, *address, *length).is_ok(),
                    Ok(None) => process.insert_stop(*address).is_ok(),
                    Err(reply) => return reply,
                };
                if inserted {
                    self.set(*kind, *address, Some(breakpoint));
                }
                done(inserted)
            }
            BreakpointRequest::Remove {
                kind,
                address,
                length,
            } => {
                let removed = match by_machine(*kind) {
                    Ok(Some(watch)) => {
                        process.remove_watch(watch, *address, *length);
                        true
                    }
                    Ok(None) => process.remove_stop(*address).is_ok(),
                    Err(reply) => return reply,
                };
                self.set(*kind, *address, None);
                done(removed)
            }
        }
    }

    /// Sets the breakpoint of a kind at an address, or takes it out.
    fn set(&mut self, kind: BreakpointKind, address: Address, breakpoint: Option<Breakpoint>) {
        let list = self.0.entry(address).or_default();
        list.retain(|(other, _)| *other != kind);
        list.extend(breakpoint.map(|breakpoint| (kind, breakpoint)));
        if list.is_empty() {
            self.0.remove(&address);
        }
    }

    /// Whether commands are to go on without the client.
    pub(super) fn persist(&self) -> bool {
        self.0
            .values()
            .flatten()
            .any(|(_, breakpoint)| breakpoint.persist && !breakpoint.commands.is_empty())
    }

    /// The program is gone, or has become another one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What the machine is to look out for; none for a breakpoint in memory.
fn by_machine(kind: BreakpointKind) -> Result<Option<Watch>, Reply> {
    match kind {
        BreakpointKind::Software => Ok(None),
        BreakpointKind::Hardware => Ok(Some(Watch::Execution)),
        BreakpointKind::WriteWatchpoint => Ok(Some(Watch::Write)),
        BreakpointKind::AccessWatchpoint => Ok(Some(Watch::Access)),
        // x86 has none: GDB then takes one that also sees writes.
        BreakpointKind::ReadWatchpoint => Err(Reply::Unsupported),
    }
}

/// Where the words of commands go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Words {
    /// Our standard output, as gdbserver's.
    #[default]
    Output,
    /// Our standard error: the client has the output.
    Errors,
}

impl Words {
    fn print(self, text: &[u8]) {
        // There is nobody to tell of an error.
        let _ = match self {
            Self::Output => {
                let mut stream = std::io::stdout().lock();
                stream.write_all(text).and_then(|()| stream.flush())
            }
            Self::Errors => std::io::stderr().write_all(text),
        };
    }
}

/// Whoever is told of hits: the experiment, and the breakpoints.
pub(super) struct Handler<'h> {
    pub(super) experiment: &'h mut Experiment<Buffer>,
    pub(super) programs: &'h Programs,
    pub(super) words: Words,
}

impl HitHandler for Handler<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        self.experiment.hit(hit, thread)
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.experiment.thread_ended(thread);
    }

    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        let Some(breakpoints) = self.programs.0.get(&address) else {
            return true;
        };
        let mut stops = false;
        for (_, breakpoint) in breakpoints {
            let mut words = Vec::new();
            let mut is_true = |condition| {
                !matches!(
                    self.experiment.evaluate(condition, thread, &mut words),
                    Ok(Some(0))
                )
            };
            if !breakpoint.always && !breakpoint.conditions.iter().any(&mut is_true) {
                continue;
            }
            stops |= breakpoint.commands.is_empty();
            for command in &breakpoint.commands {
                let done = self.experiment.evaluate(command, thread, &mut words);
                // The user finds out why the command does nothing.
                stops |= done.is_err();
            }
            if !words.is_empty() {
                self.words.print(&words);
            }
        }
        stops
    }
}
