//! The state of a trace run.

use tracewire_model::{StatusFields, StopReason};

use crate::run_end::RunEnd;
use crate::store::FrameStore;

/// The run that is on, or the last one.
#[derive(Debug)]
pub(crate) struct Run {
    on: bool,
    /// Whether this is a later part of it, in a buffer of its own.
    is_continued: bool,
    status: StatusFields,
    /// How many frames have come into the buffer.
    created: u64,
}

impl Run {
    /// There has been none.
    pub(crate) fn new() -> Self {
        Self {
            on: false,
            is_continued: false,
            status: StatusFields {
                stop_reason: Some(StopReason::NotRun),
                ..StatusFields::default()
            },
            created: 0,
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Interrupts the run, or goes on with it. Returns whether it was on.
    pub(crate) const fn set_on(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.on, on)
    }

    /// How many frames have come into the buffer.
    pub(crate) const fn created(&self) -> u64 {
        self.created
    }

    /// A frame has come into the buffer.
    pub(crate) const fn note_frame(&mut self) {
        self.created += 1;
    }

    /// The buffer is emptied.
    pub(crate) const fn forget_frames(&mut self) {
        self.created = 0;
    }

    /// The buffer has the frames of another experiment, which created so many.
    pub(crate) const fn adopt_frames(&mut self, created: u64) {
        self.created = created;
    }

    pub(crate) fn begin(&mut self, now: u64) {
        self.is_continued = false;
        self.status.stop_reason = Some(StopReason::Unknown);
        self.status.stop_text = None;
        self.status.stopping_tracepoint = None;
        self.status.start_time = Some(now);
        self.status.stop_time = Some(0);
    }

    pub(crate) fn end(&mut self, end: RunEnd, now: u64) {
        self.on = false;
        self.set_end(end);
        // A clock may be set back, and a recorded execution may go backwards.
        let start = self.status.start_time.unwrap_or(0);
        self.status.stop_time = Some(now.max(start));
    }

    /// Replaces the reason of the end.
    pub(crate) fn set_end(&mut self, end: RunEnd) {
        self.status.stop_reason = Some(end.reason);
        self.status.stop_text = end.text;
        self.status.stopping_tracepoint = end.tracepoint;
    }

    /// There is a frame of this time in the run.
    pub(crate) fn stopped_not_before(&mut self, last: u64) {
        if !self.on {
            self.status.stop_time = self.status.stop_time.map(|stop| stop.max(last));
        }
    }

    /// The first frame in the buffer has this time. A thread can stop in a hit, after it has read the time: where the run continues in
    /// another buffer meanwhile, the frame comes into that one.
    pub(crate) fn continued_not_after(&mut self, first: u64) {
        if self.is_continued {
            self.status.start_time = self.status.start_time.map(|start| start.min(first));
        }
    }

    /// As a qTStatus reply reports it. Beside the frames in the buffer, `dropped` were created.
    pub(crate) fn status(&self, store: &impl FrameStore, dropped: u64) -> StatusFields {
        let mut status = self.status.clone();
        status.running = self.on;
        if self.on {
            status.stop_reason = None;
        }
        status.frames = Some(store.frames());
        status.frames_created = Some(self.created + dropped);
        status.buffer_size = store.size();
        status.buffer_free = store.size().map(|size| size.saturating_sub(store.used()));
        status.circular = Some(store.is_circular());
        status
    }

    /// The run continues in another buffer. Returns its state with this one. The next part begins now.
    pub(crate) fn end_part(
        &mut self,
        store: &impl FrameStore,
        dropped: u64,
        now: u64,
    ) -> StatusFields {
        let mut status = self.status(store, dropped);
        let start = status.start_time.unwrap_or(0);
        let end = now.max(start);
        status.running = false;
        status.stop_reason = Some(StopReason::Command);
        status.stop_time = Some(end);
        self.created = 0;
        self.is_continued = true;
        self.status.start_time = Some(end);
        status
    }

    pub(crate) fn describe(&mut self, describe: impl FnOnce(&mut StatusFields)) {
        describe(&mut self.status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LinearStore;

    #[test]
    fn a_later_part_does_not_begin_after_its_first_frame() {
        let store = LinearStore::new(1000).expect("memory");
        let start = |run: &Run| run.status(&store, 0).start_time;
        let mut run = Run::new();
        run.set_on(true);
        run.begin(100);
        // The first part has begun before all its frames: one of before is an error, and shows as such.
        run.continued_not_after(90);
        assert_eq!(start(&run), Some(100));
        let part = run.end_part(&store, 0, 200);
        assert_eq!((part.start_time, part.stop_time), (Some(100), Some(200)));
        assert_eq!(start(&run), Some(200));
        run.continued_not_after(250);
        assert_eq!(start(&run), Some(200));
        run.continued_not_after(190);
        assert_eq!(start(&run), Some(190));
        run.begin(300);
        assert_eq!(start(&run), Some(300));
    }
}
