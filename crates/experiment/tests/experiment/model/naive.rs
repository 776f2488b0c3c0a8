//! The model: every action alone, memory byte by byte, frames in a list.

use std::collections::{BTreeMap, BTreeSet};

use tracewire_agent_expr::{CollectOnce, Context, Evaluation, EvaluationErrorKind};
use tracewire_experiment::fake::Moment;
use tracewire_experiment::{Options, Registers, Unreadable};
use tracewire_model::{
    Action, Address, StopReason, ThreadId, TracepointDefinition, TracepointNumber,
};

use crate::support::{REGISTERS, block};

/// Address and bytes: two mappings that touch, and one apart.
pub fn memory() -> [(u64, Vec<u8>); 3] {
    let mut first = vec![0; 64];
    for (place, value) in [(0, 0x1040_u64), (8, 0x2000), (16, 0), (24, 0x1008), (32, 3)] {
        first[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    first[40..].copy_from_slice(b"a string across the edge");
    let second = b" of it\0and more without an end".to_vec();
    let third = (1..=40).collect();
    [(0x1000, first), (0x1040, second), (0x2000, third)]
}

/// Leaves out repeated collections of actions. The tests of agent expressions show that no byte is lost.
fn collect_once(actions: &mut Vec<Action>) {
    let mut once = CollectOnce::default();
    actions.retain_mut(|action| match action {
        Action::Memory {
            base,
            offset,
            length,
        } => !once.memory(base.map(|base| base.0), *offset, *length),
        Action::Expression(code) => {
            if let Some(shorter) = once.program(code) {
                *code = shorter;
            }
            true
        }
        Action::Registers(_) | Action::StaticData => true,
    });
}

pub struct Tracepoint {
    pub definition: TracepointDefinition,
    pub hits: u64,
    pub bytes: u64,
    pub missing: (u64, Option<Address>),
}

type Key = (TracepointNumber, Address);

pub struct Model {
    options: Options,
    size: u64,
    circular: bool,
    memory: BTreeMap<u64, u8>,
    pub tracepoints: Vec<Tracepoint>,
    /// The variables of the user.
    pub variables: BTreeMap<u16, i64>,
    pub frames: Vec<Vec<u8>>,
    pub created: u64,
    pub running: bool,
    pub reason: StopReason,
    pub stopping: Option<TracepointNumber>,
    pub inserted: BTreeSet<Address>,
    /// Something was collected that is near the limits, which are not modelled.
    pub excessive: bool,
    /// Thread, tracepoint, remaining steps.
    stepping: Vec<(ThreadId, Key, u64)>,
}

/// The results of one list of actions.
#[derive(Default)]
struct Done {
    blocks: Vec<u8>,
    missing: Vec<Address>,
    failed: bool,
    gone: bool,
    excessive: bool,
}

impl Model {
    pub fn new(options: Options, size: u64, circular: bool) -> Self {
        let bytes = memory()
            .into_iter()
            .flat_map(|(start, bytes)| (start..).zip(bytes));
        Self {
            options,
            size,
            circular,
            memory: bytes.collect(),
            tracepoints: vec![],
            variables: BTreeMap::new(),
            frames: vec![],
            created: 0,
            running: false,
            reason: StopReason::NotRun,
            stopping: None,
            inserted: BTreeSet::new(),
            excessive: false,
            stepping: vec![],
        }
    }

    fn find(&self, key: Key) -> Option<usize> {
        let mut definitions = self.tracepoints.iter().map(|each| &each.definition);
        definitions.position(|each| (each.number, each.address) == key)
    }

    pub fn define(&mut self, mut definition: TracepointDefinition) {
        collect_once(&mut definition.actions);
        collect_once(&mut definition.step_actions);
        let key = (definition.number, definition.address);
        self.stepping.retain(|(_, each, _)| *each != key);
        let new = Tracepoint {
            definition,
            hits: 0,
            bytes: 0,
            missing: (0, None),
        };
        match self.find(key) {
            // Its counts go on.
            Some(index) if self.running => self.tracepoints[index].definition = new.definition,
            Some(index) => self.tracepoints[index] = new,
            None => self.tracepoints.push(new),
        }
    }

    pub fn delete(&mut self, number: TracepointNumber, address: Option<Address>) -> bool {
        let before = self.tracepoints.len();
        let gone = |key: Key| key.0 == number && (address.is_none() || address == Some(key.1));
        self.tracepoints
            .retain(|each| !gone((each.definition.number, each.definition.address)));
        self.stepping.retain(|(_, key, _)| !gone(*key));
        self.tracepoints.len() < before
    }

    pub fn set_enabled(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
        enabled: bool,
    ) -> bool {
        let mut found = false;
        for Tracepoint { definition, .. } in &mut self.tracepoints {
            if definition.number == number
                && (address.is_none() || address == Some(definition.address))
            {
                definition.enabled = enabled;
                found = true;
            }
        }
        found
    }

    pub fn start(&mut self) -> bool {
        if self.running || self.tracepoints.is_empty() {
            return false;
        }
        self.running = true;
        self.stopping = None;
        self.created = 0;
        self.frames.clear();
        self.variables.clear();
        self.stepping.clear();
        for tracepoint in &mut self.tracepoints {
            (tracepoint.hits, tracepoint.bytes, tracepoint.missing) = (0, 0, (0, None));
        }
        true
    }

    pub fn stop(&mut self, reason: StopReason, stopping: Option<TracepointNumber>) {
        if self.running {
            self.running = false;
            self.reason = reason;
            self.stopping = stopping;
            self.stepping.clear();
        }
    }

    pub fn install(&mut self) {
        let enabled = self
            .tracepoints
            .iter()
            .filter(|each| each.definition.enabled)
            .map(|each| each.definition.address);
        self.inserted = if self.running {
            enabled.collect()
        } else {
            BTreeSet::new()
        };
    }

    pub fn run(&mut self, moment: &Moment) {
        for (address, bytes) in &moment.writes {
            for (at, byte) in (address.0..).zip(bytes) {
                // A write stays in the mapping where it begins.
                if at < 0x1040 {
                    self.memory.insert(at, *byte);
                }
            }
        }
        if self
            .stepping
            .iter()
            .any(|(thread, ..)| *thread == moment.thread)
        {
            self.step(moment);
        }
        if self.running && self.inserted.contains(&moment.pc) {
            self.reach(moment);
        }
        if moment.killed {
            self.gone(moment.thread);
        }
        if !self.running {
            self.install();
        }
    }

    /// A thread makes no more steps. A pass count that has waited for them ends the run.
    fn gone(&mut self, thread: ThreadId) {
        let of_thread = |(of, ..): &(ThreadId, Key, u64)| *of == thread;
        let gone: Vec<_> = self.stepping.extract_if(.., |it| of_thread(it)).collect();
        for (_, key, _) in gone {
            if let Some(index) = self.find(key)
                && self.running
                && self.passed(index)
            {
                return;
            }
        }
    }

    /// Whether a tracepoint's hits still have steps to make.
    fn is_followed(&self, key: Key) -> bool {
        let of = |(_, of, left): &(_, Key, u64)| *of == key && *left > 0;
        self.stepping.iter().any(of)
    }

    fn step(&mut self, moment: &Moment) {
        for place in 0..self.stepping.len() {
            let (thread, key, left) = &mut self.stepping[place];
            if *thread != moment.thread {
                continue;
            }
            *left -= 1;
            let (key, last) = (*key, *left == 0);
            let index = self.find(key).expect("deleted ones do not step");
            if !self.frame(index, true, moment) {
                return;
            }
            if last && self.passed(index) {
                return;
            }
        }
        self.stepping.retain(|(.., left)| *left > 0);
    }

    fn reach(&mut self, moment: &Moment) {
        for index in 0..self.tracepoints.len() {
            let definition = &self.tracepoints[index].definition;
            if !definition.enabled || definition.address != moment.pc {
                continue;
            }
            let definition = definition.clone();
            let (key, hits) = (definition.key(), self.tracepoints[index].hits);
            if definition.pass_count > 0 && hits >= definition.pass_count && self.is_followed(key) {
                continue;
            }
            if let Some(condition) = &definition.condition {
                let mut view = View::new(self, moment);
                match Evaluation::new().evaluate(condition, &mut view) {
                    Ok(Some(0)) => continue,
                    Ok(_) => {}
                    Err(_) => {
                        if !moment.killed {
                            self.stop(StopReason::Error, Some(definition.number));
                        }
                        return;
                    }
                }
            }
            if !self.frame(index, false, moment) {
                return;
            }
            if definition.step_count > 0 {
                self.stepping
                    .push((moment.thread, key, definition.step_count));
            }
            if self.passed(index) {
                return;
            }
        }
    }

    fn passed(&mut self, index: usize) -> bool {
        let Tracepoint {
            definition, hits, ..
        } = &self.tracepoints[index];
        let (number, key) = (definition.number, definition.key());
        let met = definition.pass_count > 0 && *hits >= definition.pass_count;
        let passed = met && !self.is_followed(key);
        if passed {
            self.stop(StopReason::PassCount, Some(number));
        }
        passed
    }

    /// Returns true when a frame was made and the run goes on.
    fn frame(&mut self, index: usize, step: bool, moment: &Moment) -> bool {
        let definition = self.tracepoints[index].definition.clone();
        let actions = if step {
            &definition.step_actions
        } else {
            &definition.actions
        };
        let led_back = step
            && self.tracepoints.iter().any(|tracepoint| {
                let other = &tracepoint.definition;
                other.number == definition.number && other.address == moment.pc
            });
        let done = self.collect(actions, led_back, moment);
        if done.gone {
            if step {
                self.gone(moment.thread);
            }
            return false;
        }
        let mut frame = (definition.number.0 as i16).to_le_bytes().to_vec();
        frame.extend((done.blocks.len() as u32).to_le_bytes());
        frame.extend(done.blocks);
        let length = frame.len() as u64;
        self.frames.push(frame);
        let used = |frames: &[Vec<u8>]| frames.iter().map(Vec::len).sum::<usize>() as u64;
        if length > self.size || !self.circular && used(&self.frames) > self.size {
            self.frames.pop();
            self.stop(StopReason::Full, None);
            return false;
        }
        while used(&self.frames) > self.size {
            self.frames.remove(0);
        }
        self.created += 1;
        let tracepoint = &mut self.tracepoints[index];
        tracepoint.hits += u64::from(!step);
        tracepoint.bytes += length;
        tracepoint.missing.0 += done.missing.len() as u64;
        tracepoint.missing.1 = tracepoint.missing.1.or(done.missing.first().copied());
        let stop = self.options.unreadable == Unreadable::Stop && !done.missing.is_empty();
        if done.failed || stop {
            self.stop(StopReason::Error, Some(definition.number));
        }
        self.running
    }

    fn collect(&mut self, actions: &[Action], led_back: bool, moment: &Moment) -> Done {
        let options = self.options;
        let asked = actions
            .iter()
            .any(|action| matches!(action, Action::Registers(_)));
        let mut view = View::new(self, moment);
        if asked || options.registers == Registers::Always {
            if moment.killed {
                view.done.gone = true;
                return view.done;
            }
            view.done.blocks.push(b'R');
            view.done.blocks.extend(block(moment));
        }
        if led_back {
            view.done.blocks.push(b'V');
            view.done.blocks.extend((i32::MIN + 256).to_le_bytes());
            view.done.blocks.extend(1i64.to_le_bytes());
        }
        if options.stamp {
            (1..=3).for_each(|number| view.collect_variable(number));
        }
        for action in actions {
            match action {
                Action::Registers(_) | Action::StaticData => {}
                Action::Memory {
                    base,
                    offset,
                    length,
                } => {
                    let base = match base {
                        Some(base) => view.register(base.0),
                        None => Some(0),
                    };
                    match base {
                        Some(base) => view.collect_memory(base.wrapping_add(*offset), *length),
                        None => view.done.failed = true,
                    }
                }
                Action::Expression(code) => {
                    if let Err(error) = Evaluation::new().evaluate(code, &mut view) {
                        match error.kind {
                            EvaluationErrorKind::BadMemory { address, .. } => {
                                view.done.missing.push(Address(address));
                            }
                            _ => view.done.failed = true,
                        }
                    }
                }
            }
        }
        let mut done = view.done;
        self.excessive |= done.excessive;
        // A failure because the thread has ended is not one.
        done.gone |= moment.killed && (done.failed || !done.missing.is_empty());
        done
    }
}

/// The state of a moment that programs read, and their collected data.
struct View<'v> {
    memory: &'v BTreeMap<u64, u8>,
    variables: &'v mut BTreeMap<u16, i64>,
    moment: &'v Moment,
    done: Done,
}

impl<'v> View<'v> {
    fn new(model: &'v mut Model, moment: &'v Moment) -> Self {
        Self {
            memory: &model.memory,
            variables: &mut model.variables,
            moment,
            done: Done::default(),
        }
    }

    fn byte(&self, address: u64, place: u64) -> Option<u8> {
        let at = address.checked_add(place)?;
        self.memory
            .get(&at)
            .copied()
            .filter(|_| !self.moment.killed)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.done.blocks.push(b'M');
            self.done.blocks.extend(address.to_le_bytes());
            self.done.blocks.extend((bytes.len() as u16).to_le_bytes());
            self.done.blocks.extend(bytes);
        }
    }

    fn missing(&mut self, address: u64, place: u64) {
        self.done.missing.push(Address(address.wrapping_add(place)));
    }
}

impl Context for View<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        match usize::from(register) {
            _ if self.moment.killed => None,
            place if register < REGISTERS => {
                Some(self.moment.registers.get(place).copied().unwrap_or(0))
            }
            _ if register == REGISTERS => Some(self.moment.pc.0),
            _ => None,
        }
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        (0..u64::from(size)).rev().try_fold(0, |value, place| {
            Some(value << 8 | u64::from(self.byte(address, place)?))
        })
    }

    fn variable(&mut self, number: u16) -> i64 {
        match number {
            1 => self.moment.time.cast_signed(),
            2 => self.moment.thread.0.into(),
            3 => self.moment.cpu.into(),
            _ => *self.variables.entry(number).or_insert(0),
        }
    }

    fn set_variable(&mut self, number: u16, value: i64) {
        self.variables.insert(number, value);
    }

    fn collect_memory(&mut self, address: u64, length: u64) {
        self.done.excessive |= length > 1 << 16 || self.done.blocks.len() > 1 << 16;
        let bytes: Vec<u8> = (0..length)
            .map_while(|place| self.byte(address, place))
            .collect();
        self.write(address, &bytes);
        if (bytes.len() as u64) < length {
            self.missing(address, bytes.len() as u64);
        }
    }

    fn collect_string(&mut self, address: u64, limit: u64) {
        let mut bytes = vec![];
        while (bytes.len() as u64) < limit {
            match self.byte(address, bytes.len() as u64) {
                Some(byte) => bytes.push(byte),
                None => {
                    self.missing(address, bytes.len() as u64);
                    break;
                }
            }
            if bytes.last() == Some(&0) {
                break;
            }
        }
        self.write(address, &bytes);
    }

    fn collect_variable(&mut self, number: u16) {
        let value = self.variable(number);
        self.done.blocks.push(b'V');
        self.done.blocks.extend(i32::from(number).to_le_bytes());
        self.done.blocks.extend(value.to_le_bytes());
    }
}
