//! The spans of a file that a recorder writes.

use std::collections::{BTreeMap, HashSet};

use tracewire_model::{FrameNumber, SpanStatement};

use super::matcher::{Matcher, SpanStore};
use super::{Span, SpanEnd, SpanPoints, process_ended};
use crate::description::Description;
use crate::frame::Frame;

/// How many spans that were left by what was not seen wait until the end of the run: each may return after all.
const MOST_LEFT: usize = 4096;

/// How long an exception may take from one place where it arrives to the next one, in nanoseconds. Destructors that it runs meanwhile are
/// in functions of which is not known before that it has left them.
const ARRIVES_WITHIN: u64 = 1_000_000_000;

/// The spans of a file that grows, matched as its frames come. Those that have ended are given out once, and forgotten: what this takes
/// depends on how many are open, and not on the length of the run.
///
/// They are those that [`TraceFile::spans`](crate::TraceFile::spans) has of the whole file, with one exception. A span that was left may
/// return after all, where a coroutine comes back: here it is given out as left if more than 4096 such spans wait.
#[derive(Debug, Default)]
pub(crate) struct GrowingSpans {
    points: SpanPoints,
    matcher: Matcher<Kept>,
    /// The spans that were given out before one that they are around.
    around: BTreeMap<FrameNumber, Span>,
    /// The latest time of a hit, in nanoseconds.
    latest: u64,
}

/// The spans that were not given out yet, by their entries. The index of a span is the number of its entry.
#[derive(Debug, Default)]
struct Kept(BTreeMap<FrameNumber, Span>);

impl SpanStore for Kept {
    fn add(&mut self, span: Span) -> usize {
        let before = self.0.insert(span.entry, span);
        debug_assert_eq!(before, None, "a frame begins one span");
        span.entry.0 as usize
    }

    fn get(&self, index: usize) -> Option<&Span> {
        self.of_entry(FrameNumber(index as u64))
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Span> {
        self.0.get_mut(&FrameNumber(index as u64))
    }

    fn of_entry(&self, entry: FrameNumber) -> Option<&Span> {
        self.0.get(&entry)
    }
}

impl GrowingSpans {
    /// Reads the span tracepoints of a description, at the beginning and when it has changed.
    pub(crate) fn describe(&mut self, description: &Description) {
        self.points = SpanPoints::of(description);
    }

    /// Whether there are no span tracepoints.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Notes the next frame of the file, with the number that it has there: `false` if it is of another tracepoint.
    pub(crate) fn note(&mut self, frame: &Frame<'_>, number: FrameNumber) -> bool {
        if let Some(hit) = self.points.hit(frame, number) {
            self.matcher.hit(&hit);
            self.latest = self.latest.max(hit.time.unwrap_or(0));
        }
        self.points.of_frame(frame).is_some()
    }

    /// Whether spans that have ended wait for what may still be seen of them.
    pub(crate) fn is_waiting(&self) -> bool {
        self.matcher.unsettled().next().is_some()
    }

    /// Nothing was seen for so long that no exception arrives anywhere any more.
    pub(crate) fn settle(&mut self) {
        self.matcher.settle(|_| true);
    }

    /// Gives out the spans that have ended, in the order of their entries.
    pub(crate) fn take_ended(&mut self) -> Vec<Span> {
        let latest = self.latest;
        self.matcher
            .settle(|time| time.saturating_add(ARRIVES_WITHIN) < latest);
        let unsettled: HashSet<usize> = self.matcher.unsettled().collect();
        let spans = &mut self.matcher.spans.0;
        let left = spans.values().filter(|span| span.end == SpanEnd::Left);
        let mut given = left.count().saturating_sub(MOST_LEFT);
        let ended = spans.extract_if(.., |entry, span| match span.end {
            _ if unsettled.contains(&(entry.0 as usize)) => false,
            SpanEnd::Open => false,
            SpanEnd::Left => {
                let is_given = given > 0;
                given = given.saturating_sub(1);
                is_given
            }
            _ => true,
        });
        let ended: Vec<Span> = ended.map(|(_, span)| span).collect();
        if !ended.is_empty() {
            let inner = self.matcher.spans.0.values().chain(&ended);
            let parents: HashSet<FrameNumber> = inner.filter_map(|span| span.parent).collect();
            self.around
                .extend(ended.iter().map(|span| (span.entry, *span)));
            self.around.retain(|entry, _| parents.contains(entry));
            self.matcher.forget();
        }
        ended
    }

    /// Gives out all others, when the recorder has ended, by what the description says then.
    pub(crate) fn finish(&mut self, description: &Description) -> Vec<Span> {
        self.matcher.finish(process_ended(description));
        let spans = std::mem::take(&mut self.matcher.spans.0);
        spans.into_values().collect()
    }

    /// The frames of spans that are not given out yet, those of the spans around them, and those that may turn out to end one.
    pub(crate) fn needed(&self) -> HashSet<FrameNumber> {
        let spans = self.matcher.spans.0.values().chain(self.around.values());
        let of_spans = spans.flat_map(|span| [Some(span.entry), span.exit]);
        let ends = self.matcher.possible_ends();
        of_spans.flatten().chain(ends).collect()
    }

    /// The span around one that is given out, if it is known which frame represents it in a list: that of a `return` is its last one.
    pub(crate) fn around(&self, span: &Span) -> Option<Span> {
        let parent = span.parent?;
        let before = || self.around.get(&parent);
        let around = self.matcher.spans.of_entry(parent).or_else(before)?;
        let is_known = around.statement == SpanStatement::Span || around.exit.is_some();
        is_known.then_some(*around)
    }

    /// These spans in a file that has only some of the frames: those with these numbers, in this order.
    pub(crate) fn among(
        &self,
        spans: impl Iterator<Item = Span>,
        numbers: &[FrameNumber],
    ) -> super::Spans {
        let local = |number: FrameNumber| {
            let at = numbers.binary_search(&number).ok()?;
            Some(FrameNumber(at as u64))
        };
        let known = spans.filter_map(|span| {
            Some(Span {
                entry: local(span.entry)?,
                exit: span.exit.and_then(local),
                parent: span.parent.and_then(local),
                ..span
            })
        });
        super::Spans::known(self.points.clone(), known.collect(), numbers.len() as u64)
    }
}
