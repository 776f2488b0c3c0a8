//! The blocks that have some of the templates, found without reading them.

use std::ops::Range;

use crate::compact::bytes::Damaged;
use crate::compact::template::{Blocks, Template};
use crate::index::{Segments, Store, Table};

/// Goes from one block that has what is looked for to the next, or to the one before.
#[derive(Default)]
pub(super) struct Candidates(Option<Segment>);

/// The segment that was looked at last.
struct Segment {
    number: u32,
    /// Its blocks.
    all: Range<usize>,
    /// Which of its templates are looked for.
    templates: Vec<bool>,
    /// The blocks that have one of these.
    blocks: Blocks,
}

impl Candidates {
    /// Which templates of a segment are looked for, if that is the segment that was looked at last.
    pub(super) fn templates(&self, segment: u32) -> Option<&[bool]> {
        let known = self.0.as_ref().filter(|known| known.number == segment);
        known.map(|known| known.templates.as_slice())
    }

    fn look_at(
        &mut self,
        store: &Store,
        number: u32,
        can_be: impl Fn(&Template) -> bool,
    ) -> Result<&Segment, Damaged> {
        let known = self.0.take().filter(|known| known.number == number);
        let known = match known {
            Some(known) => known,
            None => {
                let segment = store.segment(number as usize)?;
                let templates: Vec<bool> = segment.templates.iter().map(can_be).collect();
                Segment {
                    number,
                    all: store.blocks_of(number)?,
                    blocks: segment.blocks_of(&templates),
                    templates,
                }
            }
        };
        Ok(self.0.insert(known))
    }

    /// The first of some blocks. `segments` are those in which they are, where that is less than all.
    pub(super) fn next(
        &mut self,
        store: &Store,
        segments: Option<&Segments>,
        can_be: impl Fn(&Template) -> bool,
        blocks: Range<usize>,
    ) -> Result<Option<usize>, Damaged> {
        let mut from = blocks.start;
        let end = blocks.end.min(store.rows(Table::Blocks));
        while from < end {
            let mut segment = store.segment_number(from)?;
            if let Some(segments) = segments {
                let Some(next) = segments.next(segment) else {
                    return Ok(None);
                };
                if next != segment {
                    let first = store.blocks_of(next)?.start;
                    if first <= from {
                        return Err(Damaged);
                    }
                    if first >= end {
                        return Ok(None);
                    }
                    (segment, from) = (next, first);
                }
            }
            let known = self.look_at(store, segment, &can_be)?;
            if !known.all.contains(&from) {
                return Err(Damaged);
            }
            let next = known.blocks.next(from - known.all.start);
            let next = next.map(|block| known.all.start + block);
            if let Some(next) = next.filter(|next| known.all.contains(next)) {
                return Ok(Some(next).filter(|next| *next < end));
            }
            from = known.all.end;
        }
        Ok(None)
    }

    /// The last block before a block.
    pub(super) fn last(
        &mut self,
        store: &Store,
        segments: Option<&Segments>,
        can_be: impl Fn(&Template) -> bool,
        mut before: usize,
    ) -> Result<Option<usize>, Damaged> {
        while let Some(upto) = before.checked_sub(1) {
            let (mut segment, mut upto) = (store.segment_number(upto)?, upto);
            if let Some(segments) = segments {
                let Some(last) = segments.last(segment) else {
                    return Ok(None);
                };
                if last != segment {
                    let end = store.blocks_of(last)?.end;
                    if end == 0 || end > upto {
                        return Err(Damaged);
                    }
                    (segment, upto) = (last, end - 1);
                }
            }
            let known = self.look_at(store, segment, &can_be)?;
            if !known.all.contains(&upto) {
                return Err(Damaged);
            }
            let last = known.blocks.last(upto - known.all.start);
            if let Some(last) = last {
                return Ok(Some(known.all.start + last));
            }
            before = known.all.start;
        }
        Ok(None)
    }
}
