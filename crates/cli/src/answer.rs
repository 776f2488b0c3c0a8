//! The result of a command.

/// The result of a command without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done: exit status 0.
    Yes,
    /// The answer is no: exit status 1.
    No,
}
