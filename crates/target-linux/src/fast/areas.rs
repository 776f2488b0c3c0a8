//! The memory in the process that pads are in, and what of it is used.

use std::collections::BTreeMap;
use std::ops::Range;

/// Memory that we have mapped in the process for code.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    /// Their ends by their starts; none touches another's pages.
    mapped: BTreeMap<u64, u64>,
    /// The ends of what is used by their starts.
    used: BTreeMap<u64, u64>,
}

impl Areas {
    pub(crate) fn add(&mut self, area: Range<u64>) {
        self.mapped.insert(area.start, area.end);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.mapped.iter().map(|(start, end)| *start..*end)
    }

    pub(crate) fn use_range(&mut self, range: Range<u64>) {
        self.used.insert(range.start, range.end);
    }

    /// Gives a used range back, and takes out the area that it was in if nothing else in there is used.
    pub(crate) fn give_back(&mut self, start: u64) -> Option<Range<u64>> {
        self.used.remove(&start)?;
        let (&area, &end) = self.mapped.range(..=start).next_back()?;
        if self.used.range(area..end).next().is_some() {
            return None;
        }
        self.mapped.remove(&area);
        Some(area..end)
    }

    /// Gives a used range back; its area stays.
    pub(crate) fn forget_use(&mut self, start: u64) {
        self.used.remove(&start);
    }

    /// The free stretches of all areas that lie in a range, clipped to it.
    pub(crate) fn free(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .mapped
            .range(..=within.start)
            .next_back()
            .filter(|(_, end)| **end > within.start)
            .map(|(start, end)| (*start, *end));
        let after = within.start.saturating_add(1);
        let rest = self
            .mapped
            .range(after..within.end.max(after))
            .map(|(start, end)| (*start, *end));
        first
            .into_iter()
            .chain(rest)
            .flat_map(move |(start, end)| self.free_in(start..end))
            .filter_map(move |free| {
                let start = free.start.max(within.start);
                let end = free.end.min(within.end);
                (start < end).then_some(start..end)
            })
    }

    /// The free stretches of one area.
    fn free_in(&self, area: Range<u64>) -> Vec<Range<u64>> {
        let mut stretches = Vec::new();
        let mut at = area.start;
        for (start, end) in self.used.range(area.clone()) {
            if at < *start {
                stretches.push(at..*start);
            }
            at = *end;
        }
        if at < area.end {
            stretches.push(at..area.end);
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_not_free_and_an_area_goes_with_its_last_use() {
        let mut areas = Areas::default();
        areas.add(0x1000..0x3000);
        areas.add(0x8000..0x9000);
        areas.use_range(0x1100..0x1200);
        areas.use_range(0x2000..0x3000);
        let free: Vec<_> = areas.free(0x1080..0x8800).collect();
        assert_eq!(free, [0x1080..0x1100, 0x1200..0x2000, 0x8000..0x8800]);
        assert_eq!(areas.give_back(0x1100), None);
        assert_eq!(areas.give_back(0x2000), Some(0x1000..0x3000));
        let starts: Vec<_> = areas.all().map(|area| area.start).collect();
        assert_eq!(starts, [0x8000]);
    }
}
