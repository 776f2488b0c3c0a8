//! An expression that is to be true of frames.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracewire_expr::{ExpressionError, ExpressionErrorKind};
use tracewire_tracefile::Frame;

use crate::find::FindError;
use crate::frame::Viewer;
use crate::truth::Truth;

/// A condition on the frames of a list, for several threads. It remembers of how many it was true.
#[derive(Debug, Default)]
pub struct Condition<'e> {
    /// None is true of all frames.
    expression: Option<&'e str>,
    fitting: AtomicU64,
    /// Whether it was true or false of a frame.
    is_worked_out: AtomicBool,
    /// Why it was neither, of a frame where it was not.
    unknown: Mutex<Option<ExpressionError>>,
}

impl<'e> Condition<'e> {
    /// Of an expression; without one it is true of all frames.
    #[must_use]
    pub fn new(expression: Option<&'e str>) -> Self {
        Self {
            expression,
            ..Self::default()
        }
    }

    /// Whether there is an expression.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.expression.is_some()
    }

    /// Whether a list has a frame, and the condition is true of it. A span is looked at as a whole, by the frame that represents it.
    ///
    /// # Errors
    /// When it is no expression in any language.
    pub fn fits<'a>(&self, viewer: &Viewer<'a>, frame: Frame<'a>) -> Result<bool, FindError> {
        if !viewer.is_listed(frame) {
            return Ok(false);
        }
        let is_true = match self.expression {
            None => true,
            Some(expression) => self.is_true(viewer, frame, expression)?,
        };
        self.fitting.fetch_add(is_true.into(), Ordering::Relaxed);
        Ok(is_true)
    }

    fn is_true<'a>(
        &self,
        viewer: &Viewer<'a>,
        frame: Frame<'a>,
        expression: &str,
    ) -> Result<bool, FindError> {
        let truth = viewer.truth(frame, expression);
        match truth {
            Truth::True | Truth::False => {
                self.is_worked_out.store(true, Ordering::Relaxed);
                Ok(truth == Truth::True)
            }
            Truth::NotANumber | Truth::NoPlace => Ok(false),
            Truth::Unknown(error) if matches!(error.kind(), ExpressionErrorKind::Syntax(_)) => {
                Err(FindError::Condition { error })
            }
            Truth::Unknown(error) => {
                let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
                unknown.get_or_insert(error);
                Ok(false)
            }
        }
    }

    /// Of how many frames it was true.
    #[must_use]
    pub fn fitting(&self) -> u64 {
        self.fitting.load(Ordering::Relaxed)
    }

    /// Why it could not be worked out, where it could be for none of the frames so far.
    #[must_use]
    pub fn unknown(&self) -> Option<ExpressionError> {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let is_worked_out = self.is_worked_out.load(Ordering::Relaxed);
        unknown.clone().filter(|_| !is_worked_out)
    }
}
