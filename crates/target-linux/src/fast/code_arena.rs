//! Memory of the process for pads, with its used and free ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Memory that we have mapped in the process for code.
#[derive(Debug, Default)]
pub(crate) struct CodeArena {
    /// Their ends by their starts.
    mapped: BTreeMap<u64, u64>,
    /// The used ranges: start to end.
    used: BTreeMap<u64, u64>,
    /// The free ranges: start to end. Neighbours within an area are merged.
    free: BTreeMap<u64, u64>,
}

impl CodeArena {
    pub(crate) fn add(&mut self, area: Range<u64>) {
        self.mapped.insert(area.start, area.end);
        self.free.insert(area.start, area.end);
    }

    /// The same areas with nothing in them, in a copy of the memory.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            mapped: self.mapped.clone(),
            used: BTreeMap::new(),
            free: self.mapped.clone(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.mapped.iter().map(|(start, end)| *start..*end)
    }

    pub(crate) fn count(&self) -> usize {
        self.mapped.len()
    }

    /// Marks a free range as used.
    pub(crate) fn use_range(&mut self, range: Range<u64>) {
        self.used.insert(range.start, range.end);
        let around = self.free.range(..=range.start).next_back();
        let Some((&start, &end)) = around.filter(|(_, end)| **end >= range.end) else {
            debug_assert!(false, "{range:x?} is not free");
            return;
        };
        if start < range.start {
            self.free.insert(start, range.start);
        } else {
            self.free.remove(&start);
        }
        if range.end < end {
            self.free.insert(range.end, end);
        }
    }

    /// Frees a used range. Returns the area that it was in if nothing else in it is used; the area is then removed.
    pub(crate) fn give_back(&mut self, start: u64) -> Option<Range<u64>> {
        let (area, free) = self.forget_use(start)?;
        if free != area {
            return None;
        }
        self.mapped.remove(&area.start);
        self.free.remove(&free.start);
        Some(area)
    }

    /// Frees a used range; its area stays. Returns the area, and the free range that results.
    pub(crate) fn forget_use(&mut self, start: u64) -> Option<(Range<u64>, Range<u64>)> {
        let end = self.used.remove(&start)?;
        let (&area, &area_end) = self.mapped.range(..=start).next_back()?;
        let mut free = start..end;
        if let Some((&before, _)) = self
            .free
            .range(area..start)
            .next_back()
            .filter(|(_, end)| **end == start)
        {
            self.free.remove(&before);
            free.start = before;
        }
        if end < area_end
            && let Some(after) = self.free.remove(&end)
        {
            free.end = after;
        }
        self.free.insert(free.start, free.end);
        Some((area..area_end, free))
    }

    /// The free range that an address is in; else what is not free around it.
    pub(crate) fn free_from(&self, at: u64) -> Result<Range<u64>, Range<u64>> {
        let before = self.free.range(..=at).next_back();
        match before {
            Some((start, end)) if at < *end => Ok(*start..*end),
            _ => {
                let next = self.free.range(at..).next();
                let start = before.map_or(0, |(_, end)| *end);
                Err(start..next.map_or(u64::MAX, |(start, _)| *start))
            }
        }
    }

    /// The free ranges within a range, clipped to it, in rising order.
    pub(crate) fn free(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self
            .free
            .range(..within.start)
            .next_back()
            .filter(|(_, end)| **end > within.start);
        let rest = self.free.range(within.start..within.end.max(within.start));
        first
            .into_iter()
            .chain(rest)
            .map(move |(start, end)| (*start).max(within.start)..(*end).min(within.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_not_free_and_an_area_goes_with_its_last_use() {
        let mut areas = CodeArena::default();
        areas.add(0x1000..0x3000);
        areas.add(0x8000..0x9000);
        areas.use_range(0x1100..0x1200);
        areas.use_range(0x2000..0x3000);
        let free: Vec<_> = areas.free(0x1080..0x8800).collect();
        assert_eq!(free, [0x1080..0x1100, 0x1200..0x2000, 0x8000..0x8800]);
        assert_eq!(areas.free_from(0x1100), Err(0x1100..0x1200));
        assert_eq!(areas.free_from(0x11ff), Err(0x1100..0x1200));
        assert_eq!(areas.free_from(0x1200), Ok(0x1200..0x2000));
        assert_eq!(areas.free_from(0x9000), Err(0x9000..u64::MAX));
        assert_eq!(areas.give_back(0x1100), None);
        assert!(areas.free(0..0x8000).eq(std::iter::once(0x1000..0x2000)));
        assert_eq!(areas.give_back(0x2000), Some(0x1000..0x3000));
        let starts: Vec<_> = areas.all().map(|area| area.start).collect();
        assert_eq!(starts, [0x8000]);
    }

    #[test]
    fn a_copy_has_the_areas_with_nothing_in_them() {
        let mut areas = CodeArena::default();
        areas.add(0x1000..0x3000);
        areas.use_range(0x1100..0x1200);
        let mut copy = areas.emptied();
        assert!(copy.free(0..0x4000).eq(std::iter::once(0x1000..0x3000)));
        copy.use_range(0x1000..0x1100);
        assert_eq!(copy.give_back(0x1000), Some(0x1000..0x3000));
        assert!(areas.all().eq(std::iter::once(0x1000..0x3000)));
    }

    #[test]
    fn areas_that_touch_stay_two() {
        let mut areas = CodeArena::default();
        areas.add(0x1000..0x2000);
        areas.add(0x2000..0x3000);
        areas.use_range(0x1000..0x2000);
        areas.use_range(0x2000..0x3000);
        assert_eq!(areas.give_back(0x1000), Some(0x1000..0x2000));
        assert_eq!(areas.give_back(0x2000), Some(0x2000..0x3000));
        assert_eq!(areas.free(0..0x4000).count(), 0);
    }
}
