//! Spans: the frame of an entry and that of the return, shown as one.

use tracewire_expr::{Datum, ExpressionError, ShownValue, State as _, Value};
use tracewire_model::SpanStatement;
use tracewire_script::{conjuncts, in_nanoseconds};
use tracewire_tracefile::{Frame, Span, SpanEnd};

use crate::frame::Viewer;
use crate::state::{FrameState, RETURNED};
use crate::truth::Truth;
use crate::typed::SharedValue;

/// How long a span took, as an item of a list.
pub(crate) const DURATION: &str = "$duration";

/// The return value.
const RETURN_VALUE: &str = "$retval";

impl<'a> Viewer<'a> {
    /// Whether a list of frames has this one. Left out are frames that belong to a span and do not represent it, and those of
    /// spans whose condition is not true.
    #[must_use]
    pub fn is_listed(&self, frame: Frame<'a>) -> bool {
        let spans = self.file().spans();
        if spans.point(&frame).is_none() {
            return true;
        }
        spans.at(frame.number()).is_some_and(|span| {
            span.frame() == frame.number() && self.is_wanted(span) != Some(false)
        })
    }

    /// The span that a frame begins or ends.
    pub(crate) fn span(&self, frame: Frame<'a>) -> Option<&'a Span> {
        self.file().spans().at(frame.number())
    }

    /// The kind of a frame: `step`, `span`, `return` or `hit`.
    pub(crate) fn kind(&self, frame: Frame<'a>) -> &'static str {
        self.kind_of(frame, frame.is_step())
    }

    /// The kind of a frame of which is known whether it is of a step.
    pub(crate) fn kind_of(&self, frame: Frame<'a>, is_step: Option<bool>) -> &'static str {
        match self.span(frame) {
            _ if is_step == Some(true) => "step",
            Some(span) if span.statement == SpanStatement::Return => "return",
            Some(span) if span.entry == frame.number() => "span",
            Some(_) => "return",
            None => "hit",
        }
    }

    /// The frames whose values a frame of a list has: that of a span has those of its entry and of its return.
    #[must_use]
    pub fn frames_of(&self, frame: Frame<'a>) -> Vec<Frame<'a>> {
        let Some(span) = self.represented_span(frame) else {
            return vec![frame];
        };
        let file = self.file();
        let mut frames = vec![span.entry];
        frames.extend(span.exit.filter(|exit| *exit != span.entry));
        if span.statement == SpanStatement::Return {
            frames.reverse();
        }
        frames
            .into_iter()
            .filter_map(|number| file.frame(number))
            .collect()
    }

    /// `$duration`, where the list of a span has it; in nanoseconds where it is known.
    pub(crate) fn duration(&self, frame: Frame<'a>) -> Option<Option<u64>> {
        let state = FrameState::new(self.file(), frame)?;
        let span = self.span(frame)?;
        let has_item = self.has_item(frame, &state, DURATION);
        has_item.then(|| span.duration_ns())
    }

    /// Whether the condition of a span is true; none where that is not known.
    fn is_wanted(&self, span: &Span) -> Option<bool> {
        let entry = self.file().frame(span.entry)?;
        let pc = entry.program_counter()?;
        let condition = self.condition(entry, pc)?;
        match self.truth_of_span(span, condition) {
            Truth::True => Some(true),
            Truth::False => Some(false),
            Truth::NotANumber | Truth::Unknown(_) | Truth::NoPlace => None,
        }
    }

    /// The span that a frame of a list represents.
    pub(crate) fn represented_span(&self, frame: Frame<'a>) -> Option<&'a Span> {
        self.span(frame)
            .filter(|span| span.frame() == frame.number())
    }

    /// Evaluates an expression on a span as a condition: each part that `&&` joins on the entry or on the return, wherever it has a value.
    pub(crate) fn truth_of_span(&self, span: &Span, condition: &str) -> Truth {
        let duration = span.duration_ns();
        let mut unknown = None;
        for part in conjuncts(condition) {
            let part = in_nanoseconds(part);
            let frames = self.frames_of_expression(span, &part).into_iter();
            let truths = frames.map(|frame| self.truth_in_span(frame, &part, duration));
            let mut first = None;
            let known = truths
                .inspect(|truth| _ = first.get_or_insert_with(|| truth.clone()))
                .find(|truth| matches!(truth, Truth::True | Truth::False));
            let known = known.or_else(|| self.truth_of_both(span, &part));
            match (known, first) {
                (Some(Truth::True), _) => {}
                // A span without a return has no return value.
                (Some(_), _) | (None, None) => return Truth::False,
                (None, Some(truth)) => _ = unknown.get_or_insert(truth),
            }
        }
        unknown.unwrap_or(Truth::True)
    }

    /// Whether a condition is true that has the return value and something that only the entry has.
    fn truth_of_both(&self, span: &Span, condition: &str) -> Option<Truth> {
        let entry = self.with_return_value(span, condition)?;
        let truth = match entry.evaluate(self) {
            Ok(value) => self.truth_of(entry.frame, &value),
            Err(error) => Truth::Unknown(error),
        };
        Some(truth).filter(|truth| matches!(truth, Truth::True | Truth::False))
    }

    /// The entry of a span, for an expression with `$retval`, if that is a number.
    pub(crate) fn with_return_value(
        &self,
        span: &Span,
        expression: &str,
    ) -> Option<EntryWithReturn<'a>> {
        if !expression.contains(RETURN_VALUE) || span.exit == Some(span.entry) {
            return None;
        }
        let exit = self.file().frame(span.exit?)?;
        let state = FrameState::new(self.file(), exit)?;
        let here = self.cached_place(exit, state.pc());
        let value = self.evaluate(exit, &state, RETURN_VALUE);
        let returned = self.value(&here, RETURN_VALUE.into(), value, &state);
        let (returned, text) = match returned.shown.datum() {
            Datum::Integer(number) => match i64::try_from(*number) {
                Ok(number) => (Some(number), None),
                Err(_) => (None, Some(number.to_string())),
            },
            Datum::Boolean(truth) => (Some((*truth).into()), None),
            Datum::Address(address) => (None, Some(address.to_string())),
            Datum::Float(number) if number.is_finite() => (None, Some(format!("{number:?}"))),
            _ => return None,
        };
        let instead = match &text {
            Some(text) => format!("({text})"),
            None => format!("${RETURNED}"),
        };
        let frame = self.file().frame(span.entry)?;
        let state = FrameState::new(self.file(), frame)?;
        Some(EntryWithReturn {
            frame,
            state: state
                .with_duration(span.duration_ns())
                .with_returned(returned),
            expression: expression.replace(RETURN_VALUE, &instead),
            is_of_all: text.is_none(),
        })
    }

    /// The frames of a span on which an expression is evaluated, in this order. None where it asks for the return value of a span without
    /// a return.
    pub(crate) fn frames_of_expression(&self, span: &Span, expression: &str) -> Vec<Frame<'a>> {
        let exit = span.exit.filter(|exit| *exit != span.entry);
        let numbers = match (expression.contains(RETURN_VALUE), span.statement) {
            (true, _) => [span.exit, None],
            (false, SpanStatement::Return) => [exit, Some(span.entry)],
            (false, _) => [Some(span.entry), exit],
        };
        let numbers = numbers.into_iter().flatten();
        numbers
            .filter_map(|number| self.file().frame(number))
            .collect()
    }
}

/// The entry of a span, and an expression that has the return value, too.
pub(crate) struct EntryWithReturn<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) state: FrameState<'a>,
    /// The expression, with a variable or a number in place of `$retval`.
    expression: String,
    /// Whether the expression is the same for all spans, and worth keeping.
    is_of_all: bool,
}

impl<'a> EntryWithReturn<'a> {
    pub(crate) fn evaluate(&self, viewer: &Viewer<'a>) -> Result<Value, ExpressionError> {
        if self.is_of_all {
            return viewer.evaluate(self.frame, &self.state, &self.expression);
        }
        let here = viewer.cached_place(self.frame, self.state.pc());
        here.evaluate_once(&self.expression, &self.state)
    }
}

/// `$duration`, as an item of a list.
pub(crate) fn duration_value(duration: Option<u64>) -> SharedValue {
    let (text, datum) = match duration {
        Some(duration) => (duration_words(duration), Datum::Integer(duration.into())),
        None => {
            let unavailable = "<unavailable>".to_owned();
            (unavailable.clone(), Datum::Missing(unavailable))
        }
    };
    SharedValue {
        expression: DURATION.into(),
        type_name: None,
        error: None,
        shown: ShownValue::new(text, datum),
    }
}

/// How a span ended and how long it took, in words.
pub(crate) fn end_words(span: &Span) -> String {
    let after = match span.duration_ns() {
        Some(duration) => format!(" after {}", duration_words(duration)),
        None => String::new(),
    };
    match span.end {
        SpanEnd::Return if span.is_tail_call => format!("tail call{after}"),
        SpanEnd::Return => format!("returned{after}"),
        SpanEnd::Exception => format!("left by an exception{after}"),
        SpanEnd::Longjmp => format!("left by longjmp{after}"),
        SpanEnd::ThreadExit => format!("the thread ended{after}"),
        SpanEnd::ProcessExit => "the process ended".to_owned(),
        SpanEnd::Left => "left, but not by what is known".to_owned(),
        SpanEnd::Open => "not ended".to_owned(),
    }
}

/// A time as people read it, with three digits and more.
pub(crate) fn duration_words(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.3} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::duration_words;

    #[test]
    fn durations_have_three_digits() {
        assert_eq!(duration_words(999), "999 ns");
        assert_eq!(duration_words(1_234), "1.234 µs");
        assert_eq!(duration_words(1_234_567), "1.235 ms");
        assert_eq!(duration_words(2_000_000_000), "2.000 s");
    }
}
