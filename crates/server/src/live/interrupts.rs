//! Interrupts: which can wait, and which thread they are reported for.
//!
//! gdbserver sends the program a signal. Here everything is stopped and the client gets the signal that it knows, so
//! that no signal remains in a program that is detached at the same moment.

use std::cmp::Reverse;

use tracewire_model::{Address, ThreadId};
use tracewire_packets::Signal;
use tracewire_packets::family::resume::ResumeKind;
use tracewire_packets::family::stop::StopReply;

use super::debuggee::read;
use super::program::{LiveProgram, expedited};
use super::run::News;
use super::stops::ThreadStop;

impl LiveProgram {
    /// Whether the only thing that was resumed is one step of one thread in another process than the one that an
    /// interrupt is for; it ends by itself. GDB steps past a breakpoint in this way, and resumes everything after that.
    pub(super) fn is_step_of_another(
        &mut self,
        what: impl Fn(u32, ThreadId) -> Option<ResumeKind>,
    ) -> bool {
        let threads = self.inferiors.threads();
        let mut let_go = threads
            .iter()
            .filter_map(|(process, thread)| Some((*process, *thread, what(*process, *thread)?)));
        let (Some((process, thread, ResumeKind::Step)), None) = (let_go.next(), let_go.next())
        else {
            return false;
        };
        !self.inferiors.is_interrupted_first(process)
            && self.may_call_system(process, thread) == Some(false)
    }

    /// Whether the instruction that a thread is at may be a system call, by its first bytes.
    fn may_call_system(&mut self, process: u32, thread: ThreadId) -> Option<bool> {
        const CALLS: [[u8; 2]; 3] = [[0x0f, 0x05], [0x0f, 0x34], [0xcd, 0x80]];
        let process = self.inferiors.of_mut(process)?;
        let [.., counter] = expedited(process.architecture());
        let (start, size) = process.register_place(counter)?;
        let block = process.register_block(thread)?;
        let mut address = [0; 8];
        address
            .get_mut(..size)?
            .copy_from_slice(block.get(start..start + size)?);
        let bytes = read(process, Address(u64::from_le_bytes(address)), 4);
        Some(
            bytes
                .windows(2)
                .any(|pair| CALLS.iter().any(|call| call == pair)),
        )
    }

    /// The client's interrupt, as it is reported to the client. GDB's user expects it in the first thread, but a thread
    /// that the client has not resumed cannot be reported as stopped.
    pub(super) fn interruption(
        &mut self,
        what: impl Fn(u32, ThreadId) -> Option<ResumeKind>,
    ) -> News {
        let threads = self.inferiors.threads();
        let first = threads
            .iter()
            .filter(|(process, thread)| what(*process, *thread).is_some())
            .max_by_key(|(process, thread)| {
                let process = *process;
                (
                    self.inferiors.is_interrupted_first(process),
                    Reverse((process, *thread)),
                )
            })
            .or_else(|| threads.first());
        match first {
            Some((process, thread)) => {
                self.diagnostics
                    .happens(|| format!("thread {thread} is interrupted"));
                let stop = ThreadStop::signal(Signal::INTERRUPT);
                self.stops.insert(*thread, stop);
                News::Thread(*process, *thread)
            }
            None => News::Other(StopReply::NoneResumed),
        }
    }
}
