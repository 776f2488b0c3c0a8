//! Registers and memory of a saved state, and of the frame that called it as far as the state has them.

use std::cell::RefCell;
use std::collections::HashMap;

use tracewire_arch::{Architecture, dwarf_register};
use tracewire_model::{Address, ByteOrder, RegisterNumber};

use super::contents::{number, order};
use super::state::{State, read_memory};
use crate::int_expr::Source;
use crate::location::Locator;
use crate::object::Object;
use crate::register_names::named_register;
use tracewire_debuginfo::{RegisterRule, Symbols, UnwindRow};

/// How many frames are looked at for the value of one argument.
const MOST_FRAMES: u32 = 4;

/// Why a location cannot be worked out at a state.
pub(super) enum NoPlace {
    Unavailable,
    OptimizedOut,
    NoMemory(u64),
    DivisionByZero,
}

/// One frame of a saved state.
pub(super) struct StateSource<'a> {
    symbols: &'a Symbols,
    state: &'a dyn State,
    pc: Address,
    /// For a calling frame: the frame it called, with its rules and its canonical address there.
    called: Option<(&'a StateSource<'a>, UnwindRow, u64)>,
    depth: u32,
    /// The numbers that searches name.
    bound: RefCell<HashMap<u32, u64>>,
}

impl<'a> StateSource<'a> {
    /// The innermost frame.
    pub(super) fn new(symbols: &'a Symbols, state: &'a dyn State) -> Self {
        Self {
            symbols,
            state,
            pc: state.pc(),
            called: None,
            depth: 0,
            bound: RefCell::default(),
        }
    }

    /// The frame's caller: the address after the call, and its frame. GDB treats a frame whose address it cannot find as the
    /// outermost one: the values passed to that one are lost, and not only unavailable.
    fn caller(&self) -> Result<(Address, StateSource<'_>), NoPlace> {
        if self.depth >= MOST_FRAMES {
            return Err(NoPlace::OptimizedOut);
        }
        let row = (self.symbols.unwind(self.pc)).ok_or(NoPlace::OptimizedOut)?;
        let locator = Locator {
            symbols: self.symbols,
            pc: self.pc,
            callers: false,
        };
        let frame = (locator.frame_address().ok())
            .and_then(|expr| expr.work_out(self).ok())
            .ok_or(NoPlace::OptimizedOut)?;
        let rule = row
            .registers
            .iter()
            .find(|(column, _)| *column == row.return_address);
        let Some((_, RegisterRule::Offset(offset))) = rule else {
            return Err(NoPlace::OptimizedOut);
        };
        let architecture = self.symbols.architecture().unwrap_or(Architecture::X86_64);
        let place = frame.wrapping_add_signed(*offset);
        let return_pc = match self.load(place, architecture.pointer_size()) {
            Ok(return_pc) => Address(return_pc),
            // Nor is there a caller where there is no memory.
            Err(NoPlace::NoMemory(_)) => return Err(NoPlace::OptimizedOut),
            Err(error) => return Err(error),
        };
        let caller = StateSource {
            symbols: self.symbols,
            state: self.state,
            pc: Address(return_pc.0.wrapping_sub(1)),
            called: Some((self, row, frame)),
            depth: self.depth + 1,
            bound: RefCell::default(),
        };
        Ok((return_pc, caller))
    }

    /// The value that the caller put into a register, by its debug information.
    fn passed(&self, register: u16) -> Result<u64, NoPlace> {
        let (return_pc, caller) = self.caller()?;
        let expression = (self.symbols)
            .call_site_value(return_pc, self.pc, register)
            .ok_or(NoPlace::OptimizedOut)?;
        let locator = Locator {
            symbols: self.symbols,
            pc: caller.pc,
            callers: true,
        };
        match locator.expression(&expression, Vec::new(), 0) {
            Ok(Object::Memory(expr) | Object::Value(expr)) => expr.work_out(&caller),
            _ => Err(NoPlace::OptimizedOut),
        }
    }
}

impl Source for StateSource<'_> {
    type Error = NoPlace;

    fn register(&self, register: RegisterNumber, from: usize) -> Result<u64, NoPlace> {
        let Some((called, row, frame)) = &self.called else {
            let bytes = self.state.register(register).ok_or(NoPlace::Unavailable)?;
            let start = from.min(bytes.len());
            let end = from.saturating_add(8).min(bytes.len());
            let part = match order(self.symbols) {
                ByteOrder::Little => bytes.get(start..end),
                ByteOrder::Big => bytes.get(bytes.len() - end..bytes.len() - start),
            };
            return Ok(number(part.unwrap_or(&[]), false, order(self.symbols)).unwrap_or(0) as u64);
        };
        let architecture = self.symbols.architecture().unwrap_or(Architecture::X86_64);
        let column = dwarf_register(architecture, register).ok_or(NoPlace::Unavailable)?;
        let rule = row.registers.iter().find(|(found, _)| *found == column);
        match rule.map(|(_, rule)| rule) {
            Some(RegisterRule::Offset(offset)) => self.load(
                frame.wrapping_add_signed(*offset),
                architecture.pointer_size(),
            ),
            Some(RegisterRule::ValueOffset(offset)) => Ok(frame.wrapping_add_signed(*offset)),
            // The canonical frame address is the caller's stack pointer.
            None if named_register(architecture, "sp").is_some_and(|sp| sp.number == register) => {
                Ok(*frame)
            }
            None | Some(RegisterRule::SameValue) => called.register(register, from),
            Some(_) => Err(NoPlace::OptimizedOut),
        }
    }

    fn load(&self, address: u64, size: u8) -> Result<u64, NoPlace> {
        let (bytes, known) = read_memory(self.symbols, self.state, address, usize::from(size));
        if known.iter().all(|known| *known) {
            return Ok(number(&bytes, false, order(self.symbols)).unwrap_or(0) as u64);
        }
        Err(if self.state.unknown_memory_is_an_error() {
            NoPlace::NoMemory(address)
        } else {
            NoPlace::Unavailable
        })
    }

    fn entry(&self, register: u16) -> Result<u64, NoPlace> {
        self.passed(register)
    }

    fn division_by_zero(&self) -> NoPlace {
        NoPlace::DivisionByZero
    }

    fn bind(&self, name: u32, number: u64) {
        self.bound.borrow_mut().insert(name, number);
    }

    fn bound(&self, name: u32) -> u64 {
        self.bound.borrow().get(&name).copied().unwrap_or(0)
    }
}
