//! Running, stepping, both ways.

use std::ops::Range;

use tracewire_experiment::{Hit, HitHandler};
use tracewire_model::{Address, ThreadId};

use crate::execution::{Direction, Execution, Watch, canonical, watches_before};
use crate::moment::Moment;
use crate::replay::{Replay, thread_of};

/// The reason of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopCause {
    /// The requested number of instructions was executed.
    Step,
    /// A breakpoint's instruction comes next.
    Breakpoint,
    /// Watched memory was accessed: at this address of the watched ones. Whether the instruction that does so comes next
    /// or has just been executed, or unexecuted, is as GDB expects it of the machine.
    Watchpoint(Watch, Address),
    /// The beginning of the recording.
    Begin,
    /// The end of the recording.
    End,
}

/// A stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The thread that has stopped.
    pub thread: ThreadId,
    /// Why.
    pub cause: StopCause,
}

/// Where the recording may stop on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Candidate {
    position: u64,
    /// The instruction that is at a breakpoint, or that accesses memory.
    number: u64,
    cause: StopCause,
}

impl<E: Execution> Replay<E> {
    /// Runs forward. The handler is called for tracepoints on the way, and at breakpoints.
    pub fn run(&mut self, handler: &mut dyn HitHandler) -> Stop {
        let end = self.execution.instructions();
        self.forward(end, StopCause::End, None, handler)
    }

    /// Lets a thread execute one instruction; others execute those of theirs that come before it.
    pub fn step(&mut self, thread: ThreadId, handler: &mut dyn HitHandler) -> Stop {
        let cpu = self.cpu(thread);
        match self.execution.next_of(cpu, self.position) {
            Some(number) => {
                let to = number.saturating_add(1);
                self.forward(to, StopCause::Step, Some(thread), handler)
            }
            None => self.run(handler),
        }
    }

    /// Lets a thread execute instructions until one is outside of a range of addresses.
    pub fn step_range(
        &mut self,
        thread: ThreadId,
        range: Range<Address>,
        handler: &mut dyn HitHandler,
    ) -> Stop {
        let cpu = self.cpu(thread);
        let machine = self.execution.machine();
        let range = canonical(machine, range.start)..canonical(machine, range.end);
        loop {
            let stop = self.step(thread, handler);
            let next = self.execution.next_of(cpu, self.position);
            let inside = next
                .and_then(|number| self.execution.instruction(number))
                .is_some_and(|next| range.contains(&next.address));
            if stop.cause != StopCause::Step || !inside {
                return stop;
            }
            // A breakpoint in the range is for this thread, too.
            if let Some(next) = next.and_then(|number| self.execution.instruction(number))
                && self.breakpoints.contains(&next.address)
            {
                return stop;
            }
        }
    }

    /// Runs backward.
    pub fn run_back(&mut self, handler: &mut dyn HitHandler) -> Stop {
        self.backward(0, StopCause::Begin, None, handler)
    }

    /// Takes a thread's last instruction back, and what others executed since.
    pub fn step_back(&mut self, thread: ThreadId, handler: &mut dyn HitHandler) -> Stop {
        let cpu = self.cpu(thread);
        match self.execution.last_of(cpu, self.position) {
            Some(number) => self.backward(number, StopCause::Step, Some(thread), handler),
            None => self.run_back(handler),
        }
    }

    /// Moves forward to `to`, or to what stops it before.
    fn forward(
        &mut self,
        to: u64,
        otherwise: StopCause,
        thread: Option<ThreadId>,
        handler: &mut dyn HitHandler,
    ) -> Stop {
        let mut from = self.position;
        let here = self.execution.instruction(from).map(|next| next.cpu);
        if here.is_some() && (here == self.stopped || here == thread.map(|thread| self.cpu(thread)))
        {
            from += 1;
        }
        loop {
            let found = self.next_stop(self.position, from, to);
            let position = found.map_or(to, |found| found.position);
            self.collect(position, handler);
            self.position = position;
            let Some(found) = found else {
                return self.stop_all(to.checked_sub(1), thread, otherwise);
            };
            if found.cause == StopCause::Breakpoint && !self.asks(found.number, handler) {
                from = found.number.saturating_add(1);
                continue;
            }
            let stop = self.stop_all(Some(found.number), None, found.cause);
            self.tell(&found, Direction::Forward);
            return stop;
        }
    }

    fn backward(
        &mut self,
        to: u64,
        otherwise: StopCause,
        thread: Option<ThreadId>,
        handler: &mut dyn HitHandler,
    ) -> Stop {
        let mut before = self.position;
        // The experiment's steps are over.
        self.stepping.clear();
        loop {
            let found = self.last_stop(before, to);
            self.position = found.map_or(to, |found| found.position);
            let Some(found) = found else {
                return self.stop_all(Some(to), thread, otherwise);
            };
            if found.cause == StopCause::Breakpoint && !self.asks(found.number, handler) {
                before = found.number;
                continue;
            }
            let stop = self.stop_all(Some(found.number), None, found.cause);
            self.tell(&found, Direction::Backward);
            return stop;
        }
    }

    /// Stops at the current instant. Without a thread the instruction decides which one has stopped.
    fn stop_all(
        &mut self,
        number: Option<u64>,
        thread: Option<ThreadId>,
        cause: StopCause,
    ) -> Stop {
        self.reported = None;
        let of_number = || {
            let executed = number.and_then(|number| self.execution.instruction(number));
            executed.map_or_else(|| self.current_thread(), |executed| thread_of(executed.cpu))
        };
        let thread = thread.unwrap_or_else(of_number);
        self.stopped = Some(self.cpu(thread));
        Stop { thread, cause }
    }

    /// Remembers an access that is reported before it is made: it is not reported again.
    fn tell(&mut self, found: &Candidate, direction: Direction) {
        if matches!(found.cause, StopCause::Watchpoint(..))
            && watches_before(self.execution.machine())
        {
            self.reported = Some((found.number, direction));
        }
    }

    /// Whether a breakpoint is reported to the debugger.
    fn asks(&self, number: u64, handler: &mut dyn HitHandler) -> bool {
        let Some(executed) = self.execution.instruction(number) else {
            return true;
        };
        let mut moment = Moment::new(&self.execution, number, executed);
        handler.stops_at(executed.address, &mut moment)
    }

    /// The first stop on the way to `to`: breakpoints at instructions from `from` on, accesses from `accesses` on.
    fn next_stop(&self, accesses: u64, from: u64, to: u64) -> Option<Candidate> {
        let breakpoints = self.breakpoints.iter().filter_map(|address| {
            let number = self.execution.next_visit(*address, from)?;
            (number < to).then_some(Candidate {
                position: number,
                number,
                cause: StopCause::Breakpoint,
            })
        });
        let before = watches_before(self.execution.machine());
        let start = match self.reported {
            Some((number, Direction::Forward)) if number == accesses => number + 1,
            _ => accesses,
        };
        let watchpoints = self.watchpoints.iter().filter_map(|watchpoint| {
            let (number, address) = self.execution.access(
                Direction::Forward,
                watchpoint.watch,
                watchpoint.address,
                watchpoint.length,
                start..to,
            )?;
            Some(Candidate {
                position: if before { number } else { number + 1 },
                number,
                cause: StopCause::Watchpoint(watchpoint.watch, address),
            })
        });
        // A watchpoint has priority over a breakpoint at the same place, which GDB finds by itself.
        watchpoints
            .chain(breakpoints)
            .min_by_key(|candidate| candidate.position)
    }

    /// The last stop on the way back to `to`.
    fn last_stop(&self, before: u64, to: u64) -> Option<Candidate> {
        let breakpoints = self.breakpoints.iter().filter_map(|address| {
            let number = self.execution.last_visit(*address, before)?;
            (number > to || number == to && to == 0).then_some(Candidate {
                position: number,
                number,
                cause: StopCause::Breakpoint,
            })
        });
        let stops_before = watches_before(self.execution.machine());
        let end = match self.reported {
            Some((number, Direction::Backward)) if number + 1 == before => number,
            _ => before,
        };
        let watchpoints = self.watchpoints.iter().filter_map(|watchpoint| {
            let (number, address) = self.execution.access(
                Direction::Backward,
                watchpoint.watch,
                watchpoint.address,
                watchpoint.length,
                to..end,
            )?;
            Some(Candidate {
                position: if stops_before { number + 1 } else { number },
                number,
                cause: StopCause::Watchpoint(watchpoint.watch, address),
            })
        });
        breakpoints
            .chain(watchpoints)
            .max_by_key(|candidate| candidate.position)
    }

    /// Calls the handler for the tracepoints and steps among the instructions up to `to`, in order.
    fn collect(&mut self, to: u64, handler: &mut dyn HitHandler) {
        if self.tracepoints.is_empty() && self.stepping.is_empty() {
            return;
        }
        let mut player = self.execution.player(self.position);
        player.look_for(&self.tracepoints, &self.stepping);
        while let Some((_, executed)) = player.advance_to(to) {
            let is_step = self.stepping.contains(&executed.cpu);
            let is_visit = self.tracepoints.contains(&executed.address);
            let hits = [
                is_step.then_some(Hit::Step(executed.address)),
                is_visit.then_some(Hit::Tracepoint(executed.address)),
            ];
            for hit in hits.into_iter().flatten() {
                let outcome = handler.hit(hit, player.thread());
                let is_change = if outcome.step {
                    self.stepping.insert(executed.cpu)
                } else {
                    self.stepping.remove(&executed.cpu)
                };
                if is_change {
                    player.look_for(&self.tracepoints, &self.stepping);
                }
                if outcome.run_ended {
                    // The caller takes out the tracepoints that it put in.
                    self.stepping.clear();
                    return;
                }
            }
        }
    }
}
