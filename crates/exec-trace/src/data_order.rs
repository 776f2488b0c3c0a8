//! In which order the digits of accesses are written, known from a trace itself.
//!
//! Tarmac writes the data of an access as one number or, as simulators of some small processors do, byte by byte in the
//! order of memory, and the text has no sign of which. But what a load reads goes to a register, and what a store writes comes
//! from one, and registers are numbers everywhere: where the digits are the register's, they are a number, and where
//! they are its bytes turned round, they are in the order of memory. (On a big-endian machine the two are the same.)

use std::collections::HashMap;

use crate::record::{Access, AccessKind, DataOrder, Instruction, Owner, RegisterWrite};

/// The most registers whose values are remembered; names that only a damaged text has are not.
const MOST_REGISTERS: usize = 4096;

/// The most accesses and writes of an instruction that are looked at.
const MOST_EFFECTS: usize = 64;

/// How many accesses fit which order of their digits, by the registers that were loaded and stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DataOrderEvidence {
    /// Those whose digits are the number in the register.
    pub number: u64,
    /// Those whose digits are its bytes, the least significant one first.
    pub memory: u64,
}

impl DataOrderEvidence {
    /// The order that more accesses fit; none where neither is.
    #[must_use]
    pub const fn order(self) -> Option<DataOrder> {
        if self.number > self.memory {
            Some(DataOrder::Number)
        } else if self.memory > self.number {
            Some(DataOrder::LowestAddressFirst)
        } else {
            None
        }
    }

    /// What a user is to know of a text whose accesses do not all fit one order, given whether the order was chosen by the
    /// user.
    #[must_use]
    pub fn contradiction(self, is_given: bool) -> Option<String> {
        if self.number == 0 || self.memory == 0 {
            return None;
        }
        let hint = if is_given {
            ""
        } else {
            "; --data-order says which is right"
        };
        Some(format!(
            "by the registers that are loaded and stored, the data of {} accesses are one number, and those of {} the bytes in \
             the order of memory{hint}",
            self.number, self.memory
        ))
    }
}

/// An access that may tell: its digits, which are all known.
#[derive(Clone, Copy)]
struct Word {
    kind: AccessKind,
    size: u32,
    value: u64,
}

impl Word {
    fn of(access: &Access<'_>) -> Option<Self> {
        let value = access.data.known()?;
        let is_whole = matches!(access.size, 2 | 4 | 8) && access.data.digits() == 2 * access.size;
        let may_be_either = access.order != DataOrder::HighestAddressFirst;
        (is_whole && may_be_either).then_some(Self {
            kind: access.kind,
            size: access.size,
            value,
        })
    }

    /// The number, if the digits are bytes.
    const fn turned(self) -> u64 {
        self.value.swap_bytes() >> (64 - 8 * self.size)
    }

    /// Whether a register holds the number in the one case and in the other.
    const fn is_in(self, register: u64) -> [bool; 2] {
        let low = register << (64 - 8 * self.size) >> (64 - 8 * self.size);
        [low == self.value, low == self.turned()]
    }
}

/// Receives records as a [`Sink`](crate::text::Sink) does, and counts which order fits.
#[derive(Default)]
pub struct DataOrderObserver {
    evidence: DataOrderEvidence,
    registers: HashMap<Box<[u8]>, u64>,
    /// What the latest instruction says, and what it did.
    disassembly: Vec<u8>,
    accesses: Vec<Option<Word>>,
    writes: Vec<(Box<[u8]>, Option<u64>)>,
}

impl DataOrderObserver {
    /// What has been seen.
    pub fn evidence(&mut self) -> DataOrderEvidence {
        self.settle();
        self.evidence
    }

    /// An instruction begins.
    pub fn instruction(&mut self, instruction: &Instruction<'_>) {
        self.settle();
        self.disassembly.clear();
        self.disassembly
            .extend(instruction.disassembly.to_ascii_lowercase());
    }

    /// Memory was accessed.
    pub fn access(&mut self, owner: Owner, access: &Access<'_>) {
        if owner == Owner::Latest && self.accesses.len() < MOST_EFFECTS {
            self.accesses.push(Word::of(access));
        }
    }

    /// A register was written.
    pub fn register(&mut self, owner: Owner, write: &RegisterWrite<'_>) {
        let whole = write.part.is_none();
        let value = write.value.known().filter(|_| whole);
        let name = write.register.to_ascii_lowercase().into_boxed_slice();
        if owner == Owner::Latest && self.writes.len() < MOST_EFFECTS {
            self.writes.push((name, value));
        } else {
            self.hold(name, value);
        }
    }

    fn hold(&mut self, name: Box<[u8]>, value: Option<u64>) {
        match value {
            None => _ = self.registers.remove(&name),
            Some(value) if self.registers.len() < MOST_REGISTERS => {
                self.registers.insert(name, value);
            }
            Some(value) => {
                if let Some(known) = self.registers.get_mut(&name) {
                    *known = value;
                }
            }
        }
    }

    /// The latest instruction has done what it does. One that accesses memory several times does not say which register
    /// goes with which access.
    fn settle(&mut self) {
        if let [Some(word)] = self.accesses[..]
            && word.value != word.turned()
        {
            let mut fits = [false; 2];
            let mut look = |value: u64| {
                let [number, memory] = word.is_in(value);
                fits[0] |= number;
                fits[1] |= memory;
            };
            match word.kind {
                AccessKind::Read => (self.writes.iter())
                    .filter_map(|(_, value)| *value)
                    .for_each(&mut look),
                AccessKind::Write => self
                    .disassembly
                    .split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                    .filter_map(|word| self.registers.get(word).copied())
                    .for_each(&mut look),
            }
            match fits {
                [true, false] => self.evidence.number += 1,
                [false, true] => self.evidence.memory += 1,
                _ => {}
            }
        }
        self.accesses.clear();
        for (name, value) in std::mem::take(&mut self.writes) {
            self.hold(name, value);
        }
    }
}
