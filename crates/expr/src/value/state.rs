//! The saved state of a stopped thread.

use std::cell::Cell;

use tracewire_model::{Address, RegisterNumber};

use tracewire_debuginfo::Symbols;

/// The saved state of a stopped thread: a trace frame, a core file.
pub trait State {
    /// Where the thread was.
    fn pc(&self) -> Address;

    /// A register's bytes in target order, as many as it has; `None` if it was not saved.
    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>>;

    /// Fills `bytes` from `address` on, and sets `known` to `true` for each byte that was saved. Both slices have the same
    /// length, and `known` is all `false` at the call. Read-only memory of the program's files may be left out: it is looked up
    /// where the state does not have a byte.
    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]);

    /// A trace state variable by its name, without the `$`; `None` if it was not saved.
    fn variable(&self, name: &str) -> Option<i64>;

    /// Whether memory was saved more than once, with different contents: it was changed while it was saved.
    fn memory_differs(&self, address: Address, length: usize) -> bool {
        let _ = (address, length);
        false
    }

    /// Whether unknown memory does not exist (a core file), or was only not collected (a trace frame). GDB shows the first as an
    /// error, the second as `<unavailable>`.
    fn unknown_memory_is_an_error(&self) -> bool {
        false
    }
}

/// The state of a program of which nothing was saved.
#[derive(Clone, Copy, Debug)]
pub struct NoState;

impl State for NoState {
    fn pc(&self) -> Address {
        Address(0)
    }

    fn register(&self, _: RegisterNumber) -> Option<Vec<u8>> {
        None
    }

    fn memory(&self, _: Address, _: &mut [u8], _: &mut [bool]) {}

    fn variable(&self, _: &str) -> Option<i64> {
        None
    }
}

/// A state that notes whether memory which was read of it is of two contents.
pub(crate) struct Watched<'a> {
    state: &'a dyn State,
    differs: Cell<bool>,
}

impl<'a> Watched<'a> {
    pub(crate) const fn new(state: &'a dyn State) -> Self {
        Self {
            state,
            differs: Cell::new(false),
        }
    }

    /// Returns whether data read since the last call had two contents. Further differences are noted from the given value on.
    pub(crate) fn replace_differs(&self, differs: bool) -> bool {
        self.differs.replace(differs)
    }

    /// Notes that the memory cannot be of one moment.
    pub(crate) fn note_difference(&self) {
        self.differs.set(true);
    }
}

impl State for Watched<'_> {
    fn pc(&self) -> Address {
        self.state.pc()
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        self.state.register(register)
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        self.state.memory(address, bytes, known);
        if self.state.memory_differs(address, bytes.len()) {
            self.note_difference();
        }
    }

    fn variable(&self, name: &str) -> Option<i64> {
        self.state.variable(name)
    }

    fn memory_differs(&self, address: Address, length: usize) -> bool {
        self.state.memory_differs(address, length)
    }

    fn unknown_memory_is_an_error(&self) -> bool {
        self.state.unknown_memory_is_an_error()
    }
}

/// Reads memory of the state, and where the state has none, of the program's files.
pub(crate) fn read_memory(
    symbols: &Symbols,
    state: &dyn State,
    address: u64,
    length: usize,
) -> (Vec<u8>, Vec<bool>) {
    let mut bytes = vec![0; length];
    let mut known = vec![false; length];
    state.memory(Address(address), &mut bytes, &mut known);
    let mut at = 0;
    while let Some(gap) = known
        .get(at..)
        .and_then(|rest| rest.iter().position(|known| !known))
    {
        let start = at + gap;
        let rest = known.get(start..).unwrap_or(&[]);
        let end = start + rest.iter().position(|known| *known).unwrap_or(rest.len());
        fill(symbols, address, &mut bytes, &mut known, start, end);
        at = end;
    }
    (bytes, known)
}

/// Fills one gap from the files: as a whole, or else byte by byte.
fn fill(
    symbols: &Symbols,
    address: u64,
    bytes: &mut [u8],
    known: &mut [bool],
    start: usize,
    end: usize,
) {
    let at = |offset: usize| Address(address.wrapping_add(offset as u64));
    if let (Some(gap), Some(marks)) = (bytes.get_mut(start..end), known.get_mut(start..end)) {
        if symbols.read_only_memory(at(start), gap) {
            marks.fill(true);
            return;
        }
        // A gap that no module covers in part is not looked at byte by byte.
        if symbols.module_at(at(start)).is_none() && symbols.module_at(at(end - 1)).is_none() {
            return;
        }
        for (offset, (byte, mark)) in gap.iter_mut().zip(marks).enumerate() {
            *mark = symbols.read_only_memory(at(start + offset), std::slice::from_mut(byte));
        }
    }
}
