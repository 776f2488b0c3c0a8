//! Entries, their attributes, and what they refer to.

use gimli::{AttributeValue, UnitOffset, UnitType, constants};

use super::ranges::code_ranges;
use super::{DebugInformation, Die, Entry, Source, UnitSlot, Value};

/// How many `DW_AT_abstract_origin` and `DW_AT_specification` are followed from one entry.
const LONGEST_ORIGIN_CHAIN: usize = 8;

impl DebugInformation {
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
                let slot = self.slots().get(unit)?;
                if let Some(split) = &slot.split {
                    let start = split.header.debug_info_offset()?.0;
                    let offset = UnitOffset(offset.0.checked_sub(start)?);
                    return Some(Die { unit, offset });
                }
                self.die_at(offset.0, matches!(slot.source, Source::Supplementary))
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
                slots.partition_point(|slot| !matches!(slot.source, Source::Supplementary)),
                slots.len(),
            )
        } else {
            (
                0,
                slots.partition_point(|slot| {
                    matches!(slot.source, Source::Module) && start(slot).is_some()
                }),
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

    /// An attribute of an entry, or of the entry it completes (`DW_AT_abstract_origin`, `DW_AT_specification`), with the unit of
    /// the value.
    pub(crate) fn attribute(&self, die: Die, name: constants::DwAt) -> Option<(usize, Value)> {
        let entry = self.entry(die)?;
        self.attribute_of(die.unit, &entry, name)
    }

    /// As [`attribute`](Self::attribute), for an entry that is already read.
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

    /// The name of an entry, or of the entry it completes.
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

    /// The type of an entry, or of the entry it completes.
    pub(crate) fn type_of(&self, unit: usize, entry: &Entry) -> Option<Die> {
        let (unit, value) = self.attribute_of(unit, entry, constants::DW_AT_type)?;
        self.reference(unit, &value)
    }

    /// Whether an entry has a type, also one that cannot be read.
    pub(crate) fn has_type(&self, unit: usize, entry: &Entry) -> bool {
        self.attribute_of(unit, entry, constants::DW_AT_type)
            .is_some()
    }

    /// The address of a `DW_AT_entry_pc`: a number is one of bytes from the start of the entry's code.
    pub(super) fn entry_pc(&self, unit: usize, entry: &Entry, value: &Value) -> Option<u64> {
        let found = self.unit(unit)?;
        if let Some(address) = self
            .dwarf_of(unit)
            .attr_address(found, value.clone())
            .ok()?
        {
            return Some(address);
        }
        let start = match entry.attr_value(constants::DW_AT_low_pc) {
            Some(low) => self.dwarf_of(unit).attr_address(found, low).ok()??,
            None => self.ranges(unit, entry).first()?.0,
        };
        start.checked_add(value.udata_value()?)
    }

    /// The code of an entry: its ranges in the order of the list, without empty ones and those the linker
    /// dropped.
    pub(crate) fn ranges(&self, unit: usize, entry: &Entry) -> Vec<(u64, u64)> {
        match self.unit(unit) {
            Some(found) => code_ranges(self.dwarf_of(unit), found, entry),
            None => Vec::new(),
        }
    }
}
