//! A segment of a trace, encoded: groups to templates, runs and columns.

use tracewire_model::ByteOrder;

use super::bytes::{Damaged, put, put_signed, put_slice};
use super::column::{put_row, put_steps};
use super::effect::{EffectKind, ValueTemplate};
use super::frame::Packer;
use super::group::{Group, Groups};
use super::map::Map;
use super::part::{Part, parts};
use super::template::{Blocks, Class, Shape, put_templates};
use super::templates::Templates;
use super::value::RegisterValue;
use super::{AHEAD, BLOCK};
use crate::record::{AccessKind, BitRange, Time};
use tracewire_arch::{Machine, Stores};

/// How much text a block may have.
const MOST_TEXT: u64 = 4 << 20;

/// How many bytes of skeletons are those of text that does not repeat.
const MANY_SKELETONS: usize = 2 << 20;

/// A group that is not in a block yet.
#[derive(Clone, Copy)]
struct Logged {
    template: u32,
    values: u32,
    apart: u32,
    time: u64,
    id: u64,
}

/// A write to a register, for the state that later blocks start with.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) cpu: u32,
    pub(crate) register: u32,
    pub(crate) part: Option<BitRange>,
    pub(crate) value: RegisterValue,
}

/// A block, encoded.
#[derive(Debug, Default)]
pub(crate) struct EncodedBlock {
    pub(crate) instructions: u32,
    pub(crate) groups: u32,
    pub(crate) lines: u64,
    pub(crate) unparsed: u32,
    /// The least and the greatest time of its instructions and of what they did.
    pub(crate) times: Option<(u64, u64)>,
    /// Whether effects are elsewhere than around their instructions, or not in order.
    pub(crate) is_unordered: bool,
    pub(crate) frames: [Vec<u8>; 4],
    /// In the order in which they happened; no write that a later one makes vain.
    pub(crate) updates: Vec<Update>,
}

/// A segment, encoded.
#[derive(Debug, Default)]
pub(crate) struct EncodedSegment {
    pub(crate) blocks: Vec<EncodedBlock>,
    pub(crate) templates: Vec<u8>,
    pub(crate) skeletons: Vec<u8>,
    pub(crate) registers: Vec<Box<[u8]>>,
    /// The addresses of its instructions, each once, rising.
    pub(crate) code: Vec<u64>,
    /// Every access, in pieces of at most a granule, in the order in which they happened.
    pub(crate) parts: Vec<Part>,
    pub(crate) cpus: Vec<u32>,
    /// Of the first and the last instruction; what the last one did may be later.
    pub(crate) first_time: Option<Time>,
    pub(crate) last_time: Option<Time>,
    pub(crate) accesses: u64,
    pub(crate) writes: u64,
    pub(crate) stores: Executed,
    pub(crate) register_writes: u64,
    /// Records that are kept as text: exceptions and whatever else the trace has.
    pub(crate) events: u64,
}

/// How many instructions that write memory were executed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Executed {
    /// Those that do.
    pub(crate) stores: u64,
    /// Those that may.
    pub(crate) perhaps: u64,
}

/// Makes a segment of groups.
pub(crate) struct SegmentEncoder {
    order: ByteOrder,
    machine: Option<&'static Machine>,
    packer: Packer,
    templates: Templates,
    /// Which blocks have each template.
    blocks: Vec<Blocks>,
    registers: Map<Box<[u8]>, u32>,
    log: Vec<Logged>,
    values: Vec<u64>,
    apart: Vec<u8>,
    text: u64,
    /// Instructions before the log.
    before: u64,
    last_time: u64,
    last_id: u64,
    id_step: u64,
    /// Of the last block that was made.
    block_time: u64,
    block_id: u64,
    scratch: Scratch,
    out: EncodedSegment,
}

/// Room that blocks share.
#[derive(Default)]
struct Scratch {
    /// The place of each template among the block's, plus one.
    local_of: Vec<u32>,
    raw: Vec<u8>,
    row: Vec<u64>,
    /// The groups, those of one template together.
    by_template: Vec<u32>,
}

impl SegmentEncoder {
    pub(crate) fn new(order: ByteOrder, machine: Option<&'static Machine>, level: i32) -> Self {
        Self {
            order,
            machine,
            packer: Packer::new(level),
            templates: Templates::default(),
            blocks: Vec::new(),
            registers: Map::default(),
            log: Vec::with_capacity(BLOCK + AHEAD),
            values: Vec::new(),
            apart: Vec::new(),
            text: 0,
            before: 0,
            last_time: 0,
            last_id: 0,
            id_step: 1,
            block_time: 0,
            block_id: 0,
            scratch: Scratch::default(),
            out: EncodedSegment::default(),
        }
    }

    /// Ends the segment, and begins the next one: its room is there already.
    pub(crate) fn finish(&mut self) -> EncodedSegment {
        while !self.log.is_empty() {
            let count = if self.log.len() > BLOCK {
                self.cut()
            } else {
                self.log.len()
            };
            self.block(count);
        }
        let mut raw = Vec::new();
        let mut names: Vec<_> = std::mem::take(&mut self.registers).into_iter().collect();
        names.sort_by_key(|(_, number)| *number);
        self.out.registers = names.into_iter().map(|(name, _)| name).collect();
        put_templates(&mut raw, &self.templates, &self.out.registers, &self.blocks);
        self.out.templates = self.packer.pack(&raw);
        drop(raw);
        let instructions = self.templates.iter().filter_map(|(of, ..)| of);
        self.out.code = instructions.map(|of| of.address).collect();
        self.out.code.sort_unstable();
        self.out.code.dedup();
        let skeletons = self.templates.skeletons();
        // Much of it is text that does not repeat: to try hard takes time and gains nothing.
        self.out.skeletons = match skeletons.len() {
            0..MANY_SKELETONS => self.packer.pack(skeletons),
            _ => Packer::new(1).pack(skeletons),
        };
        let next = Self::new(self.order, self.machine, self.packer.level());
        let done = std::mem::replace(self, next);
        self.packer = done.packer;
        self.scratch = done.scratch;
        self.templates = done.templates;
        self.templates.clear();
        self.blocks = done.blocks;
        self.blocks.clear();
        done.out
    }

    /// Where the log can be cut best, at or before [`BLOCK`] groups: where nothing after belongs to an instruction
    /// before, and nothing before to one after.
    fn cut(&self) -> usize {
        let most = self.log.len().min(BLOCK);
        let least = most.saturating_sub(BLOCK / 4).max(1);
        // How many instructions are before each group from `least` on.
        let mut before: u64 = 0;
        let mut latest = 0;
        for logged in &self.log[..least] {
            let (_, reached, count) = self.reach(logged, before);
            latest = latest.max(reached);
            before += count;
        }
        let mut counts = Vec::with_capacity(self.log.len() - least);
        let mut reaches = Vec::with_capacity(self.log.len() - least);
        for logged in &self.log[least..] {
            let (earliest, reached, count) = self.reach(logged, before);
            counts.push((before, latest));
            reaches.push(earliest);
            latest = latest.max(reached);
            before += count;
        }
        let mut earliest = u64::MAX;
        let mut best = None;
        for at in (least..self.log.len()).rev() {
            let (before, latest) = counts[at - least];
            earliest = earliest.min(reaches[at - least]);
            let starts = self.templates.instruction(self.log[at].template).is_some();
            if at <= most && starts && earliest > before && latest <= before {
                best = Some(at);
                break;
            }
        }
        best.unwrap_or(most)
    }

    /// The earliest slot of a group's effects, the latest one, and its instructions.
    fn reach(&self, logged: &Logged, before: u64) -> (u64, u64, u64) {
        let shape = self.templates.shape_of(logged.template);
        let mut earliest = u64::MAX;
        let mut latest = 0;
        for effect in &shape.effects {
            let slot = effect.offset.slot(before);
            earliest = earliest.min(slot);
            latest = latest.max(slot);
        }
        let count = u64::from(self.templates.instruction(logged.template).is_some());
        (earliest, latest, count)
    }

    /// Makes a block of the first groups of the log.
    fn block(&mut self, count: usize) {
        let mut block = EncodedBlock {
            groups: count as u32,
            ..EncodedBlock::default()
        };
        let log = &self.log[..count];
        let scratch = &mut self.scratch;

        // The block's templates, numbered in order.
        scratch.local_of.resize(self.templates.len(), 0);
        let mut present: Vec<u32> = Vec::new();
        for logged in log {
            let local = &mut scratch.local_of[logged.template as usize];
            if *local == 0 {
                *local = 1;
                present.push(logged.template);
            }
        }
        present.sort_unstable();
        let number = self.out.blocks.len();
        self.blocks.resize(self.templates.len(), Blocks::default());
        for template in &present {
            self.blocks[*template as usize].insert(number);
        }
        let mut starts = vec![0u32; present.len() + 1];
        for (local, template) in present.iter().enumerate() {
            scratch.local_of[*template as usize] = local as u32 + 1;
        }
        for logged in log {
            starts[scratch.local_of[logged.template as usize] as usize] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        // The groups of each template.
        let mut ends = starts.clone();
        scratch.by_template.clear();
        scratch.by_template.resize(log.len(), 0);
        for (at, logged) in log.iter().enumerate() {
            let end = &mut ends[scratch.local_of[logged.template as usize] as usize - 1];
            scratch.by_template[*end as usize] = at as u32;
            *end += 1;
        }

        // Which templates, in which order, when.
        let raw = &mut scratch.raw;
        raw.clear();
        put(raw, log.len() as u64);
        put(raw, present.len() as u64);
        let mut last = 0;
        for template in &present {
            put(raw, u64::from(template - last));
            last = *template;
        }
        let mut at = 0;
        let mut expected = 0i64;
        while let Some(logged) = log.get(at) {
            let start = i64::from(scratch.local_of[logged.template as usize]) - 1;
            let length = log[at..]
                .iter()
                .zip(start..)
                .take_while(|(logged, local)| {
                    i64::from(scratch.local_of[logged.template as usize]) - 1 == *local
                })
                .count();
            put_signed(raw, start - expected);
            put(raw, length as u64 - 1);
            expected = start + length as i64;
            at += length;
        }
        put(raw, self.block_time);
        scratch.row.clear();
        scratch.row.extend(log.iter().map(|logged| logged.time));
        put_steps(raw, self.block_time, &scratch.row);
        put(raw, self.block_id);
        scratch.row.clear();
        scratch.row.extend(log.iter().map(|logged| logged.id));
        put_steps(raw, self.block_id, &scratch.row);
        if let Some(last) = log.last() {
            (self.block_time, self.block_id) = (last.time, last.id);
        }
        block.frames[0] = self.packer.pack(raw);

        // What they did.
        let mut rows: Vec<u64> = Vec::new();
        for class in [Class::Register, Class::Memory, Class::Text] {
            raw.clear();
            for (local, template) in present.iter().enumerate() {
                let shape = self.templates.shape_of(*template);
                let groups =
                    &scratch.by_template[starts[local] as usize..starts[local + 1] as usize];
                rows.clear();
                for (place, variable) in shape.variables.iter().enumerate() {
                    if variable.class != class {
                        continue;
                    }
                    rows.extend(groups.iter().map(|group| {
                        let logged = &log[*group as usize];
                        self.values[logged.values as usize + place]
                    }));
                    let (earlier, row) = rows.split_at(rows.len() - groups.len());
                    put_row(raw, row, variable.digits, earlier);
                }
            }
            if class == Class::Text {
                let end = self
                    .log
                    .get(count)
                    .map_or(self.apart.len(), |next| next.apart as usize);
                raw.extend_from_slice(&self.apart[..end]);
            }
            block.frames[1 + class as usize] = self.packer.pack(raw);
        }
        for template in present {
            scratch.local_of[template as usize] = 0;
        }
        self.effects(count, &mut block);
        self.out.blocks.push(block);
        self.drop_front(count);
    }

    /// Counts what the block's groups did, and sends it on.
    fn effects(&mut self, count: usize, block: &mut EncodedBlock) {
        let mut before = self.before;
        let mut last_slot = 0;
        let mut writes: Vec<(u64, u32, u32)> = Vec::new();
        for (at, logged) in self.log[..count].iter().enumerate() {
            let shape = self.templates.shape_of(logged.template);
            block.lines += u64::from(shape.lines);
            block.unparsed += shape.unparsed;
            for (place, effect) in shape.effects.iter().enumerate() {
                let slot = effect.offset.slot(before);
                block.is_unordered |= slot < last_slot || slot < before || slot > before + 1;
                last_slot = slot;
                let values = &self.values[logged.values as usize..];
                if let Some(time) = &effect.time {
                    let difference = row_value(shape, Class::Text, time.row, values);
                    note_time(&mut block.times, logged.time.wrapping_add(difference));
                }
                match &effect.kind {
                    EffectKind::Register { .. } => {
                        self.out.register_writes += 1;
                        writes.push((slot, at as u32, place as u32));
                    }
                    EffectKind::Access { kind, .. } => {
                        self.out.accesses += 1;
                        self.out.writes += u64::from(*kind == AccessKind::Write);
                        let row = |row: u16| row_value(shape, Class::Memory, row, values);
                        parts(effect, slot as u32, self.order, row, &mut self.out.parts);
                    }
                }
            }
            if let Some(instruction) = self.templates.instruction(logged.template) {
                before += 1;
                block.instructions += 1;
                if instruction.taken {
                    match self.templates.stores(logged.template) {
                        Stores::No => {}
                        Stores::Yes => self.out.stores.stores += 1,
                        Stores::Perhaps => self.out.stores.perhaps += 1,
                    }
                }
                note_time(&mut block.times, logged.time);
                if !self.out.cpus.contains(&instruction.cpu) {
                    self.out.cpus.push(instruction.cpu);
                }
            }
        }
        self.before = before;
        if block.is_unordered {
            writes.sort_by_key(|(slot, _, _)| *slot);
        }
        // From the last write on back, for each register down to one that gives all.
        let mut settled: Map<u64, bool> = Map::default();
        for (_, at, place) in writes.into_iter().rev() {
            let logged = &self.log[at as usize];
            let shape = self.templates.shape_of(logged.template);
            let effect = &shape.effects[place as usize];
            let EffectKind::Register { register, part } = effect.kind else {
                continue;
            };
            let is_settled = settled
                .entry(u64::from(effect.cpu) << 32 | u64::from(register))
                .or_default();
            if *is_settled {
                continue;
            }
            *is_settled = part.is_none() && matches!(effect.value, ValueTemplate::One { .. });
            let values = &self.values[logged.values as usize..];
            let row = |row: u16| row_value(shape, Class::Register, row, values);
            block.updates.push(Update {
                cpu: effect.cpu,
                register,
                part,
                value: effect.value.register_value(row),
            });
        }
        block.updates.reverse();
    }

    fn drop_front(&mut self, count: usize) {
        let (values, apart) = self
            .log
            .get(count)
            .map_or((self.values.len(), self.apart.len()), |next| {
                (next.values as usize, next.apart as usize)
            });
        self.values.drain(..values);
        self.apart.drain(..apart);
        self.log.drain(..count);
        for logged in &mut self.log {
            logged.values -= values as u32;
            logged.apart -= apart as u32;
        }
        self.text = 0;
    }
}

fn note_time(times: &mut Option<(u64, u64)>, time: u64) {
    let (first, last) = times.get_or_insert((time, time));
    *first = (*first).min(time);
    *last = (*last).max(time);
}

/// The value in a row of a class, given a group's variables in their order.
fn row_value(shape: &Shape, class: Class, row: u16, values: &[u64]) -> u64 {
    shape
        .variables
        .iter()
        .zip(values)
        .find(|(variable, _)| variable.class == class && variable.row == row)
        .map_or(0, |(_, value)| *value)
}

impl Groups for &mut SegmentEncoder {
    fn group(&mut self, group: &Group) {
        self.out.events += u64::from(group.events);
        let machine = self.machine;
        let template = self.templates.number(group, || {
            let code = group.code.zip(machine);
            code.map_or(Stores::Perhaps, |((opcode, set, digits), machine)| {
                machine.stores(opcode, set, digits)
            })
        });
        let time = group.time.map_or(self.last_time, |time| time.ticks);
        if group.instruction.is_some() {
            self.out.first_time = self.out.first_time.or(group.time);
            self.out.last_time = group.time;
        }
        if let Some(other) = group.latest_other
            && let Some(last) = self.out.last_time
            && last.compare(other).is_lt()
        {
            self.out.last_time = Some(other);
        }
        let id = match group.id {
            Some(id) => {
                self.id_step = id.wrapping_sub(self.last_id);
                id
            }
            // What goes on evenly takes no room.
            None => self.last_id.wrapping_add(self.id_step),
        };
        self.log.push(Logged {
            template,
            values: self.values.len() as u32,
            apart: self.apart.len() as u32,
            time,
            id,
        });
        (self.last_time, self.last_id) = (time, id);
        self.values.extend_from_slice(&group.values);
        self.apart.extend_from_slice(&group.apart_text);
        self.text += (group.skeleton.len() + group.apart_text.len()) as u64;
        if self.log.len() >= BLOCK + AHEAD || self.text >= MOST_TEXT {
            self.block(self.cut());
        }
    }

    fn register(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.registers.get(name) {
            return *number;
        }
        let number = self.registers.len() as u32;
        self.registers.insert(name.into(), number);
        number
    }
}

/// Register names and the like, as a list that a reader takes apart again.
pub(crate) fn put_names(out: &mut Vec<u8>, names: &[Box<[u8]>]) {
    put(out, names.len() as u64);
    for name in names {
        put_slice(out, name);
    }
}

pub(crate) fn read_names(reader: &mut super::bytes::Reader<'_>) -> Result<Vec<Box<[u8]>>, Damaged> {
    (0..reader.count()?)
        .map(|_| reader.slice().map(Into::into))
        .collect()
}
