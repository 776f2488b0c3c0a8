//! How a tracepoint is served, and why not by a jump.

use tracewire_jump_pad::relocate::Way;

/// How a tracepoint is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// A jump to a pad.
    Jump(Way),
    /// A breakpoint, and one stop a hit.
    Trap,
}

impl super::Fast {
    /// The form of the jump at a site, if there is one.
    pub(crate) fn way_of(&self, site: u64) -> Option<Way> {
        Some(self.jumps.get(&site)?.jump.way())
    }
}
