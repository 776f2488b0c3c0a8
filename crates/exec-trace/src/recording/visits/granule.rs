//! What a granule of memory held, from one instant on to another.

use super::super::memory::{known_bytes, page_before};
use crate::compact::bytes::Damaged;
use crate::index::{Follower, PageState, Store, Table};

/// What a granule held, for some time.
pub(super) struct Granule {
    /// Before the first of the changes.
    pub(super) before: PageState,
    /// From which instruction on it held what.
    changes: Vec<(u64, PageState)>,
    /// How many of the changes are past.
    passed: usize,
    /// The instants for which this holds.
    from: u64,
    until: u64,
    /// What bytes hold until an access touches them.
    pub(super) untouched: [Option<u8>; 8],
}

impl Granule {
    /// What it holds before an instruction, and on to the end of the page that gives it.
    pub(super) fn read(store: &Store, now: u64, granule: u64) -> Result<Self, Damaged> {
        let mut known = Self {
            before: PageState::default(),
            changes: Vec::new(),
            passed: 0,
            from: now,
            until: u64::MAX,
            untouched: [None; 8],
        };
        let after = match page_before(store, granule, now)? {
            None => 0,
            Some(number) => {
                let mut page = store.page(number)?;
                let mut follower = if store.number(Table::Pages, number, 0)? == granule {
                    Follower::new(page.state())
                } else {
                    Follower::default()
                };
                while let Some(item) = page.next()? {
                    if item.granule > granule {
                        break;
                    }
                    if item.granule == granule {
                        if item.slot > now && known.changes.is_empty() {
                            known.before = follower.state;
                        }
                        follower.pass(&item);
                        if item.slot > now {
                            known.changes.push((item.slot, follower.state));
                        }
                    }
                }
                if known.changes.is_empty() {
                    known.before = follower.state;
                }
                number + 1
            }
        };
        // The page after goes on with it, or with another.
        if after < store.page_count() && store.number(Table::Pages, after, 0)? == granule {
            known.until = store.number(Table::Pages, after, 1)?;
        }
        Ok(known)
    }

    /// What it holds before an instruction, if that is known here.
    pub(super) fn at(&mut self, now: u64) -> Option<[Option<u8>; 8]> {
        if !(self.from..self.until).contains(&now) {
            return None;
        }
        self.from = now;
        let past = self.changes[self.passed..]
            .iter()
            .take_while(|(slot, _)| *slot <= now);
        self.passed += past.count();
        let state = match self.passed.checked_sub(1) {
            Some(last) => self.changes[last].1,
            None => self.before,
        };
        Some(self.bytes(&state))
    }

    pub(super) fn bytes(&self, state: &PageState) -> [Option<u8>; 8] {
        let mut bytes = known_bytes(state);
        for (place, byte) in bytes.iter_mut().enumerate() {
            if state.touched >> place & 1 == 0 {
                *byte = self.untouched[place];
            }
        }
        bytes
    }
}
