//! Breakpoints and watchpoints: what the client inserts, with what the target evaluates there.
//!
//! A breakpoint with conditions stops the program when one of them is true or cannot be evaluated; GDB then evaluates
//! it itself. One with commands does not stop it: the commands run, and the program goes on (`dprintf` with
//! `set dprintf-style agent`).

use std::collections::BTreeMap;
use std::io::Write;

use tracewire_agent_expr::{Verified, VerifyError, verify};
use tracewire_experiment::{
    Experiment, Hit, HitHandler, LookAround, MarkedHandler, MarkerValue, Outcome, StoppedThread,
};
use tracewire_model::{Address, ThreadId};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointOptions, BreakpointRequest};
use tracewire_packets::{Failure, Reply};
use tracewire_target_linux::{Process, Watch};

use super::buffer::Buffer;
use super::debuggee::read;
use crate::answers::done;

/// The breakpoints, with their conditions and commands.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    list: BTreeMap<Address, Vec<Breakpoint>>,
    /// The output of commands.
    words: Words,
}

#[derive(Debug)]
struct Breakpoint {
    /// The process that it is in. A child by `fork` has a copy.
    process: ThreadId,
    kind: BreakpointKind,
    conditions: Vec<Verified>,
    /// There is no condition, or one that cannot be evaluated.
    always: bool,
    commands: Vec<Verified>,
    persist: bool,
}

impl Breakpoint {
    fn new(
        process: ThreadId,
        kind: BreakpointKind,
        options: &BreakpointOptions,
    ) -> Result<Self, VerifyError> {
        let conditions: Vec<Verified> = options
            .conditions
            .iter()
            .filter_map(|condition| verify(condition).ok())
            .filter(Verified::has_result)
            .collect();
        Ok(Self {
            process,
            kind,
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

impl Breakpoints {
    pub(super) const fn print_to(&mut self, words: Words) {
        self.words = words;
    }

    pub(super) fn respond(&mut self, process: &mut Process, request: &BreakpointRequest) -> Reply {
        match request {
            BreakpointRequest::Insert {
                kind,
                address,
                length,
                options,
            } => {
                let breakpoint = match Breakpoint::new(process.id(), *kind, options) {
                    Ok(breakpoint) => breakpoint,
                    Err(error) => return Reply::Error(Failure::text(&error.to_string())),
                };
                let inserted = match by_machine(*kind) {
                    Ok(Some(watch)) => process.insert_watch(watch, *address, *length).is_ok(),
                    Ok(None) => process.insert_stop(*address).is_ok(),
                    Err(reply) => return reply,
                };
                if inserted {
                    self.remove(process.id(), *kind, *address);
                    self.list.entry(*address).or_default().push(breakpoint);
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
                    // A breakpoint that was unmapped with its memory is removed, and the user is notified.
                    Ok(None) => {
                        process.remove_stop(*address).is_ok() && is_mapped(process, *address)
                    }
                    Err(reply) => return reply,
                };
                self.remove(process.id(), *kind, *address);
                done(removed)
            }
        }
    }

    fn remove(&mut self, process: ThreadId, kind: BreakpointKind, address: Address) {
        if let Some(list) = self.list.get_mut(&address) {
            list.retain(|breakpoint| breakpoint.process != process || breakpoint.kind != kind);
            if list.is_empty() {
                self.list.remove(&address);
            }
        }
    }

    /// Whether commands are to go on without the client.
    pub(super) fn persist(&self) -> bool {
        self.list
            .values()
            .flatten()
            .any(|breakpoint| breakpoint.persist && !breakpoint.commands.is_empty())
    }

    /// A process has ended, or has become another program.
    pub(super) fn forget(&mut self, process: u32) {
        self.list.retain(|_, list| {
            list.retain(|breakpoint| breakpoint.process.0 != process);
            !list.is_empty()
        });
    }

    /// The breakpoints that a thread has hit: those of its process, if several processes have some there.
    fn at(&self, address: Address, thread: ThreadId) -> impl Iterator<Item = &Breakpoint> {
        let list = self
            .list
            .get(&address)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let shared = list
            .iter()
            .any(|breakpoint| Some(breakpoint.process) != list.first().map(|first| first.process));
        let own = shared
            .then(|| process_of(thread))
            .flatten()
            .filter(|own| list.iter().any(|breakpoint| breakpoint.process == *own));
        list.iter()
            .filter(move |breakpoint| own.is_none_or(|own| breakpoint.process == own))
    }
}

/// Whether there is memory at an address.
fn is_mapped(process: &mut Process, address: Address) -> bool {
    !read(process, address, 1).is_empty()
}

/// The process of a thread, by the kernel.
fn process_of(thread: ThreadId) -> Option<ThreadId> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(ThreadId)
}

/// The kind of watch in the debug registers; `None` for a breakpoint in memory.
fn by_machine(kind: BreakpointKind) -> Result<Option<Watch>, Reply> {
    match kind {
        BreakpointKind::Software => Ok(None),
        BreakpointKind::Hardware => Ok(Some(Watch::Execution)),
        BreakpointKind::WriteWatchpoint => Ok(Some(Watch::Write)),
        BreakpointKind::AccessWatchpoint => Ok(Some(Watch::Access)),
        // x86 has none: GDB then uses one that also triggers on writes.
        BreakpointKind::ReadWatchpoint => Err(Reply::Unsupported),
    }
}

/// The output of commands.
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
        // An error could not be reported to anyone.
        let _ = match self {
            Self::Output => {
                let mut stream = std::io::stdout().lock();
                stream.write_all(text).and_then(|()| stream.flush())
            }
            Self::Errors => std::io::stderr().write_all(text),
        };
    }
}

/// The handler of hits: the experiment, and the breakpoints.
pub(super) struct Handler<'h> {
    pub(super) experiment: &'h mut Experiment<Buffer>,
    pub(super) breakpoints: &'h Breakpoints,
    pub(super) markers: &'h BTreeMap<Address, Vec<MarkerValue>>,
}

impl HitHandler for Handler<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        MarkedHandler::new(self.experiment, self.markers).hit(hit, thread)
    }

    fn look_around(&mut self) -> LookAround {
        self.experiment.look_around()
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.experiment.thread_ended(thread);
    }

    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        let mut stops = None;
        for breakpoint in self.breakpoints.at(address, thread.id()) {
            let stops = stops.get_or_insert(false);
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
            *stops |= breakpoint.commands.is_empty();
            for command in &breakpoint.commands {
                let done = self.experiment.evaluate(command, thread, &mut words);
                // If the command fails, the program stops, so that the user notices.
                *stops |= done.is_err();
            }
            if !words.is_empty() {
                self.breakpoints.words.print(&words);
            }
        }
        stops.unwrap_or(true)
    }
}
