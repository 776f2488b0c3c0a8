//! The functions of a program, by address.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::record::Address;
use tracewire_exec_trace::recording::{ReadError, Recording};

/// A function, by its place in [`Functions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionId(u32);

#[derive(Clone, Debug)]
struct Function {
    name: String,
    entry: u64,
}

/// How many functions of a program were entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered {
    /// Functions of the program.
    pub all: usize,
    /// Those whose first instruction is in the trace.
    pub entered: usize,
}

/// Counts the functions of a program that a trace has.
///
/// # Errors
/// When the recording's file is damaged.
pub fn entered(recording: &Recording, symbols: &Symbols) -> Result<Entered, ReadError> {
    let entries: BTreeSet<Address> = symbols
        .functions()
        .into_iter()
        .map(|one| one.entry)
        .collect();
    let seen = recording.addresses()?;
    Ok(Entered {
        all: entries.len(),
        entered: entries.intersection(&seen).count(),
    })
}

/// The functions of the symbols, and those that were called.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    list: Vec<Function>,
    /// First address, address after the last, function; in order, none in two.
    spans: Vec<(u64, u64, FunctionId)>,
    by_entry: HashMap<u64, FunctionId>,
    /// Names without type and size, by address. Assembler code has them where functions begin, and at loops.
    labels: BTreeMap<u64, String>,
}

impl Functions {
    /// Those of a program; without one, functions are named by their addresses when they are called.
    #[must_use]
    pub fn new(symbols: Option<&Symbols>) -> Self {
        let mut functions = Self::default();
        for function in symbols.map(Symbols::functions).unwrap_or_default() {
            if function.is_label {
                functions
                    .labels
                    .entry(function.entry.0)
                    .or_insert(function.name);
                continue;
            }
            // Two names for one place: the first is as good as the other.
            if functions.by_entry.contains_key(&function.entry.0) {
                continue;
            }
            let id = functions.add(function.name, function.entry.0);
            for (start, end) in function.ranges {
                functions.spans.push((start.0, end.0, id));
            }
        }
        functions.spans.sort_unstable();
        functions
    }

    fn add(&mut self, name: String, entry: u64) -> FunctionId {
        let id = FunctionId(self.list.len() as u32);
        self.list.push(Function { name, entry });
        self.by_entry.insert(entry, id);
        id
    }

    /// The function that symbols have at an address.
    #[must_use]
    pub fn at(&self, address: Address) -> Option<FunctionId> {
        let after = self
            .spans
            .partition_point(|(start, ..)| *start <= address.0);
        let (_, end, id) = self.spans.get(after.checked_sub(1)?)?;
        (address.0 < *end).then_some(*id)
    }

    /// The function that is entered at an address: the one of symbols there, one that a label names, or one named by
    /// the address.
    pub fn entered(&mut self, address: Address) -> FunctionId {
        if let Some(id) = self.by_entry.get(&address.0) {
            return *id;
        }
        if let Some(id) = self.at(address) {
            return id;
        }
        let name = self.labels.get(&address.0).cloned();
        self.add(name.unwrap_or_else(|| address.to_string()), address.0)
    }

    /// The function that an address is in, where it was not seen to be entered there: code after a label is taken for
    /// the label's.
    pub fn around(&mut self, address: Address) -> FunctionId {
        if self.at(address).is_none() && !self.is_entry(address) {
            let after = self
                .spans
                .partition_point(|(start, ..)| *start <= address.0);
            let before = after.checked_sub(1).map_or(0, |at| self.spans[at].1);
            let label = self.labels.range(before..=address.0).next_back();
            if let Some((entry, _)) = label {
                return self.entered(Address(*entry));
            }
        }
        self.entered(address)
    }

    /// Whether a function starts at an address, by symbols or by a call. A label is not enough.
    #[must_use]
    pub fn is_entry(&self, address: Address) -> bool {
        self.by_entry.contains_key(&address.0)
    }

    /// Its name: that of the symbol, or the address.
    #[must_use]
    pub fn name(&self, id: FunctionId) -> &str {
        self.list.get(id.0 as usize).map_or("", |one| &one.name)
    }

    /// The address of its first instruction.
    #[must_use]
    pub fn entry(&self, id: FunctionId) -> Address {
        Address(self.list.get(id.0 as usize).map_or(0, |one| one.entry))
    }
}
