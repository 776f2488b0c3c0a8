//! The code of an entry.

use gimli::{AttributeValue, constants};

use super::{Entry, Unit};
use crate::module::Reader;

type Dwarf = gimli::Dwarf<Reader>;

/// How many address ranges the units of one module may have: a damaged file can name one long list often.
pub(super) const MOST_UNIT_RANGES: usize = 1 << 21;

/// The ranges of an entry's code in the order of their list, without empty ones and those that the linker dropped, which are at 0.
///
/// gimli's own function adds `DW_AT_high_pc` to `DW_AT_low_pc` without a look at the sum, which a damaged file makes too large.
pub(super) fn code_ranges(dwarf: &Dwarf, unit: &Unit, entry: &Entry) -> Vec<(u64, u64)> {
    let address = |attribute| {
        let value = entry.attr_value(attribute)?;
        dwarf.attr_address(unit, value).ok().flatten()
    };
    let list = entry
        .attr_value(constants::DW_AT_ranges)
        .and_then(|value| dwarf.attr_ranges(unit, value).ok().flatten());
    let mut ranges = Vec::new();
    let mut add = |start: u64, end: u64| {
        if start < end && start != 0 {
            ranges.push((start, end));
        }
        ranges.len() <= MOST_UNIT_RANGES
    };
    if let Some(mut list) = list {
        while let Ok(Some(range)) = list.next() {
            if !add(range.begin, range.end) {
                break;
            }
        }
        return ranges;
    }
    let Some(start) = address(constants::DW_AT_low_pc) else {
        return ranges;
    };
    let end = match entry.attr_value(constants::DW_AT_high_pc) {
        Some(AttributeValue::Udata(size)) => start.checked_add(size),
        Some(_) => address(constants::DW_AT_high_pc),
        None => None,
    };
    if let Some(end) = end {
        add(start, end);
    }
    ranges
}
