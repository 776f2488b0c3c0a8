//! What ends a run that keeps what led to it: a hit of a tracepoint, and so many frames more.
//!
//! Frames come in the order of their hits, those of all threads as one. So what is kept after the hit is exact.

use std::collections::BTreeSet;

use tracewire_experiment::StoreError;
use tracewire_model::{ByteOrder, TracepointNumber};
use tracewire_script::Script;

use crate::stop::{Stop, StopHandle};

/// Ends a run so many frames after the first hit of a tracepoint. Each process of a run has its own.
#[derive(Clone, Debug)]
pub struct Trigger {
    tracepoints: BTreeSet<TracepointNumber>,
    after: u64,
    stop: StopHandle,
    hit: Option<Hit>,
}

/// A trigger was hit.
#[derive(Clone, Copy, Debug)]
struct Hit {
    tracepoint: TracepointNumber,
    /// How many frames are to come.
    left: u64,
}

impl Trigger {
    pub fn new(tracepoints: BTreeSet<TracepointNumber>, after: u64, stop: StopHandle) -> Self {
        Self {
            tracepoints,
            after,
            stop,
            hit: None,
        }
    }

    /// The tracepoints whose hits end the run.
    pub const fn tracepoints(&self) -> &BTreeSet<TracepointNumber> {
        &self.tracepoints
    }

    /// Why no more frames are kept, if none are.
    pub fn end(&self) -> Option<StoreError> {
        let hit = self.hit.filter(|hit| hit.left == 0)?;
        Some(StoreError::Triggered {
            tracepoint: hit.tracepoint,
            after: self.after,
        })
    }

    /// A frame was kept. The last one ends the run.
    pub fn saw(&mut self, frame: &[u8], order: ByteOrder) {
        let left = match &mut self.hit {
            Some(hit) => {
                hit.left = hit.left.saturating_sub(1);
                hit.left
            }
            None => {
                let number = order.u16_at(frame, 0).map(i32::from).map(TracepointNumber);
                let Some(tracepoint) = number.filter(|own| self.tracepoints.contains(own)) else {
                    return;
                };
                self.hit = Some(Hit {
                    tracepoint,
                    left: self.after,
                });
                self.after
            }
        };
        if left == 0
            && let Some(hit) = self.hit
        {
            self.stop.stop(Stop::Triggered {
                tracepoint: hit.tracepoint,
                after: self.after,
            });
        }
    }
}

/// A tracepoint whose hits cannot end a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TriggerError {
    /// No tracepoint has the number.
    #[error("tracepoint {0} is to end the run, and the script has none of that number")]
    Unknown(TracepointNumber),
    /// The tracepoint measures calls.
    #[error(
        "tracepoint {0} measures calls: what they have returned and how long they took is known when the file is shown; \
         name a place that is reached where the run is to end"
    )]
    Span(TracepointNumber),
    /// The tracepoint only counts.
    #[error("tracepoint {0} only counts, and makes no frame that could end the run")]
    OnlyCounts(TracepointNumber),
}

/// Looks whether hits of these tracepoints of a script can end the run.
pub fn check_trigger(trigger: Option<&Trigger>, script: &Script) -> Result<(), TriggerError> {
    let Some(trigger) = trigger else {
        return Ok(());
    };
    for number in trigger.tracepoints() {
        let mut all = script.tracepoints.iter();
        match all.find(|tracepoint| tracepoint.number == *number) {
            None => return Err(TriggerError::Unknown(*number)),
            Some(own) if own.span.is_some() => return Err(TriggerError::Span(*number)),
            Some(own) if own.only_counts() => return Err(TriggerError::OnlyCounts(*number)),
            Some(_) => {}
        }
    }
    Ok(())
}
