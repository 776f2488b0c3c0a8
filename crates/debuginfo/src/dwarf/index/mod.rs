//! The names of a module.

mod mention;
mod table;
mod walk;

use std::collections::{HashMap, HashSet};

use gimli::UnitOffset;

use super::name::plain;
use super::{DebugInformation, Die};
use crate::module::demangle::demangle;
use crate::module::kept::Key;
use crate::types::Language;
use table::{Content, Tables};
use walk::Walk;

/// How many levels a qualified name may have.
const DEEPEST: usize = 64;

const NONE: u32 = u32::MAX;

/// The kind of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameKind {
    /// A function with code.
    Function,
    /// A function without code: declared in a class, or only inlined.
    AbstractFunction,
    Variable,
    Enumerator,
    Structure,
    Union,
    Enumeration,
    Typedef,
    BaseType,
    Namespace,
}

impl NameKind {
    pub(crate) const fn is_type(self) -> bool {
        matches!(
            self,
            Self::Structure | Self::Union | Self::Enumeration | Self::Typedef | Self::BaseType
        )
    }
}

/// A name of a unit, a namespace, a class, or a type of a function. There are hundreds of thousands: it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// Which text; [`NONE`] if it completes an entry whose name was not found.
    text: u32,
    unit: u32,
    offset: u32,
    parent: u32,
    next: u32,
    pub(crate) kind: NameKind,
    /// A declaration of something defined elsewhere.
    pub(crate) declaration: bool,
    /// Seen by other units.
    pub(crate) external: bool,
    /// Inside a function: not to be found by name from outside.
    pub(crate) local: bool,
}

/// All names of a module.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Tables,
}

/// Names while they are read.
#[derive(Debug, Default)]
struct Growing {
    /// In place order.
    names: Vec<Name>,
    /// The names' texts, each once: every unit that includes a header repeats its names.
    texts: Vec<Box<str>>,
    /// The last name of each plain name, by a hash of the plain name; the others are linked to it.
    by_plain_name: HashMap<u64, u32>,
    /// For each function that was inlined: the units with copies of it.
    copies: HashMap<Die, Vec<usize>>,
    /// The enumeration of each enumerator, in place order.
    enumerators: Vec<(Die, UnitOffset<usize>)>,
}

impl Name {
    /// Whether it completes an entry whose name was not found.
    pub(crate) const fn is_empty(&self) -> bool {
        self.text == NONE
    }

    /// Which entry.
    pub(crate) const fn die(&self) -> Die {
        Die {
            unit: self.unit as usize,
            offset: UnitOffset(self.offset as usize),
        }
    }
}

impl Growing {
    fn read(debug: &DebugInformation) -> Self {
        let mut walk = Walk::default();
        for unit in 0..debug.unit_count() {
            walk.read_unit(debug, unit);
        }
        let (mut growing, incomplete) = walk.finish();
        growing.complete(debug, &incomplete);
        for number in 0..growing.names.len() {
            growing.link(number);
        }
        growing
    }

    fn tables(self) -> Tables {
        let mut plain_names: Vec<(u64, u32)> = self.by_plain_name.into_iter().collect();
        plain_names.sort_unstable();
        let mut copies: Vec<(Die, Vec<usize>)> = self.copies.into_iter().collect();
        copies.sort_unstable();
        Tables::of(&Content {
            names: &self.names,
            plain_names: &plain_names,
            texts: &self.texts,
            copies: &copies,
            enumerators: &self.enumerators,
        })
    }

    fn at(&self, die: Die) -> Option<&Name> {
        let index = self.names.binary_search_by_key(&die, Name::die).ok()?;
        self.names.get(index)
    }

    fn text(&self, name: &Name) -> &str {
        self.texts.get(name.text as usize).map_or("", |text| text)
    }

    /// Gives the entries that complete others the names and scopes of those.
    fn complete(&mut self, debug: &DebugInformation, incomplete: &[(u32, Die)]) {
        for &(number, origin) in incomplete {
            let mut target = origin;
            // The origin may complete another entry itself.
            for _ in 0..8 {
                let found = self.at(target);
                if let Some(found) = found
                    && !found.is_empty()
                {
                    let found = *found;
                    if let Some(entry) = self.names.get_mut(number as usize) {
                        entry.text = found.text;
                        entry.parent = found.parent;
                        entry.external |= found.external;
                        entry.local = found.local;
                    }
                    break;
                }
                let next = debug
                    .entry(target)
                    .and_then(|entry| debug.origin(target.unit, &entry));
                match next {
                    Some(next) => target = next,
                    None => break,
                }
            }
        }
    }

    fn link(&mut self, number: usize) {
        let Some(name) = self.names.get(number) else {
            return;
        };
        let Ok(link) = u32::try_from(number) else {
            return;
        };
        let text = self.text(name);
        if text.is_empty() {
            return;
        }
        let plain_name = hash(plain(text));
        let before = self.by_plain_name.insert(plain_name, link).unwrap_or(NONE);
        if let Some(name) = self.names.get_mut(number) {
            name.next = before;
        }
    }
}

impl Index {
    /// The names that were kept, else those of all units, which are then kept.
    pub(crate) fn get(debug: &DebugInformation, key: Option<&Key>) -> Self {
        if let Some(tables) = key.and_then(Key::load).and_then(Tables::of_kept) {
            return Self { tables };
        }
        let tables = Growing::read(debug).tables();
        // Files of split units and those that several programs share may change one by one.
        if let Some(key) = key.filter(|_| !debug.is_in_several_files()) {
            key.store(tables.content());
        }
        Self { tables }
    }

    /// The text of a name, as its entry has it.
    pub(crate) fn text(&self, name: &Name) -> &str {
        self.tables.text(name.text).unwrap_or("")
    }

    /// The hashes of all plain names.
    pub(crate) fn plain_name_hashes(&self) -> impl Iterator<Item = u64> {
        self.tables.hashes()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Name> {
        self.tables.iter()
    }

    /// The names whose last component without template arguments is `plain_name`, in the order of the file.
    pub(crate) fn named(&self, plain_name: &str) -> Vec<Name> {
        let mut found = Vec::new();
        let mut next = self.tables.last_of(hash(plain_name));
        while let Some((number, name)) = next.and_then(|next| Some((next, self.tables.name(next)?)))
        {
            if plain(self.text(&name)) == plain_name {
                found.push(name);
            }
            // Each is linked to one before it.
            next = Some(name.next).filter(|next| *next < number);
        }
        found.reverse();
        found
    }

    /// The name of an entry.
    pub(crate) fn at(&self, die: Die) -> Option<Name> {
        self.tables.name_of(die)
    }

    /// The enumeration that an enumerator is of.
    pub(crate) fn enumeration_of(&self, enumerator: Die) -> Option<UnitOffset<usize>> {
        self.tables.enumeration_of(enumerator)
    }

    /// The units that have inlined copies of a function.
    pub(crate) fn units_with_copies(&self, function: Die) -> impl Iterator<Item = usize> {
        self.tables.copies_of(function)
    }

    /// The name with all that it is in: `ns::Class<int>::method`.
    pub(crate) fn qualified(&self, debug: &DebugInformation, name: &Name) -> String {
        let mut parts = vec![self.text(name).to_owned()];
        let mut parent = name.parent;
        while let Some(around) = self.tables.name(parent) {
            if matches!(around.kind, NameKind::Function | NameKind::AbstractFunction)
                && debug.facts(around.die().unit).language == Language::Cpp
            {
                parts.push(self.with_parameters(debug, &around));
            } else {
                parts.push(self.text(&around).to_owned());
            }
            parent = around.parent;
            if parts.len() > DEEPEST {
                break;
            }
        }
        parts.reverse();
        // A C++ function with a class in its scope is already qualified.
        parts.join("::")
    }

    /// The names of the namespaces, classes and functions that a name is in, outermost first.
    pub(crate) fn scopes(&self, name: &Name) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut parent = name.parent;
        while let Some(around) = self.tables.name(parent) {
            parts.push(self.text(&around));
            parent = around.parent;
            if parts.len() > DEEPEST {
                break;
            }
        }
        parts.reverse();
        parts
    }

    /// A C++ function that has a class in it: GDB shows `main()::Local`.
    fn with_parameters(&self, debug: &DebugInformation, function: &Name) -> String {
        let linkage_name = debug
            .entry(function.die())
            .and_then(|entry| debug.linkage_name(function.die().unit, &entry))
            .and_then(|name| demangle(&name));
        let parameters = linkage_name.as_deref().map_or("()", |name| {
            super::name::components(name)
                .last()
                .map_or("()", |last| super::name::parameters(last))
        });
        format!("{}{parameters}", self.text(function))
    }

    /// Plain names close to one that was not found, best first.
    pub(crate) fn near<'a>(
        &'a self,
        wanted: &'a str,
        kinds: &'a [NameKind],
    ) -> impl Iterator<Item = (f64, &'a str)> {
        let mut seen = HashSet::new();
        self.iter()
            .filter(|name| kinds.contains(&name.kind) && !name.local)
            .map(|name| plain(self.text(&name)))
            .filter(move |name| seen.insert(*name))
            .filter_map(move |name| Some((super::nearness(wanted, name)?, name)))
    }
}

/// FNV-1a: the names are many and short, and a hostile file gains little from collisions.
pub(crate) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
