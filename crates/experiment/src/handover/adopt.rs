//! The state of a run out of the experiment that makes it, and into the one that keeps it.

use tracewire_model::{ByteOrder, StatusFields, StopReason, VariableNumber};

use super::progress::{LocationCounts, Progress};
use crate::experiment::Experiment;
use crate::run_end::RunEnd;
use crate::store::{FrameStore, StoreError};

/// Tracepoint number and size, before a frame's blocks.
const FRAME_HEADER: usize = 6;

/// What has come of taking over a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adopted {
    /// New frames are behind the earlier ones, if there are any.
    Continued,
    /// Frames were overwritten before they came here: the buffer has been emptied for those that follow them.
    Restarted,
}

/// Why a state cannot be taken over. The frames before the fault are kept.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// No run is on.
    #[error("no run is on")]
    NotRunning,
    /// The bytes are not frames, or not as many as the state says.
    #[error("the frames of the run cannot be read")]
    Frames,
    /// A frame could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: FrameStore> Experiment<S> {
    /// The state of the run, for the experiment that keeps it.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let counts = self.tracepoints.iter().map(|one| LocationCounts {
            key: one.definition().key(),
            usage: one.usage(),
            missing: one.missing(),
        });
        let variables = self.variables.definitions().filter_map(|variable| {
            let value = self.variables.stored(variable.number)?;
            Some((variable.number, value))
        });
        Progress {
            status: self.status(),
            counts: counts.collect(),
            variables: variables.collect(),
            known_registers: self.known_registers.all().to_vec(),
        }
    }

    /// Takes over the state of a run that is carried out elsewhere: it is this experiment's run, which is on, with the same
    /// definitions and buffer. `frames` are the last of those that the state counts, in the form of a buffer.
    ///
    /// # Errors
    /// When it is not such a state, or this buffer does not take a frame.
    pub fn adopt(&mut self, progress: &Progress, frames: &[u8]) -> Result<Adopted, AdoptError> {
        if !self.run.is_on() {
            return Err(AdoptError::NotRunning);
        }
        let order = self.options.format.byte_order;
        let count = Frames {
            rest: frames,
            order,
        }
        .try_fold(0, |count, frame| frame.map(|_| count + 1))
        .ok_or(AdoptError::Frames)?;
        let created = progress.status.frames_created.unwrap_or(0);
        let first = created.checked_sub(count).ok_or(AdoptError::Frames)?;
        let mut adopted = Adopted::Continued;
        if first < self.run.created() {
            return Err(AdoptError::Frames);
        }
        if first > self.run.created() {
            self.store.clear()?;
            adopted = Adopted::Restarted;
        }
        for frame in (Frames {
            rest: frames,
            order,
        })
        .flatten()
        {
            self.store.append(frame)?;
        }
        self.run.adopt_frames(created);
        for counts in &progress.counts {
            if let Some(tracepoint) = self.tracepoints.by_key_mut(counts.key) {
                tracepoint.adopt_counts(counts.usage, counts.missing);
            }
        }
        for (VariableNumber(number), value) in &progress.variables {
            if let Ok(number) = u16::try_from(*number) {
                self.variables.set(number, *value);
            }
        }
        self.known_registers.adopt(&progress.known_registers);
        if !progress.status.running {
            self.end_as(&progress.status);
        }
        Ok(adopted)
    }

    fn end_as(&mut self, status: &StatusFields) {
        let end = RunEnd {
            reason: status.stop_reason.unwrap_or(StopReason::Unknown),
            text: status.stop_text.clone(),
            tracepoint: status.stopping_tracepoint,
        };
        self.end(end, status.stop_time.unwrap_or(0));
    }
}

/// The frames of a buffer's bytes; the item is none at bytes that are not a frame, after which there is none.
struct Frames<'b> {
    rest: &'b [u8],
    order: ByteOrder,
}

impl<'b> Iterator for Frames<'b> {
    type Item = Option<&'b [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.rest);
        let frame = length_of(bytes, self.order).and_then(|length| bytes.split_at_checked(length));
        Some(frame.map(|(frame, rest)| {
            self.rest = rest;
            frame
        }))
    }
}

/// How many bytes the frame at the beginning has.
fn length_of(bytes: &[u8], order: ByteOrder) -> Option<usize> {
    let [_, _, size @ ..] = *bytes.first_chunk::<FRAME_HEADER>()?;
    let size = match order {
        ByteOrder::Little => u32::from_le_bytes(size),
        ByteOrder::Big => u32::from_be_bytes(size),
    };
    usize::try_from(size).ok()?.checked_add(FRAME_HEADER)
}
