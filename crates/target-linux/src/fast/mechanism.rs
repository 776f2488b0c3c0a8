//! What a tracepoint is served by, and by what not.

use tracewire_jump_pad::relocate::Way;

/// How a tracepoint works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// A jump into a pad, which the program runs by itself.
    Jump(Way),
    /// A breakpoint, and one stop a hit.
    Trap,
}

impl super::Fast {
    /// In which way the jump at a site is written, if there is one.
    pub(crate) fn way_of(&self, site: u64) -> Option<Way> {
        Some(self.jumps.get(&site)?.jump.way())
    }
}
