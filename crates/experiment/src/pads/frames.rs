//! The frames of pads: moved into the buffer, or counted if they could not be kept.

use tracewire_fail_point::fail_point;
use tracewire_model::ByteOrder;

use super::{FrameSink, Losses, Pads, Writers};
use crate::experiment::Experiment;
use crate::run::Run;
use crate::stepping::TracepointKey;
use crate::store::{FrameStore, StoreError};
use crate::tracepoints::Tracepoints;

/// How many bytes a time has.
const TIME: usize = size_of::<u64>();

/// The buffer, for the frames of pads.
struct Buffer<'e, S> {
    store: &'e mut S,
    tracepoints: &'e mut Tracepoints,
    run: &'e mut Run,
    order: ByteOrder,
    /// The tracepoint of the frame before, and its place: most frames are of the same one.
    latest: Option<(TracepointKey, usize)>,
    failure: Option<StoreError>,
}

impl<S> Buffer<'_, S> {
    /// The place of a tracepoint. None comes or goes while frames are taken.
    fn place(&mut self, key: TracepointKey) -> Option<usize> {
        match self.latest {
            Some((latest, place)) if latest == key => Some(place),
            _ => {
                let place = self.tracepoints.index(key)?;
                self.latest = Some((key, place));
                Some(place)
            }
        }
    }
}

impl<S: FrameStore> FrameSink for Buffer<'_, S> {
    fn file_end(&self) -> Option<u64> {
        self.store.file_end()
    }

    fn keep(
        &mut self,
        tracepoint: Option<TracepointKey>,
        step: bool,
        stamp: Option<usize>,
        frame: &[u8],
    ) -> bool {
        if let Err(error) = self.store.append(frame) {
            self.failure.get_or_insert(error);
            return false;
        }
        if self.run.created() == 0
            && let Some(bytes) = stamp.and_then(|at| frame.get(at..at + TIME))
            && let Some(first) = self.order.unsigned(bytes)
        {
            self.run.continued_not_after(first);
        }
        self.run.note_frame();
        let place = tracepoint.and_then(|key| self.place(key));
        if let Some(tracepoint) = place.and_then(|place| self.tracepoints.get_mut(place)) {
            tracepoint.count_frame(frame, step);
        }
        true
    }
}

impl<S: FrameStore> Experiment<S> {
    /// The frames of this run that pads could not keep.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.pads.losses()
    }

    /// Moves the collected frames of pads into the buffer, and notices when a pad has ended the run. Returns the used part of a
    /// ring; 1 is all of it.
    pub fn look(&mut self) -> f64 {
        self.look_while(Writers::Running)
    }

    /// As [`look`](Self::look), while no thread of the program runs: the newest frames need not wait for others.
    pub fn look_at_rest(&mut self) {
        self.look_while(Writers::Stopped);
    }

    fn look_while(&mut self, writers: Writers) -> f64 {
        let filled = self.take_frames(writers);
        self.take_counts();
        self.notice_end();
        filled
    }

    /// As [`look`](Self::look), periodically while the program runs, when no reader waits for the frames.
    pub(crate) fn attend(&mut self) -> f64 {
        let Some(pads) = self.pads.get_mut() else {
            return 0.0;
        };
        if !pads.may_wait() {
            return self.look();
        }
        self.notice_end();
        0.0
    }

    /// Ends the run if a pad has ended it.
    pub(super) fn notice_end(&mut self) {
        if !self.run.is_on() {
            return;
        }
        let Some(end) = self.pads.get().and_then(|pads| pads.ended()) else {
            return;
        };
        // Frames that were made before the reported end.
        self.take_frames(Writers::Running);
        if let Some(pads) = self.pads.get_mut() {
            let now = pads.now();
            pads.accept_end();
            self.end(end, now);
        }
    }

    /// Takes frames from the pads. Returns the used part of a ring.
    pub(super) fn take_frames(&mut self, writers: Writers) -> f64 {
        self.take(|pads, buffer| pads.take(writers, buffer))
    }

    /// Takes the already seen frames that no earlier one can precede any more.
    pub(super) fn release_frames(&mut self) {
        self.take(|pads, buffer| {
            pads.take_released(buffer);
            0.0
        });
    }

    fn take(&mut self, take: impl FnOnce(&mut dyn Pads, &mut dyn FrameSink) -> f64) -> f64 {
        let Some(pads) = self.pads.get_mut() else {
            return 0.0;
        };
        fail_point!("frames/take");
        let mut buffer = Buffer {
            store: &mut self.store,
            tracepoints: &mut self.tracepoints,
            run: &mut self.run,
            order: self.options.format.byte_order,
            latest: None,
            failure: None,
        };
        let filled = take(pads, &mut buffer);
        if let Some(error) = buffer.failure {
            let now = pads.now();
            self.end_for_want_of_room(&error, now);
        }
        filled
    }

    /// A frame was not kept. It may come out only after a later event has ended the run; this was before it.
    fn end_for_want_of_room(&mut self, error: &StoreError, now: u64) {
        let end = error.run_end();
        if self.run.is_on() {
            self.end(end, now);
        } else {
            self.run.set_end(end);
        }
    }

    /// Reads the pads' counts of events without a frame.
    fn take_counts(&mut self) {
        let Some(pads) = self.pads.get_mut() else {
            return;
        };
        pads.report_counts(&mut |key, update| {
            if let Some(tracepoint) = self.tracepoints.by_key_mut(key) {
                tracepoint.count_in_pad(update);
            }
        });
    }

    /// No pad runs any more: takes the last frames, and the values of variables.
    pub(super) fn give_pads_up(&mut self) {
        self.take_frames(Writers::Gone);
        self.take_counts();
        fail_point!("pads/last-frames");
        if let Some(pads) = self.pads.get() {
            // A pad may have seen the clock after it was set forward, for a frame of before.
            self.run.stopped_not_before(pads.last_time());
            self.counts.take(pads);
        }
        self.variables.unshare();
        self.pads.fold_all_counts(&mut self.tracepoints);
        self.pads.give_up();
    }
}
