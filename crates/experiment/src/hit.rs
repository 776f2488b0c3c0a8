//! The handling of a thread that reaches a tracepoint.

use std::time::Instant;

use tracewire_model::{Address, OLD_VALUE, StopReason, ThreadId};

use crate::collect::{Collected, Moment};
use crate::error::HitError;
use crate::experiment::Experiment;
use crate::maker::{ConditionContext, Incomplete};
use crate::options::Unreadable;
use crate::pads::BudgetLook;
use crate::run_end::RunEnd;
use crate::store::{FrameStore, StoreError};
use crate::target::{Hit, HitHandler, LookAround, Outcome, StoppedThread};
use crate::watches::extended;

/// The result of one tracepoint at a hit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Disabled, or its condition is false.
    Nothing,
    /// A frame was made.
    Frame,
    /// The thread or the program has ended; nothing could be collected.
    Gone,
    /// The run has ended.
    Ended,
}

impl Reached {
    /// Whether no other tracepoint can be reached at this hit.
    pub(crate) const fn is_end(self) -> bool {
        matches!(self, Self::Gone | Self::Ended)
    }
}

impl<S: FrameStore> HitHandler for Experiment<S> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        let begun = (self.budget.budget().is_some()).then(Instant::now);
        if self.run.is_on() {
            self.begin_stop(thread.is_alone());
        }
        if self.run.is_on() {
            self.maker.begin_stop();
            match hit {
                Hit::Tracepoint(address) => self.reach_address(address, thread),
                Hit::Step(address) => self.step(address, thread),
                Hit::Write { address, length } => self.reach_write(address, length, thread),
            }
        }
        self.end_stop();
        if let Some(begun) = begun {
            let address = match hit {
                Hit::Tracepoint(address) | Hit::Write { address, .. } => Some(address),
                Hit::Step(_) => None,
            };
            self.account().charge_stop(address, begun);
        }
        Outcome {
            step: self.stepping.is_stepping(thread.id()),
            run_ended: !self.run.is_on(),
        }
    }

    fn look_around(&mut self) -> LookAround {
        let filled = self.attend();
        if !self.run.is_on() {
            return LookAround::Ended;
        }
        match self.account().look() {
            BudgetLook::Kept { used } => LookAround::GoesOn {
                filled: filled.max(used),
            },
            BudgetLook::Change => LookAround::Change,
        }
    }

    fn looks_around(&self) -> bool {
        self.run.is_on() && self.budget.budget().is_some()
    }

    fn looks_now(&self) -> bool {
        self.budget.is_urgent()
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.step_no_more(thread);
    }
}

impl<S: FrameStore> Experiment<S> {
    fn reach_address(&mut self, address: Address, thread: &mut dyn StoppedThread) {
        for place in 0..self.tracepoints.indices(address).len() {
            let Some(&index) = self.tracepoints.indices(address).get(place) else {
                return;
            };
            if self.reach(index, thread).is_end() {
                return;
            }
        }
    }

    /// A thread has written to memory that is watched.
    fn reach_write(&mut self, address: Address, length: u64, thread: &mut dyn StoppedThread) {
        let (_, fetched) = self.maker.evaluation();
        while fetched.ask(address.0, length) {
            fetched.read(thread);
        }
        // Another run's.
        let Some(old) = self.watches.replace(address, length, fetched) else {
            return;
        };
        let variable = (self.variables.definitions())
            .find(|variable| !variable.builtin && variable.name == OLD_VALUE)
            .map(|variable| variable.number);
        for place in 0..self.tracepoints.indices(address).len() {
            let Some(&index) = self.tracepoints.indices(address).get(place) else {
                return;
            };
            let watched = (self.tracepoints.get(index))
                .and_then(|tracepoint| tracepoint.watched.as_ref())
                .filter(|watched| watched.length == length);
            let Some(watched) = watched else {
                continue;
            };
            if let Some(number) = variable.and_then(|number| u16::try_from(number.0).ok())
                && watched.has_old_value()
            {
                let order = self.options.format.byte_order;
                self.variables.set(number, extended(&old, watched, order));
            }
            if self.reach(index, thread).is_end() {
                return;
            }
        }
    }

    /// Handles one tracepoint that a thread has reached.
    fn reach(&mut self, index: usize, thread: &mut dyn StoppedThread) -> Reached {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return Reached::Nothing;
        };
        if !tracepoint.definition().enabled || self.awaits_last_steps(index) {
            return Reached::Nothing;
        }
        if let Some(condition) = &tracepoint.plan.condition {
            let (evaluation, fetched) = self.maker.evaluation();
            let mut context = ConditionContext {
                moment: Moment {
                    thread,
                    variables: &mut self.variables,
                },
                fetched,
            };
            match evaluation.evaluate(condition.code(), &mut context) {
                Ok(Some(0) | None) => return Reached::Nothing,
                Ok(Some(_)) => {}
                Err(error) => return self.fail(index, HitError::Condition(error), thread),
            }
        }
        let makes_frames = tracepoint.definition().makes_frames();
        // A pick comes before the frame, and other aggregates count a hit that has one.
        let picks = tracepoint.plan.counting.as_ref().map(|plan| plan.picks);
        let is_picked = picks != Some(true) || self.count(index, thread);
        let is_kept = makes_frames && is_picked && self.admits(index, thread);
        if is_kept {
            let reached = self.make_frame(index, None, thread);
            if reached != Reached::Frame {
                return reached;
            }
        } else if !self.count_pass(index) {
            return Reached::Nothing;
        }
        if picks == Some(false) {
            self.count(index, thread);
        }
        let Some(tracepoint) = self.tracepoints.get_mut(index) else {
            return Reached::Nothing;
        };
        if makes_frames && !is_kept {
            tracepoint.count_skipped(1);
        }
        let definition = tracepoint.definition();
        if is_kept && definition.step_count > 0 {
            let key = (definition.number, definition.address);
            self.stepping.begin(thread.id(), key, definition.step_count);
        }
        self.check_pass_count(index, thread)
    }

    /// Adds a hit to the tracepoint's aggregates, and returns whether it is picked.
    fn count(&mut self, index: usize, thread: &mut dyn StoppedThread) -> bool {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return true;
        };
        let (pads, maker) = (self.pads.get_mut(), &mut self.maker);
        (self.counts).count(tracepoint, pads, maker, &mut self.variables, thread)
    }

    /// Whether a tracepoint has reached its pass count, and the run ends when the steps of its last hits are made: other threads'
    /// hits meanwhile do not count.
    fn awaits_last_steps(&self, index: usize) -> bool {
        self.tracepoints.get(index).is_some_and(|tracepoint| {
            let definition = tracepoint.definition();
            definition.step_count > 0
                && self.has_met_pass_count(index)
                && self.stepping.follows(definition.key())
        })
    }

    /// A thread has ended before its steps were made: they may have been the last ones that a pass count waited for.
    fn step_no_more(&mut self, thread: ThreadId) {
        let keys = self.stepping.of_thread(thread);
        self.stepping.forget_thread(thread);
        for key in keys {
            let met = self
                .tracepoints
                .index(key)
                .filter(|index| self.has_met_pass_count(*index));
            if met.is_some() && self.run.is_on() && !self.stepping.follows(key) {
                let reached = self.stepping.pass_count_reached();
                self.end(RunEnd::new(StopReason::PassCount, Some(key.0)), reached);
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
            let Some(index) = self.tracepoints.index(key) else {
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
        let Some(key) = self.tracepoints.get(index).map(|it| it.definition().key()) else {
            return Reached::Nothing;
        };
        if !self.has_met_pass_count(index) {
            return Reached::Frame;
        }
        let now = self.time_of(thread);
        if self.stepping.follows(key) {
            self.stepping.note_pass_count(now);
            return Reached::Frame;
        }
        self.end(RunEnd::new(StopReason::PassCount, Some(key.0)), now);
        Reached::Ended
    }

    fn has_met_pass_count(&self, index: usize) -> bool {
        let limit = self
            .tracepoints
            .get(index)
            .map_or(0, |tracepoint| tracepoint.definition().pass_count);
        limit > 0 && self.passes(index) >= limit
    }

    /// Ends the run with an error, unless the error is that the thread has ended.
    fn fail(&mut self, index: usize, error: HitError, thread: &mut dyn StoppedThread) -> Reached {
        if thread.register_block().is_err() {
            return Reached::Gone;
        }
        if let Some(tracepoint) = self.tracepoints.get(index) {
            let number = tracepoint.definition().number;
            let end = RunEnd {
                reason: StopReason::Error,
                text: Some(error.to_string()),
                tracepoint: Some(number),
            };
            self.end(end, self.time_of(thread));
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
        // A thread that was killed while it was stopped has no memory and no registers.
        if (error.is_some() || missing.count > 0) && thread.register_block().is_err() {
            return Reached::Gone;
        }
        if step.is_none() && !self.count_pass(index) {
            return Reached::Nothing;
        }
        if self.maker.has_registers() {
            self.known_registers.note(self.run.created(), thread);
        }
        let Some(tracepoint) = self.tracepoints.get_mut(index) else {
            return Reached::Nothing;
        };
        if self.pads.get().is_some() {
            let key = tracepoint.definition().key();
            self.keep_in_order(key, step.is_some());
            if !self.run.is_on() {
                return Reached::Ended;
            }
        } else {
            match self.store.append(self.maker.frame()) {
                Ok(()) => {}
                Err(
                    error @ (StoreError::Full
                    | StoreError::Enough(_)
                    | StoreError::Triggered { .. }),
                ) => {
                    self.end(error.run_end(), thread.timestamp());
                    return Reached::Ended;
                }
                Err(error) => return self.fail(index, error.into(), thread),
            }
            self.run.note_frame();
            tracepoint.count_frame(self.maker.frame(), step.is_some());
        }
        if let Some(tracepoint) = self.tracepoints.get_mut(index) {
            tracepoint.count_missing(missing);
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
        let number = tracepoint.definition().number;
        let led_back = step.is_some_and(|at| {
            let mut there = self.tracepoints.at(at);
            there.any(|there| there.definition().number == number)
        });
        let mut moment = Moment {
            thread,
            variables: &mut self.variables,
        };
        self.maker
            .make(number, actions, led_back, &self.options, &mut moment)
    }
}
