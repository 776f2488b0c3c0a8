//! Hardware breakpoints and watchpoints: the debug registers (Intel's manual, volume 3, 17.2).
//!
//! A thread has four registers for addresses, one that says what each is for, and one that shows which of them has
//! triggered. Nothing is written to the program's memory. A watchpoint is at most 8 bytes long and aligned to its
//! length, so a longer or unaligned one is split and takes several registers.
//!
//! The kernel gives a new thread empty registers, and a child by `fork` too. So the registers of a thread are written
//! when it is resumed, if their intended content has changed since the last time.

use std::collections::BTreeSet;

use tracewire_model::Address;

use crate::breakpoints::Purpose;
use crate::event::{StopCause, Watch};
use crate::ptrace::{DEBUG_STATUS, Stopped};
use crate::thread::Thread;

/// The number of address registers.
const PLACES: usize = 4;
/// The most bytes that one address register can watch.
const LONGEST: u64 = 8;
/// The register that says what the address registers are for.
const CONTROL: usize = 7;
/// The most bytes that can be watched: those of all address registers together.
const MOST: u64 = PLACES as u64 * LONGEST;

/// `si_code` of a trap by the debug registers.
pub(crate) const TRAP_HARDWARE: i32 = 4;

/// The access that one address register watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    watch: Watch,
    address: u64,
    length: u64,
}

/// A watch, and whether it is for a debugger or a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wanted {
    pub(crate) purpose: Purpose,
    pub(crate) watch: Watch,
    pub(crate) address: u64,
    pub(crate) length: u64,
}

impl Wanted {
    /// Whether an address register covers a part of it.
    fn includes(&self, piece: &Piece) -> bool {
        pieces(self.watch, self.address, self.length).contains(piece)
    }
}

/// The intended content of the debug registers of every thread of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct DebugRegisters {
    wanted: BTreeSet<Wanted>,
    places: [Option<Piece>; PLACES],
    /// Counts the changes, to show whether a thread's registers are up to date; 0 while there was no change.
    generation: u64,
}

impl DebugRegisters {
    /// Adds a watch.
    pub(crate) fn insert(&mut self, wanted: Wanted) -> Result<(), String> {
        let Wanted {
            watch,
            address,
            length,
            ..
        } = wanted;
        if self.wanted.contains(&wanted) {
            return Ok(());
        }
        if length > MOST {
            return Err(format!(
                "{length} bytes are more than debug registers can watch"
            ));
        }
        let mut places = self.places;
        for piece in pieces(watch, address, length) {
            if places.contains(&Some(piece)) {
                continue;
            }
            match places.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(piece),
                None => return Err("all debug registers are in use".to_owned()),
            }
        }
        self.places = places;
        self.wanted.insert(wanted);
        self.generation += 1;
        Ok(())
    }

    /// Removes a watch. Returns whether it was there.
    pub(crate) fn remove(&mut self, wanted: Wanted) -> bool {
        if !self.wanted.remove(&wanted) {
            return false;
        }
        let needed: Vec<Piece> = self
            .wanted
            .iter()
            .flat_map(|wanted| pieces(wanted.watch, wanted.address, wanted.length))
            .collect();
        for place in &mut self.places {
            place.take_if(|piece| !needed.contains(piece));
        }
        self.generation += 1;
        true
    }

    /// The registers that have triggered, by the status register.
    fn done(&self, status: u64) -> impl Iterator<Item = &Piece> {
        let places = self.places.iter().enumerate();
        let done = places.filter(move |(number, _)| status & (1 << number) != 0);
        done.filter_map(|(_, place)| place.as_ref())
    }

    /// The memory that tracepoints watch and that a thread has written to, by its status register.
    fn written(&self, status: u64) -> Vec<(Address, u64)> {
        let wanted = self.wanted.iter();
        let wanted = wanted.filter(|wanted| wanted.purpose == Purpose::Tracepoint);
        let written = wanted.filter(|wanted| self.done(status).any(|piece| wanted.includes(piece)));
        written
            .map(|wanted| (Address(wanted.address), wanted.length))
            .collect()
    }

    /// The cause to report to a debugger for a thread that is at `rip` now, by its status register.
    fn cause(&self, status: u64, rip: u64) -> Option<StopCause> {
        let of_debugger = |piece: &&Piece| {
            let mut wanted = self.wanted.iter();
            wanted.any(|wanted| wanted.purpose == Purpose::Debugger && wanted.includes(piece))
        };
        self.done(status)
            .filter(of_debugger)
            .find_map(|piece| match *piece {
                Piece {
                    watch: Watch::Execution,
                    address,
                    ..
                } => (address == rip).then_some(StopCause::HardwareBreakpoint),
                Piece { watch, address, .. } => {
                    Some(StopCause::Watchpoint(watch, Address(address)))
                }
            })
    }

    /// Whether this can still be the cause of a stop that was not reported at once.
    fn holds(&self, cause: StopCause, rip: u64) -> bool {
        self.places.iter().flatten().any(|piece| match cause {
            StopCause::HardwareBreakpoint => {
                piece.watch == Watch::Execution && piece.address == rip
            }
            StopCause::Watchpoint(watch, Address(address)) => {
                piece.watch == watch && piece.address == address
            }
            _ => false,
        })
    }

    /// The use of each register: the kind of watch, its address and its length in bytes.
    pub(crate) fn all(&self) -> Vec<Option<(Watch, Address, u64)>> {
        self.places
            .iter()
            .map(|place| {
                let piece = place.as_ref()?;
                Some((piece.watch, Address(piece.address), piece.length))
            })
            .collect()
    }

    /// Drops all watches.
    pub(crate) fn empty(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            ..Self::default()
        };
    }

    /// Gives a stopped thread of the process the registers that it should have.
    pub(crate) fn arm(&self, thread: &mut Thread) -> Result<(), nix::errno::Errno> {
        if thread.armed == self.generation {
            return Ok(());
        }
        let Some(stopped) = thread.stopped() else {
            return Ok(());
        };
        match self.write(stopped) {
            // A thread that has ended is reported by its exit.
            Ok(()) | Err(nix::errno::Errno::ESRCH) => {
                thread.armed = self.generation;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A thread has stopped for a trap: notes whether a debug register was a cause of it.
    pub(crate) fn note_trigger(&self, thread: &mut Thread) {
        if self.wanted.is_empty() {
            return;
        }
        let Some(stopped) = thread.stopped() else {
            return;
        };
        let Ok(status) = stopped.debug_status() else {
            return;
        };
        if status & 0xf == 0 {
            return;
        }
        let _ = stopped.set_debug_register(DEBUG_STATUS, 0);
        let Ok(registers) = stopped.registers() else {
            return;
        };
        if let Some(cause) = self.cause(status, registers.rip) {
            thread.triggered = Some(cause);
        }
        for write in self.written(status) {
            if !thread.written.contains(&write) {
                thread.written.push(write);
            }
        }
    }

    /// Why a debug register has stopped a thread, if that has not been reported and the watch still exists.
    pub(crate) fn take_trigger(&self, thread: &mut Thread) -> Option<StopCause> {
        let cause = thread.triggered.take()?;
        let rip = thread.registers()?.rip;
        self.holds(cause, rip).then_some(cause)
    }

    /// Writes them all into a thread.
    fn write(&self, thread: &Stopped) -> Result<(), nix::errno::Errno> {
        thread.set_debug_register(CONTROL, 0)?;
        let mut control = 0;
        for (number, place) in self.places.iter().enumerate() {
            let Some(piece) = place else { continue };
            thread.set_debug_register(number, piece.address)?;
            let watch = match piece.watch {
                Watch::Execution => 0,
                Watch::Write => 1,
                Watch::Access => 3,
            };
            let length = match piece.length {
                1 => 0,
                2 => 1,
                4 => 3,
                _ => 2,
            };
            // Enabled for this task.
            control |= 1 << (2 * number) | (watch | length << 2) << (16 + 4 * number);
        }
        if control != 0 {
            thread.set_debug_register(CONTROL, control)?;
        }
        Ok(())
    }
}

/// Splits memory into pieces for one address register each. An instruction is identified by its first byte.
fn pieces(watch: Watch, address: u64, length: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut address, mut rest) = (address, length.clamp(1, MOST));
    if watch == Watch::Execution {
        rest = 1;
    }
    while rest > 0 {
        // The largest power of two that the address is a multiple of, and that is not too long.
        let aligned = 1 << address.trailing_zeros().min(LONGEST.ilog2());
        let length = u64::min(aligned, 1 << rest.ilog2());
        pieces.push(Piece {
            watch,
            address,
            length,
        });
        address = address.wrapping_add(length);
        rest -= length;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::{DebugRegisters, Purpose, Wanted, Watch, pieces};

    fn wanted(watch: Watch, address: u64, length: u64) -> Wanted {
        Wanted {
            purpose: Purpose::Debugger,
            watch,
            address,
            length,
        }
    }

    fn cut(address: u64, length: u64) -> Vec<(u64, u64)> {
        pieces(Watch::Write, address, length)
            .into_iter()
            .map(|piece| (piece.address, piece.length))
            .collect()
    }

    #[test]
    fn memory_is_cut_where_it_lies_oddly() {
        assert_eq!(cut(0x1000, 8), [(0x1000, 8)]);
        assert_eq!(cut(0x1000, 3), [(0x1000, 2), (0x1002, 1)]);
        assert_eq!(cut(0x1001, 4), [(0x1001, 1), (0x1002, 2), (0x1004, 1)]);
        assert_eq!(cut(0x1004, 8), [(0x1004, 4), (0x1008, 4)]);
        assert_eq!(cut(0x1000, 16), [(0x1000, 8), (0x1008, 8)]);
        assert_eq!(cut(0, 1), [(0, 1)]);
    }

    #[test]
    fn pieces_are_shared_and_given_back_by_the_last() {
        let mut registers = DebugRegisters::default();
        registers.insert(wanted(Watch::Write, 0x1000, 8)).unwrap();
        registers.insert(wanted(Watch::Write, 0x1000, 16)).unwrap();
        registers.insert(wanted(Watch::Write, 0x1010, 16)).unwrap();
        assert!(registers.insert(wanted(Watch::Access, 0x1000, 1)).is_err());
        assert!(registers.remove(wanted(Watch::Write, 0x1000, 8)));
        assert!(registers.insert(wanted(Watch::Access, 0x1000, 1)).is_err());
        assert!(registers.remove(wanted(Watch::Write, 0x1000, 16)));
        registers.insert(wanted(Watch::Access, 0x1000, 2)).unwrap();
        assert!(!registers.remove(wanted(Watch::Access, 0x1000, 1)));
    }
}
