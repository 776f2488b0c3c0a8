//! Errors of expressions, with the wrong token.

use std::fmt;

use tracewire_model::Address;

/// A stretch of an expression's text, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn to(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// An expression that cannot be read, compiled or evaluated: why, and at which token.
///
/// Its text is one line. [`ExpressionError::underlined`] shows the expression with the token underlined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    kind: ExpressionErrorKind,
    text: String,
    span: Span,
}

/// Why an expression cannot be read, compiled or evaluated. The texts are GDB's where GDB has one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionErrorKind {
    /// The text is not an expression.
    #[error("{0}")]
    Syntax(String),
    /// No variable, function or enumerator of the name is visible.
    #[error("No symbol \"{name}\" in current context.{}", near_names(.near))]
    NoSymbol {
        /// The name that was looked for.
        name: String,
        /// Names like it, nearest first.
        near: Vec<String>,
    },
    /// No type of the name exists.
    #[error("No {what} named {name}.")]
    NoType {
        /// `struct type`, `type`, …
        what: &'static str,
        /// The name that was looked for.
        name: String,
    },
    /// The structure has no such member.
    #[error("There is no member named {name}.{}", near_names(.near))]
    NoMember {
        /// The name that was looked for.
        name: String,
        /// Names like it, nearest first.
        near: Vec<String>,
    },
    /// A `$name` that is neither a register nor a trace state variable.
    #[error(
        "${0} is not a trace state variable or a register; agent expressions cannot use convenience variables."
    )]
    NoVariable(String),
    /// `$_probe_arg0` and the like where there is no marker.
    #[error("No probe at PC {0}")]
    NoMarker(Address),
    /// The marker has fewer arguments.
    #[error("Invalid probe argument {index} -- probe has {count} arguments available")]
    NoMarkerArgument {
        /// The requested one, from 0 on.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The operation does not fit its operands' types.
    #[error("{0}")]
    Type(String),
    /// The variable has no place at this program counter.
    #[error("`{0}' has been optimized out, cannot use")]
    OptimizedOut(String),
    /// The variable's place cannot be worked out at this program counter.
    #[error("`{name}' cannot be located: {reason}")]
    NoLocation {
        /// The variable.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A trace state cannot do this: the bytecode has no instruction for it.
    #[error("{0}")]
    Unsupported(String),
    /// The value was not collected.
    #[error("value is not available")]
    Unavailable,
    /// The value is redacted: a pattern fits the name of a variable, a member or a type.
    #[error("value is redacted")]
    Redacted,
    /// The value was optimized out.
    #[error("value has been optimized out")]
    ValueOptimizedOut,
    /// The memory is not there.
    #[error("Cannot access memory at address {0}")]
    Memory(Address),
    /// Division by zero.
    #[error("Division by zero")]
    DivisionByZero,
    /// A limit of this crate was reached.
    #[error("{0}")]
    TooLarge(String),
}

fn near_names(near: &[String]) -> String {
    match near {
        [] => String::new(),
        names => format!(" Did you mean \"{}\"?", names.join("\" or \"")),
    }
}

impl ExpressionError {
    pub(crate) fn new(kind: ExpressionErrorKind, text: &str, span: Span) -> Self {
        Self {
            kind,
            text: text.to_owned(),
            span,
        }
    }

    /// Why.
    #[must_use]
    pub fn kind(&self) -> &ExpressionErrorKind {
        &self.kind
    }

    /// The expression as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The position of the wrong token in [`Self::text`], in bytes from the text's start.
    #[must_use]
    pub fn span(&self) -> std::ops::Range<usize> {
        self.span.start..self.span.end
    }

    /// Two lines: the expression, and below it carets under the token. Without a line feed at the end.
    #[must_use]
    pub fn underlined(&self) -> String {
        let before = self.text.get(..self.span.start).unwrap_or(&self.text);
        let token = self.text.get(self.span.start..self.span.end).unwrap_or("");
        let line: String = (self.text.chars())
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        format!(
            "{line}\n{}{}",
            " ".repeat(before.chars().count()),
            "^".repeat(token.chars().count().max(1))
        )
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for ExpressionError {}
