//! Stops, as far as tracepoints need to know of them.

use tracewire_model::RegisterNumber;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::{Reply, ReplyKind, Signal, ThreadSelector, Which};

/// A stop of a thread.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The packet.
    pub payload: Vec<u8>,
    /// Which thread; none for a stub that does not say.
    pub thread: Option<ThreadSelector>,
    /// Why.
    pub signal: Signal,
    /// On which cpu.
    pub core: Option<u32>,
    /// The process that the thread has made, where it has stopped for that and the stub says which.
    pub child: Option<u32>,
    /// The registers that came with it.
    pub(crate) registers: Vec<(RegisterNumber, Vec<u8>)>,
    /// Whether the program counter is that of a breakpoint.
    pub(crate) is_exact: bool,
    /// Whether it is reported for something else than an instruction: a watchpoint, a library, a fork.
    pub(crate) is_event: bool,
}

/// What a stub sends while the program runs.
#[derive(Clone, Debug)]
pub enum StopEvent {
    /// A thread has stopped, and with it all others.
    Stopped(Box<Stop>),
    /// The process is gone: the packet.
    Gone(Vec<u8>),
    /// Output, or a system call that the debugger is to do: the packet. The program runs on, or will.
    Aside(Vec<u8>),
    /// Something else: the packet.
    Other(Vec<u8>),
}

/// The signal that says nothing else.
const TRAP: Signal = Signal::TRAP;

impl Stop {
    /// Whether the thread has come to a breakpoint, or has made its step.
    #[must_use]
    pub fn is_trap(&self) -> bool {
        self.signal == TRAP && !self.is_event
    }

    /// The packet with another signal, and without what says why.
    #[must_use]
    pub fn with_signal(&self, signal: Signal) -> Vec<u8> {
        let Ok(Reply::Stop(StopReply::Stopped { mut fields, .. })) =
            Reply::parse(ReplyKind::Stop, &self.payload)
        else {
            return Reply::Stop(StopReply::Signal(signal)).to_bytes();
        };
        fields.retain(|field| {
            !matches!(
                field,
                StopField::SoftwareBreakpoint | StopField::HardwareBreakpoint
            )
        });
        Reply::Stop(StopReply::Stopped { signal, fields }).to_bytes()
    }
}

impl StopEvent {
    /// Reads a packet that comes while the program runs.
    #[must_use]
    pub fn parse(payload: Vec<u8>) -> Self {
        let reply = match Reply::parse(ReplyKind::Stop, &payload) {
            Ok(Reply::Stop(reply)) => reply,
            Ok(Reply::Output(_) | Reply::FileIo(_)) => return Self::Aside(payload),
            _ => return Self::Other(payload),
        };
        let (signal, fields) = match reply {
            StopReply::Signal(signal) => (signal, Vec::new()),
            StopReply::Stopped { signal, fields } => (signal, fields),
            StopReply::Exited { .. } | StopReply::Killed { .. } => return Self::Gone(payload),
            StopReply::ThreadExited { .. } | StopReply::NoneResumed => {
                return Self::Other(payload);
            }
        };
        let mut stop = Stop {
            payload,
            thread: None,
            signal,
            core: None,
            child: None,
            registers: Vec::new(),
            is_exact: false,
            is_event: false,
        };
        for field in fields {
            match field {
                StopField::Register { register, bytes } => {
                    if let Some(bytes) = bytes.all() {
                        stop.registers.push((register, bytes));
                    }
                }
                StopField::Thread(thread) => {
                    stop.thread = matches!(thread.thread, Which::One(_)).then_some(thread);
                }
                StopField::Core(core) => stop.core = Some(core),
                StopField::SoftwareBreakpoint | StopField::HardwareBreakpoint => {
                    stop.is_exact = true;
                }
                StopField::Fork(child) | StopField::Vfork(child) => {
                    stop.is_event = true;
                    stop.child = match child.process {
                        Some(Which::One(process)) => Some(process),
                        _ => None,
                    };
                }
                StopField::Other { .. } => {}
                _ => stop.is_event = true,
            }
        }
        Self::Stopped(Box::new(stop))
    }
}
