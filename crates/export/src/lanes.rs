//! Which spans of a thread are drawn in one row.
//!
//! Tools draw the spans of a thread as a stack: each is wholly in the one around it. The spans of one stack are so. Those of coroutines, and two
//! spans of one call, may overlap: what does not fit is drawn in another row.

use tracewire_model::FrameNumber;

use crate::event::{Event, EventEnd};

/// The rows of a thread. Its events come by the times of their beginnings.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The open spans of each row, the outermost first. The first row is the thread's own.
    lanes: Vec<Vec<Open>>,
    /// The time of the last event.
    latest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    entry: FrameNumber,
    /// None of one that does not end.
    end: Option<u64>,
}

/// How an event is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// The row.
    pub(crate) lane: usize,
    /// From when. Time lines do not go back: an event that is out of order begins with the one before.
    pub(crate) start: u64,
    pub(crate) extent: Extent,
}

/// How long an event is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// As a point in time: a hit, or a span whose end is not known.
    Instant,
    /// Up to this time.
    Until(u64),
    /// Without an end.
    Open,
}

/// A span that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Closed {
    pub(crate) lane: usize,
    pub(crate) end: u64,
}

impl Lanes {
    /// Places the next event, and gives the spans that are over before it begins: in each row the innermost first.
    pub(crate) fn place(&mut self, event: &Event<'_>, closed: &mut Vec<Closed>) -> Placed {
        let start = event.start.max(self.latest);
        self.latest = start;
        let span = event.span.as_ref();
        let is_around = |open: &Open| {
            span.is_some_and(|span| span.ancestors().any(|entry| entry == open.entry))
        };
        for (lane, opens) in self.lanes.iter_mut().enumerate() {
            // At the same time, the event's parent is still open.
            let is_over = |open: &mut Open| {
                open.end
                    .is_some_and(|end| end < start || end == start && !is_around(open))
            };
            while let Some(open) = opens.pop_if(is_over) {
                closed.extend(open.end.map(|end| Closed { lane, end }));
            }
        }
        let end = match span.map(|span| (span.entry(), span.end())) {
            None | Some((_, EventEnd::Unknown)) => {
                return Placed {
                    lane: 0,
                    start,
                    extent: Extent::Instant,
                };
            }
            Some((entry, EventEnd::At(end))) => (entry, Some(end.max(start))),
            Some((entry, EventEnd::Open)) => (entry, None),
        };
        let (entry, end) = end;
        let fits = |opens: &Vec<Open>| match (opens.last().map(|open| open.end), end) {
            (None | Some(None), _) => true,
            (Some(Some(around)), Some(end)) => end <= around,
            (Some(Some(_)), None) => false,
        };
        let parent = span.and_then(|span| span.ancestors().next());
        let of_parent = |opens: &Vec<Open>| opens.last().map(|open| open.entry) == parent;
        let best = self
            .lanes
            .iter()
            .position(|opens| fits(opens) && of_parent(opens));
        let lane = best
            .or_else(|| self.lanes.iter().position(fits))
            .unwrap_or_else(|| {
                self.lanes.push(Vec::new());
                self.lanes.len() - 1
            });
        if let Some(opens) = self.lanes.get_mut(lane) {
            opens.push(Open { entry, end });
        }
        Placed {
            lane,
            start,
            extent: end.map_or(Extent::Open, Extent::Until),
        }
    }

    /// Returns the spans that are still open, in each row the innermost first.
    pub(crate) fn finish(&mut self, closed: &mut Vec<Closed>) {
        for (lane, opens) in self.lanes.iter_mut().enumerate() {
            while let Some(open) = opens.pop() {
                closed.extend(open.end.map(|end| Closed { lane, end }));
            }
        }
    }
}
