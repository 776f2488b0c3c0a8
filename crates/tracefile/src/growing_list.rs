//! The frames of a file that a recorder writes, as a list has them: a span once, when it has ended.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tracewire_model::FrameNumber;

use crate::file::{OpenError, TraceFile};
use crate::follow::{Batch, GrowingFile};
use crate::span::{GrowingSpans, Span};

/// How long nothing comes before what waits for more does not wait any longer.
const IDLE: Duration = Duration::from_secs(1);

/// The frames of a growing file, and its spans when they have ended.
#[derive(Debug)]
pub struct GrowingList {
    growing: GrowingFile,
    spans: GrowingSpans,
    /// Where the frames are in the file that spans need which have not ended.
    places: HashMap<FrameNumber, Place>,
    /// When the last batch was read.
    latest: Instant,
}

/// Where a frame is in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    length: usize,
}

/// What has come to a list since the batch before.
#[derive(Debug)]
pub struct ListBatch {
    /// The description, and the frames that these lines of the list have: of a span its entry and its return, and those of the span around
    /// it. Its [spans](TraceFile::spans) are those that have ended, and those around them.
    pub file: TraceFile,
    /// The number that each frame has in the growing file.
    pub numbers: Vec<FrameNumber>,
    /// The frames that represent the lines of the list, by their numbers in `file`, in the order in which they were complete.
    pub listed: Vec<FrameNumber>,
}

impl GrowingList {
    /// Of a file, before its first batch was read.
    #[must_use]
    pub fn new(growing: GrowingFile) -> Self {
        Self {
            growing,
            spans: GrowingSpans::default(),
            places: HashMap::new(),
            latest: Instant::now(),
        }
    }

    /// Whether the recorder still writes. What came before it ended is in the batches that are read once this has said no, and in that of
    /// [`Self::finish`].
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn is_written(&self) -> Result<bool, OpenError> {
        self.growing.is_written()
    }

    /// What has come since the last batch, of about 1 MiB of frames at most; `None` where no frame has come.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn batch(&mut self) -> Result<Option<ListBatch>, OpenError> {
        let Some(batch) = self.growing.batch()? else {
            if !self.spans.is_waiting() || self.latest.elapsed() < IDLE {
                return Ok(None);
            }
            self.spans.settle();
            let ended = self.spans.take_ended();
            return self.list(Vec::new(), &ended, None).map(Some);
        };
        self.latest = Instant::now();
        self.spans.describe(batch.file.description());
        if self.spans.is_empty() {
            let frames = batch.file.frame_count();
            let number = |frame| FrameNumber(batch.first.0 + frame);
            return Ok(Some(ListBatch {
                numbers: (0..frames).map(number).collect(),
                listed: (0..frames).map(FrameNumber).collect(),
                file: batch.file,
            }));
        }
        let mut others = Vec::new();
        let mut offset = batch.offset;
        for frame in batch.file.frames() {
            let number = FrameNumber(batch.first.0 + frame.number().0);
            let length = frame.bytes().len();
            self.places.insert(number, Place { offset, length });
            if !self.spans.note(&frame, number) {
                others.push(number);
            }
            offset += length as u64;
        }
        let ended = self.spans.take_ended();
        let list = self.list(others, &ended, Some(&batch))?;
        let needed = self.spans.needed();
        self.places.retain(|number, _| needed.contains(number));
        Ok(Some(list))
    }

    /// The spans that have not ended, when all batches were read and the recorder does not write any more; `None` where there are none.
    ///
    /// # Errors
    /// As [`Self::batch`].
    pub fn finish(&mut self) -> Result<Option<ListBatch>, OpenError> {
        self.growing.read_description()?;
        let spans = self.spans.finish(self.growing.description());
        if spans.is_empty() {
            return Ok(None);
        }
        self.list(Vec::new(), &spans, None).map(Some)
    }

    /// A list of frames that are in no span, and of spans. Frames of the batch are not read again.
    fn list(
        &self,
        others: Vec<FrameNumber>,
        spans: &[Span],
        batch: Option<&Batch>,
    ) -> Result<ListBatch, OpenError> {
        let around = spans.iter().filter_map(|span| self.spans.around(span));
        let all: BTreeMap<FrameNumber, Span> = around
            .chain(spans.iter().copied())
            .map(|span| (span.entry, span))
            .collect();
        let of_spans = all.values();
        let of_spans = of_spans.flat_map(|span| [Some(span.entry), span.exit]);
        let mut numbers: Vec<FrameNumber> = of_spans.flatten().chain(others.clone()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut bytes = Vec::new();
        // The numbers of the frames that are there.
        let mut known = Vec::with_capacity(numbers.len());
        for number in numbers {
            let in_batch = batch.and_then(|batch| {
                let number = number.0.checked_sub(batch.first.0)?;
                batch.file.frame(FrameNumber(number))
            });
            match (in_batch, self.places.get(&number)) {
                (Some(frame), _) => bytes.extend_from_slice(frame.bytes()),
                (None, Some(place)) => {
                    bytes.extend(self.growing.read_frame(place.offset, place.length)?);
                }
                (None, None) => {
                    debug_assert!(false, "what spans need has a place");
                    continue;
                }
            }
            known.push(number);
        }
        let mut lines: Vec<(FrameNumber, FrameNumber)> =
            others.into_iter().map(|frame| (frame, frame)).collect();
        let of_spans = spans.iter();
        lines.extend(of_spans.map(|span| (span.exit.unwrap_or(span.entry), span.frame())));
        lines.sort_unstable();
        let local = |number: FrameNumber| {
            let at = known.binary_search(&number).ok()?;
            Some(FrameNumber(at as u64))
        };
        let listed = lines.into_iter().filter_map(|(_, frame)| local(frame));
        let listed = listed.collect();
        let description = self.growing.description();
        let file = TraceFile::in_memory(description, &[&bytes])?
            .with_spans(self.spans.among(all.into_values(), &known));
        Ok(ListBatch {
            file,
            numbers: known,
            listed,
        })
    }
}
