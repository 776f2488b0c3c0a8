//! A line of `show` as an event: when, where, what was collected.

use std::rc::Rc;

use tracewire_debuginfo::SourcePlace;
use tracewire_expr::Datum;
use tracewire_model::{Address, FrameNumber};
use tracewire_tracefile::{Span, SpanEnd, Spans};
use tracewire_views::{FrameView, Map, Stack};

/// A hit or a span. There is one for each line of `show --json`.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// Which part of the run it is of.
    pub(crate) part: usize,
    /// The number of the frame that represents it.
    pub(crate) frame: u64,
    pub(crate) tracepoint: i32,
    /// The function of a span; else the location, as the user gave it.
    pub(crate) name: Rc<str>,
    /// `hit`, `step`, `span` or `return`.
    pub(crate) kind: &'static str,
    pub(crate) thread: Option<u32>,
    pub(crate) cpu: Option<u32>,
    pub(crate) pc: Option<Address>,
    pub(crate) place: Option<SourcePlace>,
    pub(crate) marker: Option<String>,
    /// When it began, in nanoseconds. An event without a time has that of the one before.
    pub(crate) start: u64,
    /// When its frame was made: of a `return` that is its end.
    pub(crate) time: u64,
    pub(crate) span: Option<EventSpan<'a>>,
    pub(crate) values: Vec<EventValue>,
    pub(crate) variables: Map<i64>,
    /// All of the frame, where nothing is known of the program and so there are no values.
    pub(crate) raw: Option<Box<FrameView>>,
    pub(crate) stack: Option<Stack>,
}

/// A collected expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct EventValue {
    /// As the user wrote it. A second one of the same event has the suffix `#2`.
    pub(crate) name: String,
    pub(crate) datum: Datum,
    /// As `show` has it.
    pub(crate) text: String,
}

/// A call of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSpan<'a> {
    span: &'a Span,
    spans: &'a Spans,
    /// The number of the frame that represents the span around it.
    pub(crate) parent: Option<u64>,
}

/// When a span ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventEnd {
    /// At this time, in nanoseconds.
    At(u64),
    /// Not before the run did.
    Open,
    /// Before the end of the run, at an unknown time.
    Unknown,
}

impl<'a> EventSpan<'a> {
    pub(crate) const fn new(span: &'a Span, spans: &'a Spans, parent: Option<u64>) -> Self {
        Self {
            span,
            spans,
            parent,
        }
    }

    /// The frame of its entry, which no other span of the file has.
    pub(crate) const fn entry(&self) -> FrameNumber {
        self.span.entry
    }

    pub(crate) fn end(&self) -> EventEnd {
        match (self.span.end_ns, self.span.end) {
            (Some(end), _) => EventEnd::At(end),
            (None, SpanEnd::Open | SpanEnd::ProcessExit) => EventEnd::Open,
            (None, _) => EventEnd::Unknown,
        }
    }

    /// How it ended.
    pub(crate) const fn ended(&self) -> SpanEnd {
        self.span.end
    }

    pub(crate) const fn is_tail_call(&self) -> bool {
        self.span.is_tail_call
    }

    pub(crate) fn duration(&self) -> Option<u64> {
        self.span.duration_ns()
    }

    /// The entries of the spans that it is in, the nearest first.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = FrameNumber> + '_ {
        let mut parent = self.span.parent;
        // A span is in one that began before it, so there is no circle; the depth is a limit all the same.
        (0..self.span.depth).map_while(move |_| {
            let entry = parent?;
            parent = self.spans.at(entry).and_then(|span| span.parent);
            Some(entry)
        })
    }

    /// The entry of the outermost span around it, or its own.
    pub(crate) fn root(&self) -> FrameNumber {
        self.ancestors().last().unwrap_or(self.span.entry)
    }
}
