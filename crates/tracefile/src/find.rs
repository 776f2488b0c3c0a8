//! Searches: the five of GDB's QTFrame packet, and by time, thread and cpu.

use crate::file::TraceFile;
use crate::frame::Frame;
use tracewire_model::{Address, FrameNumber, ThreadId, TracepointNumber};

/// What a frame is looked for by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// The frame of this number, from any start of the search.
    Number(FrameNumber),
    /// A frame whose program counter is this.
    ProgramCounter(Address),
    /// A frame that this tracepoint made.
    Tracepoint(TracepointNumber),
    /// A frame whose program counter is from `start` to `end`, both among them.
    Range {
        /// The first address.
        start: Address,
        /// The last address.
        end: Address,
    },
    /// A frame whose program counter is known and not from `start` to `end`.
    Outside {
        /// The first address.
        start: Address,
        /// The last address.
        end: Address,
    },
    /// A frame made from `start` to `end`, both among them, in microseconds (`$trace_timestamp`).
    Time {
        /// The first microsecond.
        start: u64,
        /// The last microsecond.
        end: u64,
    },
    /// A frame that this thread made (`$trace_thread`).
    Thread(ThreadId),
    /// A frame made on this cpu (`$trace_cpu`).
    Cpu(u32),
}

impl Search {
    /// Whether a frame with this program counter may be one that is looked for.
    fn may_match(&self, address: Address) -> bool {
        match self {
            Self::ProgramCounter(wanted) => address == *wanted,
            Self::Range { start, end } => (start..=end).contains(&&address),
            Self::Outside { start, end } => !(start..=end).contains(&&address),
            _ => true,
        }
    }

    /// Whether the frame is one that is looked for. What a frame does not tell it does not match.
    #[must_use]
    pub fn matches(&self, frame: &Frame<'_>) -> bool {
        let within = |start, end| {
            frame
                .program_counter()
                .map(|at| (start..=end).contains(&at))
        };
        match *self {
            Self::Number(number) => frame.number() == number,
            Self::Tracepoint(number) => frame.tracepoint() == number,
            Self::ProgramCounter(address) => frame.program_counter() == Some(address),
            Self::Range { start, end } => within(start, end) == Some(true),
            Self::Outside { start, end } => within(start, end) == Some(false),
            Self::Time { start, end } => frame
                .timestamp()
                .is_some_and(|time| (start..=end).contains(&time)),
            Self::Thread(thread) => frame.thread() == Some(thread),
            Self::Cpu(cpu) => frame.cpu() == Some(cpu),
        }
    }
}

impl TraceFile {
    /// The first frame after `after` that is looked for; from the first frame of all without `after`, as
    /// QTFrame does it. A search by number does not depend on where it starts.
    #[must_use]
    pub fn find(&self, search: Search, after: Option<FrameNumber>) -> Option<Frame<'_>> {
        if let Search::Number(number) = search {
            return self.frame(number);
        }
        self.find_all(search, after).next()
    }

    /// Every frame after `after` that is looked for, in the file's order.
    pub fn find_all(
        &self,
        search: Search,
        after: Option<FrameNumber>,
    ) -> impl Iterator<Item = Frame<'_>> {
        let start = after.map_or(0, |after| after.0.saturating_add(1));
        self.index()
            .candidates(start, move |address| search.may_match(address))
            .filter(move |number| match search {
                Search::Number(wanted) => *number == wanted,
                Search::Tracepoint(wanted) => self
                    .index()
                    .get(*number)
                    .is_some_and(|(_, tracepoint)| tracepoint == wanted),
                _ => true,
            })
            .filter_map(|number| self.frame(number))
            .filter(move |frame| search.matches(frame))
    }
}
