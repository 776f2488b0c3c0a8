//! The frames that pads have made: taken from the rings into the buffer, counted where they could not be kept.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::{
    Drained, PadCounts, PadStop, RingReader, Shared, TimedFrame, WhenFull, Writers, counter,
};
use tracewire_model::{Address, StopReason};

use super::Pads;
use crate::experiment::Experiment;
use crate::pieces::Missing;
use crate::store::{FrameStore, StoreError};

/// Frames that pads began, or would have made, and that are in no buffer, by what they were lost for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// The program made them faster than they were read, and the ring of its cpu was full.
    pub ring_full: u64,
    /// The ring drops its oldest frames, and came to them before their threads had finished them.
    pub ring_held: u64,
    /// They were longer than pads make them.
    pub too_long: u64,
    /// The thread had no stack left for a pad.
    pub without_stack: u64,
    /// They were begun and never finished.
    pub torn: u64,
}

impl Losses {
    /// How many that are in all.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.ring_full + self.ring_held + self.too_long + self.without_stack + self.torn
    }

    const fn and(self, other: &Self) -> Self {
        Self {
            ring_full: self.ring_full + other.ring_full,
            ring_held: self.ring_held + other.ring_held,
            too_long: self.too_long + other.too_long,
            without_stack: self.without_stack + other.without_stack,
            torn: self.torn + other.torn,
        }
    }
}

impl Pads {
    fn losses(&self) -> Losses {
        let shared = &self.memory.shared;
        let in_rings = shared.losses();
        let (ring_full, ring_held) = match shared.layout().sizes().when_full {
            WhenFull::Overwrite => (0, in_rings.lost),
            WhenFull::Stop | WhenFull::Wait => (in_rings.lost, 0),
        };
        Losses {
            ring_full,
            ring_held,
            too_long: in_rings.too_long,
            without_stack: self.memory.news.without_stack.load(Ordering::Relaxed),
            torn: self.torn,
        }
    }
}

/// How long rings that drop their oldest frames may be left alone: taking frames that others would soon replace costs
/// the program the cpu, and only a thread that died inside a pad needs it before the end.
const LEFT_ALONE: Duration = Duration::from_secs(1);
impl<S: FrameStore> Experiment<S> {
    /// The frames of this run that pads could not keep.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.pads.as_ref().map_or(self.past_losses, |pads| {
            self.past_losses.and(&pads.losses())
        })
    }

    /// How many frames pads gave up for newer ones.
    pub(crate) fn dropped(&self) -> u64 {
        let now = self
            .pads
            .as_ref()
            .map_or(0, |pads| pads.memory.shared.losses().dropped);
        self.past_dropped + now
    }

    /// Takes what pads have collected into the buffer, and notices when a pad has ended the run. Gives how much of a
    /// ring that has taken.
    pub fn look(&mut self) -> f64 {
        self.look_while(Writers::Running)
    }

    /// As [`look`](Self::look), where no thread of the program runs: what was made last need not wait for anything.
    pub fn look_at_rest(&mut self) {
        self.look_while(Writers::Stopped);
    }

    fn look_while(&mut self, writers: Writers) -> f64 {
        let bytes = self.take_frames(writers);
        self.take_counts();
        let Some(pads) = &self.pads else { return 0.0 };
        let filled = bytes as f64 / pads.memory.shared.layout().sizes().ring_bytes as f64;
        self.notice_stop();
        filled
    }

    /// As [`look`](Self::look), now and then while the program runs, where nobody waits for the frames.
    pub(crate) fn attend(&mut self) -> f64 {
        let Some(pads) = &self.pads else { return 0.0 };
        let shared = &pads.memory.shared;
        let overwrites = shared.layout().sizes().when_full == WhenFull::Overwrite;
        if !overwrites || pads.taken.elapsed() >= LEFT_ALONE {
            return self.look();
        }
        shared.keep_time();
        self.notice_stop();
        0.0
    }

    pub(super) fn notice_stop(&mut self) {
        let Some(pads) = &self.pads else { return };
        if !self.running {
            return;
        }
        let Some(stop) = pads.memory.shared.stopped() else {
            return;
        };
        // Whatever was made before the stop was told.
        self.take_frames(Writers::Running);
        let Some(pads) = &self.pads else { return };
        let shared = &pads.memory.shared;
        let number = |block: u32| pads.key(block).map(|(number, _)| number);
        let now = shared.microseconds(counter());
        let (reason, text, number) = match stop {
            PadStop::Full => (StopReason::Full, None, None),
            PadStop::PassCount(block) => (StopReason::PassCount, None, number(block)),
            PadStop::Error(block) => {
                let text = shared.error().and_then(|error| {
                    let (_, address) = pads.key(block)?;
                    pads.code.get(&address)?.error_text(&error)
                });
                (StopReason::Error, text, number(block))
            }
            PadStop::Told => return,
        };
        if let Some(pads) = &mut self.pads {
            // The frame that has ended the run may be later than the stop that is being looked at.
            pads.ended = Some(counter());
        }
        self.end(reason, text, number, now);
    }

    /// Takes frames from the rings. Gives how many bytes that were.
    pub(super) fn take_frames(&mut self, writers: Writers) -> u64 {
        self.take(|reader, shared, take| match writers {
            Writers::Running | Writers::Stopped => reader.drain(shared, writers, take),
            Writers::Gone => reader.finish(shared, take),
        })
    }

    /// Takes the frames that nothing can come before any more, without a look at the rings.
    pub(super) fn release_frames(&mut self) {
        self.take(|reader, shared, take| reader.release(shared, take));
    }

    /// Takes frames from the reader into the buffer, where they are counted.
    fn take(
        &mut self,
        read: impl FnOnce(&mut RingReader, &Shared, &mut dyn FnMut(TimedFrame<'_>)) -> Drained,
    ) -> u64 {
        let Some(mut pads) = self.pads.take() else {
            return 0;
        };
        let memory = Rc::clone(&pads.memory);
        let mut bytes = 0;
        fail_point!("frames/take");
        let mut failure = None;
        let mut take = |frame: TimedFrame<'_>| {
            if pads.ended.is_some_and(|ended| frame.time > ended) {
                return;
            }
            if let Some(offset) = self.store.file_end() {
                memory.shared.goes_to(offset);
                fail_point!("frames/place-said");
            }
            if let Err(error) = self.store.append(frame.bytes) {
                // What is not so long might still find room, another tracepoint's frame of the same stop among it.
                pads.ended = Some(frame.time.saturating_sub(1));
                failure.get_or_insert(error);
                return;
            }
            fail_point!("frames/appended");
            self.created += 1;
            bytes += frame.bytes.len() as u64;
            let block = usize::try_from(frame.tracepoint).ok();
            let Some(key) = block.and_then(|block| pads.blocks.get(block)) else {
                return;
            };
            let index = self.places.get(&key.1).into_iter().flatten().find(|index| {
                self.tracepoints
                    .get(**index)
                    .is_some_and(|tracepoint| tracepoint.definition.number == key.0)
            });
            if let Some(tracepoint) = index.and_then(|index| self.tracepoints.get_mut(*index)) {
                tracepoint.usage.hits += u64::from(!frame.step);
                tracepoint.usage.bytes += frame.bytes.len() as u64;
            }
        };
        let drained = read(&mut pads.reader, &memory.shared, &mut take);
        fail_point!("frames/taken");
        pads.taken = Instant::now();
        pads.torn += drained.torn;
        let without_stack = memory.news.without_stack.load(Ordering::Relaxed);
        memory.shared.tell_losses(pads.torn, without_stack);
        fail_point!("frames/losses-said");
        let now = memory.shared.microseconds(counter());
        self.pads = Some(pads);
        if let Some(error) = failure {
            self.end_for_want_of_room(&error, now);
        }
        bytes
    }

    /// A frame was not kept. It may come out only when something later has ended the run: this was before.
    fn end_for_want_of_room(&mut self, error: &StoreError, now: u64) {
        let (reason, text) = match error {
            StoreError::Full => (StopReason::Full, None),
            error => (StopReason::Error, Some(error.to_string())),
        };
        if self.running {
            self.end(reason, text, None, now);
        } else {
            self.status.stop_reason = Some(reason);
            self.status.stop_text = text;
            self.status.stopping_tracepoint = None;
        }
    }

    /// Takes over what pads have counted for which there is no frame.
    fn take_counts(&mut self) {
        let Some(mut pads) = self.pads.take() else {
            return;
        };
        let shared = &pads.memory.shared;
        pads.without_frame.resize(pads.blocks.len(), 0);
        for (block, (key, known)) in (0..).zip(pads.blocks.iter().zip(&mut pads.without_frame)) {
            let counts = shared.counts(block);
            let without_frame = counts.dropped + counts.lost;
            let more = without_frame.saturating_sub(std::mem::replace(known, without_frame));
            if counts.missing == 0 && more == 0 {
                continue;
            }
            if let Some(index) = self.index(*key)
                && let Some(tracepoint) = self.tracepoints.get_mut(index)
            {
                tracepoint.usage.hits += more;
                tracepoint.pad_missing = counts.into();
            }
        }
        self.pads = Some(pads);
    }

    /// No pad runs any more: takes the last frames, and the variables back.
    pub(crate) fn give_pads_up(&mut self) {
        self.take_frames(Writers::Gone);
        self.take_counts();
        fail_point!("pads/last-frames");
        if let (Some(pads), false) = (&self.pads, self.running) {
            // A pad may have seen the clock after it was set forward, for a frame of before.
            let last = pads.reader.last_microseconds();
            self.status.stop_time = self.status.stop_time.map(|stop| stop.max(last));
        }
        self.past_losses = self.losses();
        self.past_dropped = self.dropped();
        self.variables.unshare();
        let addresses: Vec<Address> = self.places.keys().copied().collect();
        for address in addresses {
            self.fold_counts(address);
        }
        self.pads = None;
    }
}

impl From<PadCounts> for Missing {
    fn from(counts: PadCounts) -> Self {
        Self {
            count: counts.missing,
            first: counts.first_missing,
        }
    }
}
