//! Where the variables of an entry are.

use std::sync::Arc;

use gimli::{AttributeValue, Operation, RawLocListEntry, constants};

use super::{DebugInformation, Entry, Unit, Value};
use crate::location_expression::{LocationExpression, ThreadLocalOffset, VariableLocation};
use crate::module::{Module, Reader};
use crate::types::read::constant;

/// The most ranges that are looked at of one location list.
const MOST_RANGES: usize = 4096;

/// The data needed to find a variable.
pub(crate) struct Finder<'a> {
    pub(crate) module: &'a Module,
    /// The size of the variable's type.
    pub(crate) size: Option<u64>,
    /// The link-time pc; `None` for a variable that is looked up without a place.
    pub(crate) pc: Option<u64>,
    /// Whether the pc is the entry of its function.
    pub(crate) at_entry: bool,
}

impl Finder<'_> {
    /// The place of the variable that an entry of a unit describes.
    pub(crate) fn find(&self, unit: usize, entry: &Entry) -> VariableLocation {
        let debug = self.module.debug();
        if let Some((unit, value)) = debug.attribute_of(unit, entry, constants::DW_AT_location) {
            return match self.expression(debug, unit, &value) {
                Ok(Some(expression)) => self.classify(expression),
                Ok(None) => VariableLocation::OptimizedOut,
                Err(reason) => VariableLocation::Unknown(reason),
            };
        }
        match debug.attribute_of(unit, entry, constants::DW_AT_const_value) {
            Some((unit, value)) => self.constant(debug, unit, &value),
            None => VariableLocation::OptimizedOut,
        }
    }

    /// The expression of an attribute: its own, or the one in its list for the pc.
    pub(crate) fn expression(
        &self,
        debug: &DebugInformation,
        number: usize,
        value: &Value,
    ) -> Result<Option<LocationExpression>, String> {
        let unit = debug.unit(number).ok_or("its unit is damaged")?;
        let bytes = match value {
            AttributeValue::Exprloc(expression) => Some(expression.0.clone()),
            AttributeValue::Block(bytes) => Some(bytes.clone()),
            other => self.listed(debug, number, unit, other)?,
        };
        Ok(bytes
            .filter(|bytes| !gimli::Reader::is_empty(bytes))
            .map(|bytes| self.of_unit(debug, number, unit, bytes)))
    }

    fn of_unit(
        &self,
        debug: &DebugInformation,
        number: usize,
        unit: &Unit,
        bytes: Reader,
    ) -> LocationExpression {
        LocationExpression {
            bytes,
            encoding: unit.encoding(),
            module: self.module.info.id,
            unit: Some(number),
            bias: self.module.info.bias,
            addresses: Some((debug.dwarf_of(number).debug_addr.clone(), unit.addr_base)),
        }
    }

    /// The link-time addresses at which a location list has a location, from the first to one past the last, each with that;
    /// none for a location that is no list.
    pub(crate) fn ranges(
        &self,
        debug: &DebugInformation,
        number: usize,
        value: &Value,
    ) -> Result<Vec<(u64, u64, LocationExpression)>, String> {
        let unit = debug.unit(number).ok_or("its unit is damaged")?;
        let damaged = |error: gimli::Error| format!("damaged location list: {error}");
        let dwarf = debug.dwarf_of(number);
        let mut found = Vec::new();
        if matches!(value, AttributeValue::Exprloc(_) | AttributeValue::Block(_)) {
            return Ok(found);
        }
        let Some(mut list) = dwarf.attr_locations(unit, value.clone()).map_err(damaged)? else {
            return Ok(found);
        };
        while let Some(entry) = list.next().map_err(damaged)? {
            let bytes = entry.data.0;
            if entry.range.begin < entry.range.end && !gimli::Reader::is_empty(&bytes) {
                let expression = self.of_unit(debug, number, unit, bytes);
                found.push((entry.range.begin, entry.range.end, expression));
            }
            if found.len() >= MOST_RANGES {
                break;
            }
        }
        Ok(found)
    }

    /// The entry of a location list that holds at the pc.
    fn listed(
        &self,
        debug: &DebugInformation,
        number: usize,
        unit: &Unit,
        value: &Value,
    ) -> Result<Option<Reader>, String> {
        let dwarf = debug.dwarf_of(number);
        let damaged = |error: gimli::Error| format!("damaged location list: {error}");
        let Some(mut list) = dwarf.attr_locations(unit, value.clone()).map_err(damaged)? else {
            return Err("its location is of an unknown form".to_owned());
        };
        let Some(pc) = self.pc else {
            return Ok(None);
        };
        let mut base = unit.low_pc;
        while let Some(raw) = list.next_raw().map_err(damaged)? {
            match raw {
                RawLocListEntry::BaseAddress { addr } => base = addr,
                RawLocListEntry::BaseAddressx { addr } => {
                    base = dwarf.address(unit, addr).map_err(damaged)?;
                }
                // An entry of no length holds at the entry of the function only (GDB's rule).
                RawLocListEntry::OffsetPair {
                    begin,
                    end,
                    ref data,
                }
                | RawLocListEntry::AddressOrOffsetPair {
                    begin,
                    end,
                    ref data,
                } if begin == end && self.at_entry && base.wrapping_add(begin) == pc => {
                    return Ok(Some(data.0.clone()));
                }
                _ => {}
            }
            if let Some(found) = list.convert_raw(raw).map_err(damaged)?
                && found.range.begin <= pc
                && pc < found.range.end
            {
                return Ok(Some(found.data.0));
            }
        }
        Ok(None)
    }

    /// Distinguishes places that are fixed for the whole run from the rest.
    fn classify(&self, expression: LocationExpression) -> VariableLocation {
        let operations = match expression.operations() {
            Ok(operations) => operations,
            Err(reason) => return VariableLocation::Unknown(reason),
        };
        let mut only = operations.iter().map(|(_, operation)| operation);
        match (only.next(), only.next(), only.next()) {
            (Some(Operation::Address { address }), None, None) => {
                VariableLocation::Static(tracewire_model::Address(*address))
            }
            (
                Some(Operation::Address { address }),
                Some(Operation::PlusConstant { value }),
                None,
            ) => VariableLocation::Static(tracewire_model::Address(address.wrapping_add(*value))),
            (Some(Operation::UnsignedConstant { value }), Some(Operation::TLS), None) => {
                VariableLocation::ThreadLocal(thread_local_offset(self.module, *value))
            }
            // Some linkers' tables have the offset as an address, to which the bias was added.
            (Some(Operation::Address { address }), Some(Operation::TLS), None) => {
                let offset = address.wrapping_sub(self.module.info.bias);
                VariableLocation::ThreadLocal(thread_local_offset(self.module, offset))
            }
            (None, ..) => VariableLocation::OptimizedOut,
            _ => VariableLocation::Expression(expression),
        }
    }

    /// The bytes of a `DW_AT_const_value`.
    fn constant(&self, debug: &DebugInformation, unit: usize, value: &Value) -> VariableLocation {
        let size = self
            .size
            .and_then(|size| usize::try_from(size).ok())
            // No constant of the debug information is larger than its section.
            .filter(|&size| size <= self.module.image().bytes.len());
        let Some(size) = size else {
            return VariableLocation::Unknown("the size of its type is not known".to_owned());
        };
        let mut bytes = match value {
            AttributeValue::Block(bytes) => match gimli::Reader::to_slice(bytes) {
                Ok(slice) => slice.into_owned(),
                Err(error) => return VariableLocation::Unknown(error.to_string()),
            },
            AttributeValue::Addr(_) | AttributeValue::DebugAddrIndex(_) => {
                let address = debug.unit(unit).and_then(|found| {
                    debug
                        .dwarf_of(unit)
                        .attr_address(found, value.clone())
                        .ok()
                        .flatten()
                });
                match address {
                    Some(address) => self.number(self.module.biased(address).0.into()),
                    None => return VariableLocation::Unknown("damaged address".to_owned()),
                }
            }
            other => match constant(other) {
                Some(number) => self.number(number),
                None => match debug.string(unit, other.clone()) {
                    Some(text) => text.into_bytes(),
                    None => {
                        return VariableLocation::Unknown(
                            "its value is of an unknown form".to_owned(),
                        );
                    }
                },
            },
        };
        let little = self.module.image().endian == gimli::RunTimeEndian::Little;
        let numeric = !matches!(value, AttributeValue::Block(_));
        if !little && numeric && bytes.len() > size {
            bytes.drain(..bytes.len() - size);
        }
        bytes.resize(size, 0);
        VariableLocation::Constant(Arc::from(bytes))
    }

    fn number(&self, number: i128) -> Vec<u8> {
        if self.module.image().endian == gimli::RunTimeEndian::Little {
            number.to_le_bytes().to_vec()
        } else {
            number.to_be_bytes().to_vec()
        }
    }
}

/// The place of a thread-local variable at `offset` in its module's thread-local segment.
///
/// The first module is the program: its block ends at the thread pointer, rounded up to the segment's alignment
/// (the second variant of the ELF thread-local storage ABI, which x86 uses).
pub(crate) fn thread_local_offset(module: &Module, offset: u64) -> ThreadLocalOffset {
    let program = module.info.id.0 == 0;
    match module.image().thread_local {
        Some((size, alignment)) if program => {
            let alignment = alignment.max(1);
            let rounded = size.checked_next_multiple_of(alignment).unwrap_or(size);
            ThreadLocalOffset::FromThreadPointer(offset.wrapping_sub(rounded).cast_signed())
        }
        _ => ThreadLocalOffset::InLibrary(offset),
    }
}
