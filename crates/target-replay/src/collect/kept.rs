//! Joins rows of frames, and their reports.

use std::collections::BTreeMap;

use tracewire_experiment::Missing;
use tracewire_model::{
    Aggregate, AggregateKey, AggregateTable, RegisterNumber, StatusFields, StopReason,
    TracepointDefinition, TracepointUsage,
};

use super::{CollectError, Collected, FrameRegisters, FrameSink, Row, Run, asked, lock};

/// Rows, put one after the other, up to the first that an error ended.
pub(super) struct Kept<'r> {
    run: &'r Run<'r>,
    sink: &'r mut dyn FrameSink,
    status: StatusFields,
    usage: Vec<(TracepointUsage, Missing)>,
    unknown: Unknown,
    frames: u64,
    created: u64,
    size: u64,
    start: Option<u64>,
    aggregates: BTreeMap<AggregateKey, (Aggregate, AggregateTable)>,
    pub(super) is_over: bool,
}

impl<'r> Kept<'r> {
    pub(super) fn new(run: &'r Run<'r>, sink: &'r mut dyn FrameSink) -> Self {
        let definitions = &run.request.definitions;
        Self {
            sink,
            status: StatusFields::default(),
            usage: vec![(TracepointUsage::default(), Missing::default()); definitions.len()],
            unknown: Unknown::new(&run.registers, definitions),
            frames: 0,
            created: 0,
            size: 0,
            start: None,
            aggregates: BTreeMap::new(),
            is_over: false,
            run,
        }
    }

    /// Whether there are not too many frames.
    pub(super) const fn fits(&self) -> bool {
        self.size <= self.run.request.limit
    }

    pub(super) fn row(&mut self, row: Row) -> Result<(), CollectError> {
        if self.is_over {
            return Ok(());
        }
        self.start = self.start.or(row.status.start_time);
        for (all, (more, missing)) in self.usage.iter_mut().zip(row.usage) {
            all.0.hits += more.hits;
            all.0.bytes += more.bytes;
            all.1.add(missing);
        }
        for (number, aggregate, table) in row.aggregates {
            let entry = self.aggregates.entry((number, aggregate.index));
            let (_, all) = entry.or_insert_with(|| (aggregate.clone(), AggregateTable::default()));
            all.merge(&aggregate, table);
        }
        let here = row.frames;
        let made = row.status.frames_created.unwrap_or(here);
        self.frames += here;
        self.created += made;
        self.unknown
            .note(&row.known, made.saturating_sub(here), made);
        self.size += row.bytes.len() as u64;
        self.is_over = row.status.stop_reason != Some(StopReason::Command);
        self.status = row.status;
        if !row.bytes.is_empty() && self.fits() {
            self.sink.append(&row.bytes)?;
        }
        lock(&self.run.buffers).push(row.bytes);
        Ok(())
    }

    pub(super) fn finish(self) -> Collected {
        let request = self.run.request;
        Collected {
            status: StatusFields {
                start_time: self.start,
                frames: Some(self.frames),
                frames_created: Some(self.created),
                circular: Some(request.circular),
                buffer_size: Some(request.limit),
                buffer_free: Some(request.limit.saturating_sub(self.size)),
                ..self.status
            },
            usage: self.usage,
            unknown: self.unknown.names(),
            aggregates: (self.aggregates.into_iter())
                .map(|((number, _), (aggregate, table))| (number, aggregate, table))
                .collect(),
        }
    }
}

/// Counts frames in which requested registers are unavailable.
struct Unknown {
    /// How many bytes a block has.
    block: usize,
    /// Name, place, size, frames.
    registers: Vec<(String, usize, usize, u64)>,
}

impl Unknown {
    fn new(registers: &FrameRegisters, definitions: &[TracepointDefinition]) -> Self {
        let (layout, block) = (&registers.layout, registers.size);
        let mut numbers: Vec<RegisterNumber> = asked(definitions).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let registers = numbers.into_iter().filter_map(|number| {
            let register = layout.by_number(number)?;
            let place = (register.offset as usize, register.size() as usize);
            Some((register.name.clone(), place.0, place.1, 0))
        });
        Self {
            block: block as usize,
            registers: registers.collect(),
        }
    }

    /// Notes runs of frames, of which those from `first` to `end` are kept.
    fn note(&mut self, runs: &[(u64, Option<Vec<bool>>)], first: u64, end: u64) {
        let ends = runs.iter().skip(1).map(|run| run.0).chain([end]);
        for ((start, known), end) in runs.iter().zip(ends) {
            let count = end.saturating_sub((*start).max(first));
            for (_, place, size, frames) in &mut self.registers {
                let bytes = known
                    .as_ref()
                    .and_then(|known| known.get(*place..*place + *size));
                let is_known =
                    known.is_none() || bytes.is_some_and(|bytes| !bytes.contains(&false));
                if !is_known || *place + *size > self.block {
                    *frames += count;
                }
            }
        }
    }

    fn names(self) -> Vec<(String, u64)> {
        let counted = self.registers.into_iter();
        counted
            .filter(|(.., frames)| *frames > 0)
            .map(|(name, _, _, frames)| (name, frames))
            .collect()
    }
}
