//! Expressions of the user's, evaluated on frames.

use tracewire_symbols::{ExpressionError, State as _, Value};
use tracewire_tracefile::Frame;

use crate::frame::Viewer;
use crate::state::FrameState;

impl<'a> Viewer<'a> {
    /// Evaluates an expression on a frame and tells whether it is true.
    pub(crate) fn truth(&self, frame: Frame<'a>, expression: &str) -> Truth {
        let Some(state) = FrameState::new(self.file(), frame) else {
            return Truth::NoPlace;
        };
        match self.evaluate(frame, &state, expression) {
            Ok(value) => match value.is_true(self.symbols(frame)) {
                Some(true) => Truth::True,
                Some(false) => Truth::False,
                None => Truth::NotANumber,
            },
            Err(error) => Truth::Unknown(error),
        }
    }

    /// Evaluates an expression on a frame and shows its value as GDB's `print` does; none where the frame does not tell it.
    #[must_use]
    pub fn print(&self, frame: Frame<'a>, expression: &str) -> Option<String> {
        let state = FrameState::new(self.file(), frame)?;
        let value = self.evaluate(frame, &state, expression).ok()?;
        let printed = value.print(self.symbols(frame), &state, &self.options);
        (printed != "<unavailable>").then_some(printed)
    }

    fn evaluate(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
        expression: &str,
    ) -> Result<Value, ExpressionError> {
        let prepared = self.here(frame, state.pc()).expression(expression);
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
    /// The frame lacks a value it needs, or it is no expression at all.
    Unknown(ExpressionError),
    /// The frame does not say where the thread stood.
    NoPlace,
}
