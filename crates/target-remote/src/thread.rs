//! A thread that is stopped at a tracepoint, read through the stub.

use tracewire_experiment::{MemoryRead, StoppedThread, TargetError};
use tracewire_model::{Address, RegisterNumber, ThreadId};
use tracewire_packets::{ThreadSelector, Which};

use crate::breakpoints::Breakpoints;
use crate::error::RemoteError;
use crate::registers::{RegisterCache, RegisterView};
use crate::stub::{Piece, Stub};

/// Ranges of memory with at most so many bytes between them are read as one: they cost less than a packet.
const CLOSE: u64 = 64;
/// Memory ends at the end of one of these, in bytes.
const PAGE: u64 = 0x1000;

/// The stop that a thread is in.
#[derive(Debug, Default)]
pub(crate) struct ThreadStop {
    pub(crate) thread: Option<ThreadSelector>,
    pub(crate) core: Option<u32>,
    /// In microseconds.
    pub(crate) time: u64,
    pub(crate) registers: RegisterCache,
    /// Memory that is likely to be asked for: it is read together with the register block.
    pub(crate) expected: Vec<Piece>,
    /// What has been read of it.
    pub(crate) ahead: Vec<(u64, Vec<u8>)>,
    /// The memory that was asked for.
    pub(crate) asked: Vec<Piece>,
}

/// The number of a thread; 1 where the stub has none.
pub(crate) fn number(thread: Option<ThreadSelector>) -> ThreadId {
    match thread.map(|selector| selector.thread) {
        Some(Which::One(thread)) => ThreadId(thread),
        _ => ThreadId(1),
    }
}

/// A thread that is stopped.
pub(crate) struct RemoteThread<'t> {
    pub(crate) stub: &'t mut Stub,
    pub(crate) breakpoints: &'t Breakpoints,
    pub(crate) view: &'t RegisterView,
    pub(crate) thread_stop: &'t mut ThreadStop,
    /// The register block of the view.
    pub(crate) block: &'t mut Vec<u8>,
    pub(crate) known: &'t mut Vec<bool>,
    /// A bit for each register of it that is not known.
    pub(crate) unknown: &'t mut Vec<u64>,
    /// What went wrong with the stub, after which nothing more is asked of it.
    pub(crate) failure: &'t mut Option<RemoteError>,
}

impl RemoteThread<'_> {
    /// The bytes of a register, by its number at the stub.
    pub(crate) fn bytes(&mut self, number: RegisterNumber) -> Option<Vec<u8>> {
        let machine = self.stub.machine();
        if let Some(known) = self.thread_stop.registers.get(number, machine) {
            return known;
        }
        if let Err(error) = self.fetch(number) {
            *self.failure = Some(error);
            return None;
        }
        let machine = self.stub.machine();
        self.thread_stop.registers.get(number, machine).flatten()
    }

    /// Reads the register block, or a register that is not in it.
    fn fetch(&mut self, number: RegisterNumber) -> Result<(), RemoteError> {
        if self.failure.is_some() {
            return Ok(());
        }
        self.stub.select(self.thread_stop.thread)?;
        if self.stub.machine().block().by_number(number).is_some() {
            return self.fetch_block();
        }
        let bytes = self.stub.register(number)?.unwrap_or_default();
        let bytes = if bytes.is_empty() { vec![None] } else { bytes };
        let machine = self.stub.machine();
        self.thread_stop.registers.add(number, bytes, machine);
        Ok(())
    }

    fn fetch_block(&mut self) -> Result<(), RemoteError> {
        if !self.thread_stop.registers.is_read() {
            self.stub.select(self.thread_stop.thread)?;
            let expected = std::mem::take(&mut self.thread_stop.expected);
            let (bytes, memory) = self.stub.registers_and_memory(&expected)?;
            self.thread_stop.registers.read(&bytes.unwrap_or_default());
            let starts = expected.iter().map(|(start, _)| start.0);
            self.thread_stop.ahead = starts.zip(memory).collect();
        }
        Ok(())
    }

    /// Reads what is asked for, ranges that are close to each other as one.
    fn read_groups(&mut self, pieces: &mut [MemoryRead]) -> Result<(), RemoteError> {
        self.stub.select(self.thread_stop.thread)?;
        let window = self.stub.memory_window() as u64;
        // Expressions extend what 32-bit registers have with its sign.
        let machine = self.stub.machine();
        let places = pieces
            .iter()
            .map(|piece| machine.canonical(piece.address).0);
        let places: Vec<u64> = places.collect();
        let mut order: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut groups: Vec<(Address, u64)> = Vec::new();
        for (start, index) in order {
            let length = pieces
                .get(index)
                .map_or(0, |piece| piece.bytes.len() as u64);
            let end = start.saturating_add(length);
            let joined = groups.last_mut().filter(|(first, size)| {
                start <= first.0.saturating_add(*size).saturating_add(CLOSE)
                    && end - first.0 <= window
            });
            match joined {
                Some((first, size)) => *size = (*size).max(end - first.0),
                None => groups.push((Address(start), length)),
            }
        }
        let mut read = self.read_ranges(&groups, window)?;
        // What a group could not read to its end may be readable where it is not joined with others.
        let cut: Vec<(Address, u64)> = (pieces.iter().zip(&places))
            .filter(|(piece, place)| !has(&read, **place, piece.bytes.len()))
            .map(|(piece, place)| (Address(*place), piece.bytes.len() as u64))
            .collect();
        if !cut.is_empty() && cut != groups {
            read.extend(self.read_ranges(&cut, window)?);
        }
        for (piece, place) in pieces.iter_mut().zip(places) {
            fill(piece, place, &read);
        }
        Ok(())
    }

    /// Reads ranges, each up to its first byte that cannot be read: first as they are, then those that could not be by pages.
    fn read_ranges(
        &mut self,
        ranges: &[(Address, u64)],
        window: u64,
    ) -> Result<Vec<(u64, Vec<u8>)>, RemoteError> {
        let asked: Vec<(Address, usize)> = ranges
            .iter()
            .flat_map(|&(start, length)| windows(start, length, window))
            .collect();
        self.thread_stop.asked.extend_from_slice(&asked);
        let mut read = Vec::new();
        let ahead = &self.thread_stop.ahead;
        let (known, asked): (Vec<Piece>, Vec<Piece>) =
            (asked.into_iter()).partition(|(start, length)| has(ahead, start.0, *length));
        for (start, length) in known {
            let bytes = part(ahead, start.0).unwrap_or_default();
            read.push((start.0, bytes[..length.min(bytes.len())].to_vec()));
        }
        let answers = self.stub.read_memory(&asked)?;
        let mut by_pages = Vec::new();
        for ((start, length), bytes) in asked.into_iter().zip(answers) {
            let rest = length - bytes.len();
            let from = start.0.wrapping_add(bytes.len() as u64);
            if rest > 0 && from % PAGE + rest as u64 > PAGE {
                by_pages.extend(windows(Address(from), PAGE - from % PAGE, window));
                by_pages.extend(windows(
                    Address(from - from % PAGE + PAGE),
                    rest as u64 - (PAGE - from % PAGE),
                    window.min(PAGE),
                ));
            } else if rest > 0 && !bytes.is_empty() {
                // A stub may answer with less than it could.
                by_pages.push((Address(from), rest));
            }
            read.push((start.0, bytes));
        }
        if !by_pages.is_empty() {
            let answers = self.stub.read_memory(&by_pages)?;
            let starts = by_pages.iter().map(|(start, _)| start.0);
            read.extend(starts.zip(answers));
        }
        for (start, bytes) in &mut read {
            self.breakpoints.hide(Address(*start), bytes);
        }
        Ok(read)
    }
}

/// A range in parts that fit a packet.
fn windows(start: Address, length: u64, window: u64) -> impl Iterator<Item = (Address, usize)> {
    let window = window.max(1);
    (0..length.div_ceil(window)).map(move |part| {
        let offset = part * window;
        let size = window.min(length - offset);
        (Address(start.0.wrapping_add(offset)), size as usize)
    })
}

/// What has been read from an address on, in one piece.
fn part(read: &[(u64, Vec<u8>)], address: u64) -> Option<&[u8]> {
    read.iter().find_map(|(start, bytes)| {
        let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
        bytes.get(offset..).filter(|rest| !rest.is_empty())
    })
}

fn has(read: &[(u64, Vec<u8>)], address: u64, length: usize) -> bool {
    let mut done = 0;
    while done < length {
        match part(read, address.wrapping_add(done as u64)) {
            Some(bytes) => done += bytes.len(),
            None => return false,
        }
    }
    true
}

fn fill(piece: &mut MemoryRead, place: u64, read: &[(u64, Vec<u8>)]) {
    piece.filled = 0;
    while piece.filled < piece.bytes.len() {
        let at = place.wrapping_add(piece.filled as u64);
        let Some(bytes) = part(read, at) else {
            return;
        };
        let room = piece.bytes.get_mut(piece.filled..).unwrap_or_default();
        let count = bytes.len().min(room.len());
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
        }
        piece.filled += count;
    }
}

impl StoppedThread for RemoteThread<'_> {
    fn id(&self) -> ThreadId {
        number(self.thread_stop.thread)
    }

    fn cpu(&mut self) -> u32 {
        self.thread_stop.core.unwrap_or(0)
    }

    fn timestamp(&self) -> u64 {
        self.thread_stop.time
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        let at_stub = self.view.at_stub(register, self.stub.machine())?;
        let bytes = self.bytes(at_stub)?;
        let machine = self.stub.machine();
        let described = machine.registers().by_number(at_stub)?;
        described.number(&bytes, machine.byte_order())
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        let gone = TargetError::Gone(number(self.thread_stop.thread));
        if self.failure.is_some() {
            return Err(gone);
        }
        if let Err(error) = self.fetch_block() {
            *self.failure = Some(error);
            return Err(gone);
        }
        self.block.clear();
        self.known.clear();
        self.unknown.clear();
        let machine = self.stub.machine();
        for (index, (register, at_stub)) in self.view.registers().enumerate() {
            let bytes = at_stub.and_then(|number| self.thread_stop.registers.get(number, machine));
            match bytes.flatten() {
                Some(bytes) => {
                    self.block.extend_from_slice(&bytes);
                    self.known.resize(self.block.len(), true);
                }
                None => {
                    let mask = index / 64;
                    self.unknown.resize(self.unknown.len().max(mask + 1), 0);
                    if let Some(bits) = self.unknown.get_mut(mask) {
                        *bits |= 1 << (index % 64);
                    }
                    let length = self.block.len() + register.size() as usize;
                    self.block.resize(length, 0);
                    self.known.resize(length, false);
                }
            }
        }
        Ok(self.block)
    }

    fn known_registers(&mut self) -> Option<&[bool]> {
        self.known.contains(&false).then_some(self.known.as_slice())
    }

    fn unknown_registers(&mut self) -> &[u64] {
        self.unknown
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        for piece in &mut *pieces {
            piece.filled = 0;
        }
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.read_groups(pieces) {
            *self.failure = Some(error);
        }
    }

    /// A register that the machine has and the stub does not give.
    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        self.failure.is_none() && self.view.layout().by_number(register).is_some()
    }
}
