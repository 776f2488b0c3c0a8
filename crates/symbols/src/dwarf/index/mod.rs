//! The names of a module: one pass over all its units, which reads names and places and skips all else.

use std::collections::{HashMap, HashSet};

use gimli::{AttributeValue, UnitOffset, constants};

use super::name::plain;
use super::{DebugInformation, Die};
use crate::module::demangle::demangle;
use crate::types::Language;

/// How many levels a qualified name may have.
const DEEPEST: usize = 64;

const NONE: u32 = u32::MAX;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameKind {
    /// A function with code.
    Function,
    /// A function without code of its own: declared in a class, or only ever inlined.
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

/// A name of a unit, a namespace, a class, or a type of a function.
#[derive(Debug)]
pub(crate) struct Name {
    name: Box<str>,
    /// Which entry, in place order; see [`Index::die`].
    pub(crate) die: Die,
    parent: u32,
    next: u32,
    pub(crate) kind: NameKind,
    /// A declaration of what is defined elsewhere.
    pub(crate) declaration: bool,
    /// Seen by other units.
    pub(crate) external: bool,
    /// Inside a function: not to be found by name from outside.
    pub(crate) local: bool,
}

/// All names of a module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    names: Vec<Name>,
    /// The last name of each plain name, by a hash of the latter; the others are linked to it.
    by_plain_name: HashMap<u64, u32>,
    /// For each function that was inlined: the units with copies of it.
    copies: HashMap<Die, Vec<usize>>,
    /// The enumeration of each enumerator, in place order.
    enumerators: Vec<(Die, UnitOffset<usize>)>,
}

/// What the walk remembers of the entries around.
#[derive(Clone, Copy)]
struct Around {
    parent: u32,
    local: bool,
    /// Whether names in here are of interest.
    skip: bool,
    /// The enumeration that this is in.
    enumeration: Option<UnitOffset<usize>>,
}

impl Name {
    /// Whether it completes an entry whose name was not found.
    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

impl Index {
    pub(crate) fn read(debug: &DebugInformation) -> Self {
        let mut index = Self::default();
        let mut incomplete = Vec::new();
        for unit in 0..debug.unit_count() {
            index.read_unit(debug, unit, &mut incomplete);
        }
        index.complete(debug, &incomplete);
        for number in 0..index.names.len() {
            index.link(number);
        }
        index
    }

    fn read_unit(
        &mut self,
        debug: &DebugInformation,
        unit: usize,
        incomplete: &mut Vec<(u32, Die)>,
    ) {
        let Some(found) = debug.unit(unit) else {
            return;
        };
        let dwarf = debug.dwarf_of(unit);
        let Ok(mut entries) = found.entries_raw(None) else {
            return;
        };
        let mut around: Vec<Around> = Vec::new();
        let outermost = Around {
            parent: NONE,
            local: false,
            skip: false,
            enumeration: None,
        };
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let depth = usize::try_from(entries.next_depth()).unwrap_or(0);
            let abbreviation = match entries.read_abbreviation() {
                Ok(Some(abbreviation)) => abbreviation,
                Ok(None) => continue,
                Err(_) => return,
            };
            around.truncate(depth);
            let here = around.last().copied().unwrap_or(outermost);
            let tag = abbreviation.tag();
            let mut below = here;
            let interest = if here.skip && tag != constants::DW_TAG_inlined_subroutine {
                None
            } else {
                interest(tag)
            };
            match interest {
                None => {
                    if entries.skip_attributes(abbreviation.attributes()).is_err() {
                        return;
                    }
                    // What is declared in a function's braces is found through its blocks.
                    below.skip |= matches!(
                        tag,
                        constants::DW_TAG_subroutine_type
                            | constants::DW_TAG_array_type
                            | constants::DW_TAG_formal_parameter
                    );
                }
                Some(interest) => {
                    let mut facts = Facts::default();
                    for &attribute in abbreviation.attributes() {
                        match entries.read_attribute(attribute) {
                            Ok(attribute) => facts.take(&attribute),
                            Err(_) => return,
                        }
                    }
                    if tag == constants::DW_TAG_inlined_subroutine {
                        let origin = facts
                            .origin
                            .and_then(|origin| debug.reference(unit, &origin));
                        if let Some(origin) = origin {
                            let units = self.copies.entry(origin).or_default();
                            if units.last() != Some(&unit) {
                                units.push(unit);
                            }
                        }
                    } else {
                        let name = facts.name.take().and_then(|name| {
                            let name = dwarf.attr_string(found, name).ok()?;
                            Some(Box::<str>::from(
                                &*gimli::Reader::to_string_lossy(&name).ok()?,
                            ))
                        });
                        let die = Die { unit, offset };
                        below = self.name(debug, interest, die, name, &facts, here, incomplete);
                    }
                }
            }
            if abbreviation.has_children() && around.len() < 512 {
                around.push(below);
            }
        }
    }

    /// Takes one name in; what holds for the entries below.
    #[allow(clippy::too_many_arguments)]
    fn name(
        &mut self,
        debug: &DebugInformation,
        interest: Interest,
        die: Die,
        name: Option<Box<str>>,
        facts: &Facts,
        here: Around,
        incomplete: &mut Vec<(u32, Die)>,
    ) -> Around {
        let kind = match interest {
            Interest::Name(kind) => kind,
            Interest::Function if facts.has_code && !facts.declaration => NameKind::Function,
            Interest::Function => NameKind::AbstractFunction,
            Interest::Member if facts.declaration || facts.external => NameKind::Variable,
            Interest::Member => return Around { skip: true, ..here },
            Interest::Copy => return here,
        };
        let mut below = here;
        if kind == NameKind::Enumeration {
            below.enumeration = Some(die.offset);
        }
        if let (NameKind::Enumerator, Some(enumeration)) = (kind, here.enumeration) {
            self.enumerators.push((die, enumeration));
        }
        // A local variable is its block's business.
        if here.local && kind == NameKind::Variable {
            return here;
        }
        let origin = match (&name, &facts.origin) {
            (None, Some(origin)) => debug.reference(die.unit, origin),
            _ => None,
        };
        let name = match (name, origin) {
            (Some(name), _) => name,
            (None, Some(_)) => "".into(),
            (None, None) if kind == NameKind::Namespace => "(anonymous namespace)".into(),
            (None, None) => {
                // An anonymous enumeration's names belong to what is around it.
                if kind == NameKind::Function || kind == NameKind::AbstractFunction {
                    below.local = true;
                }
                // What an anonymous structure declares (a lambda's `operator()`) has no qualification (GDB's rule).
                if matches!(kind, NameKind::Structure | NameKind::Union) {
                    below.parent = NONE;
                }
                return below;
            }
        };
        // The enumerators of an unscoped enumeration belong to what is around it.
        let transparent = kind == NameKind::Enumeration && !facts.scoped;
        let Ok(number) = u32::try_from(self.names.len()) else {
            return below;
        };
        self.names.push(Name {
            name,
            die,
            parent: here.parent,
            next: NONE,
            kind,
            declaration: facts.declaration,
            external: facts.external,
            local: here.local,
        });
        if let Some(origin) = origin {
            incomplete.push((number, origin));
        }
        if !transparent {
            below.parent = number;
        }
        if matches!(kind, NameKind::Function | NameKind::AbstractFunction) {
            below.local = true;
        }
        below
    }

    /// Gives the entries that complete others the names and scopes of those.
    fn complete(&mut self, debug: &DebugInformation, incomplete: &[(u32, Die)]) {
        for &(number, origin) in incomplete {
            let mut target = origin;
            // The origin may complete another entry itself.
            for _ in 0..8 {
                let found = self.at(target);
                if let Some(found) = found
                    && !found.name.is_empty()
                {
                    let (name, parent, external, local) = (
                        found.name.clone(),
                        found.parent,
                        found.external,
                        found.local,
                    );
                    if let Some(entry) = self.names.get_mut(number as usize) {
                        entry.name = name;
                        entry.parent = parent;
                        entry.external |= external;
                        entry.local = local;
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
        if name.name.is_empty() {
            return;
        }
        let before = self
            .by_plain_name
            .insert(hash(plain(&name.name)), link)
            .unwrap_or(NONE);
        if let Some(name) = self.names.get_mut(number) {
            name.next = before;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.names.iter()
    }

    /// The names whose last component without template arguments is `plain_name`, in the order of the file.
    pub(crate) fn named(&self, plain_name: &str) -> Vec<&Name> {
        let mut found = Vec::new();
        let mut next = self.by_plain_name.get(&hash(plain_name)).copied();
        while let Some(name) = next.and_then(|next| self.names.get(next as usize)) {
            if plain(&name.name) == plain_name {
                found.push(name);
            }
            next = (name.next != NONE).then_some(name.next);
        }
        found.reverse();
        found
    }

    /// The name of an entry.
    pub(crate) fn at(&self, die: Die) -> Option<&Name> {
        let index = self
            .names
            .binary_search_by_key(&die, |name| name.die)
            .ok()?;
        self.names.get(index)
    }

    /// The enumeration that an enumerator is of.
    pub(crate) fn enumeration_of(&self, enumerator: Die) -> Option<UnitOffset<usize>> {
        let index = self
            .enumerators
            .binary_search_by_key(&enumerator, |found| found.0)
            .ok()?;
        self.enumerators.get(index).map(|found| found.1)
    }

    /// The units that have inlined copies of a function.
    pub(crate) fn units_with_copies(&self, function: Die) -> &[usize] {
        self.copies.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The name with all that it is in: `ns::Class<int>::method`.
    pub(crate) fn qualified(&self, debug: &DebugInformation, name: &Name) -> String {
        let mut parts = vec![name.name.to_string()];
        let mut parent = name.parent;
        while let Some(around) = self.names.get(parent as usize) {
            if matches!(around.kind, NameKind::Function | NameKind::AbstractFunction)
                && debug.facts(around.die.unit).language == Language::Cpp
            {
                parts.push(self.with_parameters(debug, around));
            } else {
                parts.push(around.name.to_string());
            }
            parent = around.parent;
            if parts.len() > DEEPEST {
                break;
            }
        }
        parts.reverse();
        // A C++ function around a class brings its own qualification with it.
        parts.join("::")
    }

    /// The names of the namespaces, classes and functions that a name is in, outermost first.
    pub(crate) fn scopes(&self, name: &Name) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut parent = name.parent;
        while let Some(around) = self.names.get(parent as usize) {
            parts.push(&*around.name);
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
            .entry(function.die)
            .and_then(|entry| debug.linkage_name(function.die.unit, &entry))
            .and_then(|name| demangle(&name));
        let parameters = linkage_name.as_deref().map_or("()", |name| {
            super::name::components(name)
                .last()
                .map_or("()", |last| super::name::parameters(last))
        });
        format!("{}{parameters}", function.name)
    }

    /// Plain names close to one that was not found, best first.
    pub(crate) fn near<'a>(
        &'a self,
        wanted: &'a str,
        kinds: &'a [NameKind],
    ) -> impl Iterator<Item = (f64, &'a str)> {
        let mut seen = HashSet::new();
        self.names
            .iter()
            .filter(|name| kinds.contains(&name.kind) && !name.local)
            .map(|name| plain(&name.name))
            .filter(move |name| seen.insert(*name))
            .filter_map(move |name| Some((super::nearness(wanted, name)?, name)))
    }
}

/// What to do with an entry.
#[derive(Clone, Copy)]
enum Interest {
    Name(NameKind),
    Function,
    /// Of a class: a static one is a variable.
    Member,
    /// An inlined copy.
    Copy,
}

fn interest(tag: constants::DwTag) -> Option<Interest> {
    Some(match tag {
        constants::DW_TAG_subprogram => Interest::Function,
        constants::DW_TAG_inlined_subroutine => Interest::Copy,
        constants::DW_TAG_variable | constants::DW_TAG_constant => {
            Interest::Name(NameKind::Variable)
        }
        constants::DW_TAG_member => Interest::Member,
        constants::DW_TAG_enumerator => Interest::Name(NameKind::Enumerator),
        constants::DW_TAG_structure_type
        | constants::DW_TAG_class_type
        | constants::DW_TAG_interface_type => Interest::Name(NameKind::Structure),
        constants::DW_TAG_union_type => Interest::Name(NameKind::Union),
        constants::DW_TAG_enumeration_type => Interest::Name(NameKind::Enumeration),
        constants::DW_TAG_typedef => Interest::Name(NameKind::Typedef),
        constants::DW_TAG_base_type | constants::DW_TAG_unspecified_type => {
            Interest::Name(NameKind::BaseType)
        }
        constants::DW_TAG_namespace | constants::DW_TAG_module => {
            Interest::Name(NameKind::Namespace)
        }
        _ => return None,
    })
}

/// The attributes that the index looks at.
#[derive(Default)]
struct Facts {
    name: Option<super::Value>,
    origin: Option<super::Value>,
    declaration: bool,
    external: bool,
    scoped: bool,
    has_code: bool,
}

impl Facts {
    fn take(&mut self, attribute: &gimli::Attribute<crate::module::Reader>) {
        let set = || matches!(attribute.value(), AttributeValue::Flag(true));
        match attribute.name() {
            constants::DW_AT_name => self.name = Some(attribute.value()),
            constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                self.origin = Some(attribute.value());
            }
            constants::DW_AT_declaration => self.declaration = set(),
            constants::DW_AT_external => self.external = set(),
            constants::DW_AT_enum_class => self.scoped = set(),
            constants::DW_AT_low_pc | constants::DW_AT_ranges => self.has_code = true,
            _ => {}
        }
    }
}

/// FNV-1a: the names are many and short, and a hostile file gains little from collisions.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
