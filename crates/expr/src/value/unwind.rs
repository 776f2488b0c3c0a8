//! The callers of a saved state, found from call frame information.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tracewire_arch::{Architecture, Machine, dwarf_register, gdb_register};
use tracewire_model::{Address, RegisterNumber};

use super::contents::{number, order};
use super::state::{State, read_memory};
use crate::int_expr::{IntExpr, Source};
use crate::location::Locator;
use crate::object::Object;
use crate::stack::unwind_columns;
use tracewire_debuginfo::{Language, LocationExpression, RegisterRule, Symbols, UnwindRow};

/// The most call frames of one state.
const MOST_FRAMES: usize = 256;

/// How many places' rules are remembered.
const MOST_PLACES: usize = 20_000;

/// Where a call frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallFrame {
    /// Where it continues: the return address, except for the innermost frame and for one that a signal interrupted.
    pub pc: Address,
    /// An address in the instruction that it is at: of a call, the byte before the return address.
    pub lookup: Address,
    /// Whether it is the kernel's frame of a signal handler.
    pub is_signal: bool,
}

/// Why there are no more call frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BacktraceEnd {
    /// The last one is the outermost: `main`, or the start of a thread.
    Outermost,
    /// The requested limit was reached.
    Limit,
    /// The state does not have the memory, or the register, that the next one is in.
    Unavailable,
    /// There is no information for the next one, or it is wrong.
    NoInformation,
}

/// The call frames of a state, the innermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backtrace {
    /// At least one.
    pub frames: Vec<CallFrame>,
    /// Why there are no more.
    pub end: BacktraceEnd,
}

/// Finds the callers of saved states. The rules at each place are read once.
#[derive(Debug)]
pub struct Unwinder<'a> {
    symbols: &'a Symbols,
    architecture: Architecture,
    stack_pointer: Option<u16>,
    columns: Vec<u16>,
    rules: RefCell<HashMap<Address, Option<Rc<Rules>>>>,
}

/// How the caller is found from a place.
#[derive(Debug)]
struct Rules {
    frame: IntExpr,
    row: UnwindRow,
    is_main: bool,
}

/// A number for each column, where it is known.
type Registers = HashMap<u16, u64>;

/// Why the next frame is not found.
enum Lost {
    Unavailable,
    NoInformation,
}

impl From<Lost> for BacktraceEnd {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Unavailable => Self::Unavailable,
            Lost::NoInformation => Self::NoInformation,
        }
    }
}

/// One frame's registers, and the state's memory.
struct FrameSource<'s> {
    symbols: &'s Symbols,
    state: &'s dyn State,
    registers: &'s Registers,
    architecture: Architecture,
}

impl Source for FrameSource<'_> {
    type Error = Lost;

    fn register(&self, register: RegisterNumber, from: usize) -> Result<u64, Lost> {
        let column = dwarf_register(self.architecture, register).filter(|_| from == 0);
        let value = column.and_then(|column| self.registers.get(&column));
        value.copied().ok_or(Lost::Unavailable)
    }

    fn load(&self, address: u64, size: u8) -> Result<u64, Lost> {
        let (bytes, known) = read_memory(self.symbols, self.state, address, usize::from(size));
        if known.iter().all(|known| *known) {
            return Ok(number(&bytes, false, order(self.symbols)).unwrap_or(0) as u64);
        }
        Err(Lost::Unavailable)
    }

    fn entry(&self, _: u16) -> Result<u64, Lost> {
        Err(Lost::NoInformation)
    }

    fn division_by_zero(&self) -> Lost {
        Lost::NoInformation
    }
}

impl<'a> Unwinder<'a> {
    /// Of a program.
    #[must_use]
    pub fn new(symbols: &'a Symbols) -> Self {
        let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
        let stack_pointer = Machine::with_linux(architecture).stack_pointer();
        Self {
            symbols,
            architecture,
            stack_pointer: dwarf_register(architecture, stack_pointer),
            columns: unwind_columns(architecture).collect(),
            rules: RefCell::default(),
        }
    }

    /// The call frames of a state, at most `limit`. They end where GDB's do: with `main`, or where the program or the thread starts.
    #[must_use]
    pub fn backtrace(&self, state: &dyn State, limit: usize) -> Backtrace {
        let limit = limit.clamp(1, MOST_FRAMES);
        let mut registers = self.registers(state);
        let mut frame = CallFrame {
            pc: state.pc(),
            lookup: state.pc(),
            is_signal: false,
        };
        let mut frames = Vec::new();
        let mut inner: Option<u64> = None;
        loop {
            let rules = self.rules(frame.lookup);
            frame.is_signal = rules.as_ref().is_some_and(|rules| rules.row.signal_frame)
                || rules.is_none() && self.is_signal_return(frame.pc);
            frames.push(frame);
            if rules.as_ref().is_some_and(|rules| rules.is_main) {
                let end = BacktraceEnd::Outermost;
                return Backtrace { frames, end };
            }
            let source = FrameSource {
                symbols: self.symbols,
                state,
                registers: &registers,
                architecture: self.architecture,
            };
            let next = match &rules {
                Some(rules) => self.by_rules(rules, frame, &source),
                None if frame.is_signal => self.interrupted(&source),
                None => self.by_frame_pointer(&source),
            };
            let (pc, address, found) = match next {
                Ok(Some(next)) => next,
                Ok(None) => {
                    let end = BacktraceEnd::Outermost;
                    return Backtrace { frames, end };
                }
                Err(lost) => {
                    let end = lost.into();
                    return Backtrace { frames, end };
                }
            };
            // The stack grows down. A signal handler may have a separate stack.
            let went_on = frame.is_signal || inner.is_none_or(|inner| address > inner);
            let end = match pc.0 {
                0 => Some(BacktraceEnd::Outermost),
                _ if !went_on => Some(BacktraceEnd::NoInformation),
                _ if frames.len() == limit => Some(BacktraceEnd::Limit),
                _ => None,
            };
            if let Some(end) = end {
                return Backtrace { frames, end };
            }
            inner = Some(address);
            registers = found;
            let back = u64::from(!frame.is_signal);
            frame = CallFrame {
                pc,
                lookup: Address(pc.0.wrapping_sub(back)),
                is_signal: false,
            };
        }
    }

    /// The state's registers.
    fn registers(&self, state: &dyn State) -> Registers {
        let known = self.columns.iter().filter_map(|column| {
            let register = gdb_register(self.architecture, *column)?;
            let bytes = state.register(register)?;
            let value = number(&bytes, false, order(self.symbols))?;
            Some((*column, value as u64))
        });
        known.collect()
    }

    fn rules(&self, lookup: Address) -> Option<Rc<Rules>> {
        let mut known = self.rules.borrow_mut();
        if known.len() >= MOST_PLACES {
            known.clear();
        }
        let rules = known.entry(lookup).or_insert_with(|| {
            let row = self.symbols.unwind(lookup)?;
            let frame = self.locator(lookup).frame_address().ok()?;
            let function = self.symbols.function_at(lookup);
            // GDB does not recognize Rust's `main`, and continues to the start of the program.
            let is_main = function.is_some_and(|function| function.name == "main")
                && self.symbols.language_at(Some(lookup)) != Language::Rust;
            Some(Rc::new(Rules {
                frame,
                row,
                is_main,
            }))
        });
        rules.clone()
    }

    const fn locator(&self, pc: Address) -> Locator<'a> {
        Locator {
            symbols: self.symbols,
            pc,
            callers: false,
        }
    }

    /// The caller's pc, the frame's canonical address and the caller's registers; `None` of the outermost frame.
    fn by_rules(
        &self,
        rules: &Rules,
        frame: CallFrame,
        source: &FrameSource<'_>,
    ) -> Result<Option<(Address, u64, Registers)>, Lost> {
        let address = rules.frame.work_out(source)?;
        let mut registers = source.registers.clone();
        if let Some(stack_pointer) = self.stack_pointer {
            registers.insert(stack_pointer, address);
        }
        let row = &rules.row;
        let mut lost = None;
        for (column, rule) in &row.registers {
            let value = self.caller_register(rule, *column, address, frame.lookup, source);
            match value {
                Ok(Some(value)) => drop(registers.insert(*column, value)),
                Ok(None) if *column == row.return_address => return Ok(None),
                Ok(None) => drop(registers.remove(column)),
                Err(error) => {
                    if *column == row.return_address {
                        lost = Some(error);
                    }
                    registers.remove(column);
                }
            }
        }
        if let Some(lost) = lost {
            return Err(lost);
        }
        let pc = registers.get(&row.return_address).copied();
        let pc = pc.ok_or(Lost::Unavailable)?;
        Ok(Some((Address(pc), address, registers)))
    }

    /// A register of the caller; `None` where the rules say that it is lost.
    fn caller_register(
        &self,
        rule: &RegisterRule,
        column: u16,
        frame: u64,
        pc: Address,
        source: &FrameSource<'_>,
    ) -> Result<Option<u64>, Lost> {
        let size = self.architecture.pointer_size();
        let of = |column: u16| source.registers.get(&column).copied();
        let computed = |expression: &LocationExpression| {
            let stack = vec![IntExpr::constant(frame)];
            match self.locator(pc).expression(expression, stack, 0) {
                Ok(Object::Memory(expr) | Object::Value(expr)) => expr.work_out(source),
                _ => Err(Lost::NoInformation),
            }
        };
        Ok(Some(match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::SameValue => of(column).ok_or(Lost::Unavailable)?,
            RegisterRule::Offset(offset) => {
                source.load(frame.wrapping_add_signed(*offset), size)?
            }
            RegisterRule::ValueOffset(offset) => frame.wrapping_add_signed(*offset),
            RegisterRule::Register(other) => of(*other).ok_or(Lost::Unavailable)?,
            RegisterRule::Expression(expression) => source.load(computed(expression)?, size)?,
            RegisterRule::ValueExpression(expression) => computed(expression)?,
            RegisterRule::Constant(value) => *value,
        }))
    }

    /// Whether the code at an address is `rt_sigreturn`, which is where a signal handler returns to.
    fn is_signal_return(&self, pc: Address) -> bool {
        // mov $15, %rax; syscall
        const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        let mut code = [0; RETURN.len()];
        self.architecture == Architecture::X86_64
            && self.symbols.read_only_memory(pc, &mut code)
            && code == RETURN
    }

    /// The frame that a signal interrupted, from the kernel's data on the stack, if there is no call frame information.
    fn interrupted(
        &self,
        source: &FrameSource<'_>,
    ) -> Result<Option<(Address, u64, Registers)>, Lost> {
        /// Where the registers are from the stack pointer on: DWARF's numbers in the order of the kernel's structure.
        const REGISTERS: u64 = 40;
        const ORDER: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        const STACK_POINTER: u16 = 7;
        const PROGRAM_COUNTER: u16 = 16;
        let stack = source.registers.get(&STACK_POINTER).copied();
        let start = stack.ok_or(Lost::Unavailable)?.wrapping_add(REGISTERS);
        let mut registers = Registers::new();
        for (column, place) in ORDER.into_iter().zip((0..).step_by(8)) {
            registers.insert(column, source.load(start.wrapping_add(place), 8)?);
        }
        let of = |column| registers.get(&column).copied().unwrap_or(0);
        Ok(Some((
            Address(of(PROGRAM_COUNTER)),
            of(STACK_POINTER),
            registers,
        )))
    }

    /// The caller of code without call frame information, where it keeps a frame pointer: the address above that is in code.
    fn by_frame_pointer(
        &self,
        source: &FrameSource<'_>,
    ) -> Result<Option<(Address, u64, Registers)>, Lost> {
        const FRAME_POINTER: u16 = 6;
        if self.architecture != Architecture::X86_64 {
            return Err(Lost::NoInformation);
        }
        let stack = self.stack_pointer.and_then(|sp| source.registers.get(&sp));
        let (Some(stack), Some(base)) = (stack, source.registers.get(&FRAME_POINTER)) else {
            return Err(Lost::Unavailable);
        };
        if base < stack {
            return Err(Lost::NoInformation);
        }
        let saved = source.load(*base, 8)?;
        let pc = Address(source.load(base.wrapping_add(8), 8)?);
        if self.symbols.module_at(pc).is_none() {
            return Err(Lost::NoInformation);
        }
        let address = base.wrapping_add(16);
        let mut registers = source.registers.clone();
        registers.insert(FRAME_POINTER, saved);
        if let Some(stack_pointer) = self.stack_pointer {
            registers.insert(stack_pointer, address);
        }
        Ok(Some((pc, address, registers)))
    }
}
