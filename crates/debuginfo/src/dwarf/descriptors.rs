//! The descriptors of types behind interfaces: Go's type descriptors, and the tables of methods of Rust's trait objects.
//!
//! A value of an interface contains the address of a descriptor. Go's compiler notes in the entry of each type where its descriptor
//! is (`DW_AT_go_runtime_type`: its distance from `runtime.types`). Rust's compiler describes each table as a variable `<T as
//! Trait>::{vtable}`, whose type names `T` (`DW_AT_containing_type`).

use std::collections::HashMap;

use gimli::{AttributeValue, constants};

use super::{DebugInformation, Die, Entry};
use crate::module::ElfSymbols;
use crate::types::Language;

/// The attribute of Go's types that has the address of the descriptor.
const DW_AT_GO_RUNTIME_TYPE: constants::DwAt = constants::DwAt(0x2904);
/// The end of the name of a table of methods.
const TABLE: &str = "::{vtable}";
/// How many descriptors of a module are known at most.
const MOST_DESCRIPTORS: usize = 1 << 20;
/// The most frequent types in an empty interface of Go, besides the program's own types.
const ANY_OF_GO: &[&str] = &[
    "string",
    "[]string",
    "[]interface {}",
    "map[string]interface {}",
];

/// The descriptors of a module: of Go's types by the distance from the first, of Rust's tables by link-time address.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    types: HashMap<u64, Die>,
    /// The descriptors of Go's types, by the types' names.
    named: HashMap<Box<str>, u64>,
    /// Rust's tables, by the traits that they are for.
    tables: HashMap<Box<str>, Vec<u64>>,
}

impl Descriptors {
    /// The type whose descriptor is so far from the first, or whose table is at the address.
    pub(crate) fn at(&self, address: u64) -> Option<Die> {
        self.types.get(&address).copied()
    }

    /// Whether there are descriptors of Go's types.
    pub(crate) fn has_go(&self) -> bool {
        !self.named.is_empty()
    }

    /// Reads the units that are Go's or Rust's.
    pub(crate) fn read(debug: &DebugInformation) -> Self {
        let mut found = Self::default();
        for unit in 0..debug.unit_count() {
            let language = debug.facts(unit).language;
            if matches!(language, Language::Go | Language::Rust) {
                found.read_unit(debug, unit, language);
            }
        }
        found
    }

    fn read_unit(&mut self, debug: &DebugInformation, number: usize, language: Language) {
        let Some(unit) = debug.unit(number) else {
            return;
        };
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if self.types.len() >= MOST_DESCRIPTORS {
                return;
            }
            let found = match language {
                Language::Go => go_type(debug, number, entry),
                _ => rust_table(debug, number, entry),
            };
            let Some((address, concrete, name)) = found else {
                continue;
            };
            if self.types.insert(address, concrete).is_some() {
                continue;
            }
            if language == Language::Go {
                self.named.insert(name, address);
            } else {
                self.tables.entry(name).or_default().push(address);
            }
        }
    }

    /// The descriptors of the types that a value of an interface may have.
    pub(crate) fn implementations(&self, symbols: &ElfSymbols, interface: &str) -> Vec<u64> {
        if let Some(tables) = self.tables.get(interface) {
            return tables.clone();
        }
        if self.named.is_empty() {
            return Vec::new();
        }
        if matches!(interface, "interface {}" | "any" | "runtime.eface") {
            let mut found: Vec<u64> = ANY_OF_GO
                .iter()
                .filter_map(|name| self.named.get(*name).copied())
                .collect();
            let own = |name: &str| {
                name.trim_start_matches(['*', '[', ']'])
                    .starts_with("main.")
            };
            let mut of_program: Vec<u64> = (self.named.iter())
                .filter(|(name, _)| own(name))
                .map(|(_, address)| *address)
                .collect();
            of_program.sort_unstable();
            found.extend(of_program);
            return found;
        }
        // Go's linker names the table of each pair of types that may occur: `go.itab.*errors.errorString,error`.
        let pairs = symbols.iter().filter_map(|symbol| {
            let pair = (symbol.name.strip_prefix("go.itab."))
                .or_else(|| symbol.name.strip_prefix("go:itab."))?;
            let (concrete, of) = pair.rsplit_once(',')?;
            (of == interface).then_some(concrete)
        });
        pairs
            .filter_map(|concrete| self.named.get(concrete).copied())
            .collect()
    }
}

/// A type of Go: where its descriptor is, and its name.
fn go_type(debug: &DebugInformation, unit: usize, entry: &Entry) -> Option<(u64, Die, Box<str>)> {
    let value = entry.attr_value(DW_AT_GO_RUNTIME_TYPE)?;
    let distance = match value {
        // A distance all the same.
        AttributeValue::Addr(distance) => distance,
        value => value.udata_value()?,
    };
    if distance == 0 {
        return None;
    }
    let name = debug.name(unit, entry)?;
    let offset = entry.offset();
    Some((distance, Die { unit, offset }, name.into()))
}

/// A table of methods of Rust: its address, the type, and the trait.
fn rust_table(
    debug: &DebugInformation,
    unit: usize,
    entry: &Entry,
) -> Option<(u64, Die, Box<str>)> {
    if entry.tag() != constants::DW_TAG_variable {
        return None;
    }
    let name = debug.name(unit, entry)?;
    let implementation = name
        .strip_prefix('<')?
        .strip_suffix(TABLE)?
        .strip_suffix('>')?;
    let interface = implementation.rsplit_once(" as ")?.1;
    let address = debug.static_address(unit, entry)?;
    let table_type = debug.type_of(unit, entry)?;
    let value = debug
        .entry(table_type)?
        .attr_value(constants::DW_AT_containing_type)?;
    let concrete = debug.reference(table_type.unit, &value)?;
    Some((address, concrete, interface.into()))
}

impl DebugInformation {
    /// Where a variable is whose location is one address.
    fn static_address(&self, unit: usize, entry: &Entry) -> Option<u64> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(constants::DW_AT_location)
        else {
            return None;
        };
        let found = self.unit(unit)?;
        let mut operations = expression.operations(found.encoding());
        match operations.next().ok()?? {
            gimli::Operation::Address { address } => Some(address),
            gimli::Operation::AddressIndex { index } => {
                self.dwarf_of(unit).address(found, index).ok()
            }
            _ => None,
        }
    }
}
