//! Expressions of the user's, evaluated on frames.

use tracewire_expr::{ExpressionError, ExpressionErrorKind, State as _, Value};
use tracewire_tracefile::Frame;

use crate::frame::Viewer;
use crate::place_cache::CachedPlace;
use crate::state::FrameState;

impl<'a> Viewer<'a> {
    /// Evaluates an expression on a frame of a list as a condition: on the whole span where the frame represents one.
    pub(crate) fn truth(&self, frame: Frame<'a>, expression: &str) -> Truth {
        match self.represented_span(frame) {
            Some(span) => self.truth_of_span(span, expression),
            None => self.truth_in_span(frame, expression, None),
        }
    }

    /// The same, with a value for `$duration`.
    pub(crate) fn truth_in_span(
        &self,
        frame: Frame<'a>,
        expression: &str,
        duration: Option<u64>,
    ) -> Truth {
        let Some(state) = FrameState::new(self.file(), frame) else {
            return Truth::NoPlace;
        };
        let state = state.with_duration(duration);
        match self.evaluate(frame, &state, expression) {
            Ok(value) => self.truth_of(frame, &value),
            Err(error) => Truth::Unknown(error),
        }
    }

    /// A value of a frame as a condition.
    pub(crate) fn truth_of(&self, frame: Frame<'a>, value: &Value) -> Truth {
        match value.is_true(self.symbols(frame)) {
            Some(true) => Truth::True,
            Some(false) => Truth::False,
            None => Truth::NotANumber,
        }
    }

    /// Evaluates an expression on a frame and formats its value in its language; `None` if the frame does not have it. A frame that represents a
    /// span has what the span's entry and return have, and `$duration` in nanoseconds.
    ///
    /// # Errors
    /// When the frame lacks a needed value, or it is no expression there.
    pub fn print(
        &self,
        frame: Frame<'a>,
        expression: &str,
    ) -> Result<Option<String>, ExpressionError> {
        let Some(span) = self.represented_span(frame) else {
            return self.print_in_span(frame, expression, None);
        };
        let mut first = Ok(None);
        for frame in self.frames_of_expression(span, expression) {
            match self.print_in_span(frame, expression, span.duration_ns()) {
                Ok(None) => {}
                Ok(printed) => return Ok(printed),
                Err(error) if first.is_ok() => first = Err(error),
                Err(_) => {}
            }
        }
        // It may need the return value and something that only the entry has.
        let Some(entry) = self.with_return_value(span, expression) else {
            return first;
        };
        match entry.evaluate(self) {
            Ok(value) => {
                let here = self.cached_place(entry.frame, entry.state.pc());
                Ok(self.printed(&value, &here, &entry.state))
            }
            Err(_) => first,
        }
    }

    fn printed(
        &self,
        value: &Value,
        here: &CachedPlace<'a>,
        state: &FrameState<'a>,
    ) -> Option<String> {
        let printed = self.text(value, here, state);
        (printed != "<unavailable>").then_some(printed)
    }

    fn print_in_span(
        &self,
        frame: Frame<'a>,
        expression: &str,
        duration: Option<u64>,
    ) -> Result<Option<String>, ExpressionError> {
        let Some(state) = FrameState::new(self.file(), frame) else {
            return Ok(None);
        };
        let state = state.with_duration(duration);
        let value = self.evaluate(frame, &state, expression)?;
        let here = self.cached_place(frame, state.pc());
        Ok(self.printed(&value, &here, &state))
    }

    /// Checks that an expression is valid, in the language of one of the frames.
    ///
    /// # Errors
    /// The error, when it is valid in no frame.
    pub fn check_expression(&self, expression: &str) -> Result<(), ExpressionError> {
        let mut wrong = None;
        for frame in self.file().frames() {
            let Some(state) = FrameState::new(self.file(), frame) else {
                continue;
            };
            let prepared = self.cached_place(frame, state.pc()).expression(expression);
            match prepared.as_ref() {
                Err(error) if matches!(error.kind(), ExpressionErrorKind::Syntax(_)) => {
                    wrong.get_or_insert_with(|| error.clone());
                }
                _ => return Ok(()),
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    pub(crate) fn evaluate(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
        expression: &str,
    ) -> Result<Value, ExpressionError> {
        let prepared = self.cached_place(frame, state.pc()).expression(expression);
        prepared
            .as_ref()
            .as_ref()
            .map_err(Clone::clone)?
            .evaluate(state)
    }
}

/// Whether an expression is true of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Truth {
    /// It is.
    True,
    /// It is not.
    False,
    /// Its value is no number: a structure, or something that was not collected.
    NotANumber,
    /// The frame lacks a needed value, or it is no valid expression.
    Unknown(ExpressionError),
    /// The frame does not say where the thread was.
    NoPlace,
}
