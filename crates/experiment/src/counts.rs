//! Aggregates: the parts that stopped threads add to, and the parts of pads.
//!
//! Pads add to tables in the memory that they share with the tracer. A thread that stops is counted here, by the same rules
//! ([`AggregateTable::add`]), and the two are added when they are read. A measured call may begin in a pad and end at a stop, so
//! the calls that have begun are in the shared memory if there is any.

use std::collections::{BTreeMap, HashMap};

use tracewire_agent_expr::{Context, Evaluation, Verified};
use tracewire_model::{
    Address, Aggregate, AggregateKey, AggregateTable, CallPart, DURATION_VARIABLE, GoroutinePoint,
    KEY_TEXT, Key, TracepointNumber,
};

use crate::collect::Moment;
use crate::counting_plan::CheckedOperand;
use crate::maker::{ConditionContext, FrameMaker};
use crate::pads::{CallKey, Pads};
use crate::target::{MemoryRead, StoppedThread};
use crate::tracepoints::Tracepoint;
use crate::variables::Variables;

/// The most keys of an aggregate that stops count.
const MOST_KEYS: usize = 1 << 16;

/// The aggregates of a run, as far as they are not in pads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    tables: BTreeMap<AggregateKey, (Aggregate, AggregateTable)>,
    /// The calls that have begun at a stop, in a run without pads: the time, and the kept values.
    calls: HashMap<CallKey, (u64, Vec<u64>)>,
}

impl Counts {
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        self.calls.clear();
    }

    fn merge(&mut self, number: TracepointNumber, aggregate: &Aggregate, table: AggregateTable) {
        self.table(number, aggregate).merge(aggregate, table);
    }

    fn table(&mut self, number: TracepointNumber, aggregate: &Aggregate) -> &mut AggregateTable {
        let entry = self.tables.entry((number, aggregate.index));
        let (_, table) = entry.or_insert_with(|| (aggregate.clone(), AggregateTable::default()));
        table
    }
}

/// A key or a value cannot be read.
struct Unreadable;

/// The evaluation of keys and values at a stop.
struct Computer<'c, 'm> {
    evaluation: &'c mut Evaluation,
    context: CountContext<'m>,
    captured: Vec<u64>,
}

struct CountContext<'m> {
    context: ConditionContext<'m>,
    /// Of a call that ends, in nanoseconds.
    duration: u64,
}

impl Context for CountContext<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.context.register(register)
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        self.context.memory(address, size)
    }

    fn variable(&mut self, number: u16) -> i64 {
        if i32::from(number) == DURATION_VARIABLE.0 {
            return self.duration.cast_signed();
        }
        self.context.variable(number)
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        self.context.set_variable(number, value);
    }

    fn collect_variable(&mut self, number: u16) {
        self.context.collect_variable(number);
    }
}

impl Computer<'_, '_> {
    fn number(&mut self, program: &Verified) -> Result<u64, Unreadable> {
        let result = self.evaluation.evaluate(program.code(), &mut self.context);
        let number = result.ok().flatten().ok_or(Unreadable)?;
        Ok(number)
    }

    fn key(&mut self, operand: &CheckedOperand) -> Result<Key, Unreadable> {
        match operand {
            CheckedOperand::Number(program) => self.number(program).map(Key::Number),
            CheckedOperand::Text(address, length) => {
                let address = self.number(address)?;
                let length = match length {
                    Some(length) => usize::try_from(self.number(length)?).unwrap_or(KEY_TEXT),
                    None => KEY_TEXT,
                };
                let piece = MemoryRead {
                    address: Address(address),
                    bytes: vec![0; length.min(KEY_TEXT)],
                    filled: 0,
                };
                let mut pieces = [piece];
                if length > 0 {
                    let thread = &mut *self.context.context.moment.thread;
                    thread.read_memory(&mut pieces);
                }
                let [piece] = pieces;
                let read = piece.bytes.get(..piece.filled).unwrap_or_default();
                match read.iter().position(|byte| *byte == 0) {
                    Some(end) => Ok(Key::Text(read[..end].to_vec())),
                    None if read.len() == piece.bytes.len() => Ok(Key::Text(read.to_vec())),
                    None => Err(Unreadable),
                }
            }
            CheckedOperand::Captured { at, is_text } => {
                let words = if *is_text { KEY_TEXT / 8 } else { 1 };
                let words = self.captured.get(*at..*at + words).ok_or(Unreadable)?;
                Ok(match is_text {
                    true => Key::from_words(words),
                    false => Key::Number(words.first().copied().unwrap_or(0)),
                })
            }
        }
    }
}

impl Counts {
    /// The aggregates of the run: those of stops, and those of pads so far.
    pub(crate) fn with_pads(
        &self,
        pads: Option<&dyn Pads>,
    ) -> Vec<(TracepointNumber, Aggregate, AggregateTable)> {
        let mut all = self.tables.clone();
        for (number, aggregate, table) in pads.map(Pads::aggregates).unwrap_or_default() {
            let entry = all.entry((number, aggregate.index));
            let (_, known) =
                entry.or_insert_with(|| (aggregate.clone(), AggregateTable::default()));
            known.merge(&aggregate, table);
        }
        let all = all.into_iter();
        all.map(|((number, _), (aggregate, table))| (number, aggregate, table))
            .collect()
    }

    /// Adds the counts of pads that do not exist any more.
    pub(crate) fn take(&mut self, pads: &dyn Pads) {
        for (number, aggregate, table) in pads.aggregates() {
            self.merge(number, &aggregate, table);
        }
    }

    /// Counts the hit of a stopped thread, and returns whether it makes a frame: where the plan has a pick, picked hits do.
    pub(crate) fn count(
        &mut self,
        tracepoint: &Tracepoint,
        mut pads: Option<&mut (dyn Pads + 'static)>,
        maker: &mut FrameMaker,
        variables: &mut Variables,
        thread: &mut dyn StoppedThread,
    ) -> bool {
        let Some(plan) = &tracepoint.plan.counting else {
            return true;
        };
        let number = tracepoint.definition().number;
        let place = plan.point.and_then(|point| {
            let register = thread.register(point.register)?;
            let stack = register.wrapping_add_signed(point.offset);
            let goroutine = point.goroutine;
            let call = goroutine.and_then(|of| goroutine_call(thread, of, stack));
            Some((number, call.unwrap_or(stack)))
        });
        let now = thread
            .timestamp_ns()
            .unwrap_or_else(|| thread.timestamp().saturating_mul(1000));
        if plan.picks
            && let CallPart::Within | CallPart::Begin { is_loop: true } = plan.call
        {
            let has_begun = place.is_some_and(|place| match &pads {
                Some(pads) => pads.has_call(place),
                None => self.calls.contains_key(&place),
            });
            if has_begun || plan.call == CallPart::Within {
                return has_begun;
            }
        }
        let (mut captured, mut duration) = (Vec::new(), 0);
        if plan.call == CallPart::End {
            let in_pads = pads.as_deref_mut().zip(place);
            let in_pads = in_pads.and_then(|(pads, place)| pads.end_call(place));
            let here = || {
                let (begun, captured) = self.calls.remove(&place?)?;
                Some((now.saturating_sub(begun), captured))
            };
            match in_pads.or_else(here) {
                Some((lasted, kept)) => (duration, captured) = (lasted, kept),
                // It began before the run, or was not picked.
                None => return !plan.picks,
            }
            if plan.picks {
                return true;
            }
        }
        let (evaluation, fetched) = maker.evaluation();
        let mut computer = Computer {
            evaluation,
            context: CountContext {
                context: ConditionContext {
                    moment: Moment { thread, variables },
                    fetched,
                },
                duration,
            },
            captured,
        };
        let condition = plan
            .condition
            .as_ref()
            .map(|condition| computer.number(condition));
        let is_wanted = match condition {
            None => Ok(true),
            Some(truth) => truth.map(|truth| truth != 0),
        };
        let mut is_picked = matches!(is_wanted, Ok(true)) || !plan.picks;
        if let Ok(true) = is_wanted {
            for (aggregate, keys, value) in &plan.aggregates {
                let keys: Result<Vec<Key>, Unreadable> =
                    keys.iter().map(|key| computer.key(key)).collect();
                if aggregate.function.is_pick() {
                    is_picked = match keys {
                        Ok(keys) => {
                            let pads = pads.as_deref_mut();
                            let in_pads = pads.and_then(|pads| pads.pick(number, aggregate, &keys));
                            in_pads.unwrap_or_else(|| self.pick(number, aggregate, keys))
                        }
                        Err(Unreadable) => {
                            self.table(number, aggregate).unreadable += 1;
                            false
                        }
                    };
                    continue;
                }
                let value = value.as_ref().map(|value| computer.key(value)).transpose();
                let table = self.table(number, aggregate);
                match (keys, value) {
                    (Ok(keys), Ok(value)) => {
                        if table.cells.len() >= MOST_KEYS && !table.cells.contains_key(&keys) {
                            table.without_room += 1;
                            continue;
                        }
                        let value = match value {
                            Some(Key::Number(value)) => value,
                            _ => 0,
                        };
                        table.add(aggregate, keys, value);
                    }
                    _ => table.unreadable += 1,
                }
            }
        } else if is_wanted.is_err() {
            for (aggregate, ..) in &plan.aggregates {
                self.table(number, aggregate).unreadable += 1;
            }
        }
        let (CallPart::Begin { is_loop }, Some(place)) = (plan.call, place) else {
            return is_picked;
        };
        let mut kept = Some(Vec::new());
        for operand in &plan.captures {
            let key = computer.key(operand);
            match (key, &mut kept) {
                (Ok(key), Some(kept)) => kept.extend(key.words()),
                _ => kept = None,
            }
        }
        let kept = kept.filter(|_| matches!(is_wanted, Ok(true)) && is_picked);
        let is_kept = kept.is_some();
        let is_measured = match (pads, kept) {
            (Some(pads), kept) => pads.begin_call(place, is_loop, kept),
            (None, kept) => {
                match kept {
                    None => _ = self.calls.remove(&place),
                    Some(_) if is_loop && self.calls.contains_key(&place) => {}
                    Some(kept) => _ = self.calls.insert(place, (now, kept)),
                }
                is_kept
            }
        };
        // The frame of the end is made by what is kept of the call.
        is_measured || !plan.picks
    }

    /// Counts a hit for a pick that no pad has.
    fn pick(&mut self, number: TracepointNumber, aggregate: &Aggregate, keys: Vec<Key>) -> bool {
        let table = self.table(number, aggregate);
        if table.cells.len() >= MOST_KEYS && !table.cells.contains_key(&keys) {
            table.without_room += 1;
            return false;
        }
        table.pick(aggregate, keys)
    }
}

/// A call of a goroutine, by a number in place of its stack pointer; none where the thread runs no goroutine.
fn goroutine_call(thread: &mut dyn StoppedThread, of: GoroutinePoint, stack: u64) -> Option<u64> {
    let start = thread.register(of.register)?;
    let mut pieces = [of.number, of.stack_end].map(|offset| MemoryRead {
        address: Address(start.wrapping_add(offset.into())),
        bytes: vec![0; 8],
        filled: 0,
    });
    thread.read_memory(&mut pieces);
    let word = |piece: &MemoryRead| {
        let bytes = piece.bytes.get(..piece.filled)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let [number, stack_end] = &pieces;
    let number = word(number).filter(|number| *number != 0)?;
    Some(GoroutinePoint::call(number, word(stack_end)?, stack))
}
