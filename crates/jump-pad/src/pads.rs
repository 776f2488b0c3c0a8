//! The pads of a trace run, which compile an experiment's tracepoints and return their frames.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracewire_arch::X86Registers;
use tracewire_experiment::{
    BUDGET_SLACK, Builtin, CallKey, FrameContents, FrameRate, FrameSink, HitCost, Losses, Missing,
    Pace, PadCode, PadNeeds, PadTask, PadUpdate, Pads, RunEnd, SharedVariable, TracepointKey,
    Writers,
};
use tracewire_fail_point::fail_point;
use tracewire_model::{
    Address, Aggregate, AggregateTable, CallPart, DURATION_VARIABLE, Key, StopReason,
    TracepointNumber, VariableNumber,
};

use crate::clock::{Rate, counter};
use crate::compile::compile;
use crate::count_table::{CountTable, call_key};
use crate::layout::{SharedLayout, SharedSizes, WhenFull};
use crate::pad::{Features, Pad, PadOptions, PadRate, PadTracepoint, PadVariable};
use crate::ring::{Drained, RingReader, TimedFrame};
use crate::shared::{PadCounts, PadStop, Shared};

/// How many tracepoint locations may be added during a run, besides those at its start.
const SPARE_TRACEPOINTS: u32 = 4096;
/// How many variables may.
const SPARE_VARIABLES: u32 = 256;
/// The most bytes of all rings together.
const ALL_RINGS: u64 = 1 << 30;
/// The most bytes of a ring, and the least.
const LARGEST_RING: u64 = 8 << 20;
/// The most bytes of a ring that holds more than a circular buffer, and of all these rings together. Nothing waits for the reader then.
const LARGEST_OVERWRITING_RING: u64 = 512 << 20;
const ALL_OVERWRITING_RINGS: u64 = 2 << 30;
const SMALLEST_RING: u64 = 4 << 20;
/// How many bytes of frames may wait for others outside of their rings: the first of these that the program can map. Memory is
/// only used when frames are in it.
const HOLDS: [u64; 2] = [256 << 20, 4 << 20];
/// The longest frame that a pad makes, in bytes.
const LONGEST_FRAME: u64 = 65_535;
/// The most bytes of the program's stack that a hit may use.
const STACK_LIMIT: u32 = 4096;
/// The bytes for the tables of aggregates, where something is counted. Unused pages take no memory.
const COUNT_BYTES: u64 = 64 << 20;
/// How long the reader may leave overwriting rings alone. To take frames that others would soon replace costs cpu time. Before
/// the end of the run it is needed only when a thread has died inside a pad.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// Memory that the program and its tracer share, set up for pads.
pub struct PadMemory {
    /// The tracer's view.
    pub shared: Shared,
    /// Its address in the program.
    pub address: Address,
    /// The registers of a register block.
    pub registers: X86Registers,
    /// The features of the machine.
    pub features: Features,
    /// The target's reports for pads.
    pub news: Arc<PadNews>,
    /// The value that keeps the memory mapped; dropped last.
    pub keeper: Box<dyn fmt::Debug>,
}

/// Reports of a target about memory for pads.
#[derive(Debug, Default)]
pub struct PadNews {
    /// The program does not have it any more: it has called exec, for example.
    pub gone: AtomicBool,
    /// Hits without a frame, because the program's stack was at its end.
    pub without_stack: AtomicU64,
}

impl fmt::Debug for PadMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PadMemory")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The pads of a run, the memory that they share with the tracer, and the reader of their rings.
#[derive(Debug)]
pub struct JumpPads {
    memory: Rc<PadMemory>,
    reader: RingReader,
    /// The block of each tracepoint: its index here. Tracepoints by trap have one too, to identify their frames.
    blocks: Vec<TracepointKey>,
    block_of: HashMap<TracepointKey, u32>,
    /// The counts of each at the last reading.
    known: Vec<WithoutFrame>,
    /// Whether hits are charged to the budgets of their cpus.
    has_budget: bool,
    /// The block with the time of the next frame of a tracepoint with a rate: that of one of its locations.
    due_in: HashMap<TracepointNumber, u32>,
    /// The tracepoints with a pick.
    picks: HashSet<TracepointNumber>,
    slots: HashMap<VariableNumber, u32>,
    code: HashMap<Address, Pad>,
    tables: Vec<AggregateInMemory>,
    torn: u64,
    /// When frames were last taken.
    taken: Instant,
    /// The counter at the stop that is being handled.
    stopped: Option<u64>,
    /// The counter when the run ended: a frame that was made later is none of the run's.
    ended: Option<u64>,
}

impl JumpPads {
    /// Sets up pads in memory that a target shares with the program. If the program may not have as much as requested, hits wait
    /// for the reader where they would not, or there is less space for frames that wait.
    ///
    /// # Errors
    /// Why there is no such memory, as a message for the user.
    pub fn set_up(
        needs: &PadNeeds,
        mut share: impl FnMut(SharedLayout) -> Result<PadMemory, String>,
    ) -> Result<Self, String> {
        let mut refusal = String::new();
        for rings in ring_sizes(needs, cpus()) {
            for hold_bytes in HOLDS {
                let shared = layout(needs, rings, hold_bytes).and_then(&mut share);
                match shared {
                    Ok(memory) => return Ok(Self::new(memory, needs.budget)),
                    Err(reason) => refusal = reason,
                }
            }
        }
        Err(format!("no memory is shared with the program: {refusal}"))
    }

    /// The layout that is tried first for such pads: memory of this size may be had before the tracepoints are known. `None` where
    /// no layout is possible.
    #[must_use]
    pub fn expected_layout(needs: &PadNeeds) -> Option<SharedLayout> {
        let rings = ring_sizes(needs, cpus()).into_iter().next()?;
        layout(needs, rings, HOLDS[0]).ok()
    }

    fn new(memory: PadMemory, budget: Option<u64>) -> Self {
        if let Some(factor) = budget {
            memory.shared.set_budget(factor, BUDGET_SLACK);
        }
        Self {
            has_budget: budget.is_some(),
            reader: RingReader::new(&memory.shared),
            memory: Rc::new(memory),
            blocks: Vec::new(),
            block_of: HashMap::new(),
            known: Vec::new(),
            due_in: HashMap::new(),
            picks: HashSet::new(),
            slots: HashMap::new(),
            code: HashMap::new(),
            tables: Vec::new(),
            torn: 0,
            taken: Instant::now(),
            stopped: None,
            ended: None,
        }
    }

    fn shared(&self) -> &Shared {
        &self.memory.shared
    }

    fn when_full(&self) -> WhenFull {
        self.shared().layout().sizes().when_full
    }

    /// The block of a tracepoint, which gets one if it has none.
    fn block(&mut self, key: TracepointKey) -> u32 {
        let blocks = &mut self.blocks;
        *self.block_of.entry(key).or_insert_with(|| {
            blocks.push(key);
            u32::try_from(blocks.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// A rate for the code of a location.
    fn rate(&mut self, key: TracepointKey, rate: FrameRate) -> PadRate {
        let block = self.block(key);
        PadRate {
            pace: pace(rate),
            block: *self.due_in.entry(key.0).or_insert(block),
        }
    }

    /// The table of an aggregate, which all locations of the tracepoint share. `None` if there is no space for another one.
    fn table(
        &mut self,
        number: TracepointNumber,
        aggregate: &Aggregate,
        key_words: u64,
    ) -> Option<CountTable> {
        let known = self
            .tables
            .iter()
            .find(|known| (known.number, &known.aggregate) == (number, aggregate));
        if let Some(known) = known {
            return Some(known.table);
        }
        let (first, end) = self.shared().layout().counts()?;
        let last = self.tables.last().map(|last| last.table);
        let start = last.map_or(first, |last| last.start + last.bytes());
        let cpus = self.shared().layout().sizes().cpus;
        let table = CountTable::new(aggregate.function, key_words, cpus, start);
        if start + table.bytes() > end {
            return None;
        }
        self.tables.push(AggregateInMemory {
            number,
            aggregate: aggregate.clone(),
            table,
            is_of_calls: false,
        });
        Some(table)
    }

    fn key(&self, block: u32) -> Option<TracepointKey> {
        self.blocks.get(usize::try_from(block).ok()?).copied()
    }

    fn without_stack(&self) -> u64 {
        self.memory.news.without_stack.load(Ordering::Relaxed)
    }

    /// How many calls of these tracepoints had no slot.
    fn calls_lost(&self, is_one: impl Fn(TracepointNumber) -> bool) -> u64 {
        let blocks = (0..).zip(&self.blocks);
        let own = blocks.filter(|(_, (number, _))| is_one(*number));
        own.map(|(block, _)| self.shared().counts(block).calls_lost)
            .sum()
    }

    /// Moves frames from the reader to a sink. Returns how many bytes that were.
    fn give(
        &mut self,
        sink: &mut dyn FrameSink,
        read: impl FnOnce(&mut RingReader, &Shared, &mut dyn FnMut(TimedFrame<'_>)) -> Drained,
    ) -> u64 {
        let shared = &self.memory.shared;
        let (blocks, ended) = (&self.blocks, &mut self.ended);
        let mut bytes = 0;
        let mut give = |frame: TimedFrame<'_>| {
            if ended.is_some_and(|ended| frame.time > ended) {
                return;
            }
            if let Some(offset) = sink.file_end() {
                shared.goes_to(offset);
                fail_point!("frames/place-said");
            }
            let block = usize::try_from(frame.tracepoint).ok();
            let key = block.and_then(|block| blocks.get(block)).copied();
            if !sink.keep(key, frame.step, frame.stamp, frame.bytes) {
                // A shorter frame might still find space, even another tracepoint's frame of the same stop.
                *ended = Some(frame.time.saturating_sub(1));
                return;
            }
            fail_point!("frames/appended");
            bytes += frame.bytes.len() as u64;
        };
        let drained = read(&mut self.reader, shared, &mut give);
        fail_point!("frames/taken");
        self.taken = Instant::now();
        self.torn += drained.torn;
        self.shared().tell_losses(self.torn, self.without_stack());
        fail_point!("frames/losses-said");
        bytes
    }
}

impl Pads for JumpPads {
    fn is_gone(&self) -> bool {
        self.memory.news.gone.load(Ordering::Acquire)
    }

    fn compile(
        &mut self,
        address: Address,
        tracepoints: &[PadTask<'_>],
        contents: &FrameContents<'_>,
    ) -> Result<PadCode, String> {
        let mut tables = Vec::new();
        for PadTask { definition, .. } in tracepoints {
            let counting = &definition.counting;
            if counting.picks {
                self.picks.insert(definition.number);
            }
            let of_one = counting.aggregates.iter();
            let of_one: Option<Vec<CountTable>> = of_one
                .map(|counted| {
                    let words = counted.key_words();
                    self.table(definition.number, &counted.aggregate, words)
                })
                .collect();
            let of_calls = matches!(counting.call, CallPart::End) && !counting.picks;
            for known in &mut self.tables {
                let mut aggregates = counting.aggregates.iter();
                known.is_of_calls |= of_calls
                    && known.number == definition.number
                    && aggregates.any(|counted| counted.aggregate == known.aggregate);
            }
            tables.push(of_one.unwrap_or_default());
        }
        let tracepoints: Vec<PadTracepoint<'_>> = tracepoints
            .iter()
            .zip(&tables)
            .map(|(task, tables)| {
                let definition = &task.definition;
                let index = self.block(definition.key());
                self.shared().reset_counts(index);
                self.shared().set_enabled(index, definition.enabled);
                PadTracepoint {
                    index,
                    definition,
                    tables,
                    kept: task.kept,
                    rate: task.rate.map(|rate| self.rate(definition.key(), rate)),
                }
            })
            .collect();
        let slots = self.slots.iter();
        let mut variables: BTreeMap<VariableNumber, PadVariable> = slots
            .map(|(number, slot)| (*number, PadVariable::Slot(*slot)))
            .collect();
        variables.extend(contents.builtins.iter().map(|(number, builtin)| {
            let variable = match builtin {
                Builtin::Timestamp => PadVariable::Timestamp,
                Builtin::Thread => PadVariable::Thread,
                Builtin::Cpu => PadVariable::Cpu,
            };
            (*number, variable)
        }));
        variables.insert(DURATION_VARIABLE, PadVariable::Duration);
        let free = tracepoints
            .iter()
            .filter_map(|each| each.definition.free_stack);
        let stack_limit = free.fold(STACK_LIMIT, u32::min);
        let options = PadOptions {
            layout: self.shared().layout(),
            shared: self.memory.address,
            registers: self.memory.registers,
            always_registers: contents.always_registers,
            stamp: contents.stamp,
            variables: &variables,
            stack_limit,
            goes_on: false,
            features: self.memory.features,
            has_budget: self.has_budget,
        };
        let pad = compile(address, &tracepoints, &options).map_err(|error| error.to_string())?;
        let code = PadCode {
            code: pad.code.clone(),
            faults: pad.faults.clone(),
        };
        self.code.insert(address, pad);
        Ok(code)
    }

    fn share_variable(&mut self, number: VariableNumber) -> Option<Rc<dyn SharedVariable>> {
        if self.slots.contains_key(&number) {
            return None;
        }
        let slot = u32::try_from(self.slots.len()).ok()?;
        self.shared().variable(slot)?;
        self.slots.insert(number, slot);
        Some(Rc::new(Slot(slot, Rc::clone(&self.memory))))
    }

    fn set_enabled(&mut self, is_enabled: &dyn Fn(TracepointKey) -> bool) {
        for (block, key) in (0..).zip(&self.blocks) {
            self.shared().set_enabled(block, is_enabled(*key));
        }
    }

    fn passes(&self, tracepoint: TracepointKey) -> u64 {
        let block = self.block_of.get(&tracepoint);
        block.map_or(0, |block| self.shared().counts(*block).passes)
    }

    fn count_pass(&mut self, tracepoint: TracepointKey) -> Option<u64> {
        self.shared().count_pass(*self.block_of.get(&tracepoint)?)
    }

    fn take_counts(&mut self, tracepoint: TracepointKey) -> Option<(u64, Missing)> {
        let block = *self.block_of.get(&tracepoint)?;
        let counts = self.shared().counts(block);
        self.shared().reset_counts(block);
        Some((counts.passes, missing(&counts)))
    }

    fn report_counts(&mut self, report: &mut dyn FnMut(TracepointKey, PadUpdate)) {
        let shared = &self.memory.shared;
        self.known
            .resize(self.blocks.len(), WithoutFrame::default());
        for (block, (key, known)) in (0..).zip(self.blocks.iter().zip(&mut self.known)) {
            let counts = shared.counts(block);
            let now = WithoutFrame {
                lost: counts.dropped + counts.lost,
                // Reading them means to read every ring.
                skipped: match self.has_budget
                    || self.due_in.contains_key(&key.0)
                    || self.picks.contains(&key.0)
                {
                    true => shared.skipped(block),
                    false => 0,
                },
            };
            let before = std::mem::replace(known, now);
            let update = PadUpdate {
                lost: now.lost.saturating_sub(before.lost),
                skipped: now.skipped.saturating_sub(before.skipped),
                missing: missing(&counts),
            };
            if update != PadUpdate::default() {
                report(*key, update);
            }
        }
    }

    fn admit(&mut self, tracepoint: TracepointKey, rate: FrameRate) -> Option<bool> {
        let PadRate { pace, block } = self.rate(tracepoint, rate);
        let now = self.stopped.unwrap_or_else(counter);
        self.shared().admit(block, pace, now)
    }

    fn set_budget(&mut self, factor: u64) {
        self.shared().set_budget(factor, BUDGET_SLACK);
    }

    fn charge(&mut self, cost: Duration) {
        self.shared().charge(cost);
    }

    fn behind(&mut self) -> Duration {
        self.shared().behind(counter())
    }

    fn spent(&self, tracepoint: TracepointKey) -> Duration {
        let block = self.block_of.get(&tracepoint);
        block.map_or(Duration::ZERO, |block| self.shared().spent(*block))
    }

    fn costs(&self, address: Address) -> &[HitCost] {
        self.code.get(&address).map_or(&[], |pad| &pad.costs)
    }

    fn aggregates(&self) -> Vec<(TracepointNumber, Aggregate, AggregateTable)> {
        let tables = self.tables.iter().map(|known| {
            let mut table = self.shared().aggregate(&known.aggregate, &known.table);
            if known.is_of_calls {
                table.without_room += self.calls_lost(|number| number == known.number);
            }
            (known.number, known.aggregate.clone(), table)
        });
        tables.collect()
    }

    fn pick(
        &mut self,
        tracepoint: TracepointNumber,
        aggregate: &Aggregate,
        keys: &[Key],
    ) -> Option<bool> {
        let words: Vec<u64> = keys.iter().flat_map(Key::words).collect();
        let table = self.table(tracepoint, aggregate, words.len() as u64)?;
        Some(self.shared().pick(aggregate.function, &table, &words))
    }

    fn has_call(&self, call: CallKey) -> bool {
        self.shared().has_call(call_key(call.0, call.1))
    }

    fn begin_call(&mut self, call: CallKey, is_loop: bool, kept: Option<Vec<u64>>) -> bool {
        let is_kept = kept.is_some();
        let key = call_key(call.0, call.1);
        let has_slot = self.shared().begin_call(key, is_loop, kept.as_deref());
        if !has_slot {
            let block = self.blocks.iter().position(|(number, _)| *number == call.0);
            if let Some(block) = block.and_then(|block| u32::try_from(block).ok()) {
                self.shared().lose_call(block);
            }
        }
        is_kept && has_slot
    }

    fn end_call(&mut self, call: CallKey) -> Option<(u64, Vec<u64>)> {
        let now = self.stopped.unwrap_or_else(counter);
        self.shared().end_call(call_key(call.0, call.1), now)
    }

    fn end(&mut self) {
        self.shared().stop();
        fail_point!("pads/ended");
        let now = self.stopped.unwrap_or_else(counter);
        self.ended.get_or_insert(now);
    }

    fn ended(&self) -> Option<RunEnd> {
        let tracepoint = |block: u32| self.key(block).map(|(number, _)| number);
        Some(match self.shared().stopped()? {
            PadStop::Full => RunEnd::new(StopReason::Full, None),
            PadStop::PassCount(block) => RunEnd::new(StopReason::PassCount, tracepoint(block)),
            PadStop::Error(block) => RunEnd {
                text: self.shared().error().and_then(|error| {
                    let (_, address) = self.key(block)?;
                    self.code.get(&address)?.error_text(&error)
                }),
                ..RunEnd::new(StopReason::Error, tracepoint(block))
            },
            PadStop::Requested => return None,
        })
    }

    fn accept_end(&mut self) {
        // The frame that has ended the run may be later than the stop that is being handled.
        self.ended = Some(counter());
    }

    fn now(&self) -> u64 {
        self.shared().microseconds(counter())
    }

    fn begin_stop(&mut self) {
        let stopped = counter();
        fail_point!("stop/begun");
        self.stopped = Some(stopped);
    }

    fn stop_time(&self) -> Option<(u64, u64)> {
        let stopped = self.stopped?;
        Some(self.shared().exact_time(stopped))
    }

    fn end_stop(&mut self) {
        self.stopped = None;
    }

    fn insert(
        &mut self,
        tracepoint: TracepointKey,
        step: bool,
        stamp: Option<usize>,
        frame: &[u8],
    ) {
        let frame = TimedFrame {
            tracepoint: self.block(tracepoint),
            time: self.stopped.unwrap_or_else(counter),
            step,
            stamp,
            bytes: frame,
        };
        self.reader.insert(&self.memory.shared, frame);
    }

    fn take(&mut self, writers: Writers, sink: &mut dyn FrameSink) -> f64 {
        let bytes = self.give(sink, |reader, shared, give| match writers {
            Writers::Running | Writers::Stopped => reader.drain(shared, writers, give),
            Writers::Gone => reader.finish(shared, give),
        });
        bytes as f64 / self.shared().layout().sizes().ring_bytes as f64
    }

    fn take_released(&mut self, sink: &mut dyn FrameSink) {
        self.give(sink, RingReader::release);
    }

    fn may_wait(&mut self) -> bool {
        let may = self.when_full() == WhenFull::Overwrite && self.taken.elapsed() < LEFT_ALONE;
        if may {
            self.shared().keep_time();
        }
        may
    }

    fn last_time(&self) -> u64 {
        self.reader.last_microseconds()
    }

    fn losses(&self) -> Losses {
        let in_rings = self.shared().losses();
        let (ring_full, ring_held) = match self.when_full() {
            WhenFull::Overwrite | WhenFull::WaitThenOverwrite => (0, in_rings.lost),
            WhenFull::Stop | WhenFull::Wait => (in_rings.lost, 0),
        };
        Losses {
            ring_full,
            ring_held,
            too_long: in_rings.too_long,
            without_stack: self.without_stack(),
            torn: self.torn,
            without_slot: self.calls_lost(|number| self.picks.contains(&number)),
        }
    }

    fn dropped(&self) -> u64 {
        self.shared().losses().dropped
    }
}

/// Hits of a tracepoint's location without frames.
#[derive(Clone, Copy, Debug, Default)]
struct WithoutFrame {
    /// The frames were given up or lost.
    lost: u64,
    skipped: u64,
}

/// A rate by the counter.
fn pace(rate: FrameRate) -> Pace {
    rate.pace(Rate::measured().ticks(rate.period()))
}

/// An aggregate with a table in the shared memory.
#[derive(Debug)]
struct AggregateInMemory {
    number: TracepointNumber,
    aggregate: Aggregate,
    table: CountTable,
    /// Whether it is about calls that are measured.
    is_of_calls: bool,
}

/// A trace state variable in the shared memory.
#[derive(Debug)]
struct Slot(u32, Rc<PadMemory>);

impl SharedVariable for Slot {
    fn get(&self) -> i64 {
        let Self(slot, memory) = self;
        memory.shared.variable(*slot).unwrap_or(0)
    }

    fn set(&self, value: i64) {
        let Self(slot, memory) = self;
        memory.shared.set_variable(*slot, value);
    }
}

const fn missing(counts: &PadCounts) -> Missing {
    Missing {
        count: counts.missing,
        first: counts.first_missing,
    }
}

fn layout(needs: &PadNeeds, rings: Rings, hold_bytes: u64) -> Result<SharedLayout, String> {
    let Rings {
        cpus,
        ring_bytes,
        when_full,
    } = rings;
    let tracepoints = u32::try_from(needs.tracepoints).unwrap_or(u32::MAX);
    let sizes = SharedSizes {
        cpus,
        ring_bytes,
        frame_limit: u32::try_from((ring_bytes / 8).min(LONGEST_FRAME)).unwrap_or(u32::MAX),
        tracepoints: tracepoints.saturating_add(SPARE_TRACEPOINTS),
        variables: SPARE_VARIABLES,
        hold_bytes,
        count_bytes: if needs.counts { COUNT_BYTES } else { 0 },
        when_full,
    };
    // A number that no other run has.
    let salt = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    SharedLayout::new(sizes, salt).map_err(|error| error.to_string())
}

/// The rings of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rings {
    cpus: u32,
    /// The size of each, in bytes.
    ring_bytes: u64,
    when_full: WhenFull,
}

/// The rings for a buffer, those that are wanted first. Rings that hold more than a circular buffer may overwrite as it does, and no
/// hit waits. Where the program cannot have these, the last ones are smaller, and hits wait for the reader.
fn ring_sizes(needs: &PadNeeds, cpus: u32) -> Vec<Rings> {
    let of_each = |all: u64, largest: u64| (all / u64::from(cpus.next_power_of_two())).min(largest);
    let size = needs.buffer.unwrap_or(u64::MAX);
    let most = of_each(ALL_RINGS, LARGEST_RING);
    let mut sizes = Vec::new();
    if needs.circular && !needs.watched {
        // Records take more space than frames.
        let wanted = size.saturating_add(size / 2).max(SMALLEST_RING);
        let most = of_each(ALL_OVERWRITING_RINGS, LARGEST_OVERWRITING_RING).max(most);
        let wanted = wanted
            .checked_next_power_of_two()
            .filter(|ring| *ring <= most);
        sizes.extend(wanted.map(|ring_bytes| Rings {
            cpus,
            ring_bytes,
            when_full: WhenFull::Overwrite,
        }));
    }
    let most = match needs.circular {
        // The reader gives out all that it has read before it looks at the rings again. The less that is, the sooner it frees space.
        true => most.min(SMALLEST_RING),
        false => most,
    };
    let ring_bytes = size
        .saturating_mul(2)
        .clamp(SMALLEST_RING.min(most), most)
        .next_power_of_two()
        .min(most);
    let when_full = match (needs.circular, ring_bytes < size || needs.watched) {
        (true, _) => WhenFull::WaitThenOverwrite,
        (false, true) => WhenFull::Wait,
        (false, false) => WhenFull::Stop,
    };
    sizes.push(Rings {
        cpus,
        ring_bytes,
        when_full,
    });
    sizes
}

/// How many cpus there may be.
fn cpus() -> u32 {
    // The kernel finds this out as it starts.
    static FOUND: LazyLock<u32> = LazyLock::new(|| {
        std::fs::read_to_string("/sys/devices/system/cpu/possible")
            .ok()
            .and_then(|list| list.trim().rsplit(['-', ',']).next()?.parse::<u32>().ok())
            .map_or(1, |last| last.saturating_add(1).min(8192))
    });
    *FOUND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(buffer: u64, cpus: u32) -> Vec<Rings> {
        let needs = PadNeeds {
            buffer: Some(buffer),
            circular: true,
            watched: false,
            tracepoints: 1,
            counts: false,
            budget: None,
        };
        let all = ring_sizes(&needs, cpus);
        for rings in &all {
            for hold_bytes in HOLDS {
                layout(&needs, *rings, hold_bytes).unwrap();
            }
        }
        all
    }

    #[test]
    fn rings_hold_more_than_a_circular_buffer_where_they_can() {
        for (mebibytes, cpus, expected) in [
            (5, 2, Some(8)),
            (16, 2, Some(32)),
            (24, 2, Some(64)),
            (256, 2, Some(512)),
            (256, 4, Some(512)),
            (160, 8, Some(256)),
            (256, 8, None),
            (20, 64, Some(32)),
            (24, 64, None),
            (400, 2, None),
        ] {
            let all = of(mebibytes << 20, cpus);
            let (last, others) = all.split_last().unwrap();
            assert_eq!(last.when_full, WhenFull::WaitThenOverwrite);
            assert!(last.ring_bytes <= SMALLEST_RING);
            let large = others.first().map(|rings| rings.ring_bytes >> 20);
            assert_eq!(large, expected, "{mebibytes} MiB, {cpus} cpus");
            assert!(
                others
                    .iter()
                    .all(|rings| rings.when_full == WhenFull::Overwrite)
            );
        }
    }

    #[test]
    fn only_a_part_of_large_rings_is_there_from_the_start() {
        let small = layout_of(16, 2);
        assert!(!small.has_large_rings());
        assert!(
            small
                .busy()
                .into_iter()
                .eq(std::iter::once(0..small.rings().1))
        );
        for (mebibytes, cpus, each) in [(24, 2, 32), (256, 4, 32), (40, 32, 8)] {
            let large = layout_of(mebibytes, cpus);
            assert!(large.has_large_rings());
            let busy = large.busy();
            assert_eq!(busy.len() as u32, cpus + 1);
            assert_eq!(busy[0], 0..large.rings().0);
            assert!(
                busy[1..]
                    .iter()
                    .all(|part| part.end - part.start == each << 20)
            );
            assert!(busy.is_sorted_by(|one, next| one.end <= next.start));
        }
        // Too small parts are left out.
        assert_eq!(layout_of(5, 256).busy().len(), 1);
    }

    fn layout_of(mebibytes: u64, cpus: u32) -> SharedLayout {
        let needs = PadNeeds {
            buffer: Some(mebibytes << 20),
            circular: true,
            watched: false,
            tracepoints: 1,
            counts: false,
            budget: None,
        };
        layout(&needs, of(mebibytes << 20, cpus)[0], HOLDS[1]).unwrap()
    }
}
