//! Spans: the roles of a tracepoint's locations in the function whose calls it measures.
//!
//! A span tracepoint has several locations: the function's entry, and each instruction by which the function is left. A source
//! string of our own (`span`) gives the role of each location. So a reader matches the frames of entries and returns without the
//! program's symbols. `docs/formats/trace-file-extensions.md` has the form.

use std::fmt;
use std::str::FromStr;

use crate::number::{Address, RegisterNumber};

/// The statement of a span.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpanStatement {
    /// `span`: the list is collected at the entry, the return value at the return.
    Span,
    /// `return`: the list is collected at the return.
    Return,
}

/// The role of a location in the function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpanRole {
    /// The function is entered there.
    Entry,
    /// It is entered there, and a jump within the function leads there too: a hit in an open span with the same stack position is
    /// no entry.
    EntryAndLoop,
    /// Its only instruction: it is entered there, and returns.
    EntryAndReturn,
    /// Its only instruction: it is entered there, and jumps to another function.
    EntryAndTailCall,
    /// It returns there.
    Return,
    /// It jumps to another function there, which returns in its place.
    TailCall,
    /// It may jump to another function there, or go on.
    MayTailCall,
    /// An exception is thrown there, which may leave any function.
    Exception,
    /// `longjmp`, which may leave any function.
    Longjmp,
    /// The thread ends itself there.
    ThreadExit,
    /// An exception has arrived in the function that handles it: all functions that it called are left.
    Landing,
    /// An exception leaves a function that has just cleaned up. All functions that it called are left already.
    Resume,
}

impl SpanRole {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Entry, "entry"),
        (Self::EntryAndLoop, "entry-loop"),
        (Self::EntryAndReturn, "entry-return"),
        (Self::EntryAndTailCall, "entry-tail-call"),
        (Self::Return, "return"),
        (Self::TailCall, "tail-call"),
        (Self::MayTailCall, "may-tail-call"),
        (Self::Exception, "exception"),
        (Self::Longjmp, "longjmp"),
        (Self::ThreadExit, "thread-exit"),
        (Self::Landing, "landing"),
        (Self::Resume, "resume"),
    ];

    /// Whether the function is entered there.
    #[must_use]
    pub const fn is_entry(self) -> bool {
        matches!(
            self,
            Self::Entry | Self::EntryAndLoop | Self::EntryAndReturn | Self::EntryAndTailCall
        )
    }

    /// Whether it is outside of the function: a place where functions are left in another way than by a return.
    #[must_use]
    pub const fn is_departure(self) -> bool {
        matches!(
            self,
            Self::Exception | Self::Longjmp | Self::ThreadExit | Self::Landing | Self::Resume
        )
    }

    /// Whether the function returns there, with a value.
    #[must_use]
    pub const fn is_return(self) -> bool {
        matches!(self, Self::Return | Self::EntryAndReturn)
    }

    /// The word in a source string.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(role, _)| *role == self);
        known.map_or("", |(_, name)| name)
    }
}

/// The role of a location in a function, and how the stack position of the call is computed there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanPoint {
    /// The statement that defined it.
    pub statement: SpanStatement,
    /// Its role in the function.
    pub role: SpanRole,
    /// The function's first instruction.
    pub function: Address,
    /// The register from whose value the stack pointer at the function's first instruction is computed.
    pub register: RegisterNumber,
    /// The offset that is added to the register.
    pub offset: i64,
}

/// `STATEMENT ROLE FUNCTION REGISTER OFFSET`: `span return 0x401136 7 0`.
impl fmt::Display for SpanPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = match self.statement {
            SpanStatement::Span => "span",
            SpanStatement::Return => "return",
        };
        let role = self.role.name();
        let (function, register, offset) = (self.function, self.register.0, self.offset);
        write!(f, "{statement} {role} {function} {register} {offset}")
    }
}

/// The text is no location of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected STATEMENT ROLE FUNCTION REGISTER OFFSET")]
pub struct SpanPointError;

impl FromStr for SpanPoint {
    type Err = SpanPointError;

    fn from_str(text: &str) -> Result<Self, SpanPointError> {
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or(SpanPointError);
        let statement = match word()? {
            "span" => SpanStatement::Span,
            "return" => SpanStatement::Return,
            _ => return Err(SpanPointError),
        };
        let role = word()?;
        let role = SpanRole::ALL.iter().find(|(_, name)| *name == role);
        let function = word()?.strip_prefix("0x").ok_or(SpanPointError)?;
        let register = word()?.parse().map_err(|_| SpanPointError)?;
        let offset = word()?.parse().map_err(|_| SpanPointError)?;
        if words.next().is_some() {
            return Err(SpanPointError);
        }
        Ok(Self {
            statement,
            role: role.ok_or(SpanPointError)?.0,
            function: Address(u64::from_str_radix(function, 16).map_err(|_| SpanPointError)?),
            register: RegisterNumber(register),
            offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_comes_back() {
        for (role, _) in SpanRole::ALL {
            for statement in [SpanStatement::Span, SpanStatement::Return] {
                let point = SpanPoint {
                    statement,
                    role,
                    function: Address(0xffff_ffff_8100_0000),
                    register: RegisterNumber(7),
                    offset: -16,
                };
                assert_eq!(point.to_string().parse(), Ok(point));
            }
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "span",
            "span entry 0x1 7",
            "span entry 1 7 0",
            "span entry 0x1 7 0 more",
            "span exit 0x1 7 0",
            "trace entry 0x1 7 0",
            "span entry 0x1 99999 0",
        ] {
            assert_eq!(text.parse::<SpanPoint>(), Err(SpanPointError), "{text}");
        }
    }
}
