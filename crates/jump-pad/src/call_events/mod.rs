//! Call events: 16 bytes for each entry and each exit of a function.
//!
//! An event is the time stamp counter, the stack pointer, and the number of the site. A pad writes it into the ring of its
//! thread. No other thread writes there, so there is no lock, and a thread's events are in order. A signal handler that
//! interrupts the pad may write to the same ring; one instruction takes the space.
//!
//! A full ring takes no more events until the tracer has read some, and it counts the lost ones. So a program without a tracer
//! fills its rings once, and then nothing more happens.

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

    /// The site of this index; `None` if it is too large.
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
