//! Expressions of the user's, evaluated on frames.

use tracewire_symbols::{ExpressionError, State as _};
use tracewire_tracefile::Frame;

use crate::frame::Viewer;
use crate::state::FrameState;

impl<'a> Viewer<'a> {
    /// Evaluates an expression on a frame and tells whether it is true.
    #[must_use]
    pub fn truth(&self, frame: Frame<'a>, expression: &str) -> Truth {
        let Some(state) = FrameState::new(self.file(), frame) else {
            return Truth::NoPlace;
        };
        match self.printed(frame, &state, expression) {
            Ok(printed) => match truth(&printed) {
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
        let printed = self.printed(frame, &state, expression).ok()?;
        (printed != "<unavailable>").then_some(printed)
    }

    fn printed(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
        expression: &str,
    ) -> Result<String, ExpressionError> {
        let prepared = self.here(frame, state.pc()).expression(expression);
        let value = prepared
            .as_ref()
            .as_ref()
            .map_err(Clone::clone)?
            .evaluate(state)?;
        Ok(value.print(self.symbols(frame), state, &self.options))
    }
}

/// Whether an expression is true of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Truth {
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

/// Whether a printed number, truth value or pointer is not zero; `None` for what has no truth.
fn truth(printed: &str) -> Option<bool> {
    let text = printed.trim();
    // A pointer is shown with its type: `(struct job *) 0x0`.
    let text = match text
        .strip_prefix('(')
        .and_then(|rest| rest.rsplit_once(") "))
    {
        Some((_, value)) => value,
        None => text,
    };
    let word = text.split_whitespace().next()?;
    match word {
        "true" => return Some(true),
        "false" => return Some(false),
        _ => {}
    }
    if let Some(digits) = word.strip_prefix("0x") {
        return digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| digits.bytes().any(|byte| byte != b'0'));
    }
    word.parse::<f64>().ok().map(|number| number != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truths() {
        for (printed, expected) in [
            ("0", Some(false)),
            ("-3", Some(true)),
            ("true", Some(true)),
            ("false", Some(false)),
            ("0 '\\000'", Some(false)),
            ("97 'a'", Some(true)),
            ("(struct job *) 0x0", Some(false)),
            ("(int (*)(int)) 0x401136 <handle>", Some(true)),
            ("0x0", Some(false)),
            ("0.5", Some(true)),
            ("{id = 1}", None),
            ("<unavailable>", None),
        ] {
            assert_eq!(truth(printed), expected, "{printed}");
        }
    }
}
