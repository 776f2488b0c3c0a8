//! What happens when a thread reaches a tracepoint.

use tracewire_agent_expr::Context;
use tracewire_model::{Address, RegisterNumber, StopReason, ThreadId};
use tracewire_tracefile::{EncodeError, FrameEncoder};

use crate::collect::{Collected, Moment};
use crate::error::HitError;
use crate::experiment::{Experiment, Registers, Unreadable};
use crate::fetched::Fetched;
use crate::store::{FrameStore, StoreError};
use crate::target::{Hit, HitHandler, LookAround, Outcome, StoppedThread};

/// What became of one tracepoint at a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Disabled, or its condition is false.
    Nothing,
    /// A frame was made.
    Frame,
    /// The thread or the program is gone; there was nothing to collect from.
    Gone,
    /// The run has ended.
    Ended,
}

impl<S: FrameStore> HitHandler for Experiment<S> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        if self.running {
            self.begin_stop(thread.is_alone());
        }
        if self.running {
            self.collector.pieces.fetched.clear();
            match hit {
                Hit::Tracepoint(address) => self.reach_address(address, thread),
                Hit::Step(address) => self.step(address, thread),
            }
        }
        self.end_stop();
        Outcome {
            step: self.stepping.is_stepping(thread.id()),
            run_ended: !self.running,
        }
    }

    fn look_around(&mut self) -> LookAround {
        let filled = self.attend();
        if self.running {
            LookAround::GoesOn { filled }
        } else {
            LookAround::Ended
        }
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.step_no_more(thread);
    }
}

impl<S: FrameStore> Experiment<S> {
    fn reach_address(&mut self, address: Address, thread: &mut dyn StoppedThread) {
        let count = self.places.get(&address).map_or(0, Vec::len);
        for place in 0..count {
            let index = self
                .places
                .get(&address)
                .and_then(|indices| indices.get(place));
            let Some(&index) = index else { return };
            match self.reach(index, thread) {
                Reached::Gone | Reached::Ended => return,
                Reached::Nothing | Reached::Frame => {}
            }
        }
    }

    /// One tracepoint, at the address where the thread stands.
    fn reach(&mut self, index: usize, thread: &mut dyn StoppedThread) -> Reached {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return Reached::Nothing;
        };
        if !tracepoint.definition.enabled || self.awaits_last_steps(index) {
            return Reached::Nothing;
        }
        if let Some(condition) = &tracepoint.plan.condition {
            let mut context = ConditionContext {
                moment: Moment {
                    thread,
                    variables: &mut self.variables,
                },
                fetched: &mut self.collector.pieces.fetched,
            };
            match self.condition.evaluate(condition.code(), &mut context) {
                Ok(Some(0) | None) => return Reached::Nothing,
                Ok(Some(_)) => {}
                Err(error) => return self.fail(index, HitError::Condition(error), thread),
            }
        }
        let reached = self.make_frame(index, None, thread);
        if reached != Reached::Frame {
            return reached;
        }
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return Reached::Nothing;
        };
        let definition = &tracepoint.definition;
        if definition.step_count > 0 {
            let key = (definition.number, definition.address);
            self.stepping.begin(thread.id(), key, definition.step_count);
        }
        self.check_pass_count(index, thread)
    }

    /// Whether a tracepoint has met its pass count, and the run ends when the steps of its last hits are made: the hits
    /// of other threads meanwhile are too many.
    fn awaits_last_steps(&self, index: usize) -> bool {
        self.tracepoints.get(index).is_some_and(|tracepoint| {
            let definition = &tracepoint.definition;
            definition.step_count > 0
                && self.has_met_pass_count(index)
                && self.stepping.follows(definition.key())
        })
    }

    /// A thread is gone, and its steps with it: they may have been the last ones that a pass count waited for.
    fn step_no_more(&mut self, thread: ThreadId) {
        let keys = self.stepping.of_thread(thread);
        self.stepping.forget_thread(thread);
        for key in keys {
            let met = self
                .index(key)
                .filter(|index| self.has_met_pass_count(*index));
            if met.is_some() && self.running && !self.stepping.follows(key) {
                self.end(StopReason::PassCount, None, Some(key.0), self.met_at);
                return;
            }
        }
    }

    /// One more instruction of a thread that is being stepped.
    fn step(&mut self, at: Address, thread: &mut dyn StoppedThread) {
        for place in 0..self.stepping.len() {
            let Some((key, last)) = self.stepping.step(place, thread.id()) else {
                continue;
            };
            let Some(index) = self.index(key) else {
                continue;
            };
            let mut reached = self.make_frame(index, Some(at), thread);
            if reached == Reached::Frame && last {
                reached = self.check_pass_count(index, thread);
            }
            match reached {
                Reached::Gone => return self.step_no_more(thread.id()),
                Reached::Ended => return,
                Reached::Nothing | Reached::Frame => {}
            }
        }
        self.stepping.drop_finished(thread.id());
    }

    /// Ends the run with the hit that the pass count names, once the steps of all hits up to that one are in the buffer.
    fn check_pass_count(&mut self, index: usize, thread: &mut dyn StoppedThread) -> Reached {
        let Some(key) = self.tracepoints.get(index).map(|it| it.definition.key()) else {
            return Reached::Nothing;
        };
        if !self.has_met_pass_count(index) {
            return Reached::Frame;
        }
        let now = self.time_of(thread);
        if self.stepping.follows(key) {
            self.met_at = now;
            return Reached::Frame;
        }
        self.end(StopReason::PassCount, None, Some(key.0), now);
        Reached::Ended
    }

    fn has_met_pass_count(&self, index: usize) -> bool {
        let limit = self
            .tracepoints
            .get(index)
            .map_or(0, |tracepoint| tracepoint.definition.pass_count);
        limit > 0 && self.passes(index) >= limit
    }

    /// Ends the run with an error, unless the error is that the thread is gone.
    fn fail(&mut self, index: usize, error: HitError, thread: &mut dyn StoppedThread) -> Reached {
        if thread.register_block().is_err() {
            return Reached::Gone;
        }
        if let Some(tracepoint) = self.tracepoints.get(index) {
            let number = tracepoint.definition.number;
            let now = self.time_of(thread);
            self.end_with_error(number, &error, now);
        }
        Reached::Ended
    }

    /// Makes the frame of a hit, or of a step to an address, and keeps it.
    fn make_frame(
        &mut self,
        index: usize,
        step: Option<Address>,
        thread: &mut dyn StoppedThread,
    ) -> Reached {
        let collected = match self.fill_frame(index, step, thread) {
            Ok(collected) => collected,
            Err(Incomplete::Gone) => return Reached::Gone,
            Err(Incomplete::Cannot(error)) => return self.fail(index, error.into(), thread),
        };
        let missing = collected.missing;
        let error = collected.error.or(match self.options.unreadable {
            Unreadable::Stop => missing.first.map(HitError::BadMemory),
            Unreadable::Missing => None,
        });
        // A thread that was killed while it stood has no memory and no registers.
        if (error.is_some() || missing.count > 0) && thread.register_block().is_err() {
            return Reached::Gone;
        }
        if step.is_none() && !self.count_pass(index) {
            return Reached::Nothing;
        }
        self.note_known_registers(thread);
        if self.has_pads() {
            self.keep_in_order(index, step.is_some());
            if !self.running {
                return Reached::Ended;
            }
        } else {
            match self.store.append(&self.frame) {
                Ok(()) => {}
                Err(StoreError::Full) => {
                    self.end(StopReason::Full, None, None, thread.timestamp());
                    return Reached::Ended;
                }
                Err(error) => return self.fail(index, error.into(), thread),
            }
            self.created += 1;
            if let Some(tracepoint) = self.tracepoints.get_mut(index) {
                tracepoint.usage.bytes += self.frame.len() as u64;
                tracepoint.usage.hits += u64::from(step.is_none());
            }
        }
        if let Some(tracepoint) = self.tracepoints.get_mut(index) {
            tracepoint.missing.add(missing);
        }
        match error {
            Some(error) => self.fail(index, error, thread),
            None => Reached::Frame,
        }
    }

    /// Makes the frame of a hit, or of a step to an address.
    fn fill_frame(
        &mut self,
        index: usize,
        step: Option<Address>,
        thread: &mut dyn StoppedThread,
    ) -> Result<Collected, Incomplete> {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return Err(Incomplete::Gone);
        };
        let actions = match step {
            Some(_) => &tracepoint.plan.step_actions,
            None => &tracepoint.plan.actions,
        };
        self.frame.clear();
        let number = tracepoint.definition.number;
        let is_same = |index: &usize| {
            let there = self.tracepoints.get(*index);
            there.is_some_and(|there| there.definition.number == number)
        };
        let led_back = step
            .and_then(|at| self.places.get(&at))
            .is_some_and(|indices| indices.iter().any(is_same));
        let mut frame = FrameEncoder::begin(&mut self.frame, self.options.format, number)?;
        self.has_registers =
            actions.registers.is_some() || self.options.registers == Registers::Always;
        if self.has_registers {
            let block = thread.register_block().map_err(|_| Incomplete::Gone)?;
            let sets = self.kept.as_ref().map(|kept| &kept.sets);
            let set = actions
                .set
                .and_then(|number| Some((number, sets?.get(number)?)));
            match set {
                Some((number, set)) => frame.register_set(number, set, block)?,
                None => frame.registers(block)?,
            }
            frame.unknown_registers(thread.unknown_registers());
        }
        if led_back {
            frame.step();
        }
        if let Some(number) = self.variables.time_number() {
            frame.follow(number);
        }
        if self.options.stamp {
            for (number, value) in self.variables.stamps(thread) {
                frame.variable(number, value);
            }
        }
        let mut moment = Moment {
            thread,
            variables: &mut self.variables,
        };
        let collected = self.collector.collect(actions, &mut moment, &mut frame)?;
        self.frame_stamp = frame.place();
        frame.finish()?;
        Ok(collected)
    }
}

/// Why there is no frame.
enum Incomplete {
    /// The thread or the program is gone.
    Gone,
    /// It cannot be written down.
    Cannot(EncodeError),
}

impl From<EncodeError> for Incomplete {
    fn from(error: EncodeError) -> Self {
        Self::Cannot(error)
    }
}

/// What a condition sees: it looks at one thing after the other, for it mostly looks at one alone.
pub(crate) struct ConditionContext<'c> {
    pub(crate) moment: Moment<'c>,
    pub(crate) fetched: &'c mut Fetched,
}

impl Context for ConditionContext<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.moment.thread.register(RegisterNumber(register))
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        if let Ok(value) = self.fetched.number(address, size) {
            return value;
        }
        while self.fetched.ask(address, u64::from(size)) {
            self.fetched.read(self.moment.thread);
        }
        self.fetched.number(address, size).ok().flatten()
    }

    fn variable(&mut self, number: u16) -> i64 {
        self.moment.variables.get(number, self.moment.thread)
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        self.moment.variables.set(number, value);
    }

    /// There is no frame to collect into, but reading a variable makes it.
    fn collect_variable(&mut self, number: u16) {
        self.variable(number);
    }
}
