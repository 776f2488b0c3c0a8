//! Tracepoints that the program serves by itself, in pads, and the frames that come from there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracewire_jump_pad::{
    Losses, Pad, PadFrame, PadOptions, PadStop, PadTracepoint, PadVariable, RingReader,
    SharedLayout, SharedSizes, WhenFull, compile,
};
use tracewire_tracefile::{
    Action, Address, StopReason, TracepointDefinition, TracepointKind, VariableNumber,
};

use crate::experiment::{Experiment, Registers, Tracepoint, Unreadable};
use crate::mechanism::{Mechanism, PadCode, PadMaker, PadMemory, Served};
use crate::pieces::Missing;
use crate::stepping::Key;
use crate::store::{FrameStore, StoreError};
use crate::target::{Target, TargetError};
use crate::variables::Builtin;

/// What the pads of a run share.
#[derive(Debug)]
pub(crate) struct Pads {
    memory: Rc<PadMemory>,
    reader: RingReader,
    /// The block of each tracepoint: its place here.
    blocks: Vec<Key>,
    /// How many frames of each were known to be given up when it was last looked.
    dropped: Vec<u64>,
    slots: HashMap<VariableNumber, u32>,
    code: HashMap<Address, Rc<Pad>>,
    torn: u64,
    /// When frames were last taken.
    taken: Instant,
}

/// How long rings that drop their oldest frames may be left alone: taking frames that others would soon replace costs
/// the program the cpu, and only a thread that died inside a pad needs it before the end.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// How many tracepoint locations may come during a run, beside those there are at its start.
const SPARE_TRACEPOINTS: u32 = 4096;
/// How many variables may.
const SPARE_VARIABLES: u32 = 256;
/// The most bytes of all rings together.
const ALL_RINGS: u64 = 1 << 30;
/// The most bytes of a ring, and the least.
const LARGEST_RING: u64 = 8 << 20;
const SMALLEST_RING: u64 = 4 << 20;
/// The longest frame that a pad makes, in bytes.
const LONGEST_FRAME: u64 = 65_535;
/// How many bytes of memory a tracepoint may collect at once whose mechanism is ours to choose, if a pad is to serve it.
const MOST_BY_CHOICE: u64 = 4096;
/// How much of the program's stack a hit may use, in bytes.
const STACK_LIMIT: u32 = 4096;

impl<S: FrameStore> Experiment<S> {
    /// Chooses what serves tracepoints from now on.
    pub fn set_mechanism(&mut self, mechanism: Mechanism) {
        self.mechanism = mechanism;
    }

    /// Lets a fast tracepoint whose place can have no jump be a trap: a debugger's run, which would otherwise not start
    /// because of a breakpoint at that place, goes on with all it collects.
    pub fn let_fast_trap(&mut self) {
        self.fast_may_trap = true;
    }

    /// What serves the tracepoints at an address; `None` where none is installed.
    #[must_use]
    pub fn served(&self, address: Address) -> Option<&Served> {
        self.served.get(&address)
    }

    /// What served the tracepoints at an address when they were installed last; `None` where they never were.
    #[must_use]
    pub fn last_served(&self, address: Address) -> Option<&Served> {
        self.last_served.get(&address)
    }

    pub(crate) fn serve(&mut self, address: Address, by: Served) {
        self.last_served.insert(address, by.clone());
        self.served.insert(address, by);
    }

    /// Frames that pads could not keep, and those that were begun and never finished.
    #[must_use]
    pub fn losses(&self) -> (Losses, u64) {
        self.pads.as_ref().map_or(self.past_losses, |pads| {
            let now = pads.memory.shared.losses();
            let (past, torn) = self.past_losses;
            let without_stack = pads.memory.news.without_stack.load(Ordering::Relaxed);
            let sum = Losses {
                lost: past.lost + now.lost + without_stack,
                dropped: past.dropped + now.dropped,
                too_long: past.too_long + now.too_long,
            };
            (sum, torn + pads.torn)
        })
    }

    /// Puts a tracepoint in by the best means that are allowed.
    pub(crate) fn put_in(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        if self.mechanism == Mechanism::Trap {
            target.insert(address)?;
            self.serve(address, Served::Trap(None));
            return Ok(());
        }
        let maker = if self.overfills_rings(address) {
            Err(format!(
                "it collects more than {MOST_BY_CHOICE} bytes at once, of which rings are full sooner than they are read"
            ))
        } else {
            self.pad_maker(address, target)
        };
        let refusal = match maker {
            Ok(maker) => match target.insert_pad(address, maker) {
                Ok(way) => {
                    self.serve(address, Served::Jump(way));
                    return Ok(());
                }
                Err(TargetError::CannotInsert { reason, .. }) => reason,
                Err(error) => return Err(error),
            },
            Err(reason) => reason,
        };
        let forced = self.mechanism == Mechanism::Jump
            || !self.fast_may_trap
                && self.at(address).any(|tracepoint| {
                    matches!(tracepoint.definition.kind, TracepointKind::Fast { .. })
                });
        if forced {
            let reason = format!("it cannot be a jump: {refusal}");
            return Err(TargetError::CannotInsert { address, reason });
        }
        target.insert(address)?;
        self.serve(address, Served::Trap(Some(refusal)));
        Ok(())
    }

    /// Whether tracepoints that may be traps are to be that, so that none of their frames is lost: a reader who has to wait
    /// for the disk comes too late for the rings. So long a frame makes up for the cost of a trap.
    fn overfills_rings(&self, address: Address) -> bool {
        self.mechanism == Mechanism::Best
            && self.at(address).all(|tracepoint| {
                !matches!(tracepoint.definition.kind, TracepointKind::Fast { .. })
            })
            && self.at(address).any(|tracepoint| {
                tracepoint.definition.actions.iter().any(
                    |action| matches!(action, Action::Memory { length, .. } if *length > MOST_BY_CHOICE),
                )
            })
    }

    fn at(&self, address: Address) -> impl Iterator<Item = &Tracepoint> {
        let places = self.places.get(&address).into_iter().flatten();
        places.filter_map(|index| self.tracepoints.get(*index))
    }

    fn pad_maker(&mut self, address: Address, target: &mut dyn Target) -> Result<PadMaker, String> {
        if self.options.unreadable == Unreadable::Stop {
            return Err("unreadable memory is to end the run".to_owned());
        }
        for index in self.places.get(&address).into_iter().flatten() {
            if let Some(tracepoint) = self.tracepoints.get_mut(*index) {
                tracepoint.fold_pads();
            }
        }
        let definitions: Vec<TracepointDefinition> = self
            .at(address)
            .map(|tracepoint| TracepointDefinition {
                // A pad counts from its own beginning.
                pass_count: match tracepoint.definition.pass_count {
                    0 => 0,
                    count => count.saturating_sub(tracepoint.usage().hits).max(1),
                },
                ..tracepoint.definition.clone()
            })
            .collect();
        let mentioned: BTreeSet<u16> = self
            .at(address)
            .flat_map(|tracepoint| tracepoint.plan.variables())
            .collect();
        self.set_up_pads(target)?;
        let Some(pads) = &mut self.pads else {
            return Err("no memory is shared with the program".to_owned());
        };
        let mut blocks = Vec::new();
        for definition in &definitions {
            let key = (definition.number, definition.address);
            let block = pads.blocks.iter().position(|known| *known == key);
            let block = block.unwrap_or_else(|| {
                pads.blocks.push(key);
                pads.blocks.len() - 1
            });
            let block = u32::try_from(block).map_err(|error| error.to_string())?;
            pads.memory.shared.reset_counts(block);
            pads.memory.shared.set_enabled(block, definition.enabled);
            blocks.push(block);
        }
        for number in mentioned {
            let number = VariableNumber(i32::from(number));
            let free = u32::try_from(pads.slots.len()).unwrap_or(u32::MAX);
            if self.variables.builtin(number).is_none()
                && !pads.slots.contains_key(&number)
                && pads.memory.shared.variable(free).is_some()
            {
                self.variables.share(number, free, &pads.memory);
                pads.slots.insert(number, free);
            }
        }
        let mut known: BTreeMap<VariableNumber, PadVariable> = pads
            .slots
            .iter()
            .map(|(number, slot)| (*number, PadVariable::Slot(*slot)))
            .collect();
        known.extend(self.variables.builtins().map(|(number, builtin)| {
            let variable = match builtin {
                Builtin::Timestamp => PadVariable::Timestamp,
                Builtin::Thread => PadVariable::Thread,
                Builtin::Cpu => PadVariable::Cpu,
            };
            (number, variable)
        }));
        let stamp = self
            .options
            .stamp
            .then(|| self.variables.stamp_numbers())
            .flatten();
        let always_registers = self.options.registers == Registers::Always;
        let memory = Rc::clone(&pads.memory);
        let options = PadOptions {
            layout: memory.shared.layout(),
            shared: memory.address,
            registers: memory.registers,
            always_registers,
            stamp,
            variables: &known,
            stack_limit: STACK_LIMIT,
            goes_on: false,
            features: memory.features,
        };
        let tracepoints: Vec<PadTracepoint<'_>> = blocks
            .iter()
            .zip(&definitions)
            .map(|(index, definition)| PadTracepoint {
                index: *index,
                definition,
            })
            .collect();
        let pad = compile(address, &tracepoints, &options).map_err(|error| error.to_string())?;
        let pad = Rc::new(pad);
        pads.code.insert(address, Rc::clone(&pad));
        // The code runs anywhere.
        Ok(Rc::new(move |_| {
            Ok(PadCode {
                code: pad.code.clone(),
                faults: pad.faults.clone(),
            })
        }))
    }

    fn set_up_pads(&mut self, target: &mut dyn Target) -> Result<(), String> {
        if self
            .pads
            .as_ref()
            .is_some_and(|pads| pads.memory.news.gone.load(Ordering::Acquire))
        {
            self.give_pads_up();
        }
        if self.pads.is_some() {
            return Ok(());
        }
        if let Some(reason) = &self.no_pads {
            return Err(reason.clone());
        }
        let made = self.layout().and_then(|layout| {
            target
                .share_memory(layout)
                .map_err(|reason| format!("no memory is shared with the program: {reason}"))
        });
        match made {
            Ok(memory) => {
                self.pads = Some(Pads {
                    reader: RingReader::new(&memory.shared),
                    memory: Rc::new(memory),
                    blocks: Vec::new(),
                    dropped: Vec::new(),
                    slots: HashMap::new(),
                    code: HashMap::new(),
                    torn: 0,
                    taken: Instant::now(),
                });
                Ok(())
            }
            Err(reason) => {
                self.no_pads = Some(reason.clone());
                Err(reason)
            }
        }
    }

    fn layout(&self) -> Result<SharedLayout, String> {
        let cpus = cpus();
        let size = self.store.size().unwrap_or(u64::MAX);
        let most = (ALL_RINGS / u64::from(cpus.next_power_of_two())).min(LARGEST_RING);
        // Records take more room than frames.
        let ring_bytes = size
            .saturating_mul(2)
            .clamp(SMALLEST_RING.min(most), most)
            .next_power_of_two()
            .min(most);
        let tracepoints = u32::try_from(self.tracepoints.len()).unwrap_or(u32::MAX);
        let sizes = SharedSizes {
            cpus,
            ring_bytes,
            frame_limit: u32::try_from((ring_bytes / 8).min(LONGEST_FRAME)).unwrap_or(u32::MAX),
            tracepoints: tracepoints.saturating_add(SPARE_TRACEPOINTS),
            variables: SPARE_VARIABLES,
            // Rings that hold more than the buffer may do as it does.
            when_full: if ring_bytes < size {
                WhenFull::Wait
            } else if self.store.is_circular() {
                WhenFull::Overwrite
            } else {
                WhenFull::Stop
            },
        };
        // A number that no other run has.
        let salt = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |since| since.as_nanos() as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        SharedLayout::new(sizes, salt).map_err(|error| error.to_string())
    }

    /// Takes what pads have collected into the buffer, and notices when a pad has ended the run. Gives how much of a
    /// ring that has taken.
    pub fn look(&mut self) -> f64 {
        let bytes = self.take_frames(false);
        let Some(pads) = &self.pads else { return 0.0 };
        let filled = bytes as f64 / pads.memory.shared.layout().sizes().ring_bytes as f64;
        self.notice_stop();
        filled
    }

    /// As [`look`](Self::look), now and then while the program runs, where nobody waits for the frames.
    pub(crate) fn attend(&mut self) -> f64 {
        let Some(pads) = &self.pads else { return 0.0 };
        let shared = &pads.memory.shared;
        let overwrites = shared.layout().sizes().when_full == WhenFull::Overwrite;
        if !overwrites || pads.taken.elapsed() >= LEFT_ALONE {
            return self.look();
        }
        shared.keep_time();
        self.notice_stop();
        0.0
    }

    fn notice_stop(&mut self) {
        let Some(pads) = &self.pads else { return };
        if !self.running {
            return;
        }
        let Some(stop) = pads.memory.shared.stopped() else {
            return;
        };
        // Whatever was made before the stop was told.
        self.take_frames(false);
        let Some(pads) = &self.pads else { return };
        let shared = &pads.memory.shared;
        let number = |block: u32| {
            let key = usize::try_from(block)
                .ok()
                .and_then(|block| pads.blocks.get(block));
            key.map(|(number, _)| *number)
        };
        let now = shared.microseconds(tracewire_jump_pad::counter());
        let (reason, text, number) = match stop {
            PadStop::Full => (StopReason::Full, None, None),
            PadStop::PassCount(block) => (StopReason::PassCount, None, number(block)),
            PadStop::Error(block) => {
                let text = shared.error().and_then(|error| {
                    let (_, address) = pads.blocks.get(usize::try_from(block).ok()?)?;
                    pads.code.get(address)?.error_text(&error)
                });
                (StopReason::Error, text, number(block))
            }
            PadStop::Told => return,
        };
        self.end(reason, text, number, now);
    }

    /// Takes frames from the rings; at last also those that nobody will finish. Gives how many bytes that were.
    fn take_frames(&mut self, last: bool) -> u64 {
        let Some(mut pads) = self.pads.take() else {
            return 0;
        };
        let shared = &pads.memory.shared;
        let mut bytes = 0;
        let mut failure = None;
        let mut take = |frame: PadFrame<'_>| {
            if failure.is_some() {
                return;
            }
            if let Err(error) = self.store.append(frame.bytes) {
                failure = Some(error);
                return;
            }
            self.created += 1;
            bytes += frame.bytes.len() as u64;
            let block = usize::try_from(frame.tracepoint).ok();
            let Some(key) = block.and_then(|block| pads.blocks.get(block)) else {
                return;
            };
            let index = self.places.get(&key.1).into_iter().flatten().find(|index| {
                self.tracepoints
                    .get(**index)
                    .is_some_and(|tracepoint| tracepoint.definition.number == key.0)
            });
            if let Some(tracepoint) = index.and_then(|index| self.tracepoints.get_mut(*index)) {
                tracepoint.pad_hits += 1;
                tracepoint.usage.bytes += frame.bytes.len() as u64;
            }
        };
        let drained = if last {
            pads.reader.finish(shared, &mut take)
        } else {
            pads.reader.drain(shared, &mut take)
        };
        pads.taken = Instant::now();
        pads.torn += drained.torn;
        pads.dropped.resize(pads.blocks.len(), 0);
        for (block, (key, known)) in (0..).zip(pads.blocks.iter().zip(&mut pads.dropped)) {
            let counts = shared.counts(block);
            let dropped = counts
                .dropped
                .saturating_sub(std::mem::replace(known, counts.dropped));
            if counts.missing == 0 && counts.passes == 0 && dropped == 0 {
                continue;
            }
            if let Some(index) = self.index(*key)
                && let Some(tracepoint) = self.tracepoints.get_mut(index)
            {
                if tracepoint.definition.pass_count == 0 {
                    tracepoint.pad_hits += dropped;
                } else {
                    tracepoint.pad_hits = tracepoint.pad_hits.max(counts.passes);
                }
                tracepoint.pad_missing = Missing {
                    count: counts.missing,
                    first: counts.first_missing,
                };
            }
        }
        let now = shared.microseconds(tracewire_jump_pad::counter());
        self.pads = Some(pads);
        match failure {
            None => {}
            Some(_) if !self.running => {}
            Some(StoreError::Full) => self.end(StopReason::Full, None, None, now),
            Some(error) => self.end(StopReason::Error, Some(error.to_string()), None, now),
        }
        bytes
    }

    /// Has pads do nothing from now on.
    pub(crate) fn quiet_pads(&self) {
        if let Some(pads) = &self.pads {
            pads.memory.shared.stop();
        }
    }

    /// Tells the pads which tracepoints are enabled.
    pub(crate) fn tell_enabled(&self) {
        let Some(pads) = &self.pads else { return };
        for (block, key) in (0..).zip(&pads.blocks) {
            let enabled = self
                .index(*key)
                .and_then(|index| self.tracepoints.get(index))
                .is_some_and(|tracepoint| tracepoint.definition.enabled);
            pads.memory.shared.set_enabled(block, enabled);
        }
    }

    /// No pad runs any more: takes the last frames, and the variables back.
    pub(crate) fn give_pads_up(&mut self) {
        self.take_frames(true);
        self.past_losses = self.losses();
        self.variables.unshare();
        self.pads = None;
        for tracepoint in &mut self.tracepoints {
            tracepoint.fold_pads();
        }
    }

    pub(crate) const fn has_pads(&self) -> bool {
        self.pads.is_some()
    }

    /// As [`give_pads_up`](Self::give_pads_up), of a program that is still there.
    pub(crate) fn take_pads_out(&mut self, target: &mut dyn Target) {
        self.no_pads = None;
        if self.pads.is_some() {
            target.leave_pads();
            self.give_pads_up();
            target.unshare_memory();
        }
    }
}

/// How many cpus there may be.
fn cpus() -> u32 {
    std::fs::read_to_string("/sys/devices/system/cpu/possible")
        .ok()
        .and_then(|list| list.trim().rsplit(['-', ',']).next()?.parse::<u32>().ok())
        .map_or(1, |last| last.saturating_add(1).min(8192))
}
