//! A target without a process, for tests of the layers above a target.
//!
//! A test describes a program's execution, moment by moment: a thread, its address and registers, and the changes of memory
//! before. The target calls the handler as a real one does, and counts its own calls.
//!
//! The documentation of the crate has an example.

use std::collections::{BTreeMap, BTreeSet};

use tracewire_model::{Address, ByteOrder, RegisterNumber, ThreadId};

use crate::error::TargetError;
use crate::target::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target};

/// The state of a thread of the program at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Which thread.
    pub thread: ThreadId,
    /// On which cpu.
    pub cpu: u32,
    /// When, in microseconds.
    pub time: u64,
    /// The instruction it is about to execute.
    pub pc: Address,
    /// Its registers from number 0 on; those not given are 0.
    pub registers: Vec<u64>,
    /// The writes to mapped memory before.
    pub writes: Vec<(Address, Vec<u8>)>,
    /// Whether it is killed while it is stopped there: none of its state can be read.
    pub killed: bool,
}

/// How often the target was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// The number of reported hits.
    pub hits: u64,
    /// Calls of [`StoppedThread::read_memory`].
    pub read_memory: u64,
    /// Pieces that were read by them.
    pub pieces: u64,
    /// Calls of [`StoppedThread::register`].
    pub register: u64,
    /// Calls of [`StoppedThread::register_block`].
    pub register_block: u64,
}

/// The target. Its registers are 64 bits wide: the plain ones, and after them the program counter.
#[derive(Clone, Debug)]
pub struct FakeTarget {
    order: ByteOrder,
    registers: u16,
    memory: BTreeMap<u64, Vec<u8>>,
    inserted: BTreeSet<Address>,
    refused: BTreeSet<Address>,
    watched: BTreeSet<(Address, u64)>,
    stepping: BTreeSet<ThreadId>,
    block: Vec<u8>,
    calls: Calls,
}

impl FakeTarget {
    /// A program without memory, with this many registers besides its program counter.
    #[must_use]
    pub const fn new(order: ByteOrder, registers: u16) -> Self {
        Self {
            order,
            registers,
            memory: BTreeMap::new(),
            inserted: BTreeSet::new(),
            refused: BTreeSet::new(),
            watched: BTreeSet::new(),
            stepping: BTreeSet::new(),
            block: Vec::new(),
            calls: Calls {
                hits: 0,
                read_memory: 0,
                pieces: 0,
                register: 0,
                register_block: 0,
            },
        }
    }

    /// The size of the register block, in bytes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        (u32::from(self.registers) + 1) * 8
    }

    /// Maps memory with these bytes; it must not overlap other memory.
    pub fn map(&mut self, address: Address, bytes: &[u8]) {
        self.memory.insert(address.0, bytes.to_vec());
    }

    /// Unmaps the memory that was mapped at this address.
    pub fn unmap(&mut self, address: Address) {
        self.memory.remove(&address.0);
    }

    /// Makes every insertion at this address fail.
    pub fn refuse(&mut self, address: Address) {
        self.refused.insert(address);
    }

    /// The addresses of the inserted tracepoints.
    #[must_use]
    pub const fn inserted(&self) -> &BTreeSet<Address> {
        &self.inserted
    }

    /// The number of calls so far.
    #[must_use]
    pub const fn calls(&self) -> Calls {
        self.calls
    }

    /// Counts from 0 again.
    pub fn reset_calls(&mut self) {
        self.calls = Calls::default();
    }

    /// Moves one thread to one place: a step, if it is being stepped, then a tracepoint, if one is there. Returns the last
    /// outcome; `None` when there was nothing to report.
    pub fn run(&mut self, moment: &Moment, handler: &mut dyn HitHandler) -> Option<Outcome> {
        for (address, bytes) in &moment.writes {
            self.write(*address, bytes);
        }
        let mut outcome = None;
        let step = self.stepping.contains(&moment.thread);
        let tracepoint = self.inserted.contains(&moment.pc);
        let written = |(address, length): &&(Address, u64)| {
            moment.writes.iter().any(|(at, bytes)| {
                at.0 < address.0.saturating_add(*length)
                    && address.0 < at.0.saturating_add(bytes.len() as u64)
            })
        };
        let writes: Vec<_> = self.watched.iter().filter(written).copied().collect();
        let writes = writes.into_iter();
        let writes = writes.map(|(address, length)| Hit::Write { address, length });
        let hits = [
            step.then_some(Hit::Step(moment.pc)),
            tracepoint.then_some(Hit::Tracepoint(moment.pc)),
        ];
        for hit in writes.chain(hits.into_iter().flatten()) {
            self.calls.hits += 1;
            let mut thread = FakeThread {
                moment,
                order: self.order,
                registers: self.registers,
                memory: &self.memory,
                block: &mut self.block,
                calls: &mut self.calls,
            };
            let next = handler.hit(hit, &mut thread);
            if next.step {
                self.stepping.insert(moment.thread);
            } else {
                self.stepping.remove(&moment.thread);
            }
            outcome = Some(next);
        }
        if moment.killed {
            self.stepping.remove(&moment.thread);
            handler.thread_ended(moment.thread);
        }
        outcome
    }

    /// Memory as it is now, up to the first byte that there is not.
    #[must_use]
    pub fn read(&self, address: Address, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < length
            && let Some(at) = address.0.checked_add(bytes.len() as u64)
            && let part = readable(&self.memory, at)
            && !part.is_empty()
        {
            bytes.extend(part.iter().take(length - bytes.len()));
        }
        bytes
    }

    /// Changes memory, up to the end of its mapping.
    pub fn write(&mut self, address: Address, bytes: &[u8]) {
        if let Some((start, memory)) = self.memory.range_mut(..=address.0).next_back() {
            let place = memory.iter_mut().skip((address.0 - start) as usize);
            for (byte, new) in place.zip(bytes) {
                *byte = *new;
            }
        }
    }
}

impl Target for FakeTarget {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        if self.refused.contains(&address) {
            let reason = "the test refuses it".to_owned();
            return Err(TargetError::CannotInsert { address, reason });
        }
        assert!(self.inserted.insert(address), "inserted twice at {address}");
        Ok(())
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        assert!(self.inserted.remove(&address), "nothing at {address}");
        Ok(())
    }

    fn insert_watchpoint(&mut self, address: Address, length: u64) -> Result<Vec<u8>, TargetError> {
        let bytes = self.read(address, usize::try_from(length).unwrap_or(usize::MAX));
        if self.refused.contains(&address) || bytes.len() as u64 != length {
            let reason = "the test refuses it, or there is no memory".to_owned();
            return Err(TargetError::CannotInsert { address, reason });
        }
        assert!(
            self.watched.insert((address, length)),
            "watched twice at {address}"
        );
        Ok(bytes)
    }

    fn remove_watchpoint(&mut self, address: Address, length: u64) {
        assert!(
            self.watched.remove(&(address, length)),
            "not watched at {address}"
        );
    }
}

/// A thread at a moment.
struct FakeThread<'t> {
    moment: &'t Moment,
    order: ByteOrder,
    registers: u16,
    memory: &'t BTreeMap<u64, Vec<u8>>,
    block: &'t mut Vec<u8>,
    calls: &'t mut Calls,
}

impl FakeThread<'_> {
    fn value(&self, register: u16) -> Option<u64> {
        let place = usize::from(register);
        if register == self.registers {
            Some(self.moment.pc.0)
        } else if register < self.registers {
            Some(self.moment.registers.get(place).copied().unwrap_or(0))
        } else {
            None
        }
    }
}

/// The readable bytes from an address on, to the end of its mapping.
fn readable(memory: &BTreeMap<u64, Vec<u8>>, address: u64) -> &[u8] {
    let Some((start, bytes)) = memory.range(..=address).next_back() else {
        return &[];
    };
    usize::try_from(address - start)
        .ok()
        .and_then(|offset| bytes.get(offset..))
        .unwrap_or_default()
}

impl StoppedThread for FakeThread<'_> {
    fn id(&self) -> ThreadId {
        self.moment.thread
    }

    fn cpu(&mut self) -> u32 {
        self.moment.cpu
    }

    fn timestamp(&self) -> u64 {
        self.moment.time
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        self.calls.register += 1;
        if self.moment.killed {
            return None;
        }
        self.value(register.0)
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        self.calls.register_block += 1;
        if self.moment.killed {
            return Err(TargetError::Gone(self.moment.thread));
        }
        self.block.clear();
        for register in 0..=self.registers {
            let value = self.value(register).unwrap_or(0);
            self.block.extend(match self.order {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            });
        }
        Ok(self.block)
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        self.calls.read_memory += 1;
        for piece in pieces {
            self.calls.pieces += 1;
            piece.filled = 0;
            // Mappings that touch are read as one.
            while !self.moment.killed && piece.filled < piece.bytes.len() {
                let Some(at) = piece.address.0.checked_add(piece.filled as u64) else {
                    break;
                };
                let rest = piece.bytes.get_mut(piece.filled..).unwrap_or_default();
                let bytes = readable(self.memory, at);
                let count = bytes.len().min(rest.len());
                if count == 0 {
                    break;
                }
                for (byte, read) in rest.iter_mut().zip(bytes) {
                    *byte = *read;
                }
                piece.filled += count;
            }
        }
    }
}
