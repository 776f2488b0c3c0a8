//! The DWARF of a module: its units, read when they are needed, and the entries in them.

pub(crate) mod block;
pub(crate) mod index;
pub(crate) mod line;
pub(crate) mod location;
pub(crate) mod name;

use std::cell::OnceCell;
use std::sync::Arc;

use gimli::{AttributeValue, Dwarf, SectionId, UnitOffset, UnitType, constants};

use crate::module::{Image, Reader};
use crate::types::Language;
use block::BlockTree;
use index::Index;
use line::LineTable;

pub(crate) type Unit = gimli::Unit<Reader>;
pub(crate) type Entry = gimli::DebuggingInformationEntry<Reader>;
pub(crate) type Value = AttributeValue<Reader>;

/// How many `DW_AT_abstract_origin` and `DW_AT_specification` are followed from one entry.
const LONGEST_ORIGIN_CHAIN: usize = 8;

/// How many address ranges the units of one module may have: a damaged file can name one long list often.
const MOST_UNIT_RANGES: usize = 1 << 21;

/// An entry of a module's debug information.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Die {
    /// Which unit, by its place in [`DebugInformation`].
    pub(crate) unit: usize,
    pub(crate) offset: UnitOffset<usize>,
}

/// The units of a module.
#[derive(Debug)]
pub(crate) struct DebugInformation {
    dwarf: Dwarf<Reader>,
    units: OnceCell<Vec<UnitSlot>>,
    by_address: OnceCell<Vec<UnitRange>>,
    index: OnceCell<Index>,
}

#[derive(Debug)]
struct UnitSlot {
    header: gimli::UnitHeader<Reader>,
    /// Whether it is of the supplementary file.
    supplementary: bool,
    unit: OnceCell<Option<Unit>>,
    facts: OnceCell<Arc<UnitFacts>>,
    blocks: OnceCell<Arc<BlockTree>>,
    files: OnceCell<Arc<Vec<(String, String)>>>,
    lines: OnceCell<Arc<LineTable>>,
}

/// What a unit's root entry says of the whole.
#[derive(Debug)]
pub(crate) struct UnitFacts {
    pub(crate) language: Language,
    /// Whether it is assembler, whose lines are instructions and have no prologue.
    pub(crate) assembler: bool,
    pub(crate) producer: String,
    /// The primary source file, as the compiler was given it.
    pub(crate) name: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) low_pc: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnitRange {
    start: u64,
    end: u64,
    unit: usize,
    /// The greatest end of this and all before it.
    reach: u64,
}

impl DebugInformation {
    pub(crate) fn new(image: &Image, supplementary: Option<&Image>) -> Self {
        let load = |image: &Image| -> Dwarf<Reader> {
            Dwarf::load(
                |id: SectionId| -> Result<Reader, std::convert::Infallible> {
                    Ok(image
                        .section_reader(id.name())
                        .unwrap_or_else(|| image.empty_reader()))
                },
            )
            .unwrap_or_else(|never| match never {})
        };
        let mut dwarf = load(image);
        if let Some(supplementary) = supplementary {
            dwarf.set_sup(load(supplementary));
        }
        Self {
            dwarf,
            units: OnceCell::new(),
            by_address: OnceCell::new(),
            index: OnceCell::new(),
        }
    }

    /// The unit headers, in the order of `.debug_info`, then `.debug_types`, then the supplementary file. A
    /// damaged header ends its section.
    fn slots(&self) -> &[UnitSlot] {
        self.units.get_or_init(|| {
            let slot = |header, supplementary| UnitSlot {
                header,
                supplementary,
                unit: OnceCell::new(),
                facts: OnceCell::new(),
                blocks: OnceCell::new(),
                files: OnceCell::new(),
                lines: OnceCell::new(),
            };
            let mut slots = Vec::new();
            let mut units = self.dwarf.units();
            while let Ok(Some(header)) = units.next() {
                slots.push(slot(header, false));
            }
            let mut units = self.dwarf.type_units();
            while let Ok(Some(header)) = units.next() {
                slots.push(slot(header, false));
            }
            if let Some(supplementary) = self.dwarf.sup() {
                let mut units = supplementary.units();
                while let Ok(Some(header)) = units.next() {
                    slots.push(slot(header, true));
                }
            }
            slots
        })
    }

    pub(crate) fn unit_count(&self) -> usize {
        self.slots().len()
    }

    /// The sections that a unit's offsets refer to.
    pub(crate) fn dwarf_of(&self, unit: usize) -> &Dwarf<Reader> {
        match self.slots().get(unit) {
            Some(slot) if slot.supplementary => self.dwarf.sup().unwrap_or(&self.dwarf),
            _ => &self.dwarf,
        }
    }

    pub(crate) fn unit(&self, unit: usize) -> Option<&Unit> {
        let slot = self.slots().get(unit)?;
        slot.unit
            .get_or_init(|| {
                self.dwarf_of(unit)
                    .unit(slot.header.clone())
                    .ok()
                    .filter(|unit| matches!(unit.header.address_size(), 4 | 8))
            })
            .as_ref()
    }

    /// Whether it is a unit of one type, named by a signature.
    pub(crate) fn is_type_unit(&self, unit: usize) -> bool {
        self.slots().get(unit).is_some_and(|slot| {
            matches!(
                slot.header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. }
            )
        })
    }

    pub(crate) fn facts(&self, unit: usize) -> Arc<UnitFacts> {
        let read = || {
            let root = self
                .unit(unit)
                .and_then(|found| found.entry(found.header.root_offset()).ok());
            let text = |name| {
                root.as_ref()
                    .and_then(|root| self.string(unit, root.attr_value(name)?))
            };
            let language = match root
                .as_ref()
                .and_then(|r| r.attr_value(constants::DW_AT_language))
            {
                Some(AttributeValue::Language(language)) => Some(language),
                _ => None,
            };
            Arc::new(UnitFacts {
                language: language.map_or(Language::C, language_of),
                assembler: matches!(language, Some(constants::DW_LANG_Mips_Assembler)),
                producer: text(constants::DW_AT_producer).unwrap_or_default(),
                name: text(constants::DW_AT_name),
                directory: text(constants::DW_AT_comp_dir),
                low_pc: self.unit(unit).map_or(0, |unit| unit.low_pc),
            })
        };
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(slot.facts.get_or_init(read)),
            None => read(),
        }
    }

    /// The functions and blocks of a unit.
    pub(crate) fn blocks(&self, unit: usize) -> Arc<BlockTree> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.blocks
                    .get_or_init(|| Arc::new(BlockTree::read(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The line table of a unit.
    pub(crate) fn lines(&self, unit: usize) -> Arc<LineTable> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.lines
                    .get_or_init(|| Arc::new(LineTable::read(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The files of a unit's line table (name as given, full path), without running its program.
    pub(crate) fn file_names(&self, unit: usize) -> Arc<Vec<(String, String)>> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.files
                    .get_or_init(|| Arc::new(line::file_names(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The names of the module.
    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::read(self))
    }

    /// The unit that has the code at a link-time address; the one with the smallest range where several do.
    pub(crate) fn unit_at(&self, address: u64) -> Option<usize> {
        let ranges = self.by_address.get_or_init(|| self.read_ranges());
        let end = ranges.partition_point(|range| range.start <= address);
        ranges
            .get(..end)?
            .iter()
            .rev()
            .take_while(|range| range.reach > address)
            .filter(|range| range.end > address)
            .min_by_key(|range| range.end - range.start)
            .map(|range| range.unit)
    }

    fn read_ranges(&self) -> Vec<UnitRange> {
        let mut ranges = Vec::new();
        for number in 0..self.unit_count() {
            let Some(unit) = self.unit(number) else {
                continue;
            };
            let before = ranges.len();
            if let Ok(mut list) = self.dwarf_of(number).unit_ranges(unit) {
                while let Ok(Some(range)) = list.next() {
                    // Code that the linker dropped is at 0.
                    if range.begin < range.end && range.begin != 0 {
                        ranges.push((range.begin, range.end, number));
                    }
                }
            }
            if ranges.len() == before && self.may_have_code(unit) {
                let blocks = self.blocks(number);
                ranges.extend(
                    blocks
                        .function_ranges()
                        .map(|(start, end)| (start, end, number)),
                );
            }
            if ranges.len() > MOST_UNIT_RANGES {
                break;
            }
        }
        ranges.sort_unstable();
        let mut reach = 0;
        ranges
            .into_iter()
            .map(|(start, end, unit)| {
                reach = reach.max(end);
                UnitRange {
                    start,
                    end,
                    unit,
                    reach,
                }
            })
            .collect()
    }

    /// Whether a unit that gives no ranges may have code all the same.
    fn may_have_code(&self, unit: &Unit) -> bool {
        let Ok(root) = unit.entry(unit.header.root_offset()) else {
            return false;
        };
        root.tag() == constants::DW_TAG_compile_unit
            && root.has_children()
            && !root.has_attr(constants::DW_AT_ranges)
            && !root.has_attr(constants::DW_AT_low_pc)
    }

    pub(crate) fn entry(&self, die: Die) -> Option<Entry> {
        self.unit(die.unit)?.entry(die.offset).ok()
    }

    /// The entries directly below one.
    pub(crate) fn children(&self, die: Die) -> Vec<Entry> {
        let mut children = Vec::new();
        let Some(unit) = self.unit(die.unit) else {
            return children;
        };
        let Ok(mut tree) = unit.entries_tree(Some(die.offset)) else {
            return children;
        };
        if let Ok(root) = tree.root() {
            let mut nodes = root.children();
            while let Ok(Some(node)) = nodes.next() {
                children.push(node.entry().clone());
            }
        }
        children
    }

    /// The enumeration that an enumerator is of.
    pub(crate) fn enumeration_of(&self, enumerator: Die) -> Option<Die> {
        let enumeration = self.index().enumeration_of(enumerator)?;
        Some(Die {
            unit: enumerator.unit,
            offset: enumeration,
        })
    }

    /// The text of a string attribute.
    pub(crate) fn string(&self, unit: usize, value: Value) -> Option<String> {
        let found = self.unit(unit)?;
        let text = self.dwarf_of(unit).attr_string(found, value).ok()?;
        Some(gimli::Reader::to_string_lossy(&text).ok()?.into_owned())
    }

    /// The entry that a reference names.
    pub(crate) fn reference(&self, unit: usize, value: &Value) -> Option<Die> {
        match *value {
            AttributeValue::UnitRef(offset) => Some(Die { unit, offset }),
            AttributeValue::DebugInfoRef(offset) => {
                let supplementary = self.slots().get(unit)?.supplementary;
                self.die_at(offset.0, supplementary)
            }
            AttributeValue::DebugInfoRefSup(offset) => self.die_at(offset.0, true),
            AttributeValue::DebugTypesRef(signature) => self.type_unit(signature),
            _ => None,
        }
    }

    /// The entry at an offset into `.debug_info`.
    pub(crate) fn die_at(&self, offset: usize, supplementary: bool) -> Option<Die> {
        let slots = self.slots();
        let start = |slot: &UnitSlot| Some(slot.header.debug_info_offset()?.0);
        // `.debug_info` comes first and is in order; the supplementary file is last and in order, too.
        let (low, high) = if supplementary {
            (
                slots.partition_point(|slot| !slot.supplementary),
                slots.len(),
            )
        } else {
            (
                0,
                slots.partition_point(|slot| !slot.supplementary && start(slot).is_some()),
            )
        };
        let part = slots.get(low..high)?;
        let after = part.partition_point(|slot| start(slot).is_some_and(|start| start <= offset));
        let index = low + after.checked_sub(1)?;
        let unit_offset = offset.checked_sub(start(slots.get(index)?)?)?;
        Some(Die {
            unit: index,
            offset: UnitOffset(unit_offset),
        })
    }

    fn type_unit(&self, wanted: gimli::DebugTypeSignature) -> Option<Die> {
        self.slots()
            .iter()
            .enumerate()
            .find_map(|(unit, slot)| match slot.header.type_() {
                UnitType::Type {
                    type_signature,
                    type_offset,
                }
                | UnitType::SplitType {
                    type_signature,
                    type_offset,
                } if type_signature == wanted => Some(Die {
                    unit,
                    offset: type_offset,
                }),
                _ => None,
            })
    }

    /// An attribute of an entry, or of the entry it completes (`DW_AT_abstract_origin`,
    /// `DW_AT_specification`), with the unit that the value belongs to.
    pub(crate) fn attribute(&self, die: Die, name: constants::DwAt) -> Option<(usize, Value)> {
        let entry = self.entry(die)?;
        self.attribute_of(die.unit, &entry, name)
    }

    /// As [`attribute`](Self::attribute), of an entry at hand.
    pub(crate) fn attribute_of(
        &self,
        unit: usize,
        entry: &Entry,
        name: constants::DwAt,
    ) -> Option<(usize, Value)> {
        if let Some(value) = entry.attr_value(name) {
            return Some((unit, value));
        }
        let mut origin = self.origin(unit, entry);
        for _ in 0..LONGEST_ORIGIN_CHAIN {
            let die = origin?;
            let entry = self.entry(die)?;
            if let Some(value) = entry.attr_value(name) {
                return Some((die.unit, value));
            }
            origin = self.origin(die.unit, &entry);
        }
        None
    }

    /// The entry that this one completes.
    pub(crate) fn origin(&self, unit: usize, entry: &Entry) -> Option<Die> {
        let value = entry
            .attr_value(constants::DW_AT_abstract_origin)
            .or_else(|| entry.attr_value(constants::DW_AT_specification))?;
        self.reference(unit, &value)
    }

    /// The name of an entry, its own or that of the entry it completes.
    pub(crate) fn name(&self, unit: usize, entry: &Entry) -> Option<String> {
        let (unit, value) = self.attribute_of(unit, entry, constants::DW_AT_name)?;
        self.string(unit, value)
    }

    /// The name for the linker.
    pub(crate) fn linkage_name(&self, unit: usize, entry: &Entry) -> Option<String> {
        let (unit, value) = self
            .attribute_of(unit, entry, constants::DW_AT_linkage_name)
            .or_else(|| self.attribute_of(unit, entry, constants::DW_AT_MIPS_linkage_name))?;
        self.string(unit, value)
    }

    /// The type that an entry has, its own or that of the entry it completes.
    pub(crate) fn type_of(&self, unit: usize, entry: &Entry) -> Option<Die> {
        let (unit, value) = self.attribute_of(unit, entry, constants::DW_AT_type)?;
        self.reference(unit, &value)
    }

    /// The code of an entry: its ranges in the order of the list, without empty ones and those the linker
    /// dropped.
    pub(crate) fn ranges(&self, unit: usize, entry: &Entry) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        let Some(found) = self.unit(unit) else {
            return ranges;
        };
        if let Ok(mut list) = self.dwarf_of(unit).die_ranges(found, entry) {
            while let Ok(Some(range)) = list.next() {
                if range.begin < range.end && range.begin != 0 {
                    ranges.push((range.begin, range.end));
                }
                if ranges.len() > MOST_UNIT_RANGES {
                    break;
                }
            }
        }
        ranges
    }
}

/// Whether a flag is set.
pub(crate) fn flag(entry: &Entry, name: constants::DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}

fn language_of(language: constants::DwLang) -> Language {
    match language {
        constants::DW_LANG_C_plus_plus
        | constants::DW_LANG_C_plus_plus_03
        | constants::DW_LANG_C_plus_plus_11
        | constants::DW_LANG_C_plus_plus_14
        | constants::DW_LANG_C_plus_plus_17
        | constants::DW_LANG_C_plus_plus_20
        | constants::DW_LANG_ObjC_plus_plus => Language::Cpp,
        constants::DW_LANG_Rust => Language::Rust,
        _ => Language::C,
    }
}

/// How close two names are, from 0 to 1; none if not close.
pub(crate) fn nearness(wanted: &str, name: &str) -> Option<f64> {
    // Too different in length to be close: saves the comparison.
    let (short, long) = if wanted.len() < name.len() {
        (wanted.len(), name.len())
    } else {
        (name.len(), wanted.len())
    };
    if long > 128 || short * 2 < long {
        return None;
    }
    let nearness = strsim::normalized_damerau_levenshtein(wanted, name);
    (nearness > 0.6).then_some(nearness)
}
