//! Call events: 16 bytes for each entry and each exit of a function, for calls that are followed as they come.
//!
//! An event is the time stamp counter, the stack pointer, and the number of the site. A pad writes it into the ring of its
//! thread: no other thread writes there, so that nothing is locked, and events of a thread are in their order. A signal
//! handler that comes between may write to the same ring; room is taken by one instruction.
//!
//! A ring that is full takes no more events until the tracer has read some, and counts what it did not take. So a program
//! whose tracer is gone fills its rings once, and nothing more happens.

mod layout;
mod pad;
mod rings;

pub use pad::CallPad;
pub use rings::{CallRings, Drained, ThreadEvents};

/// The number of a site whose pad makes call events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteNumber(u32);

impl SiteNumber {
    /// How many there can be.
    pub const COUNT: usize = 1 << layout::SITE_BITS;

    /// The site of this index; `None` if there are not so many.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?;
        (index < Self::COUNT).then_some(Self(number))
    }

    /// Its index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread has passed a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallEvent {
    /// The time stamp counter ([`counter`](crate::counter)).
    pub time: u64,
    /// The stack pointer before the instruction at the site, its lowest three bits cleared.
    pub stack: u64,
    /// The site.
    pub site: SiteNumber,
}
