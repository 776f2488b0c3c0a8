//! The frames of stopped threads among those of pads.
//!
//! A thread that stops at a trap has made all its frames of pads before, and makes the next ones after. Other threads run on
//! meanwhile, and a frame that one of them made before the stop may not be whole yet. So the stop's frames get the time
//! of the stop by the counter of the pads, and come into the buffer by way of the same reader: where the thread is alone
//! that is at once, and otherwise when nothing earlier can come any more. All that is decided at the stop itself (pass
//! counts, steps, variables) does not wait.
//!
//! The steps of a `while-stepping` are stops like any other: in its own thread they follow their hit with nothing in
//! between but hits on the way, and frames of other threads stand between them where the clock has them.

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::{TimedFrame, Writers, counter};

use crate::experiment::Experiment;
use crate::mechanism::Served;
use crate::store::FrameStore;
use crate::target::StoppedThread;

impl<S: FrameStore> Experiment<S> {
    /// A thread has stopped: takes the time, and what pads have made before.
    pub(crate) fn begin_stop(&mut self, alone: bool) {
        let Some(pads) = &mut self.pads else { return };
        let stopped = counter();
        fail_point!("stop/begun");
        pads.stopped = Some(stopped);
        let writers = if alone {
            Writers::Stopped
        } else {
            Writers::Running
        };
        self.take_frames(writers);
        if let Some(pads) = &self.pads {
            self.variables.pad_time = Some(pads.memory.shared.microseconds(stopped));
        }
        self.notice_stop();
    }

    /// The thread goes on.
    pub(crate) fn end_stop(&mut self) {
        self.variables.pad_time = None;
        fail_point!("stop/ended");
        if let Some(pads) = &mut self.pads {
            pads.stopped = None;
        }
    }

    /// When a thread has stopped that stands there, by the clock of all frames.
    pub(crate) fn time_of(&self, thread: &dyn StoppedThread) -> u64 {
        self.variables
            .pad_time
            .unwrap_or_else(|| thread.timestamp())
    }

    /// Keeps the frame that was made, of a hit or of a step, behind all frames that were made before.
    pub(crate) fn keep_in_order(&mut self, index: usize, step: bool) {
        let Some(pads) = &mut self.pads else { return };
        let Some(tracepoint) = self.tracepoints.get(index) else {
            return;
        };
        let frame = TimedFrame {
            tracepoint: pads.block(tracepoint.definition.key()),
            time: pads.stopped.unwrap_or_else(counter),
            step,
            stamp: self.frame_stamp,
            bytes: &self.frame,
        };
        pads.reader.insert(&pads.memory.shared, frame);
        fail_point!("stop/held");
        self.release_frames();
    }

    /// Counts a hit of a thread that stopped for the pass count; `false` where that was met before, by a pad.
    pub(crate) fn count_pass(&mut self, index: usize) -> bool {
        let block = self.pad_block(index);
        let Some(tracepoint) = self.tracepoints.get_mut(index) else {
            return false;
        };
        let limit = tracepoint.definition.pass_count;
        if limit == 0 {
            return true;
        }
        // A thread that is stepped stops at a place where others go through the pad: one count for both.
        let before = block.and_then(|block| {
            let pads = self.pads.as_ref()?;
            pads.memory.shared.count_pass(block)
        });
        match before {
            Some(before) => tracepoint.passes.saturating_add(before) < limit,
            None => {
                tracepoint.passes += 1;
                true
            }
        }
    }

    /// How many hits have counted for the pass count.
    pub(crate) fn passes(&self, index: usize) -> u64 {
        let in_pad = self
            .pad_block(index)
            .zip(self.pads.as_ref())
            .map_or(0, |(block, pads)| pads.memory.shared.counts(block).passes);
        self.tracepoints
            .get(index)
            .map_or(0, |tracepoint| tracepoint.passes.saturating_add(in_pad))
    }

    /// The block of a tracepoint that a pad serves.
    fn pad_block(&self, index: usize) -> Option<u32> {
        let key = self.tracepoints.get(index)?.definition.key();
        if !matches!(self.served.get(&key.1), Some(Served::Jump(_))) {
            return None;
        }
        self.pads.as_ref()?.known_block(key)
    }
}
