//! `show --where`: the frames for which an expression is true.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::bail;
use tracewire_expr::{ExpressionError, ExpressionErrorKind};
use tracewire_tracefile::Frame;
use tracewire_views::{Viewer, words};

/// A condition on the frames of a list, for several threads.
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
    pub fn new(expression: Option<&'e str>) -> Self {
        Self {
            expression,
            ..Self::default()
        }
    }

    /// Whether there is an expression.
    pub const fn is_given(&self) -> bool {
        self.expression.is_some()
    }

    /// Whether a list has a frame, and the condition is true of it.
    ///
    /// # Errors
    /// When it is no expression in any language.
    pub fn fits<'a>(&self, viewer: &Viewer<'a>, frame: Frame<'a>) -> anyhow::Result<bool> {
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
    ) -> anyhow::Result<bool> {
        match viewer.is_true(frame, expression) {
            Ok(Some(is_true)) => {
                self.is_worked_out.store(true, Ordering::Relaxed);
                Ok(is_true)
            }
            Ok(None) => Ok(false),
            Err(error) if matches!(error.kind(), ExpressionErrorKind::Syntax(_)) => {
                bail!("--where: {error}\n{}", error.underlined())
            }
            Err(error) => {
                let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
                unknown.get_or_insert(error);
                Ok(false)
            }
        }
    }

    /// How many frames have fitted.
    pub fn fitting(&self) -> u64 {
        self.fitting.load(Ordering::Relaxed)
    }

    /// Says that no frame has fitted, and why, if the condition was unknown of all.
    pub fn explain_nothing(&self) {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        match &*unknown {
            Some(reason) if !self.is_worked_out.load(Ordering::Relaxed) => {
                let shown = words::printable_lines(&reason.to_string());
                message!("tracewire: --where could be worked out for no frame: {shown}");
            }
            _ => message!("tracewire: --where is true of no frame"),
        }
    }
}
