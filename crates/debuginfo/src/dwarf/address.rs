//! Which unit has the code at an address.

use gimli::constants;

use super::ranges::MOST_UNIT_RANGES;
use super::ranges::code_ranges;
use super::{DebugInformation, Unit};

/// Code of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitRange {
    start: u64,
    end: u64,
    unit: usize,
    /// The greatest end of this and all before it.
    reach: u64,
}

impl DebugInformation {
    /// The unit that has the code at a link-time address; the one with the smallest range where several do.
    pub(crate) fn unit_at(&self, address: u64) -> Option<usize> {
        let ranges = self.by_address.get_or_init(|| self.read_ranges());
        let end = ranges.partition_point(|range| range.start <= address);
        ranges
            .get(..end)?
            .iter()
            .rev()
            .take_while(|range| range.reach > address)
            .filter(|range| range.end > address)
            .min_by_key(|range| range.end - range.start)
            .map(|range| range.unit)
    }

    fn read_ranges(&self) -> Vec<UnitRange> {
        let mut ranges = Vec::new();
        for number in 0..self.unit_count() {
            let Some((dwarf, unit)) = self.with_ranges(number) else {
                continue;
            };
            let before = ranges.len();
            if let Ok(root) = unit.entry(unit.header.root_offset()) {
                let code = code_ranges(dwarf, unit, &root);
                ranges.extend(code.into_iter().map(|(start, end)| (start, end, number)));
            }
            if ranges.len() == before && self.may_have_code(unit) {
                let blocks = self.blocks(number);
                ranges.extend(
                    blocks
                        .function_ranges()
                        .map(|(start, end)| (start, end, number)),
                );
            }
            if ranges.len() > MOST_UNIT_RANGES {
                break;
            }
        }
        ranges.sort_unstable();
        let mut reach = 0;
        ranges
            .into_iter()
            .map(|(start, end, unit)| {
                reach = reach.max(end);
                UnitRange {
                    start,
                    end,
                    unit,
                    reach,
                }
            })
            .collect()
    }

    /// Whether a unit that gives no ranges may have code all the same.
    fn may_have_code(&self, unit: &Unit) -> bool {
        let Ok(root) = unit.entry(unit.header.root_offset()) else {
            return false;
        };
        root.tag() == constants::DW_TAG_compile_unit
            && (root.has_children() || unit.dwo_id.is_some())
            && !root.has_attr(constants::DW_AT_ranges)
            && !root.has_attr(constants::DW_AT_low_pc)
    }
}
