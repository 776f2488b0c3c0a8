//! What was done to memory, in the order of addresses.

use std::ops::{ControlFlow, RangeInclusive};

use tracewire_model::Address;

use super::memory::each_entry;
use super::{ReadError, Recording};
use crate::compact::bytes::Damaged;
use crate::compact::part::{GRANULE, bytes_mask};
use crate::index::{Follower, Table, byte_bits};
use crate::record::InstructionNumber;

/// An access to memory, or the part of one that is between two multiples of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// From which instruction on it is seen: the one after that which made it; 0 for what the trace reports before all instructions.
    pub seen_from: InstructionNumber,
    /// The first byte.
    pub address: Address,
    /// How many bytes, 1 to 8.
    pub size: u8,
    /// Whether it is a write.
    pub is_write: bool,
    /// What the bytes hold after it, the one at the lowest address in the lowest bits; none where one is not known.
    pub word: Option<u64>,
}

impl Recording {
    /// Visits what was done to the bytes at some addresses, both ends included, until the visitor breaks: in the order of multiples of
    /// 8, and of time in each. An access that crosses such a multiple is visited once on each side.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn for_each_touch(
        &self,
        addresses: RangeInclusive<u64>,
        visit: &mut dyn FnMut(&Touch) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let (first, last) = (*addresses.start(), *addresses.end());
        // What was visited before the file turned out to be damaged is not visited again.
        let mut visited = 0u64;
        let visit = std::cell::RefCell::new((visit, &mut visited));
        self.ask(|store| {
            let (visit, visited) = &mut *visit.borrow_mut();
            let mut seen = 0;
            let mut follower = Follower::default();
            let mut granule = None;
            each_entry(store, first / GRANULE, last / GRANULE, |item| {
                if granule != Some(item.granule) {
                    granule = Some(item.granule);
                    follower = Follower::default();
                }
                follower.pass(item);
                let address = item.granule.wrapping_mul(GRANULE) + u64::from(item.offset);
                let end = address + u64::from(item.length - 1);
                if end < first || address > last {
                    return Ok(true);
                }
                seen += 1;
                if seen <= **visited {
                    return Ok(true);
                }
                **visited += 1;
                let bytes = byte_bits(item.offset, item.length);
                let is_known = follower.state.known & bytes == bytes;
                let word = follower.state.value >> (item.offset * 8);
                let touch = Touch {
                    seen_from: InstructionNumber(item.slot),
                    address: Address(address),
                    size: item.length,
                    is_write: item.kind.is_write(),
                    word: is_known.then_some(word & bytes_mask(item.length.into())),
                };
                Ok(visit(&touch).is_continue())
            })
        })
    }

    /// Cuts the addresses that were accessed into ranges that are good to go over side by side, about so many.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn touched_ranges(&self, count: usize) -> Result<Vec<RangeInclusive<u64>>, ReadError> {
        self.ask(|store| {
            let pages = store.page_count();
            let step = pages.div_ceil(count.max(1)).max(1);
            let mut starts = vec![0];
            for page in (step..pages).step_by(step) {
                // The granule's first entries may be in the page before: a range begins with the granule, wherever its entries are.
                let first = store.number(Table::Pages, page, 0)?;
                starts.push(first.checked_mul(GRANULE).ok_or(Damaged)?);
            }
            starts.dedup();
            let ends = starts.iter().skip(1).map(|next| next - 1);
            let ends = ends.chain([u64::MAX]);
            Ok(starts
                .iter()
                .zip(ends)
                .map(|(start, end)| *start..=end)
                .collect())
        })
    }
}
