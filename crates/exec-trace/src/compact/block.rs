//! A block as it is read: which templates, in which order, with which numbers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::BLOCK;
use super::bytes::{Damaged, Reader};
use super::column::{Steps, get_row, skip_row};
use super::effect::{Effect, Offset, OtherTime, ValueTemplate};
use super::frame::unpack;
use super::segment::{GroupNumbers, Segment, render};
use super::template::{Class, Template};
use super::value::RegisterValue;
use crate::record::Time;

/// The most numbers of one column: what the most variables of the most groups could have is far more, and no
/// reader of a trace makes that many.
const MOST_NUMBERS: usize = 1 << 24;

/// What is known of a block before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) instructions: u32,
    pub(crate) groups: u32,
}

/// A block of groups.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) segment: Arc<Segment>,
    /// The block's templates.
    locals: Vec<u32>,
    /// How many groups each of them has.
    counts: Vec<u32>,
    /// Whether each of them has an instruction.
    have_instruction: Vec<bool>,
    /// Rows of templates that follow one another: the first, and how many.
    runs: Vec<(u16, u16)>,
    times: Steps,
    ids: Steps,
    /// Whether any of its lines has a time that is not its group's.
    pub(crate) has_other_times: bool,
    columns: [OnceLock<Column>; 3],
}

/// The numbers of a class.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// Where those of each local template start.
    bases: Vec<u32>,
    values: Vec<u64>,
    /// Lines kept apart, in the column of text.
    apart: Vec<u8>,
}

impl Column {
    /// Without a number.
    pub(crate) const NONE: Self = Self {
        bases: Vec::new(),
        values: Vec::new(),
        apart: Vec::new(),
    };

    /// A number, by its place.
    #[inline]
    pub(crate) fn number(&self, at: u32) -> u64 {
        self.values.get(at as usize).copied().unwrap_or(0)
    }
}

/// A group's place in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupPlace {
    /// Among the groups.
    pub(crate) index: u32,
    /// Its template, by the block's numbers.
    pub(crate) local: u16,
    /// How many groups of the template are before it in the block.
    pub(crate) occurrence: u32,
    /// How many instructions of the block are before it.
    pub(crate) before: u32,
}

/// A way over the groups of some templates of a block.
#[derive(Debug)]
pub(crate) struct Walk {
    is_selected: Vec<bool>,
    /// How many templates before each are meant.
    before: Vec<u32>,
    /// How many groups of each template were passed.
    occurrences: Vec<u32>,
    /// The group after the last.
    end: u32,
    /// The run, the place in it, and the first group of it.
    run: usize,
    in_run: u16,
    index: u32,
}

impl Walk {
    /// The next group.
    pub(crate) fn next(&mut self, block: &Block) -> Option<GroupPlace> {
        while let Some((start, length)) = block.runs.get(self.run) {
            let end = usize::from(*start) + usize::from(*length);
            if self.before[usize::from(*start)] != self.before[end] {
                while self.in_run < *length {
                    let (local, index) = (start + self.in_run, self.index + u32::from(self.in_run));
                    if index >= self.end {
                        return None;
                    }
                    self.in_run += 1;
                    if self.is_selected[usize::from(local)] {
                        let occurrence = &mut self.occurrences[usize::from(local)];
                        *occurrence += 1;
                        return Some(GroupPlace {
                            index,
                            local,
                            occurrence: *occurrence - 1,
                            before: index,
                        });
                    }
                }
            }
            self.index += u32::from(*length);
            if self.index >= self.end {
                return None;
            }
            self.run += 1;
            self.in_run = 0;
        }
        None
    }
}

impl Block {
    /// From its first frame.
    pub(crate) fn read(
        frame: &[u8],
        expected: Counts,
        segment: Arc<Segment>,
    ) -> Result<Self, Damaged> {
        let raw = unpack(frame)?;
        let mut reader = Reader::new(&raw);
        let groups: usize = reader.small()?;
        if groups > BLOCK || groups != expected.groups as usize {
            return Err(Damaged);
        }
        let count = reader.count()?;
        if count > groups {
            return Err(Damaged);
        }
        let mut locals = Vec::with_capacity(count);
        let mut template = 0u32;
        for at in 0..count {
            let step: u32 = reader.small()?;
            if at > 0 && step == 0 {
                return Err(Damaged);
            }
            template = template.checked_add(step).ok_or(Damaged)?;
            if template as usize >= segment.templates.len() {
                return Err(Damaged);
            }
            locals.push(template);
        }
        // How many more runs a local template is in than the one before it.
        let mut steps = vec![0i32; count + 1];
        let mut runs = Vec::new();
        let mut left = groups;
        let mut next = 0i64;
        while left > 0 {
            let start = next.checked_add(reader.signed()?).ok_or(Damaged)?;
            let length = reader.small::<usize>()?.checked_add(1).ok_or(Damaged)?;
            left = left.checked_sub(length).ok_or(Damaged)?;
            let first = usize::try_from(start).map_err(|_| Damaged)?;
            let end = first.checked_add(length).ok_or(Damaged)?;
            if end > count {
                return Err(Damaged);
            }
            steps[first] += 1;
            steps[end] -= 1;
            runs.push((first as u16, length as u16));
            next = end as i64;
        }
        let mut runs_here = 0;
        let counts: Vec<u32> = steps[..count]
            .iter()
            .map(|step| {
                runs_here += step;
                runs_here.cast_unsigned()
            })
            .collect();
        let have_instruction: Vec<bool> = locals
            .iter()
            .map(|template| segment.templates[*template as usize].instruction.is_some())
            .collect();
        let instructions: u32 = counts
            .iter()
            .zip(&have_instruction)
            .filter_map(|(count, has)| has.then_some(*count))
            .sum();
        if instructions != expected.instructions {
            return Err(Damaged);
        }
        let before = reader.number()?;
        let times = Steps::read(&mut reader, before, groups)?;
        let before = reader.number()?;
        let ids = Steps::read(&mut reader, before, groups)?;
        let has_other_times = locals
            .iter()
            .any(|template| segment.templates[*template as usize].has_other_times());
        Ok(Self {
            segment,
            locals,
            counts,
            have_instruction,
            runs,
            times,
            ids,
            has_other_times,
            columns: Default::default(),
        })
    }

    /// The numbers of a class; `frame` is theirs.
    pub(crate) fn column(&self, class: Class, frame: &[u8]) -> Result<&Column, Damaged> {
        let cell = &self.columns[class as usize];
        if let Some(column) = cell.get() {
            return Ok(column);
        }
        let column = self.read_column(class, frame, |_| true)?;
        Ok(cell.get_or_init(|| column))
    }

    /// The numbers of a class, if they were read already.
    #[inline]
    pub(crate) fn known_column(&self, class: Class) -> Option<&Column> {
        self.columns[class as usize].get()
    }

    /// The numbers of a class, of some templates only; `frame` is theirs.
    pub(crate) fn read_column(
        &self,
        class: Class,
        frame: &[u8],
        is_selected: impl Fn(u16) -> bool,
    ) -> Result<Column, Damaged> {
        let raw = unpack(frame)?;
        let mut reader = Reader::new(&raw);
        let mut column = Column {
            bases: Vec::with_capacity(self.locals.len()),
            ..Column::default()
        };
        let all: usize = self
            .locals
            .iter()
            .zip(&self.counts)
            .zip(0..)
            .filter(|(_, local)| is_selected(*local))
            .map(|((template, count), _)| self.template_rows(*template, class) * *count as usize)
            .sum();
        if all > MOST_NUMBERS {
            return Err(Damaged);
        }
        column.values.reserve_exact(all);
        for ((template, count), local) in self.locals.iter().zip(&self.counts).zip(0..) {
            let group = column.values.len();
            column.bases.push(group as u32);
            let template = &self.segment.templates[*template as usize];
            if template.shape.rows[class as usize] == 0 {
                continue;
            }
            let is_selected = is_selected(local);
            for variable in &template.shape.variables {
                if variable.class == class && !is_selected {
                    skip_row(&mut reader, *count as usize, variable.digits)?;
                } else if variable.class == class {
                    get_row(
                        &mut reader,
                        *count as usize,
                        variable.digits,
                        &mut column.values,
                        group,
                    )?;
                }
            }
        }
        if class == Class::Text {
            column.apart = reader.rest().to_vec();
        } else if !reader.is_empty() {
            return Err(Damaged);
        }
        Ok(column)
    }

    fn template_rows(&self, template: u32, class: Class) -> usize {
        usize::from(self.segment.templates[template as usize].shape.rows[class as usize])
    }

    /// The template of a local number.
    #[inline]
    pub(crate) fn template(&self, local: u16) -> &Template {
        &self.segment.templates[self.locals[usize::from(local)] as usize]
    }

    /// The segment's number of a local template.
    #[inline]
    pub(crate) fn template_number(&self, local: u16) -> u32 {
        self.locals[usize::from(local)]
    }

    /// The templates that the block has, by their local numbers.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (u16, &Template)> {
        (0..self.locals.len() as u16).map(|local| (local, self.template(local)))
    }

    /// Goes over the groups of some templates, of those that are before the group `end`, in a block whose groups all have an
    /// instruction. Passes quickly over what is not meant.
    pub(crate) fn walk(&self, is_selected: Vec<bool>, end: u32) -> Walk {
        debug_assert_eq!(
            is_selected.len(),
            self.locals.len(),
            "one for each template"
        );
        let mut before = Vec::with_capacity(is_selected.len() + 1);
        before.push(0);
        for is_selected in &is_selected {
            before.push(before.last().unwrap_or(&0) + u32::from(*is_selected));
        }
        Walk {
            occurrences: vec![0; is_selected.len()],
            before,
            is_selected,
            end,
            run: 0,
            in_run: 0,
            index: 0,
        }
    }

    /// Every group, in order.
    pub(crate) fn groups(&self) -> Vec<GroupPlace> {
        let all = self.runs.iter().map(|(_, length)| usize::from(*length));
        let mut groups = Vec::with_capacity(all.sum());
        let mut occurrences = vec![0; self.locals.len()];
        let mut before = 0;
        for (start, length) in &self.runs {
            let locals = usize::from(*start)..usize::from(*start) + usize::from(*length);
            // Slices of the same locals: one check of bounds for a run, which is in the block's hottest loop.
            let occurrences = &mut occurrences[locals.clone()];
            let have_instruction = &self.have_instruction[locals];
            for at in 0..*length {
                let occurrence = &mut occurrences[usize::from(at)];
                groups.push(GroupPlace {
                    index: groups.len() as u32,
                    local: start + at,
                    occurrence: *occurrence,
                    before,
                });
                *occurrence += 1;
                before += u32::from(have_instruction[usize::from(at)]);
            }
        }
        groups
    }

    /// The group's time.
    #[inline]
    pub(crate) fn ticks(&self, index: u32) -> u64 {
        self.times.get(index as usize)
    }

    pub(crate) fn time(&self, place: GroupPlace) -> Time {
        let template = self.template(place.local);
        Time {
            ticks: self.ticks(place.index),
            decimals: template.shape.decimals,
            scale: template.shape.scale,
        }
    }

    /// The time of a record of the group that is not the group's; `column` is that of the text.
    pub(crate) fn other_time(&self, column: &Column, place: GroupPlace, time: &OtherTime) -> Time {
        let difference = self.number(column, place, time.row);
        Time {
            ticks: self.ticks(place.index).wrapping_add(difference),
            decimals: time.decimals,
            scale: time.scale,
        }
    }

    pub(crate) fn id(&self, place: GroupPlace) -> u64 {
        self.ids.get(place.index as usize)
    }

    /// From which instruction on, by its number in the block, an effect is seen; 0 is the block's first.
    #[inline]
    pub(crate) fn slot(&self, effect: &Effect, before: u32) -> u32 {
        match effect.offset {
            Offset::START => 0,
            Offset(offset) => before.saturating_add_signed(offset),
        }
    }

    /// A number of a group.
    #[inline]
    pub(crate) fn number(&self, column: &Column, place: GroupPlace, row: u16) -> u64 {
        column.number(self.row_start(column, place.local, row) + place.occurrence)
    }

    /// Where the numbers of a row of a template start in its column.
    #[inline]
    pub(crate) fn row_start(&self, column: &Column, local: u16, row: u16) -> u32 {
        let local = usize::from(local);
        column.bases[local] + u32::from(row) * self.counts[local]
    }

    /// The value of an effect.
    pub(crate) fn value(
        &self,
        column: &Column,
        place: GroupPlace,
        value: &ValueTemplate,
    ) -> RegisterValue {
        value.register_value(|row| self.number(column, place, row))
    }

    /// Writes the text of some groups; `places` are all, the columns are in the order of the classes.
    pub(crate) fn text(
        &self,
        places: &[GroupPlace],
        groups: Range<u32>,
        columns: [&Column; 3],
        skeletons: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let (before, rest) = places
            .split_at_checked(groups.start as usize)
            .ok_or(Damaged)?;
        let wanted = rest.get(..groups.len()).ok_or(Damaged)?;
        let mut apart = Reader::new(&columns[2].apart);
        let lines = |place: &GroupPlace| self.template(place.local).shape.apart;
        if wanted.iter().any(|place| lines(place) > 0) {
            for _ in 0..before.iter().map(lines).map(u64::from).sum() {
                apart.slice()?;
            }
        }
        for place in wanted {
            let template = self.template(place.local);
            let skeleton = self
                .segment
                .skeleton(self.template_number(place.local), skeletons)?;
            let variable = |at: u16| {
                let variable = template.shape.variables.get(usize::from(at))?;
                let column = columns[variable.class as usize];
                Some((self.number(column, *place, variable.row), variable.digits))
            };
            let numbers = GroupNumbers {
                time: self.time(*place),
                id: self.id(*place),
                variable: &variable,
                apart: &mut apart,
            };
            render(skeleton, numbers, out)?;
        }
        Ok(())
    }
}
