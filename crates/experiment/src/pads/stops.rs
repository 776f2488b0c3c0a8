//! The frames of stopped threads, in order with those of pads.
//!
//! A thread that stops at a trap has made all its earlier frames of pads before, and makes the later ones after. Other threads
//! run on meanwhile, and a frame that one of them began before the stop may not be finished. So the stop's frames get the time of
//! the stop by the clock of the pads, and come into the buffer through the same reader. If the thread is the only one, that is at
//! once; otherwise it is when nothing earlier can come any more. Decisions at the stop itself (pass counts, steps, variables) do
//! not wait.
//!
//! The steps of a `while-stepping` are stops like any other. In their own thread only hits on the way come between a hit and its
//! steps; frames of other threads are between them in the order of the clock.

use tracewire_fail_point::fail_point;

use super::Writers;
use crate::experiment::Experiment;
use crate::stepping::TracepointKey;
use crate::store::FrameStore;
use crate::target::StoppedThread;

impl<S: FrameStore> Experiment<S> {
    /// A thread has stopped: reads the time, and the earlier frames of pads.
    pub(crate) fn begin_stop(&mut self, alone: bool) {
        let Some(pads) = self.pads.get_mut() else {
            return;
        };
        pads.begin_stop();
        let writers = if alone {
            Writers::Stopped
        } else {
            Writers::Running
        };
        self.take_frames(writers);
        if let Some(pads) = self.pads.get() {
            self.variables.pad_time = pads.stop_time();
        }
        self.notice_end();
    }

    /// The thread is resumed.
    pub(crate) fn end_stop(&mut self) {
        self.variables.pad_time = None;
        fail_point!("stop/ended");
        if let Some(pads) = self.pads.get_mut() {
            pads.end_stop();
        }
    }

    /// When the stopped thread has stopped, by the clock of all frames.
    pub(crate) fn time_of(&self, thread: &dyn StoppedThread) -> u64 {
        self.variables
            .pad_time
            .map_or_else(|| thread.timestamp(), |(time, _)| time)
    }

    /// Keeps the frame that was made, of a hit or of a step, after all frames that were made before.
    pub(crate) fn keep_in_order(&mut self, key: TracepointKey, step: bool) {
        if let Some(pads) = self.pads.get_mut() {
            pads.insert(key, step, self.maker.stamp(), self.maker.frame());
            fail_point!("stop/held");
            self.release_frames();
        }
    }

    /// Counts a hit of a stopped thread for the pass count; `false` if a pad reached the pass count before.
    pub(crate) fn count_pass(&mut self, index: usize) -> bool {
        let Some(tracepoint) = self.tracepoints.get_mut(index) else {
            return false;
        };
        let definition = tracepoint.definition();
        let limit = definition.pass_count;
        if limit == 0 {
            return true;
        }
        let key = definition.key();
        // A stepped thread stops at a place where others run the pad: there is one count for both.
        let pads = self.pads.get_mut();
        let before = pads
            .filter(|_| self.installed.is_jump(key.1))
            .and_then(|pads| pads.count_pass(key));
        match before {
            Some(before) => tracepoint.passes.saturating_add(before) < limit,
            None => {
                tracepoint.passes += 1;
                true
            }
        }
    }

    /// Whether a hit of a thread that stopped may make a frame, as far as the rate of the tracepoint and the budget go.
    pub(crate) fn admits(&mut self, index: usize, thread: &dyn StoppedThread) -> bool {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return true;
        };
        let key = tracepoint.definition().key();
        if self.account().is_behind() {
            return false;
        }
        let Some(rate) = self.rates.of(key.0) else {
            return true;
        };
        let by_pads = self.pads.get_mut();
        by_pads
            .and_then(|pads| pads.admit(key, rate))
            .unwrap_or_else(|| self.due.admit(key.0, rate, thread.timestamp()))
    }

    /// How many hits have counted for the pass count.
    pub(crate) fn passes(&self, index: usize) -> u64 {
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return 0;
        };
        let key = tracepoint.definition().key();
        let pads = self.pads.get().filter(|_| self.installed.is_jump(key.1));
        let in_pad = pads.map_or(0, |pads| pads.passes(key));
        tracepoint.passes.saturating_add(in_pad)
    }
}
