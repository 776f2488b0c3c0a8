//! Spans: the frames of entries and returns of functions, matched.

use std::collections::HashMap;
use std::num::NonZero;

use tracewire_model::{
    Address, FrameNumber, GoroutinePoint, SpanPoint, SpanRole, SpanStatement, StopReason,
    TracepointNumber,
};

use crate::description::Description;
use crate::file::TraceFile;
use crate::frame::Frame;
use matcher::{Caller, Hit, Matcher};

#[cfg(target_os = "linux")]
mod growing;
mod matcher;

#[cfg(target_os = "linux")]
pub(crate) use growing::GrowingSpans;

/// How a span ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpanEnd {
    /// The function returned, or jumped to another one that returned in its place.
    Return,
    /// An exception left it.
    Exception,
    /// `longjmp` left it.
    Longjmp,
    /// The thread ended.
    ThreadExit,
    /// The process ended.
    ProcessExit,
    /// It was left, by what was not seen.
    Left,
    /// It had not ended at the end of the run.
    Open,
}

impl SpanEnd {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "return",
            Self::Exception => "exception",
            Self::Longjmp => "longjmp",
            Self::ThreadExit => "thread-exit",
            Self::ProcessExit => "process-exit",
            Self::Left => "left",
            Self::Open => "open",
        }
    }
}

/// A call of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Which statement asked for it.
    pub statement: SpanStatement,
    /// The frame of the entry.
    pub entry: FrameNumber,
    /// The frame of the return or the tail call.
    pub exit: Option<FrameNumber>,
    /// The function's first instruction.
    pub function: Address,
    /// How it ended.
    pub end: SpanEnd,
    /// Whether it ended by a jump to another function.
    pub is_tail_call: bool,
    /// When it began, in nanoseconds.
    pub start_ns: Option<u64>,
    /// When it ended, where that is known: for an exception or a `longjmp`, when that began.
    pub end_ns: Option<u64>,
    /// The entry of the span that it is in.
    pub parent: Option<FrameNumber>,
    /// In how many spans it is.
    pub depth: u32,
    /// The goroutine whose call it is, in a Go program.
    pub goroutine: Option<NonZero<u64>>,
}

impl Span {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.start_ns?))
    }

    /// The frame that represents it in a list: the entry of a `span`, the return of a `return`.
    #[must_use]
    pub fn frame(&self) -> FrameNumber {
        match (self.statement, self.exit) {
            (SpanStatement::Return, Some(exit)) => exit,
            _ => self.entry,
        }
    }
}

/// The spans of a file, by their frames.
#[derive(Debug, Default)]
pub struct Spans {
    points: SpanPoints,
    spans: Vec<Span>,
    /// Of each frame, the place of its span, counted from 1. Most frames of a file with spans have one.
    by_frame: Vec<Option<NonZero<usize>>>,
    /// How many returns have no entry: those of calls that began before the run.
    unmatched: u64,
}

impl Spans {
    /// Matches the frames of a file. Nothing is read of a file without span tracepoints.
    #[must_use]
    pub fn of(file: &TraceFile) -> Self {
        let mut spans = Self {
            points: SpanPoints::of(file.description()),
            ..Self::default()
        };
        if spans.points.is_empty() {
            return spans;
        }
        let mut matcher: Matcher<Vec<Span>> = Matcher::default();
        for frame in file.frames() {
            if let Some(hit) = spans.points.hit(&frame, frame.number()) {
                matcher.hit(&hit);
            }
        }
        matcher.finish(process_ended(file.description()));
        spans.unmatched = matcher.unmatched();
        spans.place(matcher.spans, file.frame_count());
        spans
    }

    /// Spans that are known, of a file with so many frames.
    pub(crate) fn known(points: SpanPoints, all: Vec<Span>, frames: u64) -> Self {
        let mut spans = Self {
            points,
            ..Self::default()
        };
        spans.place(all, frames);
        spans
    }

    fn place(&mut self, spans: Vec<Span>, frames: u64) {
        let frames = usize::try_from(frames).unwrap_or(0);
        self.by_frame.resize(frames, None);
        for (place, span) in (1..).zip(&spans) {
            for frame in [Some(span.entry), span.exit].into_iter().flatten() {
                let frame = usize::try_from(frame.0).unwrap_or(usize::MAX);
                match self.by_frame.get_mut(frame) {
                    Some(known) => *known = NonZero::new(place),
                    None => debug_assert!(false, "a span has frames of its file"),
                }
            }
        }
        self.spans = spans;
    }

    /// Whether the file has no span tracepoints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Every span, by its entry.
    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter()
    }

    /// The span whose entry or exit a frame is.
    #[must_use]
    pub fn at(&self, frame: FrameNumber) -> Option<&Span> {
        let place = (*self.by_frame.get(usize::try_from(frame.0).ok()?)?)?;
        self.spans.get(place.get() - 1)
    }

    /// What a frame is to a span; none of a frame of another tracepoint.
    #[must_use]
    pub fn point(&self, frame: &Frame<'_>) -> Option<&SpanPoint> {
        self.points.of_frame(frame)
    }

    /// How many returns have no entry in the file.
    #[must_use]
    pub const fn unmatched(&self) -> u64 {
        self.unmatched
    }
}

/// The points of a file's span tracepoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanPoints(HashMap<(TracepointNumber, Address), SpanPoint>);

impl SpanPoints {
    fn of(description: &Description) -> Self {
        let tracepoints = description.tracepoints().iter();
        let points = tracepoints.filter_map(|tracepoint| {
            let point = tracepoint.definition.source.span_point()?;
            Some((tracepoint.definition.key(), point))
        });
        Self(points.collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of_frame(&self, frame: &Frame<'_>) -> Option<&SpanPoint> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(frame.tracepoint(), frame.program_counter()?))
    }

    /// The hit of a frame, which has this number in the whole file; none of a frame of another tracepoint.
    fn hit(&self, frame: &Frame<'_>, number: FrameNumber) -> Option<Hit> {
        let point = *self.of_frame(frame)?;
        let stack = frame.register_number(point.register)?;
        let stack = stack.wrapping_add_signed(point.offset);
        let goroutine = point.goroutine.and_then(|of| goroutine(frame, of, stack));
        let thread = frame.thread().map_or(0, |thread| thread.0);
        let (caller, stack) = goroutine.unwrap_or((Caller::Thread(thread), stack));
        let time = frame
            .nanoseconds()
            .or_else(|| frame.timestamp().map(|time| time.saturating_mul(1000)));
        Some(Hit {
            frame: number,
            tracepoint: frame.tracepoint(),
            caller,
            stack,
            time,
            target: match point.role {
                SpanRole::Longjmp => longjmp_target(frame),
                _ => None,
            },
            point,
        })
    }
}

/// The goroutine of a hit, and the place of the call on its stack as if that had never moved; none where the thread runs the
/// scheduler, or where the function is in assembly and keeps no goroutine.
fn goroutine(frame: &Frame<'_>, of: GoroutinePoint, stack: u64) -> Option<(Caller, u64)> {
    /// All stacks end there.
    const END: u64 = 1 << 47;
    let start = frame.register_number(of.register)?;
    let word = |offset: u16| {
        let bytes = frame.memory(Address(start.checked_add(offset.into())?), 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let number = NonZero::new(word(of.number)?)?;
    let distance = GoroutinePoint::distance(word(of.stack_end)?, stack)?;
    Some((Caller::Goroutine(number), END - distance))
}

/// Whether the run ended because the process did.
fn process_ended(description: &Description) -> bool {
    let status = description.status();
    let fields = status.as_ref().map(|status| &status.fields);
    fields.is_some_and(|fields| {
        fields.stop_reason != Some(StopReason::NotRun)
            && (fields.stop_text.as_deref()).is_some_and(|text| text.starts_with("the program "))
    })
}

/// The stack pointer that `longjmp` sets, on x86-64: the seventh word of the `jmp_buf`, as it is, or encrypted as glibc does it.
fn longjmp_target(frame: &Frame<'_>) -> Option<u64> {
    let place = Address(frame.register_value_named("rdi")?.wrapping_add(0x30));
    let word = |is_it: &dyn Fn(Address) -> bool| {
        let mut blocks = frame.memory_blocks();
        let (_, bytes) = blocks.find(|(address, _)| is_it(*address))?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let is_stack = |place: &u64| place.is_multiple_of(8) && (0x1000..1 << 47).contains(place);
    let kept = word(&|address| address == place)?;
    let decrypted = || Some(kept.rotate_right(0x11) ^ word(&|address| address != place)?);
    Some(kept)
        .filter(is_stack)
        .or_else(|| decrypted().filter(is_stack))
}
