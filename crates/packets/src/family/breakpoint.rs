//! Breakpoints and watchpoints: `Z` and `z`.

use std::fmt;

use tracewire_model::Address;

use crate::field::{Field, HexBytes};
use crate::packets::packets;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about breakpoints. Both are idempotent: GDB sends `Z` again with new conditions for one that is there.
    pub enum BreakpointRequest {
        /// `Z`: insert.
        Insert {
            /// Which kind.
            kind: BreakpointKind,
            /// Where.
            address: Address,
            /// The length of the breakpoint instruction as the architecture gives it, or of the memory watched.
            length: u64,
            /// Conditions and commands, which the target evaluates.
            options: BreakpointOptions,
        } = ["Z" kind "," address "," length options] => { format!("insert a {kind} at {address}{options}") }

        /// `z`: remove.
        Remove {
            /// Which kind.
            kind: BreakpointKind,
            /// Where.
            address: Address,
            /// As at insertion.
            length: u64,
        } = ["z" kind "," address "," length] => "remove the {kind} at {address}"
    }
}

/// Kinds of breakpoint, by the digit after `Z`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BreakpointKind {
    /// `0`.
    Software,
    /// `1`.
    Hardware,
    /// `2`.
    WriteWatchpoint,
    /// `3`.
    ReadWatchpoint,
    /// `4`.
    AccessWatchpoint,
}

impl BreakpointKind {
    const ALL: [Self; 5] = [
        Self::Software,
        Self::Hardware,
        Self::WriteWatchpoint,
        Self::ReadWatchpoint,
        Self::AccessWatchpoint,
    ];
}

impl fmt::Display for BreakpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software breakpoint",
            Self::Hardware => "hardware breakpoint",
            Self::WriteWatchpoint => "write watchpoint",
            Self::ReadWatchpoint => "read watchpoint",
            Self::AccessWatchpoint => "access watchpoint",
        })
    }
}

impl Field for BreakpointKind {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        scanner
            .byte()
            .and_then(|digit| Self::ALL.get(usize::from(digit.wrapping_sub(b'0'))))
            .copied()
            .ok_or_else(|| start.expected("a kind of breakpoint, 0 to 4"))
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.push(b'0' + *self as u8);
    }
}

/// The agent expressions that the target evaluates at a breakpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BreakpointOptions {
    /// The breakpoint is reported when one of these is true, or cannot be evaluated. None: always.
    pub conditions: Vec<Vec<u8>>,
    /// The commands, in order, which run without a report (`dprintf` with `set dprintf-style agent`).
    pub commands: Vec<Vec<u8>>,
    /// Whether the commands go on without GDB (`set disconnected-dprintf`). Meaningless without commands.
    pub persist: bool,
}

impl fmt::Display for BreakpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.conditions.is_empty() {
            f.write_str(", with a condition")?;
        }
        if !self.commands.is_empty() {
            f.write_str(", with commands")?;
        }
        Ok(())
    }
}

/// `Xlength,bytes` one after the other.
fn scan_expressions(scanner: &mut Scanner<'_>) -> Result<Vec<Vec<u8>>, Expected> {
    let mut expressions = Vec::new();
    while scanner.take("X") {
        expressions.push(scan_expression(scanner)?);
    }
    Ok(expressions)
}

/// `length,bytes`, where only the length separates the bytes from the rest.
fn scan_expression(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, Expected> {
    let start = *scanner;
    let length = scanner.hex()?;
    scanner.literal(",")?;
    let HexBytes(bytes) = Field::scan(scanner)?;
    if bytes.len() as u64 == length {
        Ok(bytes)
    } else {
        Err(start.expected("the number of bytes that follow"))
    }
}

fn print_expressions(expressions: &[Vec<u8>], out: &mut Vec<u8>) {
    for expression in expressions {
        out.push(b'X');
        hex::put_number(expression.len() as u64, out);
        out.push(b',');
        hex::encode(expression, out);
    }
}

impl Field for BreakpointOptions {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut options = Self::default();
        while scanner.take(";") {
            if scanner.take("cmds:") {
                options.persist = Field::scan(scanner)?;
                scanner.literal(",")?;
                options.commands.extend(scan_expressions(scanner)?);
            } else if scanner.peek() == Some(b'X') {
                options.conditions.extend(scan_expressions(scanner)?);
            } else {
                return Err(scanner.expected("conditions (X) or commands (cmds:)"));
            }
        }
        Ok(options)
    }

    fn print(&self, out: &mut Vec<u8>) {
        if !self.conditions.is_empty() {
            out.push(b';');
            print_expressions(&self.conditions, out);
        }
        if !self.commands.is_empty() {
            out.extend_from_slice(b";cmds:");
            self.persist.print(out);
            out.push(b',');
            print_expressions(&self.commands, out);
        }
    }
}

#[cfg(test)]
mod samples {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{BreakpointKind, BreakpointOptions};
    use crate::field::Sample;

    impl Sample for BreakpointKind {
        fn strategy() -> BoxedStrategy<Self> {
            proptest::sample::select(&Self::ALL[..]).boxed()
        }
    }

    impl Sample for BreakpointOptions {
        fn strategy() -> BoxedStrategy<Self> {
            let expressions = vec(vec(any::<u8>(), 0..10), 0..3);
            (expressions.clone(), expressions, any::<bool>())
                .prop_map(|(conditions, commands, persist)| Self {
                    persist: persist && !commands.is_empty(),
                    conditions,
                    commands,
                })
                .boxed()
        }
    }
}
