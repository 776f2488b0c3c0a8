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

/// How the goroutine of a call is found at a location of a Go program. Threads take turns with a goroutine, and its stack moves when
/// it grows. So a call is named by the goroutine's number, and by how far its stack pointer is from the end of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoroutinePoint {
    /// The register that has the address of the goroutine (`runtime.g`).
    pub register: RegisterNumber,
    /// Where the end of its stack is there, the highest address: the offset of eight bytes.
    pub stack_end: u16,
    /// The offset of its number, eight bytes too. The number is 0 while a thread runs the scheduler.
    pub number: u16,
}

impl GoroutinePoint {
    /// The stacks of goroutines are smaller: the runtime's default limit is 1 GB.
    const LARGEST_STACK: u64 = 1 << 31;

    /// The distance of a stack pointer from the end of its stack, in bytes; none where it is no place on the stack.
    #[must_use]
    pub fn distance(stack_end: u64, stack_pointer: u64) -> Option<u64> {
        let distance = stack_end.checked_sub(stack_pointer)?;
        (distance < Self::LARGEST_STACK).then_some(distance)
    }

    /// A number for a call in place of its stack pointer, as pads compute it. Calls that are open at the same time have different ones
    /// where fewer than 16 million goroutines were made, or where their stacks differ in depth.
    #[must_use]
    pub const fn call(number: u64, stack_end: u64, stack_pointer: u64) -> u64 {
        let distance = stack_end.wrapping_sub(stack_pointer) >> 3;
        (number << Self::DISTANCE_BITS).wrapping_add(distance)
    }

    /// How many bits of such a number the distance has, in units of eight bytes.
    pub const DISTANCE_BITS: u32 = 23;
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
    /// In a Go program, how the goroutine is found.
    pub goroutine: Option<GoroutinePoint>,
}

/// `STATEMENT ROLE FUNCTION REGISTER OFFSET`: `span return 0x401136 7 0`; with a goroutine `goroutine REGISTER STACK_END NUMBER`
/// follows.
impl fmt::Display for SpanPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = match self.statement {
            SpanStatement::Span => "span",
            SpanStatement::Return => "return",
        };
        let role = self.role.name();
        let (function, register, offset) = (self.function, self.register.0, self.offset);
        write!(f, "{statement} {role} {function} {register} {offset}")?;
        if let Some(goroutine) = self.goroutine {
            let GoroutinePoint {
                register,
                stack_end,
                number,
            } = goroutine;
            write!(f, " goroutine {} {stack_end} {number}", register.0)?;
        }
        Ok(())
    }
}

/// The text is no location of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected STATEMENT ROLE FUNCTION REGISTER OFFSET [goroutine REGISTER STACK_END NUMBER]")]
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
        let goroutine = match word() {
            Err(_) => None,
            Ok("goroutine") => {
                let mut number = || word()?.parse().map_err(|_| SpanPointError);
                Some(GoroutinePoint {
                    register: RegisterNumber(number()?),
                    stack_end: number()?,
                    number: number()?,
                })
            }
            Ok(_) => return Err(SpanPointError),
        };
        if words.next().is_some() {
            return Err(SpanPointError);
        }
        Ok(Self {
            statement,
            role: role.ok_or(SpanPointError)?.0,
            function: Address(u64::from_str_radix(function, 16).map_err(|_| SpanPointError)?),
            register: RegisterNumber(register),
            offset,
            goroutine,
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
                let of_go = GoroutinePoint {
                    register: RegisterNumber(14),
                    stack_end: 8,
                    number: 152,
                };
                for goroutine in [None, Some(of_go)] {
                    let point = SpanPoint {
                        statement,
                        role,
                        function: Address(0xffff_ffff_8100_0000),
                        register: RegisterNumber(7),
                        offset: -16,
                        goroutine,
                    };
                    assert_eq!(point.to_string().parse(), Ok(point));
                }
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
            "span entry 0x1 7 0 goroutine 14 8",
            "span entry 0x1 7 0 goroutine 14 8 70000",
            "span entry 0x1 7 0 goroutine 14 8 152 more",
            "span exit 0x1 7 0",
            "trace entry 0x1 7 0",
            "span entry 0x1 99999 0",
        ] {
            assert_eq!(text.parse::<SpanPoint>(), Err(SpanPointError), "{text}");
        }
    }
}
