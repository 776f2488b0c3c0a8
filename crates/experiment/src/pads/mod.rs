//! Tracepoints that the program serves by itself, in pads.

mod frames;
mod stops;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::{
    KeptSet, Pad, PadOptions, PadTracepoint, PadVariable, RingReader, SharedLayout, SharedSizes,
    WhenFull, compile, counter,
};
use tracewire_model::{Action, Address, TracepointDefinition, TracepointKind, VariableNumber};

use crate::experiment::{Experiment, Registers, Tracepoint, Unreadable};
use crate::mechanism::{Mechanism, PadCode, PadMaker, PadMemory, Served};
use crate::pieces::Missing;
use crate::stepping::Key;
use crate::store::FrameStore;
use crate::target::{Target, TargetError};
use crate::variables::Builtin;

pub use frames::Losses;

/// What the pads of a run share.
#[derive(Debug)]
pub(crate) struct Pads {
    memory: Rc<PadMemory>,
    reader: RingReader,
    /// The block of each tracepoint: its place here. Tracepoints by trap have one too, so that their frames are known.
    blocks: Vec<Key>,
    block_of: HashMap<Key, u32>,
    /// How many frames of each were known to be given up or lost when it was last looked.
    without_frame: Vec<u64>,
    slots: HashMap<VariableNumber, u32>,
    code: HashMap<Address, Rc<Pad>>,
    torn: u64,
    /// When frames were last taken.
    taken: Instant,
    /// The counter at the stop that is being looked at.
    stopped: Option<u64>,
    /// The counter when the run ended: a frame that was made later is none of the run's.
    ended: Option<u64>,
}

impl Pads {
    fn known_block(&self, key: Key) -> Option<u32> {
        self.block_of.get(&key).copied()
    }

    /// The block of a tracepoint, which gets one if it has none.
    fn block(&mut self, key: Key) -> u32 {
        let blocks = &mut self.blocks;
        *self.block_of.entry(key).or_insert_with(|| {
            blocks.push(key);
            u32::try_from(blocks.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn key(&self, block: u32) -> Option<Key> {
        self.blocks.get(usize::try_from(block).ok()?).copied()
    }
}

/// How many tracepoint locations may come during a run, beside those there are at its start.
const SPARE_TRACEPOINTS: u32 = 4096;
/// How many variables may.
const SPARE_VARIABLES: u32 = 256;
/// The most bytes of all rings together.
const ALL_RINGS: u64 = 1 << 30;
/// The most bytes of a ring, and the least.
const LARGEST_RING: u64 = 8 << 20;
const SMALLEST_RING: u64 = 4 << 20;
/// How many bytes of frames may wait for others outside of their rings: the first of these for which the program may map memory,
/// which is none until it is used.
const HOLDS: [u64; 2] = [256 << 20, 4 << 20];
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

    /// What may serve tracepoints.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.mechanism
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

    /// Puts a tracepoint in by the best means that are allowed.
    pub(crate) fn put_in(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        self.fold_counts(address);
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
        let definitions: Vec<TracepointDefinition> = self
            .at(address)
            .map(|tracepoint| TracepointDefinition {
                // A pad counts from its own beginning.
                pass_count: match tracepoint.definition.pass_count {
                    0 => 0,
                    count => count.saturating_sub(tracepoint.passes).max(1),
                },
                actions: tracepoint.plan.actions.list.clone(),
                ..tracepoint.definition.clone()
            })
            .collect();
        let mentioned: BTreeSet<u16> = self
            .at(address)
            .flat_map(|tracepoint| tracepoint.plan.variables())
            .collect();
        let kept: Vec<Option<u32>> = self
            .at(address)
            .map(|tracepoint| tracepoint.plan.actions.set)
            .collect();
        self.set_up_pads(target)?;
        let Some(pads) = &mut self.pads else {
            return Err("no memory is shared with the program".to_owned());
        };
        let mut blocks = Vec::new();
        for definition in &definitions {
            let block = pads.block(definition.key());
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
        let sets = self.kept.as_ref().map(|kept| &kept.sets);
        let tracepoints: Vec<PadTracepoint<'_>> = blocks
            .iter()
            .zip(&definitions)
            .zip(&kept)
            .map(|((index, definition), kept)| PadTracepoint {
                index: *index,
                definition,
                kept: kept.and_then(|number| {
                    let registers = sets?.get(number)?.mask();
                    Some(KeptSet { number, registers })
                }),
            })
            .collect();
        let pad = compile(address, &tracepoints, &options).map_err(|error| error.to_string())?;
        let pad = Rc::new(pad);
        pads.code.insert(address, Rc::clone(&pad));
        fail_point!("pads/compiled");
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
        let made = self.share(target);
        fail_point!("pads/shared");
        match made {
            Ok(memory) => {
                self.pads = Some(Pads {
                    reader: RingReader::new(&memory.shared),
                    memory: Rc::new(memory),
                    blocks: Vec::new(),
                    block_of: HashMap::new(),
                    without_frame: Vec::new(),
                    slots: HashMap::new(),
                    code: HashMap::new(),
                    torn: 0,
                    taken: Instant::now(),
                    stopped: None,
                    ended: None,
                });
                Ok(())
            }
            Err(reason) => {
                self.no_pads = Some(reason.clone());
                Err(reason)
            }
        }
    }

    /// Has a target share memory. Where the program may not map as much as is wished for, there is less room for frames that
    /// wait.
    fn share(&self, target: &mut dyn Target) -> Result<PadMemory, String> {
        let mut refusal = String::new();
        for hold_bytes in HOLDS {
            match target.share_memory(self.layout(hold_bytes)?) {
                Ok(memory) => return Ok(memory),
                Err(reason) => refusal = reason,
            }
        }
        Err(format!("no memory is shared with the program: {refusal}"))
    }

    fn layout(&self, hold_bytes: u64) -> Result<SharedLayout, String> {
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
            hold_bytes,
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

    /// Has pads do nothing from now on, or since the stop that has ended the run.
    pub(crate) fn end_pads(&mut self) {
        if let Some(pads) = &mut self.pads {
            pads.memory.shared.stop();
            fail_point!("pads/ended");
            let now = pads.stopped.unwrap_or_else(counter);
            pads.ended.get_or_insert(now);
        }
    }

    /// Counts as their own what the pad of the tracepoints at an address has counted, which begins anew.
    pub(crate) fn fold_counts(&mut self, address: Address) {
        let Some(pads) = &self.pads else { return };
        for index in self.places.get(&address).into_iter().flatten() {
            let Some(tracepoint) = self.tracepoints.get_mut(*index) else {
                continue;
            };
            let Some(block) = pads.known_block(tracepoint.definition.key()) else {
                continue;
            };
            let counts = pads.memory.shared.counts(block);
            tracepoint.passes = tracepoint.passes.saturating_add(counts.passes);
            tracepoint.pad_missing = Missing::default();
            tracepoint.missing.add(counts.into());
            pads.memory.shared.reset_counts(block);
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

    pub(crate) const fn has_pads(&self) -> bool {
        self.pads.is_some()
    }

    /// As [`give_pads_up`](Self::give_pads_up), of a program that is still there.
    pub(crate) fn take_pads_out(&mut self, target: &mut dyn Target) {
        self.no_pads = None;
        if self.pads.is_some() {
            target.leave_pads();
            fail_point!("pads/left");
            self.give_pads_up();
            target.unshare_memory();
            fail_point!("pads/unshared");
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
