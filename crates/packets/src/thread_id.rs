//! How packets name threads.

use std::fmt;

use crate::field::Field;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// Which of several: one, any (`0`), or all (`-1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Which {
    /// `0`: whichever the stub likes.
    Any,
    /// `-1`: every one.
    All,
    /// This one, by the number the stub gave it; never 0.
    One(u32),
}

/// A thread-id: `TID`, or with the `multiprocess` feature `pPID.TID`; each part may be `0` (any) or `-1` (all).
///
/// `pPID` alone is all threads of the process (the manual's section Packets) and is printed as `pPID.-1`, as GDB does.
/// Process and thread numbers are the stub's own; a stub for Linux gives the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadSelector {
    /// The process; none when the feature is not in use.
    pub process: Option<Which>,
    /// The thread.
    pub thread: Which,
}

impl ThreadSelector {
    /// `-1`: every thread of every process.
    pub const ALL: Self = Self {
        process: None,
        thread: Which::All,
    };
    /// `0`: any thread.
    pub const ANY: Self = Self {
        process: None,
        thread: Which::Any,
    };

    /// One thread of one process, as a stub with the `multiprocess` feature names it.
    #[must_use]
    pub const fn of(process: u32, thread: u32) -> Self {
        Self {
            process: Some(Which::One(process)),
            thread: Which::One(thread),
        }
    }

    /// Whether the thread with these numbers is meant. Any is taken for all.
    #[must_use]
    pub fn matches(&self, process: u32, thread: u32) -> bool {
        let fits = |which: Which, number| !matches!(which, Which::One(one) if one != number);
        self.process.is_none_or(|which| fits(which, process)) && fits(self.thread, thread)
    }
}

fn scan_which(scanner: &mut Scanner<'_>) -> Result<Which, Expected> {
    if scanner.take("-1") {
        return Ok(Which::All);
    }
    let number = scanner.hex_up_to(
        u64::from(u32::MAX),
        "-1, 0 or a process or thread number of at most ffffffff",
    )?;
    Ok(match number {
        0 => Which::Any,
        number => Which::One(number as u32),
    })
}

fn print_which(which: Which, out: &mut Vec<u8>) {
    match which {
        Which::Any => out.push(b'0'),
        Which::All => out.extend_from_slice(b"-1"),
        Which::One(number) => hex::put_number(u64::from(number), out),
    }
}

impl Field for ThreadSelector {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if !scanner.take("p") {
            return Ok(Self {
                process: None,
                thread: scan_which(scanner)?,
            });
        }
        let process = Some(scan_which(scanner)?);
        let thread = if scanner.take(".") {
            scan_which(scanner)?
        } else {
            Which::All
        };
        Ok(Self { process, thread })
    }

    fn print(&self, out: &mut Vec<u8>) {
        if let Some(process) = self.process {
            out.push(b'p');
            print_which(process, out);
            out.push(b'.');
        }
        print_which(self.thread, out);
    }
}

impl fmt::Display for ThreadSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            Which::Any => f.write_str("any thread")?,
            Which::All => f.write_str("all threads")?,
            Which::One(thread) => write!(f, "thread {thread}")?,
        }
        match self.process {
            None => Ok(()),
            Some(Which::Any) => f.write_str(" of any process"),
            Some(Which::All) => f.write_str(" of all processes"),
            Some(Which::One(process)) => write!(f, " of process {process}"),
        }
    }
}

/// Threads with a `,` between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadList(pub Vec<ThreadSelector>);

impl Field for ThreadList {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut threads = Vec::new();
        loop {
            threads.push(ThreadSelector::scan(scanner)?);
            if !scanner.take(",") {
                return Ok(Self(threads));
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, thread) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            thread.print(out);
        }
    }
}

#[cfg(test)]
impl crate::field::Sample for ThreadSelector {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::prelude::*;
        let which = prop_oneof![
            Just(Which::Any),
            Just(Which::All),
            (1..=u32::MAX).prop_map(Which::One)
        ];
        (proptest::option::of(which.clone()), which)
            .prop_map(|(process, thread)| Self { process, thread })
            .boxed()
    }
}
