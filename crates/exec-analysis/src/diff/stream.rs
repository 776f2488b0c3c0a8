//! The instructions of one cpu of a trace, a few at a time.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use tracewire_arch::Machine;
use tracewire_exec_trace::record::{AccessKind, Address, CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Effect, ReadError, Recording, RegisterValue};

use super::Location;

/// How many instructions are read at once.
const CHUNK: u64 = 4096;

/// A location, as a number: registers from the top down, bytes of memory by their addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Key {
    Register(u32),
    Memory(u64),
}

/// The names of registers, those that are one to GDB as one.
pub(super) struct Names {
    list: Vec<String>,
    ignored: Vec<String>,
}

impl Names {
    pub(super) fn new(ignored: &[String]) -> Self {
        Self {
            list: Vec::new(),
            ignored: ignored
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
        }
    }

    fn key(&mut self, name: &str, machine: Option<&Machine>) -> Option<u32> {
        let lower = name.to_ascii_lowercase();
        let parts = machine.and_then(|machine| {
            let part = *machine.locate(name.as_bytes())?.first()?;
            let register = machine.layout().by_number(part.register)?;
            // A part of a register that starts at a higher bit is a separate location.
            Some(match part.register_bit {
                0 => register.name.clone(),
                bit => format!("{}.{bit}", register.name),
            })
        });
        let canonical = parts.unwrap_or_else(|| lower.clone());
        if self.ignored.contains(&lower) || self.ignored.contains(&canonical) {
            return None;
        }
        let at = self.list.iter().position(|known| *known == canonical);
        Some(at.unwrap_or_else(|| {
            self.list.push(canonical);
            self.list.len() - 1
        }) as u32)
    }

    pub(super) fn location(&self, key: Key) -> Location {
        match key {
            Key::Register(at) => {
                Location::Register(self.list.get(at as usize).cloned().unwrap_or_default())
            }
            Key::Memory(address) => Location::Memory(Address(address)),
        }
    }
}

/// A value that is written: of a register, or a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Register(Box<RegisterValue>),
    Byte(u8),
}

pub(super) struct Read {
    address: Address,
    bytes: Vec<Option<u8>>,
}

/// An instruction with its effects.
pub(super) struct Item {
    pub(super) number: InstructionNumber,
    pub(super) address: Address,
    pub(super) writes: Vec<(Key, Written)>,
    reads: Vec<Read>,
}

impl Item {
    /// Whether both traces are at the same instruction, skipped or not: producers differ for a branch that is not taken, and the
    /// effects show in the values and the path.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
    }

    /// Reads at the same address that gave something else.
    pub(super) fn reads_that_differ(&self, other: &Self) -> Vec<(Address, String, String)> {
        let shown = |bytes: &[Option<u8>]| -> String {
            let one = |byte: &Option<u8>| byte.map_or("??".into(), |byte| format!("{byte:02x}"));
            bytes.iter().map(one).collect()
        };
        self.reads
            .iter()
            .filter_map(|read| {
                let same = other
                    .reads
                    .iter()
                    .find(|same| (same.address, same.bytes.len()) == (read.address, read.bytes.len()))?;
                let differs = |(a, b): (&Option<u8>, &Option<u8>)| matches!((a, b), (Some(a), Some(b)) if a != b);
                read.bytes
                    .iter()
                    .zip(&same.bytes)
                    .any(differs)
                    .then(|| (read.address, shown(&read.bytes), shown(&same.bytes)))
            })
            .collect()
    }
}

pub(super) struct Stream<'a> {
    recording: &'a Recording,
    cpu: CpuNumber,
    next: u64,
    keys: HashMap<u32, u32>,
    pub(super) items: VecDeque<Item>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        cpu: CpuNumber,
        machine: Option<&Machine>,
        names: &mut Names,
    ) -> Self {
        let registers = recording.register_names().iter().zip(0u32..);
        let keys = registers.filter_map(|(name, id)| Some((id, names.key(name, machine)?)));
        Self {
            recording,
            cpu,
            next: 0,
            keys: keys.collect(),
            items: VecDeque::new(),
        }
    }

    /// Reads on until there are so many, or the trace ends.
    pub(super) fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        while self.items.len() < count && self.next < self.recording.len() {
            let range = self.next..self.next + CHUNK;
            self.next = range.end;
            let (cpu, keys, items) = (self.cpu, &self.keys, &mut self.items);
            self.recording.for_each_instruction(range, &mut |step| {
                if step.cpu() == cpu {
                    let mut item = Item {
                        number: step.number(),
                        address: step.address(),
                        writes: Vec::new(),
                        reads: Vec::new(),
                    };
                    step.effects(|effect| match effect {
                        Effect::Register(write) => {
                            if let Some(key) = keys.get(&write.register.0) {
                                let mut value = RegisterValue::UNKNOWN;
                                match write.part {
                                    Some(part) => value.write_part(part, &write.value()),
                                    None => value = write.value(),
                                }
                                item.writes.push((
                                    Key::Register(*key),
                                    Written::Register(Box::new(value)),
                                ));
                            }
                        }
                        Effect::Access(access) => {
                            let bytes = access.bytes();
                            if access.kind == AccessKind::Read {
                                item.reads.push(Read {
                                    address: access.address,
                                    bytes,
                                });
                                return;
                            }
                            for (byte, offset) in bytes.into_iter().zip(0..) {
                                if let Some(byte) = byte {
                                    let address = access.address.0.wrapping_add(offset);
                                    item.writes
                                        .push((Key::Memory(address), Written::Byte(byte)));
                                }
                            }
                        }
                    });
                    items.push_back(item);
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }

    /// Skips to the first instruction at an address; to the end if there is none.
    pub(super) fn skip_to(&mut self, address: Address) -> Result<(), ReadError> {
        loop {
            self.fill(1)?;
            match self.items.iter().position(|item| item.address == address) {
                Some(at) => {
                    self.items.drain(..at);
                    return Ok(());
                }
                None if self.items.is_empty() => return Ok(()),
                None => self.items.clear(),
            }
        }
    }
}
