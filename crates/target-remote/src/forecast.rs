//! Which memory a hit is likely to read: that which the latest hits have read.
//!
//! Where the register block is not expedited, a hit costs a round trip for it, and one more for memory whose address is known by
//! then. A hit of a function that is called at the same depth reads the same memory again, so that this is read with the block.

use std::collections::VecDeque;

use tracewire_model::Address;

use crate::stub::Piece;

/// How many sites are remembered.
const MOST_SITES: usize = 4;
/// How many pieces of each, and how many bytes: this costs a reply without use where the stack is deeper.
const MOST_PIECES: usize = 4;
const MOST_BYTES: usize = 512;

/// The memory that the latest hits have read.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    /// The latest first.
    sites: VecDeque<(Address, Vec<Piece>)>,
}

impl Forecast {
    /// A hit at a site has read this.
    pub(crate) fn note(&mut self, site: Address, pieces: Vec<Piece>) {
        self.sites.retain(|(other, _)| *other != site);
        let bytes: usize = pieces.iter().map(|(_, length)| length).sum();
        if pieces.len() <= MOST_PIECES && bytes <= MOST_BYTES {
            self.sites.push_front((site, pieces));
            self.sites.truncate(MOST_SITES);
        }
    }

    /// What the next hit is likely to read.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let all = self.sites.iter().flat_map(|(_, pieces)| pieces);
        let mut pieces: Vec<Piece> = all.copied().collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_hits_of_few_sites_are_remembered() {
        let mut forecast = Forecast::default();
        for site in 0..6 {
            forecast.note(Address(site), vec![(Address(0x100 * site), 8)]);
        }
        let four: Vec<_> = (2..6).map(|site| (Address(0x100 * site), 8)).collect();
        assert_eq!(forecast.pieces(), four);
        // The same place in another frame of the stack.
        forecast.note(Address(5), vec![(Address(0x580), 8), (Address(0x200), 8)]);
        assert_eq!(forecast.pieces().len(), 4);
        // A wrong forecast must not cost much memory.
        forecast.note(Address(5), vec![(Address(0), MOST_BYTES + 1)]);
        assert_eq!(forecast.pieces().len(), 3);
    }
}
